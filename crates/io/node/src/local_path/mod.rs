//! The provisioner of the class local-path: makes volumes for claims whose first pod goes to this
//! node, and removes their folders when they are released.
//!
//! ```text
//!  claim (selected-node: this one, storage-provisioner: ours) ─► folder ─► PersistentVolume with claimRef ─► the binder
//!  PersistentVolume Released, policy Delete ─► deleted (our finalizer holds it) ─► folder to the trash ─► finalizer off
//! ```
//!
//! Each step may be repeated, and is, after a crash or an answer that did not come. A volume that
//! is being deleted is bound to nobody any more, so that a folder goes only when no claim can get
//! it; and not while a pod of this node has it.

mod folder;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self};
use kube::{Api, Client};
use rekindle_object_watch::watcher;
use rekindle_runtime::Runtime;
use rekindle_types::EventSeverity;
use rekindle_types::local_path::{self, VolumeCleanup, volume_name};
use rekindle_types::reasons::event;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::context::NodeContext;
use crate::network::PodNetwork;
use crate::pods::EventRecorder;
use crate::volumes::{VolumeProblem, sweep};
use folder::LocalPathFolders;

/// The wait before something that failed is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ProvisionerJob {
    /// A volume for this claim: namespace and name.
    Make(String, String),
    /// What is left of this volume.
    Remove(String),
}

/// Makes and removes volumes of this node.
pub(crate) struct Provisioner {
    client: Client,
    node: String,
    recorder: EventRecorder,
    folders: LocalPathFolders,
}

/// Why a job was not done; it is tried again.
#[derive(Debug, thiserror::Error)]
enum ProvisionerError {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error(transparent)]
    Volume(#[from] VolumeProblem),
    #[error("its folder was worked on by a thread that failed")]
    Thread(#[from] tokio::task::JoinError),
}

impl Provisioner {
    /// Starts it.
    pub(crate) fn start<R: Runtime, N: PodNetwork>(node: &NodeContext<R, N>) -> JoinHandle<()> {
        let dirs = &node.dirs;
        let provisioner = Self {
            client: node.client.clone(),
            node: node.name.clone(),
            recorder: node.recorder.clone(),
            folders: LocalPathFolders::new(dirs.local_path(), dirs.pods(), dirs.trash()),
        };
        tokio::spawn(provisioner.run())
    }

    async fn run(self) {
        let config = watcher::Config::default;
        let claims: Api<PersistentVolumeClaim> = Api::all(self.client.clone());
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let mut claims = watcher(claims, config()).default_backoff().applied_objects().boxed();
        let mut volumes = watcher(volumes, config()).default_backoff().applied_objects().boxed();
        let mut failed: BTreeSet<ProvisionerJob> = BTreeSet::new();
        let mut retry_at = Instant::now();
        loop {
            let due = tokio::select! {
                Some(claim) = claims.next() => match claim {
                    Ok(claim) if local_path::is_asked_for(&claim, &self.node) => vec![job_of(&claim)],
                    Ok(_) => continue,
                    Err(error) => {
                        tracing::debug!(%error, "watch of claims failed; it is retried");
                        continue;
                    }
                },
                Some(volume) = volumes.next() => match volume {
                    Ok(volume) if self.is_ours(&volume) => {
                        vec![ProvisionerJob::Remove(volume.metadata.name.unwrap_or_default())]
                    }
                    Ok(_) => continue,
                    Err(error) => {
                        tracing::debug!(%error, "watch of volumes failed; it is retried");
                        continue;
                    }
                },
                () = tokio::time::sleep_until(retry_at), if !failed.is_empty() => {
                    std::mem::take(&mut failed).into_iter().collect()
                }
                else => return,
            };
            for job in due {
                if let Err(error) = self.work(&job).await {
                    tracing::warn!(?job, %error, "failed to provision a volume; trying again");
                    retry_at = Instant::now() + RETRY_AFTER;
                    failed.insert(job);
                }
            }
        }
    }

    async fn work(&self, job: &ProvisionerJob) -> Result<(), ProvisionerError> {
        match job {
            ProvisionerJob::Make(namespace, name) => self.make(namespace, name).await,
            ProvisionerJob::Remove(name) => self.remove(name).await,
        }
    }

    /// True for a volume whose folder is this node's, by path: another node's is not touched.
    fn is_ours(&self, volume: &PersistentVolume) -> bool {
        let local = volume.spec.as_ref().and_then(|spec| spec.local.as_ref());
        let own = volume.metadata.name.as_ref().and_then(|name| self.folders.path(name));
        local_path::has_folder(volume)
            && own.is_some_and(|own| {
                local.is_some_and(|local| own.as_os_str() == local.path.as_str())
            })
    }

    async fn make(&self, namespace: &str, name: &str) -> Result<(), ProvisionerError> {
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
        let claim =
            claims.get_opt(name).await?.filter(|claim| local_path::is_asked_for(claim, &self.node));
        let Some(claim) = claim else { return Ok(()) };
        let spec = claim.spec.as_ref();
        let class_name = spec.and_then(|spec| spec.storage_class_name.clone()).unwrap_or_default();
        let classes: Api<StorageClass> = Api::all(self.client.clone());
        let class = classes.get_opt(&class_name).await?;
        let class = match local_path::class_for(&claim, class.as_ref()) {
            Ok(class) => class,
            Err(why) => {
                self.say(&claim, EventSeverity::Warning, event::PROVISIONING_FAILED, why);
                return Ok(());
            }
        };
        let volume = volume_name(claim.metadata.uid.as_deref().unwrap_or_default());
        let (folders, of) = (self.folders.clone(), volume.clone());
        let made = tokio::task::spawn_blocking(move || folders.make(&of)).await?;
        let path = match made {
            Ok(path) => path,
            Err(problem) => {
                let text = format!(
                    "failed to provision volume with StorageClass {class_name:?}: {problem}"
                );
                self.say(&claim, EventSeverity::Warning, event::PROVISIONING_FAILED, text);
                return Err(problem.into());
            }
        };
        let object = local_path::volume(&claim, class, &self.node, &path.to_string_lossy());
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        match volumes.create(&PostParams::default(), &object).await {
            Ok(_) => {
                let text = format!("Successfully provisioned volume {volume}");
                self.say(&claim, EventSeverity::Normal, event::PROVISIONING_SUCCEEDED, text);
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()), // made before a crash
            Err(error) => Err(error.into()),
        }
    }

    /// The next step of a volume's end, if it is at its end.
    async fn remove(&self, name: &str) -> Result<(), ProvisionerError> {
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let volume = volumes.get_opt(name).await?.filter(|volume| self.is_ours(volume));
        let Some(volume) = volume else { return Ok(()) };
        let left = local_path::finalizers_left(&volume);
        match VolumeCleanup::from_volume(&volume) {
            // seen again when no claim is bound to it any more
            VolumeCleanup::NotYet => return Ok(()),
            VolumeCleanup::Delete => {
                let meta = volume.metadata;
                let only_this =
                    Preconditions { uid: meta.uid, resource_version: meta.resource_version };
                let options =
                    DeleteParams { preconditions: Some(only_this), ..DeleteParams::default() };
                volumes.delete(name, &options).await?;
                return Ok(()); // seen again when it is marked
            }
            VolumeCleanup::WithFolder => {
                let (folders, of) = (self.folders.clone(), name.to_owned());
                tokio::task::spawn_blocking(move || folders.discard(&of)).await??;
            }
            VolumeCleanup::WithoutFolder => {}
        }
        let meta = volume.metadata;
        let patch = json!({"metadata": {
            "uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": left,
        }});
        volumes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        // deleting the content takes as long as it takes, and nobody waits for it
        let folders = self.folders.clone();
        tokio::task::spawn_blocking(move || sweep(folders.trash()));
        Ok(())
    }

    fn say(
        &self,
        claim: &PersistentVolumeClaim,
        severity: EventSeverity,
        reason: &str,
        text: String,
    ) {
        self.recorder.record(local_path::reference(claim), severity, reason, text);
    }
}

fn job_of(claim: &PersistentVolumeClaim) -> ProvisionerJob {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    ProvisionerJob::Make(text(&claim.metadata.namespace), text(&claim.metadata.name))
}
