//! What server-side apply has to know of a schema: what is merged, and by which keys.

use serde_json::Value;

use crate::{AdditionalFields, ListIdentity, SchemaType, StructuralSchema};

/// How the owners of a value share it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Topology<'a> {
    /// Nothing is known of it: what it holds is found out from the value.
    Deduced,
    /// One value, such as a text. Also `int-or-string`.
    Scalar,
    /// A list.
    List {
        /// The schema of its items.
        items: Option<&'a StructuralSchema>,
        /// What identifies its items.
        identity: &'a ListIdentity,
    },
    /// An object or a map.
    Map {
        /// The schema of fields that are not among the properties.
        others: Option<&'a StructuralSchema>,
        /// Whether it is replaced as a whole.
        is_atomic: bool,
        /// Whether fields without a schema are kept.
        keeps_unknown: bool,
    },
}

impl StructuralSchema {
    /// What this node is for server-side apply.
    pub fn topology(&self) -> Topology<'_> {
        match self.value_type {
            Some(SchemaType::Array) => {
                Topology::List { items: self.items.as_deref(), identity: &self.list_identity }
            }
            Some(SchemaType::Object) => Topology::Map {
                others: self.additional.as_deref().and_then(AdditionalFields::schema),
                is_atomic: self.has_atomic_map,
                keeps_unknown: self.preserves_unknown_fields,
            },
            Some(
                SchemaType::Boolean | SchemaType::Integer | SchemaType::Number | SchemaType::String,
            ) => Topology::Scalar,
            None if self.is_int_or_string => Topology::Scalar,
            None => Topology::Deduced,
        }
    }

    /// The properties of this node with their schemas, in the order of their names.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &StructuralSchema)> {
        self.properties.iter().map(|(name, schema)| (&**name, schema))
    }

    /// The default of this node.
    pub fn default_value(&self) -> Option<&Value> {
        self.default.as_ref()
    }

    /// Whether this node is a whole object of another kind (`x-kubernetes-embedded-resource`).
    pub fn is_embedded_resource(&self) -> bool {
        self.is_embedded_resource
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_and_maps_say_how_they_are_merged() {
        let schema = StructuralSchema::compile(&json!({"type": "object", "properties": {
            "free": {"x-kubernetes-preserve-unknown-fields": true},
            "list": {
                "type": "array", "items": {"type": "object"},
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            },
            "map": {"type": "object", "x-kubernetes-map-type": "atomic"},
            "port": {"x-kubernetes-int-or-string": true},
        }}))
        .unwrap();
        let found: Vec<_> =
            schema.properties().map(|(name, node)| (name, node.topology())).collect();
        let items = schema.properties["list"].items.as_deref();
        let identity = &ListIdentity::Map(Box::new(["k".into()]));
        let map = Topology::Map { others: None, is_atomic: true, keeps_unknown: false };
        assert_eq!(
            found,
            [
                ("free", Topology::Deduced),
                ("list", Topology::List { items, identity }),
                ("map", map),
                ("port", Topology::Scalar),
            ]
        );
    }
}
