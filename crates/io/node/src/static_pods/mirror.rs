//! Keeps the mirror of one static pod: creates it, brings the pod's status to it, and creates it
//! again when somebody deleted it or when it shows an earlier manifest.
//!
//! Between a deletion and the next mirror its name stays free for a while: who waits for the end of
//! an object by its name, as kubectl does, would take the new one for it, and wait for ever.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::PostParams;
use kube::{Api, Client};
use rekindle_pod_driver::{StatusQueue, Urgency};
use rekindle_types::{PodRef, Tick};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::manifest::{hash_of_mirror, mirror_of};
use super::set::MirrorView;
use crate::clock::{Clock, sleep_until};
use crate::pods::{StatusWriter, answered, delete_object, pod_ref};

/// The first wait after the API did not take the mirror.
const RETRY_MIN: Duration = Duration::from_millis(100);
/// The longest.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// How long the name of a mirror that was deleted stays free: far longer than kubectl takes from
/// its question to its list.
const NAME_FREE: Duration = Duration::from_secs(1);

/// The task that keeps one mirror. Dropping it leaves the mirror as it is.
pub(crate) struct MirrorKeeper {
    client: Client,
    status: watch::Sender<Arc<PodStatus>>,
    mirror: MirrorView,
    task: AbortHandle,
}

impl Drop for MirrorKeeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl MirrorKeeper {
    /// For a static pod of this node, whose mirror is seen through `mirror`.
    pub(crate) fn start(client: Client, node: &str, pod: Arc<Pod>, mirror: MirrorView) -> Self {
        let (status, shown) = watch::channel(Arc::new(pod.status.clone().unwrap_or_default()));
        let keeping = MirrorTask {
            client: client.clone(),
            node: node.to_owned(),
            pod,
            mirror: mirror.clone(),
            shown,
        };
        let task = tokio::spawn(keeping.run()).abort_handle();
        Self { client, status, mirror, task }
    }

    /// Hands in a newer status.
    pub(crate) fn submit(&self, status: Arc<PodStatus>) {
        self.status.send_replace(status);
    }

    /// The UID of the mirror, while there is one.
    pub(crate) fn uid(&self) -> Option<String> {
        self.mirror.borrow().as_ref()?.metadata.uid.clone()
    }

    /// The static pod is over for good, and with it what shows it.
    pub(crate) async fn delete(&self) {
        self.task.abort();
        let mirror = self.mirror.borrow().clone();
        if let Some(mirror) = mirror.as_deref().and_then(pod_ref) {
            delete_object(&self.client, &mirror).await;
        }
    }
}

struct MirrorTask {
    client: Client,
    node: String,
    pod: Arc<Pod>,
    mirror: MirrorView,
    shown: watch::Receiver<Arc<PodStatus>>,
}

impl MirrorTask {
    async fn run(mut self) {
        let mut wait = RETRY_MIN;
        let mut was_shown = false;
        loop {
            let mirror = self.mirror.borrow_and_update().clone();
            let is_shown = mirror.as_deref().is_some_and(|mirror| self.is_same_manifest(mirror));
            if mirror.is_none() && was_shown {
                let _another = tokio::time::timeout(NAME_FREE, self.mirror.changed()).await;
                was_shown = false;
                continue;
            }
            was_shown = is_shown;
            let kept = match &mirror {
                None => self.create().await,
                Some(mirror) if !self.is_shown_by(mirror) => {
                    if let Some(mirror) = pod_ref(mirror) {
                        delete_object(&self.client, &mirror).await;
                    }
                    Ok(())
                }
                Some(mirror) => self.write_statuses(mirror).await,
            };
            match kept {
                Ok(()) => wait = RETRY_MIN,
                Err(MirrorRefused) => {
                    // the mirror may appear meanwhile: somebody else's write was seen late
                    let _changed = tokio::time::timeout(wait, self.mirror.changed()).await;
                    wait = (wait * 2).min(RETRY_MAX);
                    continue;
                }
            }
            let now = self.mirror.borrow().clone();
            if same(mirror.as_ref(), now.as_ref()) && self.mirror.changed().await.is_err() {
                return; // the agent ends
            }
        }
    }

    /// True when the mirror shows this pod, and stays.
    fn is_shown_by(&self, mirror: &Pod) -> bool {
        self.is_same_manifest(mirror) && mirror.metadata.deletion_timestamp.is_none()
    }

    fn is_same_manifest(&self, mirror: &Pod) -> bool {
        hash_of_mirror(mirror) == self.pod.metadata.uid.as_deref()
    }

    async fn create(&self) -> Result<(), MirrorRefused> {
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or_default();
        let name = self.pod.metadata.name.as_deref().unwrap_or_default();
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let mirror = mirror_of(&self.pod, self.owner().await);
        match api.create(&PostParams::default(), &mirror).await {
            Ok(_) => Ok(()),
            Err(error) => {
                tracing::warn!(pod = %format!("{namespace}/{name}"), %error, "failed to write the mirror of a static pod; trying again");
                Err(MirrorRefused)
            }
        }
    }

    /// The Node object: with it the mirrors go, too.
    async fn owner(&self) -> Option<OwnerReference> {
        let node = Api::<Node>::all(self.client.clone()).get_opt(&self.node).await.ok()??;
        Some(OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: self.node.clone(),
            uid: node.metadata.uid?,
            controller: Some(true),
            block_owner_deletion: None,
        })
    }

    /// Brings each status to this mirror, until it is gone, going, or another.
    async fn write_statuses(&mut self, mirror: &Pod) -> Result<(), MirrorRefused> {
        let Some(mirror_ref) = pod_ref(mirror) else { return Ok(()) };
        let writer = StatusWriter::new(self.client.clone(), mirror_ref.clone());
        let clock = Clock::of_timers(Tick::ZERO);
        let (mut statuses, mut write) = (StatusQueue::new(mirror), None);
        self.shown.mark_changed();
        loop {
            if let Some(due) = statuses.poll(clock.now()) {
                write = Some(writer.write(due));
            }
            let timeout = statuses.poll_timeout().map(|at| clock.instant_of(at));
            tokio::select! {
                changed = self.shown.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    let status = self.shown.borrow_and_update().clone();
                    statuses.submit(clock.now(), status, Urgency::Now);
                }
                changed = self.mirror.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    let now = self.mirror.borrow_and_update().clone();
                    match now {
                        Some(now) if is(&now, &mirror_ref) && self.is_shown_by(&now) => {
                            statuses.observe(clock.now(), &now);
                        }
                        Some(_) | None => {
                            self.mirror.mark_changed();
                            return Ok(());
                        }
                    }
                }
                answer = answered(&mut write) => {
                    write = None;
                    statuses.answered(clock.now(), answer);
                }
                () = sleep_until(timeout) => {}
            }
        }
    }
}

/// The API did not take something; it is tried again.
struct MirrorRefused;

fn is(pod: &Pod, pod_ref: &PodRef) -> bool {
    pod.metadata.uid.as_deref() == Some(&pod_ref.uid.0)
}

fn same(before: Option<&Arc<Pod>>, now: Option<&Arc<Pod>>) -> bool {
    match (before, now) {
        (None, None) => true,
        (Some(before), Some(now)) => Arc::ptr_eq(before, now),
        (None, Some(_)) | (Some(_), None) => false,
    }
}
