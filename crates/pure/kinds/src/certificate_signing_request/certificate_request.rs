//! What a request for a certificate says: PKCS#10 (RFC 2986) in PEM.

use der::asn1::ObjectIdentifier;
use der::oid::AssociatedOid;
use der::{Decode, Encode, Reader, SliceReader, Tag, Tagged};
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::name::Name;
use x509_cert::request::{CertReq, ExtensionReq};
use x509_cert::spki::SubjectPublicKeyInfoOwned;

use super::signature::{SignatureScheme, SignatureVerifier};

const BEGIN: &str = "-----BEGIN CERTIFICATE REQUEST-----";
const END: &str = "-----END CERTIFICATE REQUEST-----";
/// The reason for a text without such a block, in upstream's words.
const NO_REQUEST_BLOCK: &str = "PEM block type must be CERTIFICATE REQUEST";

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");

/// Why a text is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateRequestError {
    /// There is no PEM block of the right type.
    #[error("{NO_REQUEST_BLOCK}")]
    OtherBlock,
    /// The block is no PKCS#10 request.
    #[error("the PEM block holds no certificate request: {0}")]
    Malformed(der::Error),
    /// One extension is asked for twice.
    #[error("the certificate request asks for an extension twice")]
    DuplicateExtension,
    /// An address has neither 4 nor 16 bytes.
    #[error("an IP address in the certificate request has neither 4 nor 16 bytes")]
    BadAddress,
    /// The algorithm of the signature is none that the server knows.
    #[error(
        "the signature must be RSA with SHA-2, ECDSA with SHA-256 or SHA-384 on P-256 or P-384, or Ed25519"
    )]
    UnknownAlgorithm,
    /// The server has nothing that verifies signatures.
    #[error("this server cannot verify the signature of the request")]
    NoVerifier,
    /// The signature was not made with the key in the request.
    #[error("the signature was not made with the private key of the request")]
    BadSignature,
}

impl From<der::Error> for CertificateRequestError {
    fn from(error: der::Error) -> Self {
        Self::Malformed(error)
    }
}

/// A request that can be read.
#[derive(Clone, Debug)]
pub struct CertificateRequest {
    request: CertReq,
    /// The part of the request that is signed, byte by byte.
    signed: Vec<u8>,
    alternative_names: Vec<GeneralName>,
}

impl CertificateRequest {
    /// Reads the only PEM block of a text. Nothing else may stand there: another reader might show
    /// its user another request than the one that is signed.
    ///
    /// # Errors
    /// When it is no request, or says something that no certificate can hold.
    pub fn parse(text: &[u8]) -> Result<Self, CertificateRequestError> {
        let block = only_block(text).and_then(|text| pem::parse(text).ok());
        let block = block.filter(|block| block.headers().iter().next().is_none());
        let block = block.ok_or(CertificateRequestError::OtherBlock)?;
        let request = CertReq::from_der(block.contents())?;
        let signed = SliceReader::new(block.contents())?.sequence(|parts| {
            let signed = parts.tlv_bytes()?.to_vec();
            // the algorithm and the signature, which were read above
            parts.tlv_bytes()?;
            parts.tlv_bytes()?;
            Ok::<_, der::Error>(signed)
        })?;
        let alternative_names = alternative_names(&request)?;
        Ok(Self { request, signed, alternative_names })
    }

    /// Checks that the sender has the private key.
    ///
    /// # Errors
    /// When the signature is not by the key in the request, or its algorithm is unknown.
    pub fn check_signature(
        &self,
        verifier: &dyn SignatureVerifier,
    ) -> Result<(), CertificateRequestError> {
        let key = &self.request.info.public_key;
        let scheme = SignatureScheme::from_algorithms(&self.request.algorithm, &key.algorithm)
            .ok_or(CertificateRequestError::UnknownAlgorithm)?;
        let signature = self.request.signature.as_bytes();
        let key = key.subject_public_key.as_bytes();
        let (Some(signature), Some(key)) = (signature, key) else {
            return Err(CertificateRequestError::BadSignature);
        };
        match verifier.is_signature(scheme, key, &self.signed, signature) {
            true => Ok(()),
            false => Err(CertificateRequestError::BadSignature),
        }
    }

    /// The subject that the certificate shall have.
    pub fn subject(&self) -> &Name {
        &self.request.info.subject
    }

    /// The public key that the certificate shall have.
    pub fn public_key(&self) -> &SubjectPublicKeyInfoOwned {
        &self.request.info.public_key
    }

    /// The names beside the subject that the certificate shall have.
    pub fn alternative_names(&self) -> &[GeneralName] {
        &self.alternative_names
    }

    /// The common names of the subject. A client is known by the first one that is not empty.
    pub fn common_names(&self) -> Vec<&str> {
        self.subject_values(COMMON_NAME)
    }

    /// The organizations of the subject: the groups of a client.
    pub fn organizations(&self) -> Vec<&str> {
        self.subject_values(ORGANIZATION)
    }

    /// How many common names the subject has, whatever they say.
    pub fn common_name_count(&self) -> usize {
        self.subject().iter().filter(|value| value.oid == COMMON_NAME).count()
    }

    /// Whether each name and group is a text that every reader of certificates reads in the same
    /// way.
    pub fn has_plain_subject(&self) -> bool {
        let read = [COMMON_NAME, ORGANIZATION];
        let mut values = self.subject().iter().filter(|value| read.contains(&value.oid));
        values.all(|value| {
            let is_plain = matches!(
                value.value.tag(),
                Tag::Utf8String | Tag::PrintableString | Tag::Ia5String
            );
            is_plain && std::str::from_utf8(value.value.value()).is_ok()
        })
    }

    /// As the server reads the subject of a client certificate: text of UTF-8, whatever its tag.
    fn subject_values(&self, attribute: ObjectIdentifier) -> Vec<&str> {
        let values = self.subject().iter().filter(|value| value.oid == attribute);
        values.filter_map(|value| std::str::from_utf8(value.value.value()).ok()).collect()
    }
}

/// The text of the one block, if there is nothing else.
fn only_block(text: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let after = text.strip_prefix(BEGIN)?.starts_with(['\n', '\r']);
    let is_alone = text.matches("-----BEGIN").count() == 1 && text.ends_with(END);
    (after && is_alone).then_some(text)
}

/// The names of the requested extension that a certificate takes over.
fn alternative_names(request: &CertReq) -> Result<Vec<GeneralName>, CertificateRequestError> {
    let extensions = requested_extensions(request)?;
    let found = extensions.iter().find(|extension| extension.extn_id == SubjectAltName::OID);
    let Some(found) = found else { return Ok(Vec::new()) };
    let SubjectAltName(names) = SubjectAltName::from_der(found.extn_value.as_bytes())?;
    let mut taken = Vec::new();
    for name in names {
        match &name {
            GeneralName::IpAddress(bytes) if !matches!(bytes.as_bytes().len(), 4 | 16) => {
                return Err(CertificateRequestError::BadAddress);
            }
            GeneralName::Rfc822Name(_)
            | GeneralName::DnsName(_)
            | GeneralName::UniformResourceIdentifier(_)
            | GeneralName::IpAddress(_) => taken.push(name),
            // no certificate of these signers has such names, as upstream
            GeneralName::OtherName(_)
            | GeneralName::DirectoryName(_)
            | GeneralName::EdiPartyName(_)
            | GeneralName::RegisteredId(_) => {}
        }
    }
    Ok(taken)
}

fn requested_extensions(request: &CertReq) -> Result<Vec<Extension>, CertificateRequestError> {
    let mut extensions: Vec<Extension> = Vec::new();
    let asked = request.info.attributes.iter().filter(|asked| asked.oid == ExtensionReq::OID);
    for value in asked.flat_map(|asked| asked.values.iter()) {
        let ExtensionReq(more) = ExtensionReq::from_der(&value.to_der()?)?;
        extensions.extend(more);
    }
    let mut known: Vec<ObjectIdentifier> = extensions.iter().map(|asked| asked.extn_id).collect();
    known.sort_unstable();
    match known.windows(2).any(|pair| pair[0] == pair[1]) {
        true => Err(CertificateRequestError::DuplicateExtension),
        false => Ok(extensions),
    }
}
