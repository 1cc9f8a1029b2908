//! Who a client certificate names: the common name is the user, the organizations are the groups,
//! as in Kubernetes.

use rekindle_kinds::identity::UserInfo;
use yasna::models::{ObjectIdentifier, TaggedDerValue};

/// 2.5.4.3.
const COMMON_NAME: [u64; 4] = [2, 5, 4, 3];
/// 2.5.4.10.
const ORGANIZATION: [u64; 4] = [2, 5, 4, 10];

/// The position of the subject in the certificate's body: after version, serial number, algorithm,
/// issuer, validity (RFC 5280; version 3 always states its version).
const SUBJECT_POSITION: usize = 5;

/// The user that a certificate names; none when it names no user. The TLS layer has verified its
/// chain already.
pub(crate) fn user_of_certificate(der: &[u8]) -> Option<UserInfo> {
    let attributes = subject(der)?;
    let values = |wanted: &[u64]| {
        attributes
            .iter()
            .filter(|(oid, _)| oid.components().as_slice() == wanted)
            .filter_map(|(_, value)| std::str::from_utf8(value.value()).ok())
            .map(str::to_owned)
            .collect::<Vec<String>>()
    };
    let name = values(&COMMON_NAME).into_iter().find(|name| !name.is_empty())?;
    Some(UserInfo::new(name, values(&ORGANIZATION)))
}

fn subject(der: &[u8]) -> Option<Vec<(ObjectIdentifier, TaggedDerValue)>> {
    let elements = |der: &[u8]| {
        yasna::parse_der(der, |reader| reader.collect_sequence_of(|element| element.read_der()))
            .ok()
    };
    let certificate = elements(der)?;
    let subject = elements(certificate.first()?)?.into_iter().nth(SUBJECT_POSITION)?;
    let names = yasna::parse_der(&subject, |reader| {
        reader.collect_sequence_of(|name| {
            name.collect_set_of(|attribute| {
                attribute.read_sequence(|parts| {
                    Ok((parts.next().read_oid()?, parts.next().read_tagged_der()?))
                })
            })
        })
    });
    Some(names.ok()?.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    #[test]
    fn common_name_and_organizations_are_read() {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "kubernetes-admin");
        params.distinguished_name.push(DnType::OrganizationName, "system:masters");
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let user = user_of_certificate(certificate.der()).unwrap();
        assert_eq!(user, UserInfo::new("kubernetes-admin", ["system:masters".to_owned()]));
        assert!(user.is_in("system:authenticated"));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = user_of_certificate(&bytes);
        }
    }
}
