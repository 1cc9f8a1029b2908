//! SHA-256 digests in the form `sha256:<hex>`, and readers that keep count of what passes through
//! them.

use std::io::{self, Read};

use sha2::{Digest, Sha256};

use super::reference::is_sha256_hex;

/// A SHA-256 digest: its 64 hex digits, safe as a file name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sha256Digest(String);

impl Sha256Digest {
    /// Reads `sha256:<64 hex digits>`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix("sha256:")?;
        is_sha256_hex(hex).then(|| Self(hex.to_owned()))
    }

    /// The digest of some bytes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Self::from_hash(Sha256::digest(bytes).into())
    }

    /// The hex digits.
    pub(crate) fn hex(&self) -> &str {
        &self.0
    }

    /// Of what a hasher was given.
    pub(crate) fn from_hasher(hasher: Sha256) -> Self {
        Self::from_hash(hasher.finalize().into())
    }

    fn from_hash(hash: [u8; 32]) -> Self {
        Self(hash.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

impl std::fmt::Display for Sha256Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "sha256:{}", self.0)
    }
}

/// `sha256:…` of some bytes.
pub(crate) fn sha256_id(bytes: &[u8]) -> String {
    Sha256Digest::from_bytes(bytes).to_string()
}

/// Digests and counts what is read through it.
pub(crate) struct DigestReader<R> {
    inner: R,
    hash: Sha256,
    count: u64,
}

impl<R: Read> DigestReader<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, hash: Sha256::new(), count: 0 }
    }

    /// Bytes read so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The digest of what was read so far.
    pub(crate) fn digest(&self) -> Sha256Digest {
        Sha256Digest::from_hash(self.hash.clone().finalize().into())
    }
}

impl<R: Read> Read for DigestReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hash.update(&buffer[..read]);
        self.count += read as u64;
        Ok(read)
    }
}
