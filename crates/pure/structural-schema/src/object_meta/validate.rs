//! Validates `apiVersion`, `kind` and `metadata` of embedded resources.

use std::collections::BTreeMap;

use rekindle_types::validation::{FieldError, Path, labels, names};
use serde_json::{Map, Value};

use crate::{
    StructuralSchema,
    error_list::ErrorList,
    validation::{ValuePath, field_below},
};

impl StructuralSchema {
    /// Checks the resources that are embedded in an object.
    pub(crate) fn validate_embedded(&self, object: &Value) -> Vec<FieldError> {
        self.validate_resources(object, self.is_embedded_resource)
    }

    /// Checks embedded resources, and `object` itself if it is one.
    pub(crate) fn validate_resources(&self, object: &Value, is_resource: bool) -> Vec<FieldError> {
        let mut errors = ErrorList::default();
        self.find_resources(object, is_resource, &ValuePath::Root, &mut errors);
        errors.into_vec()
    }

    fn find_resources(
        &self,
        value: &Value,
        is_resource: bool,
        path: &ValuePath<'_>,
        errors: &mut ErrorList,
    ) {
        if errors.is_full() {
            return;
        }
        match value {
            Value::Object(fields) => {
                if is_resource {
                    resource(fields, path, errors);
                }
                for (name, field) in fields {
                    if let Some(schema) = self.properties.get(name.as_str()) {
                        let place = ValuePath::Field(path, name);
                        schema.find_resources(field, schema.is_embedded_resource, &place, errors);
                    } else if let Some(schema) = self.of_field(name) {
                        let place = ValuePath::Key(path, name);
                        schema.find_resources(field, schema.is_embedded_resource, &place, errors);
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = &self.items else { return };
                for (at, item) in items.iter().enumerate() {
                    let place = ValuePath::Index(path, at);
                    schema.find_resources(item, schema.is_embedded_resource, &place, errors);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

fn resource(fields: &Map<String, Value>, path: &ValuePath<'_>, errors: &mut ErrorList) {
    let field = |name: &str| field_below("", &ValuePath::Field(path, name).text());
    for name in ["apiVersion", "kind"] {
        if !fields.contains_key(name) {
            errors.push(FieldError::required(field(name), ""));
        }
    }
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    if let Some(version) = text("apiVersion") {
        if version.is_empty() {
            errors.push(FieldError::invalid(field("apiVersion"), version, "must not be empty"));
        } else if version.matches('/').count() > 1 {
            let detail = format!("unexpected GroupVersion string: {version}");
            errors.push(FieldError::invalid(field("apiVersion"), version, detail));
        }
    }
    if let Some(kind) = text("kind") {
        let problems = names::dns_1035_label(&kind.to_lowercase());
        if kind.is_empty() {
            errors.push(FieldError::invalid(field("kind"), kind, "must not be empty"));
        } else if !problems.is_empty() {
            let rule = problems.join(",");
            let detail = format!("may have mixed case, but should otherwise match: {rule}");
            errors.push(FieldError::invalid(field("kind"), kind, detail));
        }
    }
    if let Some(Value::Object(metadata)) = fields.get("metadata") {
        object_meta(metadata, &field("metadata"), errors);
    }
}

fn object_meta(metadata: &Map<String, Value>, field: &str, errors: &mut ErrorList) {
    let text = |name: &str| metadata.get(name).and_then(Value::as_str).filter(|t| !t.is_empty());
    let mut report = |name: &str, value: &str, problems: Vec<String>| {
        for problem in problems {
            errors.push(FieldError::invalid(format!("{field}.{name}"), value, problem));
        }
    };
    for name in ["generateName", "name"] {
        if let Some(value) = text(name) {
            report(name, value, names::path_segment(value));
        }
    }
    if let Some(namespace) = text("namespace") {
        report("namespace", namespace, names::dns_label(namespace));
    }
    for finalizer in metadata.get("finalizers").and_then(Value::as_array).into_iter().flatten() {
        let finalizer = finalizer.as_str().unwrap_or_default();
        report("finalizers", finalizer, names::qualified(finalizer));
    }
    let annotations = metadata.get("annotations").and_then(Value::as_object);
    for name in annotations.into_iter().flatten().map(|(name, _)| name) {
        report("annotations", name, names::qualified(&name.to_lowercase()));
    }
    if let Some(found) = metadata.get("labels").and_then(Value::as_object) {
        let found: BTreeMap<String, String> = found
            .iter()
            .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
            .collect();
        errors.extend(labels::labels(Some(&found), &Path::new(field).child("labels")));
    }
}
