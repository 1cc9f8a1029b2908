//! Structural schemas of custom resources: all that a version of a CustomResourceDefinition says
//! of its objects.
//!
//! | step | function |
//! |---|---|
//! | a definition is written | [`check_definition_schema`] |
//! | a version is served | [`StructuralSchema::compile`] |
//! | embedded metadata is decoded | [`StructuralSchema::coerce_embedded`] |
//! | unknown fields are dropped | [`StructuralSchema::prune_resource`] |
//! | its defaults are filled in | [`StructuralSchema::fill_defaults`] |
//! | it is validated | [`StructuralSchema::validate`] |
//! | its status is validated | [`StructuralSchema::validate_status`] |
//!
//! A schema is compiled once for each version of a definition. It then works on JSON trees in
//! place. Wording, order and limits are those of kube-apiserver 1.36 (apiextensions-apiserver and
//! kube-openapi); the documentation on CustomResourceDefinitions is the other source.
#![forbid(unsafe_code)]

mod cel;
mod compile;
mod defaulting;
mod definition;
mod error_list;
mod formats;
mod go_regex;
mod internal_form;
mod list_items;
mod object_meta;
mod pruning;
mod schema_node;
mod shown;
mod unknown_fields;
mod validation;
mod value_rules;

use std::collections::BTreeMap;

pub use cel::authorizer::{AccessAnswer, AccessQuery, Authorizer};
pub use cel::device_selector::{DeviceSelectorError, check_device_selector};
pub use cel::policy::{
    ExpressionFailure, ExpressionPlace, ExpressionResult, POLICY_COST_MAX, PolicyEvaluation,
    PolicyExpression, PolicyInput, PolicyNames, PolicyVariables, PolicyWork, is_variable_name,
};
pub use cel::semver::is_semantic_version;
pub use compile::SchemaCompileError;
pub use definition::{
    DefinitionSchema, FieldPathError, check_definition_schema, has_default, type_of_field,
    unrecognized_formats,
};
pub use formats::parse_go_duration;
pub use internal_form::{InternalField, NamedField, internal_form};
use serde_json::Value;

/// How deep a schema may nest.
pub const SCHEMA_DEPTH_MAX: usize = 64;
/// How long the name of a field may be, in bytes. Paths of errors hold the names above a field.
pub const SCHEMA_NAME_BYTES_MAX: usize = 1_024;
/// How many nodes a schema may have.
pub const SCHEMA_NODES_MAX: usize = 50_000;

/// One node of a compiled schema.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StructuralSchema {
    properties: BTreeMap<Box<str>, StructuralSchema>,
    additional: Option<Box<AdditionalFields>>,
    items: Option<Box<StructuralSchema>>,
    default: Option<Value>,
    value_type: Option<SchemaType>,
    list_identity: ListIdentity,
    is_int_or_string: bool,
    is_nullable: bool,
    preserves_unknown_fields: bool,
    is_embedded_resource: bool,
    values: Option<Box<value_rules::ValueRules>>,
    rules: Box<[cel::rule::CelRule]>,
    /// Whether there are rules here or below.
    has_rules: bool,
}

/// The types that a schema may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SchemaType {
    Array,
    Boolean,
    Integer,
    Number,
    Object,
    String,
}

impl SchemaType {
    const ALL: [Self; 6] =
        [Self::Array, Self::Boolean, Self::Integer, Self::Number, Self::Object, Self::String];

    const fn name(self) -> &'static str {
        match self {
            Self::Array => "array",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Object => "object",
            Self::String => "string",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
}

/// What identifies an item of a list (`x-kubernetes-list-type`).
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum ListIdentity {
    /// They are not: the list is replaced as a whole.
    #[default]
    Atomic,
    /// By their value.
    Set,
    /// By these fields.
    Map(Box<[Box<str>]>),
}

/// What `additionalProperties` says.
#[derive(Clone, Debug, PartialEq)]
enum AdditionalFields {
    /// `true`: any field is kept, but nothing is known about its content.
    Any,
    /// `false`: a field without a schema is an error.
    Forbidden,
    /// The schema of each other field.
    Schema(StructuralSchema),
}

impl AdditionalFields {
    fn schema(&self) -> Option<&StructuralSchema> {
        match self {
            Self::Any | Self::Forbidden => None,
            Self::Schema(schema) => Some(schema),
        }
    }
}

impl StructuralSchema {
    /// The schema of a field, with what `additionalProperties` says of it.
    fn of_field(&self, name: &str) -> Option<&StructuralSchema> {
        let known = self.properties.get(name);
        known.or_else(|| self.additional.as_deref().and_then(AdditionalFields::schema))
    }
}
