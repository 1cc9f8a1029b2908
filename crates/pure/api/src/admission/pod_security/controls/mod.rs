//! The controls of the Pod Security Standards: what a pod may not have at a level, and since which
//! version.
//!
//! A control is a pure function of a pod's spec and annotations. The messages are upstream's, since
//! clients show them. Source: the Pod Security Standards and upstream's
//! `pod-security-admission/policy`.

mod app_armor;
mod capabilities;
mod host_image;
mod host_namespaces;
mod host_ports;
mod privilege_escalation;
mod privileged;
mod probe_hosts;
mod proc_mount;
mod run_as;
mod se_linux;
mod seccomp;
mod sysctls;
#[cfg(test)]
mod tests;
mod under_review;
mod volumes;
mod wording;

pub(super) use under_review::PodUnderReview;

use super::policy::{LevelAtVersion, PolicyLevel, PolicyVersion};

/// How a pod violates one control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ControlViolation {
    /// The control in words: `host namespaces`.
    pub(super) reason: &'static str,
    /// The fields of this pod: `hostNetwork=true`.
    pub(super) detail: String,
}

/// Reads a pod.
type Check = fn(&PodUnderReview<'_>) -> Option<ControlViolation>;

/// One control.
struct SecurityControl {
    /// Upstream's name. Violations are told in the order of these, those of `baseline` first.
    id: &'static str,
    /// The level from which on it holds.
    level: PolicyLevel,
    /// How it was at each version, oldest first.
    revisions: &'static [ControlRevision],
}

/// A control from one version on.
struct ControlRevision {
    /// The minor version of Kubernetes that brought it.
    since: u64,
    check: Check,
    /// The weaker control of `baseline` that it stands for.
    replaces: Option<&'static str>,
}

const fn since(since: u64, check: Check) -> ControlRevision {
    ControlRevision { since, check, replaces: None }
}

const fn instead_of(replaces: &'static str, since: u64, check: Check) -> ControlRevision {
    ControlRevision { since, check, replaces: Some(replaces) }
}

const fn baseline(id: &'static str, revisions: &'static [ControlRevision]) -> SecurityControl {
    SecurityControl { id, level: PolicyLevel::Baseline, revisions }
}

const fn restricted(id: &'static str, revisions: &'static [ControlRevision]) -> SecurityControl {
    SecurityControl { id, level: PolicyLevel::Restricted, revisions }
}

const CAPABILITIES: &str = "capabilities_baseline";
const HOST_PATHS: &str = "hostPathVolumes";
const PROC_MOUNT: &str = "procMount";
const SECCOMP: &str = "seccompProfile_baseline";

/// All of them, in the order in which their violations are told.
static CONTROLS: [SecurityControl; 20] = [
    baseline("appArmorProfile", &[since(0, app_armor::profile)]),
    baseline(CAPABILITIES, &[since(0, capabilities::baseline)]),
    // ours: the image shows the files of the machine
    baseline("hostImage", &[since(0, host_image::host_image)]),
    baseline("hostNamespaces", &[since(0, host_namespaces::host_namespaces)]),
    baseline(HOST_PATHS, &[since(0, volumes::host_paths)]),
    baseline("hostPorts", &[since(0, host_ports::host_ports)]),
    baseline("hostProbesAndHostLifecycle", &[since(34, probe_hosts::probe_hosts)]),
    baseline("privileged", &[since(0, privileged::privileged)]),
    baseline(
        PROC_MOUNT,
        &[since(0, proc_mount::unmasked), since(35, proc_mount::unmasked_without_own_users)],
    ),
    baseline("seLinuxOptions", &[since(0, se_linux::v1_0), since(31, se_linux::v1_31)]),
    baseline(
        SECCOMP,
        &[since(0, seccomp::forbidden_annotations), since(19, seccomp::forbidden_profiles)],
    ),
    baseline(
        "sysctls",
        &[
            since(0, sysctls::v1_0),
            since(27, sysctls::v1_27),
            since(29, sysctls::v1_29),
            since(32, sysctls::v1_32),
            since(37, sysctls::v1_37),
        ],
    ),
    baseline("windowsHostProcess", &[since(0, privileged::windows_host_process)]),
    restricted(
        "allowPrivilegeEscalation",
        &[
            since(8, privilege_escalation::allowed),
            since(25, privilege_escalation::allowed_on_linux),
        ],
    ),
    restricted(
        "capabilities_restricted",
        &[
            instead_of(CAPABILITIES, 22, capabilities::restricted),
            instead_of(CAPABILITIES, 25, capabilities::restricted_on_linux),
        ],
    ),
    restricted("procMount_restricted", &[instead_of(PROC_MOUNT, 35, proc_mount::unmasked)]),
    restricted("restrictedVolumes", &[instead_of(HOST_PATHS, 0, volumes::restricted)]),
    restricted(
        "runAsNonRoot",
        &[since(0, run_as::may_be_root), since(35, run_as::may_be_root_without_own_users)],
    ),
    restricted("runAsUser", &[since(23, run_as::root), since(35, run_as::root_without_own_users)]),
    restricted(
        "seccompProfile_restricted",
        &[
            instead_of(SECCOMP, 19, seccomp::missing_profiles),
            instead_of(SECCOMP, 25, seccomp::missing_profiles_on_linux),
        ],
    ),
];

impl SecurityControl {
    /// How it is at a version; none before it began.
    fn revision(&self, version: PolicyVersion) -> Option<&ControlRevision> {
        self.revisions.iter().rev().find(|revision| match version {
            PolicyVersion::Minor(minor) => revision.since <= minor,
            PolicyVersion::Latest => true,
        })
    }
}

/// Everything by which a pod violates a level at a version.
pub(super) fn violations(
    policy: LevelAtVersion,
    pod: &PodUnderReview<'_>,
) -> Vec<ControlViolation> {
    let in_force = || {
        CONTROLS
            .iter()
            .filter(|control| control.level <= policy.level)
            .filter_map(|control| Some((control.id, control.revision(policy.version)?)))
    };
    if policy.is_privileged() {
        return Vec::new();
    }
    let replaced: Vec<&str> = in_force().filter_map(|(_, revision)| revision.replaces).collect();
    in_force()
        .filter(|(id, _)| !replaced.contains(id))
        .filter_map(|(_, revision)| (revision.check)(pod))
        .collect()
}

/// The violations in one sentence: `host namespaces (hostPID=true), privileged (…)`.
pub(super) fn in_detail(violations: &[ControlViolation]) -> String {
    let told = violations.iter().map(|ControlViolation { reason, detail }| match detail.as_str() {
        "" => (*reason).to_owned(),
        detail => format!("{reason} ({detail})"),
    });
    told.collect::<Vec<_>>().join(", ")
}

/// The same without the details of this pod.
pub(super) fn in_short(violations: &[ControlViolation]) -> String {
    violations.iter().map(|violation| violation.reason).collect::<Vec<_>>().join(", ")
}
