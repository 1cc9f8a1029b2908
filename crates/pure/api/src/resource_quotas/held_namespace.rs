//! Where a write goes, and what its namespace is while that is counted.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ResourceQuota;
use rekindle_kinds::registry::{KindEntry, ResourceScope};
use rekindle_quota::bounds_resource;
use rekindle_store::{StoredObject, WriteEpoch};
use rekindle_types::Tick;

use super::namespace_locks::NamespaceGuard;
use super::recount::resource_of;
use crate::call::ApiCall;
use crate::keys;
use crate::shared::ApiShared;
use crate::status::ApiError;

/// Where something is written, of which kind, and when.
#[derive(Clone, Copy)]
pub(super) struct WriteTarget<'a, 'w> {
    pub(super) api: &'a ApiShared,
    pub(super) entry: &'w KindEntry,
    pub(super) namespace: &'w str,
    pub(super) now: Tick,
}

/// A namespace as it was when its lock was taken.
pub(super) struct HeldNamespace<'a> {
    pub(super) lock: NamespaceGuard<'a>,
    pub(super) epoch: WriteEpoch,
    /// The time at which the write counts.
    pub(super) now: Tick,
    /// The quotas that count objects of the kind that is written.
    pub(super) quotas: Vec<StoredQuota>,
}

/// A quota, and the version of it that was read.
pub(super) struct StoredQuota {
    pub(super) stored: Arc<StoredObject>,
    pub(super) quota: Arc<ResourceQuota>,
}

impl<'a, 'w> WriteTarget<'a, 'w> {
    pub(super) fn of_call(call: &'w ApiCall<'a>) -> Self {
        let (namespace, now) = (&call.path.namespace, call.request.now);
        Self { api: call.api, entry: call.entry, namespace, now }
    }

    /// Whether a quota could count objects of the kind. Others share no lock with anything.
    pub(super) fn can_be_counted(&self) -> bool {
        self.entry.scope == ResourceScope::Namespaced && !resource_of(self.entry).is_ignored()
    }

    /// The quotas of the namespace that count objects of the kind, and the epoch of that.
    fn quotas(&self) -> Result<(Vec<StoredQuota>, WriteEpoch), ApiError> {
        let Some(entry) = quotas(self.api) else {
            return Ok((Vec::new(), self.api.store.epoch()));
        };
        let (stored, epoch) = self.api.store.newest_below(&keys::collection(entry, self.namespace));
        let mut counting = Vec::new();
        for stored in stored {
            let quota = self.api.read_as::<ResourceQuota>(entry, &stored)?;
            let quota = quota.filter(|quota| bounds_resource(quota, resource_of(self.entry)));
            counting.extend(quota.map(|quota| StoredQuota { stored, quota }));
        }
        Ok((counting, epoch))
    }
}

impl<'a> HeldNamespace<'a> {
    /// A write of a kind that no quota counts shares the lock with others of them. One that a quota
    /// counts is alone.
    pub(super) fn of_write(target: WriteTarget<'a, '_>) -> Result<Self, ApiError> {
        let lock = target.api.namespace_locks.shared(target.namespace);
        let (quotas, epoch) = target.quotas()?;
        if quotas.is_empty() {
            return Ok(Self { lock, epoch, now: target.now, quotas });
        }
        drop(lock);
        Self::alone(target)
    }

    /// For a write that changes a quota.
    pub(super) fn alone(target: WriteTarget<'a, '_>) -> Result<Self, ApiError> {
        let (lock, now) = target.api.namespace_locks.alone(target.namespace, target.now);
        let (quotas, epoch) = target.quotas()?;
        Ok(Self { lock, epoch, now, quotas })
    }
}

fn quotas(api: &ApiShared) -> Option<&Arc<KindEntry>> {
    api.registry.find("", "v1", "resourcequotas")
}

#[cfg(test)]
pub(super) mod tests {
    use rekindle_store::WritePrecondition;
    use serde_json::json;

    use super::*;
    use crate::call::put;
    use crate::shared::testing::api;

    pub(in crate::resource_quotas) const NOW: Tick = Tick::from_secs(1_800_000_000);

    #[test]
    fn only_writes_that_a_quota_counts_keep_others_of_the_namespace_waiting() {
        let (api, _committer) = api();
        let quota = json!({"metadata": {"name": "budget", "namespace": "shop"},
            "spec": {"hard": {"pods": "3", "count/deployments.apps": "3"}}});
        let quota: ResourceQuota = serde_json::from_value(quota).unwrap();
        let key = keys::object(quotas(&api).unwrap(), "shop", "budget");
        let _pending = put(&api, &key, WritePrecondition::Absent, Box::new(quota)).unwrap();
        for (group, plural, namespace, is_alone) in [
            ("", "pods", "shop", true),
            ("apps", "deployments", "shop", true),
            ("", "pods", "elsewhere", false),
            ("", "configmaps", "shop", false),
            ("", "services", "shop", false),
            ("coordination.k8s.io", "leases", "shop", false),
        ] {
            let entry = api.registry.find(group, "v1", plural).unwrap();
            let target = WriteTarget { api: &api, entry, namespace, now: NOW };
            let held = HeldNamespace::of_write(target).unwrap();
            let holds_alone = matches!(held.lock, NamespaceGuard::Alone { .. });
            assert_eq!(holds_alone, is_alone, "{plural} of {namespace}");
            assert_eq!(held.quotas.len(), usize::from(is_alone));
        }
        let of_kind = |plural: &str| {
            let entry = api.registry.find("", "v1", plural).unwrap();
            WriteTarget { api: &api, entry, namespace: "shop", now: NOW }.can_be_counted()
        };
        assert_eq!(["events", "nodes", "pods"].map(of_kind), [false, false, true]);
    }
}
