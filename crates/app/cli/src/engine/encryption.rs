//! The file of `--encryption-provider-config`: kube-apiserver's EncryptionConfiguration.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, anyhow};
use rekindle_api::Entropy;
use rekindle_api_server::OsEntropy;
use rekindle_encryption::Encryption;
use serde_json::Value;

use super::data_dir::is_open_to_others;
use crate::manifests;

/// Reads it; without a file, nothing is encrypted.
///
/// # Errors
/// When it cannot be read, or when anything in it is not known, not allowed or not supported.
pub fn read(file: Option<&Path>) -> anyhow::Result<Encryption> {
    let Some(file) = file else { return Ok(Encryption::none()) };
    let context = || format!("read the encryption configuration {}", file.display());
    let document = manifests::read_document(file).map_err(without_excerpt).with_context(context)?;
    let document = Value::Object(document.unwrap_or_default());
    let entropy = Mutex::new(OsEntropy::default());
    let random = move |bytes: &mut [u8]| {
        entropy.lock().unwrap_or_else(PoisonError::into_inner).fill(bytes);
    };
    let encryption = Encryption::from_value(document, Box::new(random)).with_context(context)?;
    if std::fs::metadata(file).is_ok_and(|found| is_open_to_others(&found)) {
        let file = file.display();
        tracing::warn!(%file, "found keys that other users may read: chmod 600 this file");
    }
    Ok(encryption)
}

/// Keeps the first line of an error of syntax. The others show lines of the file, and so its keys.
fn without_excerpt(error: anyhow::Error) -> anyhow::Error {
    let text = format!("{error:#}");
    text.lines().next().map_or(error, |line| anyhow!(line.to_owned()))
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
    fn an_error_of_syntax_shows_no_key() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("encryption.yaml");
        for key in ["\"c2VjcmV0", "*c2VjcmV0", "c2VjcmV0, secret: c2VjcmV0"] {
            std::fs::write(&file, format!("keys: [{{name: k, secret: {key}}}]\n")).unwrap();
            let error = format!("{:#}", read(Some(&file)).unwrap_err());
            assert!(error.contains("encryption.yaml: error: line 1 column "), "{error}");
            assert!(!error.contains("c2VjcmV0"), "{error}");
        }
    }

    #[test]
    fn a_wrong_file_is_refused_with_its_name_and_field() {
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
