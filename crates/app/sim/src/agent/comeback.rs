//! An agent's process that dies and the next one, which takes its pods up; and a machine that
//! starts again.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rekindle_pod::{ContainerStartKey, CoreEvent, Loss, SandboxSeenState};
use rekindle_pod_driver::PodDriver;
use rekindle_types::{Exit, ExitStatus, Tick};

use super::{ContainerLife, SIGKILL, SimulatedPod, WriteBacklog};
use crate::clocks::Skew;
use crate::faults::Faults;
use crate::known_bugs::KnownBug;

impl SimulatedPod {
    /// The agent's process dies and another one takes the pod up from journal and runtime, and from
    /// the object as it finds it.
    pub(crate) fn agent_crashes(
        &mut self,
        now: Tick,
        clock: Skew,
        found: Option<Arc<Pod>>,
        faults: &mut Faults,
    ) {
        if clock != self.clock {
            // how long something has waited nobody can say any more
            self.graces.clock_was_set(clock.shows(now));
            self.hooks.clock_was_set();
            self.pauses.clock_was_set();
        }
        self.clock = clock;
        self.nothing_is_asked(clock.shows(now), &mut faults.pace);
        self.deletion_grace = None;
        self.requests.clear();
        let is_gone = found.is_none();
        if let Some(found) = found {
            self.pod = found;
        }
        self.backlog = WriteBacklog::default();
        if faults.bug == Some(KnownBug::AgentRestartEndsAll) {
            self.end_all(now);
        }
        self.note_shown();
        let (pod, journal) = (self.pod.clone(), self.journal.as_deref().cloned());
        let (pod, journal) = self.remembered(clock.shows(now), pod, journal, faults.bug);
        let driver = PodDriver::new(clock.shows(now), pod, journal, self.config.clone());
        self.taken_up_by(now, driver, faults);
        if is_gone {
            self.vanished(now, Loss::Missing);
        }
    }

    /// A new process has this driver: what the one before waited for it does not hear of, and it
    /// looks at the runtime.
    pub(super) fn taken_up_by(&mut self, now: Tick, driver: PodDriver, faults: &Faults) {
        self.incarnation += 1;
        self.asked.clear();
        self.unanswered.clear();
        self.hooks.agent_crashed();
        self.probed.agent_crashed();
        self.pulls.agent_crashed();
        self.hung.clear();
        self.died = false;
        self.driver = driver;
        let snapshot = self.snapshot(faults);
        self.driver.handle(self.clock.shows(now), CoreEvent::RuntimeSnapshot(snapshot));
        self.note_deletion();
    }

    /// What the object shows must stay so.
    fn note_shown(&mut self) {
        let mut shown = std::mem::take(&mut self.shown);
        shown.found(self.pod.status.as_ref(), |name| self.running_start(name));
        self.shown = shown;
    }

    /// Its machine starts again, and nothing of it runs. The runtime has its records on the disk:
    /// sandboxes are there and dead, and how what ran has ended nobody knows.
    pub(crate) fn reboot(&mut self, now: Tick) {
        let finished_at = self.clock.shows(now);
        for (key, life) in &mut self.containers {
            if let ContainerLife::Running { started_at, .. } = *life {
                let (status, message) = (ExitStatus::Unknown, String::new());
                self.pauses.ended(finished_at, &self.pod, key, status);
                self.last_ends.note(&key.name, status);
                *life = ContainerLife::Exited(Exit { status, started_at, finished_at, message });
            }
        }
        for sandbox in self.sandboxes.values_mut() {
            sandbox.state = SandboxSeenState::NotReady;
        }
        self.signalled.clear();
        self.graces.forget_all();
        self.hooks.forget(|_| true);
    }

    fn end_all(&mut self, now: Tick) {
        let running: Vec<ContainerStartKey> = self.running().cloned().collect();
        for key in running {
            self.exits(now, key, ExitStatus::Signal { signal: SIGKILL });
        }
    }
}
