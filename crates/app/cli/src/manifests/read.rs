//! The manifests of files, of folders and of standard input.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rekindle_manifest::{EXTENSIONS, FILE_BYTES_MAX};
use serde_json::{Map, Value};

/// All objects of all files, in order. `-` is standard input; of a folder its manifests are read by
/// name, not those of the folders in it.
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
        let read = rekindle_manifest::objects(&text);
        let read = read.with_context(|| format!("read {}", file.display()))?;
        objects.extend(read.into_iter().map(Value::Object));
    }
    Ok(objects)
}

/// The one object of a file, if it holds one.
pub fn read_document(file: &Path) -> anyhow::Result<Option<Map<String, Value>>> {
    let text = read_text(file)?;
    let read = rekindle_manifest::objects(&text);
    let mut objects = read.with_context(|| format!("read {}", file.display()))?;
    if objects.len() > 1 {
        bail!("read {}: it holds more than one document", file.display());
    }
    Ok(objects.pop())
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
