//! The object by which a pod is seen in the API: its own, or the mirror of a static pod.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::Client;
use rekindle_types::PodRef;

use super::coalescing_writer::Urgency;
use super::recovery::delete_object;
use super::status_writer::StatusWriter;
use crate::context::NodeContext;
use crate::static_pods::{MirrorKeeper, MirrorView};

/// Who asks for a pod.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// Its object in the API.
    Api,
    /// A manifest on this node; a mirror shows it in the API.
    File(MirrorView),
}

/// Whether the API still has the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existence {
    Exists,
    Vanished,
}

/// Where a pod's status goes.
pub(super) enum ShownBy {
    /// The pod's own object.
    Itself(StatusWriter),
    /// A mirror.
    Mirror(MirrorKeeper),
}

impl ShownBy {
    /// Begins to show a pod, which stands in the API as `pod`, or in its file.
    pub(super) fn start<R, N>(
        node: &NodeContext<R, N>,
        pod_ref: &PodRef,
        pod: &Arc<Pod>,
        source: Source,
    ) -> Self {
        let client = node.client.clone();
        match source {
            Source::Api => Self::Itself(StatusWriter::start(client, pod_ref.clone(), pod)),
            Source::File(mirror) => {
                Self::Mirror(MirrorKeeper::start(client, &node.name, pod.clone(), mirror))
            }
        }
    }

    /// Hands in a newer status.
    pub(super) fn submit(&self, status: Arc<PodStatus>, urgency: Urgency) {
        match self {
            Self::Itself(writer) => writer.submit(status, urgency),
            Self::Mirror(keeper) => keeper.submit(status, urgency),
        }
    }

    /// The UID of that object; none while no mirror is there.
    pub(super) fn uid(&self, pod: &PodRef) -> Option<String> {
        match self {
            Self::Itself(_) => Some(pod.uid.0.clone()),
            Self::Mirror(keeper) => keeper.uid(),
        }
    }

    /// The pod was seen as this; a mirror is seen by its keeper.
    pub(super) fn observe(&self, pod: &Pod) {
        match self {
            Self::Itself(writer) => writer.observe(pod),
            Self::Mirror(_) => {}
        }
    }

    /// Waits until the newest status stands in the API. Of a static pod nothing hangs on it: its
    /// file says what it is.
    pub(super) async fn flush(&mut self) {
        match self {
            Self::Itself(writer) => writer.flush().await,
            Self::Mirror(_) => {}
        }
    }

    /// The pod is over for good.
    pub(super) async fn delete_object(&self, client: &Client, pod: &PodRef, existence: Existence) {
        match (self, existence) {
            (Self::Itself(_), Existence::Exists) => delete_object(client, pod).await,
            (Self::Itself(_), Existence::Vanished) => {}
            // that the file is gone says nothing of the mirror
            (Self::Mirror(keeper), Existence::Exists | Existence::Vanished) => {
                keeper.delete().await
            }
        }
    }
}
