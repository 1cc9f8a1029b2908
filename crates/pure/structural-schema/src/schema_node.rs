//! Reads one node of an `openAPIV3Schema` by its keywords.

use serde_json::{Map, Value};

/// A schema as it was written. A keyword that is absent, null or of another type reads as zero.
#[derive(Clone, Copy)]
pub(crate) struct SchemaNode<'a>(&'a Value, &'a Map<String, Value>);

/// What `additionalProperties` says of fields that have no schema of their own.
#[derive(Clone, Copy)]
pub(crate) enum Additional<'a> {
    /// Nothing.
    Unsaid,
    /// Whether they may be there.
    Allowed(bool),
    /// The schema of each.
    Schema(SchemaNode<'a>),
}

impl<'a> SchemaNode<'a> {
    pub(crate) fn new(schema: &'a Value) -> Option<Self> {
        schema.as_object().map(|keywords| Self(schema, keywords))
    }

    /// The schema as it was written.
    pub(crate) const fn value(self) -> &'a Value {
        self.0
    }

    pub(crate) fn keywords(self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.1.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// A keyword that is present and not null.
    pub(crate) fn get(self, keyword: &str) -> Option<&'a Value> {
        self.1.get(keyword).filter(|value| !value.is_null())
    }

    pub(crate) fn text(self, keyword: &str) -> &'a str {
        self.get(keyword).and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn type_name(self) -> &'a str {
        self.text("type")
    }

    pub(crate) fn is_set(self, keyword: &str) -> bool {
        self.get(keyword) == Some(&Value::Bool(true))
    }

    pub(crate) fn count(self, keyword: &str) -> Option<i64> {
        self.get(keyword).and_then(Value::as_i64)
    }

    pub(crate) fn number(self, keyword: &str) -> Option<f64> {
        self.get(keyword).and_then(Value::as_f64)
    }

    pub(crate) fn list(self, keyword: &str) -> &'a [Value] {
        self.get(keyword).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// The texts of a list.
    pub(crate) fn texts(self, keyword: &str) -> impl Iterator<Item = &'a str> {
        self.list(keyword).iter().filter_map(Value::as_str)
    }

    /// The schemas of `allOf`, `anyOf` or `oneOf`.
    pub(crate) fn schemas(self, keyword: &str) -> impl Iterator<Item = SchemaNode<'a>> {
        self.list(keyword).iter().filter_map(SchemaNode::new)
    }

    /// The schema of `items` or `not`.
    pub(crate) fn child(self, keyword: &str) -> Option<SchemaNode<'a>> {
        self.get(keyword).and_then(SchemaNode::new)
    }

    pub(crate) fn properties(self) -> impl Iterator<Item = (&'a str, SchemaNode<'a>)> {
        let properties = self.get("properties").and_then(Value::as_object);
        properties
            .into_iter()
            .flatten()
            .filter_map(|(name, schema)| Some((name.as_str(), SchemaNode::new(schema)?)))
    }

    pub(crate) fn property(self, name: &str) -> Option<SchemaNode<'a>> {
        self.get("properties")?.get(name).and_then(SchemaNode::new)
    }

    pub(crate) fn has_properties(self) -> bool {
        self.properties().next().is_some()
    }

    pub(crate) fn additional(self) -> Additional<'a> {
        match self.get("additionalProperties") {
            Some(Value::Bool(allowed)) => Additional::Allowed(*allowed),
            Some(other) => SchemaNode::new(other).map_or(Additional::Unsaid, Additional::Schema),
            None => Additional::Unsaid,
        }
    }

    /// Every schema of one level below, in the order in which upstream looks at them.
    pub(crate) fn schemas_below(self) -> impl Iterator<Item = SchemaNode<'a>> {
        let additional = match self.additional() {
            Additional::Schema(schema) => Some(schema),
            Additional::Unsaid | Additional::Allowed(_) => None,
        };
        let junctors = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(move |of| self.schemas(of));
        (self.child("items").into_iter())
            .chain(junctors)
            .chain(self.child("not"))
            .chain(self.properties().map(|(_, schema)| schema))
            .chain(additional)
    }

    pub(crate) fn is_int_or_string(self) -> bool {
        self.is_set("x-kubernetes-int-or-string")
    }

    pub(crate) fn is_embedded_resource(self) -> bool {
        self.is_set("x-kubernetes-embedded-resource")
    }

    pub(crate) fn preserves_unknown_fields(self) -> bool {
        self.is_set("x-kubernetes-preserve-unknown-fields")
    }
}

/// Whether a keyword says nothing, as its zero value does.
pub(crate) fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(_) => false,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}
