//! A key for tokens without a machine's randomness: the signature is a digest of key and message.

use rekindle_api::auth::token::{SignatureFailure, SigningKey};
use sha2::{Digest, Sha256};

const SECRET: &[u8] = b"only the tests have it";

/// No other key signs in this way. The core asks no more of a key.
pub struct DigestKey;

impl DigestKey {
    fn digest(message: &[u8]) -> Vec<u8> {
        Sha256::new_with_prefix(SECRET).chain_update(message).finalize().to_vec()
    }
}

impl SigningKey for DigestKey {
    fn key_id(&self) -> &str {
        "digest"
    }

    fn signature(&self, message: &[u8]) -> Result<Vec<u8>, SignatureFailure> {
        Ok(Self::digest(message))
    }

    fn is_signature(&self, message: &[u8], signature: &[u8]) -> bool {
        Self::digest(message) == signature
    }

    fn public_point(&self) -> &[u8] {
        &[4; 65]
    }
}
