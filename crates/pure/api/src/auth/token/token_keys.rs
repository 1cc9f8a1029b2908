//! The keys of a cluster: one signs, and during a rotation another one is known still.

use super::{SignedClaims, SigningKey, TokenError, verify};

/// Which keys make tokens good.
pub struct TokenKeys {
    signing: Box<dyn SigningKey>,
    previous: Option<Box<dyn SigningKey>>,
}

impl TokenKeys {
    /// This key signs, and no other is known.
    pub fn new(signing: impl SigningKey + 'static) -> Self {
        Self { signing: Box::new(signing), previous: None }
    }

    /// The same; what this key has signed is good as well.
    #[must_use]
    pub fn with_previous(self, previous: impl SigningKey + 'static) -> Self {
        Self { previous: Some(Box::new(previous)), ..self }
    }

    /// The key that signs.
    pub(crate) fn signing(&self) -> &dyn SigningKey {
        &*self.signing
    }

    /// All of them, the one that signs first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &dyn SigningKey> {
        [Some(&self.signing), self.previous.as_ref()].into_iter().flatten().map(|key| &**key)
    }

    /// The claims of a token that one of the keys has signed. Nothing that they say is checked.
    ///
    /// # Errors
    /// When the token is not ours.
    pub(crate) fn verify(&self, token: &str) -> Result<SignedClaims, TokenError> {
        let mut refusal = TokenError::OtherKey;
        for key in self.all() {
            match verify(key, token) {
                Ok(claims) => return Ok(claims),
                // it names another key
                Err(TokenError::OtherKey) => {}
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }
}
