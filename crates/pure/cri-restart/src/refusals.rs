//! What is not restarted in place on a cluster, and why: pods that the kubelet does not start
//! again, pods of the node itself, and requests for what an agent cannot do.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use rekindle_types::pod_annotations::is_mirror;
use rekindle_types::pods::AnyContainer;
use rekindle_types::spared_pods::{ON_FAILURE, RESTART_INCLUDES_ANNOTATION, SYSTEM_NAMESPACE};
use rekindle_types::v1alpha1::{CarriedOutBy, PodRestart, Rung, not_restartable};

use crate::procedure::status_of;

/// What has to be named by [`RESTART_INCLUDES_ANNOTATION`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NamedPods {
    Devices,
    HostNetwork,
    OnFailure,
    Static,
}

impl NamedPods {
    fn word(self) -> &'static str {
        match self {
            NamedPods::Devices => "Devices",
            NamedPods::HostNetwork => "HostNetwork",
            NamedPods::OnFailure => ON_FAILURE,
            NamedPods::Static => "Static",
        }
    }

    /// Why they are left alone unless they are named.
    fn why(self) -> &'static str {
        match self {
            NamedPods::Devices => "has devices, which may not be given to it again",
            NamedPods::HostNetwork => "has the node's network",
            NamedPods::OnFailure => {
                "has restartPolicy OnFailure, so it can only be killed, without hooks and grace"
            }
            NamedPods::Static => "is a static pod of the node",
        }
    }
}

/// Why a request is not carried out on this pod; none when it may be. `own_namespace` is that of
/// the agent.
pub fn refusal(restart: &PodRestart, pod: &Pod, own_namespace: Option<&str>) -> Option<String> {
    let name = &restart.spec.pod_name;
    let spec = pod.spec.as_ref()?;
    let rung = restart.spec.rung();
    if restart.spec.member_of.is_some() && rung != Rung::Pod {
        return Some(format!(
            "rung {rung} of a group: beside a kubelet a sandbox that stays starts its containers again at once; ask for rung Pod"
        ));
    }
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    if let Some(wanted) = restart.pod_uid().filter(|wanted| *wanted != uid) {
        return Some(format!(
            "pod {name} has UID {uid}, the request is for {wanted}: it was re-created"
        ));
    }
    if namespace == SYSTEM_NAMESPACE || Some(namespace) == own_namespace {
        return Some(format!("no pod of namespace {namespace} is restarted in place"));
    }
    if pod.metadata.deletion_timestamp.is_some() {
        return Some(format!("pod {name} is being deleted"));
    }
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    if let Some(phase @ ("Succeeded" | "Failed")) = phase {
        return Some(format!(
            "pod {name} has ended ({phase}): the kubelet does not start it again"
        ));
    }
    run_once(restart, pod, spec)
        .or_else(|| unnamed(restart, pod, spec))
        .or_else(|| unsupported(restart, spec))
}

/// Whether the containers of a pod are killed, so that none of them ends with 0.
pub(crate) fn is_killed(spec: &PodSpec) -> bool {
    spec.restart_policy.as_deref() == Some(ON_FAILURE)
}

/// A pod that has work to finish: stopped, it may count as finished.
fn run_once(restart: &PodRestart, pod: &Pod, spec: &PodSpec) -> Option<String> {
    let name = &restart.spec.pod_name;
    match spec.restart_policy.as_deref() {
        Some("Never") => Some(format!(
            "pod {name} has restartPolicy Never: the kubelet would not start it again; ask for Recreate"
        )),
        Some(ON_FAILURE) if restart.spec.rung() != Rung::Pod => Some(format!(
            "pod {name} has restartPolicy OnFailure: a container that ends with 0 when it is stopped would count as finished; ask for rung Pod or Recreate"
        )),
        Some(ON_FAILURE) => {
            let finished = spec.containers.iter().find(|container| {
                let state = status_of(pod, &container.name).and_then(|s| s.state.as_ref());
                let end = state.and_then(|state| state.terminated.as_ref());
                end.is_some_and(|end| end.exit_code == 0)
            })?;
            Some(format!(
                "container {} of pod {name} has finished its work: in a new sandbox it would begin again; ask for Recreate",
                finished.name
            ))
        }
        Some(_) | None => {
            let own = |container: &&Container| {
                let policy = container.restart_policy.as_deref();
                policy.is_some_and(|policy| policy != "Always")
            };
            let container = spec.containers.iter().find(own)?;
            Some(format!(
                "container {} of pod {name} has restartPolicy {}: the kubelet may not start it again; ask for Recreate",
                container.name,
                container.restart_policy.as_deref().unwrap_or_default(),
            ))
        }
    }
}

/// Pods that a request has to name.
fn unnamed(restart: &PodRestart, pod: &Pod, spec: &PodSpec) -> Option<String> {
    let kinds = [
        (NamedPods::Static, is_mirror(pod)),
        (NamedPods::HostNetwork, spec.host_network == Some(true)),
        (NamedPods::Devices, restart.spec.rung() == Rung::Pod && has_devices(spec)),
        (NamedPods::OnFailure, is_killed(spec)),
    ];
    let included = included(restart);
    let (kind, _) =
        kinds.into_iter().find(|(kind, applies)| *applies && !included.contains(&kind.word()))?;
    Some(format!(
        "pod {} {}: annotate the PodRestart with {RESTART_INCLUDES_ANNOTATION}: {}",
        restart.spec.pod_name,
        kind.why(),
        kind.word(),
    ))
}

fn included(restart: &PodRestart) -> Vec<&str> {
    let annotations = restart.metadata.annotations.as_ref();
    let words = annotations.and_then(|all| all.get(RESTART_INCLUDES_ANNOTATION));
    words.into_iter().flat_map(|words| words.split(',')).map(str::trim).collect()
}

/// Resources with a domain of their own, and claims of devices.
fn has_devices(spec: &PodSpec) -> bool {
    let is_device = |name: &String| name.split_once('/').is_some_and(|(d, _)| d != "kubernetes.io");
    let limited = |container: &Container| {
        let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
        limits.is_some_and(|limits| limits.keys().any(is_device))
    };
    let mut containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    containers.any(limited) || spec.resource_claims.as_ref().is_some_and(|all| !all.is_empty())
}

/// Why a container of this name is not restarted by itself. The rung Containers runs no init
/// container again here: a kubelet does that for a new sandbox only.
fn not_restarted_alone(spec: &PodSpec, pod: &str, name: &str) -> Option<String> {
    let mut inits = spec.init_containers.iter().flatten();
    if inits.any(|init| init.name == name && !init.is_sidecar()) {
        return Some(format!(
            "container {name} of pod {pod} is an init container, which runs once and before the others: rung Pod runs it again"
        ));
    }
    not_restartable(spec, pod, name)
}

/// What is asked for and no agent does.
fn unsupported(restart: &PodRestart, spec: &PodSpec) -> Option<String> {
    let rung = restart.spec.rung();
    match rung.carried_out_by() {
        CarriedOutBy::Operator => return Some(format!("no agent carries out rung {rung}")),
        CarriedOutBy::Node => {}
    }
    let pod = &restart.spec.pod_name;
    let named = restart.spec.container_name.as_deref();
    named.and_then(|name| not_restarted_alone(spec, pod, name))
}
