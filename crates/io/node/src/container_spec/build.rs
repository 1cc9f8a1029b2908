//! Putting a sandbox's and a container's spec together.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, Pod};
use rekindle_runtime::{
    ContainerKey, ContainerSpec, ContainerStdio, ExpectedRestart, LogLimits, Namespaces,
    SandboxKey, SandboxSpec, SandboxUsers, Stdin, TerminalUse,
};

use rekindle_types::pods::AnySpec;
use rekindle_types::{ephemeral, sysctls};

use super::error::SpecError;
use super::hostname::{pod_hostname, uts_hostname};
use super::mounts::{MountPaths, container_mounts};
use super::namespaces::pod_namespaces;
use super::oom::oom_score_adj;
use super::resources::{container_resources, pod_resources};
use super::security::container_security;
use crate::env::expand_command;

/// Bytes of a pod's /dev/shm, as container engines give it.
const SHM_BYTES: u64 = 64 * 1024 * 1024;

/// What a container is made from.
#[derive(Clone, Debug)]
pub(crate) struct ContainerInputs<'a> {
    /// Which start.
    pub key: ContainerKey,
    /// The pod.
    pub pod: &'a Pod,
    /// The container in the pod's spec.
    pub container: &'a Container,
    /// The running start whose processes it is to see.
    pub target: Option<ContainerKey>,
    /// Its variables.
    pub env: Vec<(String, String)>,
    /// Host paths.
    pub paths: MountPaths<'a>,
    /// Its log file; the folder exists.
    pub log_path: PathBuf,
    /// Where the node keeps seccomp profiles of its own.
    pub seccomp_profiles: &'a Path,
    /// Of the machine.
    pub memory_bytes: u64,
}

/// The sandbox of a pod.
pub(crate) fn sandbox_spec(
    key: SandboxKey,
    pod: &Pod,
    cluster_domain: &str,
    pids_limit: Option<u64>,
    users: SandboxUsers,
) -> Result<SandboxSpec, SpecError> {
    let context = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let settings = context.and_then(|context| context.sysctls.as_ref());
    Ok(SandboxSpec {
        key,
        hostname: uts_hostname(pod, &pod_hostname(pod, cluster_domain))?,
        namespaces: Namespaces { users, ..pod_namespaces(pod) },
        resources: pod_resources(pod, pids_limit),
        sysctls: settings
            .into_iter()
            .flatten()
            .map(|sysctl| (sysctls::with_dots(&sysctl.name), sysctl.value.clone()))
            .collect(),
        shm_bytes: SHM_BYTES,
    })
}

/// A container with everything resolved.
pub(crate) fn container_spec(inputs: ContainerInputs<'_>) -> Result<ContainerSpec, SpecError> {
    let ContainerInputs { key, pod, container, target, env, paths, log_path, .. } = inputs;
    let ContainerInputs { seccomp_profiles, memory_bytes, .. } = inputs;
    let words = |list: &Option<Vec<String>>| {
        list.as_deref().map(|words| expand_command(words, &env)).unwrap_or_default()
    };
    Ok(ContainerSpec {
        key,
        image: container.image.clone().unwrap_or_default(),
        command: words(&container.command),
        args: words(&container.args),
        working_dir: container.working_dir.clone().filter(|dir| !dir.is_empty()),
        mounts: container_mounts(container, &paths, &env)?,
        resources: container_resources(pod, container),
        security: container_security(pod, container, seccomp_profiles)?,
        log_path,
        log_limits: LogLimits::default(),
        stdio: stdio(container),
        target,
        env,
        oom_score_adj: oom_score_adj(pod, container, memory_bytes),
        renewal: renewal(pod, container),
    })
}

/// A sidecar, and a regular container whose own policy, or else its pod's, has it started again. An
/// ephemeral one runs once, and so does an init container when all goes well.
pub(super) fn renewal(pod: &Pod, container: &Container) -> ExpectedRestart {
    let Some(spec) = &pod.spec else { return ExpectedRestart::NotExpected };
    let is_regular = spec.containers.iter().any(|one| one.name == container.name);
    let policy = container.restart_policy.as_deref().or(spec.restart_policy.as_deref());
    if (is_regular && policy != Some("Never")) || spec.has_sidecar(&container.name) {
        ExpectedRestart::Expected
    } else {
        ExpectedRestart::NotExpected
    }
}

fn stdio(container: &Container) -> ContainerStdio {
    let yes = |field: Option<bool>| field == Some(true);
    ContainerStdio {
        stdin: match (yes(container.stdin), yes(container.stdin_once)) {
            (false, _) => Stdin::Null,
            (true, false) => Stdin::Open,
            (true, true) => Stdin::Once,
        },
        terminal: if yes(container.tty) { TerminalUse::Own } else { TerminalUse::None },
    }
}

/// The container of that name, be it an init container, a regular or an ephemeral one.
pub(crate) fn find_container<'a>(
    pod: &'a Pod,
    name: &str,
) -> Result<Cow<'a, Container>, SpecError> {
    let spec = pod.spec.as_ref();
    let lasting = spec
        .iter()
        .flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()))
        .find(|container| container.name == name);
    if let Some(container) = lasting {
        return Ok(Cow::Borrowed(container));
    }
    spec.iter()
        .flat_map(|spec| spec.ephemeral_containers.iter().flatten())
        .find(|container| container.name == name)
        .map(|container| Cow::Owned(ephemeral::as_container(container)))
        .ok_or_else(|| SpecError::NoSuchContainer(name.to_owned()))
}
