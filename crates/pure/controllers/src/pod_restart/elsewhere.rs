//! Whether a pod that is to leave its node has another one to go to.
//!
//! Asked of the pod that would come in its place: that one keeps away from the node that is left
//! and from those that the workload left before. A ladder does not send a pod back to one of these:
//! it would go round and round. A person who asks has decided that the pod leaves its node, and the
//! scheduler takes a node that is avoided rather than none: of a workload that is on every node,
//! every pod can be moved.

use rekindle_types::held::HeldPod;
use rekindle_types::v1alpha1::PodRestart;
use rekindle_types::{Tick, TickDuration};

use crate::avoidance::{self, Avoided};
use crate::{ClusterView, ViewObject, owners, pods, scheduler};

/// Why a request to move the pod finds no other node for it.
pub fn no_other_node(
    view: &ClusterView,
    restart: &PodRestart,
    pod: &HeldPod,
    now: Tick,
) -> Option<String> {
    let own = pods::node(pod).unwrap_or_default();
    let nobody_takes_it = format!("no node but {own} can take the pod");
    if let Err(refusal) = scheduler::best_node(view, pod, &[own]) {
        return Some(format!("{nobody_takes_it}: {refusal}"));
    }
    restart.spec.ladder_name.as_ref()?;
    let AvoidedOnly { avoided, others } = only_avoided(view, pod, now)?;
    let names: Vec<String> =
        avoided.iter().map(|(node, until)| format!("{node} (until {})", until.0)).collect();
    let others = others.map_or_else(String::new, |refusal| format!("; of the others {refusal}"));
    Some(format!("{nobody_takes_it} but such as are avoided: {}{others}", names.join(", ")))
}

/// Until when the node is avoided that the pod leaves, if that is to be until `until`: when only
/// nodes are left that are avoided, longer than any of these, or the pod would come back to it
/// first.
pub(super) fn avoided_until(view: &ClusterView, pod: &HeldPod, until: Tick, now: Tick) -> Tick {
    let rest = only_avoided(view, pod, now);
    let ends = rest.iter().flat_map(|rest| rest.avoided.values()).map(Tick::from);
    ends.max().map_or(until, |latest| until.max(latest + TickDuration::from_secs(1)))
}

/// No node takes the pod but its own and those that it keeps away from.
struct AvoidedOnly {
    avoided: Avoided,
    /// Why the others do not, if there are some.
    others: Option<String>,
}

fn only_avoided(view: &ClusterView, pod: &HeldPod, now: Tick) -> Option<AvoidedOnly> {
    let own = pods::node(pod).unwrap_or_default();
    let mut avoided = avoided_by_next(view, pod, now);
    avoided.retain(|node, _| node != own && view.node(node).is_some());
    let except: Vec<&str> = avoided.keys().map(String::as_str).chain([own]).collect();
    let refusal = scheduler::best_node(view, pod, &except).err()?;
    let others = (view.cluster().node_count() > except.len()).then_some(refusal);
    Some(AvoidedOnly { avoided, others })
}

/// What the pod that comes in this one's place keeps away from already.
fn avoided_by_next(view: &ClusterView, pod: &HeldPod, now: Tick) -> Avoided {
    if owners::controller_of(&pod.metadata).is_none() {
        let mut avoided = avoidance::nodes_avoided_by(pod);
        avoided.retain(|_, until| Tick::from(&*until) > now);
        return avoided;
    }
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let workload = owners::root_uid(view, &ViewObject::from(pod.clone()));
    avoidance::nodes_avoided_by_workload(view, namespace, &workload, now)
}
