//! The certificate that a CA issues for an order. The CA's key signs it and stays where it is.

use std::time::Duration;

use der::asn1::{BitString, ObjectIdentifier, OctetString};
use der::flagset::FlagSet;
use der::{self, Decode, Encode, Sequence};
use pem::{EncodeConfig, LineEnding, Pem};
use rekindle_types::pem_blocks::CERTIFICATE;
use rekindle_types::{Tick, TickDuration};
use x509_cert::certificate::{Certificate, Version};
use x509_cert::ext::pkix::{
    AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, KeyUsages,
    SubjectAltName, SubjectKeyIdentifier,
};
use x509_cert::ext::{Extension, Extensions};
use x509_cert::name::Name;
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};
use x509_cert::time::{Time, Validity};

use super::built_in_signer::CertificateUsage;
use super::signing::CertificateOrder;

/// Certificates begin so long ago, for clocks that are behind.
const BACKDATED: TickDuration = TickDuration::from_secs(5 * 60);
/// A certificate for less than this is good for the full time, in spite of its early beginning.
const SHORT_LIVED: TickDuration = TickDuration::from_secs(8 * 60 * 60);

const CLIENT_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2");
const SERVER_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");

/// Why no certificate was issued.
#[derive(Debug, thiserror::Error)]
pub enum CertificateIssuerError {
    /// The CA's certificate cannot be read.
    #[error("read the certificate of the CA: it is no PEM block of type CERTIFICATE")]
    NoAuthority,
    /// Something cannot be written as, or read from, DER.
    #[error("encode the certificate")]
    Encoding(#[from] der::Error),
    /// The CA has ended.
    #[error("the certificate of the CA has expired")]
    AuthorityExpired,
    /// The key does not sign.
    #[error("sign the certificate: {0}")]
    Signature(String),
}

/// What is known of a CA without its key.
#[derive(Clone, Debug)]
pub struct CertificateIssuer {
    name: Name,
    /// Its key with the algorithm, DER.
    public_key: Vec<u8>,
    key_id: Option<OctetString>,
    /// How its key signs.
    algorithm: AlgorithmIdentifierOwned,
    not_after: Tick,
}

/// TBSCertificate (RFC 5280, 4.1): what is signed.
#[derive(Sequence)]
struct UnsignedCertificate {
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT")]
    version: Version,
    serial_number: SerialNumber,
    signature: AlgorithmIdentifierOwned,
    issuer: Name,
    validity: Validity,
    subject: Name,
    public_key: SubjectPublicKeyInfoOwned,
    #[asn1(context_specific = "3", tag_mode = "EXPLICIT")]
    extensions: Extensions,
}

/// Certificate (RFC 5280, 4.1).
#[derive(Sequence)]
struct SignedCertificate {
    unsigned: UnsignedCertificate,
    algorithm: AlgorithmIdentifierOwned,
    signature: BitString,
}

impl CertificateIssuer {
    /// The CA of a certificate that is signed with its own key, PEM.
    ///
    /// # Errors
    /// When the text is no certificate.
    pub fn from_pem(text: &str) -> Result<Self, CertificateIssuerError> {
        let block = pem::parse(text).ok().filter(|block| block.tag() == CERTIFICATE);
        let block = block.ok_or(CertificateIssuerError::NoAuthority)?;
        let certificate = Certificate::from_der(block.contents())?;
        let body = certificate.tbs_certificate();
        let key_id = body.get_extension::<SubjectKeyIdentifier>()?;
        Ok(Self {
            name: body.subject().clone(),
            public_key: body.subject_public_key_info().to_der()?,
            key_id: key_id.map(|(_, SubjectKeyIdentifier(id))| id),
            algorithm: certificate.signature_algorithm().clone(),
            not_after: Tick::from_secs(body.validity().not_after.to_unix_duration().as_secs()),
        })
    }

    /// When its certificate ends.
    pub fn ends_at(&self) -> Tick {
        self.not_after
    }

    /// Whether this is its key: the SubjectPublicKeyInfo of RFC 5280, DER.
    pub fn has_public_key(&self, der: &[u8]) -> bool {
        self.public_key == der
    }

    /// A certificate, PEM. `sign` signs a message with the CA's key.
    ///
    /// # Errors
    /// When the CA has expired, or the key does not sign.
    pub fn issue(
        &self,
        order: &CertificateOrder,
        serial_number: [u8; 16],
        now: Tick,
        sign: impl FnOnce(&[u8]) -> Result<Vec<u8>, String>,
    ) -> Result<String, CertificateIssuerError> {
        if self.not_after <= now {
            return Err(CertificateIssuerError::AuthorityExpired);
        }
        let unsigned = UnsignedCertificate {
            version: Version::V3,
            serial_number: SerialNumber::new(&positive(serial_number))?,
            signature: self.algorithm.clone(),
            issuer: self.name.clone(),
            validity: self.validity(order.lifetime, now)?,
            subject: order.request.subject().clone(),
            public_key: order.request.public_key().clone(),
            extensions: self.extensions(order)?,
        };
        let signature = sign(&unsigned.to_der()?).map_err(CertificateIssuerError::Signature)?;
        let signature = BitString::from_bytes(&signature)?;
        let signed = SignedCertificate { unsigned, algorithm: self.algorithm.clone(), signature };
        let block = Pem::new(CERTIFICATE, signed.to_der()?);
        Ok(pem::encode_config(&block, EncodeConfig::new().set_line_ending(LineEnding::LF)))
    }

    /// It ends with the CA at the latest.
    fn validity(&self, lifetime: TickDuration, now: Tick) -> Result<Validity, der::Error> {
        let begin = now - BACKDATED;
        let end = if lifetime < SHORT_LIVED { now + lifetime } else { begin + lifetime };
        Ok(Validity::new(time(begin)?, time(end.min(self.not_after))?))
    }

    fn extensions(&self, order: &CertificateOrder) -> Result<Extensions, der::Error> {
        let mut key_usages = FlagSet::default();
        let mut purposes = Vec::new();
        for usage in &order.usages {
            match usage {
                CertificateUsage::DigitalSignature => key_usages |= KeyUsages::DigitalSignature,
                CertificateUsage::KeyEncipherment => key_usages |= KeyUsages::KeyEncipherment,
                CertificateUsage::ClientAuth => purposes.push(CLIENT_AUTH),
                CertificateUsage::ServerAuth => purposes.push(SERVER_AUTH),
            }
        }
        let mut extensions = Vec::new();
        if !key_usages.is_empty() {
            extensions.push(extension(&KeyUsage(key_usages), Criticality::Critical)?);
        }
        extensions.push(extension(&ExtendedKeyUsage(purposes), Criticality::Optional)?);
        let no_authority = BasicConstraints { ca: false, path_len_constraint: None };
        extensions.push(extension(&no_authority, Criticality::Critical)?);
        if let Some(key_id) = &self.key_id {
            let authority = AuthorityKeyIdentifier {
                key_identifier: Some(key_id.clone()),
                ..AuthorityKeyIdentifier::default()
            };
            extensions.push(extension(&authority, Criticality::Optional)?);
        }
        let names = order.request.alternative_names();
        if !names.is_empty() {
            // RFC 5280, 4.2.1.6: all that names the owner must be understood
            let criticality = match order.request.subject().is_empty() {
                true => Criticality::Critical,
                false => Criticality::Optional,
            };
            extensions.push(extension(&SubjectAltName(names.to_vec()), criticality)?);
        }
        Ok(extensions)
    }
}

/// What a reader of a certificate does about an extension that it does not know.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Criticality {
    /// It refuses the certificate.
    Critical,
    /// It ignores the extension.
    Optional,
}

fn extension<E: Encode + der::oid::AssociatedOid>(
    extension: &E,
    criticality: Criticality,
) -> Result<Extension, der::Error> {
    Ok(Extension {
        extn_id: E::OID,
        critical: criticality == Criticality::Critical,
        extn_value: OctetString::new(extension.to_der()?)?,
    })
}

/// A number that is greater than 0 and fits into 16 bytes (RFC 5280, 4.1.2.2).
const fn positive(mut serial_number: [u8; 16]) -> [u8; 16] {
    serial_number[0] = serial_number[0] & 0x7f | 0x40;
    serial_number
}

/// RFC 5280, 4.1.2.5: years have two digits until 2049.
fn time(tick: Tick) -> Result<Time, der::Error> {
    let since_1970 = Duration::from_micros(tick.whole_second().as_micros());
    match der::asn1::UtcTime::from_unix_duration(since_1970) {
        Ok(time) => Ok(Time::UtcTime(time)),
        Err(_) => der::asn1::GeneralizedTime::from_unix_duration(since_1970).map(Time::GeneralTime),
    }
}
