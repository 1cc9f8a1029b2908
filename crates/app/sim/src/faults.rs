//! What goes wrong beside what containers do by themselves: how often calls fail, and where an
//! agent dies. All of it follows from one seed.

use std::collections::{BTreeMap, BTreeSet};

use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{ObjectId, ResourceKind};
use rekindle_pod::{ActionError, ActionErrorKind, CoreAction};
use rekindle_types::v1alpha1::Rung;
use rekindle_types::{ExitStatus, TickDuration};
use serde_json::Value;

use crate::entropy::Seeded;
use crate::known_bugs::KnownBug;
use crate::pace::RuntimePace;
use crate::script::WorldChange;

/// The latest a late answer is.
const LATE_MAX_MILLIS: u64 = 20_000;

/// Of a thousand calls, how many go wrong, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultRates {
    /// The runtime does not do it and says so.
    pub runtime_fails: u64,
    /// The runtime does it and says that it failed.
    pub runtime_unsaid: u64,
    /// The runtime does it and answers late.
    pub runtime_late: u64,
    /// The runtime does it and never answers: the agent that waits hears of it when it has started
    /// again.
    pub runtime_silent: u64,
    /// A write does not reach the API.
    pub write_lost: u64,
    /// A write reaches the API; its answer does not come back.
    pub write_unsaid: u64,
    /// The API refuses a write of a controller: somebody else was faster.
    pub write_conflict: u64,
}

/// How a call to the runtime goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallFate {
    Well,
    Fails,
    DoneButFails,
    NeverAnswered,
    Late(TickDuration),
}

/// How a write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteFate {
    Well,
    Lost,
    DoneUnsaid,
    Conflict,
}

/// Something that is done to a world at a time.
#[derive(Clone, Debug, PartialEq)]
pub enum WorldEvent {
    /// A user's change. It may be refused.
    User(WorldChange),
    /// A user asks for what is invalid. It must be refused, and nothing may change for it.
    Invalid(Box<InvalidPatch>),
    /// The agent of the node dies and starts again; the number is taken modulo the nodes.
    CrashAgent(u64),
    /// The agent of the node dies before its action of this number from now, counted from 0.
    CrashAgentBefore(u64, u64),
    /// The machine of the node starts again: its containers and sandboxes are gone, and nobody saw
    /// them end.
    Reboot(u64),
    /// The process of the controllers dies and starts again.
    CrashControllers,
    /// The engine's machine loses power in its next write: API, controllers and agents start again.
    PowerLoss(PowerLossSync),
    /// The controllers hear nothing of the API for so long, and then this.
    DeafControllers(TickDuration, WatchRecovery),
    /// A node hears nothing of the API for so long, and then lists anew.
    DeafNode(u64, TickDuration),
    /// A node loses its network for so long.
    LoseNode(u64, TickDuration),
    /// A running container ends so; the number is taken modulo the containers that run.
    EndContainer(u64, ExitStatus),
    /// A sandbox dies with all in it.
    EndSandbox(u64),
    /// A node lacks memory and ends a pod for that; the number is taken modulo the pods.
    Pressure(u64),
    /// Everything stands still for a while, and the clocks go on: all that was to happen meanwhile
    /// happens at once then.
    ClockStep(TickDuration),
    /// Somebody sets the wall clock, by so many seconds to and fro. A process reads it when it
    /// starts, and counts by itself then.
    WallClock(i64),
    /// The disk is full for so long: neither the API nor agents write anything, and reads go on.
    FullDisk(TickDuration),
    /// Images that nothing uses are thrown away on all nodes, and for so long no registry answers.
    LoseRegistry(TickDuration),
    /// A user deletes an object, and says what becomes of what belongs to it. It may be refused.
    Delete(ObjectId, DependentPolicy),
    /// A user deletes all objects of a kind that have this label `app`, or all of them, and says
    /// what becomes of what belongs to them.
    DeleteMany(ResourceKind, Option<String>, DependentPolicy),
    /// A user deletes a pod; the number is taken modulo the pods.
    DeletePod(u64),
    /// A user forces a pod out of the API, and does not wait for its node: a grace period of 0.
    ForcePod(u64),
    /// A user evicts a pod.
    EvictPod(u64),
    /// A user asks for a restart of a pod.
    RestartPod(u64, Rung),
    /// Of one container of a pod; init containers, of which that is refused, are among them.
    RestartContainer(u64),
    /// Somebody writes this over the status of a ledger, which is null for all of it; the number is
    /// taken modulo the ledgers.
    EditLedger(u64, Value),
    /// A user does something to a node; the number is taken modulo the nodes.
    ToNode(u64, NodeOperation),
}

/// What no API may grant.
#[derive(Clone, Debug, PartialEq)]
pub struct InvalidPatch {
    /// Of which object.
    pub id: ObjectId,
    /// A merge patch that no version of it admits.
    pub patch: Value,
    /// The field that the refusal of this has to name.
    pub field: String,
    /// What is asked for when there is no such object: one that is invalid in its spec.
    pub whole: Value,
}

/// What a user does to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeOperation {
    /// It is cordoned, and uncordoned after so long.
    Cordon(TickDuration),
    /// It is cordoned and its pods are evicted, those of DaemonSets aside, again and again where a
    /// budget forbids it. After so long it is uncordoned, whatever is left on it.
    Drain(TickDuration),
    /// Somebody vouches for so long that nothing runs on it any more, which may be wrong: the taint
    /// `out-of-service`. It is one of the nodes without a network, if there are any.
    OutOfService(TickDuration),
    /// Its Node is deleted.
    Delete(NodeReturn),
}

/// What comes after the deletion of a Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeReturn {
    /// Its agent goes on, and registers it again after so long, or when it has its network again.
    After(TickDuration),
    /// None: the machine is gone with all that ran on it, unless it is the last one.
    Never,
}

impl WorldEvent {
    /// Whether it is a user's, and no fault.
    pub(crate) const fn is_of_a_user(&self) -> bool {
        match self {
            Self::User(_)
            | Self::Invalid(_)
            | Self::Delete(..)
            | Self::DeleteMany(..)
            | Self::DeletePod(_)
            | Self::ForcePod(_)
            | Self::EvictPod(_)
            | Self::RestartPod(..)
            | Self::RestartContainer(_)
            | Self::EditLedger(..)
            | Self::ToNode(..) => true,
            Self::CrashAgent(_)
            | Self::CrashAgentBefore(..)
            | Self::Reboot(_)
            | Self::CrashControllers
            | Self::PowerLoss(_)
            | Self::DeafControllers(..)
            | Self::DeafNode(..)
            | Self::LoseNode(..)
            | Self::EndContainer(..)
            | Self::EndSandbox(_)
            | Self::Pressure(_)
            | Self::ClockStep(_)
            | Self::WallClock(_)
            | Self::FullDisk(_)
            | Self::LoseRegistry(_) => false,
        }
    }
}

/// Whether a write was synced when power was lost. Nobody was told that it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerLossSync {
    /// It is lost.
    Before,
    /// It is there.
    After,
}

/// What is left on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskSpace {
    None,
    Enough,
}

/// Whether images can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegistryState {
    Answers,
    /// Those that nothing uses are on no node, and no registry answers.
    Gone,
}

/// What comes after a time without news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchRecovery {
    /// All that was missed, at once.
    Batch,
    /// Nothing of it: everything is listed anew.
    Relist,
}

/// The faults of a world.
#[derive(Clone, Debug)]
pub struct Faults {
    entropy: Seeded,
    rates: FaultRates,
    /// Before these actions the agent that is to carry them out dies, counted from 0 over all
    /// agents.
    crashes: BTreeSet<u64>,
    /// The agents of these nodes die after so many more actions.
    dying: BTreeMap<String, u64>,
    /// Nodes whose agents do not die: they could not start again, for want of a network.
    spared: BTreeSet<String>,
    /// On the disk that journals are written to.
    room: DiskSpace,
    /// Of all images.
    registry: RegistryState,
    /// Something was held up that nobody asked for.
    was_held_up: bool,
    actions: u64,
    pub(crate) bug: Option<KnownBug>,
    /// How long calls take that go well.
    pub(crate) pace: RuntimePace,
}

impl Faults {
    /// None at all.
    pub const fn none() -> Self {
        Self {
            entropy: Seeded::new(0),
            rates: FaultRates {
                runtime_fails: 0,
                runtime_unsaid: 0,
                runtime_late: 0,
                runtime_silent: 0,
                write_lost: 0,
                write_unsaid: 0,
                write_conflict: 0,
            },
            crashes: BTreeSet::new(),
            dying: BTreeMap::new(),
            spared: BTreeSet::new(),
            room: DiskSpace::Enough,
            registry: RegistryState::Answers,
            was_held_up: false,
            actions: 0,
            bug: None,
            pace: RuntimePace::Own,
        }
    }

    /// Faults at these rates; agents die before the actions of these numbers.
    pub fn new(seed: u64, rates: FaultRates, crashes: BTreeSet<u64>) -> Self {
        Self { entropy: Seeded::new(seed), rates, crashes, ..Self::none() }
    }

    /// The same with a known bug switched on.
    #[must_use]
    pub fn with_bug(mut self, bug: Option<KnownBug>) -> Self {
        self.bug = bug;
        self
    }

    /// The same with a runtime that is noted, or that takes as long as it took.
    #[must_use]
    pub(crate) fn at_pace(mut self, pace: RuntimePace) -> Self {
        self.pace = pace;
        self
    }

    /// From now on nothing goes wrong any more.
    pub(crate) fn stop(&mut self) {
        self.was_held_up |= self.rates != FaultRates::default();
        self.rates = FaultRates::default();
        self.crashes.clear();
        self.dying.clear();
    }

    /// Everything stood still for a while.
    pub(crate) fn hold_up(&mut self) {
        self.was_held_up = true;
    }

    /// Whether nothing but its backoff may hold a container up: calls succeed at once, and the
    /// clocks go evenly.
    pub(crate) fn is_fault_free(&self) -> bool {
        !self.was_held_up && self.rates == FaultRates::default()
    }

    /// The agent of this node dies before its action of this number from now.
    pub(crate) fn crash_before(&mut self, node: &str, number: u64) {
        self.dying.insert(node.to_owned(), number);
    }

    /// The agents of these nodes do not die, all others may.
    pub(crate) fn spare(&mut self, nodes: BTreeSet<String>) {
        self.spared = nodes;
    }

    /// How many actions agents have begun.
    pub const fn actions(&self) -> u64 {
        self.actions
    }

    /// The disk of the agents is full, or has room.
    pub(crate) fn set_room(&mut self, room: DiskSpace) {
        self.was_held_up |= room == DiskSpace::None;
        self.room = room;
    }

    /// What is left of it.
    pub(crate) const fn room(&self) -> DiskSpace {
        self.room
    }

    /// Images can be had from now on, or no more.
    pub(crate) fn set_registry(&mut self, registry: RegistryState) {
        self.was_held_up |= registry == RegistryState::Gone;
        self.registry = registry;
    }

    /// Whether they can.
    pub(crate) const fn registry(&self) -> RegistryState {
        self.registry
    }

    /// Whether the agent of a node dies before it carries its next action out. One that is spared
    /// dies at the next action of another, or later.
    pub(crate) fn dies_here(&mut self, node: &str) -> bool {
        let number = self.actions;
        self.actions += 1;
        if self.spared.contains(node) {
            if self.crashes.remove(&number) {
                self.crashes.insert(number + 1);
            }
            return false;
        }
        let is_its_time = match self.dying.get_mut(node) {
            Some(0) => self.dying.remove(node).is_some(),
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        };
        self.crashes.remove(&number) || is_its_time
    }

    pub(crate) fn fate(&mut self, action: &CoreAction) -> CallFate {
        let FaultRates { runtime_fails, runtime_unsaid, runtime_late, runtime_silent, .. } =
            self.rates;
        let answered = runtime_fails + runtime_unsaid + runtime_late;
        let of_all = answered + runtime_silent;
        if of_all == 0 {
            return CallFate::Well;
        }
        let drawn = self.entropy.below(1_000);
        if drawn < runtime_fails {
            CallFate::Fails
        } else if drawn < runtime_fails + runtime_unsaid {
            match action {
                CoreAction::RunProbe { .. } => CallFate::Well,
                _ => CallFate::DoneButFails,
            }
        } else if drawn < answered {
            CallFate::Late(TickDuration::from_millis(1 + self.entropy.below(LATE_MAX_MILLIS)))
        } else if drawn < of_all {
            match action {
                // the agent gives a probe up by itself
                CoreAction::RunProbe { .. } => CallFate::Well,
                _ => CallFate::NeverAnswered,
            }
        } else {
            CallFate::Well
        }
    }

    /// Of a start that does not come to its end, or fails: whether the container was prepared.
    pub(crate) fn stops_halfway(&mut self) -> bool {
        self.entropy.below(2) == 0
    }

    pub(crate) fn write_fate(&mut self) -> WriteFate {
        let FaultRates { write_lost, write_unsaid, write_conflict, .. } = self.rates;
        if write_lost + write_unsaid + write_conflict == 0 {
            return WriteFate::Well;
        }
        let drawn = self.entropy.below(1_000);
        if drawn < write_lost {
            WriteFate::Lost
        } else if drawn < write_lost + write_unsaid {
            WriteFate::DoneUnsaid
        } else if drawn < write_lost + write_unsaid + write_conflict {
            WriteFate::Conflict
        } else {
            WriteFate::Well
        }
    }
}

/// What the runtime says about an action that failed.
pub(crate) fn error_of(action: &CoreAction) -> ActionError {
    let kind = match action {
        CoreAction::SetUpSandbox { .. } => ActionErrorKind::Sandbox,
        CoreAction::MountVolumes | CoreAction::RefreshVolumes => ActionErrorKind::Volume,
        CoreAction::FindImage { .. } | CoreAction::PullImage { .. } => ActionErrorKind::ImagePull,
        CoreAction::StartContainer { .. } => ActionErrorKind::ContainerCreate,
        CoreAction::TearDownSandbox { .. }
        | CoreAction::SignalContainer { .. }
        | CoreAction::KillContainer { .. }
        | CoreAction::RemoveContainer { .. }
        | CoreAction::UpdateSandbox { .. }
        | CoreAction::UpdateContainer { .. }
        | CoreAction::RunProbe { .. }
        | CoreAction::RunHook { .. } => ActionErrorKind::Other,
    };
    injected(kind)
}

pub(crate) fn injected(kind: ActionErrorKind) -> ActionError {
    ActionError { kind, message: "injected fault".to_owned() }
}
