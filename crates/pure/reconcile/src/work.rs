//! The units of work, those of the controllers and those of the ladder, and what a change of the
//! view makes of them.

use std::collections::BTreeSet;
use std::fmt;

use rekindle_controllers::creation_brake::hold_back;
use rekindle_controllers::{
    Change, Key, Kind, NamespacedName, Object, ObjectId, Plan, Turn, View, affected, owners,
    reconcile, turn,
};
use rekindle_ladder::Register;
use rekindle_types::Tick;

use crate::restart_context::RestartContext;
use crate::{ladder, ledgers, orphans, overlaps, resumption, revisions};

/// One thing to look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// A controller at an object.
    Controller(Key),
    /// The ladder at a pod.
    Climb(NamespacedName),
    /// The status of a RestartLadder.
    LadderStatus(NamespacedName),
    /// A ledger whose pod may be gone for good.
    OldLedger(NamespacedName),
    /// A ReplicaSet that may be known to have been healthy.
    Revision(NamespacedName),
}

impl Work {
    /// The object that it looks at.
    pub(crate) fn object(&self) -> ObjectId {
        match self {
            Work::Controller(key) => key.object(),
            Work::Climb(name) => ObjectId::new(Kind::Pod, name.clone()),
            Work::LadderStatus(name) => ObjectId::new(Kind::RestartLadder, name.clone()),
            Work::OldLedger(name) => ObjectId::new(Kind::RestartLedger, name.clone()),
            Work::Revision(name) => ObjectId::new(Kind::ReplicaSet, name.clone()),
        }
    }

    /// Its place among what is due at the same time: pods that wait for a node go by their
    /// priority.
    pub(crate) fn turn(&self, view: &View) -> Turn {
        match self {
            Work::Controller(key) => turn(view, key),
            Work::Climb(_) | Work::LadderStatus(_) | Work::OldLedger(_) | Work::Revision(_) => {
                Turn::default()
            }
        }
    }

    /// What is to be done now: what is created again and again waits.
    pub(crate) fn plan(&self, context: &RestartContext<'_>, now: Tick) -> Plan {
        let mut plan = self.wanted(context, now);
        match self {
            Work::Controller(_) => {} // its plan has passed the brake already
            Work::Climb(_) | Work::LadderStatus(_) | Work::OldLedger(_) | Work::Revision(_) => {
                hold_back(context.view, &self.object(), &mut plan, now);
            }
        }
        plan
    }

    fn wanted(&self, context: &RestartContext<'_>, now: Tick) -> Plan {
        let view = context.view;
        match self {
            Work::Controller(Key::PodRestart(name)) => resumption::plan(context, name, now),
            Work::Controller(key) => reconcile(view, key, now),
            Work::Climb(pod) => ladder::climb(context, pod, now),
            Work::LadderStatus(name) => ladder::status(view, name, now),
            Work::OldLedger(name) => orphans::plan(view, name, now),
            Work::Revision(name) => revisions::prove(view, name, now),
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Work::Controller(key) => key.fmt(f),
            Work::Climb(name) => write!(f, "climb the ladder of Pod {name}"),
            Work::LadderStatus(name) => write!(f, "look at RestartLadder {name}"),
            Work::OldLedger(name) => write!(f, "look at RestartLedger {name}"),
            Work::Revision(name) => write!(f, "look at the revision of ReplicaSet {name}"),
        }
    }
}

/// Everything that a change of the view touches.
pub(crate) fn touched(view: &View, register: &Register, change: &Change) -> BTreeSet<Work> {
    let mut work: BTreeSet<Work> =
        affected(view, change).into_iter().map(Work::Controller).collect();
    let name = change.id.name.clone();
    if let Some(uid) = orphans::controller_of_news(change) {
        work.extend(orphans::of_controller(view, uid).map(Work::OldLedger));
    }
    work.extend(overlaps::concerned(view, change).into_iter().map(Work::LadderStatus));
    match change.latest() {
        Object::Pod(pod) => {
            work.insert(Work::Climb(name.clone()));
            if change.is_removal() {
                work.extend(ledgers::of_pod_named(register, &name).map(Work::OldLedger));
            }
            work.extend(ledgers::heirs_of(view, pod).map(Work::Climb));
            let controller = owners::controller_of(&pod.metadata);
            if let Some(owner) = controller.filter(|owner| owner.kind == "ReplicaSet") {
                let set =
                    NamespacedName::new(change.id.name.namespace.as_str(), owner.name.as_str());
                work.insert(Work::Revision(set));
            }
        }
        Object::RestartLedger(ledger) => {
            let pod = NamespacedName::new(name.namespace.as_str(), ledger.spec.pod_name.as_str());
            work.insert(Work::Climb(pod));
            if ladder::is_news_of_trial(change) {
                work.extend(ladder::held_back(register, &name.namespace).map(Work::Climb));
            }
            work.insert(Work::OldLedger(name));
        }
        Object::PodRestart(restart) => {
            let pod = NamespacedName::new(name.namespace.as_str(), restart.spec.pod_name.as_str());
            if view.pod(&pod).is_none() {
                work.extend(ledgers::of_pod_named(register, &pod).map(Work::OldLedger));
            }
            work.insert(Work::Climb(pod));
            // its ledger goes on with the pod that took the other one's place
            let status = restart.status.as_ref();
            let replacement = status.and_then(|status| status.replacement.as_ref());
            let new_pod = replacement.and_then(|replacement| replacement.new_pod_name.as_deref());
            work.extend(
                new_pod.map(|pod| Work::Climb(NamespacedName::new(name.namespace.as_str(), pod))),
            );
            // A finished restart makes room in a budget.
            work.extend(ladder::held_back(register, &name.namespace).map(Work::Climb));
            if resumption::makes_room(change) {
                work.extend(resumption::held(register, &name.namespace).map(Work::Controller));
            }
        }
        Object::RestartLadder(_) => {
            let pods = view.in_namespace(Kind::Pod, &name.namespace);
            work.extend(pods.map(|pod| Work::Climb(pod.id().name)));
            work.extend(resumption::held(register, &name.namespace).map(Work::Controller));
            let sets = view.in_namespace(Kind::ReplicaSet, &name.namespace);
            work.extend(sets.map(|set| Work::Revision(set.id().name)));
            work.insert(Work::LadderStatus(name));
        }
        Object::DaemonSet(_)
        | Object::Deployment(_)
        | Object::ReplicaSet(_)
        | Object::ReplicationController(_)
        | Object::StatefulSet(_)
        | Object::Service(_)
        | Object::EndpointSlice(_)
        | Object::Endpoints(_)
        | Object::ControllerRevision(_)
        | Object::CronJob(_)
        | Object::Job(_)
        | Object::PodDisruptionBudget(_)
        | Object::PersistentVolumeClaim(_)
        | Object::Lease(_)
        | Object::PersistentVolume(_)
        | Object::StorageClass(_)
        | Object::Node(_)
        | Object::Namespace(_)
        | Object::Metadata(..) => {}
    }
    work
}
