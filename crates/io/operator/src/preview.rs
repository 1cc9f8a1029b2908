//! What would become of a PodRestart, told to who asks before it is made: what its controller would
//! plan is computed from what the API shows, and the API is asked whether it would take a pod
//! without a controller again, and whether a disruption budget would let the pod be evicted.
//! Nothing is written.

use std::sync::Arc;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{EvictParams, PostParams, Request};
use kube::{Api, Client, Resource};
use rekindle_controllers::pod_restart::{self, NOT_TAKEN, RestartPreview};
use rekindle_controllers::{ClusterView, NamespacedName, ResourceKind};
use rekindle_reconcile::wire::budget_refusal;
use rekindle_types::v1alpha1::{PodRestart, Rung};
use rekindle_types::{ObjectJson, Tick};

use crate::api_resource::api_resource;
use crate::snapshot::{read_all, read_one};
use crate::writer::api_status;

/// The request's name in a preview, when its own is not made up yet.
const UNNAMED: &str = "preview";

/// What cannot be read cannot be looked ahead from.
#[derive(Debug, thiserror::Error)]
#[error("read {what}")]
pub struct PreviewError {
    what: &'static str,
    #[source]
    source: Box<kube::Error>,
}

/// Looks ahead.
///
/// # Errors
/// When the API does not let the caller read what the answer depends on.
pub async fn preview(
    client: &Client,
    restart: &PodRestart,
    now: Tick,
) -> Result<RestartPreview, PreviewError> {
    let mut restart = restart.clone();
    restart.metadata.name.get_or_insert_with(|| UNNAMED.to_owned());
    let reader = PreviewReader {
        client,
        namespace: restart.metadata.namespace.as_deref().unwrap_or_default().to_owned(),
    };
    let mut view = ClusterView::new();
    view.set_time(now);
    let rung = restart.spec.rung();
    if restart.is_of_group() {
        reader.read_own(ResourceKind::Pod, "the pods", &mut view).await?;
        let requests = "the restarts that were asked for";
        reader.read_own(ResourceKind::PodRestart, requests, &mut view).await?;
    } else {
        reader.read(rung, &restart.spec.pod_name, &mut view).await?;
    }
    let restart = Arc::new(restart);
    match pod_restart::preview(&view, &restart, now) {
        RestartPreview::Goes => match rung {
            Rung::Container | Rung::Containers | Rung::Pod | Rung::Rollback => {
                Ok(RestartPreview::Goes)
            }
            Rung::Recreate | Rung::Reschedule => {
                reader.replace(&restart.spec.pod_name, &view).await
            }
        },
        known => Ok(known),
    }
}

/// Reads what the controller would look at.
struct PreviewReader<'a> {
    client: &'a Client,
    namespace: String,
}

impl PreviewReader<'_> {
    async fn read(
        &self,
        rung: Rung,
        pod: &str,
        view: &mut ClusterView,
    ) -> Result<(), PreviewError> {
        let kind = ResourceKind::Pod;
        let pods = Api::namespaced_with(self.client.clone(), &self.namespace, &api_resource(kind));
        read_one(pods, kind, pod, view).await.map_err(|e| failed("the pod", e))?;
        let pod = view.pod(&NamespacedName::new(self.namespace.as_str(), pod));
        let node = pod.and_then(|pod| pod.node_name.clone());
        self.read_own(ResourceKind::PodRestart, "the restarts that were asked for", view).await?;
        match rung {
            Rung::Container | Rung::Containers | Rung::Pod | Rung::Recreate => {
                if let Some(node) = node {
                    let kind = ResourceKind::Node;
                    let nodes = Api::all_with(self.client.clone(), &api_resource(kind));
                    // who may not see nodes is told the rest
                    let _ = read_one(nodes, kind, &node, view).await;
                }
            }
            Rung::Reschedule => self.read_for_the_scheduler(view).await?,
            Rung::Rollback => {
                self.read_own(ResourceKind::Deployment, "the deployments", view).await?;
                self.read_own(ResourceKind::ReplicaSet, "the replica sets", view).await?;
            }
        }
        Ok(())
    }

    async fn read_for_the_scheduler(&self, view: &mut ClusterView) -> Result<(), PreviewError> {
        for (kind, what) in [
            // pods choose their neighbours by labels of namespaces, too
            (ResourceKind::Namespace, "the namespaces"),
            (ResourceKind::Node, "the nodes"),
            (ResourceKind::Pod, "all pods"),
            (ResourceKind::PersistentVolumeClaim, "the claims for volumes"),
            (ResourceKind::PersistentVolume, "the volumes"),
            (ResourceKind::StorageClass, "the storage classes"),
        ] {
            let objects = Api::all_with(self.client.clone(), &api_resource(kind));
            read_all(objects, kind, view).await.map_err(|e| failed(what, e))?;
        }
        Ok(())
    }

    /// Reads all objects of a kind in the namespace.
    async fn read_own(
        &self,
        kind: ResourceKind,
        what: &'static str,
        view: &mut ClusterView,
    ) -> Result<(), PreviewError> {
        let objects =
            Api::namespaced_with(self.client.clone(), &self.namespace, &api_resource(kind));
        read_all(objects, kind, view).await.map_err(|e| failed(what, e))
    }

    /// Asks for all that the replacement of a pod needs, without doing it.
    async fn replace(&self, pod: &str, view: &ClusterView) -> Result<RestartPreview, PreviewError> {
        let seen = view.pod(&NamespacedName::new(self.namespace.as_str(), pod));
        if let Some(again) = seen.and_then(|seen| pod_restart::created_again(seen))
            && let Some(why) = self.not_taken(&again).await?
        {
            return Ok(RestartPreview::Waits(format!("{NOT_TAKEN}{why}")));
        }
        self.evict(pod).await
    }

    /// Why the API would not take the pod again.
    async fn not_taken(&self, again: &Pod) -> Result<Option<String>, PreviewError> {
        let pods = Request::new(Pod::url_path(&(), Some(&self.namespace)));
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let create = pods.create(&dry, again.to_json()).map_err(kube::Error::BuildRequest);
        let answer = match create {
            Ok(create) => self.client.request_text(create).await,
            Err(error) => Err(error),
        };
        match answer {
            Ok(_) => Ok(None),
            // its name is the last thing that is looked at
            Err(kube::Error::Api(answer)) if answer.code == 409 => Ok(None),
            Err(kube::Error::Api(answer)) if answer.code == 403 && !self.may_create().await? => {
                Ok(None) // the controller may; who asks is told the rest
            }
            Err(kube::Error::Api(answer)) if (400..500).contains(&answer.code) => {
                Ok(Some(answer.message.clone()))
            }
            Err(error) => Err(failed("whether the pod would be taken again", error)),
        }
    }

    /// Whether who asks may create pods.
    async fn may_create(&self) -> Result<bool, PreviewError> {
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    namespace: Some(self.namespace.clone()),
                    verb: Some("create".to_owned()),
                    resource: Some("pods".to_owned()),
                    ..ResourceAttributes::default()
                }),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let reviews: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await;
        let answer = answer.map_err(|e| failed("whether pods may be created", e))?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }

    /// Asks whether the pod might be evicted, without evicting it.
    async fn evict(&self, pod: &str) -> Result<RestartPreview, PreviewError> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let params = EvictParams { post_options: dry, ..EvictParams::default() };
        match pods.evict(pod, &params).await {
            Ok(_) => Ok(RestartPreview::Goes),
            Err(kube::Error::Api(answer)) if answer.code == 429 => {
                Ok(RestartPreview::Waits(budget_refusal(&api_status(&answer))))
            }
            Err(kube::Error::Api(answer)) if answer.code == 404 => {
                Ok(RestartPreview::Refused(format!("there is no pod {}/{pod}", self.namespace)))
            }
            Err(error) => Err(failed("whether a disruption budget forbids it", error)),
        }
    }
}

fn failed(what: &'static str, source: kube::Error) -> PreviewError {
    PreviewError { what, source: Box::new(source) }
}
