//! `restore-unfinished`: lies in a data directory while a restore replaces files. Left there, it
//! says that some files may be those of the backup and others the old ones. It names each file
//! once, with where the old one is.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rekindle_api_server::pki::{sync_folder_of, write_private};

use super::data_dir::DataDir;

/// The file in the data directory.
pub const FILE: &str = "restore-unfinished";
/// What its first lines say to a reader.
const INTRODUCTION: &str = "\
A restore replaces files of this data directory. Left here, it was interrupted: repeat it.
To go back instead, rename each file below that is kept to its old name. Remove the files that
did not exist. Then remove this file.
";
const KEPT_AS: &str = " is kept as ";
const WAS_ABSENT: &str = " did not exist";

/// A file that a restore replaces or creates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplacedFile {
    pub file: PathBuf,
    /// Where the old file is kept; none when there was none.
    pub aside: Option<PathBuf>,
}

/// The files of an earlier restore that was interrupted; none when there was no such restore.
pub fn left(data_dir: &DataDir) -> anyhow::Result<Vec<ReplacedFile>> {
    let path = data_dir.join(FILE);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
    };
    let replaced = |line: &str| match line.split_once(KEPT_AS) {
        Some((file, aside)) => {
            Some(ReplacedFile { file: data_dir.join(file), aside: Some(data_dir.join(aside)) })
        }
        None => {
            let file = line.strip_suffix(WAS_ABSENT)?;
            Some(ReplacedFile { file: data_dir.join(file), aside: None })
        }
    };
    Ok(text.lines().filter_map(replaced).collect())
}

/// Marks the data directory, durably.
pub fn begin(data_dir: &DataDir, replaced: &[ReplacedFile]) -> anyhow::Result<()> {
    let name =
        |path: &Path| path.strip_prefix(data_dir.path()).unwrap_or(path).display().to_string();
    let line = |ReplacedFile { file, aside }: &ReplacedFile| match aside {
        Some(aside) => [&name(file), KEPT_AS, &name(aside), "\n"].concat(),
        None => [&name(file), WAS_ABSENT, "\n"].concat(),
    };
    let lines: String = replaced.iter().map(line).collect();
    let path = data_dir.join(FILE);
    write_private(&path, [INTRODUCTION, &lines].concat().as_bytes())
        .with_context(|| format!("write {}", path.display()))
}

/// The restore is whole and durable.
pub fn end(data_dir: &DataDir) -> anyhow::Result<()> {
    let path = data_dir.join(FILE);
    std::fs::remove_file(&path)
        .and_then(|()| sync_folder_of(&path))
        .with_context(|| format!("remove {}", path.display()))
}

/// Refuses a data directory in which a restore did not end.
pub fn refuse(data_dir: &Path) -> anyhow::Result<()> {
    let path = data_dir.join(FILE);
    if path.try_exists().with_context(|| format!("look for {}", path.display()))? {
        bail!(
            "a restore into data directory {} was interrupted: repeat it with `rekindle restore FILE --force`; {} says how to go \
             back instead",
            data_dir.display(),
            path.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_names_each_file_and_says_how_to_go_on() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::hold(folder.path()).unwrap();
        refuse(data_dir.path()).unwrap();
        assert_eq!(left(&data_dir).unwrap(), []);
        let replaced = [
            ReplacedFile {
                file: data_dir.join("pki/ca.key"),
                aside: Some(data_dir.join("pki/ca.key.before-restore-1")),
            },
            ReplacedFile { file: data_dir.join("service-cidr"), aside: None },
        ];
        begin(&data_dir, &replaced).unwrap();
        assert_eq!(left(&data_dir).unwrap(), replaced);
        let mark = data_dir.join(FILE);
        let text = std::fs::read_to_string(&mark).unwrap();
        let files =
            "pki/ca.key is kept as pki/ca.key.before-restore-1\nservice-cidr did not exist\n";
        assert_eq!(text, [INTRODUCTION, files].concat());
        let error = refuse(data_dir.path()).unwrap_err().to_string();
        assert!(error.contains("repeat it") && error.contains(mark.to_str().unwrap()), "{error}");
        end(&data_dir).unwrap();
        refuse(data_dir.path()).unwrap();
    }
}
