//! The DaemonSet controller: one pod on every node that the template fits.
//!
//! Source of behaviour: the API reference of apps/v1 DaemonSet, the documentation of DaemonSets and
//! upstream's controller.
//!
//! ```text
//!   reconcile ─► claim pods and revisions ─► record the template's revision ─► a place for every node (`places`)
//!             ─► manage: make what is missing, delete what is ended, too many or out of place ─► status
//!             ─► nothing of that to do: rolling update (`rolling`) ─► old revisions
//! ```
//!
//! A pod is bound by the scheduler: an affinity to the node's name says to which node. Its name
//! follows from the node, so that the server refuses a second pod of one node whatever this view
//! shows; only a surge asks for a second one.

mod make;
mod manage;
mod places;
mod rolling;
mod status;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::held::HeldPod;
use rekindle_types::{Tick, TickDuration, labels};

use crate::creation_brake::{self, CreationPause, CreationSeries};
use crate::events::{EventNote, EventSubject};
use crate::plan::PlannedWrite;
use crate::pods::{self, PodAvailability};
use crate::revisions::{self, RevisedWorkload, WorkloadRevisions};
use crate::{
    ClusterView, ControllerKey, NamespacedName, ObjectChange, ResourceKind, ViewObject, WritePlan,
    owners, replica_set,
};
pub(crate) use places::target;
use places::{DaemonNodes, DaemonPod, NodeFit, fit};

/// `source.component` of its events.
const COMPONENT: &str = "daemonset-controller";
/// Pods created or deleted at most in one go, as upstream.
const BURST: usize = 250;

/// The DaemonSets that a change concerns.
pub(crate) fn affected(
    view: &ClusterView,
    change: &ObjectChange,
    keys: &mut BTreeSet<ControllerKey>,
) {
    match change.latest() {
        ViewObject::DaemonSet(_) => {
            keys.insert(ControllerKey::DaemonSet(change.id.name.clone()));
        }
        ViewObject::Pod(_) if change.of_pod().is_some_and(count_alike) => {}
        ViewObject::Pod(_) | ViewObject::ControllerRevision(_) => {
            for side in change.sides() {
                match owners::controller_of(side.meta()) {
                    Some(owner) => {
                        if let Some(ViewObject::DaemonSet(set)) = view.by_uid(&owner.uid) {
                            keys.insert(key_of(set));
                        }
                    }
                    None => {
                        let namespace = side.meta().namespace.as_deref().unwrap_or_default();
                        let sets = all(view.in_namespace(ResourceKind::DaemonSet, namespace));
                        keys.extend(sets.filter(|set| selects(set, side.meta())).map(key_of));
                    }
                }
            }
        }
        ViewObject::Node(_) => {
            let node = |side: &Option<ViewObject>| match side {
                Some(ViewObject::Node(node)) => Some(node.clone()),
                _ => None,
            };
            let (before, after) = (node(&change.before), node(&change.after));
            if let (Some(before), Some(after)) = (&before, &after)
                && before.spec == after.spec
                && before.metadata.labels == after.metadata.labels
            {
                return; // a heartbeat
            }
            let sets = all(view.of_kind(ResourceKind::DaemonSet).map(|(_, object)| object));
            let moved = sets.filter(|set| {
                let pod = make::model(set);
                before.as_ref().map(|node| fit(&pod, node))
                    != after.as_ref().map(|node| fit(&pod, node))
            });
            keys.extend(moved.map(key_of));
        }
        _ => {}
    }
}

/// True when nothing changed that is looked at here: beside what a ReplicaSet counts, where the pod
/// is or is to go, and how it ended.
fn count_alike((before, after): (&HeldPod, &HeldPod)) -> bool {
    let end = |pod| Some(pods::phase(pod)).filter(|_| pods::is_finished(pod));
    replica_set::count_alike((before, after))
        && pods::node(before) == pods::node(after)
        && places::target(before) == places::target(after)
        && end(before) == end(after)
}

fn all<'a>(
    objects: impl Iterator<Item = &'a ViewObject> + 'a,
) -> impl Iterator<Item = &'a Arc<DaemonSet>> + 'a {
    objects.filter_map(|object| match object {
        ViewObject::DaemonSet(set) => Some(set),
        _ => None,
    })
}

fn key_of(set: &Arc<DaemonSet>) -> ControllerKey {
    ControllerKey::DaemonSet(NamespacedName::from_meta(&set.metadata))
}

/// True when the set's selector matches these labels. An empty selector selects nothing here.
fn selects(set: &DaemonSet, object: &ObjectMeta) -> bool {
    let selector = &set.spec.selector;
    !labels::is_empty(selector) && labels::matches(selector, object.labels.as_ref())
}

/// What one look at a DaemonSet is about, and what it finds to do.
struct DaemonSetSync<'a> {
    view: &'a ClusterView,
    set: &'a Arc<DaemonSet>,
    hash: &'a str,
    deletions: Vec<PlannedWrite>,
    creations: Vec<PlannedWrite>,
    notes: Vec<EventNote>,
    again_at: Option<Tick>,
    /// Failed pods that stay where they are for a while.
    waiting: Vec<(CreationSeries, CreationPause)>,
    now: Tick,
}

impl DaemonSetSync<'_> {
    /// True when the pod is ready for as long as it has to be; when it is about to, the next look
    /// is then.
    fn is_available(&mut self, daemon: &DaemonPod<'_>) -> bool {
        match daemon.availability {
            PodAvailability::Available => true,
            PodAvailability::NotReady => false,
            PodAvailability::From(at) => {
                self.look_again(at);
                false
            }
        }
    }

    fn look_again(&mut self, at: Tick) {
        self.again_at = Some(self.again_at.map_or(at, |before| before.min(at)));
    }

    fn delete(&mut self, pod: &Arc<HeldPod>) {
        self.deletions.push(make::deletion(self.set, pod));
    }

    fn is_idle(&self) -> bool {
        self.deletions.is_empty() && self.creations.is_empty()
    }

    /// Deletions before creations: a template that is refused does not keep what is broken.
    fn into_plan(mut self, plan: &mut WritePlan) {
        self.deletions.truncate(BURST);
        self.creations.truncate(BURST);
        plan.then_all(self.deletions);
        plan.then_ever_more(self.creations);
        plan.notes.extend(self.notes);
        if let Some(at) = self.again_at {
            plan.look_again(at);
        }
        for (series, pause) in self.waiting {
            let about = EventSubject::from_object(&ViewObject::DaemonSet(self.set.clone()));
            creation_brake::announce(series, pause, Some(about), COMPONENT, plan, self.now);
        }
    }
}

/// Whether the set wants a pod on a node.
pub(crate) fn wants(set: &DaemonSet, node: &Node) -> bool {
    fit(&make::model(set), node) == NodeFit::Wanted
}

/// What is to be done for a DaemonSet.
pub(crate) fn reconcile(view: &ClusterView, name: &NamespacedName, now: Tick) -> WritePlan {
    let mut plan = WritePlan::default();
    let Some(set) = view.daemon_set(name) else { return plan };
    let workload = RevisedWorkload {
        kind: ResourceKind::DaemonSet,
        meta: &set.metadata,
        selector: &set.spec.selector,
        template: &set.spec.template,
    };
    let is_member = |pod: &ObjectMeta| selects(set, pod);
    let Some(WorkloadRevisions { pods, history, present: revision }) =
        revisions::holdings(view, workload, is_member, &mut plan)
    else {
        return plan;
    };
    let hash = revisions::daemon_hash(&revision);
    let min_ready = TickDuration::of_field(set.spec.min_ready_seconds.unwrap_or(0));
    let daemons = places::daemons(&pods, hash, min_ready, now);
    let places = DaemonNodes::new(view, set, &daemons);
    let mut look = DaemonSetSync {
        view,
        set,
        hash,
        deletions: Vec::new(),
        creations: Vec::new(),
        notes: Vec::new(),
        again_at: None,
        waiting: Vec::new(),
        now,
    };
    look.manage(&places);
    if look.is_idle() {
        look.update(&places); // what is made or deleted now counts first
    }
    let status = look.count(&places);
    look.into_plan(&mut plan);
    status::update(view, status, set, &mut plan);
    if plan.batches.is_empty() {
        let live = |other: &ControllerRevision| {
            let its = revisions::daemon_hash(other);
            its == hash || pods.iter().any(|pod| make::hash_of(pod) == its)
        };
        plan.then_all(history.truncate(set.spec.revision_history_limit, live));
    }
    plan
}
