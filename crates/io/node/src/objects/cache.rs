//! One watch per reference, shared by the pods that refer to it, and gone with the last of
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::certificates::v1::ClusterTrustBundle;
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
    let (api, notify) = (client.clone(), listeners.clone());
    let ObjectRef { kind, namespace, name } = &reference;
    let named = format!("metadata.name={name}");
    let task = match kind {
        ObjectKind::ConfigMap => {
            let watched = (Api::namespaced(api, namespace), named);
            tokio::spawn(follow(watched, reference, sender, notify, |mut maps| {
                maps.pop().map(ReferencedObject::ConfigMap)
            }))
        }
        ObjectKind::Secret => {
            let watched = (Api::namespaced(api, namespace), named);
            tokio::spawn(follow(watched, reference, sender, notify, |mut secrets| {
                secrets.pop().map(ReferencedObject::Secret)
            }))
        }
        ObjectKind::TrustBundle => {
            let watched = (Api::all(api), named);
            tokio::spawn(follow(watched, reference, sender, notify, trust_bundles))
        }
        ObjectKind::TrustBundlesOfSigner => {
            let watched = (Api::all(api), format!("spec.signerName={name}"));
            tokio::spawn(follow(watched, reference, sender, notify, trust_bundles))
        }
    };
    CacheEntry { state, listeners, task: task.abort_handle() }
}

fn trust_bundles(bundles: Vec<Arc<ClusterTrustBundle>>) -> Option<ReferencedObject> {
    Some(ReferencedObject::TrustBundles(bundles.into()))
}

/// Follows the objects that match a field selector.
async fn follow<K>(
    (api, fields): (Api<K>, String),
    reference: ObjectRef,
    state: watch::Sender<CachedObject>,
    listeners: Arc<Mutex<Vec<Arc<Notify>>>>,
    wrap: fn(Vec<Arc<K>>) -> Option<ReferencedObject>,
) where
    K: kube::Resource<DynamicType = ()> + ObjectJson + Send + Sync + 'static,
{
    let config = watcher::Config::default().fields(&fields);
    let mut events = watch_objects(api, config).default_backoff().boxed();
    let name = |object: &K| object.meta().name.clone().unwrap_or_default();
    let mut objects: BTreeMap<String, Arc<K>> = BTreeMap::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => {
                objects.clear();
                continue;
            }
            Ok(Event::InitApply(object)) => {
                objects.insert(name(&object), Arc::new(object));
                continue;
            }
            Ok(Event::InitDone) => {}
            Ok(Event::Apply(object)) => {
                objects.insert(name(&object), Arc::new(object));
            }
            Ok(Event::Delete(object)) => {
                objects.remove(&name(&object));
            }
            Err(error) => {
                tracing::debug!(object = %reference, %error, "watch of a referenced object failed; it is retried");
                continue;
            }
        }
        let next = wrap(objects.values().cloned().collect());
        // send_replace: the last known content stays readable while no pod waits
        state.send_replace(next.map_or(CachedObject::Absent, CachedObject::Present));
        for listener in listeners.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            listener.notify_one();
        }
    }
}
