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
use rekindle_controllers::{Kind, Object};
use rekindle_reconcile::{Seen, kinds};
use rekindle_types::v1alpha1::{PodRestart, RestartLadder, RestartLedger};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// The watches. Dropping it ends them.
pub(crate) struct Feed {
    seen: mpsc::UnboundedReceiver<Seen>,
    _watches: JoinSet<()>,
}

impl Feed {
    /// Begins to watch.
    pub(crate) fn start(client: &Client) -> Self {
        let (sender, seen) = mpsc::unbounded_channel();
        let mut watches = JoinSet::new();
        for kind in kinds() {
            let (client, sender) = (client.clone(), sender.clone());
            match kind {
                Kind::DaemonSet => watches.spawn(whole::<DaemonSet>(kind, client, sender)),
                Kind::Deployment => watches.spawn(whole::<Deployment>(kind, client, sender)),
                Kind::ReplicaSet => watches.spawn(whole::<ReplicaSet>(kind, client, sender)),
                Kind::ReplicationController => {
                    watches.spawn(whole::<ReplicationController>(kind, client, sender))
                }
                Kind::StatefulSet => watches.spawn(whole::<StatefulSet>(kind, client, sender)),
                Kind::ControllerRevision => {
                    watches.spawn(whole::<ControllerRevision>(kind, client, sender))
                }
                Kind::CronJob => watches.spawn(whole::<CronJob>(kind, client, sender)),
                Kind::Job => watches.spawn(whole::<Job>(kind, client, sender)),
                Kind::Pod => watches.spawn(whole::<Pod>(kind, client, sender)),
                Kind::RestartLadder => watches.spawn(whole::<RestartLadder>(kind, client, sender)),
                Kind::PodRestart => watches.spawn(whole::<PodRestart>(kind, client, sender)),
                Kind::RestartLedger => watches.spawn(whole::<RestartLedger>(kind, client, sender)),
                Kind::PodDisruptionBudget => {
                    watches.spawn(whole::<PodDisruptionBudget>(kind, client, sender))
                }
                Kind::PersistentVolumeClaim => {
                    watches.spawn(whole::<PersistentVolumeClaim>(kind, client, sender))
                }
                Kind::Service => watches.spawn(whole::<Service>(kind, client, sender)),
                Kind::EndpointSlice => watches.spawn(whole::<EndpointSlice>(kind, client, sender)),
                Kind::Endpoints => watches.spawn(whole::<Endpoints>(kind, client, sender)),
                Kind::Lease => watches.spawn(whole::<Lease>(kind, client, sender)),
                Kind::PersistentVolume => {
                    watches.spawn(whole::<PersistentVolume>(kind, client, sender))
                }
                Kind::StorageClass => watches.spawn(whole::<StorageClass>(kind, client, sender)),
                Kind::Node => watches.spawn(whole::<Node>(kind, client, sender)),
                Kind::Namespace => watches.spawn(whole::<Namespace>(kind, client, sender)),
                Kind::ConfigMap
                | Kind::Secret
                | Kind::ServiceAccount
                | Kind::RoleBinding
                | Kind::Role
                | Kind::PriorityClass
                | Kind::ClusterRoleBinding
                | Kind::ClusterRole
                | Kind::Event => watches.spawn(metadata(kind, client, sender)),
            };
        }
        Self { seen, _watches: watches }
    }

    /// The next thing seen. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Seen> {
        self.seen.recv().await
    }

    /// The next thing seen, if it is there already.
    pub(crate) fn try_next(&mut self) -> Option<Seen> {
        self.seen.try_recv().ok()
    }
}

async fn whole<K>(kind: Kind, client: Client, seen: mpsc::UnboundedSender<Seen>)
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
    Object: From<K>,
{
    let events = watcher(Api::<K>::all(client), watcher::Config::default()).default_backoff();
    pass_on(kind, events.map_ok(|event| convert(event, Object::from)).boxed(), seen).await;
}

async fn metadata(kind: Kind, client: Client, seen: mpsc::UnboundedSender<Seen>) {
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
        Object::Metadata(kind, std::sync::Arc::new(partial.metadata))
    };
    let events = watcher(api, watcher::Config::default()).default_backoff();
    pass_on(kind, events.map_ok(move |event| convert(event, object)).boxed(), seen).await;
}

fn convert<K>(event: Event<K>, object: impl Fn(K) -> Object) -> Event<Object> {
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
    kind: Kind,
    mut events: futures::stream::BoxStream<'_, Result<Event<Object>, watcher::Error>>,
    seen: mpsc::UnboundedSender<Seen>,
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
            Ok(Event::InitDone) => Seen::List(kind, std::mem::take(&mut listed)),
            Ok(Event::Apply(object)) => Seen::Applied(object),
            Ok(Event::Delete(object)) => Seen::Deleted(object.id(), object.uid().to_owned()),
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
