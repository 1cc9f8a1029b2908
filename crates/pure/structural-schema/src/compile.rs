//! Reads the `openAPIV3Schema` of a version, within limits.

use serde_json::Value;

use crate::{
    AdditionalFields, ListIdentity, SCHEMA_DEPTH_MAX, SCHEMA_NAME_BYTES_MAX, SCHEMA_NODES_MAX,
    SchemaType, StructuralSchema,
    cel::rule::CelRule,
    schema_node::SchemaNode,
    value_rules::{Junctors, ValueRules},
};

/// Why a schema cannot be compiled.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaCompileError {
    /// It nests too deep.
    #[error("the schema nests deeper than {SCHEMA_DEPTH_MAX} levels: flatten it")]
    TooDeep,
    /// It has too many nodes.
    #[error("the schema has more than {SCHEMA_NODES_MAX} nodes: split the definition")]
    TooLarge,
    /// A field has too long a name.
    #[error(
        "the schema has a field with a name of more than {SCHEMA_NAME_BYTES_MAX} bytes: shorten it"
    )]
    NameTooLong,
    /// A node is not a JSON object.
    #[error("the schema has a node that is not an object: give each field a schema")]
    NotAnObject,
}

impl StructuralSchema {
    /// Compiles a schema that [`check_definition_schema`](crate::check_definition_schema) found
    /// nothing wrong with. Of another one, it ignores what it does not understand.
    pub fn compile(schema: &Value) -> Result<Self, SchemaCompileError> {
        let mut compiler = Compiler { nodes_left: SCHEMA_NODES_MAX, has_non_object: false };
        let compiled = compiler.node(schema, SCHEMA_DEPTH_MAX)?;
        if compiler.has_non_object { Err(SchemaCompileError::NotAnObject) } else { Ok(compiled) }
    }
}

struct Compiler {
    nodes_left: usize,
    /// Found last: an error of this kind says that no limit is broken.
    has_non_object: bool,
}

impl Compiler {
    fn node(
        &mut self,
        schema: &Value,
        depth_left: usize,
    ) -> Result<StructuralSchema, SchemaCompileError> {
        let depth_left = depth_left.checked_sub(1).ok_or(SchemaCompileError::TooDeep)?;
        self.nodes_left = self.nodes_left.checked_sub(1).ok_or(SchemaCompileError::TooLarge)?;
        let Some(node) = SchemaNode::new(schema) else {
            self.has_non_object = true;
            for schema in schema.as_array().into_iter().flatten() {
                self.node(schema, depth_left)?;
            }
            return Ok(StructuralSchema::default());
        };
        // these are refused, but looked at first
        let definitions = node.get("definitions").and_then(Value::as_object);
        for (_, schema) in definitions.into_iter().flatten() {
            self.node(schema, depth_left)?;
        }
        let mut compiled = StructuralSchema {
            default: node.get("default").cloned(),
            value_type: SchemaType::parse(node.type_name()),
            list_identity: list_identity(node),
            is_int_or_string: node.is_int_or_string(),
            is_nullable: node.is_set("nullable"),
            preserves_unknown_fields: node.preserves_unknown_fields(),
            is_embedded_resource: node.is_embedded_resource(),
            ..StructuralSchema::default()
        };
        let properties = node.get("properties").and_then(Value::as_object);
        for (name, field) in properties.into_iter().flatten() {
            if name.len() > SCHEMA_NAME_BYTES_MAX {
                return Err(SchemaCompileError::NameTooLong);
            }
            compiled.properties.insert(name.as_str().into(), self.node(field, depth_left)?);
        }
        compiled.additional = match node.get("additionalProperties") {
            None => None,
            Some(Value::Bool(false)) => Some(Box::new(AdditionalFields::Forbidden)),
            Some(Value::Bool(true)) => Some(Box::new(AdditionalFields::Any)),
            Some(other) => Some(Box::new(AdditionalFields::Schema(self.node(other, depth_left)?))),
        };
        if let Some(items) = node.get("items") {
            compiled.items = Some(Box::new(self.node(items, depth_left)?));
        }
        compiled.values = ValueRules::read(node, self.junctors(node, depth_left)?);
        let rules = node.schemas("x-kubernetes-validations");
        compiled.rules = rules.map(|rule| CelRule::read(rule, node)).collect();
        let others = compiled.additional.as_deref().and_then(AdditionalFields::schema);
        let mut below = compiled.properties.values().chain(compiled.items.as_deref()).chain(others);
        compiled.has_rules = !compiled.rules.is_empty() || below.any(|below| below.has_rules);
        Ok(compiled)
    }

    fn junctors(
        &mut self,
        node: SchemaNode<'_>,
        depth_left: usize,
    ) -> Result<Junctors, SchemaCompileError> {
        let mut compile_all = |keyword: &str| {
            let schemas = node.list(keyword).iter();
            schemas.map(|schema| self.node(schema, depth_left)).collect::<Result<Vec<_>, _>>()
        };
        Ok(Junctors {
            all_of: compile_all("allOf")?,
            any_of: compile_all("anyOf")?,
            one_of: compile_all("oneOf")?,
            not: node.get("not").map(|not| self.node(not, depth_left)).transpose()?,
        })
    }
}

fn list_identity(node: SchemaNode<'_>) -> ListIdentity {
    match node.text("x-kubernetes-list-type") {
        "set" => ListIdentity::Set,
        "map" => {
            ListIdentity::Map(node.texts("x-kubernetes-list-map-keys").map(Into::into).collect())
        }
        _ => ListIdentity::Atomic,
    }
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
        let deep = nested(SCHEMA_DEPTH_MAX);
        for hidden in [
            json!({"items": [], "properties": {"a": deep}}),
            json!({"items": [deep]}),
            json!({"definitions": {"a": deep}}),
        ] {
            assert_eq!(StructuralSchema::compile(&hidden), Err(SchemaCompileError::TooDeep));
        }
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
