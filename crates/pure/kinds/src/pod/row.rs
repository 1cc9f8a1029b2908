//! The row of a Pod in a table, as kubectl users know it.
//!
//! Source: the behaviour of the server-side printer of pods (`printPod` in
//! `pkg/printers/internalversion`), tried case by case in the tests.

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStatus, Pod, PodCondition, PodSpec, PodStatus,
};
use rekindle_types::Tick;
use rekindle_types::pods::{self, AnyContainer, AnySpec};

use crate::registry::resource::{TableCell, TableColumn};
use crate::table::{AGE, NAME, age, column, human, or_none, wide};
use crate::validation::{ListKeys, items, text};

/// The columns.
pub(super) const COLUMNS: &[TableColumn] = &[
    NAME,
    column("Ready", "string", "The aggregate readiness state of this pod for accepting traffic."),
    column("Status", "string", "The aggregate status of the containers in this pod."),
    column(
        "Restarts",
        "string",
        "The number of times the containers in this pod have been restarted and when the last container in this pod has \
         restarted.",
    ),
    AGE,
    wide("IP", "string", "IP address allocated to the pod. Empty if not yet allocated."),
    wide("Node", "string", "The node the pod runs on."),
    wide(
        "Nominated Node",
        "string",
        "The node on which room is being made for the pod by preemption.",
    ),
    wide("Readiness Gates", "string", "How many of the pod's readiness gates are true."),
];

/// The cells.
pub(super) fn row(pod: &Pod, now: Tick) -> Vec<TableCell> {
    let (spec, status) = (pod.spec.as_ref(), pod.status.as_ref());
    let summary = PodSummary::new(pod);
    let ip = status.and_then(|status| items(status.pod_ips.as_ref()).first());
    vec![
        text(pod.metadata.name.as_ref()).into(),
        summary.ready().into(),
        summary.status.as_str().into(),
        summary.restarts(now).into(),
        age(pod.metadata.creation_timestamp.as_ref(), now).into(),
        or_none(ip.map(|address| &address.ip)),
        or_none(spec.and_then(|spec| spec.node_name.as_ref())),
        or_none(status.and_then(|status| status.nominated_node_name.as_ref())),
        readiness_gates(spec, status).into(),
    ]
}

/// What a table says of a pod's containers, now or later. It is much smaller than the pod.
#[derive(Clone, Debug, Default)]
pub struct PodSummary {
    /// What the containers add up to, such as `Running` or `CrashLoopBackOff`.
    pub status: String,
    ready: usize,
    total: usize,
    restarts: i64,
    restarted_at: Option<Tick>,
}

impl PodSummary {
    /// Of a pod as it is.
    pub fn new(pod: &Pod) -> Self {
        let no_spec = PodSpec::default();
        let no_status = PodStatus::default();
        let spec = pod.spec.as_ref().unwrap_or(&no_spec);
        let status = pod.status.as_ref().unwrap_or(&no_status);
        let mut summary =
            Self { status: base_reason(status), total: spec.lasting().count(), ..Self::default() };
        let is_initialized = summary.count_init_containers(spec, status);
        if is_initialized || condition_is_true(status, "Initialized") {
            summary.count_containers(spec, status);
        }
        summary.status = shown_reason(pod, status, summary.status);
        summary
    }

    /// How many containers are ready, such as `1/2`.
    pub fn ready(&self) -> String {
        format!("{}/{}", self.ready, self.total)
    }

    /// How often they were restarted, and how long ago, such as `3 (10s ago)`.
    pub fn restarts(&self, now: Tick) -> String {
        match self.restarted_at {
            Some(at) if self.restarts > 0 => {
                format!("{} ({} ago)", self.restarts, human(now.since(at)))
            }
            Some(_) | None => self.restarts.to_string(),
        }
    }

    /// Goes through the init containers up to the first that is not done, which gives the reason.
    /// True if all of them are done.
    fn count_init_containers(&mut self, spec: &PodSpec, status: &PodStatus) -> bool {
        let containers = items(spec.init_containers.as_ref());
        let sidecars = sidecars(spec);
        for (index, status) in items(status.init_container_statuses.as_ref()).iter().enumerate() {
            self.count_restarts(status);
            let sidecar = sidecars.has(status.name.as_str());
            let state = status.state.as_ref();
            let terminated = state.and_then(|state| state.terminated.as_ref());
            let waiting = state.and_then(|state| state.waiting.as_ref());
            let waits_for = text(waiting.and_then(|waiting| waiting.reason.as_ref()));
            self.status = match terminated {
                Some(terminated) if terminated.exit_code == 0 => continue,
                _ if sidecar && status.started == Some(true) => {
                    self.ready += usize::from(status.ready);
                    continue;
                }
                Some(_) => format!("Init:{}", terminated_reason(state)),
                None if !matches!(waits_for, "" | "PodInitializing") => format!("Init:{waits_for}"),
                None => format!("Init:{index}/{}", containers.len()),
            };
            return false;
        }
        true
    }

    /// Goes through the regular containers. Restarts of init containers that are done no longer
    /// count, those of sidecars do.
    fn count_containers(&mut self, spec: &PodSpec, status: &PodStatus) {
        self.restarts = 0;
        self.restarted_at = None;
        let sidecars = sidecars(spec);
        for init in items(status.init_container_statuses.as_ref()) {
            if sidecars.has(init.name.as_str()) {
                self.count_restarts(init);
            }
        }
        let mut running = false;
        for container in items(status.container_statuses.as_ref()).iter().rev() {
            self.count_restarts(container);
            let state = container.state.as_ref();
            let waiting = state.and_then(|state| state.waiting.as_ref());
            let waits_for = text(waiting.and_then(|waiting| waiting.reason.as_ref()));
            if !waits_for.is_empty() {
                waits_for.clone_into(&mut self.status);
            } else if state.is_some_and(|state| state.terminated.is_some()) {
                self.status = terminated_reason(state);
            } else if container.ready && state.is_some_and(|state| state.running.is_some()) {
                running = true;
                self.ready += 1;
            }
        }
        if self.status == "Completed" && running {
            let ready = condition_is_true(status, "Ready");
            (if ready { "Running" } else { "NotReady" }).clone_into(&mut self.status);
        }
    }

    fn count_restarts(&mut self, status: &ContainerStatus) {
        self.restarts += i64::from(status.restart_count);
        let last = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
        let ended = last.and_then(|last| last.finished_at.as_ref()).map(Tick::from);
        self.restarted_at = self.restarted_at.max(ended);
    }
}

/// The names of the init containers that go on.
fn sidecars(spec: &PodSpec) -> ListKeys<&str> {
    let containers = items(spec.init_containers.as_ref()).iter();
    containers.filter(|init| init.is_sidecar()).map(|init| init.name.as_str()).collect()
}

fn base_reason(status: &PodStatus) -> String {
    let gated = items(status.conditions.as_ref()).iter().any(|condition| {
        condition.type_ == "PodScheduled" && condition.reason.as_deref() == Some("SchedulingGated")
    });
    if gated {
        return "SchedulingGated".to_owned();
    }
    let reason = status.reason.as_ref().filter(|reason| !reason.is_empty());
    text(reason.or(status.phase.as_ref())).to_owned()
}

fn terminated_reason(state: Option<&ContainerState>) -> String {
    let Some(terminated) = state.and_then(|state| state.terminated.as_ref()) else {
        return String::new();
    };
    match (text(terminated.reason.as_ref()), terminated.signal.unwrap_or(0)) {
        ("", 0) => format!("ExitCode:{}", terminated.exit_code),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn shown_reason(pod: &Pod, status: &PodStatus, reason: String) -> String {
    if pod.metadata.deletion_timestamp.is_none() {
        return reason;
    }
    if status.reason.as_deref() == Some("NodeLost") {
        "Unknown".to_owned()
    } else if pods::is_finished(pod) {
        reason
    } else {
        "Terminating".to_owned()
    }
}

fn readiness_gates(spec: Option<&PodSpec>, status: Option<&PodStatus>) -> String {
    let gates = items(spec.and_then(|spec| spec.readiness_gates.as_ref()));
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let conditions = items(status.and_then(|status| status.conditions.as_ref())).iter();
    let held = conditions.filter(|condition| condition.status == "True");
    let held: ListKeys<&str> = held.map(|condition| condition.type_.as_str()).collect();
    let met = gates.iter().filter(|gate| held.has(gate.condition_type.as_str())).count();
    format!("{met}/{}", gates.len())
}

fn condition_is_true(status: &PodStatus, type_: &str) -> bool {
    let is = |condition: &PodCondition| condition.type_ == type_ && condition.status == "True";
    items(status.conditions.as_ref()).iter().any(is)
}
