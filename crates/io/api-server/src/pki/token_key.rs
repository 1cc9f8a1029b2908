//! The keys of tokens, kept beside the CA's: one signs, and during a rotation the one before is
//! known as well.
//!
//! ```text
//!   sa.key ──rotate──▶ sa.key (new), sa-previous.key ──retire──▶ sa.key
//! ```

use std::path::Path;
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{KeyPair, PublicKeyData};
use rekindle_api::auth::token::{SignatureFailure, SigningKey, TokenKeys};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _,
    UnparsedPublicKey,
};
use sha2::{Digest, Sha256};

use super::private_files::{make_private_folder, read_if_there};
use super::{PkiError, sync_folder_of, write_private};

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
    /// The file of the key that signs, as kubeadm calls it.
    pub const FILE: &str = "sa.key";
    /// The file of the key before, during a rotation.
    pub const PREVIOUS_FILE: &str = "sa-previous.key";

    /// The keys in this folder (mode 0700). Where there is none yet one is made (mode 0600). ECDSA
    /// P-256.
    ///
    /// # Errors
    /// See [`PkiError`].
    pub fn open_all(folder: &Path) -> Result<TokenKeys, PkiError> {
        let keys = TokenKeys::new(Self::open(folder)?);
        Ok(match Self::read(&folder.join(Self::PREVIOUS_FILE))? {
            Some(previous) => keys.with_previous(previous),
            None => keys,
        })
    }

    /// The key in this folder that signs, or a new one.
    fn open(folder: &Path) -> Result<Self, PkiError> {
        make_private_folder(folder)?;
        let path = folder.join(Self::FILE);
        match Self::read(&path)? {
            Some(key) => Ok(key),
            None => Self::make(&path),
        }
    }

    /// From now on a new key signs; what the one before has signed stays good.
    ///
    /// # Errors
    /// When a rotation is under way. See [`PkiError`].
    pub fn rotate(folder: &Path) -> Result<(), PkiError> {
        let (path, previous) = (folder.join(Self::FILE), folder.join(Self::PREVIOUS_FILE));
        Self::open(folder)?;
        let current = read_if_there(&path)?;
        match read_if_there(&previous)? {
            None => {}
            // a crash came between the two steps below
            Some(previous) if Some(&previous) == current.as_ref() => {}
            Some(_) => return Err(PkiError::RotationUnderWay { previous }),
        }
        if let Some(current) = current {
            write_private(&previous, current.as_bytes())
                .map_err(|source| PkiError::Write { path: previous, source })?;
        }
        Self::make(&path).map(drop)
    }

    /// Since when a rotation is under way: the key before is known still. None when it is not.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn rotated_at(folder: &Path) -> Result<Option<SystemTime>, PkiError> {
        let path = folder.join(Self::PREVIOUS_FILE);
        match std::fs::metadata(&path).and_then(|found| found.modified()) {
            Ok(time) => Ok(Some(time)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(PkiError::Read { path, source }),
        }
    }

    /// Ends a rotation: what the key before has signed is void.
    ///
    /// # Errors
    /// When its file cannot be removed.
    pub fn retire_previous(folder: &Path) -> Result<(), PkiError> {
        let path = folder.join(Self::PREVIOUS_FILE);
        let removed = std::fs::remove_file(&path).and_then(|()| sync_folder_of(&path));
        removed.map_err(|source| PkiError::Write { path, source })
    }

    fn read(path: &Path) -> Result<Option<Self>, PkiError> {
        let Some(pem) = read_if_there(path)? else { return Ok(None) };
        let failed = |why: String| PkiError::TokenKey { path: path.to_owned(), why };
        let pair = KeyPair::from_pem(&pem).map_err(|error| failed(error.to_string()))?;
        Self::from_key_pair(&pair).map(Some).map_err(failed)
    }

    fn make(path: &Path) -> Result<Self, PkiError> {
        let failed = |why: String| PkiError::TokenKey { path: path.to_owned(), why };
        let pair = KeyPair::generate().map_err(|error| failed(error.to_string()))?;
        let key = Self::from_key_pair(&pair).map_err(failed)?;
        write_private(path, pair.serialize_pem().as_bytes())
            .map_err(|source| PkiError::Write { path: path.to_owned(), source })?;
        Ok(key)
    }

    /// A key in memory only: for tests and examples.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn ephemeral() -> Result<Self, PkiError> {
        let failed = |why: String| PkiError::TokenKey { path: Self::FILE.into(), why };
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
        BoundObject, KubernetesClaims, SignedClaims, TokenClaims, TokenError, sign, verify,
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
        let known = verify(&TokenKey::open(&folder).unwrap(), &token);
        assert_eq!(known, Ok(SignedClaims::Requested(claims())));
        let mode = std::fs::metadata(folder.join(TokenKey::FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let other = TokenKey::ephemeral().unwrap();
        assert_eq!(verify(&other, &token), Err(TokenError::OtherKey));
        std::fs::write(folder.join(TokenKey::FILE), "nonsense").unwrap();
        let error = TokenKey::open(&folder).err().unwrap().to_string();
        assert!(error.contains("sa.key"), "{error}");
    }

    #[test]
    fn during_a_rotation_both_keys_are_kept_also_when_a_crash_came_in_between() {
        let dir = tempfile::tempdir().unwrap();
        let key_ids = || {
            let id =
                |file: &str| TokenKey::read(&dir.path().join(file)).unwrap().map(|key| key.key_id);
            (id(TokenKey::FILE), id(TokenKey::PREVIOUS_FILE))
        };
        TokenKey::open_all(dir.path()).unwrap();
        let (Some(first), None) = key_ids() else { panic!("one key is made") };
        assert_eq!(TokenKey::rotated_at(dir.path()).unwrap(), None);
        // as a crash leaves it
        std::fs::copy(dir.path().join(TokenKey::FILE), dir.path().join(TokenKey::PREVIOUS_FILE))
            .unwrap();
        TokenKey::rotate(dir.path()).unwrap();
        let (Some(second), Some(previous)) = key_ids() else { panic!("both are kept") };
        assert_eq!(previous, first);
        assert_ne!(second, first);
        assert!(TokenKey::rotated_at(dir.path()).unwrap().is_some());
        let mode = std::fs::metadata(dir.path().join(TokenKey::PREVIOUS_FILE))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let error = TokenKey::rotate(dir.path()).unwrap_err().to_string();
        assert!(error.contains("token-key retire"), "{error}");
        assert_eq!(key_ids(), (Some(second.clone()), Some(first)));
        TokenKey::retire_previous(dir.path()).unwrap();
        assert_eq!(key_ids(), (Some(second), None));
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
