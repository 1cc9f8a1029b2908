//! Capabilities by name, and the set a container gets.

use crate::spec::Security;

/// By their numbers: linux/capability.h.
const NAMES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// What containerd gives a container that says nothing.
const DEFAULT: [&str; 14] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FSETID",
    "FOWNER",
    "MKNOD",
    "NET_RAW",
    "SETGID",
    "SETUID",
    "SETFCAP",
    "SETPCAP",
    "NET_BIND_SERVICE",
    "SYS_CHROOT",
    "KILL",
    "AUDIT_WRITE",
];

/// All of them.
const ALL: u64 = (1 << NAMES.len()) - 1;

/// The bit of a capability, named with or without `CAP_`.
pub(crate) fn bit(name: &str) -> Option<u64> {
    let upper = name.to_ascii_uppercase();
    let short = upper.strip_prefix("CAP_").unwrap_or(&upper);
    NAMES.iter().position(|known| *known == short).map(|number| 1 << number)
}

/// The set a container gets: the default, `ALL` added or dropped first, then the single ones. The
/// error is for people.
pub(crate) fn set(security: &Security) -> Result<u64, String> {
    if security.privileged {
        return Ok(ALL);
    }
    let is_all = |name: &String| name.eq_ignore_ascii_case("ALL");
    let known = |name: &String| {
        bit(name).ok_or_else(|| format!("{name:?} is no capability that Linux knows"))
    };
    let mut set = DEFAULT.iter().filter_map(|name| bit(name)).fold(0, |set, bit| set | bit);
    if security.add_capabilities.iter().any(is_all) {
        set = ALL;
    }
    if security.drop_capabilities.iter().any(is_all) {
        set = 0;
    }
    for name in security.add_capabilities.iter().filter(|name| !is_all(name)) {
        set |= known(name)?;
    }
    for name in security.drop_capabilities.iter().filter(|name| !is_all(name)) {
        set &= !known(name)?;
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{ImageGroups, ProcMount, Seccomp};

    fn security(add: &[&str], drop: &[&str]) -> Security {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Security {
            run_as_user: None,
            run_as_group: None,
            run_as_non_root: false,
            supplemental_groups: Vec::new(),
            image_groups: ImageGroups::Merged,
            add_capabilities: owned(add),
            drop_capabilities: owned(drop),
            privileged: false,
            allow_privilege_escalation: true,
            read_only_root: false,
            seccomp: Seccomp::RuntimeDefault,
            proc_mount: ProcMount::Default,
        }
    }

    #[test]
    fn the_default_set_is_containerds() {
        assert_eq!(set(&security(&[], &[])), Ok(0x0000_0000_a804_25fb));
    }

    #[test]
    fn sets_are_put_together_as_containerd_does() {
        let net_bind = bit("NET_BIND_SERVICE").unwrap();
        for (add, drop, expected) in [
            (&["NET_BIND_SERVICE"][..], &["ALL"][..], net_bind),
            (&["cap_net_bind_service"][..], &["all"][..], net_bind),
            (&["ALL"][..], &["SYS_ADMIN"][..], ALL & !bit("SYS_ADMIN").unwrap()),
            (&[][..], &["ALL"][..], 0),
            (&[][..], &["CHOWN", "MKNOD"][..], 0xa804_25fb & !1 & !(1 << 27)),
        ] {
            assert_eq!(set(&security(add, drop)), Ok(expected), "+{add:?} -{drop:?}");
        }
        assert!(set(&security(&["SYS_MAGIC"], &[])).unwrap_err().contains("SYS_MAGIC"));
    }
}
