//! The next action of a restart, from what is written, what runs, and what this agent remembers.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodSpec};
use rekindle_pod_driver::{lost_with_its_pod, restart_progress, spec_grace_seconds};
use rekindle_types::pods::{AnyPod, AnySpec};
use rekindle_types::v1alpha1::{
    MemberTurn, PodRestart, PodRestartPhase, PodRestartStatus, RestartedContainer, Rung,
    RuntimeRestart,
};
use rekindle_types::{Tick, TickDuration, span};

use crate::evidence::last_end;
use crate::freeze::{self, EmptyDirVolume, FreezeSupport};
use crate::refusals::{is_killed, refusal};
use crate::{PodRuntime, RuntimeContainer, RuntimeContainerState, StopPlan};

/// A stop that failed this often in a row is not tried again: a network that cannot be taken down
/// would make the kubelet try for ever (openshift/origin#19604).
const STOP_TRIES_MAX: u32 = 2;
/// The same of a removal, which a container that the kubelet is starting just then holds up, and of
/// the thaw of a pod.
const REMOVE_TRIES_MAX: u32 = 5;
/// How long the kubelet has to begin a new sandbox after the old one was removed.
pub const NEW_SANDBOX_LATEST: TickDuration = TickDuration::from_secs(120);
/// How long a runtime may give no answer before a request is given up.
pub const RUNTIME_SILENT_MAX: TickDuration = TickDuration::from_secs(60);
/// How long the agent waits before it calls a runtime again that has failed.
const FAILURE_PAUSE: TickDuration = TickDuration::from_secs(1);

/// What a restart is decided from.
#[derive(Clone, Copy, Debug)]
pub struct RestartSituation<'a> {
    /// The agent's node.
    pub node: &'a str,
    /// The agent's namespace; none where it runs beside the cluster.
    pub own_namespace: Option<&'a str>,
    /// The request, with the newest status that is known to be written.
    pub restart: &'a PodRestart,
    /// The pod of its name on this node, if there is one.
    pub pod: Option<&'a Pod>,
    /// What the runtime shows of the pod; none when it could not be asked.
    pub runtime: Option<&'a PodRuntime>,
    /// Whether the agent can freeze pods and empty their volumes.
    pub support: FreezeSupport,
    /// What the request's group is about to do; [`MemberTurn::Stop`] of one that is of no group.
    pub turn: MemberTurn,
    /// The time.
    pub now: Tick,
}

/// What an agent remembers of a restart beside what is written. It may be lost at any point.
#[derive(Clone, Debug, Default)]
pub struct RestartProgress {
    are_containers_stopped: bool,
    /// The pod was frozen.
    pub(crate) is_held: bool,
    /// What still ran in the sandbox was killed once, or cannot be.
    is_rest_killed: bool,
    is_sandbox_stopped: bool,
    /// The volumes were emptied, since the pod was frozen.
    pub(crate) are_volumes_empty: bool,
    /// A removal of the sandbox has failed.
    pub(crate) has_removal_failed: bool,
    /// The pod was thawed.
    pub(crate) is_released: bool,
    /// How it ends; it waits for the thaw to be written.
    pub(crate) verdict: Option<(PodRestartPhase, String)>,
    failed: Option<(RuntimeCall, u32)>,
    not_before: Tick,
    last_error: String,
    silent_since: Option<Tick>,
    removal_seen: Option<Tick>,
}

/// A kind of call that changes something on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuntimeCall {
    /// The preStop hooks and StopContainer.
    StopContainers,
    /// The pod's cgroup is frozen.
    HoldPod,
    /// StopContainer without grace.
    KillContainers,
    /// StopPodSandbox.
    StopSandbox,
    /// The emptyDir volumes are emptied.
    ClearEmptyDirs,
    /// The pod's cgroup is thawed.
    ReleasePod,
    /// RemovePodSandbox.
    RemoveSandbox,
}

impl RuntimeCall {
    fn text(self) -> &'static str {
        match self {
            RuntimeCall::StopContainers => "stop the containers",
            RuntimeCall::HoldPod => "freeze the pod",
            RuntimeCall::KillContainers => "kill the containers",
            RuntimeCall::StopSandbox => "stop the sandbox",
            RuntimeCall::ClearEmptyDirs => "empty the emptyDir volumes",
            RuntimeCall::ReleasePod => "thaw the pod",
            RuntimeCall::RemoveSandbox => "remove the sandbox",
        }
    }

    /// How often it is tried in a row.
    pub(crate) fn tries_max(self) -> u32 {
        match self {
            RuntimeCall::StopContainers
            | RuntimeCall::HoldPod
            | RuntimeCall::KillContainers
            | RuntimeCall::StopSandbox
            | RuntimeCall::ClearEmptyDirs => STOP_TRIES_MAX,
            RuntimeCall::ReleasePod | RuntimeCall::RemoveSandbox => REMOVE_TRIES_MAX,
        }
    }
}

impl RestartProgress {
    /// A call has succeeded.
    pub fn succeeded(&mut self, call: RuntimeCall) {
        match call {
            RuntimeCall::StopContainers => self.are_containers_stopped = true,
            RuntimeCall::HoldPod => self.is_held = true,
            RuntimeCall::KillContainers => self.is_rest_killed = true,
            RuntimeCall::StopSandbox => self.is_sandbox_stopped = true,
            RuntimeCall::ClearEmptyDirs => self.are_volumes_empty = true,
            RuntimeCall::ReleasePod => self.is_released = true,
            RuntimeCall::RemoveSandbox => {}
        }
        self.failed = None;
    }

    /// A call has failed, with this error.
    pub fn failed(&mut self, call: RuntimeCall, error: &str, now: Tick) {
        self.failed = Some((call, self.failures_of(call).saturating_add(1)));
        self.has_removal_failed |= call == RuntimeCall::RemoveSandbox;
        self.not_before = now + FAILURE_PAUSE;
        self.last_error = format!("failed to {}: {error}", call.text());
    }

    /// How often a call has failed in a row. The failures of another call are none of its own.
    pub(crate) fn failures_of(&self, call: RuntimeCall) -> u32 {
        self.failed.filter(|(failed, _)| *failed == call).map_or(0, |(_, count)| count)
    }

    /// The runtime has said what runs.
    pub fn answered(&mut self) {
        self.silent_since = None;
    }

    /// The runtime could not be asked what runs.
    pub fn unanswered(&mut self, error: &str, now: Tick) {
        self.silent_since.get_or_insert(now);
        self.last_error = format!("failed to ask the runtime: {error}");
    }
}

/// What is done next.
#[derive(Clone, Debug, PartialEq)]
pub enum RestartAction {
    /// Nothing: it is over, or not this agent's.
    Leave,
    /// The status is written. Nothing else happens before it is.
    Write(Box<PodRestartStatus>),
    /// Something of the pod is changed on the node.
    Call(NodeCall),
    /// The pod is waited for, until this time at most.
    Wait(Tick),
}

/// What is changed on the node.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeCall {
    /// Containers are stopped.
    StopContainers(StopPlan),
    /// This cgroup of the pod is frozen.
    HoldPod(String),
    /// The containers with these ids are killed.
    KillContainers(Vec<String>),
    /// The sandbox with this id is stopped.
    StopSandbox(String),
    /// These volumes of the pod are emptied, as long as its cgroup is frozen.
    ClearEmptyDirs {
        /// The pod's cgroup.
        cgroup: String,
        /// The volumes.
        volumes: Vec<EmptyDirVolume>,
    },
    /// This cgroup of the pod is thawed.
    ReleasePod(String),
    /// The sandbox with this id is removed.
    RemoveSandbox(String),
}

impl NodeCall {
    /// What kind of call it is.
    pub fn kind(&self) -> RuntimeCall {
        match self {
            NodeCall::StopContainers(_) => RuntimeCall::StopContainers,
            NodeCall::HoldPod(_) => RuntimeCall::HoldPod,
            NodeCall::KillContainers(_) => RuntimeCall::KillContainers,
            NodeCall::StopSandbox(_) => RuntimeCall::StopSandbox,
            NodeCall::ClearEmptyDirs { .. } => RuntimeCall::ClearEmptyDirs,
            NodeCall::ReleasePod(_) => RuntimeCall::ReleasePod,
            NodeCall::RemoveSandbox(_) => RuntimeCall::RemoveSandbox,
        }
    }
}

/// The next action.
pub fn next_action(at: &RestartSituation<'_>, progress: &mut RestartProgress) -> RestartAction {
    match decide(at, progress) {
        RestartAction::Write(status) => freeze::released_first(at, progress, status),
        action => action,
    }
}

fn decide(at: &RestartSituation<'_>, progress: &mut RestartProgress) -> RestartAction {
    let unwritten = PodRestartStatus::default();
    let status = at.restart.status.as_ref().unwrap_or(&unwritten);
    match status.phase {
        Some(PodRestartPhase::Running) => match progress.verdict.clone() {
            Some((phase, message)) => at.write(phase, message),
            None => go_on(at, status, progress),
        },
        Some(
            PodRestartPhase::Succeeded
            | PodRestartPhase::Failed
            | PodRestartPhase::Refused
            | PodRestartPhase::Withdrawn,
        ) => freeze::after_the_end(at, status, progress),
        None => begin(at, progress),
    }
}

impl RestartSituation<'_> {
    /// The status after this report.
    pub(crate) fn report(&self, phase: PodRestartPhase, message: String) -> PodRestartStatus {
        let before = self.restart.status.clone().unwrap_or_default();
        let pod = self.pod.and_then(|pod| pod.metadata.uid.as_deref());
        let mut status = restart_progress(&before, pod, phase, message, self.now);
        status.node_name.get_or_insert_with(|| self.node.to_owned());
        status
    }

    pub(crate) fn write(&self, phase: PodRestartPhase, message: String) -> RestartAction {
        RestartAction::Write(Box::new(self.report(phase, message)))
    }

    pub(crate) fn limit(&self) -> TickDuration {
        let grace = self.pod.map_or(0, spec_grace_seconds);
        self.restart.in_place_limit(TickDuration::of_field(grace))
    }

    /// When the request is given up.
    pub(crate) fn due(&self) -> Tick {
        let created = self.restart.metadata.creation_timestamp.as_ref();
        created.map_or(self.now, Tick::from) + self.limit()
    }
}

/// A request that nothing was done for yet.
fn begin(at: &RestartSituation<'_>, progress: &RestartProgress) -> RestartAction {
    let refuse = |why: String| at.write(PodRestartPhase::Refused, why);
    let Some(pod) = at.pod.filter(|pod| pod.node_name() == Some(at.node)) else {
        return RestartAction::Leave; // another agent's, or the operator's to answer
    };
    let Some(spec) = pod.spec.as_ref() else { return RestartAction::Leave };
    match at.turn {
        MemberTurn::Stop => {}
        // not its turn yet, or its group is over without it: the operator answers
        MemberTurn::Wait | MemberTurn::Start => return RestartAction::Leave,
    }
    if let Some(why) = refusal(at.restart, pod, at.own_namespace) {
        return refuse(why);
    }
    if at.due() <= at.now {
        let limit = span::show(at.limit());
        let message = format!("its deadline of {limit} passed before it was begun");
        return at.write(PodRestartPhase::Failed, message);
    }
    let Some(runtime) = at.runtime else {
        let fail = |error| at.write(PodRestartPhase::Failed, format!("nothing was done: {error}"));
        return retry(at, progress, fail);
    };
    let name = &at.restart.spec.pod_name;
    if runtime.sandboxes.is_empty() {
        return refuse(format!("the runtime of node {} shows no sandbox of pod {name}", at.node));
    }
    let Some(sandbox) = runtime.ready_sandbox() else {
        return refuse(format!(
            "no sandbox of pod {name} is ready: the kubelet makes a new one by itself"
        ));
    };
    let concerned = spec.lasting().filter(|container| at.restart.spec.concerns(&container.name));
    let containers = concerned.map(|container| {
        let is_over = |c: &RuntimeContainer| c.end.is_some();
        let over = runtime.latest(&sandbox.id, &container.name, is_over);
        let latest = runtime.latest(&sandbox.id, &container.name, |_| true);
        RestartedContainer {
            name: container.name.clone(),
            container_id: latest.map(|container| container.id.clone()),
            last_end: last_end(
                over.and_then(|container| container.end.as_ref()),
                status_of(pod, &container.name),
            ),
            last_log: over.or(latest).and_then(|container| container.last_log.clone()),
        }
    });
    let mut containers: Vec<RestartedContainer> = containers.collect();
    // of all that run, each by itself, those that do not run are none
    if at.restart.spec.rung() == Rung::Container && at.restart.spec.container_name.is_none() {
        let runs = |id: &String| runtime.containers.iter().any(|c| c.id == *id && c.may_run());
        containers.retain(|container| container.container_id.as_ref().is_some_and(runs));
    }
    if containers.is_empty() {
        return refuse(format!("no container or sidecar of pod {name} runs"));
    }
    let freeze = match freeze::begin(at, spec, runtime) {
        Ok(freeze) => freeze,
        Err(why) => return refuse(why),
    };
    let begun = RuntimeRestart {
        sandbox_id: sandbox.id.clone(),
        containers,
        oom_kills: runtime.oom_kills,
        freeze,
    };
    let mut status = at.report(PodRestartPhase::Running, at.restart.spec.doing());
    status.runtime = Some(begun);
    RestartAction::Write(Box::new(status))
}

/// A request that was begun, by this agent or one before it.
fn go_on(
    at: &RestartSituation<'_>,
    status: &PodRestartStatus,
    progress: &mut RestartProgress,
) -> RestartAction {
    let (Some(begun), Some(node)) = (&status.runtime, &status.node_name) else {
        return RestartAction::Leave; // no agent of a cluster has begun it
    };
    if node != at.node {
        return RestartAction::Leave;
    }
    let is_same = |pod: &&Pod| pod.metadata.uid.as_deref() == status.pod_uid.as_deref();
    let pod = at.pod.filter(is_same).filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let Some((pod, spec)) = pod.and_then(|pod| Some((pod, pod.spec.as_ref()?))) else {
        let (phase, message) = lost_with_its_pod(&at.restart.spec.pod_name);
        return at.write(phase, message);
    };
    let fail = |why: String| at.write(PodRestartPhase::Failed, why);
    let Some(runtime) = at.runtime else { return retry(at, progress, fail) };
    if let Some(action) = end(at, begun, spec, runtime, progress) {
        return action;
    }
    let removal_seen = *progress.removal_seen.get_or_insert(at.now);
    let starting = at.restart.spec.starting();
    // also when all runs again already: the steps say when everything had ended
    if status.message.as_deref() != Some(starting) {
        return at.write(PodRestartPhase::Running, starting.to_owned());
    }
    if is_running_again(at, begun, pod, runtime) {
        return at.write(PodRestartPhase::Succeeded, at.restart.spec.done());
    }
    if at.due() <= at.now {
        let limit = span::show(at.limit());
        return fail(format!(
            "not all containers were running within its deadline of {limit}; what was begun goes on"
        ));
    }
    let has_new = runtime.sandboxes.iter().any(|sandbox| sandbox.id != begun.sandbox_id);
    let latest = removal_seen + NEW_SANDBOX_LATEST;
    match at.restart.spec.rung() {
        Rung::Pod if !has_new && latest <= at.now => fail(format!(
            "sandbox {} is removed, and the kubelet has begun no new one within {}{}",
            begun.sandbox_id,
            span::show(NEW_SANDBOX_LATEST),
            reserved_name(pod),
        )),
        Rung::Pod if !has_new => RestartAction::Wait(latest.min(at.due())),
        Rung::Pod
        | Rung::Container
        | Rung::Containers
        | Rung::Recreate
        | Rung::Reschedule
        | Rung::Rollback => RestartAction::Wait(at.due()),
    }
}

/// What is still to be ended; none when nothing is.
fn end(
    at: &RestartSituation<'_>,
    begun: &RuntimeRestart,
    spec: &PodSpec,
    runtime: &PodRuntime,
    progress: &mut RestartProgress,
) -> Option<RestartAction> {
    let sandbox = runtime.sandbox(&begun.sandbox_id);
    if !is_killed(spec)
        && sandbox.is_some_and(|sandbox| sandbox.is_ready)
        && let Some(action) = end_containers(at, begun, spec, runtime, progress)
    {
        return Some(action);
    }
    if at.restart.spec.rung() != Rung::Pod {
        return None;
    }
    if let Some(action) = freeze::hold(at, begun, runtime, progress) {
        return Some(action);
    }
    // also of one that is not ready: its network may still be there
    let is_stopped = progress.is_sandbox_stopped || freeze::says_stopped(begun);
    if let Some(sandbox) = sandbox.filter(|_| !is_stopped) {
        if let Some(action) = kill_rest(at, begun, runtime, progress) {
            return Some(action);
        }
        return Some(try_call(at, progress, NodeCall::StopSandbox(sandbox.id.clone())));
    }
    if let Some(action) = freeze::between_sandboxes(at, begun, spec, runtime, progress) {
        return Some(action);
    }
    Some(try_call(at, progress, NodeCall::RemoveSandbox(sandbox?.id.clone())))
}

/// The stop of the containers, as long as some run and that was not given up.
fn end_containers(
    at: &RestartSituation<'_>,
    begun: &RuntimeRestart,
    spec: &PodSpec,
    runtime: &PodRuntime,
    progress: &mut RestartProgress,
) -> Option<RestartAction> {
    let running = still_running(begun, runtime);
    if progress.are_containers_stopped || running.is_empty() {
        return None;
    }
    let call = RuntimeCall::StopContainers;
    let has_given_up = progress.failures_of(call) >= call.tries_max();
    if has_given_up && at.restart.spec.rung() == Rung::Pod {
        // the sandbox's own stop ends what does not end by itself
        progress.succeeded(call);
        return None;
    }
    if has_given_up {
        return Some(at.write(PodRestartPhase::Failed, progress.last_error.clone()));
    }
    if at.now < progress.not_before {
        return Some(RestartAction::Wait(progress.not_before));
    }
    let pod_grace = at.pod.map_or(0, spec_grace_seconds);
    let grace = at.restart.spec.grace_seconds().unwrap_or(pod_grace);
    let plan = StopPlan::new(spec, &running, TickDuration::of_field(grace));
    Some(RestartAction::Call(NodeCall::StopContainers(plan)))
}

/// What still runs in the sandbox is killed: what did not end by itself, what the kubelet has
/// started once more, and all of a pod that is killed frozen. StopPodSandbox does so with
/// containerd; CRI-O 1.36 asks with a signal first, which a frozen process never gets, and waits
/// for as long as the call may take.
fn kill_rest(
    at: &RestartSituation<'_>,
    begun: &RuntimeRestart,
    runtime: &PodRuntime,
    progress: &mut RestartProgress,
) -> Option<RestartAction> {
    let of_it = runtime.containers_of(&begun.sandbox_id).filter(|c| c.may_run());
    let running: Vec<String> = of_it.map(|container| container.id.clone()).collect();
    let call = RuntimeCall::KillContainers;
    // what cannot be killed is left to the sandbox's own stop
    let is_passed = running.is_empty() || progress.failures_of(call) >= call.tries_max();
    if !progress.is_rest_killed && is_passed {
        progress.succeeded(call);
    }
    if progress.is_rest_killed {
        return None;
    }
    Some(try_call(at, progress, NodeCall::KillContainers(running)))
}

/// A call that is tried again after a pause, and given up after some tries.
pub(crate) fn try_call(
    at: &RestartSituation<'_>,
    progress: &RestartProgress,
    call: NodeCall,
) -> RestartAction {
    let kind = call.kind();
    let failures = progress.failures_of(kind);
    if failures >= kind.tries_max() {
        let error = &progress.last_error;
        let why = format!("{error}; it was tried {failures} times");
        return at.write(PodRestartPhase::Failed, why);
    }
    if failures > 0 && at.now < progress.not_before {
        return RestartAction::Wait(progress.not_before);
    }
    RestartAction::Call(call)
}

/// The containers that the restart was begun on and that have not ended, as `(name, id)`.
fn still_running(begun: &RuntimeRestart, runtime: &PodRuntime) -> Vec<(String, String)> {
    let named = begun.containers.iter().filter_map(|c| Some((&c.name, c.container_id.as_ref()?)));
    let running = named.filter(|(_, id)| {
        let mut containers = runtime.containers.iter();
        containers.any(|container| container.id == **id && container.may_run())
    });
    running.map(|(name, id)| (name.clone(), id.clone())).collect()
}

/// Waits before the runtime is asked again, or gives up.
fn retry(
    at: &RestartSituation<'_>,
    progress: &RestartProgress,
    give_up: impl Fn(String) -> RestartAction,
) -> RestartAction {
    let since = progress.silent_since.unwrap_or(at.now);
    if at.now.since(since) < RUNTIME_SILENT_MAX {
        return RestartAction::Wait(at.now + FAILURE_PAUSE);
    }
    give_up(format!("{} for {}", progress.last_error, span::show(RUNTIME_SILENT_MAX)))
}

/// Whether each container that it concerns runs in another attempt, as both runtime and kubelet
/// say.
fn is_running_again(
    at: &RestartSituation<'_>,
    begun: &RuntimeRestart,
    pod: &Pod,
    runtime: &PodRuntime,
) -> bool {
    let is_of_pod = at.restart.spec.rung() == Rung::Pod;
    let runs = |id: &str| {
        runtime.containers.iter().any(|container| {
            container.id == id
                && container.state == RuntimeContainerState::Running
                && !(is_of_pod && container.sandbox_id == begun.sandbox_id)
        })
    };
    begun.containers.iter().all(|container| {
        let shown = status_of(pod, &container.name).and_then(running_id);
        shown.is_some_and(|id| Some(id) != container.container_id.as_deref() && runs(id))
    })
}

pub(crate) fn status_of<'a>(pod: &'a Pod, name: &str) -> Option<&'a ContainerStatus> {
    let status = pod.status.as_ref()?;
    let all = [&status.container_statuses, &status.init_container_statuses];
    all.into_iter().flatten().flatten().find(|container| container.name == name)
}

/// The runtime's id of a container that the kubelet shows as running: `containerd://id`.
fn running_id(status: &ContainerStatus) -> Option<&str> {
    status.state.as_ref()?.running.as_ref()?;
    let id = status.container_id.as_deref()?;
    Some(id.split_once("://").map_or(id, |(_, id)| id))
}

/// What the kubelet says of a name that the runtime does not let go of (containerd#9947).
fn reserved_name(pod: &Pod) -> String {
    let status = pod.status.as_ref();
    let lists = status.map(|s| [&s.container_statuses, &s.init_container_statuses]);
    let mut all = lists.into_iter().flatten().flatten().flatten();
    let message = all.find_map(|container| {
        let message = container.state.as_ref()?.waiting.as_ref()?.message.as_ref()?;
        message.contains("failed to reserve").then_some(message)
    });
    match message {
        Some(message) => format!(": {message}"),
        None => "; its events may say why: a runtime says \"failed to reserve sandbox name\" after a timeout".to_owned(),
    }
}
