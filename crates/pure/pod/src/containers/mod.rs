//! The containers of the pod: how they are driven from idle to running and to their end.
//!
//! The order of turns: init containers and sidecars one after the other in the order of the spec,
//! then all regular ones. Ephemeral ones wait for no other.
//!
//! An init container lets the next one start when it has succeeded, a sidecar when it has been
//! started, hook and startup probe included. A sidecar that crashes later restarts by itself and
//! keeps no other waiting [KEP-753]. A regular container with a postStart hook keeps the regular
//! ones after it from their first start until the hook has ended, as in the kubelet, which runs it
//! before it looks at the next container; other than there, a restart does not wait for it.
//!
//! | subject | module |
//! |---|---|
//! | one container and its states | `container` |
//! | its start, its images | `start`, `images`, `failed_pulls` |
//! | probes and hooks | `probing`, `hooks` |
//! | its graceful end, and what follows | `stops`, `end` |
//! | rounds, restarts one by one | `round`, `held_round`, `cycle` |
//! | ephemeral containers | `ephemeral` |
//! | limits that change | `limits` |
//! | a node that stops | `node_stop` |
//! | an agent that starts again | `adopt`, `in_status`, `record` |
//! | what the status shows | `shown` |

mod adopt;
mod container;
mod cycle;
mod deadlines;
mod end;
mod ephemeral;
mod failed_pulls;
mod held_round;
mod hooks;
mod images;
mod in_status;
mod limits;
mod node_stop;
mod probing;
mod progress;
mod record;
mod restart_images;
mod round;
mod shown;
mod start;
mod stops;
mod strays;

use std::collections::BTreeMap;

use rekindle_types::{ContainerName, SandboxAttempt, Tick};

pub(crate) use adopt::TakenUpHalt;
pub(crate) use container::PodContainer;
pub(crate) use end::EndConsequence;
pub(crate) use progress::ContainersProgress;
pub(crate) use record::ContainerRecordView;
pub use restart_images::NeededImage;
pub(crate) use round::RoundCause;

use crate::action::{HookKind, ProbeKind};
use crate::allocation::Allocation;
use crate::blueprint::{Definition, RoleInPod};
use crate::context::PodContext;
use crate::desired_pod::DesiredPod;
use crate::event::{ActionError, ActionOutcome, RestartRequest};
use crate::journal::{ContainerStanding, Halt, Journal};
use crate::key::{ActionId, ContainerStartKey};
use crate::outbox::Outbox;
use crate::stop_reason::StopReason;

use failed_pulls::FailedPulls;
use strays::Strays;

/// The containers of a pod.
#[derive(Debug)]
pub(crate) struct Containers {
    /// In the order of the blueprint.
    list: Vec<PodContainer>,
    /// Those that are not wanted any more.
    strays: Strays,
    /// The pulls of their images that failed.
    failed_pulls: FailedPulls,
}

/// Whether containers from here on may start.
#[derive(Clone, Copy)]
enum StartPermission {
    Come,
    /// Only what has been started before in this round.
    ToRestart,
    NotYet,
}

impl Containers {
    /// As the journal has them.
    pub(crate) fn new(desired: &DesiredPod, granted: &Allocation, journal: &Journal) -> Self {
        let mut records: BTreeMap<_, _> = journal.containers.clone();
        let max = desired.crash_delay_max();
        let list = desired.definitions().iter().enumerate().map(|(place, definition)| {
            let mut record = records.remove(&definition.name).unwrap_or_default();
            record.crash.cap(max);
            let granted = granted.of(&definition.name).clone();
            PodContainer::restore(place, definition.clone(), *record, granted, journal.node_stop)
        });
        let list = list.collect();
        Self { list, strays: Strays::default(), failed_pulls: FailedPulls::default() }
    }

    /// The spec changed.
    pub(crate) fn redefine(&mut self, definitions: &[Definition], granted: &Allocation) {
        for definition in definitions {
            match self.list.iter_mut().find(|c| c.definition.name == definition.name) {
                Some(container) => container.redefine(definition.clone()),
                // No others can be added, and none removed; the API refuses it.
                None => self.add_ephemeral(definition, granted),
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PodContainer> {
        self.list.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// The container of this name.
    pub(crate) fn find(&self, name: &ContainerName) -> Option<&PodContainer> {
        self.list.iter().find(|container| container.definition.name == *name)
    }

    /// The definition of the container that a request names.
    pub(crate) fn named(&self, request: &RestartRequest) -> Option<&Definition> {
        Some(self.find(request.container.as_ref()?)?.definition())
    }

    /// The process of the container at this place runs.
    pub(crate) fn has_process(&self, place: usize) -> bool {
        self.list[place].has_process()
    }

    /// Its place, by which answers find it.
    pub(crate) fn place_of(&self, name: &ContainerName) -> Option<usize> {
        self.list.iter().position(|container| container.definition.name == *name)
    }

    /// The start in progress of the container at this place, or the next one.
    pub(crate) fn key(&self, place: usize, sandbox: SandboxAttempt) -> ContainerStartKey {
        self.list[place].key(sandbox)
    }

    /// As the journal is to have them while all has to end for `halt`.
    pub(crate) fn records<'a>(
        &'a self,
        granted: &'a Allocation,
        halt: Option<Halt>,
    ) -> impl Iterator<Item = (&'a ContainerName, ContainerRecordView<'a>)> {
        self.list.iter().map(move |container| {
            let name = &container.definition.name;
            (name, container.record(granted.of(name), halt))
        })
    }

    /// No container has a process, or may get one from an action in flight.
    pub(crate) fn nothing_lives(&self) -> bool {
        !self.list.iter().any(PodContainer::is_live)
    }

    /// The same of those that the halt in progress is for.
    pub(crate) fn nothing_halted_lives(&self, context: &PodContext<'_>) -> bool {
        let mut halted = self.list.iter().filter(|c| context.is_halted(c.definition.role));
        !halted.any(PodContainer::is_live)
    }

    /// An answer is awaited that brings one to run.
    pub(crate) fn any_is_on_its_way(&self) -> bool {
        self.list.iter().any(PodContainer::is_on_its_way)
    }

    /// A container ended in this sandbox.
    pub(crate) fn have_used(&self, sandbox: SandboxAttempt) -> bool {
        let mut ends = self.list.iter().filter_map(|container| container.last.as_ref());
        ends.any(|last| last.sandbox == sandbox)
    }

    /// One has been started in this round, or has ended in it.
    pub(crate) fn round_has_begun(&self) -> bool {
        self.list.iter().any(|container| container.standing != ContainerStanding::Due)
    }

    /// Whether one that lives now would be started again if it were ended, or one still has to be
    /// started.
    pub(crate) fn any_would_run_again(&self) -> bool {
        let lasting = self.list.iter().filter(|c| c.definition.role != RoleInPod::Ephemeral);
        { lasting }.any(PodContainer::would_run_again)
    }

    /// Every init container has done its part in this round.
    pub(crate) fn are_initialized(&self) -> bool {
        self.list.iter().all(PodContainer::lets_others_start)
    }

    /// An init container has failed and is not tried again: the pod can never run.
    pub(crate) fn initialization_failed(&self) -> bool {
        self.list.iter().any(|container| {
            container.definition.role == RoleInPod::Init
                && container.is_done()
                && !container.has_succeeded()
        })
    }

    /// Every regular container has ended and is not started again.
    pub(crate) fn work_is_done(&self) -> bool {
        let mut regular = self.list.iter().filter(|c| c.definition.role == RoleInPod::Regular);
        regular.all(PodContainer::is_done)
    }

    /// Init containers are done, sidecars run, regular containers run or have run to their end.
    pub(crate) fn all_run_again(&self) -> bool {
        self.are_initialized()
            && self.list.iter().all(|container| match container.definition.role {
                RoleInPod::Init | RoleInPod::Ephemeral => true,
                RoleInPod::Sidecar => container.is_running(),
                RoleInPod::Regular => container.is_running() || container.is_done(),
            })
    }

    /// Brings each container whose turn it is nearer to running.
    pub(crate) fn drive(&mut self, context: &PodContext<'_>, outbox: &mut Outbox) {
        let mut turn = StartPermission::Come;
        self.drive_ephemerals(context, outbox);
        for place in 0..self.list.len() {
            if self.list[place].definition.role == RoleInPod::Ephemeral {
                continue;
            }
            match turn {
                StartPermission::Come => self.drive_container(place, context, outbox),
                StartPermission::ToRestart
                    if self.list[place].standing == ContainerStanding::Due => {}
                StartPermission::ToRestart => self.drive_container(place, context, outbox),
                StartPermission::NotYet => return,
            }
            let container = &self.list[place];
            if !container.lets_others_start() {
                turn = StartPermission::NotYet;
            } else if container.is_in_start_with_hook() {
                turn = StartPermission::ToRestart;
            }
        }
    }

    /// Brings running ones nearer to `started` and asks for the probes that are due.
    pub(crate) fn drive_health(&mut self, context: &PodContext<'_>, outbox: &mut Outbox) {
        for container in &mut self.list {
            container.drive_health(context, outbox);
        }
    }

    /// A running container whose image in the spec is another one is ended and started with that
    /// one.
    pub(crate) fn drive_image_changes(&mut self, context: &PodContext<'_>, outbox: &mut Outbox) {
        for container in &mut self.list {
            let image = container.started_image.as_ref();
            let changed = image.is_some_and(|image| *image != container.definition.image);
            if changed && container.is_running() {
                let kill_at = context.now + context.desired.grace();
                container.begin_stop(kill_at, StopReason::ImageChanged, context, outbox);
            }
        }
    }

    pub(crate) fn probe_answered(
        &mut self,
        place: usize,
        probe: ProbeKind,
        (id, result): (ActionId, Result<ActionOutcome, ActionError>),
        context: &PodContext<'_>,
        outbox: &mut Outbox,
    ) {
        self.list[place].probe_answered(probe, id, result, context, outbox);
    }

    pub(crate) fn hook_answered(
        &mut self,
        place: usize,
        hook: HookKind,
        (id, result): (ActionId, Result<ActionOutcome, ActionError>),
        context: &PodContext<'_>,
        outbox: &mut Outbox,
    ) {
        let container = &mut self.list[place];
        match hook {
            HookKind::PostStart => container.post_start_answered(id, result, context, outbox),
            HookKind::PreStop => container.pre_stop_answered(id, result, context, outbox),
        }
    }

    /// It ran when it was looked at last, and is nowhere now: its end was not seen.
    pub(crate) fn vanished(
        &mut self,
        place: usize,
        context: &PodContext<'_>,
        outbox: &mut Outbox,
    ) -> EndConsequence {
        self.list[place].vanish(context, outbox)
    }

    /// The end of one that is not wanted any more was told. False if it is none of them.
    pub(crate) fn stray_ended(&mut self, key: &ContainerStartKey) -> bool {
        self.strays.ended(key)
    }

    /// Takes away what is not wanted any more.
    pub(crate) fn drive_strays(&mut self, now: Tick, outbox: &mut Outbox) {
        self.strays.drive(now, outbox);
    }

    pub(crate) fn stray_answered(
        &mut self,
        now: Tick,
        key: &ContainerStartKey,
        id: ActionId,
        result: Result<ActionOutcome, ActionError>,
    ) {
        self.strays.answered(now, key, id, result);
    }

    pub(crate) fn have_strays(&self) -> bool {
        !self.strays.is_empty()
    }

    /// One that is not wanted any more may still run.
    pub(crate) fn stray_may_run(&self) -> bool {
        self.strays.any_may_run()
    }

    /// The sandbox is given up, or gone: what is not wanted in it goes with it.
    pub(crate) fn forget_strays_of(&mut self, sandbox: SandboxAttempt) {
        self.strays.forget_sandbox(sandbox);
    }

    /// When strays, and limits that could not be changed, are tried again.
    pub(crate) fn retry_deadlines(&self) -> impl Iterator<Item = Tick> {
        let updates = self.list.iter().filter_map(PodContainer::update_deadline);
        self.strays.deadlines().chain(updates)
    }

    /// The pod ends: what waits is not started again.
    pub(crate) fn give_up(&mut self) {
        self.list.iter_mut().for_each(PodContainer::give_up);
    }

    /// Nothing of the pod is left.
    pub(crate) fn conclude(&mut self) {
        self.list.iter_mut().for_each(PodContainer::conclude);
    }
}
