//! The key that signs tokens, made once and kept beside the CA's.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{KeyPair, PublicKeyData};
use rekindle_api::auth::token::{SignatureFailure, SigningKey};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _,
    UnparsedPublicKey,
};
use sha2::{Digest, Sha256};

use super::private_files::{make_private_folder, read_if_there};
use super::{PkiError, write_private};

/// The file, as kubeadm calls it.
const FILE: &str = "sa.key";

/// Signs and verifies.
pub struct TokenKey {
    pair: EcdsaKeyPair,
    key_id: String,
    random: SystemRandom,
}

impl std::fmt::Debug for TokenKey {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenKey").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

impl TokenKey {
    /// Opens the key in this folder (mode 0700), or makes one there (mode 0600). ECDSA P-256.
    ///
    /// # Errors
    /// See [`PkiError`].
    pub fn open(folder: &Path) -> Result<Self, PkiError> {
        make_private_folder(folder)?;
        let path = folder.join(FILE);
        let failed = |why: String| PkiError::TokenKey { path: path.clone(), why };
        if let Some(pem) = read_if_there(&path)? {
            let pair = KeyPair::from_pem(&pem).map_err(|error| failed(error.to_string()))?;
            return Self::from_key_pair(&pair).map_err(failed);
        }
        let pair = KeyPair::generate().map_err(|error| failed(error.to_string()))?;
        let key = Self::from_key_pair(&pair).map_err(failed)?;
        write_private(&path, pair.serialize_pem().as_bytes())
            .map_err(|source| PkiError::Write { path: path.clone(), source })?;
        Ok(key)
    }

    /// A key in memory only: for tests and examples.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn ephemeral() -> Result<Self, PkiError> {
        let failed = |why: String| PkiError::TokenKey { path: FILE.into(), why };
        let pair = KeyPair::generate().map_err(|error| failed(error.to_string()))?;
        Self::from_key_pair(&pair).map_err(failed)
    }

    fn from_key_pair(pair: &KeyPair) -> Result<Self, String> {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let signer = EcdsaKeyPair::from_pkcs8(algorithm, pair.serialized_der(), &random)
            .map_err(|error| error.to_string())?;
        let digest = Sha256::digest(pair.subject_public_key_info());
        Ok(Self { pair: signer, key_id: URL_SAFE_NO_PAD.encode(digest), random })
    }
}

impl SigningKey for TokenKey {
    fn key_id(&self) -> &str {
        &self.key_id
    }

    fn signature(&self, message: &[u8]) -> Result<Vec<u8>, SignatureFailure> {
        let signature = self.pair.sign(&self.random, message).map_err(|_| SignatureFailure)?;
        Ok(signature.as_ref().to_vec())
    }

    fn is_signature(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key())
            .verify(message, signature)
            .is_ok()
    }

    fn public_point(&self) -> &[u8] {
        self.pair.public_key().as_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;
    use rekindle_api::auth::token::{
        BoundObject, KubernetesClaims, TokenClaims, TokenError, sign, verify,
    };

    use super::*;

    fn claims() -> TokenClaims {
        TokenClaims {
            aud: vec!["us".to_owned()],
            exp: 3_600,
            iat: 0,
            iss: "issuer".to_owned(),
            jti: "1".to_owned(),
            private: KubernetesClaims {
                namespace: "shop".to_owned(),
                pod: Some(BoundObject { name: "web".to_owned(), uid: "u-1".to_owned() }),
                serviceaccount: BoundObject { name: "robot".to_owned(), uid: "u-2".to_owned() },
                ..KubernetesClaims::default()
            },
            nbf: 0,
            sub: "system:serviceaccount:shop:robot".to_owned(),
        }
    }

    fn with_header(token: &str, header: &str) -> String {
        let (_, rest) = token.split_once('.').unwrap();
        format!("{}.{rest}", URL_SAFE_NO_PAD.encode(header))
    }

    #[test]
    fn a_token_is_known_by_the_key_that_signed_it_also_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("pki");
        let token = sign(&TokenKey::open(&folder).unwrap(), &claims()).unwrap();
        assert_eq!(verify(&TokenKey::open(&folder).unwrap(), &token), Ok(claims()));
        let mode = std::fs::metadata(folder.join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let other = TokenKey::ephemeral().unwrap();
        assert_eq!(verify(&other, &token), Err(TokenError::OtherKey));
        std::fs::write(folder.join(FILE), "nonsense").unwrap();
        let error = TokenKey::open(&folder).err().unwrap().to_string();
        assert!(error.contains("sa.key"), "{error}");
    }

    /// RFC 8725: the header is an attacker's; no other algorithm is ever tried.
    #[test]
    fn forged_tokens_are_refused() {
        let key = TokenKey::ephemeral().unwrap();
        let token = sign(&key, &claims()).unwrap();
        let id = &key.key_id;
        for header in [
            r#"{"alg":"none"}"#.to_owned(),
            format!(r#"{{"alg":"none","kid":"{id}"}}"#),
            format!(r#"{{"alg":"HS256","kid":"{id}"}}"#),
            format!(r#"{{"alg":"es256","kid":"{id}"}}"#),
            format!(r#"{{"alg":"ES256","kid":"{id}","crit":["b64"]}}"#),
            r#"{"alg":"ES256"}"#.to_owned(),
        ] {
            let forged = with_header(&token, &header);
            assert_eq!(verify(&key, &forged), Err(TokenError::OtherKey), "{header}");
        }
        let (unsigned, signature) = token.rsplit_once('.').unwrap();
        let (header, _) = unsigned.split_once('.').unwrap();
        let mut other = claims();
        other.sub = "system:serviceaccount:kube-system:admin".to_owned();
        let body = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&other).unwrap());
        for forged in [
            format!("{header}.{body}.{signature}"),
            format!("{header}.{body}."),
            format!("{unsigned}.{}", URL_SAFE_NO_PAD.encode([0; 64])),
            format!(" {token}"),
            format!("{token}="),
            format!("{token}.{signature}"),
            unsigned.to_owned(),
            String::new(),
            "a.b.c".to_owned(),
            "x".repeat(1 << 20),
        ] {
            assert!(verify(&key, &forged).is_err(), "{forged:.80}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_and_no_changed_token_is_good(text in ".{0,200}", at in 0_usize..600, byte in any::<u8>()) {
            let key = TokenKey::ephemeral().unwrap();
            prop_assert!(verify(&key, &text).is_err());
            let token = sign(&key, &claims()).unwrap();
            let mut bytes = token.clone().into_bytes();
            let at = at % bytes.len();
            bytes[at] = byte;
            let changed = String::from_utf8_lossy(&bytes).into_owned();
            prop_assert!(changed == token || verify(&key, &changed).is_err());
        }
    }
}
