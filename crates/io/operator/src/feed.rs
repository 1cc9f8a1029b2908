//! Watches every kind that the view holds and hands on what they show, kind by kind in order.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::{
    ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet,
};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    Endpoints, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
    ReplicationController, Service,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::DynamicObject;
use kube::core::{ApiResource, PartialObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use rekindle_controllers::{ResourceKind, ViewObject};
use rekindle_reconcile::{WatchUpdate, kinds};
use rekindle_types::v1alpha1::{PodRestart, RestartLadder, RestartLedger};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// The watches. Dropping it ends them.
pub(crate) struct WatchFeed {
    seen: mpsc::UnboundedReceiver<WatchUpdate>,
    _watches: JoinSet<()>,
}

impl WatchFeed {
    /// Begins to watch.
    pub(crate) fn start(client: &Client) -> Self {
        let (sender, seen) = mpsc::unbounded_channel();
        let mut watches = JoinSet::new();
        for kind in kinds() {
            let (client, sender) = (client.clone(), sender.clone());
            match kind {
                ResourceKind::DaemonSet => watches.spawn(whole::<DaemonSet>(kind, client, sender)),
                ResourceKind::Deployment => {
                    watches.spawn(whole::<Deployment>(kind, client, sender))
                }
                ResourceKind::ReplicaSet => {
                    watches.spawn(whole::<ReplicaSet>(kind, client, sender))
                }
                ResourceKind::ReplicationController => {
                    watches.spawn(whole::<ReplicationController>(kind, client, sender))
                }
                ResourceKind::StatefulSet => {
                    watches.spawn(whole::<StatefulSet>(kind, client, sender))
                }
                ResourceKind::ControllerRevision => {
                    watches.spawn(whole::<ControllerRevision>(kind, client, sender))
                }
                ResourceKind::CronJob => watches.spawn(whole::<CronJob>(kind, client, sender)),
                ResourceKind::Job => watches.spawn(whole::<Job>(kind, client, sender)),
                ResourceKind::Pod => watches.spawn(whole::<Pod>(kind, client, sender)),
                ResourceKind::RestartLadder => {
                    watches.spawn(whole::<RestartLadder>(kind, client, sender))
                }
                ResourceKind::PodRestart => {
                    watches.spawn(whole::<PodRestart>(kind, client, sender))
                }
                ResourceKind::RestartLedger => {
                    watches.spawn(whole::<RestartLedger>(kind, client, sender))
                }
                ResourceKind::PodDisruptionBudget => {
                    watches.spawn(whole::<PodDisruptionBudget>(kind, client, sender))
                }
                ResourceKind::PersistentVolumeClaim => {
                    watches.spawn(whole::<PersistentVolumeClaim>(kind, client, sender))
                }
                ResourceKind::Service => watches.spawn(whole::<Service>(kind, client, sender)),
                ResourceKind::EndpointSlice => {
                    watches.spawn(whole::<EndpointSlice>(kind, client, sender))
                }
                ResourceKind::Endpoints => watches.spawn(whole::<Endpoints>(kind, client, sender)),
                ResourceKind::Lease => watches.spawn(whole::<Lease>(kind, client, sender)),
                ResourceKind::PersistentVolume => {
                    watches.spawn(whole::<PersistentVolume>(kind, client, sender))
                }
                ResourceKind::StorageClass => {
                    watches.spawn(whole::<StorageClass>(kind, client, sender))
                }
                ResourceKind::Node => watches.spawn(whole::<Node>(kind, client, sender)),
                ResourceKind::Namespace => watches.spawn(whole::<Namespace>(kind, client, sender)),
                ResourceKind::ConfigMap
                | ResourceKind::Secret
                | ResourceKind::ServiceAccount
                | ResourceKind::RoleBinding
                | ResourceKind::Role
                | ResourceKind::PriorityClass
                | ResourceKind::ClusterRoleBinding
                | ResourceKind::ClusterRole
                | ResourceKind::Event => watches.spawn(metadata(kind, client, sender)),
            };
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

async fn whole<K>(kind: ResourceKind, client: Client, seen: mpsc::UnboundedSender<WatchUpdate>)
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
    ViewObject: From<K>,
{
    let events = watcher(Api::<K>::all(client), watcher::Config::default()).default_backoff();
    pass_on(kind, events.map_ok(|event| convert(event, ViewObject::from)).boxed(), seen).await;
}

async fn metadata(kind: ResourceKind, client: Client, seen: mpsc::UnboundedSender<WatchUpdate>) {
    let info = kind.info();
    let resource = ApiResource {
        group: info.group.to_owned(),
        version: info.version.to_owned(),
        api_version: kind.api_version(),
        kind: info.kind.to_owned(),
        plural: info.plural.to_owned(),
    };
    let api = Api::<PartialObjectMeta<DynamicObject>>::all_with(client, &resource);
    let object = move |partial: PartialObjectMeta<DynamicObject>| {
        ViewObject::Metadata(kind, std::sync::Arc::new(partial.metadata))
    };
    let events = watcher(api, watcher::Config::default()).default_backoff();
    pass_on(kind, events.map_ok(move |event| convert(event, object)).boxed(), seen).await;
}

fn convert<K>(event: Event<K>, object: impl Fn(K) -> ViewObject) -> Event<ViewObject> {
    match event {
        Event::Apply(o) => Event::Apply(object(o)),
        Event::Delete(o) => Event::Delete(object(o)),
        Event::Init => Event::Init,
        Event::InitApply(o) => Event::InitApply(object(o)),
        Event::InitDone => Event::InitDone,
    }
}

/// Gathers the initial list and hands on everything after it as it comes. Ends when nobody listens.
async fn pass_on(
    kind: ResourceKind,
    mut events: futures::stream::BoxStream<'_, Result<Event<ViewObject>, watcher::Error>>,
    seen: mpsc::UnboundedSender<WatchUpdate>,
) {
    let mut listed = Vec::new();
    while let Some(event) = events.next().await {
        let news = match event {
            Ok(Event::Init) => {
                listed.clear();
                continue;
            }
            Ok(Event::InitApply(object)) => {
                listed.push(object);
                continue;
            }
            Ok(Event::InitDone) => WatchUpdate::List(kind, std::mem::take(&mut listed)),
            Ok(Event::Apply(object)) => WatchUpdate::Applied(object),
            Ok(Event::Delete(object)) => WatchUpdate::Deleted(object.id(), object.uid().to_owned()),
            Err(error) => {
                // The watcher itself lists again, with backoff.
                tracing::warn!(%kind, %error, "failed to watch");
                continue;
            }
        };
        if seen.send(news).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Only the collector takes away the finalizers of a deletion in the foreground: an object of a
    /// kind that is not watched would be there for ever.
    #[test]
    fn every_kind_that_is_served_is_watched() {
        let watched: BTreeSet<_> =
            kinds().map(|kind| kind.info()).map(|i| (i.group, i.kind)).collect();
        // The API gives Events no such finalizer.
        let exceptions = BTreeSet::from([("", "Event")]);
        let registry = rekindle_api::kinds::all();
        let served = registry.kinds().map(|entry| (entry.group, entry.kind));
        let unwatched: BTreeSet<_> = served.filter(|kind| !watched.contains(kind)).collect();
        assert_eq!(unwatched, exceptions);
    }
}
