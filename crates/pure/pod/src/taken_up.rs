//! The end of containers that an earlier agent began, or was about to begin, when it died.
//!
//! Its deadline is in the journal before the first signal is sent; who was signalled the runtime
//! knows, for as long as the process lives. So no write stands before a signal, and yet nobody is
//! killed without notice:
//!
//! | of the newest start the runtime says | |
//! |---|---|
//! | it has notice | it keeps its deadline, as each agent that dies would put its end off otherwise, and is not asked again |
//! | it has none | it has the whole grace from now on, and a hook that had begun is run anew, as in the kubelet |

use rekindle_types::{Notice, Tick};

use crate::container::{State, Stop, StopReason, StopStep};
use crate::core::{Lifecycle, PodCore};
use crate::event::{ContainerSeenState, Snapshot};
use crate::halt::GRACE_MIN;
use crate::journal::{Failing, Halt, RestartStage, Targets};
use crate::key::ContainerKey;
use crate::texts;

impl PodCore {
    /// What the journal says that containers have to end for.
    pub(crate) fn recorded_halt(&self) -> Option<Halt> {
        match &self.lifecycle {
            Lifecycle::Recovering { ending: Some(ending), .. } | Lifecycle::Ending(ending) => {
                return Some(ending.halt);
            }
            Lifecycle::Finished(_) => return None,
            Lifecycle::Recovering { ending: None, .. } | Lifecycle::Active => {}
        }
        match self.restart.as_ref().map(|restart| &restart.stage) {
            Some(RestartStage::Stopping { halt } | RestartStage::Cycling { halt, .. }) => {
                Some(*halt)
            }
            Some(RestartStage::Starting) | None => None,
        }
    }

    /// Goes on with it.
    pub(crate) fn take_up_halt(&mut self, snapshot: &Snapshot) {
        let Some(Halt::By { deadline, grace }) = self.recorded_halt() else { return };
        let targets = self.recorded_targets();
        let reason = match targets {
            Some(_) => StopReason::RestartAsked,
            None => StopReason::Halt,
        };
        for place in 0..self.containers.len() {
            let container = &self.containers[place];
            let is_to_end = match &targets {
                Some(targets) => targets
                    .get(&container.definition.name)
                    .is_some_and(|target| !container.runs_later_than(*target)),
                None => self.is_halted(container.definition.role),
            };
            if !is_to_end {
                continue;
            }
            match notice_of(snapshot, &container.key(self.sandbox.attempt)) {
                Some(Notice::Given) => self.take_up_stop(place, deadline, reason),
                Some(Notice::NotGiven) => self.put_recorded_halt_off_until(self.now + grace),
                None => {}
            }
        }
    }

    /// Those that are restarted one by one, if that is what ends them.
    fn recorded_targets(&self) -> Option<Targets> {
        let of_restart = match self.restart.as_ref().map(|restart| &restart.stage) {
            Some(RestartStage::Cycling { targets, .. }) => Some(targets.clone()),
            Some(RestartStage::Stopping { .. } | RestartStage::Starting) | None => None,
        };
        match &self.lifecycle {
            Lifecycle::Recovering { ending: None, .. } | Lifecycle::Active => of_restart,
            Lifecycle::Recovering { ending: Some(_), .. }
            | Lifecycle::Ending(_)
            | Lifecycle::Finished(_) => None,
        }
    }

    /// It was being ended because something of it failed: so it is now. With notice it keeps its
    /// time, else it has its whole grace.
    pub(crate) fn take_up_failure(&mut self, place: usize, notice: Notice) {
        let (now, grace) = (self.now, self.blueprint.grace);
        let container = &mut self.containers[place];
        let Some(record) = container.failing.take().filter(|r| r.number == container.number) else {
            return;
        };
        let probes = &container.definition.probes;
        let own = match record.what {
            Failing::StartupProbe => probes.startup.as_ref().and_then(|rules| rules.grace),
            Failing::LivenessProbe => probes.liveness.as_ref().and_then(|rules| rules.grace),
            Failing::PostStartHook => None,
        };
        let latest = now + own.unwrap_or(grace);
        container.failed = Some(record.words);
        match (notice, &mut container.state) {
            (Notice::Given, State::Running { stop, .. }) => {
                let kill_at = record.kill_at.min(latest).max(now + GRACE_MIN);
                let reason = record.what.into();
                let step = StopStep::Grace;
                *stop = Some(Stop { step, kill_at, not_before: Tick::ZERO, reason });
            }
            (Notice::Given | Notice::NotGiven, _) => self.stop(place, latest, record.what.into()),
        }
    }

    fn put_recorded_halt_off_until(&mut self, until: Tick) {
        match (&mut self.lifecycle, self.restart.as_mut().map(|restart| &mut restart.stage)) {
            (Lifecycle::Recovering { ending: Some(ending), .. }, _) => {
                ending.halt.put_off_until(until);
            }
            (_, Some(RestartStage::Stopping { halt } | RestartStage::Cycling { halt, .. })) => {
                halt.put_off_until(until);
            }
            (_, Some(RestartStage::Starting) | None) => {}
        }
    }

    /// It has notice: it is killed by the deadline of all, or by one of its own.
    fn take_up_stop(&mut self, place: usize, deadline: Tick, reason: StopReason) {
        let least = self.now + GRACE_MIN;
        let container = &mut self.containers[place];
        let own = container.kill_by.take().filter(|(number, _)| *number == container.number);
        let kill_at = own.map_or(deadline, |(_, own)| own.min(deadline)).max(least);
        // one that is ended because something of it failed keeps its own reason
        if let State::Running { stop: stop @ None, .. } = &mut container.state {
            let step = StopStep::Grace;
            *stop = Some(Stop { step, kill_at, not_before: Tick::ZERO, reason });
            let event = texts::killing(&container.definition, reason);
            self.emit(event);
        }
    }
}

/// Of one that runs.
fn notice_of(snapshot: &Snapshot, key: &ContainerKey) -> Option<Notice> {
    let sandbox = snapshot.sandboxes.iter().find(|sandbox| sandbox.attempt == key.sandbox)?;
    let mut containers = sandbox.containers.iter();
    let seen = containers.find(|seen| seen.name == key.name && seen.attempt == key.attempt)?;
    match seen.state {
        ContainerSeenState::Running { notice, .. } => Some(notice),
        ContainerSeenState::Created | ContainerSeenState::Exited { .. } => None,
    }
}
