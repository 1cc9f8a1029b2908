//! The quota controller: counts what the objects of a namespace use, beside the API server.
//!
//! The server counts each write in the quotas that cover it. What is left for the controller is
//! what changes without a write, and what a server of another version left behind:
//! - a pod that does not end in its time stops counting;
//! - a status that says something else than what is there.
//!
//! When a quota gets room, it wakes the controllers that it had refused.
//!
//! It waits until the namespace is quiet, as its kinds are watched one by one. So a quota may be
//! seen before the object that was charged to it. Where a namespace is never quiet, it waits no
//! longer than 30 s. The server counts again what the controller writes. A view that is late cannot
//! make `used` less than it is. Source of behaviour: upstream's controller
//! (`pkg/controller/resourcequota`).

mod activity;
mod room;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ResourceQuota, ResourceQuotaStatus};
use rekindle_quota::{
    CountedObject, CountedResource, QuotaAmount, QuotaTerms, QuotaUsage, counts_until,
};
use rekindle_types::held::HeldPod;
use rekindle_types::{Quantity, ResourceScope, Tick, TickDuration};

use crate::kind::ViewDetail;
use crate::plan::WriteOperation;
use crate::{
    ClusterView, ControllerKey, NamespacedName, ObjectChange, ResourceKind, ViewObject, WritePlan,
    owners,
};
pub(crate) use activity::QuotaActivity;

/// The quotas that a change may concern.
pub(crate) fn affected(
    view: &ClusterView,
    change: &ObjectChange,
    keys: &mut BTreeSet<ControllerKey>,
) {
    if !activity::is_counted((change.before.as_ref(), change.after.as_ref())) {
        return;
    }
    let quotas = view.in_namespace(ResourceKind::ResourceQuota, &change.id.name.namespace);
    keys.extend(quotas.map(|quota| ControllerKey::ResourceQuota(quota.id().name)));
    keys.extend(room::refused(view, change));
}

/// The quotas that count objects of a kind which was listed for the first time.
pub(crate) fn affected_by_first_list(
    view: &ClusterView,
    kind: ResourceKind,
) -> impl Iterator<Item = ControllerKey> {
    view.of_kind(ResourceKind::ResourceQuota).filter_map(move |(id, object)| {
        let ViewObject::ResourceQuota(quota) = object else { return None };
        let terms = QuotaTerms::of_quota(quota);
        let is_counted = terms.amounts().any(|(_, amount)| amount.resource() == resource_of(kind));
        is_counted.then(|| ControllerKey::ResourceQuota(id.name.clone()))
    })
}

/// What is to be done for a quota: its status, when it is not what is there.
pub(crate) fn reconcile(view: &ClusterView, name: &NamespacedName, now: Tick) -> WritePlan {
    let mut plan = WritePlan::default();
    let Some(quota) = view.resource_quota(name) else { return plan };
    if owners::is_terminating(&quota.metadata) {
        return plan;
    }
    let due = view.memories().quota_activity.count_due(name);
    if now < due {
        plan.look_again(due);
        return plan;
    }
    plan.counted_quota = Some(name.clone());
    let terms = QuotaTerms::of_quota(quota);
    let count = NamespaceCount::new(view, &name.namespace, &terms, now);
    if let Some(at) = count.changes_at {
        plan.look_again(at);
    }
    let status = count.status(view, quota, &terms);
    if !is_same(quota.status.as_ref(), &status) {
        let mut counted = quota.as_ref().clone();
        counted.status = Some(status);
        plan.then(WriteOperation::UpdateStatus(counted.into()));
    }
    plan
}

/// What is used in a namespace.
struct NamespaceCount {
    used: QuotaUsage,
    /// When it changes without a write.
    changes_at: Option<Tick>,
}

impl NamespaceCount {
    fn new(view: &ClusterView, namespace: &str, terms: &QuotaTerms, now: Tick) -> Self {
        let mut used = QuotaUsage::default();
        let mut kinds = BTreeSet::new();
        for (name, amount) in terms.amounts() {
            let Some(kind) = kind_of(view, amount) else { continue };
            used.set(name, Quantity::default());
            kinds.insert(kind);
        }
        let mut count = Self { used, changes_at: None };
        for kind in kinds {
            for object in view.in_namespace(kind, namespace) {
                count.add(terms, kind, object, now);
            }
        }
        count
    }

    fn add(&mut self, terms: &QuotaTerms, kind: ResourceKind, object: &ViewObject, now: Tick) {
        let counted = counted(object);
        self.used.add(&terms.usage_of(resource_of(kind), counted, now));
        if let CountedObject::Pod(pod) = counted
            && let Some(until) = counts_until(pod).filter(|until| now <= *until)
        {
            let after = until + TickDuration::from_millis(1);
            self.changes_at = Some(self.changes_at.map_or(after, |known| known.min(after)));
        }
    }

    /// The status that says so. It keeps the amounts of kinds that are not in the view, or not
    /// listed yet.
    fn status(
        &self,
        view: &ClusterView,
        quota: &ResourceQuota,
        terms: &QuotaTerms,
    ) -> ResourceQuotaStatus {
        let known = quota.status.as_ref().and_then(|status| status.used.as_ref());
        let mut used = self.used.to_list();
        for (name, amount) in known.into_iter().flatten() {
            let is_foreign =
                QuotaAmount::of_name(name).is_some_and(|amount| kind_of(view, amount).is_none());
            if is_foreign && terms.hard().get(name).is_some() {
                used.insert(name.clone(), amount.clone());
            }
        }
        ResourceQuotaStatus { hard: Some(terms.hard().to_list()), used: Some(used) }
    }
}

/// The kind that an amount counts objects of, built in or described by a definition; none when the
/// view does not hold it, or its first list is still to come.
fn kind_of(view: &ClusterView, amount: QuotaAmount<'_>) -> Option<ResourceKind> {
    let resource = amount.resource();
    ResourceKind::ALL.into_iter().chain(view.custom_kinds()).find(|kind| {
        let info = kind.info();
        info.scope == ResourceScope::Namespaced
            && info.held != ViewDetail::Nothing
            && resource_of(*kind) == resource
            && !view.is_unlisted(*kind)
    })
}

fn resource_of(kind: ResourceKind) -> CountedResource<'static> {
    let info = kind.info();
    CountedResource { group: info.group, plural: info.plural }
}

fn counted(object: &ViewObject) -> CountedObject<'_, HeldPod> {
    match object {
        ViewObject::Pod(pod) => CountedObject::Pod(pod.as_ref()),
        ViewObject::Service(service) => CountedObject::Service(service),
        ViewObject::PersistentVolumeClaim(claim) => CountedObject::Claim(claim),
        ViewObject::CronJob(_)
        | ViewObject::CustomResourceDefinition(_)
        | ViewObject::ControllerRevision(_)
        | ViewObject::DaemonSet(_)
        | ViewObject::Deployment(_)
        | ViewObject::EndpointSlice(_)
        | ViewObject::Endpoints(_)
        | ViewObject::Job(_)
        | ViewObject::Lease(_)
        | ViewObject::HorizontalPodAutoscaler(_)
        | ViewObject::Metadata(..)
        | ViewObject::Namespace(_)
        | ViewObject::Node(_)
        | ViewObject::PersistentVolume(_)
        | ViewObject::PodDisruptionBudget(_)
        | ViewObject::PodRestart(_)
        | ViewObject::ReplicaSet(_)
        | ViewObject::ReplicationController(_)
        | ViewObject::ResourceQuota(_)
        | ViewObject::RestartLadder(_)
        | ViewObject::RestartLedger(_)
        | ViewObject::StatefulSet(_)
        | ViewObject::StorageClass(_) => CountedObject::Other,
    }
}

/// True when there is nothing to write, however the amounts are written.
fn is_same(known: Option<&ResourceQuotaStatus>, new: &ResourceQuotaStatus) -> bool {
    let Some(known) = known else { return false };
    let same = |known: Option<_>, new: Option<_>| {
        QuotaUsage::read(known).is_same_as(&QuotaUsage::read(new))
    };
    same(known.hard.as_ref(), new.hard.as_ref()) && same(known.used.as_ref(), new.used.as_ref())
}
