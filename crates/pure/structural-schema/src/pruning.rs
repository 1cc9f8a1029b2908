//! Drops the fields that a schema does not have.

use serde_json::{Map, Value};

use crate::{StructuralSchema, unknown_fields::UnknownFields, validation::ValuePath};

/// The fields that every resource has.
const RESOURCE_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl StructuralSchema {
    /// Prunes a whole custom resource. Returns the paths of dropped fields in sorted order, the
    /// first hundred that were found.
    pub fn prune_resource(&self, object: &mut Value) -> Vec<String> {
        let mut dropped = UnknownFields::default();
        if let Value::Object(fields) = object {
            let root = ObjectRule {
                schema: self,
                is_resource: true,
                keeps_unknown: self.preserves_unknown_fields,
            };
            root.prune_fields(fields, &ValuePath::Root, &mut dropped);
        }
        dropped.sorted()
    }

    /// Prunes a default.
    pub(crate) fn prune_default(&self, is_resource: bool, default: &mut Value) {
        let mut dropped = UnknownFields::default();
        self.prune(default, is_resource, false, &ValuePath::Root, &mut dropped);
    }

    /// `keeps_unknown` comes from a list that preserves: its items preserve, too.
    fn prune(
        &self,
        value: &mut Value,
        is_resource: bool,
        keeps_unknown: bool,
        path: &ValuePath<'_>,
        dropped: &mut UnknownFields,
    ) {
        let keeps_unknown = keeps_unknown || self.preserves_unknown_fields;
        match (value, self.items.as_deref()) {
            (Value::Object(fields), _) => {
                let rule = ObjectRule { schema: self, is_resource, keeps_unknown };
                rule.prune_fields(fields, path, dropped);
            }
            (Value::Array(items), Some(schema)) => {
                for (at, item) in items.iter_mut().enumerate() {
                    let place = ValuePath::Index(path, at);
                    let is_resource = schema.is_embedded_resource;
                    schema.prune(item, is_resource, keeps_unknown, &place, dropped);
                }
            }
            (list @ Value::Array(_), None) if !keeps_unknown => drop_content(list, path, dropped),
            (
                Value::Array(_)
                | Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::String(_),
                _,
            ) => {}
        }
    }
}

/// How the fields of one object are pruned.
struct ObjectRule<'a> {
    schema: &'a StructuralSchema,
    is_resource: bool,
    keeps_unknown: bool,
}

impl ObjectRule<'_> {
    fn prune_fields(
        &self,
        fields: &mut Map<String, Value>,
        path: &ValuePath<'_>,
        dropped: &mut UnknownFields,
    ) {
        fields.retain(|name, value| {
            if self.is_resource && RESOURCE_FIELDS.contains(&name.as_str()) {
                return true;
            }
            let place = ValuePath::Field(path, name);
            if let Some(schema) = self.schema.of_field(name) {
                schema.prune(value, schema.is_embedded_resource, false, &place, dropped);
                return true;
            }
            if self.schema.additional.is_some() {
                drop_content(value, &place, dropped);
                return true;
            }
            if !self.keeps_unknown {
                dropped.add(&place);
            }
            self.keeps_unknown
        });
    }
}

/// Empties every object in a value that no schema describes, as upstream does.
fn drop_content(value: &mut Value, path: &ValuePath<'_>, dropped: &mut UnknownFields) {
    match value {
        Value::Object(fields) => {
            for name in fields.keys() {
                dropped.add(&ValuePath::Field(path, name));
            }
            fields.clear();
        }
        Value::Array(items) => {
            for (at, item) in items.iter_mut().enumerate() {
                drop_content(item, &ValuePath::Index(path, at), dropped);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_are_dropped_and_named_unless_the_schema_keeps_them() {
        let schema = StructuralSchema::compile(&json!({"properties": {"spec": {"properties": {
            "known": {"type": "string"},
            "free": {
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"strict": {"properties": {"a": {}}}},
            },
            "map": {"additionalProperties": {"properties": {"a": {}}}},
            "list": {"items": {"properties": {"a": {}}}},
            "embedded": {"x-kubernetes-embedded-resource": true, "properties": {"spec": {}}},
        }}}}))
        .unwrap();
        let mut object = json!({
            "apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n"}, "other": 1,
            "spec": {
                "known": "x", "unknown": 1,
                "free": {"any": 1, "strict": {"a": 1, "b": 2}},
                "map": {"k": {"a": 1, "b": 2}},
                "list": [{"a": 1}, {"b": 2}],
                "embedded": {"apiVersion": "v1", "kind": "P", "metadata": {}, "x": 1},
            },
        });
        let dropped = schema.prune_resource(&mut object);
        let expected = [
            "other",
            "spec.embedded.x",
            "spec.free.strict.b",
            "spec.list[1].b",
            "spec.map.k.b",
            "spec.unknown",
        ];
        assert_eq!(dropped, expected);
        let kept = json!({
            "apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n"},
            "spec": {
                "known": "x",
                "free": {"any": 1, "strict": {"a": 1}},
                "map": {"k": {"a": 1}},
                "list": [{"a": 1}, {}],
                "embedded": {"apiVersion": "v1", "kind": "P", "metadata": {}},
            },
        });
        assert_eq!(object, kept);
        assert!(schema.prune_resource(&mut object).is_empty(), "pruning again drops nothing");
    }

    #[test]
    fn content_without_a_schema_is_emptied_and_a_list_that_preserves_keeps_its_items() {
        let schema = StructuralSchema::compile(&json!({"properties": {
            "any": {"additionalProperties": true},
            "bare_list": {},
            "kept_bare": {"x-kubernetes-preserve-unknown-fields": true},
            "kept_items": {
                "x-kubernetes-preserve-unknown-fields": true,
                "items": {"properties": {"a": {"properties": {"b": {}}}}},
            },
        }}))
        .unwrap();
        let mut object = json!({
            "any": {"n": 1, "o": {"x": 1}},
            "bare_list": [1, {"x": 1}],
            "kept_bare": [{"x": 1}],
            "kept_items": [{"x": 1, "a": {"b": 1, "c": 1}}],
        });
        let dropped = schema.prune_resource(&mut object);
        assert_eq!(dropped, ["any.o.x", "bare_list[1].x", "kept_items[0].a.c"]);
        let kept = json!({
            "any": {"n": 1, "o": {}},
            "bare_list": [1, {}],
            "kept_bare": [{"x": 1}],
            "kept_items": [{"x": 1, "a": {"b": 1}}],
        });
        assert_eq!(object, kept);
    }

    /// The recorded answer of a real kube-apiserver 1.36 to the same schema and object.
    #[test]
    fn a_recorded_object_is_pruned_as_upstream_prunes_it() {
        let schema = StructuralSchema::compile(&json!({"properties": {
            "spec": {"properties": {
                "colour": {"type": "string"},
                "free": {
                    "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"known": {"properties": {"a": {"type": "string"}}}},
                },
                "bag": {"additionalProperties": {"type": "string"}},
            }},
            "status": {"x-kubernetes-preserve-unknown-fields": true},
        }}))
        .unwrap();
        let mut object = json!({
            "spec": {
                "colour": "red", "x": 1, "bag": {"any": "thing"},
                "free": {"y": {"z": 1}, "known": {"a": "1", "b": "2"}},
            },
            "extra": {"top": 1},
        });
        schema.prune_resource(&mut object);
        let answer = json!({"spec": {
            "colour": "red", "bag": {"any": "thing"}, "free": {"known": {"a": "1"}, "y": {"z": 1}},
        }});
        assert_eq!(object, answer);
    }
}
