//! Kernel settings of a sandbox. Only those of a namespace of its own are ever written: another
//! namespace's are the host's.

use rekindle_types::sysctls::{SysctlNamespace, home};

use crate::error::Cause;
use crate::spec::{NamespaceOwner, Namespaces, SandboxSpec, SandboxUsers};

/// What other engines set, so that ping and low ports work without privileges. All of the network
/// namespace.
const FIRST_PORT: &str = "net.ipv4.ip_unprivileged_port_start";
const PINGING_GROUPS: &str = "net.ipv4.ping_group_range";
/// The largest group that the kernel takes there.
const GROUP_MAX: u32 = 2_147_483_647;

/// What is set in every sandbox that has a network of its own.
pub(crate) fn default_sysctls(namespaces: Namespaces) -> Vec<(String, String)> {
    match namespaces.network {
        NamespaceOwner::Own => {
            // Groups are those of whoever writes it, and must all exist.
            let last = match namespaces.users {
                SandboxUsers::Host => GROUP_MAX,
                SandboxUsers::Own(range) => range.length.saturating_sub(1).min(GROUP_MAX),
            };
            let groups = (PINGING_GROUPS.to_owned(), format!("0 {last}"));
            vec![(FIRST_PORT.to_owned(), "0".to_owned()), groups]
        }
        NamespaceOwner::Host => Vec::new(),
    }
}

/// The settings that the pod asks for beyond the default ones.
///
/// # Errors
/// When one of them is not of a namespace that the sandbox has for itself.
pub(crate) fn check_sysctls(spec: &SandboxSpec) -> Result<Vec<(String, String)>, Cause> {
    for name in spec.sysctls.keys() {
        let whose = match home(name) {
            SysctlNamespace::Network => spec.namespaces.network,
            SysctlNamespace::Ipc => spec.namespaces.ipc,
            SysctlNamespace::Machine => NamespaceOwner::Host,
        };
        match whose {
            NamespaceOwner::Own => {}
            NamespaceOwner::Host => {
                return Err(format!("sysctl {name:?} is the whole machine's, not the pod's").into());
            }
        }
    }
    Ok(spec.sysctls.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::UserRange;

    #[test]
    fn nothing_is_set_in_the_hosts_network() {
        let namespaces = Namespaces { network: NamespaceOwner::Host, ..Namespaces::default() };
        assert_eq!(default_sysctls(namespaces), []);
        let own = default_sysctls(Namespaces::default());
        assert_eq!(own.len(), 2);
        assert!(own.iter().all(|(name, _)| home(name) == SysctlNamespace::Network));
    }

    #[test]
    fn groups_that_may_ping_are_those_that_there_are() {
        let groups =
            |users| default_sysctls(Namespaces { users, ..Namespaces::default() })[1].1.clone();
        assert_eq!(groups(SandboxUsers::Host), "0 2147483647");
        let range = UserRange { first: 1 << 20, length: 65_536 };
        assert_eq!(groups(SandboxUsers::Own(range)), "0 65535");
    }
}
