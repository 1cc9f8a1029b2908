//! A node: the real pod drivers over a fake runtime that takes its time and does what the scenario
//! says.

mod actions;
mod comeback;
mod conduct;
mod ends;
mod forgetful;
mod graces;
mod heard;
mod hooks;
mod paced;
mod pauses;
mod probed;
mod pulls;
mod runtime;
mod shown;
mod tally;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rekindle_controllers::ObjectId;
use rekindle_pod::{
    ActionError, ActionId, ActionOutcome, ContainerStartKey, CoreEvent, Journal, PodConfig,
    RestartReport, SandboxSeenState, Snapshot,
};
use rekindle_pod_driver::{Existence, PodDriver, StatusToWrite};
use rekindle_types::v1alpha1::PodRestartStatus;
use rekindle_types::{Exit, ExitStatus, SandboxAttempt, Tick, TickDuration};

use crate::behaviour::PodOrigin;
use crate::clocks::Skew;
use crate::pace::RuntimeCallName;
use conduct::EndPlan;
use ends::LastEnds;
use graces::GracePeriods;
use hooks::HookRuns;
use pauses::ContainerPauses;
use probed::ProbeAccount;
use pulls::MissingImages;
use shown::LastHealth;
pub use tally::AgentTally;

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

/// What one container does.
#[derive(Clone, Debug, PartialEq)]
enum ContainerLife {
    Created,
    Running { started_at: Tick, behaviour: Option<usize>, end: EndPlan },
    Exited(Exit),
}

/// A sandbox that stands.
#[derive(Clone, Debug)]
struct SimulatedSandbox {
    ip: IpAddr,
    /// The UID of the pod that it was made for.
    of: String,
    state: SandboxSeenState,
}

/// One pod on a node: its driver, what the agent's disk has of it, and what the runtime has of it.
#[derive(Debug)]
pub(crate) struct SimulatedPod {
    pub(crate) driver: PodDriver,
    /// What its agent counts by. Everything in here is in the agent's time, but for the times that
    /// the world hands in.
    clock: Skew,
    pub(crate) pod: Arc<Pod>,
    pub(crate) node: String,
    pub(crate) journal: Option<Arc<Journal>>,
    config: PodConfig,
    sandboxes: BTreeMap<SandboxAttempt, SimulatedSandbox>,
    /// The sandbox that was torn down last; only the bug
    /// [`crate::known_bugs::KnownBug::SandboxOfNamesake`] finds it again.
    torn_down: Option<(SandboxAttempt, SimulatedSandbox)>,
    containers: BTreeMap<ContainerStartKey, ContainerLife>,
    /// Every start that was ever made.
    starts: BTreeSet<ContainerStartKey>,
    /// Starts that failed.
    failed_starts: BTreeSet<ContainerStartKey>,
    /// The first promise that did not hold.
    broken: Option<String>,
    /// Containers that got their stop signal.
    signalled: BTreeSet<ContainerStartKey>,
    graces: GracePeriods,
    hooks: HookRuns,
    pauses: ContainerPauses,
    shown: LastHealth,
    probed: ProbeAccount,
    pulls: MissingImages,
    last_ends: LastEnds,
    /// Hooks of containers that hang, which nobody gives up.
    hung: BTreeMap<ActionId, ContainerStartKey>,
    /// Actions whose answers never come, until the agent starts again.
    unanswered: BTreeSet<ActionId>,
    /// What its agent waits for, while anybody looks at the runtime's pace.
    asked: BTreeMap<ActionId, RuntimeCallName>,
    /// Why there is such a pod.
    pub(crate) origin: PodOrigin,
    /// What was done to it.
    pub(crate) tally: AgentTally,
    /// Behaviours that chose a start since this was asked last.
    pub(crate) behaviours_used: Vec<usize>,
    /// Those of them that chose a container with a readiness probe.
    pub(crate) behaviours_probed: Vec<usize>,
    /// Grace of the deletion that the driver was told last, in seconds.
    deletion_grace: Option<i64>,
    /// Whether the agent was told that the pod is to end, and nothing was left to be done that had
    /// been decided before.
    is_told_to_end: bool,
    pub(crate) address: u32,
    /// Counts the agent's processes: what one of them was promised the next does not hear.
    pub(crate) incarnation: u32,
    /// Restart requests that were given to the driver, by their UIDs.
    pub(crate) requests: BTreeMap<String, RequestObject>,
    /// The sum of `restartCount` in the newest status.
    pub(crate) restarts: u64,
    pub(crate) backlog: WriteBacklog,
    /// The agent died before the core's next action.
    pub(crate) died: bool,
}

/// The object of a request that a pod carries out, as its agent knows it.
#[derive(Debug)]
pub(crate) struct RequestObject {
    pub(crate) id: ObjectId,
    /// As reported last.
    pub(crate) status: PodRestartStatus,
}

/// What could not be written, because the node had no network or the API refused it.
#[derive(Debug, Default)]
pub(crate) struct WriteBacklog {
    /// A status was sent while the node had no network: no answer comes before it is back.
    pub(crate) is_status_sent: bool,
    pub(crate) reports: Vec<RestartReport>,
    /// The pod is over, and its last status or report is not written.
    pub(crate) finished: bool,
    /// It is tried again soon, all of it at once.
    pub(crate) is_retried: bool,
}

/// What follows from an action, and when.
#[derive(Clone, Debug)]
pub(crate) enum TimedEffect {
    /// The runtime answers after this time.
    Answer(TickDuration, ActionId, Result<ActionOutcome, ActionError>),
    /// The container's process ends after this time.
    Ends(TickDuration, ContainerStartKey, ExitStatus),
    /// This status is to be written.
    Status(StatusToWrite),
    /// This event.
    Event(rekindle_pod::PodEvent),
    /// This is to be said of a restart request.
    Report(RestartReport),
    /// The pod is over; its object goes if it is being deleted.
    Finished,
}

impl SimulatedPod {
    pub(crate) fn new(
        (now, clock): (Tick, Skew),
        pod: Arc<Pod>,
        node: &str,
        config: PodConfig,
        address: u32,
    ) -> Self {
        let shown = clock.shows(now);
        let graces = GracePeriods::from_pod(&pod);
        let last_ends = LastEnds::from_pod(&pod);
        let mut made = Self {
            driver: PodDriver::new(shown, pod.clone(), None, config.clone()),
            clock,
            pod,
            node: node.to_owned(),
            journal: None,
            config,
            sandboxes: BTreeMap::new(),
            torn_down: None,
            containers: BTreeMap::new(),
            starts: BTreeSet::new(),
            failed_starts: BTreeSet::new(),
            broken: None,
            signalled: BTreeSet::new(),
            graces,
            hooks: HookRuns::default(),
            pauses: ContainerPauses::default(),
            shown: LastHealth::default(),
            probed: ProbeAccount::default(),
            pulls: MissingImages::default(),
            last_ends,
            hung: BTreeMap::new(),
            unanswered: BTreeSet::new(),
            asked: BTreeMap::new(),
            origin: PodOrigin::default(),
            tally: AgentTally::default(),
            behaviours_used: Vec::new(),
            behaviours_probed: Vec::new(),
            deletion_grace: None,
            is_told_to_end: false,
            address,
            incarnation: 0,
            requests: BTreeMap::new(),
            restarts: 0,
            backlog: WriteBacklog::default(),
            died: false,
        };
        made.driver.handle(shown, CoreEvent::RuntimeSnapshot(Snapshot::default()));
        made.note_deletion();
        made
    }

    /// What runs.
    pub(crate) fn running(&self) -> impl Iterator<Item = &ContainerStartKey> {
        let runs = self
            .containers
            .iter()
            .filter(|(_, life)| matches!(life, ContainerLife::Running { .. }));
        runs.map(|(key, _)| key)
    }

    /// How often each container's process was started, whether or not it is still known.
    pub(crate) fn starts_of(&self, name: &str) -> usize {
        self.starts.iter().filter(|key| key.name.0 == name).count()
    }

    /// How often the runtime could not start it: such an attempt counts as well, unless its agent
    /// died before it heard of that and the next one started it.
    pub(crate) fn failed_starts_of(&self, name: &str) -> usize {
        let of = |keys: &BTreeSet<ContainerStartKey>| {
            let of_it = keys.iter().filter(|key| key.name.0 == name);
            of_it.map(|key| key.attempt).collect::<BTreeSet<_>>()
        };
        of(&self.failed_starts).difference(&of(&self.starts)).count()
    }

    /// How often its containers' processes were started.
    pub(crate) fn starts(&self) -> usize {
        self.starts.len()
    }

    /// Its object went without waiting for it.
    pub(crate) fn has_vanished(&self) -> bool {
        self.driver.existence() == Existence::Vanished
    }

    /// Whether its agent waits for an answer that never comes.
    pub(crate) fn is_stuck(&self) -> bool {
        !self.unanswered.is_empty()
    }

    /// The sandboxes that stand.
    pub(crate) fn sandboxes(&self) -> impl Iterator<Item = SandboxAttempt> {
        self.sandboxes.keys().copied()
    }

    /// What did not hold, beginning with the number of the promise.
    fn breaks(&mut self, what: impl FnOnce() -> String) {
        if self.broken.is_none() {
            self.broken = Some(self.told(&what()));
        }
    }

    /// The same with the names of pod and node.
    fn told(&self, what: &str) -> String {
        let (promise, what) = what.split_once(": ").unwrap_or_default();
        let meta = &self.pod.metadata;
        let namespace = meta.namespace.as_deref().unwrap_or("default");
        let name = meta.name.as_deref().unwrap_or_default();
        format!("{promise}: Pod {namespace}/{name} on {}: {what}", self.node)
    }

    /// When the next one comes.
    pub(crate) fn next_due(&self) -> Option<Tick> {
        self.driver.poll_timeout().map(|due| self.clock.when(due))
    }

    /// What must never be: what was noted, or two starts of a container that run at the same time
    /// (P1).
    pub(crate) fn broken_promise(&self) -> Option<String> {
        if let Some(broken) = &self.broken {
            return Some(broken.clone());
        }
        let mut running = BTreeSet::new();
        let double = self.running().find(|key| !running.insert(&key.name));
        double.map(|key| self.told(&format!("P1: container {} runs twice", key.name)))
    }
}

/// A start of a container, for people.
fn named(key: &ContainerStartKey) -> String {
    format!("container {} (start {})", key.name, u64::from(key.attempt.0) + 1)
}
