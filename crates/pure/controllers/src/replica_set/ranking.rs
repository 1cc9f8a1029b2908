//! Which pods go first when there are too many.
//!
//! Source: upstream's `ActivePodsWithRanks`. The first rule that tells two pods apart decides: not
//! bound to a node before bound; Pending before Unknown before Running; not ready before ready;
//! lower `controller.kubernetes.io/pod-deletion-cost` first; on the node with more pods of the same
//! owner first; ready for a shorter time first; more restarts first; younger first. Times are
//! compared by magnitude (`LogarithmicScaleDown`), so that a second's difference does not decide.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use rekindle_types::Tick;
use rekindle_types::held::HeldPod;
use rekindle_types::pod_annotations::deletion_cost;

use crate::{ClusterView, owners, pods};

/// The `count` pods that go first.
pub(super) fn least_valuable<'a>(
    view: &ClusterView,
    rs: &ReplicaSet,
    active: &[&'a Arc<HeldPod>],
    count: usize,
    now: Tick,
) -> Vec<&'a Arc<HeldPod>> {
    if count >= active.len() {
        return active.to_vec();
    }
    let crowd = crowd_by_node(view, rs);
    let mut ranked: Vec<&Arc<HeldPod>> = active.to_vec();
    ranked.sort_by_cached_key(|pod| rank(pod, &crowd, now));
    ranked.truncate(count);
    ranked
}

/// The smaller, the sooner it goes.
type Rank = (bool, u8, bool, i32, Reverse<usize>, u32, Reverse<i32>, u32, String);

fn rank(pod: &HeldPod, crowd: &BTreeMap<&str, usize>, now: Tick) -> Rank {
    let node = pods::node(pod);
    let ready = pods::condition(pod, "Ready").filter(|c| c.status == "True");
    let ready_age =
        ready.and_then(|c| c.last_transition_time.as_ref()).map_or(0, |at| magnitude(at, now));
    let age = pod.metadata.creation_timestamp.as_ref().map_or(0, |at| magnitude(at, now));
    (
        node.is_some(),
        match pods::phase(pod) {
            "Pending" | "" => 0,
            "Unknown" => 1,
            _ => 2,
        },
        ready.is_some(),
        deletion_cost(pod.metadata.annotations.as_ref()).unwrap_or_default(),
        Reverse(node.and_then(|node| crowd.get(node).copied()).unwrap_or(0)),
        ready_age,
        Reverse(pods::restarts(pod)),
        age,
        // Last, the UID: the same pods are chosen again when the answer to a delete was lost.
        pod.metadata.uid.clone().unwrap_or_default(),
    )
}

/// How long ago, by powers of two of nanoseconds as upstream; 0 for just now.
fn magnitude(at: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Time, now: Tick) -> u32 {
    let nanos = u128::from(now.since(Tick::from(at)).as_micros()) * 1000;
    u128::BITS - nanos.leading_zeros()
}

/// Active pods per node, over all ReplicaSets of the same owner.
fn crowd_by_node<'a>(view: &'a ClusterView, rs: &'a ReplicaSet) -> BTreeMap<&'a str, usize> {
    let mut crowd = BTreeMap::new();
    let own_uid = rs.metadata.uid.as_deref().unwrap_or_default();
    let siblings: Vec<&str> = match owners::controller_of(&rs.metadata) {
        Some(owner) => view
            .replica_sets_of(&owner.uid)
            .filter_map(|sibling| sibling.metadata.uid.as_deref())
            .collect(),
        None => vec![own_uid],
    };
    for uid in siblings {
        for pod in view.pods_of(uid).filter(|pod| pods::is_active(pod)) {
            if let Some(node) = pods::node(pod) {
                *crowd.entry(node).or_insert(0) += 1;
            }
        }
    }
    crowd
}
