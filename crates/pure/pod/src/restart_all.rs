//! Restarts of all containers that a restart rule brings about (KEP-5532), in the states that
//! `restart` draws for rung Containers.
//!
//! Upstream has no pause between them. Here the container whose end matched the rule keeps its
//! backoff, 0, 10, 20 … s, and the whole round waits for it: nothing of a pod runs half.

use rekindle_types::ContainerName;

use crate::blueprint::Role;
use crate::container::{Hold, State};
use crate::core::PodCore;
use crate::journal::{Halt, RestartCause, RestartRecord, RestartStage, Standing};
use crate::restart::CONTAINERS_GRACE_MIN;
use crate::texts;

impl PodCore {
    /// A container ended as one of its rules answers with a restart of all: in the same sandbox,
    /// without preStop, and with the least grace (KEP-5532).
    pub(crate) fn restart_by_rule(&mut self, place: usize) {
        let container = self.containers[place].definition.name.clone();
        self.supersede(&format!("a restart rule of container {container}"));
        let halt = Halt::with_grace(self.now, CONTAINERS_GRACE_MIN);
        self.restart = Some(RestartRecord {
            cause: RestartCause::Rule { container },
            stage: RestartStage::Stopping { halt },
            since: self.now,
        });
    }

    /// Nothing of the new round starts before the container that brought it about may: upstream has
    /// no such delay, and a container that always ends so would restart its pod without a pause.
    pub(crate) fn hold_round(&mut self, trigger: &ContainerName) {
        let Some(cause) = self.containers.iter().find(|c| c.definition.name == *trigger) else {
            return;
        };
        let Some(last) = cause.last.as_ref().filter(|_| !cause.crash.has_decided(cause.number))
        else {
            return;
        };
        let delay = cause.crash_delay();
        let until = last.exit.finished_at + delay;
        for container in &mut self.containers {
            match container.state {
                State::Idle(Hold::None)
                    if container.standing == Standing::Due
                        && container.definition.role != Role::Ephemeral => {}
                // it goes on complaining of its image
                State::Idle(Hold::Image { shown_at, until: own })
                    if container.definition.role != Role::Ephemeral =>
                {
                    let until = until.max(own);
                    container.state = State::Idle(Hold::Image { shown_at, until });
                    continue;
                }
                State::Idle(_)
                | State::Pulling { .. }
                | State::Starting { .. }
                | State::Running { .. } => continue,
            }
            if container.definition.name == *trigger {
                container.state = State::Idle(Hold::Crash { until });
            } else if until > self.now {
                container.state = State::Idle(Hold::Retry { until });
                container.complaint = Some(texts::restarting_all(trigger, delay));
            }
        }
    }

    pub(crate) fn tell_of_held_round(&mut self, trigger: &ContainerName) {
        let place = self.containers.iter().position(|c| c.definition.name == *trigger);
        if let Some(place) = place
            && self.complain_of_crash_loop(place)
        {
            let event = texts::back_off(&self.containers[place].definition, &self.pod_text());
            self.emit(event);
        }
    }

    /// An agent that starts again in the middle of such a round holds it as the one before did.
    pub(crate) fn hold_round_again(&mut self) {
        let trigger =
            self.restart.as_ref().and_then(|restart| match (&restart.cause, &restart.stage) {
                (RestartCause::Rule { container }, RestartStage::Starting) => {
                    Some(container.clone())
                }
                (RestartCause::Rule { .. } | RestartCause::Asked { .. }, _) => None,
            });
        if let Some(trigger) = trigger {
            self.hold_round(&trigger);
        }
    }
}
