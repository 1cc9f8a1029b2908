//! Rung Container: containers that are ended and started again one by one, and what of a restart
//! has become so.

use rekindle_types::{ContainerName, Tick};

use super::Containers;
use super::container::{ProcessState, StartHold};
use crate::blueprint::RoleInPod;
use crate::context::PodContext;
use crate::event::RestartRequest;
use crate::journal::{Halt, SupersededGoal, Targets};
use crate::outbox::Outbox;
use crate::stop_reason::StopReason;

impl Containers {
    /// The containers that the restart in progress stops, as far as a request that names one would
    /// lose sight of them.
    pub(crate) fn still_stopping(
        &self,
        request: &RestartRequest,
        context: &PodContext<'_>,
    ) -> Targets {
        let (Some(targets), Some(_)) = (context.restarts.targets(), &request.container) else {
            return Targets::new();
        };
        let stopping = self.list.iter().filter(|container| {
            let target = targets.get(&container.definition.name);
            container.is_live() && target == Some(&Some(container.number))
        });
        stopping
            .map(|container| (container.definition.name.clone(), Some(container.number)))
            .collect()
    }

    /// The starts that a Container restart replaces. What waits is let go at once.
    pub(crate) fn cycle_targets(&mut self, now: Tick) -> Targets {
        self.let_go_of_pulls(now);
        let mut targets = Targets::new();
        let replaceable =
            self.list.iter_mut().filter(|c| c.definition.role != RoleInPod::Ephemeral);
        for container in replaceable {
            let replaced = match &container.state {
                ProcessState::Running { .. } => Some(container.number),
                ProcessState::Idle(StartHold::Crash { .. }) => {
                    container.last.as_ref().map(|last| last.attempt)
                }
                ProcessState::Idle(_)
                | ProcessState::Pulling { .. }
                | ProcessState::Starting { .. } => None,
            };
            container.release();
            if let Some(attempt) = replaced {
                targets.insert(container.definition.name.clone(), Some(attempt));
            }
        }
        targets
    }

    /// The start of one container that its restart replaces: the one that runs, else the last one.
    /// If it waits, it is let go at once.
    pub(crate) fn cycle_target(&mut self, name: &ContainerName, now: Tick) -> Targets {
        self.let_go_of_pulls_of(name, now);
        let named = self.list.iter_mut().filter(|c| c.definition.name == *name);
        let target = named.map(|container| {
            let replaced = match &container.state {
                ProcessState::Running { .. } => Some(container.number),
                ProcessState::Idle(_)
                | ProcessState::Pulling { .. }
                | ProcessState::Starting { .. } => container.last.as_ref().map(|last| last.attempt),
            };
            container.release();
            (name.clone(), replaced)
        });
        target.collect()
    }

    /// Ends the targets that still run. What a request that names another container has taken over
    /// has only to end. True when all targets have been replaced.
    pub(crate) fn drive_cycle(
        &mut self,
        halt: Halt,
        targets: &Targets,
        named: Option<&ContainerName>,
        context: &PodContext<'_>,
        outbox: &mut Outbox,
    ) -> bool {
        let kill_at = match halt {
            Halt::AtOnce => context.now,
            Halt::By { deadline, .. } => deadline,
        };
        let mut all_replaced = true;
        for container in &mut self.list {
            let Some(target) = targets.get(&container.definition.name) else { continue };
            let is_taken_over = named.is_some_and(|name| *name != container.definition.name);
            let is_over = is_taken_over && Some(container.number) > *target;
            if is_over || container.runs_later_than(*target) {
                continue;
            }
            all_replaced = false;
            if container.is_running() {
                container.begin_stop(kill_at, StopReason::RestartAsked, context, outbox);
            } else if container.ended_with(*target) && container.is_held_by_backoff() {
                // An agent that was killed since holds it for a crash that was none. What failed
                // since keeps its delay.
                container.release();
            }
        }
        all_replaced
    }

    /// Whether what a superseded request asked for is so.
    pub(crate) fn have(&self, wanted: &SupersededGoal) -> bool {
        match wanted {
            SupersededGoal::AllRunning => self.all_run_again(),
            SupersededGoal::Restarted { targets } => self
                .list
                .iter()
                .filter_map(|container| Some((container, targets.get(&container.definition.name)?)))
                .all(|(container, target)| container.runs_later_than(*target)),
        }
    }
}
