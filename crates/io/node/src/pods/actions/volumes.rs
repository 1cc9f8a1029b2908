//! Volumes: one piece of work on them at a time.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use rekindle_pod::{ActionError, ActionErrorKind, ActionOutcome, failed_mount};
use rekindle_runtime::Runtime;
use tokio::sync::{Mutex, OwnedMutexGuard, watch};

use super::{ActionResult, PodActions};
use crate::env::PodFacts;
use crate::network::PodNetwork;
use crate::objects::FetchedObjects;
use crate::volumes::{
    VolumeError, VolumeInputs, VolumeProblem, link_claims, look_up, mount_shares, mount_volumes,
    refresh_empty_dirs, shares, shares_of_pod, sweep, update_payloads,
};

/// The first wait before projected files that could not be updated are tried again.
const PAYLOAD_RETRY_MIN: Duration = Duration::from_secs(1);
/// The longest of these waits.
const PAYLOAD_RETRY_MAX: Duration = Duration::from_secs(60);

/// What keeps work on one pod's volumes from meeting other work on them, and from going by what is
/// old.
#[derive(Clone)]
pub(crate) struct VolumeWork {
    turn: Arc<Mutex<()>>,
    newest: watch::Receiver<Arc<Pod>>,
}

impl VolumeWork {
    /// Of the pod that `newest` shows.
    pub(crate) fn new(newest: watch::Receiver<Arc<Pod>>) -> Self {
        Self { turn: Arc::default(), newest }
    }

    /// Waits for other work on the volumes to end.
    pub(crate) async fn turn(&self) -> OwnedMutexGuard<()> {
        self.turn.clone().lock_owned().await
    }
}

impl<R: Runtime, N: PodNetwork> PodActions<R, N> {
    /// Brings projected files to what the objects and the pod's labels say now; tries until it is
    /// done, and tells of each cause once. To be dropped when something has changed again.
    pub(crate) async fn update_payloads(self) {
        let mut wait = PAYLOAD_RETRY_MIN;
        let mut told = String::new();
        while let Err(error) = self.clone().try_update_payloads().await {
            if error.message != told {
                self.node.recorder.pod_event(&self.pod_ref, failed_mount(&error.message));
                told = error.message;
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(PAYLOAD_RETRY_MAX);
        }
    }

    async fn try_update_payloads(mut self) -> Result<(), ActionError> {
        let turn = self.take_turn().await;
        let objects = self.all_objects().await?;
        self.blocking(move |this| {
            let _until_done = turn;
            update_payloads(this.volume_inputs(&this.facts(), &objects))
                .map_err(|e| volume_error(&e))
        })
        .await
    }

    /// Waits for other work on the volumes to end, and looks at the pod anew. The guard belongs
    /// into the thread that works: it must not come free when only the waiting for that thread is
    /// given up.
    async fn take_turn(&mut self) -> OwnedMutexGuard<()> {
        let turn = self.volumes.turn().await;
        self.pod = self.volumes.newest.borrow().clone();
        turn
    }

    fn volume_inputs<'a>(
        &'a self,
        facts: &'a PodFacts,
        objects: &'a FetchedObjects,
    ) -> VolumeInputs<'a> {
        let allocatable = &self.node.allocatable;
        VolumeInputs { dirs: &self.dirs, pod: &self.pod, facts, allocatable, objects }
    }

    async fn all_objects(&self) -> Result<FetchedObjects, ActionError> {
        let about =
            |problem: VolumeProblem| volume_error(&VolumeError { volume: String::new(), problem });
        let objects = self.objects.fetch_all().await;
        let mut objects = objects.map_err(|error| about(error.into()))?;
        let clock = self.node.clock;
        objects.set_tokens(self.tokens.fetch(&self.node.client, &self.pod, || clock.now()).await);
        Ok(objects)
    }

    pub(super) async fn mount_volumes(mut self) -> ActionResult {
        let turn = self.take_turn().await;
        let objects = self.all_objects().await?;
        let claimed = look_up(&self.node.client, &self.dirs, &self.pod, &self.node.name).await;
        let claimed = claimed.map_err(|error| volume_error(&error))?;
        let mut nfs = shares_of_pod(&self.dirs, &self.pod);
        nfs.extend(shares(&self.dirs, &claimed));
        mount_shares(nfs).await.map_err(|error| volume_error(&error))?;
        self.blocking(move |this| {
            let _until_done = turn;
            link_claims(&this.dirs, &this.pod, &claimed).map_err(|e| volume_error(&e))?;
            mount_volumes(this.volume_inputs(&this.facts(), &objects)).map_err(|e| volume_error(&e))
        })
        .await
        .map(|()| ActionOutcome::Done)
    }

    pub(super) async fn refresh_volumes(mut self) -> ActionResult {
        let turn = self.take_turn().await;
        let trash = self.dirs.trash().to_owned();
        let refreshed = self.blocking(move |this| {
            let _until_done = turn;
            refresh_empty_dirs(&this.dirs, &this.pod, &this.node.allocatable)
                .map_err(|e| volume_error(&e))
        });
        let refreshed = refreshed.await;
        // deleting the old content takes as long as it takes, and nobody waits for it
        tokio::task::spawn_blocking(move || sweep(&trash));
        refreshed.map(|()| ActionOutcome::Done)
    }
}

fn volume_error(error: &VolumeError) -> ActionError {
    ActionError { kind: ActionErrorKind::Volume, message: error.to_string() }
}
