//! What changed in namespaces with quotas, and when their quotas are to be counted again.

use std::collections::BTreeMap;

use rekindle_types::held::HeldPod;
use rekindle_types::pods::is_finished;
use rekindle_types::{Tick, TickDuration};

use crate::{ClusterView, NamespacedName, ViewObject};

/// So long a namespace is left alone after a change.
const QUIET_TIME: TickDuration = TickDuration::from_secs(2);
/// A namespace that is never quiet for so long is counted all the same, so long after the first
/// change.
const BUSY_TIME_MAX: TickDuration = TickDuration::from_secs(30);

/// The namespaces that have quotas.
#[derive(Clone, Debug, Default)]
pub(crate) struct QuotaActivity {
    by_namespace: BTreeMap<String, NamespaceActivity>,
}

#[derive(Clone, Debug)]
struct NamespaceActivity {
    changed_at: Tick,
    /// Each quota by its name, with the first change that it was not counted after.
    uncounted_since: BTreeMap<String, Option<Tick>>,
}

impl QuotaActivity {
    /// An object came, changed or went.
    pub(crate) fn follow(
        &mut self,
        before: Option<&ViewObject>,
        after: Option<&ViewObject>,
        now: Tick,
    ) {
        let Some(meta) = before.or(after).map(ViewObject::meta) else { return };
        let Some(namespace) = meta.namespace.as_deref() else { return };
        let name = meta.name.as_deref().unwrap_or_default();
        match (is_quota(before), is_quota(after)) {
            (false, true) => self.add_quota(namespace, name, now),
            (true, false) => self.remove_quota(namespace, name),
            (true, true) | (false, false) => {}
        }
        if let Some(activity) = self.by_namespace.get_mut(namespace)
            && is_counted((before, after))
        {
            activity.changed_at = now;
            for since in activity.uncounted_since.values_mut() {
                since.get_or_insert(now);
            }
        }
    }

    fn add_quota(&mut self, namespace: &str, name: &str, now: Tick) {
        let new = || NamespaceActivity { changed_at: now, uncounted_since: BTreeMap::new() };
        let activity = self.by_namespace.entry(namespace.to_owned()).or_insert_with(new);
        activity.uncounted_since.insert(name.to_owned(), Some(now));
    }

    fn remove_quota(&mut self, namespace: &str, name: &str) {
        let Some(activity) = self.by_namespace.get_mut(namespace) else { return };
        activity.uncounted_since.remove(name);
        if activity.uncounted_since.is_empty() {
            self.by_namespace.remove(namespace);
        }
    }

    /// A quota was counted.
    fn counted(&mut self, quota: &NamespacedName) {
        let activity = self.by_namespace.get_mut(&quota.namespace);
        let since = activity.and_then(|of| of.uncounted_since.get_mut(&quota.name));
        if let Some(since) = since {
            *since = None;
        }
    }

    /// When a quota is to be counted: once its namespace is quiet, and in time where it never is.
    pub(super) fn count_due(&self, quota: &NamespacedName) -> Tick {
        let Some(activity) = self.by_namespace.get(&quota.namespace) else { return Tick::ZERO };
        let since = activity.uncounted_since.get(&quota.name).copied().flatten();
        since.map_or(Tick::ZERO, |since| {
            (activity.changed_at + QUIET_TIME).min(since + BUSY_TIME_MAX)
        })
    }
}

impl ClusterView {
    /// A quota was counted, as [`WritePlan::counted_quota`](crate::WritePlan::counted_quota) says.
    pub fn quota_counted(&mut self, quota: &NamespacedName) {
        self.memories_mut().quota_activity.counted(quota);
    }
}

fn is_quota(object: Option<&ViewObject>) -> bool {
    matches!(object, Some(ViewObject::ResourceQuota(_)))
}

/// Whether a quota may count something else after this change. Readiness, heartbeats and labels
/// change again and again, and no quota counts them.
pub(super) fn is_counted(change: (Option<&ViewObject>, Option<&ViewObject>)) -> bool {
    match change {
        (None, _) | (_, None) => true,
        (Some(ViewObject::Pod(before)), Some(ViewObject::Pod(after))) => pod_changed(before, after),
        (Some(ViewObject::Service(before)), Some(ViewObject::Service(after))) => {
            before.spec != after.spec
        }
        (
            Some(ViewObject::PersistentVolumeClaim(before)),
            Some(ViewObject::PersistentVolumeClaim(after)),
        ) => before.spec != after.spec || before.status != after.status,
        (Some(ViewObject::ResourceQuota(_)), Some(ViewObject::ResourceQuota(_))) => true,
        (Some(_), Some(_)) => false,
    }
}

fn pod_changed(before: &HeldPod, after: &HeldPod) -> bool {
    let granted = |pod: &HeldPod| {
        let status = pod.status.as_ref();
        let of_containers = status.map(|status| {
            let all = [&status.container_statuses, &status.init_container_statuses];
            let all = all.into_iter().flatten().flatten();
            all.map(|one| (one.allocated_resources.clone(), one.resources.clone()))
                .collect::<Vec<_>>()
        });
        let of_pod =
            status.map(|status| (status.allocated_resources.clone(), status.resources.clone()));
        (of_containers, of_pod)
    };
    before.metadata.uid != after.metadata.uid
        || is_finished(before) != is_finished(after)
        || before.metadata.deletion_timestamp != after.metadata.deletion_timestamp
        || !before.has_spec_of(after)
        || granted(before) != granted(after)
}
