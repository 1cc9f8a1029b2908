//! Watches every kind that the view holds and hands on what they show, kind by kind in order.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::core::{ApiResource, PartialObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use rekindle_controllers::kind::ViewDetail;
use rekindle_controllers::{ResourceKind, ViewObject};
use rekindle_object_watch::ObjectText;
use rekindle_reconcile::wire::object_from_json;
use rekindle_reconcile::{PlannerRole, WatchUpdate};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::api_resource::api_resource;

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
            let decode = move |object: ObjectText| object_from_json(kind, object.as_bytes());
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
    let (of_definitions, definitions) = mpsc::unbounded_channel();
    let watch = watch_kind(ResourceKind::CustomResourceDefinition, client.clone(), of_definitions);
    let follow = follow_definitions(definitions, sender.clone(), |kind| {
        watch_kind(kind, client.clone(), sender.clone())
    });
    tokio::join!(watch, follow);
}

/// Hands on what is seen of definitions, and keeps one watch for each kind that they describe.
/// Returns when the other side does not listen any more.
async fn follow_definitions<W: Future<Output = ()> + Send + 'static>(
    mut definitions: mpsc::UnboundedReceiver<WatchUpdate>,
    sender: mpsc::UnboundedSender<WatchUpdate>,
    watch: impl Fn(ResourceKind) -> W,
) {
    let mut described = DescribedKinds::default();
    // dropping a set ends its watch
    let mut watches: BTreeMap<ResourceKind, JoinSet<()>> = BTreeMap::new();
    while let Some(update) = definitions.recv().await {
        described.see(&update);
        if sender.send(update).is_err() {
            return;
        }
        let wanted: BTreeSet<ResourceKind> = described.kinds();
        let over: Vec<_> = watches.keys().filter(|kind| !wanted.contains(kind)).copied().collect();
        for kind in over {
            // once it has ended it cannot show an object after the list
            if let Some(mut watch) = watches.remove(&kind) {
                watch.shutdown().await;
            }
            // none of its objects is there under this name any more
            if sender.send(WatchUpdate::List(kind, Vec::new())).is_err() {
                return;
            }
        }
        for kind in wanted {
            watches.entry(kind).or_insert_with(|| JoinSet::from_iter([watch(kind)]));
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
    K: Resource<DynamicType = ApiResource> + Clone + Debug + DeserializeOwned + Send + 'static,
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
    K: Resource<DynamicType = ApiResource> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let objects = Api::<K>::all_with(client.clone(), &api_resource(kind));
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
    use serde_json::json;

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
        let registry = rekindle_kinds::all();
        let served = registry.kinds().map(|entry| entry.home().group_and_kind());
        let unwatched: BTreeSet<_> = served.filter(|kind| !watched.contains(kind)).collect();
        assert_eq!(unwatched, exceptions);
    }

    /// A definition that describes a kind, or none yet.
    fn definition(plural: &str, established: &str) -> ViewObject {
        let definition = json!({
            "metadata": {"name": format!("{plural}.example.org"), "uid": plural},
            "spec": {
                "group": "example.org", "scope": "Namespaced",
                "names": {"plural": plural, "kind": plural},
                "versions": [{"name": "v1", "served": true, "storage": true}],
            },
            "status": {"conditions": [{"type": "Established", "status": established}]},
        });
        let kind = ResourceKind::CustomResourceDefinition;
        object_from_json(kind, definition.to_string().as_bytes()).unwrap()
    }

    fn shown(update: &WatchUpdate) -> String {
        match update {
            WatchUpdate::List(kind, objects) => format!("list {} of {kind}", objects.len()),
            WatchUpdate::Applied(object) => format!("applied {}", object.id()),
            WatchUpdate::Deleted(id, _) => format!("deleted {id}"),
        }
    }

    /// A watch that never shows anything, and says when it began and when it has ended.
    struct SilentWatch(ResourceKind, mpsc::UnboundedSender<WatchUpdate>);

    impl SilentWatch {
        async fn run(self) {
            let _ = self.1.send(WatchUpdate::List(self.0, Vec::new()));
            std::future::pending::<()>().await;
        }
    }

    impl Drop for SilentWatch {
        fn drop(&mut self) {
            let definition = definition(self.0.info().plural, "ended");
            let _ = self.1.send(WatchUpdate::Applied(definition));
        }
    }

    /// The view would keep objects for ever that a watch shows after the last list of its kind.
    #[tokio::test]
    async fn the_watch_of_a_kind_has_ended_before_its_last_list_is_handed_on() {
        let (show, definitions) = mpsc::unbounded_channel();
        let (sender, mut seen) = mpsc::unbounded_channel();
        let of_watches = sender.clone();
        let watch = move |kind| SilentWatch(kind, of_watches.clone()).run();
        let follow = tokio::spawn(follow_definitions(definitions, sender, watch));
        let mut next = async || shown(&seen.recv().await.unwrap());
        for (established, turn) in [("False", 0), ("True", 1), ("True", 2)] {
            show.send(WatchUpdate::Applied(definition("kites", established))).unwrap();
            assert_eq!(next().await, "applied CustomResourceDefinition kites.example.org");
            if turn == 1 {
                assert_eq!(next().await, "list 0 of kites", "the watch begins, once");
            }
        }
        let id = definition("kites", "True").id();
        show.send(WatchUpdate::Deleted(id.clone(), "kites".to_owned())).unwrap();
        assert_eq!(next().await, "deleted CustomResourceDefinition kites.example.org");
        assert_eq!(
            next().await,
            "applied CustomResourceDefinition kites.example.org",
            "the watch has ended"
        );
        assert_eq!(next().await, "list 0 of kites");
        // with the feed all watches end
        show.send(WatchUpdate::List(
            ResourceKind::CustomResourceDefinition,
            vec![definition("kites", "True"), definition("dragons", "True")],
        ))
        .unwrap();
        assert_eq!(next().await, "list 2 of CustomResourceDefinition");
        let mut begun = [next().await, next().await];
        begun.sort();
        assert_eq!(begun, ["list 0 of dragons", "list 0 of kites"]);
        follow.abort();
        let mut ended = [next().await, next().await];
        ended.sort();
        assert_eq!(
            ended,
            ["dragons", "kites"]
                .map(|plural| format!("applied CustomResourceDefinition {plural}.example.org"))
        );
    }
}
