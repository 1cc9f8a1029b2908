//! The ciphers: what follows the prefix of a value.
//!
//! | provider | bytes | tied to the object's key |
//! |---|---|---|
//! | `aesgcm` | nonce (12), ciphertext and tag | yes |
//! | `aescbc` | IV (16), ciphertext padded by PKCS #7; no tag | no |
//! | `secretbox` | nonce (24), tag and ciphertext | no |

use aes_gcm::AesGcm;
use aes_gcm::aead::consts::U12;
use aes_gcm::aead::generic_array::GenericArray;
use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::aes::{Aes128, Aes192, Aes256};
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockDecryptMut, BlockEncryptMut, KeyIvInit};
use crypto_secretbox::XSalsa20Poly1305;

use crate::RandomBytes;

/// The algorithm of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    AesGcm,
    AesCbc,
    SecretBox,
}

impl Algorithm {
    /// The name in configurations and prefixes.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AesGcm => "aesgcm",
            Self::AesCbc => "aescbc",
            Self::SecretBox => "secretbox",
        }
    }

    /// The lengths that a key may have, in bytes.
    pub(crate) fn key_lengths(self) -> &'static [usize] {
        match self {
            Self::AesGcm | Self::AesCbc => &[16, 24, 32],
            Self::SecretBox => &[32],
        }
    }

    fn nonce_bytes(self) -> usize {
        match self {
            Self::AesGcm => 12,
            Self::AesCbc => 16,
            Self::SecretBox => 24,
        }
    }
}

/// An algorithm with a key.
pub(crate) struct Cipher {
    algorithm: Algorithm,
    /// Of one of the algorithm's lengths.
    secret: Vec<u8>,
}

impl Cipher {
    /// None when the key has another length than the algorithm's.
    pub(crate) fn new(algorithm: Algorithm, secret: Vec<u8>) -> Option<Self> {
        let fits = algorithm.key_lengths().contains(&secret.len());
        fits.then_some(Self { algorithm, secret })
    }

    /// Appends the encrypted value, which begins with a new nonce.
    pub(crate) fn seal(&self, random: &RandomBytes, about: &[u8], value: &[u8], to: &mut Vec<u8>) {
        let mut nonce = vec![0; self.algorithm.nonce_bytes()];
        random(&mut nonce);
        let sealed = match (self.algorithm, self.secret.len()) {
            (Algorithm::AesGcm, 16) => self.aead_seal::<AesGcm<Aes128, U12>>(&nonce, about, value),
            (Algorithm::AesGcm, 24) => self.aead_seal::<AesGcm<Aes192, U12>>(&nonce, about, value),
            (Algorithm::AesGcm, _) => self.aead_seal::<AesGcm<Aes256, U12>>(&nonce, about, value),
            (Algorithm::AesCbc, 16) => self.cbc_seal::<Aes128>(&nonce, value),
            (Algorithm::AesCbc, 24) => self.cbc_seal::<Aes192>(&nonce, value),
            (Algorithm::AesCbc, _) => self.cbc_seal::<Aes256>(&nonce, value),
            (Algorithm::SecretBox, _) => self.aead_seal::<XSalsa20Poly1305>(&nonce, b"", value),
        };
        to.extend(nonce);
        to.extend(sealed);
    }

    /// The value; none if the key is another one, or the bytes were changed.
    pub(crate) fn open(&self, about: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_at_checked(self.algorithm.nonce_bytes())?;
        match (self.algorithm, self.secret.len()) {
            (Algorithm::AesGcm, 16) => self.aead_open::<AesGcm<Aes128, U12>>(nonce, about, sealed),
            (Algorithm::AesGcm, 24) => self.aead_open::<AesGcm<Aes192, U12>>(nonce, about, sealed),
            (Algorithm::AesGcm, _) => self.aead_open::<AesGcm<Aes256, U12>>(nonce, about, sealed),
            (Algorithm::AesCbc, 16) => self.cbc_open::<Aes128>(nonce, sealed),
            (Algorithm::AesCbc, 24) => self.cbc_open::<Aes192>(nonce, sealed),
            (Algorithm::AesCbc, _) => self.cbc_open::<Aes256>(nonce, sealed),
            (Algorithm::SecretBox, _) => self.aead_open::<XSalsa20Poly1305>(nonce, b"", sealed),
        }
    }

    fn aead_seal<A: Aead + KeyInit>(&self, nonce: &[u8], aad: &[u8], value: &[u8]) -> Vec<u8> {
        let cipher = A::new_from_slice(&self.secret).expect("the key has its length");
        let payload = Payload { msg: value, aad };
        let sealed = cipher.encrypt(GenericArray::from_slice(nonce), payload);
        sealed.expect("an object is far smaller than what the cipher takes")
    }

    fn aead_open<A: Aead + KeyInit>(
        &self,
        nonce: &[u8],
        aad: &[u8],
        sealed: &[u8],
    ) -> Option<Vec<u8>> {
        let cipher = A::new_from_slice(&self.secret).ok()?;
        cipher.decrypt(GenericArray::from_slice(nonce), Payload { msg: sealed, aad }).ok()
    }

    fn cbc_seal<C>(&self, iv: &[u8], value: &[u8]) -> Vec<u8>
    where
        cbc::Encryptor<C>: KeyIvInit + BlockEncryptMut,
        C: cbc::cipher::BlockEncryptMut + cbc::cipher::BlockCipher,
    {
        let cipher = cbc::Encryptor::<C>::new_from_slices(&self.secret, iv);
        cipher.expect("key and IV have their lengths").encrypt_padded_vec_mut::<Pkcs7>(value)
    }

    fn cbc_open<C>(&self, iv: &[u8], sealed: &[u8]) -> Option<Vec<u8>>
    where
        cbc::Decryptor<C>: KeyIvInit + BlockDecryptMut,
        C: cbc::cipher::BlockDecryptMut + cbc::cipher::BlockCipher,
    {
        let cipher = cbc::Decryptor::<C>::new_from_slices(&self.secret, iv).ok()?;
        cipher.decrypt_padded_vec_mut::<Pkcs7>(sealed).ok()
    }
}
