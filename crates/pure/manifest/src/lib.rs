//! Reading manifests: YAML or JSON, several documents in one text, `kind: List` taken apart. Pure:
//! who calls has read the file.
#![forbid(unsafe_code)]

use serde_json::{Map, Value};

/// A file that is larger is not to be read. The API takes 3 MiB an object.
pub const FILE_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// The files of a folder that are manifests, as kubectl has it.
pub const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];

/// Why a text is no manifest.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// It is neither YAML nor JSON, or goes beyond the limits of depth, nodes and aliases. The
    /// parser says where.
    #[error("{0}")]
    Syntax(String),
    /// An object that YAML cannot hold.
    #[error("{0}")]
    Unwritable(String),
    /// A list without its items.
    #[error("kind List: items: required value")]
    ListWithoutItems,
    /// Text, a number or a list where an object should be.
    #[error("a document is not an object: a manifest begins with apiVersion and kind")]
    NotAnObject,
}

/// The objects as a text of YAML, a document each.
///
/// # Errors
/// When an object cannot be written as YAML, which one of text, numbers, lists and objects can.
pub fn yaml(objects: &[Value]) -> Result<String, ManifestError> {
    let options = serde_saphyr::ser_options! { compact_list_indent: true };
    serde_saphyr::to_string_multiple_with_options(objects, options)
        .map_err(|error| ManifestError::Unwritable(error.to_string()))
}

/// How deep a text may nest. The reader takes so much stack for each level that a few more would
/// end the process.
const DEPTH_MAX: usize = 50;

/// The objects of a text, in order; empty documents are skipped.
///
/// # Errors
/// Where the text is not YAML or JSON, and where a document is no object. Aliases, depth and nodes
/// are limited, so that a small text cannot become a large one in memory.
pub fn objects(text: &str) -> Result<Vec<Map<String, Value>>, ManifestError> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            max_nodes: 1_000_000,
            max_anchors: 1_000,
            max_aliases: 1_000,
        },
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::Error,
    };
    let documents = serde_saphyr::from_multiple_with_options::<Value>(text, options)
        .map_err(|error| ManifestError::Syntax(error.to_string()))?;
    let mut objects = Vec::new();
    for document in documents {
        flatten(document, &mut objects)?;
    }
    Ok(objects)
}

fn flatten(document: Value, objects: &mut Vec<Map<String, Value>>) -> Result<(), ManifestError> {
    let is_list = document.get("kind").and_then(Value::as_str) == Some("List");
    match document {
        Value::Null => {}
        Value::Object(mut list) if is_list => {
            let Some(Value::Array(items)) = list.remove("items") else {
                return Err(ManifestError::ListWithoutItems);
            };
            for item in items {
                flatten(item, objects)?;
            }
        }
        Value::Object(object) => objects.push(object),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(ManifestError::NotAnObject);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_lists_and_json_are_taken_apart() {
        let text = "kind: A\n---\n---\nkind: List\nitems: [{kind: B}, {kind: C}]\n";
        let kinds: Vec<_> =
            objects(text).unwrap().iter().map(|object| object["kind"].clone()).collect();
        assert_eq!(kinds, ["A", "B", "C"]);
        assert_eq!(objects(r#"{"kind": "D"}"#).unwrap().len(), 1);
    }

    #[test]
    fn an_alias_bomb_is_refused() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let before = level - 1;
            let aliases = vec![format!("*a{before}"); 10].join(", ");
            text.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
        }
        assert!(matches!(objects(&text), Err(ManifestError::Syntax(_))));
    }

    #[test]
    fn a_deep_text_is_refused_before_the_stack_ends() {
        let indented: String = (0..500).map(|n| format!("{}a:\n", " ".repeat(n))).collect();
        for text in ["- ".repeat(10_000), indented, "[".repeat(90) + &"]".repeat(90)] {
            assert!(matches!(objects(&text), Err(ManifestError::Syntax(_))), "{}", &text[..60]);
        }
    }

    #[test]
    fn what_is_not_an_object_is_refused() {
        assert!(matches!(objects("just text"), Err(ManifestError::NotAnObject)));
        assert!(
            matches!(objects("a: 1\na: 2"), Err(ManifestError::Syntax(_))),
            "a key given twice"
        );
        assert!(matches!(objects("kind: List"), Err(ManifestError::ListWithoutItems)));
    }
}
