//! Reading manifests: YAML or JSON, several documents a file, all files of a folder, `kind: List` taken apart.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;

/// Larger manifests are refused. The API takes 3 MiB an object.
const FILE_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// The files of a folder that are read, as kubectl has it.
const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];

/// All objects of all files, in order. `-` is standard input; of a folder its manifests are read by name, not those of the
/// folders in it.
pub fn read_all(sources: &[PathBuf]) -> anyhow::Result<Vec<Value>> {
    if sources.iter().filter(|source| is_stdin(source)).count() > 1 {
        bail!("-f - can be given once only: standard input is read to its end");
    }
    let mut objects = Vec::new();
    for file in
        sources.iter().map(|source| files_of(source)).collect::<Result<Vec<_>, _>>()?.concat()
    {
        let file = file.as_path();
        let text = read_text(file)?;
        let documents = parse(&text).with_context(|| format!("read {}", file.display()))?;
        for document in documents {
            flatten(document, &mut objects).with_context(|| format!("read {}", file.display()))?;
        }
    }
    Ok(objects)
}

/// The one document of a file; `Null` when it is empty.
pub fn read_document(file: &Path) -> anyhow::Result<Value> {
    let text = read_text(file)?;
    let mut documents = parse(&text).with_context(|| format!("read {}", file.display()))?;
    if documents.len() > 1 {
        bail!("read {}: it holds more than one document", file.display());
    }
    Ok(documents.pop().unwrap_or(Value::Null))
}

fn is_stdin(source: &Path) -> bool {
    source == Path::new("-")
}

fn files_of(source: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if is_stdin(source) || !source.is_dir() {
        return Ok(vec![source.to_owned()]);
    }
    let entries = std::fs::read_dir(source)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| format!("read folder {}", source.display()))?;
    let is_manifest = |path: &PathBuf| {
        path.is_file()
            && path.extension().is_some_and(|found| EXTENSIONS.iter().any(|known| found == *known))
    };
    let mut files: Vec<_> =
        entries.into_iter().map(|entry| entry.path()).filter(is_manifest).collect();
    if files.is_empty() {
        bail!("folder {} holds no manifest (*.yaml, *.yml, *.json)", source.display());
    }
    files.sort();
    Ok(files)
}

fn read_text(file: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let source: Box<dyn Read> = if is_stdin(file) {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(
            std::fs::File::open(file)
                .with_context(|| format!("open manifest {}", file.display()))?,
        )
    };
    let read = source
        .take(FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .with_context(|| format!("read {}", file.display()))?;
    if read as u64 > FILE_BYTES_MAX {
        bail!("read {}: it is larger than {FILE_BYTES_MAX} bytes; split it", file.display());
    }
    Ok(text)
}

/// The documents; empty ones are skipped. Aliases, depth and nodes are limited, so that a small file cannot become a large
/// one in memory.
fn parse(text: &str) -> anyhow::Result<Vec<Value>> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: 100,
            max_nodes: 1_000_000,
            max_anchors: 1_000,
            max_aliases: 1_000,
        },
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::Error,
    };
    Ok(serde_saphyr::from_multiple_with_options::<Value>(text, options)?)
}

fn flatten(document: Value, objects: &mut Vec<Value>) -> anyhow::Result<()> {
    let is_list = document.get("kind").and_then(Value::as_str) == Some("List");
    match document {
        Value::Null => {}
        Value::Object(mut list) if is_list => {
            let Some(Value::Array(items)) = list.remove("items") else {
                bail!("kind List: items: required value");
            };
            for item in items {
                flatten(item, objects)?;
            }
        }
        Value::Object(_) => objects.push(document),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            bail!("a document is not an object: a manifest begins with apiVersion and kind")
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(text: &str) -> anyhow::Result<Vec<Value>> {
        let mut objects = Vec::new();
        for document in parse(text)? {
            flatten(document, &mut objects)?;
        }
        Ok(objects)
    }

    #[test]
    fn documents_lists_and_json_are_taken_apart() {
        let text = "kind: A\n---\n---\nkind: List\nitems: [{kind: B}, {kind: C}]\n";
        let kinds: Vec<_> =
            objects(text).unwrap().iter().map(|object| object["kind"].clone()).collect();
        assert_eq!(kinds, ["A", "B", "C"]);
        assert_eq!(objects(r#"{"kind": "D"}"#).unwrap().len(), 1);
    }

    #[test]
    fn of_a_folder_the_manifests_are_read_by_name() {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("b.yml", "kind: B"),
            ("a.yaml", "kind: A"),
            ("c.json", r#"{"kind": "C"}"#),
            ("notes.md", "- not: read"),
        ] {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        std::fs::create_dir(dir.path().join("deeper.yaml")).unwrap();
        let read = read_all(&[dir.path().to_owned(), dir.path().join("a.yaml")]).unwrap();
        let kinds: Vec<_> = read.iter().map(|object| object["kind"].clone()).collect();
        assert_eq!(kinds, ["A", "B", "C", "A"]);
        let empty = read_all(&[dir.path().join("deeper.yaml")]).unwrap_err().to_string();
        assert!(empty.contains("holds no manifest"), "{empty}");
        let twice = read_all(&["-".into(), "-".into()]).unwrap_err().to_string();
        assert!(twice.contains("once"), "{twice}");
    }

    #[test]
    fn an_alias_bomb_is_refused() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let before = level - 1;
            let aliases = vec![format!("*a{before}"); 10].join(", ");
            text.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
        }
        assert!(objects(&text).is_err());
    }

    #[test]
    fn what_is_not_an_object_is_refused() {
        assert!(objects("just text").is_err());
        assert!(objects("a: 1\na: 2").is_err(), "a key given twice");
    }
}
