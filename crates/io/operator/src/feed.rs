//! Watches every kind that the view holds and hands on what they show, kind by kind in order.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use rekindle_controllers::kind::ViewDetail;
use rekindle_controllers::{ResourceKind, ViewObject};
use rekindle_reconcile::{PlannerRole, WatchUpdate};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use crate::object_text::ObjectText;

/// How long a list with an object that cannot be decoded is left alone.
const LIST_AGAIN: Duration = Duration::from_secs(30);

/// The watches. Dropping it ends them.
pub(crate) struct WatchFeed {
    seen: mpsc::UnboundedReceiver<WatchUpdate>,
    _watches: JoinSet<()>,
}

impl WatchFeed {
    /// Begins to watch.
    pub(crate) fn start(client: &Client, role: &PlannerRole) -> Self {
        let (sender, seen) = mpsc::unbounded_channel();
        let mut watches = JoinSet::new();
        for kind in role.kinds() {
            let (client, sender) = (client.clone(), sender.clone());
            if kind == ResourceKind::CustomResourceDefinition {
                watches.spawn(watch_definitions(client, sender));
            } else {
                watches.spawn(watch_kind(kind, client, sender));
            }
        }
        Self { seen, _watches: watches }
    }

    /// The next thing seen. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<WatchUpdate> {
        self.seen.recv().await
    }

    /// The next thing seen, if it is there already.
    pub(crate) fn try_next(&mut self) -> Option<WatchUpdate> {
        self.seen.try_recv().ok()
    }
}

/// Watches as much of a kind as the view holds.
async fn watch_kind(
    kind: ResourceKind,
    client: Client,
    sender: mpsc::UnboundedSender<WatchUpdate>,
) {
    match kind.info().held {
        ViewDetail::Whole => {
            let decode = move |object: ObjectText| object.decode(kind);
            watch(kind, client, decode, sender).await;
        }
        ViewDetail::Metadata => {
            let decode = move |partial: PartialObjectMeta<ObjectText>| {
                let mut metadata = partial.metadata;
                metadata.managed_fields = None; // as of objects that are held whole
                Ok(ViewObject::Metadata(kind, Arc::new(metadata)))
            };
            watch(kind, client, decode, sender).await;
        }
        ViewDetail::Nothing => {}
    }
}

/// Watches definitions, and the kinds that they describe for as long as they do.
async fn watch_definitions(client: Client, sender: mpsc::UnboundedSender<WatchUpdate>) {
    let (of_definitions, mut definitions) = mpsc::unbounded_channel();
    let mut watches = JoinSet::new();
    watches.spawn(watch_kind(
        ResourceKind::CustomResourceDefinition,
        client.clone(),
        of_definitions,
    ));
    let mut described = DescribedKinds::default();
    let mut watched: BTreeMap<ResourceKind, AbortHandle> = BTreeMap::new();
    while let Some(update) = definitions.recv().await {
        described.see(&update);
        if sender.send(update).is_err() {
            return;
        }
        let wanted: BTreeSet<ResourceKind> = described.kinds();
        let over: Vec<_> = watched.keys().filter(|kind| !wanted.contains(kind)).copied().collect();
        for kind in over {
            if let Some(watch) = watched.remove(&kind) {
                watch.abort();
            }
            // none of its objects is there under this name any more
            if sender.send(WatchUpdate::List(kind, Vec::new())).is_err() {
                return;
            }
        }
        for kind in wanted {
            watched
                .entry(kind)
                .or_insert_with(|| watches.spawn(watch_kind(kind, client.clone(), sender.clone())));
        }
    }
}

/// The kinds that definitions describe, by the names of these.
#[derive(Default)]
struct DescribedKinds(BTreeMap<String, Option<ResourceKind>>);

impl DescribedKinds {
    fn see(&mut self, update: &WatchUpdate) {
        match update {
            WatchUpdate::List(_, objects) => {
                self.0.clear();
                objects.iter().for_each(|object| self.add(object));
            }
            WatchUpdate::Applied(object) => self.add(object),
            WatchUpdate::Deleted(id, _) => {
                self.0.remove(&id.name.name);
            }
        }
    }

    fn add(&mut self, object: &ViewObject) {
        if let ViewObject::CustomResourceDefinition(definition) = object {
            let name = definition.metadata.name.clone().unwrap_or_default();
            self.0.insert(name, definition.kind.map(ResourceKind::Custom));
        }
    }

    fn kinds(&self) -> BTreeSet<ResourceKind> {
        self.0.values().flatten().copied().collect()
    }
}

/// Watches a kind, and begins again after a pause when a list has an object that cannot be decoded.
async fn watch<K>(
    kind: ResourceKind,
    client: Client,
    decode: impl Fn(K) -> Result<ViewObject, serde_json::Error>,
    seen: mpsc::UnboundedSender<WatchUpdate>,
) where
    K: Resource<DynamicType = ResourceKind> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    while let Err(error) = pass_on(kind, &client, &decode, &seen).await {
        tracing::warn!(%kind, %error, "failed to list");
        tokio::time::sleep(LIST_AGAIN).await;
    }
}

/// Gathers the initial list and hands on everything after it as it comes. Ends when nobody listens.
///
/// # Errors
/// When an object of the list cannot be decoded. Without it the view would take it for gone.
async fn pass_on<K>(
    kind: ResourceKind,
    client: &Client,
    decode: impl Fn(K) -> Result<ViewObject, serde_json::Error>,
    seen: &mpsc::UnboundedSender<WatchUpdate>,
) -> Result<(), serde_json::Error>
where
    K: Resource<DynamicType = ResourceKind> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let objects = Api::<K>::all_with(client.clone(), &kind);
    let mut events = watcher(objects, watcher::Config::default()).default_backoff().boxed();
    let changed = |object| {
        decode(object).map_err(|error| watcher::Error::WatchFailed(kube::Error::SerdeError(error)))
    };
    let mut listed = Vec::new();
    while let Some(event) = events.next().await {
        let update = match event {
            Ok(Event::Init) => {
                listed.clear();
                continue;
            }
            Ok(Event::InitApply(object)) => {
                listed.push(decode(object)?);
                continue;
            }
            Ok(Event::InitDone) => Ok(WatchUpdate::List(kind, std::mem::take(&mut listed))),
            Ok(Event::Apply(object)) => changed(object).map(WatchUpdate::Applied),
            Ok(Event::Delete(object)) => changed(object)
                .map(|object| WatchUpdate::Deleted(object.id(), object.uid().to_owned())),
            // The watcher itself lists again, with backoff.
            Err(error) => Err(error),
        };
        match update {
            Ok(update) => {
                if seen.send(update).is_err() {
                    return Ok(());
                }
            }
            Err(error) => tracing::warn!(%kind, %error, "failed to watch"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only the collector takes away the finalizers of a deletion in the foreground: an object of a
    /// kind that is not watched would be there for ever.
    #[test]
    fn every_kind_that_is_served_is_watched() {
        let watched: BTreeSet<_> = PlannerRole::Engine
            .kinds()
            .into_iter()
            .map(|kind| kind.info())
            .map(|i| (i.group, i.kind))
            .collect();
        // The API gives Events no such finalizer.
        let exceptions = BTreeSet::from([("", "Event")]);
        let registry = rekindle_api::kinds::all();
        let served = registry.kinds().map(|entry| entry.group_and_kind());
        let unwatched: BTreeSet<_> = served.filter(|kind| !watched.contains(kind)).collect();
        assert_eq!(unwatched, exceptions);
    }
}
