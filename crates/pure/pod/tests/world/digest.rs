//! Actions and statuses in one line each, for people and for comparison.

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStatus, PodStatus, ResourceRequirements,
};
use rekindle_pod::{
    ContainerStartKey, CoreAction, CoreReport, HookLimit, LimitStep, RestartReport, owns_condition,
};
use rekindle_types::resources::{Amounts, ResourceList};
use rekindle_types::{EventSeverity, Tick, TickDuration};

pub fn action(action: &CoreAction) -> String {
    match action {
        CoreAction::MountVolumes => "MountVolumes".to_owned(),
        CoreAction::RefreshVolumes => "RefreshVolumes".to_owned(),
        CoreAction::SetUpSandbox { attempt } => format!("SetUpSandbox {attempt}"),
        CoreAction::TearDownSandbox { attempt } => format!("TearDownSandbox {attempt}"),
        CoreAction::PullImage { container, image } => format!("PullImage {container} {image}"),
        CoreAction::FindImage { container, image, policy } => {
            format!("FindImage {container} {image} {policy:?}")
        }
        CoreAction::StartContainer { key, target: None } => {
            format!("StartContainer {}", container_key(key))
        }
        CoreAction::StartContainer { key, target: Some(target) } => {
            format!("StartContainer {} target={}", container_key(key), container_key(target))
        }
        CoreAction::SignalContainer { key } => format!("SignalContainer {}", container_key(key)),
        CoreAction::KillContainer { key } => format!("KillContainer {}", container_key(key)),
        CoreAction::RemoveContainer { key } => format!("RemoveContainer {}", container_key(key)),
        CoreAction::UpdateSandbox { attempt, step: LimitStep::Settle } => {
            format!("UpdateSandbox {attempt} Settle")
        }
        CoreAction::UpdateSandbox { attempt, step: LimitStep::Raise { in_place, restarts } } => {
            let in_place: Vec<String> = in_place.iter().map(container_key).collect();
            format!("UpdateSandbox {attempt} Raise in_place={in_place:?} restarts={restarts:?}")
        }
        CoreAction::UpdateContainer { key } => format!("UpdateContainer {}", container_key(key)),
        CoreAction::RunProbe { key, probe, timeout } => {
            format!("RunProbe {} {probe:?} timeout={}", container_key(key), span(*timeout))
        }
        CoreAction::RunHook { key, hook, limit: HookLimit::None } => {
            format!("RunHook {} {hook:?}", container_key(key))
        }
        CoreAction::RunHook { key, hook, limit: HookLimit::Grace(left) } => {
            format!("RunHook {} {hook:?} limit={}", container_key(key), span(*left))
        }
    }
}

pub fn report(report: &CoreReport) -> String {
    match report {
        CoreReport::Persist(_) => "Persist".to_owned(),
        CoreReport::RequestResources(request) => format!(
            "RequestResources {} held=[{}] wanted=[{}]",
            request.ticket,
            amounts(&request.held),
            amounts(&request.wanted)
        ),
        CoreReport::WriteStatus(s) => format!("WriteStatus {}", status(s)),
        CoreReport::EmitEvent(event) => {
            let severity = match event.severity {
                EventSeverity::Normal => "Normal",
                EventSeverity::Warning => "Warning",
            };
            let path = event.field_path.as_deref().map(|p| format!(" [{p}]")).unwrap_or_default();
            format!("Event {severity} {}: {}{path}", event.reason, event.message)
        }
        CoreReport::Restart(RestartReport { id, phase, message, is_held, .. }) => {
            let held = if *is_held { " held" } else { "" };
            format!("ReportRestart {id} {phase:?}{held}: {message}")
        }
        CoreReport::Finish => "Finish".to_owned(),
    }
}

fn amounts(amounts: &Amounts) -> String {
    amounts.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(" ")
}

/// Requests and limits in one line.
pub fn resources(resources: &ResourceRequirements) -> String {
    let list = |list: &Option<ResourceList>| amounts(&Amounts::read(list.as_ref()));
    format!("requests=[{}] limits=[{}]", list(&resources.requests), list(&resources.limits))
}

/// `web#1@0`: start 1 of web in sandbox 0.
pub fn container_key(key: &ContainerStartKey) -> String {
    format!("{}#{}@{}", key.name, key.attempt, key.sandbox)
}

/// Phase, reason, then each container with its restartCount.
pub fn status(status: &PodStatus) -> String {
    let mut words = vec![status.phase.clone().unwrap_or_default()];
    words.extend(status.reason.iter().map(|reason| format!("reason={reason}")));
    let lists = lists(status);
    words.extend(lists.into_iter().flatten().flatten().map(container));
    words.join(" ")
}

fn container(status: &ContainerStatus) -> String {
    let state = status.state.as_ref().map(state).unwrap_or_default();
    let ready = if status.ready { "+" } else { "" };
    format!("{}{ready}#{}={state}", status.name, status.restart_count)
}

fn state(state: &ContainerState) -> String {
    if state.running.is_some() {
        return "running".to_owned();
    }
    if let Some(end) = &state.terminated {
        return format!("{}({})", end.reason.as_deref().unwrap_or_default(), end.exit_code);
    }
    let waiting = state.waiting.as_ref().and_then(|waiting| waiting.reason.clone());
    waiting.unwrap_or_default()
}

/// All of a status, a line each.
pub fn full_status(status: &PodStatus, start: Tick) -> Vec<String> {
    let mut lines = vec![format!(
        "phase={} reason={:?} message={:?} podIP={:?} hostIP={:?} qos={:?} generation={:?}",
        status.phase.as_deref().unwrap_or_default(),
        status.reason.as_deref().unwrap_or_default(),
        status.message.as_deref().unwrap_or_default(),
        status.pod_ip.as_deref().unwrap_or_default(),
        status.host_ip.as_deref().unwrap_or_default(),
        status.qos_class.as_deref().unwrap_or_default(),
        status.observed_generation.unwrap_or_default(),
    )];
    for condition in status.conditions.iter().flatten() {
        let since = condition.last_transition_time.as_ref().map(Tick::from).unwrap_or_default();
        let mut line =
            format!("{}={} since {}", condition.type_, condition.status, span(since.since(start)));
        let details = [&condition.reason, &condition.message];
        for detail in details.into_iter().flatten() {
            line.push_str(&format!(" {detail}"));
        }
        if owns_condition(&condition.type_)
            && condition.observed_generation != status.observed_generation
        {
            line.push_str(&format!(" as of generation {:?}", condition.observed_generation));
        }
        lines.push(line);
    }
    for container in lists(status).into_iter().flatten().flatten() {
        lines.push(full_container(container));
    }
    lines
}

/// Init, regular, ephemeral.
pub fn lists(status: &PodStatus) -> [&Option<Vec<ContainerStatus>>; 3] {
    [
        &status.init_container_statuses,
        &status.container_statuses,
        &status.ephemeral_container_statuses,
    ]
}

fn full_container(status: &ContainerStatus) -> String {
    let full = |s: &ContainerState| {
        let waiting = s.waiting.as_ref().and_then(|w| w.message.clone());
        let ended = s.terminated.as_ref().and_then(|end| end.message.clone());
        let message = waiting.or(ended).map(|m| format!(" {m:?}")).unwrap_or_default();
        format!("{}{message}", state(s))
    };
    let last = status.last_state.as_ref().map(full).filter(|text| !text.is_empty());
    format!(
        "{} ready={} started={} restarts={} state={} last={} id={}",
        status.name,
        status.ready,
        status.started.unwrap_or_default(),
        status.restart_count,
        status.state.as_ref().map(full).unwrap_or_default(),
        last.unwrap_or_else(|| "-".to_owned()),
        status.container_id.as_deref().unwrap_or("-"),
    )
}

pub fn span(span: TickDuration) -> String {
    let (secs, millis) = (span.as_secs(), span.as_micros() / 1_000 % 1_000);
    if millis == 0 { format!("{secs}s") } else { format!("{secs}.{millis:03}s") }
}
