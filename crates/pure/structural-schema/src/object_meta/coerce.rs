//! Brings embedded metadata into the form of `ObjectMeta`, or refuses it
//! (apiextensions-apiserver `schema/objectmeta`).

use rekindle_types::validation::{FieldError, field_error::FieldProblem};
use serde_json::{Map, Value};

use crate::{
    StructuralSchema,
    shown::shown,
    unknown_fields::UnknownFields,
    validation::{ValuePath, field_below},
};

/// The JSON type of a field of `ObjectMeta`.
#[derive(Clone, Copy)]
enum MetaField {
    Text,
    Int,
    Bool,
    Time,
    Texts,
    TextMap,
    Records(&'static str, &'static [(&'static str, MetaField)]),
    Raw,
}

const OBJECT_META: &[(&str, MetaField)] = &[
    ("name", MetaField::Text),
    ("generateName", MetaField::Text),
    ("namespace", MetaField::Text),
    ("selfLink", MetaField::Text),
    ("uid", MetaField::Text),
    ("resourceVersion", MetaField::Text),
    ("generation", MetaField::Int),
    ("creationTimestamp", MetaField::Time),
    ("deletionTimestamp", MetaField::Time),
    ("deletionGracePeriodSeconds", MetaField::Int),
    ("labels", MetaField::TextMap),
    ("annotations", MetaField::TextMap),
    ("ownerReferences", MetaField::Records("v1.OwnerReference", OWNER_REFERENCE)),
    ("finalizers", MetaField::Texts),
    ("managedFields", MetaField::Records("v1.ManagedFieldsEntry", MANAGED_FIELDS)),
];
const OWNER_REFERENCE: &[(&str, MetaField)] = &[
    ("apiVersion", MetaField::Text),
    ("kind", MetaField::Text),
    ("name", MetaField::Text),
    ("uid", MetaField::Text),
    ("controller", MetaField::Bool),
    ("blockOwnerDeletion", MetaField::Bool),
];
const MANAGED_FIELDS: &[(&str, MetaField)] = &[
    ("manager", MetaField::Text),
    ("operation", MetaField::Text),
    ("apiVersion", MetaField::Text),
    ("time", MetaField::Time),
    ("fieldsType", MetaField::Text),
    ("fieldsV1", MetaField::Raw),
    ("subresource", MetaField::Text),
];

impl MetaField {
    fn go_type(self) -> String {
        match self {
            Self::Text => "string".to_owned(),
            Self::Int => "int64".to_owned(),
            Self::Bool => "bool".to_owned(),
            Self::Time => "v1.Time".to_owned(),
            Self::Texts => "[]string".to_owned(),
            Self::TextMap => "map[string]string".to_owned(),
            Self::Records(name, _) => format!("[]{name}"),
            Self::Raw => "v1.FieldsV1".to_owned(),
        }
    }

    /// Whether a value is what an absent field is, so that it is not written.
    fn is_omitted(self, value: &Value) -> bool {
        match self {
            Self::Text => value == "",
            Self::Int => value == 0,
            Self::Bool | Self::Time | Self::Raw => false,
            Self::Texts | Self::TextMap | Self::Records(..) => match value {
                Value::Array(items) => items.is_empty(),
                Value::Object(fields) => fields.is_empty(),
                _ => false,
            },
        }
    }
}

fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

impl StructuralSchema {
    /// Checks the types of embedded metadata and drops its unknown fields. Returns their paths in
    /// sorted order, as strict field validation names them: the first hundred that were found.
    ///
    /// # Errors
    /// A field of the wrong type: upstream answers such a request with 400.
    pub fn coerce_embedded(&self, object: &mut Value) -> Result<Vec<String>, FieldError> {
        let mut unknown = UnknownFields::default();
        self.coerce(object, self.is_embedded_resource, &ValuePath::Root, &mut unknown)?;
        Ok(unknown.sorted())
    }

    /// Checks the types of embedded metadata, and of the object's own.
    pub(crate) fn coerce_resource(&self, object: &mut Value) -> Result<(), FieldError> {
        self.coerce(object, true, &ValuePath::Root, &mut UnknownFields::default())
    }

    fn coerce(
        &self,
        value: &mut Value,
        is_resource: bool,
        path: &ValuePath<'_>,
        unknown: &mut UnknownFields,
    ) -> Result<(), FieldError> {
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    let place = ValuePath::Field(path, name);
                    match name.as_str() {
                        "apiVersion" | "kind" if is_resource && !field.is_string() => {
                            return Err(refused(&place, field, "must be a string".to_owned()));
                        }
                        "metadata" if is_resource => coerce_metadata(field, &place, unknown)?,
                        _ => {}
                    }
                    if let Some(schema) = self.properties.get(name.as_str()) {
                        schema.coerce(field, schema.is_embedded_resource, &place, unknown)?;
                    } else if let Some(schema) = self.of_field(name) {
                        let place = ValuePath::Key(path, name);
                        schema.coerce(field, schema.is_embedded_resource, &place, unknown)?;
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = &self.items else { return Ok(()) };
                for (at, item) in items.iter_mut().enumerate() {
                    let place = ValuePath::Index(path, at);
                    schema.coerce(item, schema.is_embedded_resource, &place, unknown)?;
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        Ok(())
    }
}

fn refused(path: &ValuePath<'_>, value: &Value, detail: String) -> FieldError {
    FieldError {
        field: field_below("", &path.text()),
        problem: FieldProblem::Invalid(shown(value)),
        detail,
    }
}

fn coerce_metadata(
    metadata: &mut Value,
    path: &ValuePath<'_>,
    unknown: &mut UnknownFields,
) -> Result<(), FieldError> {
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
        return Ok(());
    }
    let coerced = match metadata {
        Value::Object(fields) => {
            let mut coerced = fields.clone();
            coerce_fields(&mut coerced, OBJECT_META, "ObjectMeta", path, unknown).map(|()| coerced)
        }
        ref other => Err(format!(
            "json: cannot unmarshal {} into Go value of type v1.ObjectMeta",
            json_kind(other)
        )),
    };
    match coerced {
        Ok(coerced) => *metadata = Value::Object(coerced),
        Err(problem) => return Err(refused(path, metadata, problem)),
    }
    Ok(())
}

fn coerce_fields(
    fields: &mut Map<String, Value>,
    known: &[(&str, MetaField)],
    go_path: &str,
    path: &ValuePath<'_>,
    unknown: &mut UnknownFields,
) -> Result<(), String> {
    let mut problem = None;
    fields.retain(|name, value| {
        let place = ValuePath::Field(path, name);
        let Some((_, kind)) = known.iter().find(|(known, _)| known == name) else {
            unknown.add(&place);
            return false;
        };
        if value.is_null() {
            return false;
        }
        let coerced = coerce_field(value, *kind, &format!("{go_path}.{name}"), &place, unknown);
        if let Err(first) = coerced {
            problem.get_or_insert(first);
        }
        !kind.is_omitted(value)
    });
    problem.map_or(Ok(()), Err)
}

fn coerce_field(
    value: &mut Value,
    kind: MetaField,
    go_path: &str,
    path: &ValuePath<'_>,
    unknown: &mut UnknownFields,
) -> Result<(), String> {
    let wrong = |value: &Value, go_type: &str| {
        let found = json_kind(value);
        format!("json: cannot unmarshal {found} into Go struct field {go_path} of type {go_type}")
    };
    match (kind, &mut *value) {
        (MetaField::Text, Value::String(_))
        | (MetaField::Bool, Value::Bool(_))
        | (MetaField::Raw, _) => Ok(()),
        (MetaField::Int, Value::Number(number)) if number.is_i64() => Ok(()),
        (MetaField::Time, Value::String(text)) => {
            if crate::formats::parse_date_time(text).is_some() {
                return Ok(());
            }
            let layout = "2006-01-02T15:04:05Z07:00";
            Err(format!("parsing time {text:?} as {layout:?}: cannot parse {text:?} as \"2006\""))
        }
        (MetaField::Texts, Value::Array(items)) => items
            .iter()
            .find(|item| !item.is_string())
            .map_or(Ok(()), |item| Err(wrong(item, "string"))),
        (MetaField::TextMap, Value::Object(entries)) => {
            for entry in entries.values_mut().filter(|entry| entry.is_null()) {
                *entry = Value::String(String::new());
            }
            let other = entries.values().find(|entry| !entry.is_string());
            other.map_or(Ok(()), |entry| Err(wrong(entry, "string")))
        }
        (MetaField::Records(name, known), Value::Array(items)) => {
            for (at, item) in items.iter_mut().enumerate() {
                let Value::Object(fields) = item else { return Err(wrong(item, name)) };
                let place = ValuePath::Index(path, at);
                coerce_fields(fields, known, go_path, &place, unknown)?;
            }
            Ok(())
        }
        _ => Err(wrong(value, &kind.go_type())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> StructuralSchema {
        StructuralSchema::compile(&json!({"type": "object", "properties": {"spec": {
            "type": "object",
            "properties": {"inner": {
                "type": "object",
                "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true,
            }},
        }}}))
        .unwrap()
    }

    #[test]
    fn unknown_metadata_is_dropped_and_named() {
        let inner = json!({"apiVersion": "v1", "kind": "Thing", "spec": {"z": 1}, "metadata": {
            "name": "x", "labels": {"a": "b"}, "colour": "red", "creationTimestamp": null,
            "ownerReferences": [{"kind": "K", "shade": 1}],
        }});
        let mut object = json!({"spec": {"inner": inner}});
        let unknown = schema().coerce_embedded(&mut object).unwrap();
        assert_eq!(
            unknown,
            ["spec.inner.metadata.colour", "spec.inner.metadata.ownerReferences[0].shade"]
        );
        let kept = json!({
            "name": "x", "labels": {"a": "b"}, "ownerReferences": [{"kind": "K"}],
        });
        assert_eq!(object["spec"]["inner"]["metadata"], kept);
        assert_eq!(object["spec"]["inner"]["spec"], json!({"z": 1}));
    }

    #[test]
    fn metadata_of_a_wrong_type_is_refused_in_upstream_s_words() {
        let inner = json!({"apiVersion": "v1", "kind": "T", "metadata": {"labels": {"a": 1}}});
        let error = schema().coerce_embedded(&mut json!({"spec": {"inner": inner}})).unwrap_err();
        assert_eq!(
            error.to_string(),
            "spec.inner.metadata: Invalid value: {\"labels\":{\"a\":1}}: json: cannot unmarshal \
             number into Go struct field ObjectMeta.labels of type string"
        );
    }
}
