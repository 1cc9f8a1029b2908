//! Nodes of a cluster that pods are moved away from. On an engine of ours the controllers write
//! the exclusion of such a node into new pods. Those of a cluster do not, so the node carries a
//! taint of effect PreferNoSchedule for as long: its scheduler takes another node if there is one.
//! Pure, as the controllers are.
//!
//! Requests count in enabled namespaces alone, and for 720 h since they were made at most. So the
//! right to write statuses of PodRestarts taints no node from elsewhere, and none for good.
//!
//! ```text
//!   a request of rung Reschedule ─► taint ─► eviction ─► … ─► nothing avoids the node ─► no taint
//! ```

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Taint};
use rekindle_controllers::plan::PatchTarget;
use rekindle_controllers::{
    ClusterView, NamespacedName, ObjectId, ResourceKind, ViewObject, WriteOperation, WritePlan,
    owners, pods,
};
use rekindle_types::taints::{PREFER_NO_SCHEDULE, node_taints};
use rekindle_types::v1alpha1::{AVOID_NODE_MAX, PodRestart, PodRestartPhase, Rung};
use rekindle_types::{Tick, TickDuration};
use serde_json::json;

use crate::planner_role::ClusterLadders;
use crate::restart_context::RestartContext;

/// The taint's key.
const AVOID_TAINT: &str = "rekindle.dev/avoid";
/// A request waits so long for the taint, and goes on without it then.
const TAINT_WAIT_MAX: TickDuration = TickDuration::from_secs(5);
/// How soon a request that has not begun is looked at again.
const LOOK_AGAIN: TickDuration = TickDuration::from_secs(60);

/// Puts the taint on a node that is avoided, and takes it off when nothing avoids it any more.
pub(crate) fn plan(context: &RestartContext<'_>, name: &str, now: Tick) -> WritePlan {
    let mut plan = WritePlan::default();
    let view = context.view;
    let (Some(cluster), Some(node)) = (context.role.cluster(), view.node(name)) else {
        return plan;
    };
    let avoided_until = avoided_until(view, cluster, name, now);
    if avoided_until.is_some() != is_tainted(node) {
        plan.then(patch(node, avoided_until.is_some()));
    }
    if let Some(until) = avoided_until {
        plan.look_again(until);
    }
    plan
}

/// Whether a request has to wait until its node carries the taint: the pod that comes in this one's
/// place may be scheduled in the moment of the eviction. It does not wait for long: the right to
/// taint nodes may be missing.
pub(crate) fn waits_for_taint(
    context: &RestartContext<'_>,
    restart: &PodRestart,
    now: Tick,
) -> bool {
    let view = context.view;
    let taints = context
        .role
        .cluster()
        .is_some_and(|cluster| cluster.taints_nodes && is_of_enabled(view, cluster, restart));
    // the API's clock may be ahead
    if !taints || now.abs_diff(created_at(restart, now)) > TAINT_WAIT_MAX {
        return false;
    }
    let node = node_left_by(view, restart).and_then(|node| view.node(node));
    node.is_some_and(|node| !is_tainted(node))
}

fn is_of_enabled(view: &ClusterView, cluster: &ClusterLadders, restart: &PodRestart) -> bool {
    cluster.enables(view, restart.metadata.namespace.as_deref().unwrap_or_default())
}

fn created_at(restart: &PodRestart, now: Tick) -> Tick {
    restart.metadata.creation_timestamp.as_ref().map_or(now, Tick::from)
}

/// The node that a request is about: the one that its pod leaves, or has left.
pub(crate) fn node_of<'a>(view: &'a ClusterView, restart: &'a PodRestart) -> Option<&'a str> {
    let replacement = restart.status.as_ref().and_then(|status| status.replacement.as_ref());
    let left = replacement.map(|replacement| replacement.node_name.as_str());
    left.or_else(|| node_left_by(view, restart))
}

/// The node of the pod that a request of rung Reschedule is to move, if its controller makes the
/// next one. A pod without a controller has the exclusion in its own spec.
fn node_left_by<'a>(view: &'a ClusterView, restart: &PodRestart) -> Option<&'a str> {
    if restart.spec.rung() != Rung::Reschedule {
        return None;
    }
    let namespace = restart.metadata.namespace.as_deref().unwrap_or_default();
    let pod = view.pod(&NamespacedName::new(namespace, restart.spec.pod_name.as_str()))?;
    owners::controller_of(&pod.metadata).and_then(|_| pods::node(pod))
}

/// Until when a node is avoided, as far as requests say.
fn avoided_until(
    view: &ClusterView,
    cluster: &ClusterLadders,
    node: &str,
    now: Tick,
) -> Option<Tick> {
    let requests = view.of_kind(ResourceKind::PodRestart).filter_map(|(_, object)| match object {
        ViewObject::PodRestart(restart) => Some(restart.as_ref()),
        _ => None,
    });
    let requests = requests.filter(|restart| is_of_enabled(view, cluster, restart));
    requests.filter_map(|restart| avoids_until(view, restart, node, now)).max()
}

fn avoids_until(view: &ClusterView, restart: &PodRestart, node: &str, now: Tick) -> Option<Tick> {
    let status = restart.status.as_ref();
    let replacement = status.and_then(|status| status.replacement.as_ref());
    let avoided = replacement
        .filter(|replacement| replacement.node_name == node && replacement.workload_uid.is_some())
        .and_then(|replacement| replacement.avoid_node_until.as_ref())
        .map(Tick::from);
    let is_over = status.and_then(|status| status.phase).is_some_and(PodRestartPhase::is_final);
    let is_to_begin = !is_over && avoided.is_none() && node_left_by(view, restart) == Some(node);
    let until = avoided.or_else(|| is_to_begin.then(|| now + LOOK_AGAIN))?;
    Some(until.min(created_at(restart, now) + AVOID_NODE_MAX)).filter(|until| *until > now)
}

fn is_tainted(node: &Node) -> bool {
    node_taints(node).iter().any(|taint| taint.key == AVOID_TAINT)
}

/// A list is replaced as a whole, so no other writer may have changed it.
fn patch(node: &Arc<Node>, is_avoided: bool) -> WriteOperation {
    let mut taints: Vec<Taint> =
        node_taints(node).iter().filter(|taint| taint.key != AVOID_TAINT).cloned().collect();
    if is_avoided {
        let (key, effect) = (AVOID_TAINT.to_owned(), PREFER_NO_SCHEDULE.to_owned());
        taints.push(Taint { key, effect, ..Taint::default() });
    }
    let patch = json!({
        "metadata": {
            "uid": node.metadata.uid,
            "resourceVersion": node.metadata.resource_version,
        },
        "spec": {"taints": taints},
    });
    let name = NamespacedName::new("", node.metadata.name.as_deref().unwrap_or_default());
    WriteOperation::Patch {
        id: ObjectId::new(ResourceKind::Node, name),
        part: PatchTarget::Whole,
        patch,
    }
}
