//! SupersededGoal → granted: the pod asks its node, and hears what it says.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rekindle_types::resources::{DEFERRED, INFEASIBLE};

use super::{LimitProgress, Resize, ResizeRefusal, texts};
use crate::action::{CoreReport, ResourceRequest};
use crate::backoff::RetriedTask;
use crate::event::ResourceDecision;
use crate::outbox::Outbox;

impl Resize {
    /// Asks for what is wanted, or takes back what was asked for.
    pub(crate) fn ask(&mut self, pod: &Arc<Pod>, outbox: &mut Outbox) {
        let is_granted = self.wanted.same_amounts(&self.granted);
        if self.open_ticket.is_some() != is_granted {
            return; // asked for already, or nothing to ask for
        }
        self.tickets += 1;
        let ticket = self.tickets;
        if is_granted {
            // What was asked for is not wanted any more; the node is told, too.
            self.open_ticket = None;
            self.refusal = None;
        } else {
            self.open_ticket = Some(ticket);
        }
        let (held, wanted) = (self.granted.requests(pod), self.wanted.requests(pod));
        let request = ResourceRequest { ticket, held, wanted };
        outbox.note(CoreReport::RequestResources(Box::new(request)));
    }

    /// The object changed. If it wants something else than it did, what was asked for before is
    /// asked for no more.
    pub(crate) fn observe(&mut self, pod: &Arc<Pod>) {
        let before = std::mem::replace(&mut self.wanted, self.granted.or_wanted_by(pod));
        self.granted_pod = self.granted.in_place_of(&self.wanted, pod);
        match (self.wanted.same_amounts(&self.granted), self.open_ticket) {
            (true, None) => self.refusal = None,
            // what is open is taken back
            (true, Some(_)) => {}
            (false, _) if before.same_amounts(&self.wanted) => {}
            (false, _) => self.open_ticket = None,
        }
    }

    /// The node's word on a request; on an earlier one it changes nothing.
    pub(crate) fn decided(
        &mut self,
        ticket: u64,
        decision: ResourceDecision,
        pod: &Arc<Pod>,
        outbox: &mut Outbox,
    ) {
        if self.open_ticket != Some(ticket) {
            return;
        }
        let (reason, message) = match decision {
            ResourceDecision::Granted => return self.were_granted(pod, outbox),
            ResourceDecision::Deferred { message } => (DEFERRED, message),
            ResourceDecision::Infeasible { message } => (INFEASIBLE, message),
        };
        let generation = self.wanted.generation;
        let is_known =
            |before: &ResizeRefusal| before.reason == reason && before.generation == generation;
        if !self.refusal.as_ref().is_some_and(is_known) {
            outbox.emit(texts::refused(pod, reason, &message, generation));
        }
        self.refusal = Some(ResizeRefusal { reason, message, generation });
    }

    fn were_granted(&mut self, pod: &Arc<Pod>, outbox: &mut Outbox) {
        self.granted = self.wanted.clone();
        self.granted_pod = pod.clone();
        self.open_ticket = None;
        self.refusal = None;
        self.progress = LimitProgress::Raise(RetriedTask::due());
        self.error = None;
        outbox.emit(texts::started(pod, self.granted.generation));
    }
}
