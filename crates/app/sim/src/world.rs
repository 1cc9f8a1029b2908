//! The world: one thread, one virtual clock. API, controllers, ladder and pod cores are the real
//! ones; what stands between them in production (watches, tasks, timers) is this loop.
//!
//! ```text
//!   queue of what will happen ─► time goes on ─► API ─► watch ─► planner (controllers, ladder) ─► writes ─► API …
//!                                                        └─► pod cores on their nodes ─► effects ─► queue
//! ```

mod account;
mod budgets;
mod by_hand;
mod evictions;
mod faults;
mod invalid;
mod job_counts;
mod keepers;
mod nodes;
mod replaced;
mod rest;
mod restarts;
mod shown;
mod stranded;
mod tasks;
mod usage;
mod verdict;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use rekindle_controllers::events::EventCorrelator;
use rekindle_controllers::{NamespacedName, ObjectId, ResourceKind};
use rekindle_ladder::RestartLimits;
use rekindle_pod::{ActionError, ActionId, ActionOutcome, ContainerStartKey, PodConfig};
use rekindle_pod_driver::{KnownGroups, RestartOwners};
use rekindle_reconcile::{NodeLifecycleSettings, Planner, WatchUpdate, kinds};
use rekindle_store::StoreWatch;
use rekindle_types::pods::AnyPod;
use rekindle_types::v1alpha1::{PodRestartPhase, Rung};
use rekindle_types::{ExitStatus, Tick, TickDuration};
use serde::Serialize;
use serde_json::Value;

use crate::agent::{AgentTally, SimulatedPod};
use crate::availability::AvailabilityAccount;
use crate::behaviour::{Behaviour, Behaviours, DefaultBehaviour};
use crate::clocks::Clocks;
use crate::error::SimError;
use crate::faults::{Faults, WatchRecovery, WorldEvent};
use crate::load::PodLoad;
use crate::script::WorldChange;
use crate::selected::SelectedLadders;
use crate::server::{MachinePower, SimServer};
use crate::timeline::{RunCounts, Timeline};
use crate::trace::Trace;
use budgets::{Budgets, CheckCoverage};
pub use by_hand::UnknownFieldHandling;
use evictions::EvictionTaintHistory;
use faults::WatchDelivery;
use job_counts::JobCounts;
use keepers::{KeeperErrand, NodeKeepers};
use replaced::ReplacementAccount;
use volumes::VolumeJob;

/// When every run begins: 2026-01-01 00:00 UTC.
pub const BEGIN: Tick = Tick::from_secs(1_767_225_600);
/// More rounds than anything needs at one moment.
const ROUNDS_MAX: usize = 20_000;
/// So far the controllers and nodes may be behind the API in one moment. More than any seed's world
/// writes at once, and far less than the API remembers for those who are behind.
const BEHIND_MAX: u64 = 1_024;
/// A timeline is divided for this length unless told.
const MEASURED: TickDuration = TickDuration::from_secs(3_600);
const MERGE_PATCH: &str = "application/merge-patch+json";

/// What becomes of Events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventRecording {
    /// They are written to the API.
    Written,
    /// They are counted as if they were written: nothing in a world reads them.
    Counted,
}

/// Something that will happen.
#[derive(Clone, Debug)]
enum ScheduledEvent {
    Answer {
        uid: String,
        incarnation: u32,
        id: ActionId,
        result: Result<ActionOutcome, ActionError>,
    },
    Ends {
        uid: String,
        key: ContainerStartKey,
        status: ExitStatus,
    },
    /// A pod's deadline, unless it has another one by then.
    Timer {
        uid: String,
        due: Tick,
    },
    Changed {
        who: String,
        change: WorldChange,
    },
    Deed(WorldEvent),
    /// The controllers hear again.
    Hear(WatchRecovery),
    NodeHears(String),
    /// A node that could not say so says again that it is ready.
    NodeSpeaks(String),
    /// The disk is not full any more.
    DiskHasRoom,
    /// Images can be had again.
    RegistryAnswers,
    /// What a pod's node could not write is tried again.
    CatchUp {
        uid: String,
    },
    /// What a node could not do for a volume is tried again.
    Volume(VolumeJob),
    /// The time of a behaviour begins or is over.
    BehavioursTurn,
    /// A user comes back to a node, or its agent registers it.
    Errand(KeeperErrand),
}

/// A cluster in virtual time.
pub struct World {
    now: Tick,
    number: u64,
    /// How many of those that were to come have come.
    happened: u64,
    coming: BTreeMap<(Tick, u64), ScheduledEvent>,
    timers: BTreeMap<String, Tick>,
    server: SimServer,
    watch: StoreWatch,
    planner: Planner,
    behaviours: Behaviours,
    /// What pods use.
    load: Vec<PodLoad>,
    /// How the controllers are set.
    patience: NodeLifecycleSettings,
    /// Those that chose a start of a container.
    behaviours_used: BTreeSet<usize>,
    /// Those of them of which a readiness probe took notice.
    behaviours_probed: BTreeSet<usize>,
    config: PodConfig,
    nodes: BTreeSet<String>,
    /// Those without a network, and how often they lost it: it is back when it was mended as often.
    cut_off: BTreeMap<String, u32>,
    /// Which pod of a node has taken up which request, as its agent knows it.
    restart_owners: BTreeMap<String, RestartOwners>,
    /// Restarts of groups, as the nodes that hear the API know them.
    groups: KnownGroups,
    keepers: NodeKeepers,
    sentences: EvictionTaintHistory,
    job_counts: JobCounts,
    /// Those that do not hear what happens in the API until then, though they can write.
    deaf: BTreeMap<String, Tick>,
    /// Until when the API's disk is full.
    full_until: Tick,
    /// Until when no registry answers.
    no_registry_until: Tick,
    hearing: WatchDelivery,
    clocks: Clocks,
    budgets: Budgets,
    watched: CheckCoverage,
    faults: Faults,
    last_revision: u64,
    /// By their UIDs; each by itself, as the map would keep room for others beside it.
    pods: BTreeMap<String, Box<SimulatedPod>>,
    /// What was done to pods that are gone.
    tally_gone: AgentTally,
    /// The UIDs of the newest of each name.
    pods_by_name: BTreeMap<NamespacedName, String>,
    /// Of pods that are gone; only the bugs `SandboxOfNamesake` and `BackoffOfNamesake` keep any.
    leftovers: BTreeMap<NamespacedName, Box<SimulatedPod>>,
    /// What each node's agent has said. Each counts by itself, as long as its process lives.
    recorders: BTreeMap<String, EventCorrelator>,
    /// What nodes will try again.
    volumes_due: BTreeSet<VolumeJob>,
    records: EventRecording,
    validation: UnknownFieldHandling,
    /// What the API warned of when something was asked by hand.
    warnings: Vec<String>,
    selected: SelectedLadders,
    replaced: ReplacementAccount,
    addresses: u32,
    restarts: BTreeMap<(NamespacedName, String), u64>,
    restarts_total: u64,
    /// What became of each PodRestart, by its UID.
    rungs: BTreeMap<String, (Rung, Option<PodRestartPhase>)>,
    availability: AvailabilityAccount,
    timeline: Timeline,
    trace: Trace,
    broken: Option<String>,
    after_breach: BreachPolicy,
}

/// What a run does when a promise did not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BreachPolicy {
    GoOn,
    Stop,
}

/// No group is there, and the nodes know it.
fn empty_list() -> KnownGroups {
    let mut groups = KnownGroups::default();
    groups.list_ends();
    groups
}

impl World {
    /// A new cluster of so many nodes.
    ///
    /// # Errors
    /// When the API core refuses what every cluster has.
    pub fn new(
        seed: u64,
        nodes: usize,
        behaviours: Vec<Behaviour>,
        config: PodConfig,
    ) -> Result<Self, SimError> {
        let (server, watch) = SimServer::new(seed, BEGIN)?;
        let mut planner = Planner::new(RestartLimits::default());
        for kind in kinds() {
            planner.see(BEGIN, WatchUpdate::List(kind, Vec::new()));
        }
        let mut world = Self {
            now: BEGIN,
            number: 0,
            happened: 0,
            coming: BTreeMap::new(),
            timers: BTreeMap::new(),
            server,
            watch,
            planner,
            behaviours: Behaviours { all: behaviours, unchosen: DefaultBehaviour::default() },
            load: Vec::new(),
            patience: NodeLifecycleSettings::default(),
            behaviours_used: BTreeSet::new(),
            behaviours_probed: BTreeSet::new(),
            config,
            nodes: BTreeSet::new(),
            cut_off: BTreeMap::new(),
            restart_owners: BTreeMap::new(),
            groups: empty_list(),
            keepers: NodeKeepers::default(),
            sentences: EvictionTaintHistory::default(),
            job_counts: JobCounts::default(),
            deaf: BTreeMap::new(),
            full_until: BEGIN,
            no_registry_until: BEGIN,
            hearing: WatchDelivery::Well,
            clocks: Clocks::default(),
            budgets: Budgets::default(),
            watched: CheckCoverage::Nothing,
            faults: Faults::none(),
            last_revision: 0,
            pods: BTreeMap::new(),
            tally_gone: AgentTally::default(),
            pods_by_name: BTreeMap::new(),
            leftovers: BTreeMap::new(),
            recorders: BTreeMap::new(),
            volumes_due: BTreeSet::new(),
            records: EventRecording::Written,
            validation: UnknownFieldHandling::default(),
            warnings: Vec::new(),
            selected: SelectedLadders::default(),
            replaced: ReplacementAccount::default(),
            addresses: u32::from_be_bytes([10, 0, 0, 1]),
            restarts: BTreeMap::new(),
            restarts_total: 0,
            rungs: BTreeMap::new(),
            availability: AvailabilityAccount::default(),
            timeline: Timeline::new(MEASURED),
            trace: Trace::default(),
            broken: None,
            after_breach: BreachPolicy::GoOn,
        };
        for index in 0..nodes {
            world.add_node(&format!("node-{index}"))?;
        }
        world.rest()?;
        Ok(world)
    }

    /// The run begins, and is so long; the timeline is divided for an hour unless told. What was
    /// asked of the API before does not count.
    pub fn measure(&mut self, length: TickDuration) {
        self.server.forget_figures();
        self.timeline = Timeline::new(length);
    }

    /// What becomes of Events from now on; they are written unless told.
    pub const fn set_records(&mut self, records: EventRecording) {
        self.records = records;
    }

    /// What containers do that no behaviour chooses; they run unless told.
    pub const fn set_unchosen(&mut self, unchosen: DefaultBehaviour) {
        self.behaviours.unchosen = unchosen;
    }

    /// Behaviours concern what runs already, too, when their time begins and when it is over, in a
    /// run of this length; only starts unless told.
    pub fn turn_what_runs(&mut self, length: TickDuration) {
        for at in self.behaviours.turns().into_iter().filter(|at| *at < length) {
            self.number += 1;
            self.coming.insert((BEGIN + at, self.number), ScheduledEvent::BehavioursTurn);
        }
    }

    /// Does this so long after the beginning; `who` says so.
    pub fn change_at(&mut self, at: TickDuration, who: &str, change: WorldChange) {
        self.number += 1;
        let changed = ScheduledEvent::Changed { who: who.to_owned(), change };
        self.coming.insert((BEGIN + at, self.number), changed);
    }

    /// A run ends with the moment in which a promise did not hold; it goes on unless told.
    pub(crate) const fn stop_at_breach(&mut self) {
        self.after_breach = BreachPolicy::Stop;
    }

    /// Whether nothing more is to happen.
    fn is_over(&self) -> bool {
        self.broken.is_some() && self.after_breach == BreachPolicy::Stop
    }

    /// The run is over.
    pub fn end(&mut self) {
        self.hold(self.now);
        self.timeline.end();
    }

    /// Lets time go on until so long after the beginning.
    ///
    /// # Errors
    /// When something moves in a circle, or the store fails.
    pub fn run_until(&mut self, end: TickDuration) -> Result<(), SimError> {
        let end = BEGIN + end;
        self.rest()?;
        while let Some(next) = self.next_moment().filter(|next| *next <= end) {
            if self.is_over() {
                return Ok(());
            }
            self.hold(next);
            self.now = self.now.max(next);
            self.server.set_time(self.api_now())?;
            while let Some(entry) = self.coming.first_entry()
                && entry.key().0 <= self.now
            {
                let happening = entry.remove();
                self.happen(happening)?;
                self.keep_up()?;
            }
            self.rest()?;
        }
        self.hold(end);
        // the clock may have stepped over it
        self.now = self.now.max(end);
        self.server.set_time(self.api_now())
    }

    /// As it is now it stays until then.
    fn hold(&mut self, until: Tick) {
        let counts = RunCounts { restarts: self.restarts_total, figures: self.server.figures() };
        self.timeline.hold(until.since(BEGIN), self.availability.total(), counts);
    }

    fn next_moment(&self) -> Option<Tick> {
        let coming = self.coming.keys().next().map(|(at, _)| *at);
        let due = self.planner.next_due().map(|due| self.clocks.controllers.when(due));
        let expiry = self.server.next_expiry().map(|due| self.clocks.api.when(due));
        [coming, due, expiry].into_iter().flatten().min()
    }

    /// The time as the API has it.
    fn api_now(&self) -> Tick {
        self.clocks.api.shows(self.now)
    }

    /// The time as the controllers have it.
    fn desk_now(&self) -> Tick {
        self.clocks.controllers.shows(self.now)
    }

    fn happen(&mut self, happening: ScheduledEvent) -> Result<(), SimError> {
        self.happened += 1;
        let uid = match happening {
            ScheduledEvent::Answer { uid, incarnation, id, result } => {
                let pod = self.pods.get_mut(&uid);
                let Some(pod) = pod.filter(|pod| pod.incarnation == incarnation) else {
                    return Ok(());
                };
                pod.answered(self.now, id, result, &mut self.faults.pace);
                uid
            }
            ScheduledEvent::Ends { uid, key, status } => {
                let Some(pod) = self.pods.get_mut(&uid) else { return Ok(()) };
                self.trace
                    .add(self.now, &format!("{}: {key:?} ends {status:?}", name_of(&pod.pod)));
                pod.process_ends(self.now, key, status, self.faults.bug);
                uid
            }
            ScheduledEvent::Timer { uid, due } => {
                if self.timers.get(&uid) != Some(&due) {
                    return Ok(()); // an earlier deadline took its place
                }
                self.timers.remove(&uid);
                let Some(pod) = self.pods.get_mut(&uid) else { return Ok(()) };
                pod.timeout(self.now);
                uid
            }
            ScheduledEvent::Changed { who, change } => {
                let at = self.now.since(BEGIN);
                return self.change(change).map_err(|refused| refused.of_change(&who, at));
            }
            ScheduledEvent::Deed(deed) => return self.do_deed(deed),
            ScheduledEvent::Hear(relief) => {
                self.hear(relief);
                return Ok(());
            }
            ScheduledEvent::DiskHasRoom => {
                self.disk_has_room();
                return Ok(());
            }
            ScheduledEvent::RegistryAnswers => {
                self.registry_answers();
                return Ok(());
            }
            ScheduledEvent::NodeHears(node) => {
                self.node_hears(&node);
                return Ok(());
            }
            ScheduledEvent::NodeSpeaks(node) => {
                self.say_ready(&node);
                return Ok(());
            }
            ScheduledEvent::CatchUp { uid } => {
                self.catch_up(&uid);
                return Ok(());
            }
            ScheduledEvent::BehavioursTurn => {
                self.behaviours_turn();
                return Ok(());
            }
            ScheduledEvent::Volume(job) => {
                self.volumes_due.remove(&job);
                self.work_on_volume(job);
                return Ok(());
            }
            ScheduledEvent::Errand(errand) => {
                self.run_errand(errand);
                return Ok(());
            }
        };
        self.act(&uid);
        Ok(())
    }

    /// Until nothing more happens at this moment.
    fn rest(&mut self) -> Result<(), SimError> {
        for _ in 0..ROUNDS_MAX {
            let mut moved = false;
            if self.server.power() == MachinePower::Lost {
                self.restart_engine()?;
            }
            while let Some(event) = self.watch.try_next() {
                moved = true;
                self.see(&event?);
            }
            self.budgets.begin(self.heard());
            self.planner.begin_due(self.desk_now());
            while let Some(task) = self.planner.poll_task() {
                moved = true;
                self.carry_out(task);
                self.keep_up()?;
            }
            if !moved {
                if let Some(wrong) = self.server.take_broken() {
                    self.breaks(&wrong);
                }
                return Ok(());
            }
        }
        let last = self.trace.last_lines().last().unwrap_or_default().to_owned();
        Err(SimError::Circle { steps: ROUNDS_MAX, last })
    }

    /// Looks at what was written when that is much: what thousands of pods do in one moment must
    /// not outrun the API's memory of it.
    fn keep_up(&mut self) -> Result<(), SimError> {
        if self.server.revision().saturating_sub(self.last_revision) <= BEHIND_MAX {
            return Ok(());
        }
        while let Some(event) = self.watch.try_next() {
            self.see(&event?);
        }
        Ok(())
    }

    fn later(&mut self, after: TickDuration, happening: ScheduledEvent) {
        self.number += 1;
        self.coming.insert((self.now + after, self.number), happening);
    }

    /// The code, and what the API says when it refuses.
    fn call(&self, method: Method, path: &str, kind: &str, body: &impl Serialize) -> (u16, Value) {
        let body = serde_json::to_vec(body).expect("what is asked for has text keys only");
        self.server.ask(method, path, kind, body).refusal()
    }
}

/// The path of an object that the API holds.
pub(crate) fn path(id: &ObjectId, subresource: &str) -> String {
    rekindle_reconcile::wire::path(id, subresource).expect("the API takes nothing without a name")
}

/// Where objects of the kind of one that the API holds, or may hold, are created.
pub(crate) fn collection(id: &ObjectId) -> String {
    rekindle_reconcile::wire::collection(id)
        .expect("what has a namespace is of a kind that has one")
}

fn id_of_pod(pod: &impl AnyPod) -> ObjectId {
    ObjectId::new(ResourceKind::Pod, name_of(pod))
}

fn name_of(pod: &impl AnyPod) -> NamespacedName {
    NamespacedName::from_meta(pod.metadata())
}
