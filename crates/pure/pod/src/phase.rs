//! `status.phase`, in the kubelet's order (`getPhase`).
//!
//! Where the kubelet has to guess from policy and states whether a container will be started again,
//! the core knows. A pod that ends, deleted or not, is Succeeded when all its containers ended with
//! code 0 and Failed when one did not, whatever its policy says: since 1.27 `getPhase` in
//! `pkg/kubelet/kubelet_pods.go` looks at the ends alone once the pod is terminal.
//!
//! A final phase frees what the pod held and has its controller replace it, so it waits until no
//! container can run any more (`mergePodStatus` in `pkg/kubelet/status/status_manager.go`), and a
//! pod that is over always has one (`TerminatePod`, there).

use crate::blueprint::RoleInPod;
use crate::containers::{Containers, PodContainer};
use crate::journal::ContainerStanding;
use crate::status_view::StatusView;

pub(crate) const PENDING: &str = "Pending";
pub(crate) const RUNNING: &str = "Running";
pub(crate) const SUCCEEDED: &str = "Succeeded";
pub(crate) const FAILED: &str = "Failed";

/// Failed and Succeeded are never left again.
pub(crate) fn is_final(phase: &str) -> bool {
    phase == SUCCEEDED || phase == FAILED
}

/// What the phase has to know of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PhaseInput {
    /// It has never run.
    NeverRan,
    /// It runs.
    Running,
    /// It is started again.
    BetweenStarts,
    /// It is not.
    Ended(EndResult),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndResult {
    Success,
    Failure,
}

impl PhaseInput {
    fn from_container(container: &PodContainer) -> Self {
        if container.has_process() {
            return Self::Running;
        }
        match (container.last(), container.standing()) {
            (None, _) => Self::NeverRan,
            (Some(last), ContainerStanding::Done) if last.exit.status.is_success() => {
                Self::Ended(EndResult::Success)
            }
            (Some(_), ContainerStanding::Done) => Self::Ended(EndResult::Failure),
            (Some(_), ContainerStanding::Due | ContainerStanding::Started) => Self::BetweenStarts,
        }
    }
}

/// How many containers are seen how.
#[derive(Debug, Default)]
struct PhaseTally {
    init_pending: usize,
    init_failed: usize,
    running: usize,
    waiting: usize,
    regular_started: usize,
    between_starts: usize,
    succeeded: usize,
    failed: usize,
}

impl PhaseTally {
    fn from_containers(containers: &Containers) -> Self {
        let mut tally = Self::default();
        for container in containers.iter() {
            let view = PhaseInput::from_container(container);
            match container.role() {
                RoleInPod::Init => tally.count_init(view),
                RoleInPod::Sidecar => tally.count_sidecar(view),
                RoleInPod::Regular => tally.count_regular(view),
                RoleInPod::Ephemeral => {}
            }
        }
        tally
    }

    fn count_init(&mut self, view: PhaseInput) {
        match view {
            PhaseInput::NeverRan | PhaseInput::Running => self.init_pending += 1,
            PhaseInput::Ended(EndResult::Failure) => self.init_failed += 1,
            PhaseInput::BetweenStarts | PhaseInput::Ended(EndResult::Success) => {}
        }
    }

    fn count_sidecar(&mut self, view: PhaseInput) {
        match view {
            PhaseInput::NeverRan => {
                self.init_pending += 1;
                self.waiting += 1;
            }
            PhaseInput::Running => self.running += 1,
            PhaseInput::BetweenStarts | PhaseInput::Ended(_) => {}
        }
    }

    fn count_regular(&mut self, view: PhaseInput) {
        match view {
            PhaseInput::NeverRan => self.waiting += 1,
            PhaseInput::Running => self.running += 1,
            PhaseInput::BetweenStarts => self.between_starts += 1,
            PhaseInput::Ended(EndResult::Success) => self.succeeded += 1,
            PhaseInput::Ended(EndResult::Failure) => self.failed += 1,
        }
        self.regular_started += usize::from(view != PhaseInput::NeverRan);
    }

    fn phase(&self) -> &'static str {
        let stopped = self.between_starts + self.succeeded + self.failed;
        if self.init_failed > 0 {
            return FAILED;
        }
        if (self.init_pending > 0 && self.regular_started == 0) || self.waiting > 0 {
            return PENDING;
        }
        if self.running > 0 {
            return RUNNING;
        }
        match (stopped, self.between_starts, self.failed) {
            (0, _, _) => PENDING,
            (_, 0, 0) => SUCCEEDED,
            (_, 0, _) => FAILED,
            (_, _, _) => RUNNING,
        }
    }
}

impl StatusView<'_> {
    /// The phase now; `before` is what the status or the API showed.
    pub(crate) fn phase(&self, before: Option<&str>) -> String {
        if let Some(before) = before.filter(|before| is_final(before)) {
            return before.to_owned();
        }
        let tally = PhaseTally::from_containers(self.containers).phase();
        let reached = if self.fails() { FAILED } else { tally };
        let no_process_is_left =
            self.containers.nothing_lives() && !self.context.sandboxes.earlier_may_live();
        let phase = match (is_final(reached), no_process_is_left) {
            (true, false) if is_final(tally) => before.unwrap_or(RUNNING),
            (true, false) => tally,
            (false, _) if self.context.lifecycle.is_finished() => FAILED,
            (true, true) | (false, _) => reached,
        };
        phase.to_owned()
    }

    /// The pod ends as Failed, or has: its phase says so when nothing of it runs any more.
    pub(crate) fn fails(&self) -> bool {
        self.context.lifecycle.failure_ground().is_some()
    }
}
