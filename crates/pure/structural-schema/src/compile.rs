//! Reads the `openAPIV3Schema` of a version, within limits.

use serde_json::Value;

use crate::{AdditionalFields, SCHEMA_DEPTH_MAX, SCHEMA_NODES_MAX, StructuralSchema};

/// Why a schema cannot be compiled.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaCompileError {
    /// It nests too deep.
    #[error("the schema nests deeper than {SCHEMA_DEPTH_MAX} levels: flatten it")]
    TooDeep,
    /// It has too many nodes.
    #[error("the schema has more than {SCHEMA_NODES_MAX} nodes: split the definition")]
    TooLarge,
    /// A node is not a JSON object.
    #[error("the schema has a node that is not an object: give each field a schema")]
    NotAnObject,
}

impl StructuralSchema {
    /// Compiles a schema that was checked to be structural.
    pub fn compile(schema: &Value) -> Result<Self, SchemaCompileError> {
        let mut nodes_left = SCHEMA_NODES_MAX;
        node(schema, SCHEMA_DEPTH_MAX, &mut nodes_left)
    }
}

fn node(
    schema: &Value,
    depth_left: usize,
    nodes_left: &mut usize,
) -> Result<StructuralSchema, SchemaCompileError> {
    let fields = schema.as_object().ok_or(SchemaCompileError::NotAnObject)?;
    let depth_left = depth_left.checked_sub(1).ok_or(SchemaCompileError::TooDeep)?;
    *nodes_left = nodes_left.checked_sub(1).ok_or(SchemaCompileError::TooLarge)?;
    let is_set = |name: &str| fields.get(name) == Some(&Value::Bool(true));
    let mut compiled = StructuralSchema {
        default: fields.get("default").filter(|default| !default.is_null()).cloned(),
        is_nullable: is_set("nullable"),
        preserves_unknown_fields: is_set("x-kubernetes-preserve-unknown-fields"),
        is_embedded_resource: is_set("x-kubernetes-embedded-resource"),
        ..StructuralSchema::default()
    };
    for (name, field) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
        compiled.properties.insert(name.as_str().into(), node(field, depth_left, nodes_left)?);
    }
    compiled.additional = match fields.get("additionalProperties") {
        None | Some(Value::Bool(false) | Value::Null) => None,
        Some(Value::Bool(true)) => Some(Box::new(AdditionalFields::Any)),
        Some(other) => {
            Some(Box::new(AdditionalFields::Schema(node(other, depth_left, nodes_left)?)))
        }
    };
    if let Some(items) = fields.get("items") {
        compiled.items = Some(Box::new(node(items, depth_left, nodes_left)?));
    }
    Ok(compiled)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_that_nests_too_deep_is_refused() {
        let nested = |levels: usize| {
            (1..levels).fold(json!({}), |inner, _| json!({"type": "array", "items": inner}))
        };
        assert!(StructuralSchema::compile(&nested(SCHEMA_DEPTH_MAX)).is_ok());
        let refused = StructuralSchema::compile(&nested(SCHEMA_DEPTH_MAX + 1));
        assert_eq!(refused, Err(SchemaCompileError::TooDeep));
    }

    #[test]
    fn a_schema_with_too_many_nodes_is_refused() {
        let of_fields = |count: usize| {
            let fields = (0..count).map(|at| (format!("f{at}"), json!({"type": "string"})));
            json!({"properties": serde_json::Map::from_iter(fields)})
        };
        assert!(StructuralSchema::compile(&of_fields(SCHEMA_NODES_MAX - 1)).is_ok());
        let refused = StructuralSchema::compile(&of_fields(SCHEMA_NODES_MAX));
        assert_eq!(refused, Err(SchemaCompileError::TooLarge));
    }
}
