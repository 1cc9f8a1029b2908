//! The words of the pod's events and status messages: the kubelet's own (1.36), where it has some.

use k8s_openapi::api::core::v1::Pod;
use rekindle_types::reasons::{event, pod as reason, waiting};
use rekindle_types::v1alpha1::Rung;
use rekindle_types::{ContainerName, EventSeverity, NodeStopEnd, TickDuration};

use crate::action::{HookKind, PodEvent, ProbeKind};
use crate::blueprint::{Definition, RestartPolicy, RoleInPod};
use crate::complaint::Complaint;
use crate::event::{EvictionCause, PodEviction, RestartRequest};
use crate::journal::RestartCause;
use crate::stop_reason::StopReason;

/// `state.terminated.message` of a container that ran, and vanished
/// (`pkg/kubelet/kubelet_pods.go`).
pub(crate) const VANISHED: &str = "The container could not be located when the pod was deleted.  The container used to be Running";
/// The same of one that was not seen to run before its pod was over
/// (`pkg/kubelet/status/status_manager.go`).
pub(crate) const NEVER_LOCATED: &str =
    "The container could not be located when the pod was terminated";
/// `status.message` of a pod that ran longer than `activeDeadlineSeconds`.
pub(crate) const DEADLINE_EXCEEDED_TEXT: &str =
    "Pod was active on the node longer than the specified deadline";
/// The message of the event of processes that were killed in a container that lives on.
const OOM_KILLING_TEXT: &str =
    "Processes of the container were killed for lack of memory; the container goes on without them";

fn of_pod(severity: EventSeverity, reason: &'static str, message: String) -> PodEvent {
    PodEvent { severity, reason, message, field_path: None }
}

fn of_container(
    definition: &Definition,
    severity: EventSeverity,
    reason: &'static str,
    message: String,
) -> PodEvent {
    let list = match definition.role {
        RoleInPod::Init | RoleInPod::Sidecar => "initContainers",
        RoleInPod::Regular => "containers",
        RoleInPod::Ephemeral => "ephemeralContainers",
    };
    let field_path = Some(format!("spec.{list}{{{}}}", definition.name));
    PodEvent { severity, reason, message, field_path }
}

/// `state.terminated.message` of a container that ended when its node was stopped, with what it
/// said itself.
pub(crate) fn ended_with_node(code: i32, own: &str) -> String {
    match (NodeStopEnd { code }, own) {
        (end, "") => end.to_string(),
        (end, own) => format!("{end}: {own}"),
    }
}

/// Of a container that wants to see the processes of one that has ended.
pub(crate) fn target_not_running(target: &ContainerName, pod: &str) -> String {
    format!("invalid target container: container \"{target}\" of pod {pod} is not running")
}

/// Of a pod with a volume that could not be made, or not be brought up to date.
pub fn failed_mount(message: &str) -> PodEvent {
    of_pod(EventSeverity::Warning, event::FAILED_MOUNT, message.to_owned())
}

/// Of a container that lives on while processes of it were killed for lack of memory. The same
/// words each time: repeats are counted.
pub fn oom_killing(pod: &Pod, container: &ContainerName) -> PodEvent {
    let spec = pod.spec.as_ref();
    let mut init = spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let mut added = spec.iter().flat_map(|spec| spec.ephemeral_containers.iter().flatten());
    let list = if init.any(|init| init.name == container.0) {
        "initContainers"
    } else if added.any(|added| added.name == container.0) {
        "ephemeralContainers"
    } else {
        "containers"
    };
    PodEvent {
        severity: EventSeverity::Warning,
        reason: event::OOM_KILLING,
        message: OOM_KILLING_TEXT.to_owned(),
        field_path: Some(format!("spec.{list}{{{container}}}")),
    }
}

pub(crate) fn failed_create_sandbox(message: &str) -> PodEvent {
    let text = format!("Failed to create pod sandbox: {message}");
    of_pod(EventSeverity::Warning, event::FAILED_CREATE_POD_SANDBOX, text)
}

pub(crate) fn sandbox_changed() -> PodEvent {
    let text = "Pod sandbox changed, it will be killed and re-created.".to_owned();
    of_pod(EventSeverity::Normal, event::SANDBOX_CHANGED, text)
}

pub(crate) fn failed_kill_pod(message: &str) -> PodEvent {
    of_pod(EventSeverity::Warning, event::FAILED_KILL_POD, format!("error killing pod: {message}"))
}

pub(crate) fn failed_kill_container(name: &ContainerName, message: &str) -> PodEvent {
    let text = format!("error killing pod: failed to \"KillContainer\" for \"{name}\": {message}");
    of_pod(EventSeverity::Warning, event::FAILED_KILL_POD, text)
}

pub(crate) fn deadline_exceeded() -> PodEvent {
    of_pod(EventSeverity::Normal, reason::DEADLINE_EXCEEDED, DEADLINE_EXCEEDED_TEXT.to_owned())
}

/// The kubelet says nothing about a pod that a shutdown ends: the node's own event tells of it.
pub(crate) fn eviction(eviction: &PodEviction) -> Option<PodEvent> {
    let reason = match eviction.cause {
        EvictionCause::NodePressure | EvictionCause::StorageLimit => reason::EVICTED,
        EvictionCause::NotAdmitted { refusal } => refusal.as_str(),
        EvictionCause::NodeShutdown => return None,
    };
    Some(of_pod(EventSeverity::Warning, reason, eviction.message.clone()))
}

pub(crate) fn pulling(definition: &Definition) -> PodEvent {
    let text = format!("Pulling image \"{}\"", definition.image);
    of_container(definition, EventSeverity::Normal, event::PULLING, text)
}

pub(crate) fn image_present(definition: &Definition) -> PodEvent {
    let image = &definition.image;
    let text = format!(
        "Container image \"{image}\" already present on machine and can be accessed by the pod"
    );
    of_container(definition, EventSeverity::Normal, event::PULLED, text)
}

pub(crate) fn image_pulled(
    definition: &Definition,
    took: TickDuration,
    with_waiting: TickDuration,
    size_bytes: u64,
) -> PodEvent {
    let (took, with_waiting) = (go_duration_ms(took), go_duration_ms(with_waiting));
    let text = format!(
        "Successfully pulled image \"{}\" in {took} ({with_waiting} including waiting). Image size: {size_bytes} bytes.",
        definition.image
    );
    of_container(definition, EventSeverity::Normal, event::PULLED, text)
}

pub(crate) fn failed_to_pull(definition: &Definition, message: &str) -> PodEvent {
    let text = format!("Failed to pull image \"{}\": {message}", definition.image);
    of_container(definition, EventSeverity::Warning, event::FAILED, text)
}

/// `Error: ` and a reason or a cause: what the kubelet records when a container cannot come to run.
pub(crate) fn failed(definition: &Definition, message: &str) -> PodEvent {
    of_container(definition, EventSeverity::Warning, event::FAILED, format!("Error: {message}"))
}

/// The event that tells more of an image problem, for the problems that have one of their own.
pub(crate) fn image_problem(
    definition: &Definition,
    reason: &str,
    message: &str,
) -> Option<PodEvent> {
    let (own, text) = match reason {
        waiting::INVALID_IMAGE_NAME => {
            let image = &definition.image;
            (
                event::INSPECT_FAILED,
                format!("Failed to apply default image tag \"{image}\": {message}"),
            )
        }
        waiting::ERR_IMAGE_NEVER_PULL => (event::ERR_IMAGE_NEVER_PULL, message.to_owned()),
        _ => return None,
    };
    Some(of_container(definition, EventSeverity::Warning, own, text))
}

pub(crate) fn never_pull(image: &str) -> String {
    format!("Container image \"{image}\" is not present with pull policy of Never")
}

pub(crate) fn back_off_pulling(definition: &Definition) -> PodEvent {
    let text = format!("Back-off pulling image \"{}\"", definition.image);
    of_container(definition, EventSeverity::Normal, event::BACK_OFF, text)
}

/// `state.waiting.message` of ImagePullBackOff: it names the error that led to it.
pub(crate) fn image_back_off(image: &str, error: Option<&str>) -> String {
    match error {
        Some(error) => {
            format!("Back-off pulling image \"{image}\": {}: {error}", waiting::ERR_IMAGE_PULL)
        }
        None => format!("Back-off pulling image \"{image}\""),
    }
}

pub(crate) fn created(definition: &Definition) -> PodEvent {
    of_container(definition, EventSeverity::Normal, event::CREATED, "Container created".to_owned())
}

pub(crate) fn started(definition: &Definition) -> PodEvent {
    of_container(definition, EventSeverity::Normal, event::STARTED, "Container started".to_owned())
}

pub(crate) fn killing(definition: &Definition, why: StopReason) -> PodEvent {
    let name = &definition.name;
    let text = match why {
        StopReason::Halt | StopReason::RestartAsked | StopReason::RestartRule => {
            format!("Stopping container {name}")
        }
        StopReason::ImageChanged => {
            format!("Container {name} definition changed, will be restarted")
        }
        StopReason::Resize => format!("Container {name} resize requires restart"),
        StopReason::StartupFailed => failed_probe(definition, ProbeKind::Startup),
        StopReason::LivenessFailed => failed_probe(definition, ProbeKind::Liveness),
        StopReason::PostStartFailed => event::FAILED_POST_START_HOOK.to_owned(),
    };
    of_container(definition, EventSeverity::Normal, event::KILLING, text)
}

fn failed_probe(definition: &Definition, probe: ProbeKind) -> String {
    let begin =
        format!("Container {} failed {} probe", definition.name, probe_name(probe).to_lowercase());
    match definition.policy {
        RestartPolicy::Always | RestartPolicy::OnFailure => format!("{begin}, will be restarted"),
        RestartPolicy::Never => begin,
    }
}

fn probe_name(probe: ProbeKind) -> &'static str {
    match probe {
        ProbeKind::Startup => "Startup",
        ProbeKind::Readiness => "Readiness",
        ProbeKind::Liveness => "Liveness",
    }
}

/// A probe failed; `output` is what it said.
pub(crate) fn unhealthy(definition: &Definition, probe: ProbeKind, output: &str) -> PodEvent {
    let text = format!("{} probe failed: {output}", probe_name(probe));
    of_container(definition, EventSeverity::Warning, event::UNHEALTHY, text)
}

/// A probe came to no verdict.
pub(crate) fn probe_errored(definition: &Definition, probe: ProbeKind, error: &str) -> PodEvent {
    let name = probe_name(probe);
    let text = format!("{name} probe errored and resulted in unknown state: {error}");
    of_container(definition, EventSeverity::Warning, event::UNHEALTHY, text)
}

pub(crate) fn probe_warning(definition: &Definition, probe: ProbeKind, output: &str) -> PodEvent {
    let text = format!("{} probe warning: {output}", probe_name(probe));
    of_container(definition, EventSeverity::Warning, event::PROBE_WARNING, text)
}

/// What the hook said is not told, as it may hold secrets; the kubelet keeps it to its log, too.
pub(crate) fn failed_hook(definition: &Definition, hook: HookKind) -> PodEvent {
    let (reason, text) = match hook {
        HookKind::PostStart => (event::FAILED_POST_START_HOOK, "PostStartHook failed"),
        HookKind::PreStop => (event::FAILED_PRE_STOP_HOOK, "PreStopHook failed"),
    };
    of_container(definition, EventSeverity::Warning, reason, text.to_owned())
}

/// The message of condition AllContainersRestarting.
pub(crate) fn why_all_restart(cause: &RestartCause) -> String {
    match cause {
        RestartCause::Asked { request } => format!("PodRestart {}", request.name),
        RestartCause::Rule { .. } => "container exited with restart policy rule".to_owned(),
    }
}

/// Waits until the container whose rule restarts all may start again.
pub(crate) fn restarting_all(trigger: &ContainerName, delay: TickDuration) -> Complaint {
    let delay = go_duration(delay);
    let message = format!("back-off {delay} restarting all containers after container={trigger}");
    Complaint { reason: waiting::RESTARTING_ALL_CONTAINERS, message }
}

/// `pod` is `name_namespace(uid)`.
pub(crate) fn back_off(definition: &Definition, pod: &str) -> PodEvent {
    let text = format!("Back-off restarting failed container {} in pod {pod}", definition.name);
    of_container(definition, EventSeverity::Warning, event::BACK_OFF, text)
}

pub(crate) fn crash_loop(name: &ContainerName, pod: &str, delay: TickDuration) -> Complaint {
    let delay = go_duration(delay);
    let message = format!("back-off {delay} restarting failed container={name} pod={pod}");
    Complaint { reason: waiting::CRASH_LOOP_BACK_OFF, message }
}

/// About the container that is named, if one is.
pub(crate) fn restarting(request: &RestartRequest, named: Option<&Definition>) -> PodEvent {
    let text = format!("{} (PodRestart {}): {}", doing(request), request.name, request.reason);
    of_request(named, event::POD_RESTARTING, text.trim_end_matches(": ").to_owned())
}

/// The same, when it is done.
pub(crate) fn restarted(
    request: &RestartRequest,
    named: Option<&Definition>,
    message: &str,
) -> PodEvent {
    let text = format!("{message} (PodRestart {})", request.name);
    of_request(named, event::POD_RESTARTED, text)
}

fn of_request(named: Option<&Definition>, reason: &'static str, text: String) -> PodEvent {
    match named {
        Some(definition) => of_container(definition, EventSeverity::Normal, reason, text),
        None => of_pod(EventSeverity::Normal, reason, text),
    }
}

/// What a restart does, as an event and a report begin.
pub(crate) fn doing(request: &RestartRequest) -> String {
    request.rung.doing(request.container.as_ref().map(|name| name.0.as_str()))
}

/// What a restart does when everything has ended.
pub(crate) fn starting(request: &RestartRequest) -> String {
    request.rung.starting().to_owned()
}

/// What a member of a group does when everything has ended.
pub(crate) fn waiting_for_group(name: &str) -> String {
    format!("everything has ended: the pod waits until all pods of group {name} have stopped")
}

/// What a restart did.
pub(crate) fn done(request: &RestartRequest) -> String {
    request.rung.done(request.container.as_ref().map(|name| name.0.as_str()))
}

/// Of a request whose place another restart has taken.
pub(crate) fn superseded(by: &str) -> String {
    format!("{by} takes its place: it is done when what it asked for is so")
}

/// The same, when what it asked for is so.
pub(crate) fn done_by(request: &RestartRequest, by: &str) -> String {
    let done = match (&request.container, request.rung) {
        // which sandbox it is the other one says
        (None, Rung::Containers | Rung::Pod) => "all containers are running again".to_owned(),
        (
            Some(_) | None,
            Rung::Container
            | Rung::Containers
            | Rung::Pod
            | Rung::Recreate
            | Rung::Reschedule
            | Rung::Rollback,
        ) => done(request),
    };
    format!("{done}: {by} took its place")
}

/// As Go prints a `time.Duration` that was cut to milliseconds: `0s`, `345ms`, `1.2s`, `1m0.05s`.
fn go_duration_ms(span: TickDuration) -> String {
    let millis = span.as_micros() / 1000;
    if millis == 0 {
        return "0s".to_owned();
    }
    if millis < 1000 {
        return format!("{millis}ms");
    }
    let (seconds, rest) = (millis / 1000, millis % 1000);
    let whole = go_duration(TickDuration::from_secs(seconds));
    if rest == 0 {
        return whole;
    }
    let digits = format!("{rest:03}");
    format!("{}.{}s", whole.trim_end_matches('s'), digits.trim_end_matches('0'))
}

/// As Go prints a `time.Duration` of whole seconds: `10s`, `1m20s`, `5m0s`.
pub fn go_duration(span: TickDuration) -> String {
    let secs = span.as_secs();
    let (hours, minutes, seconds) = (secs / 3600, secs / 60 % 60, secs % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        (_, _) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_off_delays_read_as_go_prints_them() {
        for (secs, text) in
            [(0, "0s"), (10, "10s"), (40, "40s"), (80, "1m20s"), (160, "2m40s"), (300, "5m0s")]
        {
            assert_eq!(go_duration(TickDuration::from_secs(secs)), text);
        }
    }

    #[test]
    fn times_of_pulls_are_printed_as_go_prints_them() {
        for (millis, text) in [
            (0, "0s"),
            (7, "7ms"),
            (999, "999ms"),
            (1000, "1s"),
            (1200, "1.2s"),
            (1050, "1.05s"),
            (60_000, "1m0s"),
            (61_234, "1m1.234s"),
            (3_600_001, "1h0m0.001s"),
        ] {
            assert_eq!(go_duration_ms(TickDuration::from_millis(millis)), text);
        }
    }
}
