//! Who a client certificate names, and when it is good: the common name is the user, the
//! organizations are the groups, as in Kubernetes.

use der::Decode;
use der::asn1::ObjectIdentifier;
use rekindle_kinds::identity::UserInfo;
use rekindle_types::Tick;
use x509_cert::certificate::Certificate;
use x509_cert::time::Time;

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");

/// What a server reads in the certificate of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientCertificate {
    pub(crate) user: UserInfo,
    /// Its `notBefore`.
    pub(crate) good_from: Tick,
    /// Its `notAfter`.
    pub(crate) good_until: Tick,
}

impl ClientCertificate {
    /// Reads a certificate; none when it names no user. The TLS layer has verified its chain
    /// already.
    pub(crate) fn from_der(der: &[u8]) -> Option<Self> {
        let certificate = Certificate::from_der(der).ok()?;
        let body = certificate.tbs_certificate();
        let values = |wanted: ObjectIdentifier| {
            let attributes = body.subject().iter().filter(move |name| name.oid == wanted);
            // whatever kind of string it is
            attributes.filter_map(|name| std::str::from_utf8(name.value.value()).ok())
        };
        let name = values(COMMON_NAME).find(|name| !name.is_empty())?;
        let validity = body.validity();
        let at = |time: Time| Tick::from_secs(time.to_unix_duration().as_secs());
        Some(Self {
            user: UserInfo::new(name, values(ORGANIZATION).map(str::to_owned)),
            good_from: at(validity.not_before),
            good_until: at(validity.not_after),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn common_name_organizations_and_times_are_read() {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "kubernetes-admin");
        params.distinguished_name.push(DnType::OrganizationName, "system:masters");
        params.not_before = date_time_ymd(2026, 11, 17);
        params.not_after = date_time_ymd(2026, 11, 18);
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let read = ClientCertificate::from_der(certificate.der()).unwrap();
        let user = UserInfo::new("kubernetes-admin", ["system:masters".to_owned()]);
        let (good_from, good_until) =
            (Tick::from_secs(1_794_873_600), Tick::from_secs(1_794_960_000));
        assert_eq!(read, ClientCertificate { user, good_from, good_until });
        assert!(read.user.is_in("system:authenticated"));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = ClientCertificate::from_der(&bytes);
        }
    }
}
