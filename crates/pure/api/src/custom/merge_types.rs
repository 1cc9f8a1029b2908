//! How the objects of a version merge in server-side apply: its schema in the words of
//! `structured-merge`.

use std::borrow::Cow;

use rekindle_kinds::registry::builtin_types;
use rekindle_structured_merge::{
    AbsentField, KeyField, ListMergeRule, ListType, MapField, MapGranularity, MapType, MergeSchema,
    MergeType, ScalarType, TypeId, TypedSchema,
};
use serde_json::Value;

/// The types of a version.
pub(super) struct MergeTypes {
    schema: MergeSchema,
    root: TypeId,
}

impl MergeTypes {
    /// Of a schema that was checked.
    pub(super) fn of_schema(schema: &Value) -> Self {
        let (types, metadata) = builtin_types::with_metadata();
        let mut builder = TypeBuilder { types, metadata };
        let root = builder.resource(schema);
        Self { schema: builder.types, root }
    }

    /// The type of a whole object.
    pub(super) fn root(&self) -> TypedSchema<'_> {
        self.schema.typed(self.root)
    }
}

struct TypeBuilder {
    types: MergeSchema,
    metadata: TypeId,
}

impl TypeBuilder {
    /// A whole object, or one that is embedded in another.
    fn resource(&mut self, schema: &Value) -> TypeId {
        let mut map = self.map(schema);
        let text = self.types.add(MergeType::Scalar(ScalarType::Text));
        let own = [("apiVersion", text), ("kind", text), ("metadata", self.metadata)];
        map.fields.retain(|field| own.iter().all(|(name, _)| *name != field.name));
        map.fields.extend(own.map(|(name, field_type)| field(name.to_owned(), field_type)));
        self.types.add(MergeType::Map(map))
    }

    fn value(&mut self, schema: &Value) -> TypeId {
        let is_set = |keyword: &str| schema[keyword] == Value::Bool(true);
        if is_set("x-kubernetes-int-or-string") {
            return self.types.add(MergeType::Scalar(ScalarType::Any));
        }
        let scalar = match schema["type"].as_str().unwrap_or_default() {
            "object" if is_set("x-kubernetes-embedded-resource") => return self.resource(schema),
            "object" => {
                let map = self.map(schema);
                return self.types.add(MergeType::Map(map));
            }
            "array" => {
                let list = self.list(schema);
                return self.types.add(MergeType::List(list));
            }
            "string" => ScalarType::Text,
            "integer" | "number" => ScalarType::Number,
            "boolean" => ScalarType::Boolean,
            // without a type there is no more to be known than that it may be anything
            _ => return MergeSchema::ANY_DEDUCED,
        };
        self.types.add(MergeType::Scalar(scalar))
    }

    fn map(&mut self, schema: &Value) -> MapType {
        let properties = schema["properties"].as_object().into_iter().flatten();
        let fields = properties.map(|(name, schema)| field(name.clone(), self.value(schema)));
        let fields = fields.collect();
        let others = match &schema["additionalProperties"] {
            Value::Bool(true) => Some(MergeSchema::ANY_DEDUCED),
            others @ Value::Object(_) => Some(self.value(others)),
            _ if schema["x-kubernetes-preserve-unknown-fields"] == Value::Bool(true) => {
                Some(MergeSchema::ANY_DEDUCED)
            }
            Value::Null
            | Value::Bool(false)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => None,
        };
        let granularity = match schema["x-kubernetes-map-type"].as_str() {
            Some("atomic") => MapGranularity::Atomic,
            Some(_) | None => MapGranularity::Granular,
        };
        MapType { fields, others, granularity }
    }

    fn list(&mut self, schema: &Value) -> ListType {
        let items = self.value(&schema["items"]);
        let rule = match schema["x-kubernetes-list-type"].as_str() {
            Some("set") => ListMergeRule::Set,
            Some("map") => {
                let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
                let key = |name: &str| KeyField {
                    name: Cow::Owned(name.to_owned()),
                    default: schema["items"]["properties"][name].get("default").cloned(),
                };
                ListMergeRule::Map(keys.filter_map(Value::as_str).map(key).collect())
            }
            Some(_) | None => ListMergeRule::Atomic,
        };
        ListType { items, rule }
    }
}

fn field(name: String, field_type: TypeId) -> MapField {
    MapField { name: Cow::Owned(name), field_type, absent: AbsentField::Missing }
}
