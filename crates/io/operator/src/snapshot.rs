//! What decides about nodes, read once: for looks that come too seldom to keep a view for them.

use std::fmt::Debug;

use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::ListParams;
use kube::{Api, Client};
use rekindle_controllers::{ClusterView, ViewObject};
use rekindle_types::Tick;
use serde::de::DeserializeOwned;

/// Nodes, pods, and what their places depend on.
///
/// # Errors
/// When the API cannot be asked.
pub(crate) async fn snapshot(client: &Client, now: Tick) -> Result<ClusterView, kube::Error> {
    let mut view = ClusterView::new();
    view.set_time(now);
    let client = || client.clone();
    read_all(Api::<Namespace>::all(client()), &mut view).await?;
    read_all(Api::<Node>::all(client()), &mut view).await?;
    read_all(Api::<StorageClass>::all(client()), &mut view).await?;
    read_all(Api::<PersistentVolume>::all(client()), &mut view).await?;
    read_all(Api::<PersistentVolumeClaim>::all(client()), &mut view).await?;
    read_all(Api::<PodDisruptionBudget>::all(client()), &mut view).await?;
    read_all(Api::<Pod>::all(client()), &mut view).await?;
    Ok(view)
}

/// Puts everything that is there into a view that is new.
pub(crate) async fn read_all<K>(api: Api<K>, view: &mut ClusterView) -> Result<(), kube::Error>
where
    K: Clone + Debug + DeserializeOwned,
    ViewObject: From<K>,
{
    for object in api.list(&ListParams::default()).await?.items {
        view.apply(ViewObject::from(object));
    }
    Ok(())
}
