//! What was observed: a synchronous index of objects.
//!
//! Fed by watches ([`ClusterView::reset`], [`ClusterView::apply`], [`ClusterView::delete`]) and by
//! the answers to our own writes ([`ClusterView::settle`]). Every change comes back as a
//! [`ObjectChange`], so that the driver knows which keys are affected.

mod covered;
mod doubts;
mod finished;
mod index;
mod members;
mod mentions;
mod objects;
mod own_writes;
mod readings;
mod selectors;
mod settle;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    Endpoints, Namespace, Node, PersistentVolume, PersistentVolumeClaim, ResourceQuota, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::StorageClass;
use rekindle_types::Tick;
use rekindle_types::held::HeldPod;
use rekindle_types::v1alpha1::{PodRestart, RestartLadder, RestartLedger};

use crate::cluster::{ClusterIndex, ResourceAmounts};
use crate::memories::ControllerMemories;
use crate::node_lifecycle::NodeLifecycleSettings;
use crate::readings::NamespaceReadings;
use crate::{
    NamespacedName, ObjectChange, ObjectId, ResourceKind, ViewObject, failed_pods, owners, pods,
};
use covered::CoverageIndex;
use doubts::DoubtfulWrites;
pub use doubts::WriteDoubt;
use index::ViewIndex;
pub(crate) use members::{ManagedPod, PodActivity};
use objects::Objects;
use own_writes::OwnWrites;
pub use settle::WriteFailure;

/// The index.
#[derive(Clone, Debug, Default)]
pub struct ClusterView {
    objects: Objects,
    index: ViewIndex,
    cluster: ClusterIndex,
    covered: CoverageIndex,
    own: OwnWrites,
    doubts: DoubtfulWrites,
    failures: BTreeMap<ObjectId, WriteFailure>,
    memories: ControllerMemories,
    readings: NamespaceReadings,
    node_settings: NodeLifecycleSettings,
    unlisted: BTreeSet<ResourceKind>,
    now: Tick,
}

/// What a fresh list of a kind changed.
#[derive(Clone, Debug, Default)]
pub struct ListReset {
    /// The changes.
    pub changes: Vec<ObjectChange>,
    /// Objects that we wrote and that the list does not show: either the list is older than the
    /// write, or they are gone. They stay in the view until they are checked
    /// (`ControllerKey::Doubt`).
    pub doubtful: Vec<ObjectId>,
}

impl ClusterView {
    /// An empty view.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells the view the time. The driver does so before it feeds events; the view only notes when
    /// something was noticed.
    pub fn set_time(&mut self, now: Tick) {
        let asleep_after = self.node_settings.asleep_after();
        self.memories.heartbeats.time_passed(self.now, now, asleep_after);
        self.now = now;
    }

    /// A watch shows this object. `None` when that is not news.
    pub fn apply(&mut self, object: ViewObject) -> Option<ObjectChange> {
        let id = object.id();
        if self.own.is_deleted(object.uid()) {
            return None;
        }
        let known = self.objects.get(&id);
        if known.is_some_and(|known| own_writes::is_newer(known, &object)) {
            return None;
        }
        self.own.confirm(&id, &object);
        self.doubts.shown(&id);
        let object = self.own.with_assumptions(self.sharing(&id, object));
        self.put(id, object)
    }

    /// A watch shows that this object is gone.
    pub fn delete(&mut self, id: &ObjectId, uid: &str) -> Option<ObjectChange> {
        self.own.deletion_seen(id, uid);
        let known = self.objects.get(id)?;
        if known.uid() != uid {
            return None; // another object has the name already: our own write was faster than the watch
        }
        self.remove(id)
    }

    /// A fresh list of all objects of a kind: what is not in it is gone.
    pub fn reset(&mut self, kind: ResourceKind, objects: Vec<ViewObject>) -> ListReset {
        let listed: BTreeSet<ObjectId> = objects.iter().map(ViewObject::id).collect();
        let missing: Vec<ObjectId> = self
            .of_kind(kind)
            .map(|(id, _)| id.clone())
            .filter(|id| !listed.contains(id))
            .collect();
        let mut reset = ListReset::default();
        for object in in_order_of_ends(objects) {
            reset.changes.extend(self.apply(object));
        }
        // a definition goes after all of its objects, and then the server cannot be asked for them
        let is_described = self.is_described(kind);
        for id in missing {
            if is_described && self.own.is_unconfirmed(&id) {
                reset.doubtful.push(id);
                continue;
            }
            let removed = self.remove(&id);
            if !is_described && let Some(change) = &removed {
                self.own.deletion_seen(&id, change.latest().uid());
            }
            reset.changes.extend(removed);
        }
        self.own.forget_deletions(kind);
        reset
    }

    /// The object; of a pod's spec there is one for all that are of the same template, as far as
    /// they are alike.
    fn sharing(&self, id: &ObjectId, object: ViewObject) -> ViewObject {
        if id.kind != ResourceKind::Pod {
            return object;
        }
        let sibling = || {
            let controller = owners::controller_of(object.meta())?;
            self.members_of(&controller.uid).next().map(|member| &member.pod)
        };
        let other = self.pod(&id.name).or_else(sibling).map(Arc::as_ref);
        object.sharing(other)
    }

    /// Puts an object in, whatever was there.
    fn put(&mut self, id: ObjectId, object: ViewObject) -> Option<ObjectChange> {
        let known = self.objects.get(&id);
        if known.is_some_and(|known| known.is_same(&object) || *known == object) {
            return None;
        }
        let before = self.objects.insert(id.clone(), object.clone());
        if let Some(before) = &before {
            self.take_out(&id, before);
        }
        self.index.insert(&id, &object);
        self.cluster.insert(&object);
        self.note_cover(before.as_ref(), &object);
        self.tell_memories(before.as_ref(), Some(&object));
        Some(ObjectChange { id, before, after: Some(object) })
    }

    /// Tells the controllers that remember something what changed.
    fn tell_memories(&mut self, before: Option<&ViewObject>, after: Option<&ViewObject>) {
        let has_pods = |node: &str| self.index.pods_on(node).next().is_some();
        let objects = &self.objects;
        let has =
            |kind, name: &NamespacedName| objects.get(&ObjectId::new(kind, name.clone())).is_some();
        self.memories.follow((before, after), &self.cluster, has_pods, has, self.now);
        self.note_creations(before, after);
    }

    /// Takes an object out of what is known of all together.
    fn take_out(&mut self, id: &ObjectId, object: &ViewObject) {
        self.index.remove(id, object);
        self.cluster.remove(object);
    }

    fn remove(&mut self, id: &ObjectId) -> Option<ObjectChange> {
        let before = self.objects.remove(id)?;
        self.take_out(id, &before);
        self.forget_cover(id, &before);
        self.index.retire_name(id, &before);
        self.own.forget(id, before.uid());
        self.tell_memories(Some(&before), None);
        self.failures.remove(id);
        self.doubts.resolved(id);
        Some(ObjectChange { id: id.clone(), before: Some(before), after: None })
    }

    /// What each controller remembers for itself.
    pub(crate) fn memories(&self) -> &ControllerMemories {
        &self.memories
    }

    pub(crate) fn memories_mut(&mut self) -> &mut ControllerMemories {
        &mut self.memories
    }

    /// The time, as the driver last told it.
    pub(crate) fn now(&self) -> Tick {
        self.now
    }

    /// The object of this id.
    pub fn get(&self, id: &ObjectId) -> Option<&ViewObject> {
        self.objects.get(id)
    }

    /// The object with this UID.
    pub fn by_uid(&self, uid: &str) -> Option<&ViewObject> {
        self.index.by_uid(uid)
    }

    /// Where the object of a user's kind with this UID was, if a watch showed lately that it was
    /// deleted. The server cannot be asked for it once its definition has gone, too.
    pub(crate) fn seen_deleted(&self, uid: &str) -> Option<&ObjectId> {
        self.own.seen_deleted(uid)
    }

    /// The objects that name this UID as an owner.
    pub fn dependents(&self, owner_uid: &str) -> impl Iterator<Item = &ViewObject> {
        self.index.dependents(owner_uid)
    }

    /// Those of them that are of a kind, without a look at the others.
    pub fn dependents_of(
        &self,
        owner_uid: &str,
        kind: ResourceKind,
    ) -> impl Iterator<Item = &ViewObject> {
        self.index.dependents_of(owner_uid, kind)
    }

    /// The objects of a kind that name this one: the pods and volumes of a claim, the
    /// EndpointSlices of a Service.
    pub(crate) fn naming<'a>(
        &'a self,
        named: &ObjectId,
        kind: ResourceKind,
    ) -> impl Iterator<Item = &'a ViewObject> + use<'a> {
        self.index.naming(named, kind)
    }

    /// All objects of a kind.
    pub fn of_kind(&self, kind: ResourceKind) -> impl Iterator<Item = (&ObjectId, &ViewObject)> {
        objects::objects_of_kind(&self.objects, kind)
    }

    /// The kinds that definitions describe.
    pub fn custom_kinds(&self) -> impl Iterator<Item = ResourceKind> {
        self.of_kind(ResourceKind::CustomResourceDefinition).filter_map(
            |(_, object)| match object {
                ViewObject::CustomResourceDefinition(definition) => {
                    definition.kind.map(ResourceKind::Custom)
                }
                _ => None,
            },
        )
    }

    /// False when the definition of the kind has gone.
    fn is_described(&self, kind: ResourceKind) -> bool {
        !matches!(kind, ResourceKind::Custom(_)) || self.custom_kinds().any(|one| one == kind)
    }

    /// Of the kinds that definitions describe, these have not been listed yet.
    pub fn set_unlisted(&mut self, kinds: BTreeSet<ResourceKind>) {
        self.unlisted = kinds;
    }

    /// True when there are some.
    pub(crate) fn is_any_unlisted(&self) -> bool {
        !self.unlisted.is_empty()
    }

    /// True when nothing is known yet of the objects of this kind.
    pub(crate) fn is_unlisted(&self, kind: ResourceKind) -> bool {
        self.unlisted.contains(&kind)
    }

    /// The kind that an owner reference names.
    pub(crate) fn kind_of_reference(&self, api_version: &str, kind: &str) -> Option<ResourceKind> {
        ResourceKind::of_reference(api_version, kind).or_else(|| {
            let group = api_version.split_once('/').map_or("", |(group, _)| group);
            let mut custom = self.custom_kinds();
            custom.find(|custom| custom.info().kind == kind && custom.info().group == group)
        })
    }

    /// All objects of a kind in a namespace.
    pub fn in_namespace<'a>(
        &'a self,
        kind: ResourceKind,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a ViewObject> {
        objects::in_namespace(&self.objects, kind, namespace)
    }

    /// The pods or ReplicaSets of a namespace that no controller manages.
    pub fn unmanaged<'a>(
        &'a self,
        kind: ResourceKind,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a ViewObject> {
        self.index.unmanaged(kind, namespace)
    }

    /// The pods bound to a node, or assumed to be.
    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = &Arc<HeldPod>> {
        self.index.pods_on(node)
    }

    /// What the pods of a node ask for, all together; finished pods ask for nothing.
    pub fn requested_on(&self, node: &str) -> ResourceAmounts {
        self.cluster.requested_on(node)
    }

    /// The pods that have ended and are too many when only so many are kept: evicted ones first,
    /// then the oldest.
    pub(crate) fn finished_beyond(&self, kept: usize) -> impl Iterator<Item = &Arc<HeldPod>> {
        self.index.finished_beyond(kept)
    }

    /// The pods that wait for a node.
    pub fn unscheduled(&self) -> impl Iterator<Item = &Arc<HeldPod>> {
        self.index.unscheduled()
    }

    /// How many they are.
    pub(crate) fn unscheduled_count(&self) -> usize {
        self.index.unscheduled().len()
    }

    /// The names of those of them whose place depends on other pods.
    pub(crate) fn looking_around(&self) -> impl Iterator<Item = &NamespacedName> {
        self.index.looking_around()
    }

    /// The nodes on which room is made or kept for pods without a node, with those pods.
    pub(crate) fn nominated(
        &self,
    ) -> impl Iterator<Item = (&str, impl Iterator<Item = &Arc<HeldPod>>)> {
        self.index.nominated()
    }

    /// The pods without a node for which room is made or kept on this one.
    pub(crate) fn nominated_to(&self, node: &str) -> impl Iterator<Item = &Arc<HeldPod>> {
        self.index.nominated_to(node)
    }

    /// True when room is made or kept on some node for some of them.
    pub(crate) fn is_any_nominated(&self) -> bool {
        self.index.is_any_nominated()
    }

    /// A Node by name.
    pub fn node(&self, name: &str) -> Option<&Arc<Node>> {
        self.cluster.node(name).map(|host| host.node)
    }

    /// What the scheduler knows of nodes and of the pods on them.
    pub(crate) fn cluster(&self) -> &ClusterIndex {
        &self.cluster
    }

    /// The pod with this UID.
    pub(crate) fn pod_by_uid(&self, uid: &str) -> Option<&Arc<HeldPod>> {
        match self.by_uid(uid)? {
            ViewObject::Pod(pod) => Some(pod),
            _ => None,
        }
    }

    /// How the node lifecycle controller is set.
    pub fn node_settings(&self) -> &NodeLifecycleSettings {
        &self.node_settings
    }

    /// Sets the node lifecycle controller. The driver does so before it feeds events.
    pub fn set_node_settings(&mut self, settings: NodeLifecycleSettings) {
        self.node_settings = settings;
    }

    /// The latest write of a controller for this object that the server refused, until one
    /// succeeds.
    pub fn failure(&self, id: &ObjectId) -> Option<&WriteFailure> {
        self.failures.get(id)
    }

    /// The same of every object of a namespace.
    pub(crate) fn failures_in<'a>(
        &'a self,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a ObjectId, &'a WriteFailure)> {
        self.failures.iter().filter(move |(id, _)| id.name.namespace == namespace)
    }

    /// Writes for `key_object` of which nobody knows whether they were done. They are resolved
    /// before anything else is planned.
    pub fn doubts<'a>(
        &'a self,
        key_object: &'a ObjectId,
    ) -> impl Iterator<Item = (&'a ObjectId, WriteDoubt)> {
        self.doubts.of(key_object)
    }

    /// True when a pod of this owner had the name lately, so that it is not given again at once.
    pub fn is_retired_name(&self, owner_uid: &str, name: &str) -> bool {
        self.index.is_retired_name(owner_uid, name)
    }

    /// True when the object was written by us and no watch has shown it since.
    pub fn is_unconfirmed(&self, id: &ObjectId) -> bool {
        self.own.is_unconfirmed(id)
    }

    /// The pods that a controller with this UID manages.
    pub fn pods_of<'a>(&'a self, owner_uid: &'a str) -> impl Iterator<Item = &'a Arc<HeldPod>> {
        self.members_of(owner_uid).map(|member| &member.pod)
    }

    /// The same with what is counted of them.
    pub(crate) fn members_of(&self, owner_uid: &str) -> impl Iterator<Item = &ManagedPod> {
        self.index.members_of(owner_uid)
    }

    /// The ReplicaSets that a controller with this UID manages.
    pub fn replica_sets_of<'a>(
        &'a self,
        owner_uid: &'a str,
    ) -> impl Iterator<Item = &'a Arc<ReplicaSet>> {
        self.dependents_of(owner_uid, ResourceKind::ReplicaSet).filter_map(move |object| {
            match object {
                ViewObject::ReplicaSet(rs) if is_controlled_by(&rs.metadata, owner_uid) => Some(rs),
                _ => None,
            }
        })
    }
}

/// Pods that have failed first, in the order in which they ended: how long the next ones wait
/// follows from that order.
fn in_order_of_ends(objects: Vec<ViewObject>) -> impl Iterator<Item = ViewObject> {
    let failed_at = |object: &ViewObject| match object {
        ViewObject::Pod(pod) if pods::phase(pod.as_ref()) == "Failed" => {
            Some(failed_pods::finished_at(pod))
        }
        _ => None,
    };
    let (mut failed, others): (Vec<_>, Vec<_>) =
        objects.into_iter().partition(|object| failed_at(object).is_some());
    failed.sort_by_key(failed_at);
    failed.into_iter().chain(others)
}

fn is_controlled_by(
    meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    owner_uid: &str,
) -> bool {
    owners::controller_of(meta).is_some_and(|reference| reference.uid == owner_uid)
}

macro_rules! typed_getters {
    ($($(#[$doc:meta])* $name:ident: $kind:ident;)*) => {
        impl ClusterView {
            $(
                $(#[$doc])*
                pub fn $name(&self, name: &NamespacedName) -> Option<&Arc<$kind>> {
                    match self.objects.get(&ObjectId::new(ResourceKind::$kind, name.clone()))? {
                        ViewObject::$kind(object) => Some(object),
                        _ => None,
                    }
                }
            )*
        }
    };
}
impl ClusterView {
    /// A Pod by name.
    pub fn pod(&self, name: &NamespacedName) -> Option<&Arc<HeldPod>> {
        match self.objects.get(&ObjectId::new(ResourceKind::Pod, name.clone()))? {
            ViewObject::Pod(pod) => Some(pod),
            _ => None,
        }
    }
}

typed_getters! {
    /// A ReplicaSet by name.
    replica_set: ReplicaSet;
    /// A StatefulSet by name.
    stateful_set: StatefulSet;
    /// A HorizontalPodAutoscaler by name.
    horizontal_pod_autoscaler: HorizontalPodAutoscaler;
    /// A CronJob by name.
    cron_job: CronJob;
    /// A Job by name.
    job: Job;
    /// A DaemonSet by name.
    daemon_set: DaemonSet;
    /// A Deployment by name.
    deployment: Deployment;
    /// A ResourceQuota by name.
    resource_quota: ResourceQuota;
    /// A Service by name.
    service: Service;
    /// An Endpoints by name.
    endpoints: Endpoints;
    /// A Namespace by name.
    namespace: Namespace;
    /// A RestartLadder by name.
    restart_ladder: RestartLadder;
    /// A RestartLedger by name.
    restart_ledger: RestartLedger;
    /// A PodDisruptionBudget by name.
    pod_disruption_budget: PodDisruptionBudget;
    /// A PersistentVolumeClaim by name.
    persistent_volume_claim: PersistentVolumeClaim;
    /// A PersistentVolume by name.
    persistent_volume: PersistentVolume;
    /// A StorageClass by name.
    storage_class: StorageClass;
    /// A PodRestart by name.
    pod_restart: PodRestart;
}

#[cfg(test)]
mod tests;
