//! One write, with the quotas that it counts in.

use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use rekindle_kinds::registry::{AnyObject, KindEntry};
use rekindle_quota::{CountedObject, QuotaTerms, QuotaUsage};
use rekindle_store::{PendingWrite, StoreError, StoredObject, WriteEpoch, WritePrecondition};
use rekindle_types::Tick;

use super::charge::{ChargeRule, ChargedQuota, CountedChange, status_of};
use super::held_namespace::{HeldNamespace, WriteTarget};
use super::namespace_locks::NamespaceGuard;
use super::recount::{ReadUsage, resource_of};
use crate::call::{ApiCall, ObjectChange, ObjectPart, put_together};
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

impl<'a> QuotaWrite<'a> {
    /// Of a new object; none when no quota can count it.
    ///
    /// # Errors
    /// 403 when a quota does not let it in.
    pub(crate) fn of_create(
        call: &ApiCall<'a>,
        object: &mut dyn AnyObject,
    ) -> Result<Option<Self>, ApiError> {
        let target = WriteTarget::of_call(call);
        if !target.can_be_counted() {
            return Ok(None);
        }
        let rule = ChargeRule::CheckDemands;
        let Some(quota) = object.as_any_mut().downcast_mut::<ResourceQuota>() else {
            let held = HeldNamespace::of_write(target)?;
            return Self::decide(target, held, (None, Some(&*object)), rule).map(Some);
        };
        let mut recount = OwnCount::begin(target, quota)?;
        let held = HeldNamespace::alone(target)?;
        let mut used = recount.used(target, held.now)?;
        used.add(&own_usage(&recount.terms, target.entry, held.now));
        quota.status = Some(status_of(&recount.terms, &used));
        Self::decide(target, held, (None, Some(&*object)), rule).map(Some)
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
            ObjectPart::Status | ObjectPart::Finalize | ObjectPart::Approval => ChargeRule::Count,
        };
        let target = WriteTarget::of_call(call);
        let held = HeldNamespace::of_write(target)?;
        Self::decide(target, held, (Some(old), Some(&*object)), rule).map(Some)
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
            ObjectPart::Finalize
            | ObjectPart::Resize
            | ObjectPart::EphemeralContainers
            | ObjectPart::Approval => false,
        };
        if !is_counted {
            return Ok(None);
        }
        let target = WriteTarget::of_call(call);
        let mut recount = OwnCount::begin(target, quota)?;
        let HeldNamespace { lock, epoch, now, .. } = HeldNamespace::alone(target)?;
        let used = recount.used(target, now)?;
        match part {
            ObjectPart::Status => correct(quota, &used),
            ObjectPart::Main
            | ObjectPart::Finalize
            | ObjectPart::Resize
            | ObjectPart::EphemeralContainers
            | ObjectPart::Approval => {
                quota.status = Some(status_of(&recount.terms, &used));
            }
        }
        Ok(Some(Self { api: call.api, _lock: lock, epoch, changes: Vec::new() }))
    }

    /// Of the removal of an object; none when no quota can count it, or it cannot be read.
    pub(crate) fn of_removal(
        api: &'a ApiShared,
        entry: &KindEntry,
        stored: &StoredObject,
        now: Tick,
    ) -> Option<Self> {
        let object = api.read(entry, stored).ok()?;
        Self::of_own(api, entry, (Some(object.as_ref()), None), now)
    }

    /// Of a write that no quota refuses: a removal, and what the server makes or changes of its
    /// own. It is an object's old and new content. None when no quota can count it. What cannot be
    /// counted, as a quota or an object that it counts cannot be read, is written all the same,
    /// under the lock and with no change of any quota.
    pub(crate) fn of_own(
        api: &'a ApiShared,
        entry: &KindEntry,
        change: (Option<&dyn AnyObject>, Option<&dyn AnyObject>),
        now: Tick,
    ) -> Option<Self> {
        let object = change.1.or(change.0)?;
        let namespace = object.meta().namespace.as_deref().unwrap_or_default();
        let target = WriteTarget { api, entry, namespace, now };
        if !target.can_be_counted() {
            return None;
        }
        let Ok(held) = HeldNamespace::of_write(target) else {
            return Some(Self::uncounted(target));
        };
        let changes = Self::changes(target, &held, change, ChargeRule::Count).unwrap_or_default();
        let HeldNamespace { lock, epoch, .. } = held;
        Some(Self { api, _lock: lock, epoch, changes })
    }

    /// A write that changes no quota.
    fn uncounted(target: WriteTarget<'a, '_>) -> Self {
        let api = target.api;
        let (lock, _) = api.namespace_locks.alone(target.namespace, target.now);
        Self { api, _lock: lock, epoch: api.store.epoch(), changes: Vec::new() }
    }

    fn decide(
        target: WriteTarget<'a, '_>,
        held: HeldNamespace<'a>,
        change: (Option<&dyn AnyObject>, Option<&dyn AnyObject>),
        rule: ChargeRule,
    ) -> Result<Self, ApiError> {
        let changes = Self::changes(target, &held, change, rule)?;
        let HeldNamespace { lock, epoch, .. } = held;
        Ok(Self { api: target.api, _lock: lock, epoch, changes })
    }

    /// Decides what a write changes of each quota.
    fn changes(
        target: WriteTarget<'a, '_>,
        held: &HeldNamespace<'a>,
        (old, new): (Option<&dyn AnyObject>, Option<&dyn AnyObject>),
        rule: ChargeRule,
    ) -> Result<Vec<ObjectChange>, ApiError> {
        let WriteTarget { api, entry, namespace, .. } = target;
        let (now, quotas) = (held.now, &held.quotas);
        let mut changes = Vec::new();
        let Some(object) = new.or(old).filter(|_| !quotas.is_empty()) else { return Ok(changes) };
        let change = CountedChange { resource: resource_of(entry), old, new, now, rule };
        let name = object_meta::name(object);
        let own_key = keys::object(entry, namespace, name);
        let refused = |why: String| ApiError::forbidden(entry, name, &why);
        let others = quotas.iter().filter(|quota| quota.stored.key.as_str() != own_key);
        let charged = others.map(|of| (&of.stored, ChargedQuota::new(&of.quota)));
        let charged: Vec<_> = charged.collect();
        for (_, quota) in &charged {
            quota.check_demands(&change).map_err(refused)?;
        }
        for (stored, quota) in &charged {
            let difference = quota.difference(&change);
            let Some(used) = quota.usage_before(api, namespace, &change, &difference)? else {
                continue;
            };
            quota.check(&used, &change, &difference).map_err(refused)?;
            let used = difference.applied_to(&used);
            changes.push(ObjectChange::Put {
                key: stored.key.as_str().to_owned(),
                expect: WritePrecondition::Revision(stored.revision),
                object: Box::new(quota.with_usage(&used)),
            });
        }
        Ok(changes)
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

/// What is used of a quota that is written.
struct OwnCount {
    terms: QuotaTerms,
    read: ReadUsage,
}

impl OwnCount {
    /// Reads the objects, before the lock of the namespace is taken.
    fn begin(target: WriteTarget<'_, '_>, quota: &ResourceQuota) -> Result<Self, ApiError> {
        let terms = QuotaTerms::of_quota(quota);
        let read = ReadUsage::read(target.api, target.namespace, &terms, target.now)?;
        Ok(Self { terms, read })
    }

    /// What they use, once nothing else is written.
    fn used(&mut self, target: WriteTarget<'_, '_>, now: Tick) -> Result<QuotaUsage, ApiError> {
        self.read.recount(target.api, target.namespace, &self.terms, now)
    }
}

/// What a quota uses of itself.
fn own_usage(terms: &QuotaTerms, entry: &KindEntry, now: Tick) -> QuotaUsage {
    terms.usage_of::<Pod>(resource_of(entry), CountedObject::Other, now)
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

fn is_quota(entry: &KindEntry) -> bool {
    entry.group.is_empty() && entry.kind == "ResourceQuota"
}

#[cfg(test)]
mod tests {
    use rekindle_store::Mutation;
    use serde_json::json;

    use super::super::held_namespace::tests::NOW;
    use super::*;
    use crate::shared::testing::api;

    #[test]
    fn a_write_of_the_servers_own_keeps_the_lock_although_a_quota_cannot_be_read() {
        let (api, _committer) = api();
        let find = |plural| api.registry.find("", "v1", plural).unwrap();
        let key = keys::object(find("resourcequotas"), "shop", "budget");
        let text = |_| json!({"metadata": {"name": "budget"}, "spec": 5}).to_string().into();
        let broken = api.store.write(&key, WritePrecondition::Absent, Mutation::Put(&text));
        let _pending = broken.unwrap();
        let pod = Pod {
            metadata: serde_json::from_value(json!({"name": "web", "namespace": "shop"})).unwrap(),
            ..Pod::default()
        };
        let change: (_, Option<&dyn AnyObject>) = (None, Some(&pod));
        let write = QuotaWrite::of_own(&api, find("pods"), change, NOW).unwrap();
        assert!(matches!(write._lock, NamespaceGuard::Alone { .. }));
        assert!(write.changes.is_empty());
    }
}
