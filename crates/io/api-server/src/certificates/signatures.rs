//! Signatures of certificate requests, verified by ring.

use rekindle_kinds::certificate_signing_request::{SignatureScheme, SignatureVerifier};
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA384_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1,
    ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    UnparsedPublicKey, VerificationAlgorithm,
};

/// Verifies with ring: RSA of 2048 bits and more, ECDSA on P-256 and P-384, Ed25519.
#[derive(Clone, Copy, Debug, Default)]
pub struct RingSignatures;

impl SignatureVerifier for RingSignatures {
    fn is_signature(
        &self,
        scheme: SignatureScheme,
        key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        let algorithm: &dyn VerificationAlgorithm = match scheme {
            SignatureScheme::RsaSha256 => &RSA_PKCS1_2048_8192_SHA256,
            SignatureScheme::RsaSha384 => &RSA_PKCS1_2048_8192_SHA384,
            SignatureScheme::RsaSha512 => &RSA_PKCS1_2048_8192_SHA512,
            SignatureScheme::P256Sha256 => &ECDSA_P256_SHA256_ASN1,
            SignatureScheme::P256Sha384 => &ECDSA_P256_SHA384_ASN1,
            SignatureScheme::P384Sha256 => &ECDSA_P384_SHA256_ASN1,
            SignatureScheme::P384Sha384 => &ECDSA_P384_SHA384_ASN1,
            SignatureScheme::Ed25519 => &ED25519,
        };
        UnparsedPublicKey::new(algorithm, key).verify(message, signature).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{
        CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519,
    };
    use rekindle_kinds::certificate_signing_request::{
        CertificateRequest, CertificateRequestError,
    };

    use super::*;

    fn check(pem: &str) -> Result<(), CertificateRequestError> {
        CertificateRequest::parse(pem.as_bytes()).unwrap().check_signature(&RingSignatures)
    }

    /// The same request with one bit of its signature flipped.
    fn forged(pem: &str) -> String {
        use rustls::pki_types::pem::PemObject;
        let der = rustls::pki_types::CertificateSigningRequestDer::from_pem_slice(pem.as_bytes());
        let mut der = der.unwrap().to_vec();
        *der.last_mut().unwrap() ^= 1;
        use base64::Engine as _;
        let text = base64::engine::general_purpose::STANDARD.encode(der);
        format!("-----BEGIN CERTIFICATE REQUEST-----\n{text}\n-----END CERTIFICATE REQUEST-----\n")
    }

    #[test]
    fn requests_are_signed_with_their_own_keys() {
        let mut requests = vec![RSA_2048.to_owned()];
        for algorithm in [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_ED25519] {
            let key = KeyPair::generate_for(algorithm).unwrap();
            let request = CertificateParams::default().serialize_request(&key).unwrap();
            requests.push(request.pem().unwrap());
        }
        for request in &requests {
            assert_eq!(check(request), Ok(()), "{request}");
            let error = check(&forged(request)).unwrap_err();
            assert_eq!(error, CertificateRequestError::BadSignature, "{request}");
        }
        assert_eq!(check(RSA_1024), Err(CertificateRequestError::BadSignature));
    }

    /// Requests of openssl.
    const RSA_2048: &str = "-----BEGIN CERTIFICATE REQUEST-----
MIICUzCCATsCAQAwDjEMMAoGA1UEAwwDYW5uMIIBIjANBgkqhkiG9w0BAQEFAAOC
AQ8AMIIBCgKCAQEAxVSUT7nBFUw37J9s9ZVPk1hriPq+4XQhK6heJ/tkwDsWkZyZ
DKwGu2ML68BmnZMRTItTrrRTP6+aa+T62K5dIFBm5+nm99JwSfvVQZcqSMiiINuE
qxwCjCdA6sY6bDkoIEOK7Kzb9E9hK2ul44WFgLzYYMid51LhjaLwz93T6pMhutxH
hZG6PU6ocw5jLg9fBNasb5aUmjhehAnZzYqgd6XSprYmi3/inp1DswqVlOoM68vJ
KxNqntZvxryzVWv2jNfxW0vqgjwC/vixjZRqrti64UNm5ERaGd6x+CLplCjgVCDA
5HSqWv1FqoBdIy5McrQAvjXwQD9w3Oe87LnFkQIDAQABoAAwDQYJKoZIhvcNAQEL
BQADggEBAMP466qNjRJhN5/V1tEVqA9iynGQ/quDKo8W6BQNZIjJs3CiR6yV4YxE
Cpa3kU1KyKVUjZJnhsVdI7DpAcX/MzUHYe3xEWrtB/PloRV+rQ8VU1sk3AEf+BY1
zxBHJvRectdlkYbXsoieuefv6tOi1uqBSiPFdqzX+vvBKzQQoX/2QDEr+Wsjy7oA
brHgT6SzX+G8mC2P2Xehoy/JqvmAwqXY2YUaA0Weg7Ml6l//aArs0klZLVg4hEa0
tJAuwXsbQY3OWxNL2ijUULngofUbnuz2ezRXUgZsJjeubtHG4VP2FzOwqBzvJcKV
EacLcgBdhuGr6cE+qqXK4VilOAXIsGs=
-----END CERTIFICATE REQUEST-----
";
    const RSA_1024: &str = "-----BEGIN CERTIFICATE REQUEST-----
MIIBTTCBtwIBADAOMQwwCgYDVQQDDANhbm4wgZ8wDQYJKoZIhvcNAQEBBQADgY0A
MIGJAoGBANvWjxlkAjp8NTNTJTZVwDVR118CBlBwnu8nd00xXvQpus6VFkNUk7ai
ccfqzPpX/aWhxHqHwgiA7qvCziCDtSDaFkIdDfJyugGyBUjDCt2KZIZy08ZDZcWw
nb2Obxu0nv0gJ3EqT7whtUTw0dOKS0Uw5eLCwSJqPL6OIsOjGwHXAgMBAAGgADAN
BgkqhkiG9w0BAQsFAAOBgQCayFXdsBE0pFlgrTbRFAZJFI3c4Eh2PY84DYqE+Txk
U5WBjRcDsnHe+aO4JAcw0tFeSxg95+K0/4I1euesg13rlFlx2YoYcfpdjEdrBGrC
y3f/LyXy4CrCF899EGN6nP8t44NXAIfW4LoqF5dBjrc/5fY7GSKLNWD3+MuPY58b
4w==
-----END CERTIFICATE REQUEST-----
";
}
