//! Kernel settings: those only that change nothing outside the pod.

use rekindle_kinds::validation::items;

use super::{ControlViolation, PodUnderReview};

/// What each version added, the newest last.
const SAFE: [(u64, &[&str]); 5] = [
    (
        0,
        &[
            "kernel.shm_rmid_forced",
            "net.ipv4.ip_local_port_range",
            "net.ipv4.tcp_syncookies",
            "net.ipv4.ping_group_range",
            "net.ipv4.ip_unprivileged_port_start",
        ],
    ),
    (27, &["net.ipv4.ip_local_reserved_ports"]),
    (
        29,
        &[
            "net.ipv4.tcp_keepalive_time",
            "net.ipv4.tcp_fin_timeout",
            "net.ipv4.tcp_keepalive_intvl",
            "net.ipv4.tcp_keepalive_probes",
        ],
    ),
    (32, &["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"]),
    (37, &["net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat"]),
];

/// What v1.0 allows.
pub(super) fn v1_0(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    unsafe_by(0, pod)
}

/// What v1.27 allows.
pub(super) fn v1_27(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    unsafe_by(27, pod)
}

/// What v1.29 allows.
pub(super) fn v1_29(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    unsafe_by(29, pod)
}

/// What v1.32 allows.
pub(super) fn v1_32(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    unsafe_by(32, pod)
}

/// What v1.37 allows.
pub(super) fn v1_37(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    unsafe_by(37, pod)
}

fn unsafe_by(minor: u64, pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    let is_safe =
        |name: &str| SAFE.iter().any(|(since, names)| *since <= minor && names.contains(&name));
    let given = items(pod.security().and_then(|context| context.sysctls.as_ref()));
    let bad = given.iter().map(|sysctl| sysctl.name.as_str()).filter(|name| !is_safe(name));
    let bad: Vec<&str> = bad.collect();
    (!bad.is_empty())
        .then(|| ControlViolation { reason: "forbidden sysctls", detail: bad.join(", ") })
}
