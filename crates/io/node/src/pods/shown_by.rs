//! The object by which a pod is seen in the API: its own, or the mirror of a static pod.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use rekindle_pod_driver::{Existence, StatusToWrite};
use rekindle_types::PodRef;

use super::recovery::delete_object;
use super::status_writer::{StatusWriter, StatusWriting};
use crate::context::NodeContext;
use crate::static_pods::{MirrorKeeper, MirrorView};

/// Who asks for a pod.
#[derive(Clone, Debug)]
pub(crate) enum PodSource {
    /// Its object in the API.
    Api,
    /// A manifest on this node; a mirror shows it in the API.
    File(MirrorView),
}

/// Where a pod's status goes.
pub(super) enum StatusTarget {
    /// The pod's own object.
    Itself(Arc<StatusWriter>),
    /// A mirror.
    Mirror(MirrorKeeper),
}

impl StatusTarget {
    /// Begins to show a pod, which stands in the API as `pod`, or in its file.
    pub(super) fn start<R, N>(
        node: &NodeContext<R, N>,
        pod_ref: &PodRef,
        pod: &Arc<Pod>,
        source: PodSource,
    ) -> Self {
        let client = node.client.clone();
        match source {
            PodSource::Api => Self::Itself(StatusWriter::new(client, pod_ref.clone())),
            PodSource::File(mirror) => {
                Self::Mirror(MirrorKeeper::start(client, &node.name, pod.clone(), mirror))
            }
        }
    }

    /// Begins to write a status. A mirror's keeper has it at once, and writes it by itself.
    pub(super) fn write(&self, write: StatusToWrite) -> StatusWriting {
        match self {
            Self::Itself(writer) => writer.write(write),
            Self::Mirror(keeper) => {
                keeper.submit(write.status);
                StatusWriting::handed_on()
            }
        }
    }

    /// The UID of that object; none while no mirror is there.
    pub(super) fn uid(&self, pod: &PodRef) -> Option<String> {
        match self {
            Self::Itself(_) => Some(pod.uid.0.clone()),
            Self::Mirror(keeper) => keeper.uid(),
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
