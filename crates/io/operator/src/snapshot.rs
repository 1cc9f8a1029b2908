//! What decides about nodes, read once: for looks that come too seldom to keep a view for them.

use kube::api::ListParams;
use kube::{Api, Client};
use rekindle_controllers::{ClusterView, ResourceKind};
use rekindle_object_watch::ObjectText;
use rekindle_reconcile::wire::object_from_json;
use rekindle_types::Tick;

use crate::api_resource::api_resource;

/// Nodes, pods, and what their places depend on.
///
/// # Errors
/// When the API cannot be asked.
pub(crate) async fn snapshot(client: &Client, now: Tick) -> Result<ClusterView, kube::Error> {
    let mut view = ClusterView::new();
    view.set_time(now);
    for kind in [
        ResourceKind::Namespace,
        ResourceKind::Node,
        ResourceKind::StorageClass,
        ResourceKind::PersistentVolume,
        ResourceKind::PersistentVolumeClaim,
        ResourceKind::PodDisruptionBudget,
        ResourceKind::Pod,
    ] {
        read_all(Api::all_with(client.clone(), &api_resource(kind)), kind, &mut view).await?;
    }
    Ok(view)
}

/// Puts all objects of a kind into a view that is new.
pub(crate) async fn read_all(
    objects: Api<ObjectText>,
    kind: ResourceKind,
    view: &mut ClusterView,
) -> Result<(), kube::Error> {
    for object in objects.list(&ListParams::default()).await? {
        view.apply(object_from_json(kind, object.as_bytes()).map_err(kube::Error::SerdeError)?);
    }
    Ok(())
}

/// Puts the object of this name into a view, if it is there.
pub(crate) async fn read_one(
    objects: Api<ObjectText>,
    kind: ResourceKind,
    name: &str,
    view: &mut ClusterView,
) -> Result<(), kube::Error> {
    if let Some(object) = objects.get_opt(name).await? {
        view.apply(object_from_json(kind, object.as_bytes()).map_err(kube::Error::SerdeError)?);
    }
    Ok(())
}
