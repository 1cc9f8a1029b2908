//! The file of `--encryption-provider-config`: kube-apiserver's EncryptionConfiguration.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use rekindle_api::Entropy;
use rekindle_api_server::OsEntropy;
use rekindle_encryption::Encryption;
use serde_json::Value;

use crate::manifests;

/// Permissions of others than the owner.
const OTHERS: u32 = 0o077;

/// Reads it; without a file, nothing is encrypted.
///
/// # Errors
/// When it cannot be read, or when anything in it is not known, not allowed or not supported.
pub fn read(file: Option<&Path>) -> anyhow::Result<Encryption> {
    let Some(file) = file else { return Ok(Encryption::none()) };
    let context = || format!("read the encryption configuration {}", file.display());
    let document = manifests::read_document(file).with_context(context)?;
    let document = Value::Object(document.unwrap_or_default());
    let entropy = Mutex::new(OsEntropy::default());
    let random = move |bytes: &mut [u8]| {
        entropy.lock().unwrap_or_else(PoisonError::into_inner).fill(bytes);
    };
    let encryption = Encryption::from_value(document, Box::new(random)).with_context(context)?;
    if std::fs::metadata(file).is_ok_and(|file| file.mode() & OTHERS != 0) {
        let file = file.display();
        tracing::warn!(%file, "found keys that other users may read: chmod 600 this file");
    }
    Ok(encryption)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_in_the_book_is_one() {
        let page = include_str!("../../../../../docs/how-to/encrypt-secrets-at-rest.md");
        let (_, text) = page.split_once("<<EOF\n").expect("an example");
        let (text, _) = text.split_once("EOF\n").expect("its end");
        let key = "c2l4dGVlbiBieXRlcywgYW5kIHNpeHRlZW4gbW9yZSE=";
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("encryption.yaml");
        std::fs::write(&file, text.replace("$(head -c 32 /dev/urandom | base64)", key)).unwrap();
        let read = read(Some(&file)).unwrap();
        assert_eq!(format!("{read:?}"), "[\"k8s:enc:secretbox:v1:key1:\", \"identity\"]");
    }

    #[test]
    fn a_wrong_file_is_told_with_its_name_and_field() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("encryption.yaml");
        let missing = read(Some(&file)).unwrap_err();
        assert!(format!("{missing:#}").contains("encryption.yaml"), "{missing:#}");
        let text = "{apiVersion: apiserver.config.k8s.io/v1, kind: EncryptionConfiguration, \
                    resources: [{resources: [secrets], providers: [{kms: {}}]}]}";
        std::fs::write(&file, text).unwrap();
        let error = format!("{:#}", read(Some(&file)).unwrap_err());
        assert!(error.contains("encryption.yaml: resources[0].providers[0].kms: "), "{error}");
    }
}
