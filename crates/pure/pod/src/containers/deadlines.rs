//! When a container has something due. `timers` lists these with the other deadlines of the pod.

use rekindle_types::Tick;

use super::Containers;
use super::container::{Container, Hold, State, Stop, StopStep};
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

impl Container {
    fn deadline(&self, context: &PodContext<'_>, outbox: &Outbox) -> Option<Tick> {
        match &self.state {
            State::Idle(_) if context.halt().is_some() => None,
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
            State::Running { stop, .. } => {
                // a probe is due
                let probe = self.probe_deadline(context);
                let still = context.stands_still(outbox);
                let stop = stop.as_ref().filter(|stop| !(still && stop.awaits_way(outbox)));
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
