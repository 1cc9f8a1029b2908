//! Writing a pod's status to the API.
//!
//! What is written, when and on which version of the object is for `rekindle_pod_driver` to say.
//! If the object has changed in between, the writer reads it again, and the status is retried.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use rekindle_pod_driver::{StatusAnswer, StatusToWrite};
use rekindle_types::PodRef;
use tokio::task::JoinHandle;

/// Writes statuses of one pod.
pub(crate) struct StatusWriter {
    api: Api<Pod>,
    pod_ref: PodRef,
}

/// A write under way. Dropping it cancels the write: without its worker, a pod's status is not
/// written.
pub(crate) enum StatusWriting {
    Task(JoinHandle<StatusAnswer>),
    HandedOn,
}

impl Drop for StatusWriting {
    fn drop(&mut self) {
        match self {
            Self::Task(task) => task.abort(),
            Self::HandedOn => {}
        }
    }
}

impl StatusWriting {
    /// Another part of the agent has the status, and writes it by itself.
    pub(crate) const fn handed_on() -> Self {
        Self::HandedOn
    }

    /// What became of it. Not to be asked again.
    async fn answer(&mut self) -> StatusAnswer {
        match self {
            // the panic hook has told where
            Self::Task(task) => task.await.unwrap_or(StatusAnswer::Retry(None)),
            Self::HandedOn => StatusAnswer::Written(None),
        }
    }
}

impl StatusWriter {
    /// For this pod.
    pub(crate) fn new(client: Client, pod_ref: PodRef) -> Arc<Self> {
        Arc::new(Self { api: Api::namespaced(client, &pod_ref.namespace), pod_ref })
    }

    /// Begins to write a status, beside its caller.
    pub(crate) fn write(self: &Arc<Self>, write: StatusToWrite) -> StatusWriting {
        let writer = self.clone();
        StatusWriting::Task(tokio::spawn(async move { writer.patch(write).await }))
    }

    async fn patch(&self, write: StatusToWrite) -> StatusAnswer {
        let patch = write.base.patch(&self.pod_ref.uid.0, &write.status);
        let (name, params) = (&self.pod_ref.name, PatchParams::default());
        match self.api.patch_status(name, &params, &Patch::Merge(patch)).await {
            Ok(pod) => StatusAnswer::Written(Some(Arc::new(pod))),
            Err(kube::Error::Api(answer)) if answer.code == 404 => StatusAnswer::Gone,
            Err(error) => {
                tracing::debug!(pod = %self.pod_ref, %error, "status write failed; reading the pod and trying again");
                self.look_again().await
            }
        }
    }

    async fn look_again(&self) -> StatusAnswer {
        match self.api.get_opt(&self.pod_ref.name).await {
            Ok(Some(pod)) if pod.metadata.uid.as_deref() == Some(&self.pod_ref.uid.0) => {
                StatusAnswer::Retry(Some(Arc::new(pod)))
            }
            Ok(_) => StatusAnswer::Gone,
            Err(_) => StatusAnswer::Retry(None),
        }
    }
}

/// Until the write, if there is one, is answered.
pub(crate) async fn answered(write: &mut Option<StatusWriting>) -> StatusAnswer {
    match write {
        Some(write) => write.answer().await,
        None => std::future::pending().await,
    }
}
