//! What the pods of this node have of its resources: [`NodeAllocations`] decides, and each pod's
//! worker is told.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use rekindle_pod::ResourceRequest;
use rekindle_pod::room::{NodeAllocations, Rank, ResourceNotice};
use rekindle_types::resources::{Amounts, ResourceList};
use rekindle_types::{PodUid, Quantity};
use tokio::sync::mpsc::UnboundedSender;

use super::inbox::WorkerInput;

/// Shared by all pods of the node.
pub(crate) struct NodeRoom(Mutex<NodeRoomState>);

struct NodeRoomState {
    room: NodeAllocations,
    inboxes: BTreeMap<PodUid, UnboundedSender<WorkerInput>>,
}

impl NodeRoomState {
    fn tell(&self, notices: Vec<ResourceNotice>) {
        for ResourceNotice { pod, ticket, decision } in notices {
            tracing::debug!(%pod, ?decision, "a request for resources");
            let told = self
                .inboxes
                .get(&pod)
                .map(|inbox| inbox.send(WorkerInput::Resources { ticket, decision }));
            if !matches!(told, Some(Ok(()))) {
                tracing::debug!(%pod, "a pod's worker has ended already");
            }
        }
    }
}

impl NodeRoom {
    /// A node that can give so much.
    pub(crate) fn new(allocatable: &BTreeMap<String, Quantity>) -> Self {
        let list: ResourceList = allocatable
            .iter()
            .map(|(name, amount)| (name.clone(), ApiQuantity(amount.to_string())))
            .collect();
        let room = NodeAllocations::new(Amounts::read(Some(&list)));
        Self(Mutex::new(NodeRoomState { room, inboxes: BTreeMap::new() }))
    }

    fn inner(&self) -> MutexGuard<'_, NodeRoomState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker for this pod is started, and listens here.
    pub(crate) fn expect(&self, pod: PodUid, inbox: UnboundedSender<WorkerInput>) {
        let mut inner = self.inner();
        inner.room.expect(pod.clone());
        inner.inboxes.insert(pod, inbox);
    }

    /// Every pod that was here before is expected.
    pub(crate) fn listed(&self) {
        let mut inner = self.inner();
        let notices = inner.room.listed();
        inner.tell(notices);
    }

    /// What a pod has been granted.
    pub(crate) fn hold(&self, pod: &PodUid, granted: Amounts, rank: Rank) {
        let mut inner = self.inner();
        let notices = inner.room.hold(pod.clone(), granted, rank);
        inner.tell(notices);
    }

    /// A pod asks for something else.
    pub(crate) fn request(&self, pod: &PodUid, request: ResourceRequest, rank: Rank) {
        let mut inner = self.inner();
        let notices = inner.room.request(pod, request, rank);
        inner.tell(notices);
    }

    /// A pod is over.
    pub(crate) fn release(&self, pod: &PodUid) {
        let mut inner = self.inner();
        inner.inboxes.remove(pod);
        let notices = inner.room.release(pod);
        inner.tell(notices);
    }
}
