//! The provisioner of the class local-path: makes volumes for claims whose first pod goes to this node, and removes their
//! folders when they are released.
//!
//! ```text
//!  claim (selected-node: this one, storage-provisioner: ours) ─► folder ─► PersistentVolume with claimRef ─► the binder
//!  PersistentVolume Released, policy Delete ─► deleted (our finalizer holds it) ─► folder to the trash ─► finalizer off
//! ```
//!
//! Each step may be repeated, and is, after a crash or an answer that did not come. A volume that is being deleted is bound to
//! nobody any more, so that a folder goes only when no claim can get it; and not while a pod of this node has it.

mod folder;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{
    LocalVolumeSource, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, ObjectReference,
    PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec, VolumeNodeAffinity,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use rekindle_pod::Severity;
use rekindle_runtime::Runtime;
use rekindle_types::local_path::{
    FOLDER_FINALIZER, PROVISIONED_BY, PROVISIONER, SELECTED_NODE, volume_name,
};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::context::NodeContext;
use crate::network::PodNetwork;
use crate::pods::Recorder;
use crate::volumes::{VolumeProblem, sweep};
use folder::Folders;

/// The annotation by which the binder asks for a volume. Source: the API reference.
const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// Keeps a volume while a claim is bound to it.
const PROTECTION: &str = "kubernetes.io/pv-protection";
/// The label that binds a volume to its node.
const HOSTNAME: &str = "kubernetes.io/hostname";
/// The wait before something that failed is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Job {
    /// A volume for this claim: namespace and name.
    Make(String, String),
    /// What is left of this volume.
    Remove(String),
}

/// Makes and removes volumes of this node.
pub(crate) struct Provisioner {
    client: Client,
    node: String,
    recorder: Recorder,
    folders: Folders,
}

/// Why a job was not done; it is tried again.
#[derive(Debug, thiserror::Error)]
enum JobError {
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
            folders: Folders::new(dirs.local_path(), dirs.pods(), dirs.trash()),
        };
        tokio::spawn(provisioner.run())
    }

    async fn run(self) {
        let config = watcher::Config::default;
        let claims: Api<PersistentVolumeClaim> = Api::all(self.client.clone());
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let mut claims = watcher(claims, config()).default_backoff().applied_objects().boxed();
        let mut volumes = watcher(volumes, config()).default_backoff().applied_objects().boxed();
        let mut failed: BTreeSet<Job> = BTreeSet::new();
        let mut retry_at = Instant::now();
        loop {
            let due = tokio::select! {
                Some(claim) = claims.next() => match claim {
                    Ok(claim) if self.is_asked_for(&claim) => vec![job_of(&claim)],
                    Ok(_) => continue,
                    Err(error) => {
                        tracing::debug!(%error, "watch of claims failed; it is retried");
                        continue;
                    }
                },
                Some(volume) = volumes.next() => match volume {
                    Ok(volume) if self.is_ours(&volume) => {
                        vec![Job::Remove(volume.metadata.name.unwrap_or_default())]
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
                    tracing::warn!(?job, %error, "a volume waits; trying again");
                    retry_at = Instant::now() + RETRY_AFTER;
                    failed.insert(job);
                }
            }
        }
    }

    async fn work(&self, job: &Job) -> Result<(), JobError> {
        match job {
            Job::Make(namespace, name) => self.make(namespace, name).await,
            Job::Remove(name) => self.remove(name).await,
        }
    }

    fn is_asked_for(&self, claim: &PersistentVolumeClaim) -> bool {
        let says = |key: &str| claim.metadata.annotations.as_ref().and_then(|all| all.get(key));
        let spec = claim.spec.as_ref();
        spec.and_then(|spec| spec.volume_name.as_ref()).is_none()
            && claim.metadata.deletion_timestamp.is_none()
            && says(STORAGE_PROVISIONER).is_some_and(|who| who == PROVISIONER)
            && says(SELECTED_NODE) == Some(&self.node)
    }

    /// True for a volume whose folder is this node's, by path: another node's is not touched.
    fn is_ours(&self, volume: &PersistentVolume) -> bool {
        let meta = &volume.metadata;
        let maker = meta.annotations.as_ref().and_then(|all| all.get(PROVISIONED_BY));
        let local = volume.spec.as_ref().and_then(|spec| spec.local.as_ref());
        let own = meta.name.as_ref().and_then(|name| self.folders.path(name));
        maker.is_some_and(|maker| maker == PROVISIONER)
            && meta.finalizers.iter().flatten().any(|finalizer| finalizer == FOLDER_FINALIZER)
            && own.is_some_and(|own| {
                local.is_some_and(|local| own.as_os_str() == local.path.as_str())
            })
    }

    async fn make(&self, namespace: &str, name: &str) -> Result<(), JobError> {
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
        let claim = claims.get_opt(name).await?.filter(|claim| self.is_asked_for(claim));
        let Some(claim) = claim else { return Ok(()) };
        let spec = claim.spec.clone().unwrap_or_default();
        let class_name = spec.storage_class_name.clone().unwrap_or_default();
        let classes: Api<StorageClass> = Api::all(self.client.clone());
        let Some(class) = classes.get_opt(&class_name).await? else {
            let text = format!("storageclass.storage.k8s.io {class_name:?} not found");
            self.say(&claim, Severity::Warning, "ProvisioningFailed", text);
            return Ok(());
        };
        if spec.selector.is_some() {
            let text = format!(
                "failed to provision volume with StorageClass {class_name:?}: claim.Spec.Selector is not supported"
            );
            self.say(&claim, Severity::Warning, "ProvisioningFailed", text);
            return Ok(());
        }
        let volume = volume_name(claim.metadata.uid.as_deref().unwrap_or_default());
        let (folders, of) = (self.folders.clone(), volume.clone());
        let made = tokio::task::spawn_blocking(move || folders.make(&of)).await?;
        let path = match made {
            Ok(path) => path,
            Err(problem) => {
                let text = format!(
                    "failed to provision volume with StorageClass {class_name:?}: {problem}"
                );
                self.say(&claim, Severity::Warning, "ProvisioningFailed", text);
                return Err(problem.into());
            }
        };
        let object = self.volume(&claim, &class, &volume, &path.to_string_lossy());
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        match volumes.create(&PostParams::default(), &object).await {
            Ok(_) => {
                let text = format!("Successfully provisioned volume {volume}");
                self.say(&claim, Severity::Normal, "ProvisioningSucceeded", text);
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()), // made before a crash
            Err(error) => Err(error.into()),
        }
    }

    fn volume(
        &self,
        claim: &PersistentVolumeClaim,
        class: &StorageClass,
        name: &str,
        path: &str,
    ) -> PersistentVolume {
        let spec = claim.spec.clone().unwrap_or_default();
        let requirement = NodeSelectorRequirement {
            key: HOSTNAME.to_owned(),
            operator: "In".to_owned(),
            values: Some(vec![self.node.clone()]),
        };
        let term = NodeSelectorTerm {
            match_expressions: Some(vec![requirement]),
            ..NodeSelectorTerm::default()
        };
        PersistentVolume {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                annotations: Some(BTreeMap::from([(
                    PROVISIONED_BY.to_owned(),
                    PROVISIONER.to_owned(),
                )])),
                finalizers: Some(vec![FOLDER_FINALIZER.to_owned()]),
                ..ObjectMeta::default()
            },
            spec: Some(PersistentVolumeSpec {
                access_modes: spec.access_modes,
                capacity: spec.resources.and_then(|resources| resources.requests),
                claim_ref: Some(reference(claim)),
                local: Some(LocalVolumeSource { path: path.to_owned(), fs_type: None }),
                node_affinity: Some(VolumeNodeAffinity {
                    required: Some(NodeSelector { node_selector_terms: vec![term] }),
                }),
                persistent_volume_reclaim_policy: class.reclaim_policy.clone(),
                storage_class_name: class.metadata.name.clone(),
                volume_mode: spec.volume_mode,
                ..PersistentVolumeSpec::default()
            }),
            status: None,
        }
    }

    /// The next step of a volume's end, if it is at its end.
    async fn remove(&self, name: &str) -> Result<(), JobError> {
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let volume = volumes.get_opt(name).await?.filter(|volume| self.is_ours(volume));
        let Some(volume) = volume else { return Ok(()) };
        let spec = volume.spec.unwrap_or_default();
        let goes = spec.persistent_volume_reclaim_policy.as_deref() == Some("Delete");
        let meta = volume.metadata;
        if meta.deletion_timestamp.is_none() {
            let phase = volume.status.and_then(|status| status.phase);
            if !goes || phase.as_deref() != Some("Released") {
                return Ok(());
            }
            let only_this =
                Preconditions { uid: meta.uid, resource_version: meta.resource_version };
            let options =
                DeleteParams { preconditions: Some(only_this), ..DeleteParams::default() };
            volumes.delete(name, &options).await?;
            return Ok(()); // seen again when it is marked
        }
        let finalizers = meta.finalizers.unwrap_or_default();
        if finalizers.iter().any(|finalizer| finalizer == PROTECTION) {
            return Ok(()); // a claim may be bound to it; seen again when none is
        }
        if goes {
            let (folders, of) = (self.folders.clone(), name.to_owned());
            tokio::task::spawn_blocking(move || folders.discard(&of)).await??;
        }
        let left: Vec<&String> = finalizers.iter().filter(|f| *f != FOLDER_FINALIZER).collect();
        let patch = json!({"metadata": {
            "uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": left,
        }});
        volumes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        // deleting the content takes as long as it takes, and nobody waits for it
        let folders = self.folders.clone();
        tokio::task::spawn_blocking(move || sweep(folders.trash()));
        Ok(())
    }

    fn say(&self, claim: &PersistentVolumeClaim, severity: Severity, reason: &str, text: String) {
        self.recorder.record(reference(claim), severity, reason, text);
    }
}

fn job_of(claim: &PersistentVolumeClaim) -> Job {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    Job::Make(text(&claim.metadata.namespace), text(&claim.metadata.name))
}

fn reference(claim: &PersistentVolumeClaim) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("PersistentVolumeClaim".to_owned()),
        namespace: claim.metadata.namespace.clone(),
        name: claim.metadata.name.clone(),
        uid: claim.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}
