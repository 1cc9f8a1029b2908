//! What the watches show: the pods of the node, and PodRestarts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher::Event;
use rekindle_cri_restart::OpenRestart;
use rekindle_types::v1alpha1::{CarriedOutBy, ClearingStep, PodRestart, PodRestartPhase};
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

    /// The request with this UID, and the pod of its name.
    pub(crate) fn restart(&self, uid: &str) -> Option<(Arc<PodRestart>, Option<Arc<Pod>>)> {
        let known = self.lock();
        let mut restarts = known.restarts.shown.values();
        let restart = restarts.find(|restart| is_uid(&restart.metadata, uid))?.clone();
        let pod = known.pods.shown.get(&pod_key(&restart)).cloned();
        Some((restart, pod))
    }

    /// The requests that this node answers and that are not over, or leave a pod frozen: its pod is
    /// here, or this node has begun it. None before both kinds were listed.
    pub(crate) fn open_restarts(&self, node: &str) -> Vec<OpenRestart> {
        let known = self.lock();
        if !known.pods.is_listed || !known.restarts.is_listed {
            return Vec::new();
        }
        let open = known.restarts.shown.values().filter(|restart| {
            let status = restart.status.as_ref();
            let is_over = status.and_then(|s| s.phase).is_some_and(PodRestartPhase::is_final)
                && !may_leave_pod_frozen(restart);
            let answered_by = status.and_then(|status| status.node_name.as_deref());
            let is_here = match answered_by {
                Some(name) => name == node,
                None => known.pods.shown.contains_key(&pod_key(restart)),
            };
            restart.carried_out_by() == CarriedOutBy::Node && !is_over && is_here
        });
        let open = open.filter_map(|restart| {
            let phase = restart.status.as_ref().and_then(|status| status.phase);
            Some(OpenRestart { uid: restart.metadata.uid.clone()?, is_begun: phase.is_some() })
        });
        open.collect()
    }
}

/// Whether a request froze its pod and nothing says that it was thawed.
fn may_leave_pod_frozen(restart: &PodRestart) -> bool {
    let runtime = restart.status.as_ref().and_then(|status| status.runtime.as_ref());
    let clearing = runtime.and_then(|runtime| runtime.empty_dirs.as_ref());
    clearing.is_some_and(|clearing| clearing.step != ClearingStep::Released)
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
