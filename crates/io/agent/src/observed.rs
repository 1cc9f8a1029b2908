//! What the watches show: the pods of the node, and PodRestarts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher::Event;
use rekindle_cri_restart::{OpenRestart, frozen_for_nothing};
use rekindle_types::v1alpha1::{MemberTurn, PodRestart};
use tokio::sync::watch;

/// Namespace and name.
type ObjectKey = (String, String);

/// What is known of the API. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub(crate) struct SharedObjects {
    known: Arc<Mutex<KnownObjects>>,
    changes: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct KnownObjects {
    pods: ListedObjects<Pod>,
    restarts: ListedObjects<PodRestart>,
}

/// A request as the watches show it.
#[derive(Clone, Debug)]
pub(crate) struct SeenRestart {
    pub(crate) restart: Arc<PodRestart>,
    /// The pod of its name on this node.
    pub(crate) pod: Option<Arc<Pod>>,
    /// What its group is about to do.
    pub(crate) turn: MemberTurn,
}

impl SeenRestart {
    /// Whether nothing has changed since another look.
    pub(crate) fn is_as(&self, before: &SeenRestart) -> bool {
        let version = |seen: &SeenRestart| {
            seen.pod.as_ref().and_then(|pod| pod.metadata.resource_version.clone())
        };
        self.restart.metadata.resource_version == before.restart.metadata.resource_version
            && version(self) == version(before)
            && self.turn == before.turn
    }
}

impl KnownObjects {
    /// What is done with a request now. Both kinds were listed: a group that is not here is gone.
    fn turn(&self, restart: &PodRestart) -> MemberTurn {
        let namespace = restart.metadata.namespace.clone().unwrap_or_default();
        let name = restart.spec.member_of.clone();
        let group = name.and_then(|name| self.restarts.shown.get(&(namespace, name)));
        restart.member_turn(group.map(Arc::as_ref))
    }
}

/// Objects of one kind, and those of a list that has begun.
#[derive(Debug)]
struct ListedObjects<T> {
    shown: BTreeMap<ObjectKey, Arc<T>>,
    list: BTreeMap<ObjectKey, Arc<T>>,
    is_listed: bool,
}

impl<T> Default for ListedObjects<T> {
    fn default() -> Self {
        Self { shown: BTreeMap::new(), list: BTreeMap::new(), is_listed: false }
    }
}

impl<T> ListedObjects<T> {
    fn see(&mut self, event: Event<T>, key: impl Fn(&T) -> ObjectKey) {
        match event {
            Event::Init => self.list.clear(),
            Event::InitApply(object) => {
                self.list.insert(key(&object), Arc::new(object));
            }
            Event::InitDone => {
                self.shown = std::mem::take(&mut self.list);
                self.is_listed = true;
            }
            Event::Apply(object) => {
                self.shown.insert(key(&object), Arc::new(object));
            }
            Event::Delete(object) => {
                self.shown.remove(&key(&object));
            }
        }
    }
}

impl Default for SharedObjects {
    fn default() -> Self {
        Self { known: Arc::default(), changes: watch::channel(()).0 }
    }
}

impl SharedObjects {
    fn lock(&self) -> MutexGuard<'_, KnownObjects> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something was seen of a pod.
    pub(crate) fn see_pod(&self, event: Event<Pod>) {
        self.lock().pods.see(event, |pod| key(&pod.metadata));
        self.changes.send_replace(());
    }

    /// Something was seen of a request.
    pub(crate) fn see_restart(&self, event: Event<PodRestart>) {
        self.lock().restarts.see(event, |restart| key(&restart.metadata));
        self.changes.send_replace(());
    }

    /// Tells when something has changed.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Whether both kinds were listed.
    pub(crate) fn is_listed(&self) -> bool {
        let known = self.lock();
        known.pods.is_listed && known.restarts.is_listed
    }

    /// Whether the request with this UID is there.
    pub(crate) fn has_restart(&self, uid: &str) -> bool {
        self.lock().restarts.shown.values().any(|restart| is_uid(&restart.metadata, uid))
    }

    /// The request with this UID, with what belongs to it.
    pub(crate) fn restart(&self, uid: &str) -> Option<SeenRestart> {
        let known = self.lock();
        let mut restarts = known.restarts.shown.values();
        let restart = restarts.find(|restart| is_uid(&restart.metadata, uid))?.clone();
        let pod = known.pods.shown.get(&pod_key(&restart)).cloned();
        let turn = known.turn(&restart);
        Some(SeenRestart { restart, pod, turn })
    }

    /// Those of the cgroups that were frozen that are pods of this node and no request names.
    pub(crate) fn frozen_for_nothing(&self, frozen: Vec<String>) -> Vec<String> {
        let known = self.lock();
        let pods = known.pods.shown.values().map(Arc::as_ref);
        frozen_for_nothing(frozen, pods, known.restarts.shown.values().map(Arc::as_ref))
    }

    /// The requests that this node works on. None before both kinds were listed.
    pub(crate) fn open_restarts(&self, node: &str) -> Vec<OpenRestart> {
        let known = self.lock();
        if !known.pods.is_listed || !known.restarts.is_listed {
            return Vec::new();
        }
        let open = known.restarts.shown.values().filter_map(|restart| {
            let is_pod_here = known.pods.shown.contains_key(&pod_key(restart));
            OpenRestart::of_node(node, restart, is_pod_here, known.turn(restart))
        });
        open.collect()
    }
}

fn is_uid(metadata: &ObjectMeta, uid: &str) -> bool {
    metadata.uid.as_deref() == Some(uid)
}

fn key(metadata: &ObjectMeta) -> ObjectKey {
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

fn pod_key(restart: &PodRestart) -> ObjectKey {
    (restart.metadata.namespace.clone().unwrap_or_default(), restart.spec.pod_name.clone())
}
