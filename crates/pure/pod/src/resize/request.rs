//! Wanted → granted: the pod asks its node, and hears what it says.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rekindle_types::resources::{DEFERRED, INFEASIBLE};

use super::{Progress, Refusal, Resize, texts};
use crate::action::{CoreReport, ResourceRequest};
use crate::backoff::Task;
use crate::core::{Keep, PodCore};
use crate::event::ResourceDecision;

impl PodCore {
    /// Asks for what is wanted, or takes back what was asked for.
    pub(super) fn ask_for_resources(&mut self) {
        let resize = &mut self.resize;
        let is_granted = resize.wanted.same_amounts(&resize.granted);
        if resize.open_ticket.is_some() != is_granted {
            return; // asked for already, or nothing to ask for
        }
        resize.tickets += 1;
        let ticket = resize.tickets;
        if is_granted {
            // Nobody wants any more what was asked for; the node is told, too.
            resize.open_ticket = None;
            resize.refusal = None;
        } else {
            resize.open_ticket = Some(ticket);
        }
        let request = ResourceRequest {
            ticket,
            held: resize.granted.requests(&self.pod),
            wanted: resize.wanted.requests(&self.pod),
        };
        self.outbox.note(CoreReport::RequestResources(Box::new(request)));
        self.status_changed = true;
        self.moved = true;
    }

    /// The spec wants something else than it did: what was asked for before is asked for no more.
    pub(crate) fn resources_wanted_anew(&mut self, pod: &Arc<Pod>) {
        let before = self.resize.wanted.clone();
        self.resize.observe(pod);
        let Resize { wanted, granted, open_ticket, refusal, .. } = &mut self.resize;
        match (wanted.same_amounts(granted), *open_ticket) {
            (true, None) => *refusal = None,
            // what is open is taken back
            (true, Some(_)) => {}
            (false, _) if before.same_amounts(wanted) => {}
            (false, _) => *open_ticket = None,
        }
    }

    /// The node's word on a request; on an earlier one it changes nothing.
    pub(crate) fn resources_decided(&mut self, ticket: u64, decision: ResourceDecision) {
        if self.resize.open_ticket != Some(ticket) {
            return;
        }
        let (reason, message) = match decision {
            ResourceDecision::Granted => return self.resources_granted(),
            ResourceDecision::Deferred { message } => (DEFERRED, message),
            ResourceDecision::Infeasible { message } => (INFEASIBLE, message),
        };
        let generation = self.resize.wanted.generation;
        let is_known =
            |before: &Refusal| before.reason == reason && before.generation == generation;
        if !self.resize.refusal.as_ref().is_some_and(is_known) {
            let event = texts::refused(&self.pod, reason, &message, generation);
            self.emit(event);
        }
        self.resize.refusal = Some(Refusal { reason, message, generation });
        self.status_changed = true;
    }

    fn resources_granted(&mut self) {
        let resize = &mut self.resize;
        resize.granted = resize.wanted.clone();
        resize.granted_pod = self.pod.clone();
        resize.open_ticket = None;
        resize.refusal = None;
        resize.progress = Progress::Raise(Task::due());
        resize.error = None;
        let event = texts::started(&self.pod, resize.granted.generation);
        self.emit(event);
        self.status_changed = true;
        self.keep(Keep::Now);
        self.moved = true;
    }
}
