//! What is read of the API's store without asking the API: by those who watch, and by the checks.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rekindle_controllers::{NamespacedName, ObjectId, ResourceKind, ViewObject};
use rekindle_reconcile::{Planner, WatchUpdate};
use rekindle_store::{RangeQuery, Revision, Store, StoredObject};
use rekindle_types::v1alpha1::PodRestart;
use rekindle_types::{ObjectJson, Tick};

use super::SimServer;

impl SimServer {
    /// Whether there is such an object.
    pub(crate) fn holds(&self, id: &ObjectId) -> bool {
        self.kinds.key(id).is_some_and(|key| self.api.store().get(&key).is_some())
    }

    /// The object under this name.
    pub(crate) fn get(&self, id: &ObjectId) -> Option<ViewObject> {
        self.read(self.stored(id)?.as_ref())
    }

    /// An object as it is stored.
    pub(crate) fn stored(&self, id: &ObjectId) -> Option<Arc<StoredObject>> {
        let stored = self.api.store().get(&self.kinds.key(id)?)?;
        self.note_read(std::slice::from_ref(&stored));
        Some(stored)
    }

    fn all(&self, kind: ResourceKind) -> Vec<Arc<StoredObject>> {
        let all = self.kinds.all(&self.api, kind);
        self.note_read(&all);
        all
    }

    fn note_read(&self, all: &[Arc<StoredObject>]) {
        let inner = &mut *self.inner();
        if let Some(told) = &mut inner.told {
            let wrong = all.iter().find_map(|stored| told.read(stored));
            inner.broken = inner.broken.take().or(wrong);
        }
    }

    /// What is behind a stored text; none when its kind is not watched.
    pub(crate) fn read(&self, stored: &StoredObject) -> Option<ViewObject> {
        self.kinds.read(&self.api, stored)
    }

    /// A pod that the watch shows, as the API has it; none for another object.
    pub(crate) fn seen_pod(&self, stored: &StoredObject) -> Option<Arc<Pod>> {
        let mut inner = self.inner();
        // what was shown before is not shown again
        let later = inner.unseen.split_off(&stored.revision);
        inner.unseen = later;
        let known = inner.unseen.remove(&stored.revision);
        drop(inner);
        let pod = known.or_else(|| self.kinds.pod(&self.api, stored))?;
        debug_assert!(
            pod.to_json() == *stored.value,
            "{} reads back as something else than it was",
            stored.key
        );
        Some(pod)
    }

    /// A pod that was written just now.
    pub(crate) fn written_pod(&self, name: &NamespacedName) -> Option<Arc<Pod>> {
        let stored = self.stored(&ObjectId::new(ResourceKind::Pod, name.clone()))?;
        let pod = self.kinds.pod(&self.api, &stored)?;
        self.inner().unseen.insert(stored.revision, pod.clone());
        Some(pod)
    }

    /// A pod as it is stored.
    pub(crate) fn pod(&self, name: &NamespacedName) -> Option<Arc<Pod>> {
        let stored = self.stored(&ObjectId::new(ResourceKind::Pod, name.clone()))?;
        self.kinds.pod(&self.api, &stored)
    }

    /// All pods as they were at a revision; none when that is forgotten.
    pub(crate) fn pods_at(&self, revision: Revision) -> Option<Vec<Arc<Pod>>> {
        let prefix = self.kinds.prefix(ResourceKind::Pod)?;
        let query = RangeQuery { prefix, at: Some(revision), ..RangeQuery::default() };
        let range = self.api.store().range(&query).ok()?;
        // not through the API, which holds the newest version of each
        let pods = range.objects.iter().map(|stored| Pod::from_json(&stored.value));
        pods.map(|pod| pod.map(Arc::new)).collect::<Result<Vec<_>, _>>().ok()
    }

    /// All pods as they are stored.
    pub(crate) fn pods(&self) -> Vec<Arc<Pod>> {
        let all = self.all(ResourceKind::Pod);
        all.iter().filter_map(|stored| self.kinds.pod(&self.api, stored)).collect()
    }

    /// All PodRestarts.
    pub(crate) fn restarts(&self) -> Vec<Arc<PodRestart>> {
        let restarts =
            self.list(ResourceKind::PodRestart).into_iter().filter_map(|object| match object {
                ViewObject::PodRestart(restart) => Some(restart),
                _ => None,
            });
        restarts.collect()
    }

    /// All objects of a kind.
    pub(crate) fn list(&self, kind: ResourceKind) -> Vec<ViewObject> {
        self.all(kind).iter().filter_map(|stored| self.read(stored)).collect()
    }

    /// A planner sees this, and lists the kinds of the definitions that come with it.
    pub(crate) fn show(&self, planner: &mut Planner, now: Tick, seen: WatchUpdate) {
        planner.see(now, seen);
        let unlisted: Vec<ResourceKind> = planner.unlisted_kinds().collect();
        for kind in unlisted {
            planner.see(now, WatchUpdate::List(kind, self.list(kind)));
        }
    }
}

/// All that a store holds.
pub(super) fn everything(store: &Store) -> Vec<Arc<StoredObject>> {
    store.range(&RangeQuery::default()).expect("the newest revision can be read").objects
}
