//! What a planner runs: all of an engine of ours, a part of it, or ladders alone on a cluster that
//! has controllers, a scheduler and kubelets of its own. Pure, as the controllers are.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_controllers::{
    ClusterView, ControllerKey, NamespacedName, ObjectChange, ResourceKind, ViewObject, pods,
};
use rekindle_ladder::{InPlaceSupport, LadderAuthority, LadderMode};
use rekindle_types::held::HeldPod;
use rekindle_types::pods::AnyPod;
use rekindle_types::spared_pods::SYSTEM_NAMESPACE;
use rekindle_types::v1alpha1::LadderScope;

use crate::watched;
use crate::work::WorkItem;

/// The label that opts a namespace of a cluster in, and its value.
pub const LADDER_LABEL: &str = "rekindle.dev/ladder";
/// See [`LADDER_LABEL`].
pub const LADDER_LABEL_ENABLED: &str = "enabled";
/// The label of an agent's pod, in the operator's namespace: where such a pod is ready, its node
/// can restart pods in place.
pub const AGENT_LABEL: &str = "rekindle.dev/component";
/// See [`AGENT_LABEL`].
pub const AGENT_LABEL_VALUE: &str = "agent";
/// The label of an agent's pod that sees cgroups: it can hold back the pods of a group.
pub const FREEZES_PODS_LABEL: &str = "rekindle.dev/freezes-pods";
/// See [`FREEZES_PODS_LABEL`].
pub const FREEZES_PODS_LABEL_VALUE: &str = "true";

/// What a planner runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PlannerRole {
    /// The controllers, the scheduler and the ladders of an engine of ours.
    #[default]
    Engine,
    /// The same without the ladders, which run in another process.
    EngineWithoutLadders,
    /// Ladders alone, on a cluster that is not ours.
    Cluster(ClusterLadders),
}

/// How ladders run on a cluster that is not ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterLadders {
    /// Whether decisions are carried out.
    pub mode: LadderMode,
    /// The namespace that the operator itself runs in; its pods are never restarted.
    pub own_namespace: String,
    /// Whether a node that a pod is moved away from gets a taint of effect PreferNoSchedule for a
    /// while; it needs a right.
    pub taints_nodes: bool,
}

/// What is watched on a cluster: what ladders read, and nothing that holds secrets.
const CLUSTER_KINDS: [ResourceKind; 17] = [
    ResourceKind::Namespace,
    ResourceKind::Node,
    ResourceKind::Pod,
    ResourceKind::ReplicaSet,
    ResourceKind::Deployment,
    ResourceKind::StatefulSet,
    ResourceKind::DaemonSet,
    ResourceKind::ReplicationController,
    ResourceKind::Job,
    ResourceKind::CronJob,
    ResourceKind::PodDisruptionBudget,
    ResourceKind::PersistentVolumeClaim,
    ResourceKind::PersistentVolume,
    ResourceKind::StorageClass,
    ResourceKind::RestartLadder,
    ResourceKind::PodRestart,
    ResourceKind::RestartLedger,
];

impl PlannerRole {
    /// The kinds that are watched.
    pub fn kinds(&self) -> Vec<ResourceKind> {
        match self {
            PlannerRole::Engine | PlannerRole::EngineWithoutLadders => watched::kinds().collect(),
            PlannerRole::Cluster(_) => CLUSTER_KINDS.to_vec(),
        }
    }

    /// Whether a work is this planner's.
    pub(crate) fn runs(&self, work: &WorkItem) -> bool {
        match self {
            PlannerRole::Engine => !matches!(work, WorkItem::AvoidedNode(_)),
            PlannerRole::EngineWithoutLadders => !is_of_ladders(work),
            PlannerRole::Cluster(ladders) => match work {
                WorkItem::Climb(_)
                | WorkItem::OldLedger(_)
                | WorkItem::Controller(ControllerKey::PodRestart(_) | ControllerKey::Doubt(_)) => {
                    true
                }
                // these write to a RestartLadder and to a ReplicaSet
                WorkItem::LadderStatus(_) | WorkItem::Revision(_) => {
                    ladders.mode == LadderMode::Act
                }
                WorkItem::AvoidedNode(_) => ladders.mode == LadderMode::Act && ladders.taints_nodes,
                WorkItem::Controller(_) => false,
            },
        }
    }

    /// Whether decisions are carried out.
    pub(crate) fn mode(&self) -> LadderMode {
        self.cluster().map_or(LadderMode::Act, |ladders| ladders.mode)
    }

    /// What may be done for a pod of this node. On a cluster that depends on an agent there.
    pub(crate) fn authority(&self, view: &ClusterView, node: Option<&str>) -> LadderAuthority {
        let in_place = match self.cluster() {
            None => InPlaceSupport::Available,
            Some(ladders) if node.is_some_and(|node| ladders.has_agent(view, node)) => {
                InPlaceSupport::Available
            }
            Some(_) => InPlaceSupport::NoAgent,
        };
        LadderAuthority { mode: self.mode(), in_place }
    }

    /// What may be done for a group of pods. On a cluster that depends on agents beside all of
    /// them, which hold back what has stopped.
    pub(crate) fn group_authority(
        &self,
        view: &ClusterView,
        group: &[&HeldPod],
    ) -> LadderAuthority {
        let in_place = match self.cluster() {
            None => InPlaceSupport::Available,
            Some(ladders) => match ladders.not_held_back(view, group.iter().copied()).next() {
                None => InPlaceSupport::WholePods,
                Some(_) => InPlaceSupport::NoAgent,
            },
        };
        LadderAuthority { mode: self.mode(), in_place }
    }

    /// Whether any pod, or any group, can be restarted in place.
    pub(crate) fn in_place_anywhere(
        &self,
        view: &ClusterView,
        scope: LadderScope,
    ) -> InPlaceSupport {
        let Some(ladders) = self.cluster() else { return InPlaceSupport::Available };
        let mut agents = ladders.agents(view);
        match scope {
            LadderScope::Pod if agents.next().is_some() => InPlaceSupport::Available,
            LadderScope::Group if agents.any(freezes_pods) => InPlaceSupport::WholePods,
            LadderScope::Pod | LadderScope::Group => InPlaceSupport::NoAgent,
        }
    }

    /// How ladders run on a cluster; none on an engine of ours.
    pub(crate) fn cluster(&self) -> Option<&ClusterLadders> {
        match self {
            PlannerRole::Engine | PlannerRole::EngineWithoutLadders => None,
            PlannerRole::Cluster(ladders) => Some(ladders),
        }
    }

    /// Why nothing is done in a namespace; none where ladders are at work.
    pub(crate) fn why_not_enabled(&self, view: &ClusterView, namespace: &str) -> Option<String> {
        let ladders = self.cluster().filter(|ladders| !ladders.enables(view, namespace))?;
        Some(if namespace == SYSTEM_NAMESPACE {
            format!("ladders never act in namespace {namespace}")
        } else if namespace == ladders.own_namespace {
            format!("ladders never act in namespace {namespace}, which is the operator's")
        } else {
            format!(
                "namespace {namespace} is not enabled: kubectl label namespace {namespace} {LADDER_LABEL}={LADDER_LABEL_ENABLED}"
            )
        })
    }
}

impl ClusterLadders {
    /// Whether ladders are never at work in a namespace, whatever its labels say.
    pub(crate) fn excludes(&self, namespace: &str) -> bool {
        namespace == SYSTEM_NAMESPACE || namespace == self.own_namespace
    }

    /// Whether an agent on this node takes PodRestarts up. Only a pod of the operator's own
    /// namespace is believed: others may label theirs as they like.
    pub(crate) fn has_agent(&self, view: &ClusterView, node: &str) -> bool {
        view.pods_on(node).any(|pod| self.is_agent(pod))
    }

    /// Those of some pods that no agent can hold back: on their node none is ready that freezes
    /// pods. A pod without a node runs nothing.
    pub(crate) fn not_held_back<'a>(
        &self,
        view: &ClusterView,
        pods: impl IntoIterator<Item = &'a HeldPod>,
    ) -> impl Iterator<Item = &'a HeldPod> {
        let is_held_back =
            |node: &str| view.pods_on(node).any(|pod| self.is_agent(pod) && freezes_pods(pod));
        let mut nodes: BTreeMap<&str, bool> = BTreeMap::new();
        pods.into_iter().filter(move |pod| {
            let node = pods::node(*pod);
            node.is_some_and(|node| !*nodes.entry(node).or_insert_with(|| is_held_back(node)))
        })
    }

    /// The node whose agent is ready since this change, or is not any more.
    pub(crate) fn node_of_agent_news<'a>(&self, change: &'a ObjectChange) -> Option<&'a str> {
        let ready_on = |object: Option<&'a ViewObject>| match object {
            Some(ViewObject::Pod(pod)) => pods::node(pod.as_ref()).filter(|_| self.is_agent(pod)),
            Some(_) | None => None,
        };
        let (before, after) = (ready_on(change.before.as_ref()), ready_on(change.after.as_ref()));
        before.or(after).filter(|_| before != after)
    }

    fn agents<'a>(&'a self, view: &'a ClusterView) -> impl Iterator<Item = &'a HeldPod> {
        let pods = view.in_namespace(ResourceKind::Pod, &self.own_namespace);
        pods.filter_map(|object| match object {
            ViewObject::Pod(pod) if self.is_agent(pod) => Some(pod.as_ref()),
            _ => None,
        })
    }

    fn is_agent(&self, pod: &HeldPod) -> bool {
        let labels = pod.metadata.labels.as_ref();
        let component = labels.and_then(|labels| labels.get(AGENT_LABEL));
        let is_ready =
            |condition: &PodCondition| condition.type_ == "Ready" && condition.status == "True";
        pod.metadata.namespace.as_deref() == Some(self.own_namespace.as_str())
            && component.is_some_and(|component| component == AGENT_LABEL_VALUE)
            && pod.metadata.deletion_timestamp.is_none()
            && pod.conditions().iter().any(is_ready)
    }

    /// Whether ladders are at work in a namespace.
    pub fn enables(&self, view: &ClusterView, namespace: &str) -> bool {
        let object = view.namespace(&NamespacedName::new("", namespace));
        !self.excludes(namespace) && object.is_some_and(|object| is_opted_in(&object.metadata))
    }
}

/// Whether a namespace is opted in, for all operators but one that runs in it.
pub(crate) fn is_opted_in(namespace: &ObjectMeta) -> bool {
    let value = namespace.labels.as_ref().and_then(|labels| labels.get(LADDER_LABEL));
    namespace.name.as_deref() != Some(SYSTEM_NAMESPACE)
        && value.is_some_and(|value| value == LADDER_LABEL_ENABLED)
}

fn freezes_pods(agent: &HeldPod) -> bool {
    let labels = agent.metadata.labels.as_ref();
    let value = labels.and_then(|labels| labels.get(FREEZES_PODS_LABEL));
    value.is_some_and(|value| value == FREEZES_PODS_LABEL_VALUE)
}

fn is_of_ladders(work: &WorkItem) -> bool {
    match work {
        WorkItem::Climb(_)
        | WorkItem::LadderStatus(_)
        | WorkItem::OldLedger(_)
        | WorkItem::Revision(_)
        | WorkItem::AvoidedNode(_)
        | WorkItem::Controller(ControllerKey::PodRestart(_)) => true,
        WorkItem::Controller(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use rekindle_controllers::kind::ViewDetail;

    use super::*;

    /// A kind of which the view holds nothing has no watch, and its list would be waited for.
    #[test]
    fn every_kind_of_a_cluster_is_held_whole_and_none_holds_secrets() {
        let cluster = PlannerRole::Cluster(ClusterLadders {
            mode: LadderMode::Observe,
            own_namespace: "rekindle-system".to_owned(),
            taints_nodes: false,
        });
        for kind in cluster.kinds() {
            assert_eq!(kind.info().held, ViewDetail::Whole, "{kind}");
            assert!(!matches!(kind, ResourceKind::Secret | ResourceKind::ConfigMap));
        }
    }
}
