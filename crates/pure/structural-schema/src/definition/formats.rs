//! Formats that upstream does not know, which it warns of.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{formats::StringFormat, schema_node::SchemaNode};

/// The formats of a schema that are not known for its types, each once.
pub fn unrecognized_formats(schema: &Value) -> Vec<&str> {
    let mut all = Vec::new();
    if let Some(root) = SchemaNode::new(schema) {
        collect(root, &mut all);
    }
    let mut known = BTreeSet::new();
    all.retain(|format| known.insert(*format));
    all
}

fn collect<'a>(node: SchemaNode<'a>, found: &mut Vec<&'a str>) {
    let format = node.text("format");
    if !format.is_empty() && !is_known(format, node.type_name()) {
        found.push(format);
    }
    node.schemas_below().for_each(|schema| collect(schema, found));
}

fn is_known(format: &str, type_name: &str) -> bool {
    match type_name {
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        "" | "string" => StringFormat::parse(format).is_some(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_format_is_known_for_some_types_only() {
        let schema = json!({"properties": {
            "date": {"type": "string", "format": "date"},
            "day": {"type": "string", "format": "day"},
            "int": {"type": "integer", "format": "int32"},
            "list": {"items": {"type": "string", "format": "int32"}},
            "map": {"additionalProperties": {"type": "integer", "format": "date"}},
            "either": {"anyOf": [{"format": "float"}], "not": {"format": "day"}},
        }});
        assert_eq!(unrecognized_formats(&schema), ["day", "float", "int32", "date"]);
    }
}
