//! Names of kernel settings: `net.ipv4.ip_forward`, or as sysctl(8) takes them as well,
//! `net/ipv4/ip_forward`. In the second form dots are part of a name:
//! `net/ipv4/conf/eth0.100/rp_filter`.

/// Nothing outside the pod feels them. Every kernel that an agent runs on has them in a namespace.
/// Source: kubelet, `safe_sysctls.go`.
const SAFE: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];

/// Whether every node takes a pod with this setting, by its name [with dots](with_dots). Others it
/// has to allow.
pub fn is_safe(name: &str) -> bool {
    SAFE.contains(&name)
}

/// The name with dots between its parts, and slashes for the dots that a part holds (kubelet:
/// `NormalizeName`).
pub fn with_dots(name: &str) -> String {
    match name.find(['.', '/']).and_then(|at| name.get(at..=at)) {
        Some("/") => swapped(name),
        Some(_) | None => name.to_owned(),
    }
}

/// Whether this is a name [with dots](with_dots), as upstream's `IsValidSysctlName` has it.
pub fn is_name(name: &str) -> bool {
    const BYTES_MAX: usize = 253;
    let edge = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= BYTES_MAX
        && name.split(['.', '/']).all(|part| {
            let bytes = part.as_bytes();
            bytes.first().is_some_and(|first| edge(*first))
                && bytes.last().is_some_and(|last| edge(*last))
                && bytes.iter().all(|byte| edge(*byte) || matches!(byte, b'-' | b'_'))
        })
}

/// The namespace that a setting belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SysctlNamespace {
    /// The network namespace.
    Network,
    /// The IPC namespace.
    Ipc,
    /// None: it is the whole machine's.
    Machine,
}

/// Where a setting lives, by its name [with dots](with_dots). As the kubelet sorts them.
pub fn home(name: &str) -> SysctlNamespace {
    let separator = |c: char| matches!(c, '.' | '/');
    let plain = |c: char| c.is_ascii_alphanumeric() || separator(c) || matches!(c, '_' | '-');
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    // an empty part is a way out: its file would be found elsewhere
    if !name.chars().all(plain) || name.split(separator).any(str::is_empty) {
        SysctlNamespace::Machine
    } else if name.starts_with("net.") {
        SysctlNamespace::Network
    } else if begins(&["kernel.shm", "kernel.msg", "fs.mqueue."]) || name == "kernel.sem" {
        SysctlNamespace::Ipc
    } else {
        SysctlNamespace::Machine
    }
}

fn swapped(name: &str) -> String {
    name.chars()
        .map(|letter| match letter {
            '.' => '/',
            '/' => '.',
            other => other,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_name_are_one_setting() {
        for (given, name) in [
            ("net.core.somaxconn", "net.core.somaxconn"),
            ("net/core/somaxconn", "net.core.somaxconn"),
            ("net/ipv4/conf/eth0.100/x", "net.ipv4.conf.eth0/100.x"),
            ("net.ipv4.conf.eth0/100.x", "net.ipv4.conf.eth0/100.x"),
            ("plain", "plain"),
        ] {
            assert_eq!(with_dots(given), name, "{given}");
        }
    }

    #[test]
    fn a_name_has_parts_of_small_letters_and_digits() {
        for name in ["kernel.sem", "net.ipv4.conf.eth0/100.rp_filter", "a", "net.core-x.y"] {
            assert!(is_name(name), "{name}");
        }
        let long = "a".repeat(254);
        for name in ["", "net..x", "net.", "_a", "a_", "Net.core", "a b", &long] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn a_setting_is_of_one_namespace_or_of_the_machine() {
        for (names, expected) in [
            (&["net.core.somaxconn", "net.ipv4.tcp_syncookies"][..], SysctlNamespace::Network),
            (&["kernel.shm_rmid_forced", "kernel.msgmax", "kernel.sem"], SysctlNamespace::Ipc),
            (&["fs.mqueue.msg_max"], SysctlNamespace::Ipc),
            (
                &["kernel.core_pattern", "vm.overcommit_memory", "net/../kernel/x"],
                SysctlNamespace::Machine,
            ),
            (&["net.ipv4.conf.eth0/100.rp_filter"], SysctlNamespace::Network),
            (
                &["net.//.kernel.x", "net./x", "net/x", "kernel.sem_next_id"],
                SysctlNamespace::Machine,
            ),
            (&["net..x", "", "kernel.semaphore", "net"], SysctlNamespace::Machine),
        ] {
            for name in names {
                assert_eq!(home(name), expected, "{name}");
            }
        }
    }
}
