//! When a container has something due. `timers` lists these with the other deadlines of the pod.

use rekindle_types::Tick;

use super::Containers;
use super::container::{ContainerStop, PodContainer, ProcessState, StartHold, StopStep};
use crate::context::PodContext;
use crate::outbox::Outbox;

impl Containers {
    pub(crate) fn deadlines(
        &self,
        context: &PodContext<'_>,
        outbox: &Outbox,
    ) -> impl Iterator<Item = Tick> {
        self.list.iter().filter_map(move |container| container.deadline(context, outbox))
    }
}

impl PodContainer {
    fn deadline(&self, context: &PodContext<'_>, outbox: &Outbox) -> Option<Tick> {
        match &self.state {
            ProcessState::Idle(_) if context.halt().is_some() => None,
            ProcessState::Idle(hold) => match *hold {
                StartHold::None | StartHold::SpecChange => None,
                // CrashLoopBackOff is over
                StartHold::Crash { until } => Some(until),
                // what failed before the start is tried again
                StartHold::Retry { until } => Some(until),
                // ErrImagePull becomes ImagePullBackOff; the next pull
                StartHold::Image { shown_at, until } => Some(shown_at.unwrap_or(until)),
            },
            ProcessState::Pulling { .. } | ProcessState::Starting { .. } => None,
            ProcessState::Running { stop, .. } => {
                // a probe is due
                let probe = self.probe_deadline(context);
                let still = context.stands_still(outbox);
                let stop = stop.as_ref().filter(|stop| !(still && stop.awaits_way(outbox)));
                probe.into_iter().chain(stop.and_then(ContainerStop::deadline)).min()
            }
        }
    }
}

impl ContainerStop {
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
