//! One watch per referenced object, shared by the pods that refer to it, and gone with the last of
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use rekindle_object_watch::watcher as watch_objects;
use rekindle_types::ObjectJson;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use super::references::{FetchedObjects, ObjectKind, ObjectRef, ReferencedObject};

/// How long a pod waits for the first answer of the API before its mount or create fails and is
/// retried.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// What is known of an object.
#[derive(Clone, Debug)]
enum CachedObject {
    /// The API has not answered yet.
    Nothing,
    /// It does not exist.
    Absent,
    /// It is this.
    Present(ReferencedObject),
}

struct CacheEntry {
    state: watch::Receiver<CachedObject>,
    listeners: Arc<Mutex<Vec<Arc<Notify>>>>,
    task: AbortHandle,
}

/// All watches of referenced objects on this node.
pub(crate) struct ObjectCache {
    client: Client,
    entries: Mutex<BTreeMap<ObjectRef, CacheEntry>>,
}

/// The API gave no answer about an object in time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}: the API server has not answered yet")]
pub(crate) struct ObjectUnavailable(pub ObjectRef);

impl ObjectCache {
    /// Nothing is watched yet.
    pub(crate) fn new(client: Client) -> Arc<Self> {
        Arc::new(Self { client, entries: Mutex::new(BTreeMap::new()) })
    }

    /// Watches these objects for one pod until the answer is dropped; `changed` is notified at each
    /// change of one.
    pub(crate) fn subscribe(
        self: &Arc<Self>,
        references: BTreeSet<ObjectRef>,
        changed: Arc<Notify>,
    ) -> PodObjects {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let mut states = BTreeMap::new();
        for reference in references {
            let entry = entries
                .entry(reference.clone())
                .or_insert_with(|| start(&self.client, reference.clone()));
            listeners(entry).push(changed.clone());
            states.insert(reference, entry.state.clone());
        }
        PodObjects { cache: self.clone(), states, changed }
    }

    /// How many objects are watched.
    #[cfg(test)]
    pub(crate) fn watched(&self) -> usize {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

fn listeners(entry: &CacheEntry) -> std::sync::MutexGuard<'_, Vec<Arc<Notify>>> {
    entry.listeners.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The objects of one pod. Dropping it ends the watches that no other pod needs.
pub(crate) struct PodObjects {
    cache: Arc<ObjectCache>,
    states: BTreeMap<ObjectRef, watch::Receiver<CachedObject>>,
    changed: Arc<Notify>,
}

impl PodObjects {
    /// The objects in `wanted` as they are now; waits for the API's first answer.
    pub(crate) async fn fetch(
        &self,
        wanted: &BTreeSet<ObjectRef>,
    ) -> Result<FetchedObjects, ObjectUnavailable> {
        let mut found = FetchedObjects::default();
        for reference in wanted {
            // what the pod's spec does not name is not watched, and so counts as absent
            let Some(state) = self.states.get(reference) else { continue };
            let mut state = state.clone();
            let answered = state.wait_for(|known| !matches!(known, CachedObject::Nothing));
            let known = tokio::time::timeout(FIRST_ANSWER_TIMEOUT, answered)
                .await
                .map_err(|_| ObjectUnavailable(reference.clone()))?
                .map_err(|_| ObjectUnavailable(reference.clone()))?
                .clone();
            match known {
                CachedObject::Present(object) => found.insert(reference.clone(), object),
                CachedObject::Absent | CachedObject::Nothing => {}
            }
        }
        Ok(found)
    }

    /// Everything that this pod refers to, as [`fetch`](Self::fetch).
    pub(crate) async fn fetch_all(&self) -> Result<FetchedObjects, ObjectUnavailable> {
        self.fetch(&self.states.keys().cloned().collect()).await
    }
}

impl Drop for PodObjects {
    fn drop(&mut self) {
        let mut entries = self.cache.entries.lock().unwrap_or_else(PoisonError::into_inner);
        for reference in self.states.keys() {
            let Some(entry) = entries.get(reference) else { continue };
            let mut remaining = listeners(entry);
            if let Some(at) = remaining.iter().position(|known| Arc::ptr_eq(known, &self.changed)) {
                remaining.swap_remove(at);
            }
            let unused = remaining.is_empty();
            drop(remaining);
            if unused && let Some(entry) = entries.remove(reference) {
                entry.task.abort();
            }
        }
    }
}

fn start(client: &Client, reference: ObjectRef) -> CacheEntry {
    let (sender, state) = watch::channel(CachedObject::Nothing);
    let listeners = Arc::new(Mutex::new(Vec::new()));
    let (client, notify) = (client.clone(), listeners.clone());
    let task = match reference.kind {
        ObjectKind::ConfigMap => {
            tokio::spawn(follow::<ConfigMap>(client, reference, sender, notify, |map| {
                ReferencedObject::ConfigMap(Arc::new(map))
            }))
        }
        ObjectKind::Secret => {
            tokio::spawn(follow::<Secret>(client, reference, sender, notify, |secret| {
                ReferencedObject::Secret(Arc::new(secret))
            }))
        }
    };
    CacheEntry { state, listeners, task: task.abort_handle() }
}

async fn follow<K>(
    client: Client,
    reference: ObjectRef,
    state: watch::Sender<CachedObject>,
    listeners: Arc<Mutex<Vec<Arc<Notify>>>>,
    wrap: fn(K) -> ReferencedObject,
) where
    K: k8s_openapi::Resource<Scope = NamespaceResourceScope>
        + k8s_openapi::Metadata<Ty = ObjectMeta>
        + ObjectJson
        + Send
        + 'static,
{
    let api: Api<K> = Api::namespaced(client, &reference.namespace);
    let config = watcher::Config::default().fields(&format!("metadata.name={}", reference.name));
    let mut events = watch_objects(api, config).default_backoff().boxed();
    let mut listed = CachedObject::Absent;
    while let Some(event) = events.next().await {
        let next = match event {
            Ok(Event::Init) => {
                listed = CachedObject::Absent;
                continue;
            }
            Ok(Event::InitApply(object)) => {
                listed = CachedObject::Present(wrap(object));
                continue;
            }
            Ok(Event::InitDone) => std::mem::replace(&mut listed, CachedObject::Absent),
            Ok(Event::Apply(object)) => CachedObject::Present(wrap(object)),
            Ok(Event::Delete(_)) => CachedObject::Absent,
            Err(error) => {
                tracing::debug!(object = %reference, %error, "watch of a referenced object failed; it is retried");
                continue;
            }
        };
        // send_replace: the last known content stays readable while no pod waits
        state.send_replace(next);
        for listener in listeners.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            listener.notify_one();
        }
    }
}
