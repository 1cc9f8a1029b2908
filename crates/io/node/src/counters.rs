//! What the agent counts while it works, under the kubelet's names. Handed to whatever counts;
//! cheap to raise.

use k8s_openapi::api::core::v1::Pod;
use rekindle_metrics::{Counter, Family, Histogram, Text};
use rekindle_pod::{Action, ActionError, Outcome, ProbeKind, Verdict};
use rekindle_types::{PodRef, Tick, TickDuration};

/// Upper bounds of a pod's start in seconds, as the kubelet's.
const POD_START_SECONDS: &[f64] = &[
    0.1, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0,
    300.0, 360.0, 480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
];

/// The counters of one node agent.
#[derive(Debug)]
pub(crate) struct Counters {
    /// From the agent's first sight of a pod until it runs.
    pub(crate) pod_start: Histogram,
    pub(crate) started_pods: Counter,
    started_containers: Family<Counter>,
    started_containers_errors: Family<Counter>,
    runtime_operations: Family<Counter>,
    runtime_operations_errors: Family<Counter>,
    runtime_operations_duration: Family<Histogram>,
    probes: Family<Counter>,
    probe_duration: Family<Histogram>,
    /// Pods evicted, by the signal that was low.
    pub(crate) evictions: Family<Counter>,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            pod_start: Histogram::new(POD_START_SECONDS),
            started_pods: Counter::default(),
            started_containers: Family::new(&["container_type"]),
            started_containers_errors: Family::new(&["container_type", "code"]),
            runtime_operations: Family::new(&["operation_type"]),
            runtime_operations_errors: Family::new(&["operation_type"]),
            runtime_operations_duration: Family::new(&["operation_type"]),
            probes: Family::new(&[
                "probe_type",
                "result",
                "container",
                "pod",
                "namespace",
                "pod_uid",
            ]),
            probe_duration: Family::new(&["probe_type", "container", "pod", "namespace"]),
            evictions: Family::new(&["eviction_signal"]),
        }
    }
}

/// What of an action is counted, taken before it is carried out.
pub(crate) enum Counted {
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

impl Counted {
    /// What of this action.
    pub(crate) fn of(action: &Action, pod: &Pod) -> Self {
        match action {
            Action::SetUpSandbox { .. } => Self::Operation("run_podsandbox"),
            Action::TearDownSandbox { .. } => Self::Operation("remove_podsandbox"),
            Action::FindImage { .. } => Self::Operation("image_status"),
            Action::PullImage { .. } => Self::Operation("pull_image"),
            Action::SignalContainer { .. } | Action::KillContainer { .. } => {
                Self::Operation("stop_container")
            }
            Action::RemoveContainer { .. } => Self::Operation("remove_container"),
            Action::UpdateContainer { .. } => Self::Operation("update_container"),
            Action::UpdateSandbox { .. } => Self::Operation("update_podsandbox_resources"),
            Action::StartContainer { key, .. } => {
                Self::Start { container_type: container_type(pod, &key.name.0) }
            }
            Action::RunProbe { key, probe, timeout: _ } => {
                Self::Probe { kind: *probe, container: key.name.0.clone() }
            }
            Action::MountVolumes | Action::RefreshVolumes | Action::RunHook { .. } => Self::Nothing,
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
enum Went {
    Well,
    Wrong,
}

impl Went {
    fn of(is_well: bool) -> Self {
        if is_well { Self::Well } else { Self::Wrong }
    }
}

impl Counters {
    /// Counts an action that was carried out, between these two moments.
    pub(crate) fn count(
        &self,
        counted: &Counted,
        pod: &PodRef,
        (begun_at, done_at): (Tick, Tick),
        result: &Result<Outcome, ActionError>,
    ) {
        let took = done_at.since(begun_at);
        match counted {
            Counted::Nothing => {}
            Counted::Operation(operation) => {
                self.operation(operation, took, Went::of(result.is_ok()));
                if *operation == "run_podsandbox" && result.is_ok() {
                    self.started_pods.raise();
                }
            }
            Counted::Start { container_type } => {
                self.start(container_type, (begun_at, done_at), result);
            }
            Counted::Probe { kind, container } => self.probe(*kind, container, pod, took, result),
        }
    }

    /// One call of the runtime makes a container and starts it: the first is over when its process
    /// is let go.
    fn start(
        &self,
        container_type: &str,
        (begun_at, done_at): (Tick, Tick),
        result: &Result<Outcome, ActionError>,
    ) {
        let start = match result {
            Ok(Outcome::ContainerMade { start, .. }) => Some(start),
            Ok(_) | Err(_) => None,
        };
        let made_at = match start {
            Some(Ok(started_at)) => begun_at.max(*started_at).min(done_at),
            Some(Err(_)) | None => done_at,
        };
        let went = Went::of(result.is_ok());
        self.operation("create_container", made_at.since(begun_at), went);
        if let Some(start) = start {
            let went = Went::of(start.is_ok());
            self.operation("start_container", done_at.since(made_at), went);
        }
        self.started_containers.of(&[container_type]).raise();
        if !start.is_some_and(Result::is_ok) {
            let errors = self.started_containers_errors.of(&[container_type, "RunContainerError"]);
            errors.raise();
        }
    }

    fn operation(&self, operation: &str, took: TickDuration, went: Went) {
        self.runtime_operations.of(&[operation]).raise();
        self.runtime_operations_duration.of(&[operation]).observe(took);
        if went == Went::Wrong {
            self.runtime_operations_errors.of(&[operation]).raise();
        }
    }

    fn probe(
        &self,
        kind: ProbeKind,
        container: &str,
        pod: &PodRef,
        took: TickDuration,
        result: &Result<Outcome, ActionError>,
    ) {
        let kind = match kind {
            ProbeKind::Startup => "Startup",
            ProbeKind::Readiness => "Readiness",
            ProbeKind::Liveness => "Liveness",
        };
        let verdict = match result {
            Ok(Outcome::Probed { verdict: Verdict::Success | Verdict::Warning, .. }) => {
                "successful"
            }
            Ok(Outcome::Probed { verdict: Verdict::Failure, .. }) => "failed",
            Ok(_) | Err(_) => "unknown",
        };
        let uid = pod.uid.0.as_str();
        self.probes.of(&[kind, verdict, container, &pod.name, &pod.namespace, uid]).raise();
        let duration = self.probe_duration.of(&[kind, container, &pod.name, &pod.namespace]);
        duration.observe(took);
    }

    /// All but the probes, as families of the kubelet.
    pub(crate) fn write(&self, text: &mut Text) {
        use rekindle_metrics::Kind;
        text.family(
            "kubelet_pod_start_duration_seconds",
            Kind::Histogram,
            "Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run",
        );
        self.pod_start.write(text, &[]);
        text.single(
            "kubelet_started_pods_total",
            Kind::Counter,
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
        let (counters, mut text) = (Counters::default(), Text::default());
        let between = (Tick::from_secs(10), Tick::from_secs(14));
        counters.start("container", between, &Ok(Outcome::ContainerMade { made, start }));
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
