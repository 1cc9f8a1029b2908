//! The units of work, those of the controllers and those of the ladder, and what a change of the view makes of them.

use std::collections::BTreeSet;
use std::fmt;

use rekindle_controllers::{
    Change, Key, Kind, NamespacedName, Object, ObjectId, Plan, View, affected, reconcile,
};
use rekindle_types::Tick;

use crate::ladder;

/// One thing to look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Work {
    /// A controller at an object.
    Controller(Key),
    /// The ladder at a pod.
    Climb(NamespacedName),
    /// The status of a RestartLadder.
    LadderStatus(NamespacedName),
    /// A ledger whose pod may be gone for good.
    OldLedger(NamespacedName),
}

impl Work {
    /// The object that it looks at.
    pub(crate) fn object(&self) -> ObjectId {
        match self {
            Work::Controller(key) => key.object(),
            Work::Climb(name) => ObjectId::new(Kind::Pod, name.clone()),
            Work::LadderStatus(name) => ObjectId::new(Kind::RestartLadder, name.clone()),
            Work::OldLedger(name) => ObjectId::new(Kind::RestartLedger, name.clone()),
        }
    }

    /// What is to be done.
    pub(crate) fn plan(&self, view: &View, now: Tick) -> Plan {
        match self {
            Work::Controller(key) => reconcile(view, key, now),
            Work::Climb(pod) => ladder::climb(view, pod, now),
            Work::LadderStatus(name) => ladder::status(view, name, now),
            Work::OldLedger(name) => ladder::old_ledger(view, name, now),
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
        }
    }
}

/// Everything that a change of the view touches.
pub(crate) fn touched(view: &View, change: &Change) -> BTreeSet<Work> {
    let mut work: BTreeSet<Work> =
        affected(view, change).into_iter().map(Work::Controller).collect();
    let name = change.id.name.clone();
    match change.latest() {
        Object::Pod(_) => {
            work.insert(Work::Climb(name.clone()));
            if change.is_removal() {
                work.insert(Work::OldLedger(name)); // a ledger is called as its pod
            }
        }
        Object::RestartLedger(_) => {
            work.insert(Work::Climb(name.clone()));
            work.insert(Work::OldLedger(name));
        }
        Object::PodRestart(restart) => {
            work.insert(Work::Climb(NamespacedName::new(
                name.namespace.clone(),
                restart.spec.pod_name.clone(),
            )));
            // A finished restart makes room in a budget.
            work.extend(ladder::held_back(view, &name.namespace).map(Work::Climb));
        }
        Object::RestartLadder(_) => {
            let pods = view.in_namespace(Kind::Pod, &name.namespace);
            work.extend(pods.map(|pod| Work::Climb(pod.id().name)));
            work.insert(Work::LadderStatus(name));
        }
        Object::Deployment(_)
        | Object::ReplicaSet(_)
        | Object::PodDisruptionBudget(_)
        | Object::PersistentVolumeClaim(_)
        | Object::PersistentVolume(_)
        | Object::StorageClass(_)
        | Object::Node(_)
        | Object::Namespace(_)
        | Object::Metadata(..) => {}
    }
    work
}
