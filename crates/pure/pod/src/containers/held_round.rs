//! Restarts of all containers that a restart rule brings about (KEP-5532), in the states that
//! [`restarts`](crate::restarts) draws for rung Containers.
//!
//! Upstream has no pause between them. Here the container whose end matched the rule keeps its
//! backoff, 0, 10, 20 … s, and the whole round waits for it: nothing of a pod runs half.

use rekindle_types::ContainerName;

use super::Containers;
use super::container::{ProcessState, StartHold};
use crate::blueprint::RoleInPod;
use crate::context::PodContext;
use crate::journal::ContainerStanding;
use crate::outbox::Outbox;
use crate::texts;

impl Containers {
    /// Nothing of the new round starts before the container that brought it about may: upstream has
    /// no such delay, and a container that always ends so would restart its pod without a pause.
    pub(crate) fn hold_round(&mut self, trigger: &ContainerName, context: &PodContext<'_>) {
        let Some(cause) = self.list.iter().find(|c| c.definition.name == *trigger) else {
            return;
        };
        let Some(last) = cause.last.as_ref().filter(|_| !cause.crash.has_decided(cause.number))
        else {
            return;
        };
        let delay = cause.crash_delay();
        let until = last.exit.finished_at + delay;
        for container in &mut self.list {
            match container.state {
                ProcessState::Idle(StartHold::None)
                    if container.standing == ContainerStanding::Due
                        && container.definition.role != RoleInPod::Ephemeral => {}
                // it goes on complaining of its image
                ProcessState::Idle(StartHold::Image { shown_at, until: own })
                    if container.definition.role != RoleInPod::Ephemeral =>
                {
                    let until = until.max(own);
                    container.state = ProcessState::Idle(StartHold::Image { shown_at, until });
                    continue;
                }
                ProcessState::Idle(_)
                | ProcessState::Pulling { .. }
                | ProcessState::Starting { .. }
                | ProcessState::Running { .. } => continue,
            }
            if container.definition.name == *trigger {
                container.state = ProcessState::Idle(StartHold::Crash { until });
            } else if until > context.now {
                container.state = ProcessState::Idle(StartHold::Retry { until });
                container.complaint = Some(texts::restarting_all(trigger, delay));
            }
        }
    }

    /// Tells that the round is held, if it is.
    pub(crate) fn tell_of_held_round(
        &mut self,
        trigger: &ContainerName,
        context: &PodContext<'_>,
        outbox: &mut Outbox,
    ) {
        let mut named = self.list.iter_mut().filter(|c| c.definition.name == *trigger);
        if let Some(cause) = named.next()
            && cause.complain_of_crash_loop(context)
        {
            outbox.emit(texts::back_off(&cause.definition, &context.desired.full_name()));
        }
    }
}
