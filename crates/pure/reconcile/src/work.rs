//! The units of work, those of the controllers and those of the ladder, and what a change of the
//! view makes of them.

use std::collections::BTreeSet;
use std::{fmt, iter};

use rekindle_controllers::creation_brake::hold_back;
use rekindle_controllers::{
    ClusterView, ControllerKey, NamespacedName, ObjectChange, ObjectId, ResourceKind,
    SchedulingRank, ViewObject, WritePlan, affected, affected_restarts, owners, reconcile, turn,
};
use rekindle_ladder::LedgerRegister;
use rekindle_types::Tick;

use crate::planner_role::{PlannerRole, is_opted_in};
use crate::restart_context::RestartContext;
use crate::{avoided_nodes, groups, ladder, ledgers, orphans, overlaps, resumption, revisions};

/// One thing to look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkItem {
    /// A controller at an object.
    Controller(ControllerKey),
    /// The ladder at a pod, or at a group by its name.
    Climb(NamespacedName),
    /// The status of a RestartLadder.
    LadderStatus(NamespacedName),
    /// A ledger whose pod may be gone for good.
    OldLedger(NamespacedName),
    /// A ReplicaSet that may be known to have been healthy.
    Revision(NamespacedName),
    /// A node of a cluster that pods may be moved away from.
    AvoidedNode(String),
}

impl WorkItem {
    /// The object that it looks at.
    pub(crate) fn object(&self) -> ObjectId {
        match self {
            WorkItem::Controller(key) => key.object(),
            WorkItem::Climb(name) => ObjectId::new(ResourceKind::Pod, name.clone()),
            WorkItem::LadderStatus(name) => {
                ObjectId::new(ResourceKind::RestartLadder, name.clone())
            }
            WorkItem::OldLedger(name) => ObjectId::new(ResourceKind::RestartLedger, name.clone()),
            WorkItem::Revision(name) => ObjectId::new(ResourceKind::ReplicaSet, name.clone()),
            WorkItem::AvoidedNode(name) => {
                ObjectId::new(ResourceKind::Node, NamespacedName::new("", name.as_str()))
            }
        }
    }

    /// Its place among what is due at the same time: pods that wait for a node go by their
    /// priority.
    pub(crate) fn turn(&self, view: &ClusterView) -> SchedulingRank {
        match self {
            WorkItem::Controller(key) => turn(view, key),
            WorkItem::Climb(_)
            | WorkItem::LadderStatus(_)
            | WorkItem::OldLedger(_)
            | WorkItem::Revision(_)
            | WorkItem::AvoidedNode(_) => SchedulingRank::default(),
        }
    }

    /// What is to be done now: what is created again and again waits.
    pub(crate) fn plan(&self, context: &RestartContext<'_>, now: Tick) -> WritePlan {
        let mut plan = self.wanted(context, now);
        match self {
            WorkItem::Controller(_) => {} // its plan has passed the brake already
            WorkItem::Climb(_)
            | WorkItem::LadderStatus(_)
            | WorkItem::OldLedger(_)
            | WorkItem::Revision(_)
            | WorkItem::AvoidedNode(_) => {
                hold_back(context.view, &self.object(), &mut plan, now);
            }
        }
        plan
    }

    fn wanted(&self, context: &RestartContext<'_>, now: Tick) -> WritePlan {
        let view = context.view;
        match self {
            WorkItem::Controller(ControllerKey::PodRestart(name)) => {
                resumption::plan(context, name, now)
            }
            WorkItem::Controller(key) => reconcile(view, key, now),
            WorkItem::Climb(pod) => ladder::climb(context, pod, now),
            WorkItem::LadderStatus(name) => ladder::status(context, name, now),
            WorkItem::OldLedger(name) => orphans::plan(context, name, now),
            WorkItem::Revision(name) => revisions::prove(context, name, now),
            WorkItem::AvoidedNode(name) => avoided_nodes::plan(context, name, now),
        }
    }
}

impl fmt::Display for WorkItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkItem::Controller(key) => key.fmt(f),
            WorkItem::Climb(name) => write!(f, "climb the ladder of Pod {name}"),
            WorkItem::LadderStatus(name) => write!(f, "look at RestartLadder {name}"),
            WorkItem::OldLedger(name) => write!(f, "look at RestartLedger {name}"),
            WorkItem::Revision(name) => write!(f, "look at the revision of ReplicaSet {name}"),
            WorkItem::AvoidedNode(name) => write!(f, "taint Node {name} while it is avoided"),
        }
    }
}

/// Everything that a change of the view touches.
pub(crate) fn touched(
    role: &PlannerRole,
    view: &ClusterView,
    register: &LedgerRegister,
    change: &ObjectChange,
) -> BTreeSet<WorkItem> {
    let keys = match role {
        PlannerRole::Engine | PlannerRole::EngineWithoutLadders => affected(view, change),
        PlannerRole::Cluster(_) => affected_restarts(view, change),
    };
    let mut work: BTreeSet<WorkItem> = keys.into_iter().map(WorkItem::Controller).collect();
    let name = change.id.name.clone();
    if let Some(uid) = orphans::controller_of_news(change) {
        work.extend(orphans::orphans_of_controller(view, uid).map(WorkItem::OldLedger));
    }
    work.extend(overlaps::concerned(view, change).into_iter().map(WorkItem::LadderStatus));
    match change.latest() {
        ViewObject::Pod(pod) => {
            work.insert(WorkItem::Climb(name.clone()));
            work.extend(groups::group_name_of(view, pod).map(WorkItem::Climb));
            work.extend(groups::ledger_of_lost_pod(view, change).map(WorkItem::OldLedger));
            if change.is_removal() {
                work.extend(ledgers::ledgers_of_pod(register, &name).map(WorkItem::OldLedger));
            }
            work.extend(ledgers::heirs_of(view, pod).map(WorkItem::Climb));
            let news = role.cluster().and_then(|ladders| ladders.node_of_agent_news(change));
            work.extend(news.into_iter().flat_map(|node| work_of_agent(view, node)));
            let controller = owners::controller_of(&pod.metadata);
            if let Some(owner) = controller.filter(|owner| owner.kind == "ReplicaSet") {
                let set =
                    NamespacedName::new(change.id.name.namespace.as_str(), owner.name.as_str());
                work.insert(WorkItem::Revision(set));
            }
        }
        ViewObject::RestartLedger(ledger) => {
            let pod = NamespacedName::new(name.namespace.as_str(), ledger.spec.pod_name.as_str());
            work.insert(WorkItem::Climb(pod));
            if ladder::is_news_of_trial(change) {
                work.extend(ladder::held_back(register, &name.namespace).map(WorkItem::Climb));
            }
            work.insert(WorkItem::OldLedger(name));
        }
        ViewObject::PodRestart(restart) => {
            let pod = NamespacedName::new(name.namespace.as_str(), restart.subject());
            let there = view.pod(&pod);
            work.extend(
                there.and_then(|pod| groups::group_name_of(view, pod)).map(WorkItem::Climb),
            );
            if there.is_none() {
                work.extend(ledgers::ledgers_of_pod(register, &pod).map(WorkItem::OldLedger));
            }
            if !restart.subject().is_empty() {
                work.insert(WorkItem::Climb(pod));
            }
            let node = avoided_nodes::node_of(view, restart);
            work.extend(node.map(|node| WorkItem::AvoidedNode(node.to_owned())));
            // its ledger goes on with the pod that took the other one's place
            let status = restart.status.as_ref();
            let replacement = status.and_then(|status| status.replacement.as_ref());
            let new_pod = replacement.and_then(|replacement| replacement.new_pod_name.as_deref());
            work.extend(
                new_pod
                    .map(|pod| WorkItem::Climb(NamespacedName::new(name.namespace.as_str(), pod))),
            );
            // A finished restart makes room in a budget.
            work.extend(ladder::held_back(register, &name.namespace).map(WorkItem::Climb));
            if resumption::makes_room(change) {
                work.extend(resumption::held(register, &name.namespace).map(WorkItem::Controller));
            }
        }
        ViewObject::RestartLadder(ladder) => {
            work.extend(groups::groups_of_ladder(view, ladder).into_iter().map(WorkItem::Climb));
            let pods = view.in_namespace(ResourceKind::Pod, &name.namespace);
            work.extend(pods.map(|pod| WorkItem::Climb(pod.id().name)));
            work.extend(resumption::held(register, &name.namespace).map(WorkItem::Controller));
            let sets = view.in_namespace(ResourceKind::ReplicaSet, &name.namespace);
            work.extend(sets.map(|set| WorkItem::Revision(set.id().name)));
            work.insert(WorkItem::LadderStatus(name));
        }
        ViewObject::DaemonSet(_)
        | ViewObject::Deployment(_)
        | ViewObject::ReplicaSet(_)
        | ViewObject::ReplicationController(_)
        | ViewObject::StatefulSet(_)
        | ViewObject::Service(_)
        | ViewObject::EndpointSlice(_)
        | ViewObject::Endpoints(_)
        | ViewObject::ControllerRevision(_)
        | ViewObject::CronJob(_)
        | ViewObject::HorizontalPodAutoscaler(_)
        | ViewObject::Job(_)
        | ViewObject::PodDisruptionBudget(_)
        | ViewObject::PersistentVolumeClaim(_)
        | ViewObject::Lease(_)
        | ViewObject::PersistentVolume(_)
        | ViewObject::ResourceQuota(_)
        | ViewObject::StorageClass(_)
        | ViewObject::CustomResourceDefinition(_)
        | ViewObject::Metadata(..) => {}
        ViewObject::Node(_) => drop(work.insert(WorkItem::AvoidedNode(name.name.clone()))),
        ViewObject::Namespace(_) if role.cluster().is_some() && changes_opt_in(change) => {
            work.extend(work_of_namespace(view, &name.name));
        }
        ViewObject::Namespace(_) => {}
    }
    work
}

/// Whether ladders begin or end to be at work in a namespace. Most changes of one say nothing of
/// that.
fn changes_opt_in(change: &ObjectChange) -> bool {
    let is_in = |object: &Option<ViewObject>| {
        object.as_ref().is_some_and(|namespace| is_opted_in(namespace.meta()))
    };
    is_in(&change.before) != is_in(&change.after)
}

/// All that depends on whether a node has an agent.
fn work_of_agent<'a>(view: &'a ClusterView, node: &'a str) -> impl Iterator<Item = WorkItem> + 'a {
    let pods = view.pods_on(node).flat_map(|pod| {
        let name = NamespacedName::from_meta(&pod.metadata);
        iter::once(name).chain(groups::group_name_of(view, pod))
    });
    let ladders = view.of_kind(ResourceKind::RestartLadder).map(|(_, ladder)| ladder.id().name);
    pods.map(WorkItem::Climb).chain(ladders.map(WorkItem::LadderStatus))
}

/// All that depends on whether ladders are at work in a namespace.
fn work_of_namespace(view: &ClusterView, namespace: &str) -> BTreeSet<WorkItem> {
    let mut work = BTreeSet::new();
    for kind in [
        ResourceKind::Pod,
        ResourceKind::RestartLadder,
        ResourceKind::ReplicaSet,
        ResourceKind::PodRestart,
    ] {
        for object in view.in_namespace(kind, namespace) {
            let name = object.id().name;
            match object {
                ViewObject::Pod(pod) => {
                    work.insert(WorkItem::Climb(name));
                    work.extend(groups::group_name_of(view, pod).map(WorkItem::Climb));
                }
                ViewObject::RestartLadder(_) => drop(work.insert(WorkItem::LadderStatus(name))),
                ViewObject::ReplicaSet(_) => drop(work.insert(WorkItem::Revision(name))),
                ViewObject::PodRestart(restart) => {
                    work.insert(WorkItem::Controller(ControllerKey::PodRestart(name)));
                    let node = avoided_nodes::node_of(view, restart);
                    work.extend(node.map(|node| WorkItem::AvoidedNode(node.to_owned())));
                }
                _ => {}
            }
        }
    }
    work
}

#[cfg(test)]
mod tests {
    use rekindle_ladder::LadderMode;
    use serde_json::{Value, json};

    use super::*;
    use crate::wire::object_from_json;
    use crate::{ClusterLadders, LADDER_LABEL};

    fn object(kind: ResourceKind, name: &str, labels: Value, more: Value) -> ViewObject {
        let namespace = if kind == ResourceKind::Namespace { "" } else { "shop" };
        let mut object = json!({"metadata": {
            "name": name, "namespace": namespace, "labels": labels, "uid": format!("{kind}-{name}"),
            "resourceVersion": "1",
        }});
        object.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        object_from_json(kind, object.to_string().as_bytes()).unwrap()
    }

    /// A namespace has its status, its annotations and labels of others written, too.
    #[test]
    fn a_namespace_queues_work_only_when_ladders_begin_or_end_to_be_at_work_in_it() {
        let role = PlannerRole::Cluster(ClusterLadders {
            mode: LadderMode::Act,
            own_namespace: "rekindle-system".to_owned(),
            taints_nodes: true,
        });
        let selects = json!({"selector": {"matchLabels": {"app": "web"}}, "rungs": []});
        let asks = json!({"podName": "web", "rung": "Reschedule"});
        let moved = json!({"replacement": {
            "step": "Starting", "since": "2026-11-21T11:00:00Z", "podUID": "u", "nodeName": "n1",
        }});
        let mut view = ClusterView::new();
        for (kind, more) in [
            (ResourceKind::Pod, json!({"spec": {"containers": []}})),
            (ResourceKind::ReplicaSet, json!({"spec": {"selector": {}}})),
            (ResourceKind::RestartLadder, json!({"spec": selects})),
            (ResourceKind::PodRestart, json!({"spec": asks, "status": moved})),
        ] {
            view.apply(object(kind, "web", json!({}), more));
        }
        let of = |labels: Option<Value>| {
            labels.map(|labels| object(ResourceKind::Namespace, "shop", labels, json!({})))
        };
        let queued = |before: Option<Value>, after: Option<Value>| {
            let (before, after) = (of(before), of(after));
            let id = ObjectId::new(ResourceKind::Namespace, NamespacedName::new("", "shop"));
            let change = ObjectChange { id, before, after };
            let work = touched(&role, &view, &LedgerRegister::default(), &change);
            work.into_iter().map(|work| work.to_string()).collect::<Vec<String>>()
        };
        let (enabled, other) = (json!({LADDER_LABEL: "enabled"}), json!({"team": "shop"}));
        let all = [
            "look after PodRestart shop/web",
            "climb the ladder of Pod shop/web",
            "look at RestartLadder shop/web",
            "look at the revision of ReplicaSet shop/web",
            "taint Node n1 while it is avoided",
        ];
        let nothing: [&str; 0] = [];
        assert_eq!(queued(Some(other.clone()), Some(enabled.clone())), all);
        assert_eq!(queued(Some(enabled.clone()), Some(json!({LADDER_LABEL: "off"}))), all);
        assert_eq!(queued(None, Some(enabled.clone())), all);
        assert_eq!(queued(Some(enabled.clone()), Some(enabled)), nothing);
        assert_eq!(queued(Some(json!({})), Some(other.clone())), nothing);
        assert_eq!(queued(Some(other), None), nothing);
    }
}
