//! When something that counts was last seen to change in a namespace with quotas.

use std::collections::BTreeMap;

use rekindle_types::Tick;
use rekindle_types::held::HeldPod;
use rekindle_types::pods::is_finished;

use crate::ViewObject;

/// The namespaces that have quotas.
#[derive(Clone, Debug, Default)]
pub(crate) struct QuotaActivity {
    by_namespace: BTreeMap<String, NamespaceActivity>,
}

#[derive(Clone, Copy, Debug)]
struct NamespaceActivity {
    quotas: u32,
    changed_at: Tick,
}

impl QuotaActivity {
    /// An object came, changed or went.
    pub(crate) fn follow(
        &mut self,
        before: Option<&ViewObject>,
        after: Option<&ViewObject>,
        now: Tick,
    ) {
        let Some(namespace) = namespace_of(before.or(after)) else { return };
        match (is_quota(before), is_quota(after)) {
            (false, true) => self.add_quota(namespace, now),
            (true, false) => self.remove_quota(namespace),
            (true, true) | (false, false) => {}
        }
        if let Some(activity) = self.by_namespace.get_mut(namespace)
            && is_counted((before, after))
        {
            activity.changed_at = now;
        }
    }

    fn add_quota(&mut self, namespace: &str, now: Tick) {
        let new = NamespaceActivity { quotas: 0, changed_at: now };
        self.by_namespace.entry(namespace.to_owned()).or_insert(new).quotas += 1;
    }

    fn remove_quota(&mut self, namespace: &str) {
        let Some(activity) = self.by_namespace.get_mut(namespace) else { return };
        activity.quotas -= 1;
        if activity.quotas == 0 {
            self.by_namespace.remove(namespace);
        }
    }

    /// When something that counts last changed in a namespace with quotas.
    pub(super) fn last_change(&self, namespace: &str) -> Tick {
        self.by_namespace.get(namespace).map_or(Tick::ZERO, |activity| activity.changed_at)
    }
}

fn namespace_of(object: Option<&ViewObject>) -> Option<&str> {
    object?.meta().namespace.as_deref()
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
