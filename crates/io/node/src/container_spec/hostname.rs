//! The name a pod calls itself by.

use k8s_openapi::api::core::v1::Pod;

use rekindle_runtime::NamespaceOwner;

use super::error::SpecError;
use super::namespaces::pod_namespaces;

/// The longest hostname Linux and DNS labels allow.
const HOSTNAME_MAX: usize = 63;
/// The longest name the kernel keeps in a UTS namespace.
const UTS_MAX: usize = 64;

/// A pod's hostname and its domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hostname {
    /// Without domain.
    pub name: String,
    /// What follows it in the full name, when the pod has a subdomain:
    /// `subdomain.namespace.svc.<cluster domain>`.
    pub domain: Option<String>,
}

/// The machine's, for a pod on its network: that is what containerd gives it, and the kubelet hands
/// on no other. Else `spec.hostnameOverride`, which stands alone (KEP-4762); else `spec.hostname`,
/// else the pod's name cut to 63 characters.
pub(crate) fn pod_hostname(pod: &Pod, cluster_domain: &str) -> Hostname {
    match pod_namespaces(pod).network {
        NamespaceOwner::Host => return Hostname { name: machine_name(), domain: None },
        NamespaceOwner::Own => {}
    }
    let spec = pod.spec.as_ref();
    if let Some(name) = spec.and_then(|spec| spec.hostname_override.as_deref())
        && !name.is_empty()
    {
        return Hostname { name: name.to_owned(), domain: None };
    }
    let given = spec.and_then(|spec| spec.hostname.as_deref()).filter(|name| !name.is_empty());
    let name = match given {
        Some(name) => name.to_owned(),
        None => cut(pod.metadata.name.as_deref().unwrap_or_default()),
    };
    let subdomain = spec.and_then(|spec| spec.subdomain.as_deref()).filter(|name| !name.is_empty());
    let domain = subdomain.map(|subdomain| {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        format!("{subdomain}.{namespace}.svc.{cluster_domain}")
    });
    Hostname { name, domain }
}

/// What `hostname` prints inside the pod: with setHostnameAsFQDN the full name.
///
/// # Errors
/// When the full name is longer than the kernel takes: the pod cannot start (KEP-1797).
pub(crate) fn uts_hostname(pod: &Pod, hostname: &Hostname) -> Result<String, SpecError> {
    let spec = pod.spec.as_ref();
    let as_fqdn = spec.and_then(|spec| spec.set_hostname_as_fqdn).unwrap_or(false);
    match &hostname.domain {
        Some(domain) if as_fqdn => match format!("{}.{domain}", hostname.name) {
            name if name.len() > UTS_MAX => Err(SpecError::FullNameTooLong { name }),
            name => Ok(name),
        },
        Some(_) | None => Ok(hostname.name.clone()),
    }
}

fn machine_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// At most 63 characters, and none at the end that a hostname may not end with.
fn cut(name: &str) -> String {
    let end = name.char_indices().nth(HOSTNAME_MAX).map_or(name.len(), |(at, _)| at);
    name[..end].trim_end_matches(['-', '.']).to_owned()
}
