//! Structural schemas of custom resources: what is pruned from an object, and what is defaulted.
//!
//! Source: the Kubernetes documentation on CustomResourceDefinitions (structural schemas, pruning,
//! defaulting and nullable). A schema is compiled once for each version of a definition. It then
//! works on JSON trees in place.
#![forbid(unsafe_code)]

mod compile;
mod defaulting;
mod pruning;

use std::collections::BTreeMap;

pub use compile::SchemaCompileError;
use serde_json::Value;

/// How deep a schema may nest.
pub const SCHEMA_DEPTH_MAX: usize = 64;
/// How many nodes a schema may have.
pub const SCHEMA_NODES_MAX: usize = 50_000;

/// One node of a compiled schema: only what pruning and defaulting need.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StructuralSchema {
    properties: BTreeMap<Box<str>, StructuralSchema>,
    additional: Option<Box<AdditionalFields>>,
    items: Option<Box<StructuralSchema>>,
    default: Option<Value>,
    is_nullable: bool,
    preserves_unknown_fields: bool,
    is_embedded_resource: bool,
}

/// What `additionalProperties` says.
#[derive(Clone, Debug, PartialEq)]
enum AdditionalFields {
    /// `true`: any field is kept, but nothing is known about its content.
    Any,
    /// The schema of each other field.
    Schema(StructuralSchema),
}

impl AdditionalFields {
    fn schema(&self) -> Option<&StructuralSchema> {
        match self {
            Self::Any => None,
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
