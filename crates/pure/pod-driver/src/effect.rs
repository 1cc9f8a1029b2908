//! What the driver has its loop carry out.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PodStatus;
use rekindle_pod::{ActionId, CoreAction, Journal, PodEvent, ResourceRequest, RestartReport};

use crate::status_queue::StatusToWrite;

/// One thing to do.
#[derive(Clone, Debug)]
pub enum PodEffect {
    /// Write this journal so that it survives kill -9 of the agent. Then say
    /// [`journal_written`](crate::PodDriver::journal_written) or
    /// [`journal_failed`](crate::PodDriver::journal_failed): no effect follows before that.
    Persist(Arc<Journal>),
    /// Begin this action of the runtime. Its one answer is `CoreEvent::ActionResult`.
    Perform(ActionId, CoreAction),
    /// Keep new connections away from the pod: it is [ending](rekindle_pod::PodCore::is_ending), or
    /// containers of it are restarted. When no rule leads there any more, say
    /// [`endpoints_withdrawn`](crate::PodDriver::endpoints_withdrawn). What ends containers waits
    /// for that, but not for ever.
    WithdrawEndpoints,
    /// The pod is ready: new connections may come again, also where a slice says that it is not.
    /// Not answered.
    AdmitEndpoints,
    /// The pod is not ready: no new connection is to come, whatever slices say. Not answered.
    ExcludeEndpoints(NotReadyCause),
    /// Let the actions under way go as far as they can without waiting, and give their answers to
    /// the driver. A status is told after that, so a start does not wait for it.
    Advance,
    /// Ask the node for resources. It answers with `CoreEvent::ResourcesDecided`.
    RequestResources(Box<ResourceRequest>),
    /// This is the pod's newest status, for those who ask this node.
    Show(Arc<PodStatus>),
    /// Write a status to the API. Its one answer is
    /// [`status_answered`](crate::PodDriver::status_answered).
    WriteStatus(StatusToWrite),
    /// Record an Event on the pod.
    Record(PodEvent),
    /// Tell how a restart request goes.
    ReportRestart(RestartReport),
    /// Nothing of the pod is left but its volumes and its journal: see
    /// [`CoreReport::Finish`](rekindle_pod::CoreReport::Finish). The
    /// journal is kept until [`is_status_settled`](crate::PodDriver::is_status_settled).
    Finish,
}

/// Why a pod that is to serve does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotReadyCause {
    /// A container has ended by itself, and the node starts it again.
    ContainerDown,
    /// Its containers run and are not ready, or it has not begun, or it is over.
    Unready,
}

/// Whether the API still has the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existence {
    /// It has.
    Exists,
    /// The object is gone, and the node has not ended the pod.
    Vanished,
}

/// What a pod does when its journal cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalFailure {
    /// It waits, and the journal is tried again. Only what ends the containers of a pod that is
    /// over goes on.
    Waits,
    /// The node stops, and the pod does not wait: the next agent starts from the journal on disk.
    GoesOn,
}
