//! What would become of a PodRestart, told to who asks before it is made: what its controller would plan is computed from what the API
//! shows, and the API is asked whether a disruption budget would let the pod be evicted. Nothing is written.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{EvictParams, PostParams};
use kube::core::Status;
use kube::{Api, Client};
use rekindle_controllers::View;
use rekindle_controllers::pod_restart::{self, Preview};
use rekindle_types::Tick;
use rekindle_types::v1alpha1::{PodRestart, Rung};

use crate::snapshot::read_all;

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
) -> Result<Preview, PreviewError> {
    let mut restart = restart.clone();
    restart.metadata.name.get_or_insert_with(|| UNNAMED.to_owned());
    let reader = Reader {
        client,
        namespace: restart.metadata.namespace.as_deref().unwrap_or_default().to_owned(),
    };
    let mut view = View::new();
    view.set_time(now);
    let rung = restart.spec.rung();
    reader.read(rung, &restart.spec.pod_name, &mut view).await?;
    let restart = Arc::new(restart);
    match pod_restart::preview(&view, &restart, now) {
        Preview::Goes => match rung {
            Rung::Container | Rung::Containers | Rung::Pod | Rung::Rollback => Ok(Preview::Goes),
            Rung::Recreate | Rung::Reschedule => reader.evict(&restart.spec.pod_name).await,
        },
        known => Ok(known),
    }
}

/// Reads what the controller would look at.
struct Reader<'a> {
    client: &'a Client,
    namespace: String,
}

impl Reader<'_> {
    async fn read(&self, rung: Rung, pod: &str, view: &mut View) -> Result<(), PreviewError> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let pod = pods.get_opt(pod).await.map_err(|e| failed("the pod", e))?;
        let node = pod.as_ref().and_then(|pod| pod.spec.as_ref()?.node_name.clone());
        if let Some(pod) = pod {
            view.apply(pod.into());
        }
        read_all(Api::<PodRestart>::namespaced(self.client.clone(), &self.namespace), view)
            .await
            .map_err(|e| failed("the restarts that were asked for", e))?;
        match rung {
            Rung::Container | Rung::Containers | Rung::Pod => {
                let nodes: Api<Node> = Api::all(self.client.clone());
                // who may not see nodes is told the rest
                if let Some(node) = node
                    && let Ok(Some(node)) = nodes.get_opt(&node).await
                {
                    view.apply(node.into());
                }
            }
            Rung::Recreate => {}
            Rung::Reschedule => self.read_for_the_scheduler(view).await?,
            Rung::Rollback => {
                read_all(Api::<Deployment>::namespaced(self.client.clone(), &self.namespace), view)
                    .await
                    .map_err(|e| failed("the deployments", e))?;
                read_all(Api::<ReplicaSet>::namespaced(self.client.clone(), &self.namespace), view)
                    .await
                    .map_err(|e| failed("the replica sets", e))?;
            }
        }
        Ok(())
    }

    async fn read_for_the_scheduler(&self, view: &mut View) -> Result<(), PreviewError> {
        let client = || self.client.clone();
        // by their labels pods choose whose neighbours they are
        read_all(Api::<Namespace>::all(client()), view)
            .await
            .map_err(|e| failed("the namespaces", e))?;
        read_all(Api::<Node>::all(client()), view).await.map_err(|e| failed("the nodes", e))?;
        read_all(Api::<Pod>::all(client()), view).await.map_err(|e| failed("all pods", e))?;
        read_all(Api::<PersistentVolumeClaim>::all(client()), view)
            .await
            .map_err(|e| failed("the claims for volumes", e))?;
        read_all(Api::<PersistentVolume>::all(client()), view)
            .await
            .map_err(|e| failed("the volumes", e))?;
        read_all(Api::<StorageClass>::all(client()), view)
            .await
            .map_err(|e| failed("the storage classes", e))
    }

    /// Asks whether the pod might be evicted, without evicting it.
    async fn evict(&self, pod: &str) -> Result<Preview, PreviewError> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let params = EvictParams { post_options: dry, ..EvictParams::default() };
        match pods.evict(pod, &params).await {
            Ok(_) => Ok(Preview::Goes),
            Err(kube::Error::Api(answer)) if answer.code == 429 => {
                Ok(Preview::Waits(words(&answer)))
            }
            Err(kube::Error::Api(answer)) if answer.code == 404 => {
                Ok(Preview::Refused(format!("there is no pod {}/{pod}", self.namespace)))
            }
            Err(error) => Err(failed("whether a disruption budget forbids it", error)),
        }
    }
}

/// The API's refusal with its causes: a budget is named by them alone.
fn words(answer: &Status) -> String {
    let causes = answer.details.iter().flat_map(|details| &details.causes);
    let causes: Vec<&str> = causes.map(|cause| cause.message.as_str()).collect();
    match causes.as_slice() {
        [] => answer.message.clone(),
        causes => format!("{} {}", answer.message, causes.join("; ")),
    }
}

fn failed(what: &'static str, source: kube::Error) -> PreviewError {
    PreviewError { what, source: Box::new(source) }
}
