//! Writing a pod's status to the API.
//!
//! What is written is said by [`StatusWrite`], on the version that was seen last. When the object
//! has changed meanwhile, it is read anew and the patch is made again.

use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use rekindle_pod::StatusWrite;
use rekindle_types::PodRef;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::coalescing_writer::{Progress, Submitted, Urgency, WriteOutcome, reached, write_latest};

/// Writes one pod's status, newest first.
pub(crate) struct StatusWriter {
    values: watch::Sender<Submitted<Arc<PodStatus>>>,
    progress: watch::Receiver<Progress>,
    seen: Arc<Mutex<StatusWrite>>,
    task: AbortHandle,
}

impl Drop for StatusWriter {
    /// Nobody writes the status of a pod that nobody looks after.
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl StatusWriter {
    /// A writer for this pod, which has been seen as `pod`.
    pub(crate) fn start(client: Client, pod_ref: PodRef, pod: &Pod) -> Self {
        let status = Arc::new(pod.status.clone().unwrap_or_default());
        let (values, receiver) = watch::channel(Submitted::first(status));
        let (sender, progress) = watch::channel(Progress::Written(0));
        let seen = Arc::new(Mutex::new(StatusWrite::on(pod)));
        let writer_seen = seen.clone();
        let api: Api<Pod> = Api::namespaced(client, &pod_ref.namespace);
        let task = tokio::spawn(write_latest(receiver, sender, move |status: Arc<PodStatus>| {
            let (api, pod_ref, seen) = (api.clone(), pod_ref.clone(), writer_seen.clone());
            async move { write(&api, &pod_ref, &seen, &status).await }
        }));
        Self { values, progress, seen, task: task.abort_handle() }
    }

    /// Hands in a newer status.
    pub(crate) fn submit(&self, status: Arc<PodStatus>, urgency: Urgency) {
        self.values.send_modify(|submitted| submitted.replace(status, urgency));
    }

    /// The object was seen in the API. When it says something else of the pod's readiness than the
    /// node does, the node says it again: while nobody heard of the node, the node lifecycle
    /// controller has made its pods not ready.
    pub(crate) fn observe(&self, pod: &Pod) {
        {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if !seen.see(pod) {
                return;
            }
        }
        let own = ready(Some(&self.values.borrow().value));
        let shown = ready(pod.status.as_ref());
        if own.is_some() && shown.is_some() && own != shown {
            self.values.send_modify(|submitted| {
                let value = submitted.value.clone();
                submitted.replace(value, Urgency::Now);
            });
        }
    }

    /// Waits until the newest status stands in the API, or the pod is gone from it.
    pub(crate) async fn flush(&mut self) {
        let number = self.values.borrow().number;
        reached(&mut self.progress, number).await;
    }
}

/// What the condition Ready says.
fn ready(status: Option<&PodStatus>) -> Option<String> {
    let mut conditions = status?.conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == "Ready").map(|ready| ready.status.clone())
}

async fn write(
    api: &Api<Pod>,
    pod_ref: &PodRef,
    seen: &Mutex<StatusWrite>,
    status: &PodStatus,
) -> WriteOutcome {
    let base = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let patch = base.patch(&pod_ref.uid.0, status);
    let params = PatchParams::default();
    match api.patch_status(&pod_ref.name, &params, &Patch::Merge(patch)).await {
        Ok(pod) => {
            remember(seen, &pod);
            WriteOutcome::Written
        }
        Err(kube::Error::Api(answer)) if answer.code == 404 => WriteOutcome::Gone,
        Err(error) => {
            tracing::debug!(pod = %pod_ref, %error, "status write failed; reading the pod and trying again");
            look_again(api, pod_ref, seen).await
        }
    }
}

fn remember(seen: &Mutex<StatusWrite>, pod: &Pod) {
    *seen.lock().unwrap_or_else(PoisonError::into_inner) = StatusWrite::on(pod);
}

async fn look_again(api: &Api<Pod>, pod_ref: &PodRef, seen: &Mutex<StatusWrite>) -> WriteOutcome {
    match api.get_opt(&pod_ref.name).await {
        Ok(Some(pod)) if pod.metadata.uid.as_deref() == Some(&pod_ref.uid.0) => {
            remember(seen, &pod);
            WriteOutcome::Retry
        }
        Ok(_) => WriteOutcome::Gone,
        Err(_) => WriteOutcome::Retry,
    }
}
