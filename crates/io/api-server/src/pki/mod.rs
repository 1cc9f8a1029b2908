//! The certificate authorities of this engine, kept in its data directory, and the certificates
//! that they issue: one for servers and users, one for the proxy to other API servers. Beside them
//! the key that signs tokens, and the kubeconfig. Time is an argument.

mod client_certificate;
mod kubeconfig;
mod private_files;
mod renewed;
mod revoked_certificates;
mod token_key;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SanType, SigningKey,
};
use rekindle_api::FRONT_PROXY_CLIENT;
use rekindle_api::certificates::{CertificateIssuer, CertificateIssuerError, CertificateOrder};
use rekindle_kinds::identity::UserInfo;
use rekindle_kinds::identity::{AUTHENTICATED, MASTERS};
use rekindle_types::{Tick, TickDuration};
use ring::rand::{SecureRandom, SystemRandom};

pub(crate) use client_certificate::ClientCertificate;
pub use kubeconfig::Kubeconfig;
pub use private_files::{folder_of, sync_folder_of, write_private};
use private_files::{make_private_folder, read_if_there};
pub(crate) use renewed::RenewedCertificate;
pub use revoked_certificates::RevokedCertificates;
pub use token_key::TokenKey;

/// The names that clients know the server by.
const SERVER_NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// How long the CA is valid.
const CA_LIFETIME: TickDuration = TickDuration::from_secs(3650 * DAY_SECONDS);
/// How long certificates of our own servers and clients are valid.
pub const CERTIFICATE_LIFETIME: TickDuration = TickDuration::from_secs(365 * DAY_SECONDS);
/// When they are issued anew, at half of that.
pub const CERTIFICATE_RENEWED_AFTER: TickDuration = TickDuration::from_secs(180 * DAY_SECONDS);
/// Certificates that clients check begin so long ago, for clocks that are behind.
const BACKDATED: TickDuration = TickDuration::from_secs(DAY_SECONDS);
const DAY_SECONDS: u64 = 24 * 3600;

/// The admin's name, as kubeadm calls it.
pub const ADMIN: &str = "kubernetes-admin";

/// What went wrong with keys and certificates.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// The folder could not be made or made private.
    #[error("prepare the folder for keys {path:?}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file could not be read.
    #[error("read {path:?}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file could not be written.
    #[error("write {path:?}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// One of key and certificate is there and the other is not.
    #[error(
        "{missing:?} is missing beside its other half: restore it, or remove both to begin with a new CA"
    )]
    HalfMissing {
        /// The file that is not there.
        missing: PathBuf,
    },
    /// Key and certificate are not of one pair.
    #[error(
        "{certificate:?} is not the certificate of {key} beside it: restore both, or remove both to begin with a new CA"
    )]
    OtherPair {
        /// The certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: String,
    },
    /// A key is not one.
    #[error(
        "{path:?} holds no usable private key: restore it, or remove it and its certificate to begin with a new CA"
    )]
    Key {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: rcgen::Error,
    },
    /// The key that signs tokens cannot be made, or is none.
    #[error(
        "{path:?} holds no usable key for tokens ({why}): restore it, or remove it to begin with a new one; every token is \
         void then, and pods get new ones"
    )]
    TokenKey {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The key that signs tokens was changed, and the one before is known still.
    #[error(
        "a rotation is under way: {previous:?} is known still; `rekindle token-key retire` ends it"
    )]
    RotationUnderWay {
        /// The file of the key before.
        previous: PathBuf,
    },
    /// The file of revoked certificates says something else.
    #[error(
        "{path:?} does not say which certificates are revoked: restore it, or revoke them anew without it"
    )]
    RevokedCertificates {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// A certificate could not be issued.
    #[error("issue a certificate for {subject:?}")]
    Issue {
        /// The name that it is for.
        subject: String,
        /// Why.
        #[source]
        source: rcgen::Error,
    },
    /// A certificate that was asked for could not be issued.
    #[error("issue the certificate of a signing request")]
    Order {
        /// Why.
        #[source]
        source: CertificateIssuerError,
    },
    /// rustls does not take what was made.
    #[error("set up TLS")]
    Tls {
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl PkiError {
    pub(crate) fn tls(source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Tls { source: Box::new(source) }
    }
}

/// A certificate with its key, both PEM.
#[derive(Clone)]
pub struct IssuedCertificate {
    /// The certificate.
    pub certificate_pem: String,
    /// The private key.
    pub key_pem: String,
}

impl std::fmt::Debug for IssuedCertificate {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issued")
            .field("certificate_pem", &self.certificate_pem)
            .finish_non_exhaustive()
    }
}

/// Which authority it is: the name of its files, and its own name. That must stay the same:
/// certificates are issued in this name with the key alone.
struct AuthorityName {
    file: &'static str,
    subject: &'static str,
}

/// Signs the certificates of servers and users.
const CLUSTER: AuthorityName = AuthorityName { file: "ca", subject: "rekindle-ca" };
/// Signs the certificate of the proxy to other API servers, and nothing else: who shows it may name
/// any user there.
const FRONT_PROXY: AuthorityName =
    AuthorityName { file: "front-proxy-ca", subject: "rekindle-front-proxy-ca" };

/// The certificate authority.
pub struct CertificateAuthority {
    ca_pem: String,
    issuer: Issuer<'static, KeyPair>,
    /// Issues what is asked for with CertificateSigningRequests.
    order_issuer: CertificateIssuer,
}

impl CertificateAuthority {
    /// Opens the CA in this folder (mode 0700), or makes one there (files of mode 0600). ECDSA
    /// P-256.
    ///
    /// # Errors
    /// See [`PkiError`].
    pub fn open(folder: &Path, now: Tick) -> Result<Self, PkiError> {
        Self::open_named(folder, &CLUSTER, now)
    }

    /// The same for the CA of the proxy to other API servers.
    ///
    /// # Errors
    /// See [`PkiError`].
    pub fn open_front_proxy(folder: &Path, now: Tick) -> Result<Self, PkiError> {
        Self::open_named(folder, &FRONT_PROXY, now)
    }

    fn open_named(folder: &Path, name: &AuthorityName, now: Tick) -> Result<Self, PkiError> {
        make_private_folder(folder)?;
        let key_file = format!("{}.key", name.file);
        let certificate_path = folder.join(format!("{}.crt", name.file));
        let key_path = folder.join(&key_file);
        match (read_if_there(&key_path)?, read_if_there(&certificate_path)?) {
            (Some(key), Some(ca_pem)) => {
                let key = KeyPair::from_pem(&key)
                    .map_err(|source| PkiError::Key { path: key_path, source })?;
                let order_issuer = CertificateIssuer::from_pem(&ca_pem).ok();
                let order_issuer =
                    order_issuer.filter(|ca| ca.has_public_key(&key.subject_public_key_info()));
                let Some(order_issuer) = order_issuer else {
                    let (certificate, key) = (certificate_path, key_file);
                    return Err(PkiError::OtherPair { certificate, key });
                };
                Ok(Self {
                    ca_pem,
                    issuer: Issuer::new(ca_params(name.subject, now), key),
                    order_issuer,
                })
            }
            (Some(_), None) => Err(PkiError::HalfMissing { missing: certificate_path }),
            (None, Some(_)) => Err(PkiError::HalfMissing { missing: key_path }),
            (None, None) => {
                let (pki, key_pem) = Self::generate(name, now)?;
                let write = |path: &Path, text: &str| {
                    write_private(path, text.as_bytes())
                        .map_err(|source| PkiError::Write { path: path.to_owned(), source })
                };
                // The certificate last: a crash in between leaves a key without one, which is an
                // error, never a CA without a key.
                write(&key_path, &key_pem)?;
                write(&certificate_path, &pki.ca_pem)?;
                Ok(pki)
            }
        }
    }

    /// A CA in memory only: for tests and examples.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn ephemeral(now: Tick) -> Result<Self, PkiError> {
        Self::generate(&CLUSTER, now).map(|(pki, _)| pki)
    }

    fn generate(name: &AuthorityName, now: Tick) -> Result<(Self, String), PkiError> {
        let failed = |source| PkiError::Issue { subject: name.subject.to_owned(), source };
        let key = KeyPair::generate().map_err(failed)?;
        let params = ca_params(name.subject, now);
        let ca_pem = params.self_signed(&key).map_err(failed)?.pem();
        let key_pem = key.serialize_pem();
        let order_issuer =
            CertificateIssuer::from_pem(&ca_pem).map_err(|source| PkiError::Order { source })?;
        Ok((Self { ca_pem, issuer: Issuer::new(params, key), order_issuer }, key_pem))
    }

    /// The CA's certificate, PEM.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// When its own certificate ends, and with it all that it has issued.
    pub fn ends_at(&self) -> Tick {
        self.order_issuer.ends_at()
    }

    /// A client certificate for a user, from now on for so long: servers check it, with this
    /// machine's clock.
    ///
    /// # Errors
    /// When it cannot be issued.
    pub fn client(
        &self,
        user: &UserInfo,
        lifetime: TickDuration,
        now: Tick,
    ) -> Result<IssuedCertificate, PkiError> {
        let mut params = leaf_params(&user.name, now, now + lifetime);
        for group in user.groups.iter().filter(|group| *group != AUTHENTICATED) {
            params.distinguished_name.push(DnType::OrganizationName, group.as_str());
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(&params, &user.name)
    }

    /// The admin's client certificate (`system:masters`).
    ///
    /// # Errors
    /// When it cannot be issued.
    pub fn admin(&self, now: Tick) -> Result<IssuedCertificate, PkiError> {
        self.client(&UserInfo::new(ADMIN, [MASTERS.to_owned()]), CERTIFICATE_LIFETIME, now)
    }

    /// The client certificate of the proxy to other API servers.
    ///
    /// # Errors
    /// When it cannot be issued.
    pub fn front_proxy_client(&self, now: Tick) -> Result<IssuedCertificate, PkiError> {
        // it is checked elsewhere
        let begin = now - BACKDATED;
        self.client(&UserInfo::new(FRONT_PROXY_CLIENT, []), CERTIFICATE_LIFETIME + BACKDATED, begin)
    }

    /// The server's certificate: for localhost, the names of the Service `kubernetes`, both
    /// loopback addresses and `listen`.
    ///
    /// # Errors
    /// When it cannot be issued.
    pub fn server(&self, listen: &[IpAddr], now: Tick) -> Result<IssuedCertificate, PkiError> {
        const SUBJECT: &str = "kube-apiserver";
        let failed = |source| PkiError::Issue { subject: SUBJECT.to_owned(), source };
        let mut params = leaf_params(SUBJECT, now - BACKDATED, now + CERTIFICATE_LIFETIME);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        for name in SERVER_NAMES {
            params.subject_alt_names.push(SanType::DnsName(name.try_into().map_err(failed)?));
        }
        let mut addresses: Vec<IpAddr> =
            vec![std::net::Ipv4Addr::LOCALHOST.into(), std::net::Ipv6Addr::LOCALHOST.into()];
        for address in listen {
            // An unspecified address is no name that a client could dial.
            if !address.is_unspecified() && !addresses.contains(address) {
                addresses.push(*address);
            }
        }
        params.subject_alt_names.extend(addresses.into_iter().map(SanType::IpAddress));
        self.issue(&params, SUBJECT)
    }

    /// The certificate that a signing request asks for, PEM.
    ///
    /// # Errors
    /// When it cannot be issued.
    pub fn sign_order(&self, order: &CertificateOrder, now: Tick) -> Result<String, PkiError> {
        let failed = |source| PkiError::Order { source };
        let mut serial_number = [0; 16];
        SystemRandom::new().fill(&mut serial_number).map_err(|_| {
            failed(CertificateIssuerError::Signature("the machine gives no randomness".to_owned()))
        })?;
        let sign =
            |message: &[u8]| self.issuer.key().sign(message).map_err(|error| error.to_string());
        self.order_issuer.issue(order, serial_number, now, sign).map_err(failed)
    }

    fn issue(
        &self,
        params: &CertificateParams,
        subject: &str,
    ) -> Result<IssuedCertificate, PkiError> {
        let failed = |source| PkiError::Issue { subject: subject.to_owned(), source };
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?;
        Ok(IssuedCertificate { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
    }
}

fn ca_params(subject: &str, now: Tick) -> CertificateParams {
    let mut params = params_for(subject, now - BACKDATED, now + CA_LIFETIME);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    params
}

fn leaf_params(name: &str, begin: Tick, end: Tick) -> CertificateParams {
    let mut params = params_for(name, begin, end);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    params
}

fn params_for(name: &str, begin: Tick, end: Tick) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let since_1970 = |tick: Tick| {
        let seconds = tick.since(Tick::ZERO).as_secs();
        rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds)
    };
    params.not_before = since_1970(begin);
    params.not_after = since_1970(end);
    params
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    use super::*;

    const NOW: Tick = Tick::from_secs(1_795_000_000);

    #[test]
    fn the_ca_is_made_once_and_found_again_and_its_files_are_private() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("data/pki");
        let first = CertificateAuthority::open(&folder, NOW).unwrap();
        let again =
            CertificateAuthority::open(&folder, NOW + TickDuration::from_secs(90 * 24 * 3600))
                .unwrap();
        assert_eq!(first.ca_pem(), again.ca_pem());
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        assert_eq!(mode(&folder.join("ca.key")), 0o600);
        let (_, other) = CertificateAuthority::generate(&CLUSTER, NOW).unwrap();
        let key = std::fs::read(folder.join("ca.key")).unwrap();
        std::fs::write(folder.join("ca.key"), other).unwrap();
        let error = CertificateAuthority::open(&folder, NOW).err().unwrap().to_string();
        assert!(error.contains("ca.crt\" is not the certificate of ca.key"), "{error}");
        std::fs::write(folder.join("ca.key"), key).unwrap();
        std::fs::write(folder.join("ca.crt"), "no certificate").unwrap();
        let error = CertificateAuthority::open(&folder, NOW).err().unwrap().to_string();
        assert!(error.contains("ca.crt\" is not the certificate of ca.key"), "{error}");
        std::fs::remove_file(folder.join("ca.key")).unwrap();
        let error = CertificateAuthority::open(&folder, NOW).err().unwrap();
        assert!(error.to_string().contains("ca.key\" is missing"), "{error}");
    }

    #[test]
    fn the_proxy_has_a_ca_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let cluster = CertificateAuthority::open(dir.path(), NOW).unwrap();
        let proxy = CertificateAuthority::open_front_proxy(dir.path(), NOW).unwrap();
        assert_ne!(cluster.ca_pem(), proxy.ca_pem());
        let again = CertificateAuthority::open_front_proxy(dir.path(), NOW).unwrap();
        assert_eq!(again.ca_pem(), proxy.ca_pem());
        std::fs::remove_file(dir.path().join("front-proxy-ca.key")).unwrap();
        let error = CertificateAuthority::open_front_proxy(dir.path(), NOW).err().unwrap();
        assert!(error.to_string().contains("front-proxy-ca.key\" is missing"), "{error}");
    }

    #[test]
    fn a_client_certificate_is_good_from_the_second_on_in_which_it_was_issued() {
        let issued = CertificateAuthority::ephemeral(NOW).unwrap();
        let later = NOW + TickDuration::from_secs(5);
        let issued = issued.client(&UserInfo::new("jane", []), TickDuration::from_secs(60), later);
        let pem = issued.unwrap().certificate_pem;
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let read = ClientCertificate::from_der(&der).unwrap();
        let good_until = later + TickDuration::from_secs(60);
        let user = UserInfo::new("jane", []);
        assert_eq!(read, ClientCertificate { user, good_from: later, good_until });
    }

    #[test]
    fn keys_are_not_shown() {
        let issued = CertificateAuthority::ephemeral(NOW).unwrap().admin(NOW).unwrap();
        assert!(!format!("{issued:?}").contains("PRIVATE"));
    }
}
