//! One write, with the quotas that it counts in.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use rekindle_quota::{CountedObject, QuotaTerms, QuotaUsage};
use rekindle_store::{PendingWrite, StoreError, StoredObject, WriteEpoch, WritePrecondition};
use rekindle_types::Tick;

use super::charge::{ChargeRule, ChargedQuota, CountedChange, status_of};
use super::namespace_locks::NamespaceGuard;
use super::recount::{ReadUsage, resource_of};
use crate::call::{ApiCall, ObjectChange, ObjectPart, put_together};
use crate::registry::{AnyObject, KindEntry, ResourceScope};
use crate::shared::ApiShared;
use crate::status::ApiError;
use crate::{keys, object_meta};

/// A write that is on its way to the store's queue. It holds the lock of its namespace until it is
/// queued, or dropped.
pub(crate) struct QuotaWrite<'a> {
    api: &'a ApiShared,
    _lock: NamespaceGuard<'a>,
    epoch: WriteEpoch,
    changes: Vec<ObjectChange>,
}

/// The quotas of a namespace, as they were when the lock was taken.
struct HeldNamespace<'a> {
    lock: NamespaceGuard<'a>,
    epoch: WriteEpoch,
    quotas: Vec<Arc<StoredObject>>,
}

impl<'a> QuotaWrite<'a> {
    /// Of a new object; none when it is in no namespace.
    ///
    /// # Errors
    /// 403 when a quota does not let it in.
    pub(crate) fn of_create(
        call: &ApiCall<'a>,
        object: &mut dyn AnyObject,
    ) -> Result<Option<Self>, ApiError> {
        if call.entry.scope != ResourceScope::Namespaced {
            return Ok(None);
        }
        let Some(quota) = object.as_any_mut().downcast_mut::<ResourceQuota>() else {
            let held = HeldNamespace::of_write(call);
            let change = change_of(call, None, &*object, ChargeRule::CheckDemands);
            return Self::decide(call.api, call.entry, held, &change).map(Some);
        };
        let mut recount = OwnCount::begin(call, quota)?;
        let held = HeldNamespace::of_quota(call);
        let mut used = recount.used(call)?;
        used.add(&own_usage(&recount.terms, call));
        quota.status = Some(status_of(&recount.terms, &used));
        let change = change_of(call, None, &*object, ChargeRule::CheckDemands);
        Self::decide(call.api, call.entry, held, &change).map(Some)
    }

    /// Of a change of an object; none when no quota can see it.
    ///
    /// # Errors
    /// 403 when a quota does not let it happen.
    pub(crate) fn of_change(
        call: &ApiCall<'a>,
        part: ObjectPart,
        object: &mut dyn AnyObject,
        old: &dyn AnyObject,
    ) -> Result<Option<Self>, ApiError> {
        if is_quota(call.entry) {
            return Self::of_quota_change(call, part, object, old);
        }
        if !resource_of(call.entry).is_looked_into() {
            return Ok(None);
        }
        let rule = match part {
            ObjectPart::Resize => ChargeRule::CheckDemands,
            ObjectPart::Main | ObjectPart::EphemeralContainers => ChargeRule::Check,
            ObjectPart::Status | ObjectPart::Finalize => ChargeRule::Count,
        };
        let held = HeldNamespace::of_write(call);
        let change = change_of(call, Some(old), &*object, rule);
        Self::decide(call.api, call.entry, held, &change).map(Some)
    }

    /// Of a change of a quota, which is counted anew when it bounds something else, and when
    /// its status is written.
    fn of_quota_change(
        call: &ApiCall<'a>,
        part: ObjectPart,
        object: &mut dyn AnyObject,
        old: &dyn AnyObject,
    ) -> Result<Option<Self>, ApiError> {
        let quota = object.as_any_mut().downcast_mut::<ResourceQuota>();
        let (Some(quota), Some(old)) = (quota, old.as_any().downcast_ref::<ResourceQuota>()) else {
            return Ok(None);
        };
        let is_counted = match part {
            ObjectPart::Main => QuotaTerms::of_quota(quota) != QuotaTerms::of_quota(old),
            ObjectPart::Status => true,
            ObjectPart::Finalize | ObjectPart::Resize | ObjectPart::EphemeralContainers => false,
        };
        if !is_counted {
            return Ok(None);
        }
        let mut recount = OwnCount::begin(call, quota)?;
        let HeldNamespace { lock, epoch, .. } = HeldNamespace::of_quota(call);
        let used = recount.used(call)?;
        match part {
            ObjectPart::Status => correct(quota, &used),
            ObjectPart::Main
            | ObjectPart::Finalize
            | ObjectPart::Resize
            | ObjectPart::EphemeralContainers => {
                quota.status = Some(status_of(&recount.terms, &used));
            }
        }
        Ok(Some(Self { api: call.api, _lock: lock, epoch, changes: Vec::new() }))
    }

    /// Of the removal of an object, which no quota refuses; none when it is in no namespace. One
    /// that cannot be read is not counted.
    pub(crate) fn of_removal(
        api: &'a ApiShared,
        entry: &KindEntry,
        stored: &StoredObject,
        now: Tick,
    ) -> Option<Self> {
        if entry.scope != ResourceScope::Namespaced {
            return None;
        }
        let object = api.read(entry, stored).ok()?;
        let namespace = object.meta().namespace.clone().unwrap_or_default();
        let held = HeldNamespace::covering(api, &namespace);
        let resource = resource_of(entry);
        let old = Some(object.as_ref());
        let change = CountedChange { resource, old, new: None, now, rule: ChargeRule::Count };
        Self::decide(api, entry, held, &change).ok()
    }

    /// Decides what a write changes of each quota.
    fn decide(
        api: &'a ApiShared,
        entry: &KindEntry,
        held: HeldNamespace<'a>,
        change: &CountedChange<'_>,
    ) -> Result<Self, ApiError> {
        let HeldNamespace { lock, epoch, quotas } = held;
        let mut write = Self { api, _lock: lock, epoch, changes: Vec::new() };
        let object = change.new.or(change.old).filter(|_| !quotas.is_empty());
        let Some(object) = object else { return Ok(write) };
        let name = object_meta::name(object);
        let namespace = object.meta().namespace.as_deref().unwrap_or_default();
        let own_key = keys::object(entry, namespace, name);
        let refused = |why: String| ApiError::forbidden(entry, name, &why);
        let mut read = Vec::new();
        for stored in quotas.iter().filter(|quota| quota.key.as_str() != own_key) {
            read.extend(read_quota(api, stored)?.map(|quota| (stored, quota)));
        }
        let charged = read.iter().map(|(stored, quota)| (stored, ChargedQuota::new(quota)));
        let charged: Vec<_> = charged.collect();
        for (_, quota) in &charged {
            quota.check_demands(change).map_err(refused)?;
        }
        for (stored, quota) in &charged {
            let difference = quota.difference(change);
            let Some(used) = quota.usage_before(api, namespace, change, &difference)? else {
                continue;
            };
            quota.check(&used, change, &difference).map_err(refused)?;
            let used = difference.applied_to(&used);
            write.changes.push(ObjectChange::Put {
                key: stored.key.as_str().to_owned(),
                expect: WritePrecondition::Revision(stored.revision),
                object: Box::new(quota.with_usage(&used)),
            });
        }
        Ok(write)
    }

    /// What the write changes of quotas, for a write that is queued by others. The lock is held
    /// as long as `self`.
    pub(crate) fn take_changes(&mut self) -> Vec<ObjectChange> {
        std::mem::take(&mut self.changes)
    }

    /// Queues the write of the object together with those of its quotas. The object comes first.
    ///
    /// # Errors
    /// Those of the store: nothing is written then.
    pub(crate) fn queue(self, object: ObjectChange) -> Result<Vec<PendingWrite>, StoreError> {
        let mut changes = vec![object];
        changes.extend(self.changes);
        put_together(self.api, changes, self.epoch)
    }
}

impl<'a> HeldNamespace<'a> {
    fn of_write(call: &ApiCall<'a>) -> Self {
        Self::covering(call.api, &call.path.namespace)
    }

    /// For a write of a quota.
    fn of_quota(call: &ApiCall<'a>) -> Self {
        Self::alone(call.api, &call.path.namespace)
    }

    /// A write that no quota covers shares the lock with others. One that changes a quota is alone.
    fn covering(api: &'a ApiShared, namespace: &str) -> Self {
        let lock = api.namespace_locks.shared(namespace);
        let (quotas, epoch) = quotas_of(api, namespace);
        if quotas.is_empty() {
            return Self { lock, epoch, quotas };
        }
        drop(lock);
        Self::alone(api, namespace)
    }

    fn alone(api: &'a ApiShared, namespace: &str) -> Self {
        let lock = api.namespace_locks.alone(namespace);
        let (quotas, epoch) = quotas_of(api, namespace);
        Self { lock, epoch, quotas }
    }
}

fn quotas_of(api: &ApiShared, namespace: &str) -> (Vec<Arc<StoredObject>>, WriteEpoch) {
    quotas(api).map_or_else(
        || (Vec::new(), api.store.epoch()),
        |entry| api.store.newest_below(&keys::collection(entry, namespace)),
    )
}

/// A write of a call, as quotas see it.
fn change_of<'w>(
    call: &'w ApiCall<'_>,
    old: Option<&'w dyn AnyObject>,
    new: &'w dyn AnyObject,
    rule: ChargeRule,
) -> CountedChange<'w> {
    let resource = resource_of(call.entry);
    CountedChange { resource, old, new: Some(new), now: call.request.now, rule }
}

/// What is used of a quota that is written.
struct OwnCount {
    terms: QuotaTerms,
    read: ReadUsage,
}

impl OwnCount {
    /// Reads the objects, before the lock of the namespace is taken.
    fn begin(call: &ApiCall<'_>, quota: &ResourceQuota) -> Result<Self, ApiError> {
        let terms = QuotaTerms::of_quota(quota);
        let read = ReadUsage::read(call.api, &call.path.namespace, &terms, call.request.now)?;
        Ok(Self { terms, read })
    }

    /// What they use, once nothing else is written.
    fn used(&mut self, call: &ApiCall<'_>) -> Result<QuotaUsage, ApiError> {
        self.read.recount(call.api, &call.path.namespace, &self.terms, call.request.now)
    }
}

/// What a quota uses of itself.
fn own_usage(terms: &QuotaTerms, call: &ApiCall<'_>) -> QuotaUsage {
    terms.usage_of::<Pod>(resource_of(call.entry), CountedObject::Other, call.request.now)
}

/// Puts what was counted in place of what a client says.
fn correct(quota: &mut ResourceQuota, used: &QuotaUsage) {
    let used = used.to_list();
    let given = quota.status.iter_mut().flat_map(|status| &mut status.used);
    for (name, amount) in given.flatten() {
        if let Some(counted) = used.get(name) {
            amount.clone_from(counted);
        }
    }
}

fn read_quota(
    api: &ApiShared,
    stored: &StoredObject,
) -> Result<Option<Arc<ResourceQuota>>, ApiError> {
    quotas(api).map_or(Ok(None), |entry| api.read_as::<ResourceQuota>(entry, stored))
}

fn quotas(api: &ApiShared) -> Option<&Arc<KindEntry>> {
    api.registry.find("", "v1", "resourcequotas")
}

fn is_quota(entry: &KindEntry) -> bool {
    entry.group.is_empty() && entry.kind == "ResourceQuota"
}
