//! The keywords of a schema that restrict values, compiled.

use serde_json::Value;

use crate::{
    StructuralSchema, formats::StringFormat, go_regex::LazyRegex, schema_node::SchemaNode,
};

/// What a node says about its value beside its type. Most nodes say nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ValueRules {
    pub(crate) format: Option<ValueFormat>,
    pub(crate) maximum: Option<Bound>,
    pub(crate) minimum: Option<Bound>,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) max_length: Option<i64>,
    pub(crate) min_length: Option<i64>,
    pub(crate) pattern: Option<LazyRegex>,
    pub(crate) max_items: Option<i64>,
    pub(crate) min_items: Option<i64>,
    pub(crate) max_properties: Option<i64>,
    pub(crate) min_properties: Option<i64>,
    pub(crate) required: Box<[Box<str>]>,
    pub(crate) allowed: Box<[Value]>,
    pub(crate) all_of: Box<[StructuralSchema]>,
    pub(crate) any_of: Box<[StructuralSchema]>,
    pub(crate) one_of: Box<[StructuralSchema]>,
    pub(crate) not: Option<StructuralSchema>,
}

/// A limit of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bound {
    pub(crate) limit: f64,
    pub(crate) is_exclusive: bool,
}

/// A format that is checked, with the name that the schema gives it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ValueFormat {
    /// Of a text.
    Text(StringFormat, Box<str>),
    /// `int32` of an integer.
    Int32,
    /// `int64` of an integer.
    Int64,
    /// `float` of a number.
    Float,
    /// `double` of a number.
    Double,
}

impl ValueFormat {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Text(_, name) => name,
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Float => "float",
            Self::Double => "double",
        }
    }

    fn parse(node: SchemaNode<'_>) -> Option<Self> {
        let name = node.text("format");
        let type_name = if node.is_int_or_string() { "" } else { node.type_name() };
        match (type_name, name) {
            ("" | "string", _) => {
                StringFormat::parse(name).map(|format| Self::Text(format, name.into()))
            }
            ("integer", "int32") => Some(Self::Int32),
            ("integer", "int64") => Some(Self::Int64),
            ("number", "float") => Some(Self::Float),
            ("number", "double") => Some(Self::Double),
            _ => None,
        }
    }
}

/// The schemas of `allOf`, `anyOf`, `oneOf` and `not`, compiled.
#[derive(Default)]
pub(crate) struct Junctors {
    pub(crate) all_of: Vec<StructuralSchema>,
    pub(crate) any_of: Vec<StructuralSchema>,
    pub(crate) one_of: Vec<StructuralSchema>,
    pub(crate) not: Option<StructuralSchema>,
}

impl ValueRules {
    /// Reads the keywords of a node; nothing if it has none of them.
    pub(crate) fn read(node: SchemaNode<'_>, junctors: Junctors) -> Option<Box<Self>> {
        let bound = |limit: &str, exclusive: &str| {
            let limit = node.number(limit)?;
            Some(Bound { limit, is_exclusive: node.is_set(exclusive) })
        };
        let pattern = node.text("pattern");
        let rules = Self {
            format: ValueFormat::parse(node),
            maximum: bound("maximum", "exclusiveMaximum"),
            minimum: bound("minimum", "exclusiveMinimum"),
            multiple_of: node.number("multipleOf"),
            max_length: node.count("maxLength"),
            min_length: node.count("minLength"),
            pattern: (!pattern.is_empty()).then(|| LazyRegex::new(pattern)),
            max_items: node.count("maxItems"),
            min_items: node.count("minItems"),
            max_properties: node.count("maxProperties"),
            min_properties: node.count("minProperties"),
            required: node.texts("required").map(Into::into).collect(),
            allowed: node.list("enum").into(),
            all_of: junctors.all_of.into(),
            any_of: junctors.any_of.into(),
            one_of: junctors.one_of.into(),
            not: junctors.not,
        };
        (rules != Self::default()).then(|| Box::new(rules))
    }
}
