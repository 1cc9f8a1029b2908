//! Fields of an object that a schema does not have, as field validation names them.

use crate::validation::ValuePath;

/// How many are named.
const UNKNOWN_FIELDS_MAX: usize = 100;
/// How long the path of one may be. Of a longer one, the end is named.
const PATH_BYTES_MAX: usize = 512;

/// The paths of such fields.
#[derive(Default)]
pub(crate) struct UnknownFields {
    paths: Vec<String>,
}

impl UnknownFields {
    pub(crate) fn add(&mut self, path: &ValuePath<'_>) {
        if self.paths.len() >= UNKNOWN_FIELDS_MAX {
            return;
        }
        let mut text = path.text();
        let begin = text.ceil_char_boundary(text.len().saturating_sub(PATH_BYTES_MAX));
        self.paths.push(text.split_off(begin));
    }

    pub(crate) fn sorted(mut self) -> Vec<String> {
        self.paths.sort_unstable();
        self.paths
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::StructuralSchema;

    #[test]
    fn unknown_fields_are_named_up_to_a_limit() {
        let embedded = json!({
            "type": "object",
            "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true,
        });
        let schema = json!({"type": "object", "properties": {"inner": embedded}});
        let schema = StructuralSchema::compile(&schema).unwrap();
        let long = "ä".repeat(PATH_BYTES_MAX);
        let fields = (0..200).map(|at| (format!("{at}{long}"), Value::Null));
        let fields = Value::Object(Map::from_iter(fields));
        let metadata = json!({"inner": {"apiVersion": "v1", "kind": "K", "metadata": fields}});
        for unknown in [
            schema.prune_resource(&mut fields.clone()),
            schema.coerce_embedded(&mut metadata.clone()).unwrap(),
        ] {
            assert_eq!(unknown.len(), UNKNOWN_FIELDS_MAX);
            assert!(unknown.iter().all(|path| path.len() == PATH_BYTES_MAX));
        }
    }
}
