//! Wanted → granted: the pod asks its node, and hears what it says.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rekindle_types::resources::{DEFERRED, INFEASIBLE};

use super::{Progress, Refusal, Request, texts};
use crate::action::{Action, ResourceRequest};
use crate::backoff::Task;
use crate::core::{Keep, PodCore};
use crate::event::ResourceDecision;

impl PodCore {
    /// Asks for what is wanted, or takes back what was asked for.
    pub(super) fn ask_for_resources(&mut self) {
        let resize = &mut self.resize;
        let is_granted = resize.wanted.same_amounts(&resize.granted);
        let asks = match (&resize.request, is_granted) {
            (Request::None, true) | (Request::Asked { .. } | Request::Refused { .. }, false) => {
                return;
            }
            (Request::None, false) => true,
            // Nobody wants any more what was asked for; the node is told, too.
            (Request::Asked { .. } | Request::Refused { .. }, true) => false,
        };
        resize.tickets += 1;
        let ticket = resize.tickets;
        resize.request = if asks { Request::Asked { ticket } } else { Request::None };
        let request = ResourceRequest {
            ticket,
            held: resize.granted.requests(&self.pod),
            wanted: resize.wanted.requests(&self.pod),
        };
        self.outbox.note(Action::RequestResources(Box::new(request)));
        self.status_changed = true;
        self.moved = true;
    }

    /// The spec wants something else than it did: what was asked for before is asked for no more.
    pub(crate) fn resources_wanted_anew(&mut self, pod: &Arc<Pod>) {
        let before = std::mem::take(&mut self.resize.wanted);
        self.resize.observe(pod);
        if !before.same_amounts(&self.resize.wanted) {
            match self.resize.request {
                Request::None => {}
                Request::Asked { .. } | Request::Refused { .. }
                    if self.resize.wanted.same_amounts(&self.resize.granted) => {}
                Request::Asked { .. } | Request::Refused { .. } => {
                    self.resize.request = Request::None;
                }
            }
        }
    }

    /// The node's word on a request; on an earlier one it changes nothing.
    pub(crate) fn resources_decided(&mut self, ticket: u64, decision: ResourceDecision) {
        let (asked, before) = match &self.resize.request {
            Request::None => return,
            Request::Asked { ticket } => (*ticket, None),
            Request::Refused { ticket, refusal } => (*ticket, Some(refusal)),
        };
        if asked != ticket {
            return;
        }
        let (reason, message) = match decision {
            ResourceDecision::Granted => return self.resources_granted(),
            ResourceDecision::Deferred { message } => (DEFERRED, message),
            ResourceDecision::Infeasible { message } => (INFEASIBLE, message),
        };
        let is_news = before.is_none_or(|before| before.reason != reason);
        let generation = self.resize.wanted.generation;
        if is_news {
            let event = texts::refused(&self.pod, reason, &message, generation);
            self.emit(event);
        }
        let refusal = Refusal { reason, message, generation };
        self.resize.request = Request::Refused { ticket, refusal };
        self.status_changed = true;
    }

    fn resources_granted(&mut self) {
        let resize = &mut self.resize;
        resize.granted = resize.wanted.clone();
        resize.granted_pod = self.pod.clone();
        resize.request = Request::None;
        resize.progress = Progress::Raise(Task::due());
        resize.error = None;
        let event = texts::started(&self.pod, resize.granted.generation);
        self.emit(event);
        self.status_changed = true;
        self.keep(Keep::Now);
        self.moved = true;
    }
}
