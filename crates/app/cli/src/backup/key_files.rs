//! The keys of an engine, which a backup has beside the objects. Without them every kubeconfig and
//! every token of the engine before is void. Everything else in a data directory belongs to the
//! machine, or is made from the objects.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, bail};
use rekindle_store::backup::BackupFile;

use crate::engine::data_dir::PKI;

/// The files in the folder for keys, by name: the CA, and the key that signs tokens.
pub const NAMES: [&str; 3] = ["ca.crt", "ca.key", "sa.key"];

/// The keys of this data directory, as far as an engine has made them.
pub fn read(data_dir: &Path) -> anyhow::Result<Vec<BackupFile>> {
    let mut files = Vec::new();
    for name in NAMES {
        let path = data_dir.join(PKI).join(name);
        match std::fs::read(&path) {
            Ok(content) => {
                files.push(BackupFile { name: name_in_backup(name), content: content.into() })
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
        }
    }
    Ok(files)
}

/// Refuses files of a backup that are no keys: they would be written into a data directory.
pub fn check(files: &[BackupFile]) -> anyhow::Result<()> {
    let known = |file: &BackupFile| NAMES.iter().any(|name| file.name == name_in_backup(name));
    match files.iter().find(|file| !known(file)) {
        Some(file) => {
            bail!("the backup has a file {:?}, which this version does not know", file.name)
        }
        None => Ok(()),
    }
}

fn name_in_backup(name: &str) -> String {
    format!("{PKI}/{name}")
}
