//! The keys of an engine, which a backup has beside the objects. Without them all kubeconfigs and
//! tokens that the engine gave out are void. Everything else in a data directory belongs to the
//! machine, or is made from the objects. The CA of the proxy to other API servers is made anew:
//! they read it from a ConfigMap, which each start puts right.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, bail};
use rekindle_api_server::pki::{RevokedCertificates, TokenKey};
use rekindle_store::backup::BackupFile;

use crate::engine::data_dir::PKI;

/// The files in the folder for keys, ascending: the CA, the certificates that are revoked, and the
/// keys of tokens.
const NAMES: [&str; 5] =
    ["ca.crt", "ca.key", RevokedCertificates::FILE, TokenKey::PREVIOUS_FILE, TokenKey::FILE];
/// Those of them without which the others are worth nothing.
const REQUIRED: [&str; 3] = ["ca.crt", "ca.key", TokenKey::FILE];

/// The CA and the keys of tokens. All that an engine needs are there or none is: it does not start
/// with half of a pair.
#[derive(Debug)]
pub struct EngineKeys {
    files: Vec<BackupFile>,
}

impl EngineKeys {
    /// The keys of this data directory; none when no engine has made any.
    ///
    /// # Errors
    /// When some are there and others are not, or they cannot be read.
    pub fn read(data_dir: &Path) -> anyhow::Result<Option<Self>> {
        let mut files = Vec::new();
        for name in NAMES {
            let path = data_dir.join(PKI).join(name);
            match std::fs::read(&path) {
                Ok(content) => {
                    files.push(BackupFile { name: name_in_backup(name), content: content.into() })
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("read {}", path.display()));
                }
            }
        }
        let place = data_dir.join(PKI).display().to_string();
        Self::from_files(files).with_context(|| {
            format!("the keys in {place} are not whole: put the missing one back, or give --without-keys")
        })
    }

    /// The keys among the files of a backup, which has no others; none when it has no files.
    ///
    /// # Errors
    /// When a file is no key: it would be written into a data directory. When one is missing.
    pub fn from_files(files: Vec<BackupFile>) -> anyhow::Result<Option<Self>> {
        let names = NAMES.map(name_in_backup);
        if let Some(file) = files.iter().find(|file| !names.contains(&file.name)) {
            bail!("file {:?} is no key that this version knows", file.name);
        }
        let is_there = |name: &&String| files.iter().any(|file| file.name == **name);
        match REQUIRED.map(name_in_backup).iter().find(|name| !is_there(name)) {
            Some(_) if files.is_empty() => Ok(None),
            Some(missing) => bail!("{missing} is missing beside the other keys"),
            None => Ok(Some(Self { files })),
        }
    }

    /// Their files, ascending by name.
    pub fn files(&self) -> &[BackupFile] {
        &self.files
    }
}

/// The files of keys that may be absent.
pub fn files_of(keys: Option<&EngineKeys>) -> &[BackupFile] {
    keys.map_or(&[], EngineKeys::files)
}

fn name_in_backup(name: &str) -> String {
    format!("{PKI}/{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_whole_or_absent() {
        let files = |names: &[&str]| {
            let file = |name: &&str| BackupFile { name: (*name).to_owned(), content: "key".into() };
            EngineKeys::from_files(names.iter().map(file).collect())
        };
        assert!(files(&[]).unwrap().is_none());
        let all = ["pki/ca.crt", "pki/ca.key", "pki/sa.key"];
        assert_eq!(files(&all).unwrap().unwrap().files().len(), 3);
        for missing in all {
            let others: Vec<&str> = all.into_iter().filter(|name| *name != missing).collect();
            let error = files(&others).unwrap_err().to_string();
            assert_eq!(error, format!("{missing} is missing beside the other keys"));
        }
        let rotated = [&all[..], &["pki/revoked.json", "pki/sa-previous.key"]].concat();
        assert_eq!(files(&rotated).unwrap().unwrap().files().len(), 5);
        let error = files(&["../../etc/passwd"]).unwrap_err().to_string();
        assert_eq!(error, "file \"../../etc/passwd\" is no key that this version knows");
    }

    #[test]
    fn keys_of_a_data_directory_that_are_not_whole_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(EngineKeys::read(folder.path()).unwrap().is_none());
        std::fs::create_dir(folder.path().join(PKI)).unwrap();
        for name in ["ca.crt", "ca.key"] {
            std::fs::write(folder.path().join(PKI).join(name), name).unwrap();
        }
        let error = format!("{:#}", EngineKeys::read(folder.path()).unwrap_err());
        assert!(error.contains("--without-keys: pki/sa.key is missing"), "{error}");
    }
}
