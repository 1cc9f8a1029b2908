//! Whether labels and taints of the node let a pod in. The scheduler heeds them, but not whoever
//! writes `spec.nodeName` himself. Source: kubelet, `pkg/kubelet/lifecycle/predicate.go`.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, Client};
use rekindle_pod::{EvictionCause, PodEviction};
use rekindle_types::reasons::pod::AdmissionRefusal;
use rekindle_types::taints::{NO_EXECUTE, is_tolerated, node_taints, tolerations};
use rekindle_types::{TickDuration, avoided_nodes, node_affinity};

use super::shown_by::PodSource;

/// How long the API may take to show the node.
const ANSWER: Duration = Duration::from_secs(5);

/// Why a pod is kept away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlacementMismatch {
    Labels,
    Taint,
}

impl PlacementMismatch {
    /// By its labels or taints the node is none for this pod. Taints do not keep static pods away.
    fn find(pod: &Pod, node: &Node, source: &PodSource) -> Option<Self> {
        // a node that the pod keeps away from is chosen by the scheduler when there is no other
        if !node_affinity::matches(&*as_if_nothing_were_avoided(pod), node) {
            return Some(Self::Labels);
        }
        let mut taints = node_taints(node).iter().filter(|taint| taint.effect == NO_EXECUTE);
        match source {
            PodSource::Api if taints.any(|taint| !is_tolerated(tolerations(pod), taint)) => {
                Some(Self::Taint)
            }
            PodSource::Api | PodSource::File(_) => None,
        }
    }

    fn refusal(self) -> PodEviction {
        let (refusal, why) = match self {
            Self::Labels => (
                AdmissionRefusal::NodeAffinity,
                "node(s) didn't match Pod's node affinity/selector",
            ),
            Self::Taint => (
                AdmissionRefusal::TaintToleration,
                "node(s) had taints that the pod didn't tolerate",
            ),
        };
        PodEviction {
            cause: EvictionCause::NotAdmitted { refusal },
            message: format!("Predicate {} failed: {why}", refusal.as_str()),
            grace: TickDuration::ZERO,
        }
    }
}

fn as_if_nothing_were_avoided(pod: &Pod) -> Cow<'_, Pod> {
    if avoided_nodes::nodes_avoided_by(pod).is_empty() {
        Cow::Borrowed(pod)
    } else {
        Cow::Owned(avoided_nodes::without_exclusions(pod.clone()))
    }
}

/// Whether the node must be looked at before the pod is taken up: it asks for labels, or what is
/// `known` of the node's taints is against it. A taint that is newer than that ends the pod as it
/// ends those that run.
pub(super) fn is_in_question(pod: &Pod, known: Option<&Node>, source: &PodSource) -> bool {
    let is_misplaced = |node: &Node| PlacementMismatch::find(pod, node, source).is_some();
    node_affinity::asks_for_labels(pod) || known.is_some_and(is_misplaced)
}

/// Looks at the node, and says why the pod is not taken up, if it is not. An API that does not
/// answer lets count what is `known`.
pub(super) async fn refusal(
    client: &Client,
    name: &str,
    pod: &Pod,
    known: Option<Arc<Node>>,
    source: &PodSource,
) -> Option<PodEviction> {
    let nodes: Api<Node> = Api::all(client.clone());
    let node = match tokio::time::timeout(ANSWER, nodes.get(name)).await {
        Ok(Ok(node)) => Arc::new(node),
        Ok(Err(_)) | Err(_) => known?,
    };
    PlacementMismatch::find(pod, &node, source).map(PlacementMismatch::refusal)
}
