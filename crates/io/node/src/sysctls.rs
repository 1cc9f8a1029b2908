//! Which kernel settings pods may ask this node for: those that are safe, and those that the node's
//! owner allows. Source: kubelet, `pkg/kubelet/sysctl`.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use rekindle_pod::{EvictionCause, PodEviction};
use rekindle_types::TickDuration;
use rekindle_types::reasons::pod::AdmissionRefusal;
use rekindle_types::sysctls::{self, SysctlNamespace};

/// What is allowed beside the safe ones; the kubelet's `allowedUnsafeSysctls`. Nothing by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedSysctls {
    names: BTreeSet<String>,
    prefixes: BTreeSet<String>,
}

/// A name or a pattern that cannot be allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SysctlsError {
    /// It is none.
    #[error(
        "allowedUnsafeSysctls: {0:?} is no name of a sysctl, nor the begin of one with a * behind it"
    )]
    Name(String),
    /// A pod that set it would set it for the machine.
    #[error("allowedUnsafeSysctls: {0:?} is not known to be namespaced")]
    NotNamespaced(String),
}

impl AllowedSysctls {
    /// These names, and those that begin as a pattern does: `net.core.somaxconn`, `kernel.msg*`.
    ///
    /// # Errors
    /// When one is neither, or is not of a namespace.
    pub fn new(patterns: &[String]) -> Result<Self, SysctlsError> {
        let mut allowed = Self::default();
        for pattern in patterns {
            let pattern = sysctls::with_dots(pattern);
            let (begin, is_prefix) = match pattern.strip_suffix('*') {
                Some(begin) => (begin, true),
                None => (pattern.as_str(), false),
            };
            // one of the names that begin so
            let example = if is_prefix { format!("{begin}a") } else { begin.to_owned() };
            if !sysctls::is_name(&example) {
                return Err(SysctlsError::Name(pattern));
            }
            if sysctls::home(&example) == SysctlNamespace::Machine {
                return Err(SysctlsError::NotNamespaced(pattern));
            }
            let list = if is_prefix { &mut allowed.prefixes } else { &mut allowed.names };
            list.insert(begin.to_owned());
        }
        Ok(allowed)
    }

    fn allows(&self, name: &str) -> bool {
        sysctls::is_safe(name)
            || self.names.contains(name)
            || self.prefixes.iter().any(|begin| name.starts_with(begin))
    }

    /// Why the pod is not taken up, if it is not. That it shares the namespace of a setting with
    /// the node the API has refused.
    pub(crate) fn refusal(&self, pod: &Pod) -> Option<PodEviction> {
        let context = pod.spec.as_ref()?.security_context.as_ref()?;
        let mut names = context.sysctls.iter().flatten().map(|s| sysctls::with_dots(&s.name));
        let name = names.find(|name| !self.allows(name))?;
        Some(PodEviction {
            cause: EvictionCause::NotAdmitted { refusal: AdmissionRefusal::SysctlForbidden },
            message: format!("forbidden sysctl: {name:?} not allowlisted"),
            grace: TickDuration::ZERO,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(allowed: &[&str], asked: &[&str]) -> Option<String> {
        let allowed: Vec<String> = allowed.iter().map(|name| (*name).to_owned()).collect();
        let sysctls: Vec<_> =
            asked.iter().map(|name| json!({"name": name, "value": "1"})).collect();
        let pod = json!({"metadata": {}, "spec": {
            "containers": [], "securityContext": {"sysctls": sysctls}}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let allowed = AllowedSysctls::new(&allowed).unwrap();
        allowed.refusal(&pod).map(|eviction| eviction.message)
    }

    #[test]
    fn what_is_neither_safe_nor_allowed_is_refused() {
        for (allowed, asked, expected) in [
            (&[][..], &["net.ipv4.tcp_syncookies", "kernel/shm_rmid_forced"][..], None),
            (&[], &["net.ipv4.tcp_rmem", "net.core.somaxconn"], Some("net.core.somaxconn")),
            (&["net/core/somaxconn"], &["net.core.somaxconn"], None),
            (&["net.core.somaxconn"], &["net/core/somaxconn2"], Some("net.core.somaxconn2")),
            (&["kernel.msg*", "net.*"], &["kernel.msgmax", "net.ipv4.ip_forward"], None),
            (&["kernel.msg*"], &["kernel.shmmax"], Some("kernel.shmmax")),
        ] {
            let expected =
                expected.map(|name| format!("forbidden sysctl: {name:?} not allowlisted"));
            assert_eq!(refused(allowed, asked), expected, "{allowed:?} {asked:?}");
        }
    }

    #[test]
    fn only_what_is_of_a_namespace_can_be_allowed() {
        let read = |pattern: &str| AllowedSysctls::new(&[pattern.to_owned()]);
        for pattern in ["kernel.sem", "kernel.shm*", "fs.mqueue.*", "net.*", "net/ipv4/tcp_*"] {
            assert!(read(pattern).is_ok(), "{pattern}");
        }
        for pattern in ["kernel.*", "net*", "*", "vm.max_map_count", "kernel.core_pattern"] {
            let wrong = SysctlsError::NotNamespaced(pattern.to_owned());
            assert_eq!(read(pattern), Err(wrong), "{pattern}");
        }
        for pattern in ["", "net..x", "Net.core", "net.*.x", "net.core.-"] {
            assert_eq!(read(pattern), Err(SysctlsError::Name(pattern.to_owned())), "{pattern}");
        }
    }
}
