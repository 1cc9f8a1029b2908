//! What decides about nodes, read once: for looks that come too seldom to keep a view for them.

use std::fmt::Debug;

use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::ListParams;
use kube::{Api, Client};
use rekindle_controllers::{Kind, Object, View};
use rekindle_types::Tick;
use serde::de::DeserializeOwned;

/// Nodes, pods, and what their places depend on.
///
/// # Errors
/// When the API cannot be asked.
pub(crate) async fn snapshot(client: &Client, now: Tick) -> Result<View, kube::Error> {
    let mut view = View::new();
    view.set_time(now);
    view.reset(Kind::Namespace, list::<Namespace>(client).await?);
    view.reset(Kind::Node, list::<Node>(client).await?);
    view.reset(Kind::StorageClass, list::<StorageClass>(client).await?);
    view.reset(Kind::PersistentVolume, list::<PersistentVolume>(client).await?);
    view.reset(Kind::PersistentVolumeClaim, list::<PersistentVolumeClaim>(client).await?);
    view.reset(Kind::PodDisruptionBudget, list::<PodDisruptionBudget>(client).await?);
    view.reset(Kind::Pod, list::<Pod>(client).await?);
    Ok(view)
}

async fn list<K>(client: &Client) -> Result<Vec<Object>, kube::Error>
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    Object: From<K>,
{
    let listed = Api::<K>::all(client.clone()).list(&ListParams::default()).await?;
    Ok(listed.items.into_iter().map(Object::from).collect())
}
