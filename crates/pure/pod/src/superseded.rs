//! Requests whose place another restart took before they were done: a later request, or a restart
//! rule.
//!
//! What takes the place of a request never leaves out what that one had begun, so each of them
//! still gets what it asked for, by another's hand. It stays Running until that is so and has
//! Succeeded then; it ends with the pod, if that comes first.

use rekindle_types::v1alpha1::PodRestartPhase;

use crate::core::{Keep, PodCore};
use crate::event::RestartRequest;
use crate::journal::{
    RestartCause, RestartRecord, RestartStage, SUPERSEDED_MAX, SupersededRestart, Targets, Wanted,
};
use crate::texts;

impl PodCore {
    /// The restart in progress, if there is one, gives way to another one.
    pub(crate) fn supersede(&mut self, by: &str) {
        let Some(restart) = self.restart.take() else { return };
        let RestartRecord { cause, stage, since } = restart;
        self.keep(Keep::Now);
        self.status_changed = true;
        self.moved = true;
        let request = match cause {
            RestartCause::Asked { request } => request,
            RestartCause::Rule { .. } => return, // nobody asked
        };
        let wanted = match stage {
            // nothing takes its place: it refuses other requests, and no rule is asked meanwhile
            RestartStage::Stopping { .. } => return self.fail_superseded(request, by),
            RestartStage::Starting => Wanted::AllRunning,
            RestartStage::Cycling { targets, .. } => {
                Wanted::Restarted { targets: own(&request, targets) }
            }
        };
        if self.superseded.len() == SUPERSEDED_MAX {
            let oldest = self.superseded.remove(0);
            self.fail_superseded(oldest.request, &oldest.by);
        }
        let message = texts::superseded(by);
        self.report(request.id.clone(), PodRestartPhase::Running, message, self.now);
        self.superseded.push(SupersededRestart { request, wanted, by: by.to_owned(), since });
    }

    fn fail_superseded(&mut self, request: RestartRequest, by: &str) {
        let message = format!("superseded by {by} before all containers were running");
        self.conclude_request(request.id, PodRestartPhase::Failed, message);
    }

    /// Those that have what they asked for have succeeded.
    pub(crate) fn settle_superseded(&mut self) {
        match self.restart.as_ref().map(|restart| &restart.stage) {
            // what runs now is about to end
            Some(RestartStage::Stopping { .. }) => return,
            Some(RestartStage::Starting | RestartStage::Cycling { .. }) | None => {}
        }
        let all = std::mem::take(&mut self.superseded);
        let (done, left) = all.into_iter().partition(|restart| self.is_so(&restart.wanted));
        self.superseded = left;
        for SupersededRestart { request, by, .. } in done {
            let message = texts::done_by(&request, &by);
            let event = texts::restarted(&request, self.named(&request), &message);
            self.emit(event);
            self.conclude_request(request.id, PodRestartPhase::Succeeded, message);
            self.moved = true;
        }
    }

    fn is_so(&self, wanted: &Wanted) -> bool {
        match wanted {
            Wanted::AllRunning => self.all_run_again(),
            Wanted::Restarted { targets } => self
                .containers
                .iter()
                .filter_map(|container| Some((container, targets.get(&container.definition.name)?)))
                .all(|(container, target)| container.runs_later_than(*target)),
        }
    }

    /// The pod is over: so are they.
    pub(crate) fn conclude_superseded(&mut self, phase: PodRestartPhase, message: &str) {
        for SupersededRestart { request, .. } in std::mem::take(&mut self.superseded) {
            self.conclude_request(request.id, phase, message.to_owned());
        }
    }
}

/// Without what a request that names one container had taken over from those before it.
fn own(request: &RestartRequest, mut targets: Targets) -> Targets {
    if let Some(named) = &request.container {
        targets.retain(|name, _| name == named);
    }
    targets
}
