//! A key for tokens without a machine's randomness: the signature is a digest of key and message.

use rekindle_api::auth::token::{SignatureFailure, SigningKey};
use sha2::{Digest, Sha256};

const SECRET: &[u8] = b"only the tests have it";

/// A key by its name; each name signs in another way. The core asks no more of a key.
pub struct DigestKey(pub &'static str);

impl Default for DigestKey {
    fn default() -> Self {
        Self("digest")
    }
}

impl DigestKey {
    fn digest(&self, message: &[u8]) -> Vec<u8> {
        let of_key = Sha256::new_with_prefix(SECRET).chain_update(self.0);
        of_key.chain_update(message).finalize().to_vec()
    }
}

impl SigningKey for DigestKey {
    fn key_id(&self) -> &str {
        self.0
    }

    fn signature(&self, message: &[u8]) -> Result<Vec<u8>, SignatureFailure> {
        Ok(self.digest(message))
    }

    fn is_signature(&self, message: &[u8], signature: &[u8]) -> bool {
        self.digest(message) == signature
    }

    fn public_point(&self) -> &[u8] {
        &[4; 65]
    }
}
