//! Reads an `EncryptionConfiguration`. Source: kube-apiserver's
//! `apiserver/pkg/apis/apiserver/v1/types_encryption.go` and `validation_encryption.go`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use crate::cipher::{Algorithm, Cipher};
use crate::patterns::ResourcePattern;
use crate::{EncryptionRule, SealingKey};

const API_VERSION: &str = "apiserver.config.k8s.io/v1";
const KIND: &str = "EncryptionConfiguration";

/// It stands before each value.
const KEY_NAME_BYTES_MAX: usize = 256;

/// Why a configuration cannot be used. No message has any part of a key.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncryptionConfigError {
    /// It is another object.
    #[error("this is {kind:?} in {api_version:?}, not {KIND} in {API_VERSION}")]
    Kind {
        /// Its apiVersion.
        api_version: String,
        /// Its kind.
        kind: String,
    },
    /// A field is not known, missing or wrong.
    #[error("{path}: {problem}")]
    Field {
        /// Where.
        path: String,
        /// What is wrong.
        problem: String,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenConfiguration {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(default)]
    resources: Vec<WrittenRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRule {
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    providers: Vec<WrittenProvider>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WrittenProvider {
    aesgcm: Option<WrittenKeys>,
    aescbc: Option<WrittenKeys>,
    secretbox: Option<WrittenKeys>,
    identity: Option<WrittenIdentity>,
    kms: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenIdentity {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenKeys {
    /// Each is a [`WrittenKey`].
    #[serde(default)]
    keys: Vec<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WrittenKey {
    name: String,
    secret: String,
}

fn wrong(path: impl Into<String>, problem: impl Into<String>) -> EncryptionConfigError {
    EncryptionConfigError::Field { path: path.into(), problem: problem.into() }
}

/// What serde says of a wrong value, without the value: a key may be in the wrong place.
fn without_value(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(", expected ") {
        Some((found, expected)) if found.starts_with("invalid ") => {
            format!("Invalid value: expected {expected}")
        }
        _ => text,
    }
}

/// The rules, in their order.
pub(crate) fn rules(document: Value) -> Result<Vec<EncryptionRule>, EncryptionConfigError> {
    let text = |field: &str| document[field].as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if (api_version.as_str(), kind.as_str()) != (API_VERSION, KIND) {
        return Err(EncryptionConfigError::Kind { api_version, kind });
    }
    let written: WrittenConfiguration = serde_path_to_error::deserialize(document)
        .map_err(|error| wrong(error.path().to_string(), without_value(error.inner())))?;
    if written.resources.is_empty() {
        return Err(wrong("resources", "Required value: at least one entry is needed"));
    }
    let mut earlier: Vec<ResourcePattern> = Vec::new();
    let read = |(at, rule)| read_rule(&format!("resources[{at}]"), rule, &mut earlier);
    written.resources.into_iter().enumerate().map(read).collect()
}

fn read_rule(
    path: &str,
    written: WrittenRule,
    earlier: &mut Vec<ResourcePattern>,
) -> Result<EncryptionRule, EncryptionConfigError> {
    if written.resources.is_empty() {
        return Err(wrong(format!("{path}.resources"), "Required value: name a resource"));
    }
    if written.providers.is_empty() {
        return Err(wrong(format!("{path}.providers"), "Required value: name a provider"));
    }
    let mut resources = Vec::new();
    for (at, text) in written.resources.iter().enumerate() {
        let path = format!("{path}.resources[{at}]");
        let pattern = ResourcePattern::parse(text).map_err(|problem| wrong(&path, problem))?;
        if earlier.iter().any(|before| before.includes(&pattern)) {
            let problem = format!("Invalid value: {text:?}: an earlier entry is for it already");
            return Err(wrong(path, problem));
        }
        earlier.push(pattern.clone());
        resources.push(pattern);
    }
    let mut keys = Vec::new();
    for (at, provider) in written.providers.into_iter().enumerate() {
        read_provider(&format!("{path}.providers[{at}]"), provider, &mut keys)?;
    }
    Ok(EncryptionRule { resources, keys })
}

fn read_provider(
    path: &str,
    written: WrittenProvider,
    keys: &mut Vec<SealingKey>,
) -> Result<(), EncryptionConfigError> {
    let WrittenProvider { aesgcm, aescbc, secretbox, identity, kms } = written;
    if kms.is_some() {
        let problem = "Forbidden: kms is not supported: use aesgcm, secretbox or aescbc";
        return Err(wrong(format!("{path}.kms"), problem));
    }
    let named = [
        (Algorithm::AesGcm, aesgcm),
        (Algorithm::AesCbc, aescbc),
        (Algorithm::SecretBox, secretbox),
    ];
    let mut named = named.into_iter().filter_map(|(algorithm, keys)| Some((algorithm, keys?)));
    match (named.next(), named.next(), identity) {
        (Some((algorithm, written)), None, None) => read_keys(path, algorithm, written, keys),
        (None, None, Some(WrittenIdentity {})) => {
            keys.push(SealingKey::Plain);
            Ok(())
        }
        (None, None, None) => Err(wrong(path, "Required value: a provider is needed")),
        _ => Err(wrong(path, "Forbidden: more than one provider in one entry")),
    }
}

fn read_keys(
    path: &str,
    algorithm: Algorithm,
    written: WrittenKeys,
    keys: &mut Vec<SealingKey>,
) -> Result<(), EncryptionConfigError> {
    let path = format!("{path}.{}.keys", algorithm.name());
    if written.keys.is_empty() {
        return Err(wrong(path, "Required value: at least one key is needed"));
    }
    for (at, written) in written.keys.into_iter().enumerate() {
        let path = format!("{path}[{at}]");
        // without serde's message, which has the value, or the field of `{secret:VALUE}`
        let Ok(WrittenKey { name, secret }) = serde_json::from_value(written) else {
            let problem = "Invalid value: a key has the fields name and secret, which are texts";
            return Err(wrong(path, problem));
        };
        let of = |field: &str| format!("{path}.{field}");
        if name.is_empty() {
            return Err(wrong(of("name"), "Required value: a key has a name"));
        }
        if name.len() > KEY_NAME_BYTES_MAX {
            let problem = format!("Too long: may not be more than {KEY_NAME_BYTES_MAX} bytes");
            return Err(wrong(of("name"), problem));
        }
        if name.contains(':') {
            return Err(wrong(of("name"), format!("Invalid value: {name:?}: has a colon")));
        }
        let prefix = format!("k8s:enc:{}:v1:{name}:", algorithm.name());
        let is_taken = |key: &SealingKey| match key {
            SealingKey::Plain => false,
            SealingKey::Cipher { prefix: other, .. } => *other == prefix,
        };
        if keys.iter().any(is_taken) {
            return Err(wrong(of("name"), format!("Duplicate value: {name:?}")));
        }
        let Ok(secret) = STANDARD.decode(secret) else {
            return Err(wrong(of("secret"), "Invalid value: it must be base64"));
        };
        let bytes = secret.len();
        let cipher = Cipher::new(algorithm, secret).ok_or_else(|| {
            let lengths = algorithm.key_lengths();
            wrong(
                of("secret"),
                format!("Invalid value: it has {bytes} bytes, not one of {lengths:?}"),
            )
        })?;
        keys.push(SealingKey::Cipher { prefix, cipher });
    }
    Ok(())
}
