//! The signers of the cluster itself, and what each signs. Rules and words are those of upstream's
//! `pkg/controller/certificates/signer` and `pkg/apis/certificates/helpers.go`.

use x509_cert::ext::pkix::name::GeneralName;

use super::certificate_request::CertificateRequest;
use crate::auth::user::{MASTERS, NODES};

/// What the common name of a node begins with.
const NODE_PREFIX: &str = "system:node:";

/// A signer that the API server itself acts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltInSigner {
    /// `kubernetes.io/kube-apiserver-client`: clients of the API.
    ApiClient,
    /// `kubernetes.io/kube-apiserver-client-kubelet`: agents of nodes.
    NodeClient,
    /// `kubernetes.io/kubelet-serving`: what agents of nodes serve.
    NodeServing,
}

/// What a certificate of these signers may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CertificateUsage {
    /// `digital signature`.
    DigitalSignature,
    /// `key encipherment`.
    KeyEncipherment,
    /// `client auth`.
    ClientAuth,
    /// `server auth`.
    ServerAuth,
}

/// Why a signer does not sign a request. Upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignerRefusal {
    /// The organization is not that of nodes.
    #[error("subject organization is not system:nodes")]
    Organization,
    /// The common name is not that of a node.
    #[error("subject common name does not begin with system:node:")]
    CommonName,
    /// Readers of a certificate with several common names take different ones.
    #[error("the subject has more than one common name")]
    SeveralCommonNames,
    /// Readers of such a subject may read different names.
    #[error("a name in the subject is no UTF8String, PrintableString or IA5String")]
    SubjectText,
    /// It would make its owner an administrator.
    #[error("subject organization system:masters is not allowed")]
    Masters,
    /// A server needs a name.
    #[error("DNS or IP subjectAltName is required")]
    NoServerName,
    /// A name of a kind that the signer does not sign.
    #[error("{0} subjectAltNames are not allowed")]
    AlternativeName(&'static str),
    /// Uses that the signer does not grant.
    #[error("usages did not match {0}")]
    Usages(&'static str),
}

const CLIENT_USAGES: &str = "[client auth digital signature key encipherment]";
const SERVING_USAGES: &str = "[digital signature key encipherment server auth]";

impl CertificateUsage {
    fn parse(usage: &str) -> Option<Self> {
        Some(match usage {
            "digital signature" => Self::DigitalSignature,
            "key encipherment" => Self::KeyEncipherment,
            "client auth" => Self::ClientAuth,
            "server auth" => Self::ServerAuth,
            _ => return None,
        })
    }
}

impl BuiltInSigner {
    /// The signer of this name; none when another controller has to sign.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::ApiClient, Self::NodeClient, Self::NodeServing]
            .into_iter()
            .find(|signer| signer.name() == name)
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ApiClient => "kubernetes.io/kube-apiserver-client",
            Self::NodeClient => "kubernetes.io/kube-apiserver-client-kubelet",
            Self::NodeServing => "kubernetes.io/kubelet-serving",
        }
    }

    /// Checks that the signer signs such a request. Gives what the certificate may be used for.
    ///
    /// # Errors
    /// The first rule that the request breaks.
    pub fn check(
        self,
        request: &CertificateRequest,
        usages: &[String],
    ) -> Result<Vec<CertificateUsage>, SignerRefusal> {
        check_subject(request)?;
        match self {
            Self::ApiClient if request.organizations().contains(&MASTERS) => {
                return Err(SignerRefusal::Masters);
            }
            Self::ApiClient => {}
            Self::NodeClient => {
                check_organization(request)?;
                check_names(request, &["DNS", "Email", "URI", "IP"])?;
                check_common_name(request)?;
            }
            Self::NodeServing => {
                check_organization(request)?;
                if !request
                    .alternative_names()
                    .iter()
                    .any(|name| matches!(kind(name), "DNS" | "IP"))
                {
                    return Err(SignerRefusal::NoServerName);
                }
                check_names(request, &["Email", "URI"])?;
                check_common_name(request)?;
            }
        }
        self.granted(usages)
    }

    fn granted(self, usages: &[String]) -> Result<Vec<CertificateUsage>, SignerRefusal> {
        use CertificateUsage::{ClientAuth, DigitalSignature, KeyEncipherment, ServerAuth};
        let (needed, optional, wanted): (&[_], &[_], _) = match self {
            Self::ApiClient => (&[ClientAuth], &[DigitalSignature, KeyEncipherment], self.name()),
            Self::NodeClient => {
                (&[DigitalSignature, ClientAuth], &[KeyEncipherment], CLIENT_USAGES)
            }
            Self::NodeServing => {
                (&[DigitalSignature, ServerAuth], &[KeyEncipherment], SERVING_USAGES)
            }
        };
        let refusal = || SignerRefusal::Usages(wanted);
        let parsed = usages.iter().map(|usage| CertificateUsage::parse(usage));
        let mut granted = parsed.collect::<Option<Vec<_>>>().ok_or_else(refusal)?;
        granted.sort_unstable();
        granted.dedup();
        let is_known =
            granted.iter().all(|usage| needed.contains(usage) || optional.contains(usage));
        match is_known && needed.iter().all(|usage| granted.contains(usage)) {
            true => Ok(granted),
            false => Err(refusal()),
        }
    }
}

/// The approver, the signer and the servers that see the certificate must read the same subject.
fn check_subject(request: &CertificateRequest) -> Result<(), SignerRefusal> {
    if request.common_name_count() > 1 {
        return Err(SignerRefusal::SeveralCommonNames);
    }
    match request.has_plain_subject() {
        true => Ok(()),
        false => Err(SignerRefusal::SubjectText),
    }
}

fn check_organization(request: &CertificateRequest) -> Result<(), SignerRefusal> {
    match request.organizations() == [NODES] {
        true => Ok(()),
        false => Err(SignerRefusal::Organization),
    }
}

fn check_common_name(request: &CertificateRequest) -> Result<(), SignerRefusal> {
    match request.common_names().as_slice() {
        [name] if name.starts_with(NODE_PREFIX) => Ok(()),
        _ => Err(SignerRefusal::CommonName),
    }
}

fn check_names(
    request: &CertificateRequest,
    refused: &[&'static str],
) -> Result<(), SignerRefusal> {
    let mut kinds = request.alternative_names().iter().map(kind);
    match kinds.find(|kind| refused.contains(kind)) {
        Some(kind) => Err(SignerRefusal::AlternativeName(kind)),
        None => Ok(()),
    }
}

/// How upstream calls a kind of names.
const fn kind(name: &GeneralName) -> &'static str {
    match name {
        GeneralName::DnsName(_) => "DNS",
        GeneralName::Rfc822Name(_) => "Email",
        GeneralName::UniformResourceIdentifier(_) => "URI",
        GeneralName::IpAddress(_) => "IP",
        GeneralName::OtherName(_)
        | GeneralName::DirectoryName(_)
        | GeneralName::EdiPartyName(_)
        | GeneralName::RegisteredId(_) => "other",
    }
}
