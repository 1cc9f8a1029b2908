//! An agent that starts again, or is unsure: what stands in the runtime, the journal and the API's
//! status are put together.
//!
//! | of | counts |
//! |---|---|
//! | which sandbox is current | the newest of journal and runtime |
//! | the number of a container's start | the highest of journal, status and runtime: `restartCount` never falls |
//! | what runs | the runtime alone; what the status shows running and the runtime does not know has vanished (137) |
//! | how containers ended | the runtime for the newest start, else the journal, else the status |
//! | backoff, restarts, the end of the pod | the journal; without it a crash series begins anew |
//!
//! A start of which neither journal nor status tells is in the runtime's records, also when its
//! sandbox has died since: it counts, with the end that is written there or none that is known.
//! Only a power cut can take the records of the last moment with it; that start is made again under
//! the same number, as nothing on the machine tells it from one that was never made. To know it,
//! each start would have to wait for a write that is on the disk.
//!
//! A container that runs is adopted as it is: an agent that starts again restarts nothing. One that
//! was created and not started is started, not taken for dead. If the sandbox is gone and anything
//! ran in it, it is replaced as if it had just died.

use rekindle_types::Tick;

use super::PodCore;
use crate::containers::{RoundCause, TakenUpHalt};
use crate::event::{ContainerSeenState, SandboxSeenState, Snapshot};
use crate::journal::Halt;
use crate::texts;

impl PodCore {
    /// What an earlier agent held is held again.
    pub(super) fn hold_again(&mut self) {
        let (context, containers, _) = self.split();
        containers.hold_what_was_due(context.restarts.current());
        if let Some(trigger) = context.restarts.starting_trigger() {
            containers.hold_round(trigger, &context);
        }
    }

    /// The first snapshot: the core comes to life.
    pub(super) fn recover_from(&mut self, snapshot: Snapshot) {
        let halt = Halt::with_signal(self.now, self.desired.grace());
        self.sandboxes.recover(&snapshot, halt);
        for place in 0..self.containers.len() {
            let (context, containers, outbox) = self.split();
            let end = containers.recover(place, &snapshot, &context, outbox);
            self.follow_end(end);
        }
        self.take_up_halt(&snapshot);
        self.containers.open_passed_gates();
        self.containers.clear_strangers(&snapshot, self.sandboxes.attempt());
        self.recover_round(&snapshot);
        // from now on events count; those that came early are taken in
        let early = self.lifecycle.wake();
        self.obey_object();
        for event in early {
            self.take_in(event);
        }
    }

    /// Goes on with what the journal says that containers have to end for.
    fn take_up_halt(&mut self, snapshot: &Snapshot) {
        let (context, containers, outbox) = self.split();
        let Some(Halt::By { deadline, grace }) = context.recorded_halt() else { return };
        match containers.take_up_halt(snapshot, deadline, &context, outbox) {
            TakenUpHalt::AsRecorded => {}
            TakenUpHalt::WithGraceAnew => self.put_recorded_halt_off_until(self.now + grace),
        }
    }

    fn put_recorded_halt_off_until(&mut self, until: Tick) {
        let halt = self.lifecycle.halt_mut().or_else(|| self.restarts.halt_mut());
        halt.into_iter().for_each(|halt| halt.put_off_until(until));
    }

    /// The round goes on where it was, unless its sandbox is gone.
    fn recover_round(&mut self, snapshot: &Snapshot) {
        let current = self.sandboxes.attempt();
        let in_current = snapshot
            .sandboxes
            .iter()
            .any(|sandbox| sandbox.attempt == current && !sandbox.containers.is_empty());
        if in_current {
            self.volumes.refresh_was_done();
        }
        let goes_on = self.lifecycle.ending().is_none()
            && !self.desired.is_declared_finished()
            && !self.containers.work_is_done()
            && !self.containers.initialization_failed();
        if !self.sandboxes.stands() && self.containers.round_has_begun() && goes_on {
            self.outbox.emit(texts::sandbox_changed());
            self.sandboxes.next_attempt();
            self.begin_round(RoundCause::NewSandbox);
        }
    }

    /// A later snapshot: what went unnoticed is taken in. What an action in flight will tell is
    /// left to its answer.
    pub(super) fn compare_with(&mut self, snapshot: &Snapshot) {
        let attempt = self.sandboxes.attempt();
        let current = snapshot.sandboxes.iter().find(|sandbox| sandbox.attempt == attempt);
        let ready = current.is_some_and(|s| s.state == SandboxSeenState::Ready);
        for place in 0..self.containers.len() {
            let key = self.containers.key(place, attempt);
            let seen = current.and_then(|sandbox| {
                sandbox.containers.iter().find(|c| c.name == key.name && c.attempt == key.attempt)
            });
            match seen.map(|seen| (seen, &seen.state)) {
                Some((seen, ContainerSeenState::Exited { exit })) => {
                    self.container_exited(&key, seen.made.clone(), exit.clone());
                }
                Some((_, ContainerSeenState::Created | ContainerSeenState::Running { .. })) => {}
                None => {
                    let (context, containers, outbox) = self.split();
                    if containers.has_process(place) {
                        let end = containers.vanished(place, &context, outbox);
                        self.follow_end(end);
                    }
                }
            }
        }
        if !ready {
            self.sandbox_died(attempt);
        }
    }
}
