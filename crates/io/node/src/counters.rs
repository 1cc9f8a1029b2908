//! What the agent counts while it works, under the kubelet's names. Handed to whatever counts;
//! cheap to raise.

use k8s_openapi::api::core::v1::Pod;
use rekindle_metrics::{Counter, Histogram, MetricFamily, Text};
use rekindle_pod::{ActionError, ActionOutcome, CoreAction, ProbeKind, ProbeVerdict};
use rekindle_types::{PodRef, Tick, TickDuration};

/// Upper bounds of a pod's start in seconds, as the kubelet's.
const POD_START_SECONDS: &[f64] = &[
    0.1, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0,
    300.0, 360.0, 480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
];

/// The counters of one node agent.
#[derive(Debug)]
pub(crate) struct AgentCounters {
    /// From the agent's first sight of a pod until it runs.
    pub(crate) pod_start: Histogram,
    pub(crate) started_pods: Counter,
    started_containers: MetricFamily<Counter>,
    started_containers_errors: MetricFamily<Counter>,
    runtime_operations: MetricFamily<Counter>,
    runtime_operations_errors: MetricFamily<Counter>,
    runtime_operations_duration: MetricFamily<Histogram>,
    probes: MetricFamily<Counter>,
    probe_duration: MetricFamily<Histogram>,
    /// Pods evicted, by the signal that was low.
    pub(crate) evictions: MetricFamily<Counter>,
}

impl Default for AgentCounters {
    fn default() -> Self {
        Self {
            pod_start: Histogram::new(POD_START_SECONDS),
            started_pods: Counter::default(),
            started_containers: MetricFamily::new(&["container_type"]),
            started_containers_errors: MetricFamily::new(&["container_type", "code"]),
            runtime_operations: MetricFamily::new(&["operation_type"]),
            runtime_operations_errors: MetricFamily::new(&["operation_type"]),
            runtime_operations_duration: MetricFamily::new(&["operation_type"]),
            probes: MetricFamily::new(&[
                "probe_type",
                "result",
                "container",
                "pod",
                "namespace",
                "pod_uid",
            ]),
            probe_duration: MetricFamily::new(&["probe_type", "container", "pod", "namespace"]),
            evictions: MetricFamily::new(&["eviction_signal"]),
        }
    }
}

/// What of an action is counted, taken before it is carried out.
pub(crate) enum ActionMetric {
    /// A call of the runtime.
    Operation(&'static str),
    /// The start of a container.
    Start {
        /// `container`, `init_container`, `ephemeral_container`.
        container_type: &'static str,
    },
    /// A probe.
    Probe {
        /// The probe's type.
        kind: ProbeKind,
        /// The container's name.
        container: String,
    },
    /// Nothing.
    Nothing,
}

impl ActionMetric {
    /// What of this action.
    pub(crate) fn new(action: &CoreAction, pod: &Pod) -> Self {
        match action {
            CoreAction::SetUpSandbox { .. } => Self::Operation("run_podsandbox"),
            CoreAction::TearDownSandbox { .. } => Self::Operation("remove_podsandbox"),
            CoreAction::FindImage { .. } => Self::Operation("image_status"),
            CoreAction::PullImage { .. } => Self::Operation("pull_image"),
            CoreAction::SignalContainer { .. } | CoreAction::KillContainer { .. } => {
                Self::Operation("stop_container")
            }
            CoreAction::RemoveContainer { .. } => Self::Operation("remove_container"),
            CoreAction::UpdateContainer { .. } => Self::Operation("update_container"),
            CoreAction::UpdateSandbox { .. } => Self::Operation("update_podsandbox_resources"),
            CoreAction::StartContainer { key, .. } => {
                Self::Start { container_type: container_type(pod, &key.name.0) }
            }
            CoreAction::RunProbe { key, probe, timeout: _ } => {
                Self::Probe { kind: *probe, container: key.name.0.clone() }
            }
            CoreAction::MountVolumes | CoreAction::RefreshVolumes | CoreAction::RunHook { .. } => {
                Self::Nothing
            }
        }
    }
}

fn container_type(pod: &Pod, name: &str) -> &'static str {
    let Some(spec) = &pod.spec else { return "container" };
    if spec.init_containers.iter().flatten().any(|container| container.name == name) {
        "init_container"
    } else if spec.ephemeral_containers.iter().flatten().any(|container| container.name == name) {
        "ephemeral_container"
    } else {
        "container"
    }
}

/// How an operation of the runtime went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OperationResult {
    Well,
    Wrong,
}

impl OperationResult {
    fn from_success(is_well: bool) -> Self {
        if is_well { Self::Well } else { Self::Wrong }
    }
}

impl AgentCounters {
    /// Counts an action that was carried out, between these two moments.
    pub(crate) fn count(
        &self,
        counted: &ActionMetric,
        pod: &PodRef,
        (begun_at, done_at): (Tick, Tick),
        result: &Result<ActionOutcome, ActionError>,
    ) {
        let took = done_at.since(begun_at);
        match counted {
            ActionMetric::Nothing => {}
            ActionMetric::Operation(operation) => {
                self.operation(operation, took, OperationResult::from_success(result.is_ok()));
                if *operation == "run_podsandbox" && result.is_ok() {
                    self.started_pods.raise();
                }
            }
            ActionMetric::Start { container_type } => {
                self.start(container_type, (begun_at, done_at), result);
            }
            ActionMetric::Probe { kind, container } => {
                self.probe(*kind, container, pod, took, result)
            }
        }
    }

    /// One call of the runtime makes a container and starts it: the first is over when its process
    /// is let go.
    fn start(
        &self,
        container_type: &str,
        (begun_at, done_at): (Tick, Tick),
        result: &Result<ActionOutcome, ActionError>,
    ) {
        let start = match result {
            Ok(ActionOutcome::ContainerMade { start, .. }) => Some(start),
            Ok(_) | Err(_) => None,
        };
        let made_at = match start {
            Some(Ok(started_at)) => begun_at.max(*started_at).min(done_at),
            Some(Err(_)) | None => done_at,
        };
        let went = OperationResult::from_success(result.is_ok());
        self.operation("create_container", made_at.since(begun_at), went);
        if let Some(start) = start {
            let went = OperationResult::from_success(start.is_ok());
            self.operation("start_container", done_at.since(made_at), went);
        }
        self.started_containers.of(&[container_type]).raise();
        if !start.is_some_and(Result::is_ok) {
            let errors = self.started_containers_errors.of(&[container_type, "RunContainerError"]);
            errors.raise();
        }
    }

    fn operation(&self, operation: &str, took: TickDuration, went: OperationResult) {
        self.runtime_operations.of(&[operation]).raise();
        self.runtime_operations_duration.of(&[operation]).observe(took);
        if went == OperationResult::Wrong {
            self.runtime_operations_errors.of(&[operation]).raise();
        }
    }

    fn probe(
        &self,
        kind: ProbeKind,
        container: &str,
        pod: &PodRef,
        took: TickDuration,
        result: &Result<ActionOutcome, ActionError>,
    ) {
        let kind = match kind {
            ProbeKind::Startup => "Startup",
            ProbeKind::Readiness => "Readiness",
            ProbeKind::Liveness => "Liveness",
        };
        let verdict = match result {
            Ok(ActionOutcome::Probed {
                verdict: ProbeVerdict::Success | ProbeVerdict::Warning,
                ..
            }) => "successful",
            Ok(ActionOutcome::Probed {
                verdict: ProbeVerdict::Failure | ProbeVerdict::NotListening,
                ..
            }) => "failed",
            Ok(_) | Err(_) => "unknown",
        };
        let uid = pod.uid.0.as_str();
        self.probes.of(&[kind, verdict, container, &pod.name, &pod.namespace, uid]).raise();
        let duration = self.probe_duration.of(&[kind, container, &pod.name, &pod.namespace]);
        duration.observe(took);
    }

    /// All but the probes, as families of the kubelet.
    pub(crate) fn write(&self, text: &mut Text) {
        use rekindle_metrics::MetricKind;
        text.family(
            "kubelet_pod_start_duration_seconds",
            MetricKind::Histogram,
            "Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run",
        );
        self.pod_start.write(text, &[]);
        text.single(
            "kubelet_started_pods_total",
            MetricKind::Counter,
            "Cumulative number of pods started",
            self.started_pods.get() as f64,
        );
        self.started_containers.write(
            text,
            "kubelet_started_containers_total",
            "Cumulative number of containers started",
        );
        self.started_containers_errors.write(
            text,
            "kubelet_started_containers_errors_total",
            "Cumulative number of errors when starting containers",
        );
        self.runtime_operations.write(
            text,
            "kubelet_runtime_operations_total",
            "Cumulative number of runtime operations by operation type.",
        );
        self.runtime_operations_errors.write(
            text,
            "kubelet_runtime_operations_errors_total",
            "Cumulative number of runtime operation errors by operation type.",
        );
        self.runtime_operations_duration.write(
            text,
            "kubelet_runtime_operations_duration_seconds",
            "Duration in seconds of runtime operations. Broken down by operation type.",
        );
        self.evictions.write(
            text,
            "kubelet_evictions",
            "Cumulative number of pod evictions by eviction signal",
        );
    }

    /// The probes of the pods that are here; those of others are forgotten.
    pub(crate) fn write_probes(&self, text: &mut Text, here: &[PodRef]) {
        self.probes
            .retain(|values| here.iter().any(|pod| values.last() == Some(&pod.uid.0.as_str())));
        self.probe_duration.retain(|values| {
            here.iter().any(|pod| values.ends_with(&[pod.name.as_str(), pod.namespace.as_str()]))
        });
        self.probes.write(
            text,
            "prober_probe_total",
            "Cumulative number of a liveness, readiness or startup probe for a container by result.",
        );
        self.probe_duration.write(
            text,
            "prober_probe_duration_seconds",
            "Duration in seconds for a probe response.",
        );
    }
}

#[cfg(test)]
mod tests {
    use rekindle_pod::{ActionErrorKind, Made};

    use super::*;

    fn durations(start: Result<Tick, ActionError>) -> [(&'static str, String); 2] {
        let made = Made { container_id: String::new(), image_id: String::new(), user: None };
        let (counters, mut text) = (AgentCounters::default(), Text::default());
        let between = (Tick::from_secs(10), Tick::from_secs(14));
        counters.start("container", between, &Ok(ActionOutcome::ContainerMade { made, start }));
        counters.write(&mut text);
        let text = text.into_string();
        ["create_container", "start_container"].map(|operation| {
            let sum = format!(
                "kubelet_runtime_operations_duration_seconds_sum{{operation_type=\"{operation}\"}} "
            );
            let found = text.lines().find_map(|line| line.strip_prefix(&sum));
            (operation, found.unwrap_or_default().to_owned())
        })
    }

    #[test]
    fn making_a_container_takes_until_its_process_is_let_go_and_starting_it_the_rest() {
        let shared = |create: &str, start: &str| {
            [("create_container", create.to_owned()), ("start_container", start.to_owned())]
        };
        assert_eq!(durations(Ok(Tick::from_secs(13))), shared("3", "1"));
        assert_eq!(durations(Ok(Tick::from_secs(9))), shared("0", "4"), "the clock was set");
        assert_eq!(durations(Ok(Tick::from_secs(99))), shared("4", "0"), "the clock was set");
        let message = "no such file".to_owned();
        let failed = ActionError { kind: ActionErrorKind::ContainerStart, message };
        assert_eq!(durations(Err(failed)), shared("4", "0"));
    }
}
