//! Encryption at rest: values as they lie in the store's file and in backups.
//!
//! ```text
//!   store ── value ──▶ seal ── "k8s:enc:PROVIDER:v1:KEY:…" ──▶ disk, backup
//!   store ◀── value ── open ◀──────────────────────────────── disk
//! ```
//! Configuration and format are kube-apiserver's (`EncryptionConfiguration` of
//! `apiserver.config.k8s.io/v1`). The first key of a resource encrypts; all its keys decrypt. What
//! another key has encrypted is encrypted again when the store is opened.
#![forbid(unsafe_code)]

mod cipher;
mod configuration;
mod disk;
mod patterns;

use std::fmt;

use bytes::Bytes;
use rekindle_store::{ObjectKey, StoredObject, ValueSealing};

use cipher::Cipher;
pub use configuration::EncryptionConfigError;
pub use disk::EncryptedDisk;
use patterns::ResourcePattern;

/// How each encrypted value begins. No object does: they begin with a brace.
const PREFIX: &[u8] = b"k8s:enc:";

/// Fills a buffer with random bytes that cannot be guessed.
pub type RandomBytes = Box<dyn Fn(&mut [u8]) + Send + Sync>;

/// What is encrypted, and with which keys.
pub struct Encryption {
    rules: Vec<EncryptionRule>,
    random: RandomBytes,
}

/// The keys of some resources.
struct EncryptionRule {
    resources: Vec<ResourcePattern>,
    /// The first one is for new values; there is at least one.
    keys: Vec<SealingKey>,
}

/// One way in which values lie on the disk.
enum SealingKey {
    /// As they are.
    Plain,
    /// Encrypted.
    Cipher {
        /// What these values begin with: `k8s:enc:aesgcm:v1:NAME:`.
        prefix: String,
        cipher: Cipher,
    },
}

/// A stored value that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedValue {
    /// What was encrypted, or lies on the disk as it is.
    pub value: Bytes,
    /// Whether a start has to store it anew.
    pub standing: ValueStanding,
}

/// How a stored value compares with one that is stored now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueStanding {
    /// A new value would have the same key, or none as well.
    Current,
    /// A new value would have another key, or none.
    Outdated,
}

/// Why an encrypted value cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableValue {
    /// Nothing says how to read it.
    #[error(
        "is encrypted with key {key:?} of provider {provider:?}: give the encryption configuration that has it"
    )]
    NotConfigured {
        /// The name of the key.
        key: String,
        /// The provider.
        provider: String,
    },
    /// The key is not known.
    #[error(
        "is encrypted with key {key:?} of provider {provider:?}, which the encryption configuration does not have for {resource:?}: add it there"
    )]
    UnknownKey {
        /// The name of the key.
        key: String,
        /// The provider.
        provider: String,
        /// The resource, with its group.
        resource: String,
    },
    /// The key does not fit, or the value was changed.
    #[error(
        "cannot be decrypted with key {key:?} of provider {provider:?}: the key is another one, or the value is damaged"
    )]
    WrongKey {
        /// The name of the key.
        key: String,
        /// The provider.
        provider: String,
    },
}

impl Encryption {
    /// Nothing is encrypted. What is encrypted already cannot be read.
    pub fn none() -> Self {
        Self { rules: Vec::new(), random: Box::new(|_| {}) }
    }

    /// Reads an `EncryptionConfiguration`.
    ///
    /// # Errors
    /// The first thing that is not known, not allowed or not supported, with its field.
    pub fn from_value(
        document: serde_json::Value,
        random: RandomBytes,
    ) -> Result<Self, EncryptionConfigError> {
        Ok(Self { rules: configuration::rules(document)?, random })
    }

    fn rule(&self, key: &ObjectKey) -> Option<&EncryptionRule> {
        let resource = resource_of(key);
        let is_for = |rule: &&EncryptionRule| rule.resources.iter().any(|one| one.covers(resource));
        self.rules.iter().find(is_for)
    }

    /// The value of what lies on the disk.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn open(&self, key: &ObjectKey, stored: &Bytes) -> Result<OpenedValue, UnreadableValue> {
        let keys = self.rule(key).map_or(&[] as &[SealingKey], |rule| &rule.keys);
        let standing = |place| match place {
            0 => ValueStanding::Current,
            _ => ValueStanding::Outdated,
        };
        if !is_sealed(stored) {
            // without a rule, and first in one, this is how values lie there
            let place = keys.iter().position(|key| matches!(key, SealingKey::Plain));
            let place = if keys.is_empty() { 0 } else { place.unwrap_or(keys.len()) };
            return Ok(OpenedValue { value: stored.clone(), standing: standing(place) });
        }
        for (place, candidate) in keys.iter().enumerate() {
            let SealingKey::Cipher { prefix, cipher } = candidate else { continue };
            let Some(sealed) = stored.strip_prefix(prefix.as_bytes()) else { continue };
            let opened = cipher.open(key.as_str().as_bytes(), sealed);
            let value = opened.ok_or_else(|| {
                let (provider, key) = names_in(stored);
                UnreadableValue::WrongKey { key, provider }
            })?;
            return Ok(OpenedValue { value: value.into(), standing: standing(place) });
        }
        let (provider, key_name) = names_in(stored);
        if self.rules.is_empty() {
            return Err(UnreadableValue::NotConfigured { key: key_name, provider });
        }
        let resource = resource_of(key).to_owned();
        Err(UnreadableValue::UnknownKey { key: key_name, provider, resource })
    }
}

impl fmt::Debug for Encryption {
    /// Without the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefixes = self.rules.iter().flat_map(|rule| &rule.keys).map(|key| match key {
            SealingKey::Plain => "identity",
            SealingKey::Cipher { prefix, .. } => prefix,
        });
        f.debug_list().entries(prefixes).finish()
    }
}

impl ValueSealing for Encryption {
    fn sealed(&self, object: &StoredObject) -> Option<Bytes> {
        match self.rule(&object.key)?.keys.first()? {
            SealingKey::Plain => None,
            SealingKey::Cipher { prefix, cipher } => {
                let mut sealed = prefix.as_bytes().to_vec();
                let about = object.key.as_str().as_bytes();
                cipher.seal(&self.random, about, &object.value, &mut sealed);
                Some(sealed.into())
            }
        }
    }
}

/// Whether a stored value is encrypted.
fn is_sealed(stored: &[u8]) -> bool {
    stored.starts_with(PREFIX)
}

/// `secrets`, `deployments.apps`: the first part of a key.
fn resource_of(key: &ObjectKey) -> &str {
    let path = key.as_str().trim_start_matches('/');
    path.split_once('/').map_or(path, |(resource, _)| resource)
}

/// The provider and the key of `k8s:enc:PROVIDER:v1:KEY:…`.
fn names_in(stored: &[u8]) -> (String, String) {
    let mut parts = stored[PREFIX.len()..].splitn(4, |byte| *byte == b':');
    let text = |part: Option<&[u8]>| {
        let part = part.unwrap_or_default();
        String::from_utf8_lossy(&part[..part.len().min(64)]).into_owned()
    };
    let provider = text(parts.next());
    (provider, text(parts.nth(1)))
}

#[cfg(test)]
mod tests;
