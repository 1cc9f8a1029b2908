//! The deadlines of a pod. There is no timer to be set or cancelled: each deadline is a field of
//! the state that it belongs to, this table lists them, and `step` acts on those that have passed.

use rekindle_types::Tick;

use crate::container::{Container, Hold, State, Stop, StopStep};
use crate::core::{Lifecycle, PodCore};

impl PodCore {
    /// The earliest deadline.
    pub(crate) fn next_deadline(&self) -> Option<Tick> {
        match &self.lifecycle {
            Lifecycle::Recovering { .. } | Lifecycle::Finished(_) => return None,
            Lifecycle::Active | Lifecycle::Ending(_) => {}
        }
        let containers = self.containers.iter().filter_map(|c| self.container_deadline(c));
        containers
            // a failed mount or refresh is tried again
            .chain(self.volumes.deadline())
            // a failed sandbox is tried again
            .chain(self.sandbox.deadline())
            // a failed teardown is tried again
            .chain(self.old_sandboxes.iter().filter_map(|old| old.task.deadline()))
            // a failed removal is tried again
            .chain(self.clearance.values().filter_map(|entry| entry.task.deadline()))
            // limits that could not be changed are tried again
            .chain(self.resize.deadline())
            .chain(self.containers.iter().filter_map(Container::update_deadline))
            // activeDeadlineSeconds
            .chain(self.active_deadline())
            // the grace of a halt ends: sidecars whose turn has not come are signalled
            .chain(self.halt_deadline())
            // one that has passed waits for something else, which will wake it
            .filter(|deadline| *deadline > self.now)
            .min()
    }

    fn container_deadline(&self, container: &Container) -> Option<Tick> {
        let halted = self.halt().is_some();
        match &container.state {
            State::Idle(_) if halted => None,
            State::Idle(hold) => match *hold {
                Hold::None | Hold::SpecChange => None,
                // CrashLoopBackOff is over
                Hold::Crash { until } => Some(until),
                // what failed before the start is tried again
                Hold::Retry { until } => Some(until),
                // ErrImagePull becomes ImagePullBackOff; the next pull
                Hold::Image { shown_at, until } => Some(shown_at.unwrap_or(until)),
            },
            State::Pulling { .. } | State::Starting { .. } => None,
            State::Running { health, stop, .. } => {
                // a probe is due
                let probe = health.deadline(self.probing(stop.as_ref()));
                let still = self.stands_still();
                let stop = stop.as_ref().filter(|stop| !(still && stop.awaits_way(&self.outbox)));
                probe.into_iter().chain(stop.and_then(Stop::deadline)).min()
            }
        }
    }
}

impl Stop {
    fn deadline(&self) -> Option<Tick> {
        match &self.step {
            // the grace ends, and with it the hook
            StopStep::PreStop(_) => Some(self.kill_at),
            // later containers end, or the grace of the halt does
            StopStep::AwaitTurn => None,
            // the grace ends, or the signal is tried again
            StopStep::Signal(task) => {
                Some(task.deadline().map_or(self.kill_at, |again| again.min(self.kill_at)))
            }
            // the grace ends
            StopStep::Grace => Some(self.kill_at),
            // a failed SIGKILL is tried again
            StopStep::Kill(task) => task.deadline(),
            // no exit was seen after SIGKILL: once more
            StopStep::AwaitExit { again_at } => Some(*again_at),
        }
    }
}
