//! The signers of the cluster itself, and what each signs. Rules and words are those of upstream's
//! `pkg/controller/certificates/signer` and `pkg/apis/certificates/helpers.go`.

use std::collections::BTreeSet;

use rekindle_kinds::identity::{MASTERS, NODES};
use x509_cert::ext::pkix::name::GeneralName;

use rekindle_kinds::certificate_signing_request::CertificateRequest;

/// What the common name of a node begins with.
const NODE_PREFIX: &str = "system:node:";

/// A signer that the API server itself acts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BuiltInSigner {
    /// `kubernetes.io/kube-apiserver-client`: clients of the API.
    ApiClient,
    /// `kubernetes.io/kube-apiserver-client-kubelet`: agents of nodes.
    NodeClient,
    /// `kubernetes.io/kubelet-serving`: what agents of nodes serve.
    NodeServing,
}

/// What a certificate of these signers may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CertificateUsage {
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
pub(crate) enum SignerRefusal {
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
    /// The uses are not those of a node's certificate.
    #[error("usages did not match {0}")]
    Usages(&'static str),
    /// A use that a client does not have.
    #[error("invalid usage for client certificate: {0}")]
    ClientUsage(String),
    /// The certificate would be of no use to a client.
    #[error("missing required usage for client certificate: {CLIENT_AUTH}")]
    NoClientUsage,
}

const CLIENT_AUTH: &str = "client auth";
const CLIENT_USAGES: &str = "[client auth digital signature key encipherment]";
const SERVING_USAGES: &str = "[digital signature key encipherment server auth]";

impl CertificateUsage {
    fn parse(usage: &str) -> Option<Self> {
        Some(match usage {
            "digital signature" => Self::DigitalSignature,
            "key encipherment" => Self::KeyEncipherment,
            CLIENT_AUTH => Self::ClientAuth,
            "server auth" => Self::ServerAuth,
            _ => return None,
        })
    }
}

impl BuiltInSigner {
    /// The signer of this name; none when another controller has to sign.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Self::ApiClient, Self::NodeClient, Self::NodeServing]
            .into_iter()
            .find(|signer| signer.name() == name)
    }

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
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
    pub(crate) fn check(
        self,
        request: &CertificateRequest,
        usages: &[String],
    ) -> Result<Vec<CertificateUsage>, SignerRefusal> {
        use CertificateUsage::{ClientAuth, ServerAuth};
        check_subject(request)?;
        match self {
            Self::ApiClient if request.organizations().contains(&MASTERS) => {
                Err(SignerRefusal::Masters)
            }
            Self::ApiClient => client_usages(usages),
            Self::NodeClient => {
                check_organization(request)?;
                check_names(request, &["DNS", "Email", "IP", "URI"])?;
                check_common_name(request)?;
                node_usages(usages, ClientAuth, CLIENT_USAGES)
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
                let usages = node_usages(usages, ServerAuth, SERVING_USAGES)?;
                check_common_name(request)?;
                Ok(usages)
            }
        }
    }
}

/// What a client's certificate may be used for, each once.
fn client_usages(usages: &[String]) -> Result<Vec<CertificateUsage>, SignerRefusal> {
    let mut granted = BTreeSet::new();
    for usage in usages {
        match CertificateUsage::parse(usage) {
            Some(CertificateUsage::ServerAuth) | None => {
                return Err(SignerRefusal::ClientUsage(usage.clone()));
            }
            Some(known) => granted.insert(known),
        };
    }
    match granted.contains(&CertificateUsage::ClientAuth) {
        true => Ok(granted.into_iter().collect()),
        false => Err(SignerRefusal::NoClientUsage),
    }
}

/// What a node's certificate may be used for, each once. Not all keys encipher.
fn node_usages(
    usages: &[String],
    purpose: CertificateUsage,
    wanted: &'static str,
) -> Result<Vec<CertificateUsage>, SignerRefusal> {
    use CertificateUsage::{DigitalSignature, KeyEncipherment};
    let parsed: Option<BTreeSet<_>> =
        usages.iter().map(|usage| CertificateUsage::parse(usage)).collect();
    let granted = parsed.unwrap_or_default();
    let needed = BTreeSet::from([DigitalSignature, purpose]);
    let enciphering = BTreeSet::from([DigitalSignature, KeyEncipherment, purpose]);
    match granted == needed || granted == enciphering {
        true => Ok(granted.into_iter().collect()),
        false => Err(SignerRefusal::Usages(wanted)),
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
    let names = request.alternative_names();
    match refused.iter().find(|refused| names.iter().any(|name| kind(name) == **refused)) {
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
