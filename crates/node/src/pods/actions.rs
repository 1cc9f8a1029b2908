//! Carrying out what a pod core asks for: each action is one call that may be repeated.

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rekindle_pod::{
    Action, ActionError, ActionErrorKind, ContainerKey as CoreKey, ImageSource, Outcome, PodEvent,
    PullPolicy, Severity,
};
use rekindle_runtime::{
    ContainerKey, ImageErrorKind, Runtime, RuntimeError, SandboxKey, StopSignal,
};
use rekindle_types::{ContainerAttempt, PodRef, SandboxAttempt};

use super::etc_files;
use super::signals::signal_number;
use super::termination_message::create_file;
use crate::container_spec::{
    ContainerInputs, MountPaths, container_spec, find_container, sandbox_spec,
};
use crate::context::NodeContext;
use crate::env::{EnvInputs, PodFacts, build_environment};
use crate::layout::PodDirs;
use crate::network::PodNetwork;
use crate::objects::{FetchedObjects, PodObjects, container_references};
use crate::volumes::{
    VolumeError, VolumeInputs, VolumeProblem, ensure_sub_path, mount_volumes, refresh_empty_dirs,
    update_payloads, volume_paths,
};

/// What a container id begins with in the API.
const ID_SCHEME: &str = "rekindle://";

/// A runtime's id as the API shows it.
pub(crate) fn container_id(id: &str) -> String {
    format!("{ID_SCHEME}{id}")
}

/// A sandbox's id on the network.
pub(crate) fn network_id(key: &SandboxKey) -> String {
    format!("{}-{}", key.pod.uid, key.attempt)
}

/// One pod at the moment at which an action is begun.
pub(crate) struct PodActions<R, N> {
    pub(crate) node: Arc<NodeContext<R, N>>,
    pub(crate) pod_ref: PodRef,
    pub(crate) dirs: PodDirs,
    pub(crate) pod: Arc<Pod>,
    /// The addresses of the sandbox that stands.
    pub(crate) ips: Vec<IpAddr>,
    pub(crate) objects: Arc<PodObjects>,
}

impl<R, N> Clone for PodActions<R, N> {
    fn clone(&self) -> Self {
        Self {
            node: self.node.clone(),
            pod_ref: self.pod_ref.clone(),
            dirs: self.dirs.clone(),
            pod: self.pod.clone(),
            ips: self.ips.clone(),
            objects: self.objects.clone(),
        }
    }
}

type ActionResult = Result<Outcome, ActionError>;

impl<R: Runtime, N: PodNetwork> PodActions<R, N> {
    /// Carries out an action that expects an answer.
    pub(crate) async fn perform(self, action: Action) -> ActionResult {
        match action {
            Action::MountVolumes => self.mount_volumes().await,
            Action::RefreshVolumes => self.refresh_volumes().await,
            Action::SetUpSandbox { attempt, refresh: _ } => self.set_up_sandbox(attempt).await,
            Action::TearDownSandbox { attempt } => self.tear_down_sandbox(attempt).await,
            Action::PullImage { container: _, image, policy } => {
                self.pull_image(&image, policy).await
            }
            Action::CreateContainer { key } => self.create_container(key).await,
            Action::StartContainer { key } => self.start_container(key).await,
            Action::SignalContainer { key } => self.signal_container(key).await,
            Action::KillContainer { key } => self.kill_container(key).await,
            Action::RemoveContainer { key } => self.remove_container(key).await,
            Action::Persist(_)
            | Action::WriteStatus(_)
            | Action::EmitEvent(_)
            | Action::ReportRestart { .. }
            | Action::Finish => Ok(Outcome::Done), // the worker keeps these to itself
        }
    }

    /// Brings projected files to what the objects and the pod's labels say now.
    pub(crate) async fn update_payloads(self) -> Result<(), ActionError> {
        let objects = self.all_objects().await?;
        self.blocking(move |this| {
            update_payloads(this.volume_inputs(&this.facts(), &objects))
                .map_err(|e| volume_error(&e))
        })
        .await
    }

    fn sandbox_key(&self, attempt: SandboxAttempt) -> SandboxKey {
        SandboxKey { pod: self.pod_ref.clone(), attempt }
    }

    fn container_key(&self, key: CoreKey) -> ContainerKey {
        ContainerKey {
            sandbox: self.sandbox_key(key.sandbox),
            name: key.name,
            attempt: key.attempt,
        }
    }

    fn facts(&self) -> PodFacts {
        PodFacts { pod_ips: self.ips.clone(), host_ips: self.node.host_ips.clone() }
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
        self.objects.fetch_all().await.map_err(|error| {
            let problem = VolumeProblem::from(error);
            volume_error(&VolumeError { volume: String::new(), problem })
        })
    }

    /// File system work on a thread where it may block.
    async fn blocking<T: Send + 'static>(
        self,
        work: impl FnOnce(&Self) -> Result<T, ActionError> + Send + 'static,
    ) -> Result<T, ActionError> {
        match tokio::task::spawn_blocking(move || work(&self)).await {
            Ok(result) => result,
            Err(error) => Err(other(format!("file system work: {error}"))),
        }
    }

    async fn mount_volumes(self) -> ActionResult {
        let objects = self.all_objects().await?;
        self.blocking(move |this| {
            mount_volumes(this.volume_inputs(&this.facts(), &objects)).map_err(|e| volume_error(&e))
        })
        .await
        .map(|()| Outcome::Done)
    }

    async fn refresh_volumes(self) -> ActionResult {
        let trash = self.dirs.trash().to_owned();
        let refreshed = self
            .blocking(|this| {
                refresh_empty_dirs(&this.dirs, &this.pod).map_err(|e| volume_error(&e))
            })
            .await;
        // deleting the old content takes as long as it takes, and nobody waits for it
        tokio::task::spawn_blocking(move || crate::volumes::sweep(&trash));
        refreshed.map(|()| Outcome::Done)
    }

    async fn set_up_sandbox(self, attempt: SandboxAttempt) -> ActionResult {
        let key = self.sandbox_key(attempt);
        let spec = sandbox_spec(key.clone(), &self.pod, &self.node.cluster_domain);
        let info = self.node.runtime.run_sandbox(&spec).await.map_err(|e| runtime_error(&e))?;
        let ips = self.node.network.attach(&network_id(&key), &info.netns).await;
        let ips = ips.map_err(|error| ActionError {
            kind: ActionErrorKind::Sandbox,
            message: format!("set up the network of pod {}: {error}", self.pod_ref),
        })?;
        etc_files::write(&self.dirs, &self.pod, &ips, &self.node.cluster_domain).map_err(
            |error| ActionError {
                kind: ActionErrorKind::Sandbox,
                message: format!("write /etc/hosts of pod {}: {error}", self.pod_ref),
            },
        )?;
        Ok(Outcome::SandboxReady { ips })
    }

    async fn tear_down_sandbox(self, attempt: SandboxAttempt) -> ActionResult {
        let key = self.sandbox_key(attempt);
        self.node.runtime.remove_sandbox(&key).await.map_err(|e| runtime_error(&e))?;
        let detached = self.node.network.detach(&network_id(&key)).await;
        detached.map_err(|error| ActionError {
            kind: ActionErrorKind::Sandbox,
            message: format!("take pod {} off the network: {error}", self.pod_ref),
        })?;
        Ok(Outcome::Done)
    }

    async fn pull_image(self, image: &str, policy: PullPolicy) -> ActionResult {
        let runtime = &self.node.runtime;
        let failed = |error: RuntimeError| runtime_error(&error);
        match policy {
            PullPolicy::Never => match runtime.image_status(image).await.map_err(failed)? {
                Some(info) => Ok(present(info.id)),
                None => Err(ActionError {
                    kind: ActionErrorKind::ImageNeverPull,
                    message: format!(
                        "Container image {image:?} is not present with pull policy of Never"
                    ),
                }),
            },
            PullPolicy::IfNotPresent => match runtime.image_status(image).await.map_err(failed)? {
                Some(info) => Ok(present(info.id)),
                None => self.fetch_image(image).await,
            },
            PullPolicy::Always => match self.fetch_image(image).await {
                Ok(pulled) => Ok(pulled),
                // an image that was loaded by hand, or is built in, has no registry to ask
                Err(error) => match runtime.image_status(image).await.map_err(failed)? {
                    Some(info) => Ok(present(info.id)),
                    None => Err(error),
                },
            },
        }
    }

    async fn fetch_image(&self, image: &str) -> ActionResult {
        let info = self.node.runtime.pull_image(image).await.map_err(|e| runtime_error(&e))?;
        Ok(Outcome::ImagePresent { image_id: info.id, source: ImageSource::Pulled })
    }

    async fn create_container(self, key: CoreKey) -> ActionResult {
        let container =
            find_container(&self.pod, &key.name.0).map_err(|e| config(e.to_string()))?;
        let wanted = container_references(&self.pod_ref.namespace, container);
        let objects = self.objects.fetch(&wanted).await.map_err(|e| config(e.to_string()))?;
        let facts = self.facts();
        let env = build_environment(EnvInputs {
            pod: &self.pod,
            container,
            facts: &facts,
            allocatable: &self.node.allocatable,
            objects: &objects,
        })
        .map_err(|e| config(e.to_string()))?;
        self.tell_skipped(&container.name, &env.skipped);
        let volumes = volume_paths(&self.dirs, &self.pod);
        let etc_files = etc_files::mounts(&self.dirs);
        let attempt = key.attempt;
        let spec = container_spec(ContainerInputs {
            key: self.container_key(key),
            pod: &self.pod,
            container,
            env: env.variables,
            paths: MountPaths {
                volumes: &volumes,
                etc_files: &etc_files,
                termination_log: Some(self.dirs.termination_log(&container.name, attempt)),
            },
            log_path: self.dirs.log(&container.name, attempt),
        })
        .map_err(|e| config(e.to_string()))?;
        self.prepare_files(&container.name, attempt, &spec.mounts)?;
        let created = self.node.runtime.create_container(&spec).await;
        let created = created.map_err(|e| runtime_error(&e))?;
        Ok(Outcome::ContainerCreated {
            container_id: container_id(&created.id),
            image_id: created.image_id,
        })
    }

    /// Keys that cannot name a variable are left out, as with the kubelet, and said so.
    fn tell_skipped(&self, container: &str, keys: &[String]) {
        if keys.is_empty() {
            return;
        }
        let message = format!(
            "Keys [{}] from the EnvFrom sources were skipped since they are considered invalid environment variable names.",
            keys.join(", ")
        );
        let event = PodEvent {
            severity: Severity::Warning,
            reason: "InvalidEnvironmentVariableNames",
            message,
            field_path: Some(format!("spec.containers{{{container}}}")),
        };
        self.node.recorder.pod_event(&self.pod_ref, event);
    }

    /// Everything that must stand on the host before the runtime is asked: quick, so done in place.
    fn prepare_files(
        &self,
        container: &str,
        attempt: ContainerAttempt,
        mounts: &[rekindle_runtime::Mount],
    ) -> Result<(), ActionError> {
        let failed = |what: &str, error: std::io::Error| ActionError {
            kind: ActionErrorKind::ContainerCreate,
            message: format!("container {container:?} of pod {}: {what}: {error}", self.pod_ref),
        };
        let logs = self.dirs.container_logs(container);
        std::fs::create_dir_all(&logs).map_err(|e| failed("create the log folder", e))?;
        crate::logs::prune(&logs, attempt);
        // the message before the last is in no status any more
        if let Some(old) = attempt.0.checked_sub(2) {
            let path = self.dirs.termination_log(container, ContainerAttempt(old));
            super::journal_file::remove(&path).map_err(|error| other(error.to_string()))?;
        }
        let message = self.dirs.termination_log(container, attempt);
        create_file(&message).map_err(|e| failed("create the termination message file", e))?;
        for mount in mounts {
            if let Some(sub_path) = &mount.sub_path {
                ensure_sub_path(&mount.source, sub_path).map_err(|e| {
                    failed(&format!("create subPath {:?} of volume", sub_path.display()), e)
                })?;
            }
        }
        Ok(())
    }

    async fn start_container(self, key: CoreKey) -> ActionResult {
        let started = self.node.runtime.start_container(&self.container_key(key)).await;
        let started = started.map_err(|e| runtime_error(&e))?;
        Ok(Outcome::ContainerStarted { started_at: started.started_at })
    }

    async fn signal_container(self, key: CoreKey) -> ActionResult {
        let signal = self.stop_signal(&key.name.0);
        let sent = self.node.runtime.signal_container(&self.container_key(key), signal).await;
        sent.map(|()| Outcome::Done).map_err(|e| runtime_error(&e))
    }

    /// `lifecycle.stopSignal`, else what the image says.
    fn stop_signal(&self, container: &str) -> StopSignal {
        let container = find_container(&self.pod, container).ok();
        let given = container.and_then(|c| c.lifecycle.as_ref()?.stop_signal.as_deref());
        match given.and_then(signal_number) {
            Some(number) => StopSignal::Number(number),
            None => StopSignal::ImageDefault,
        }
    }

    async fn kill_container(self, key: CoreKey) -> ActionResult {
        let key = self.container_key(key);
        let killed = self.node.runtime.signal_container(&key, StopSignal::Kill).await;
        killed.map(|()| Outcome::Done).map_err(|e| runtime_error(&e))
    }

    async fn remove_container(self, key: CoreKey) -> ActionResult {
        let removed = self.node.runtime.remove_container(&self.container_key(key)).await;
        removed.map(|()| Outcome::Done).map_err(|e| runtime_error(&e))
    }
}

fn present(image_id: String) -> Outcome {
    Outcome::ImagePresent { image_id, source: ImageSource::AlreadyPresent }
}

fn config(message: String) -> ActionError {
    ActionError { kind: ActionErrorKind::ContainerConfig, message }
}

fn other(message: String) -> ActionError {
    ActionError { kind: ActionErrorKind::Other, message }
}

fn volume_error(error: &VolumeError) -> ActionError {
    ActionError { kind: ActionErrorKind::Volume, message: error.to_string() }
}

/// The class decides which waiting reason the pod shows and whether it is retried.
fn runtime_error(error: &RuntimeError) -> ActionError {
    let kind = match error {
        RuntimeError::Sandbox { .. } => ActionErrorKind::Sandbox,
        RuntimeError::Container { .. } => ActionErrorKind::ContainerCreate,
        RuntimeError::Config { .. } => ActionErrorKind::ContainerConfig,
        RuntimeError::Start { .. } => ActionErrorKind::ContainerStart,
        RuntimeError::Image { kind: ImageErrorKind::InvalidName, .. } => {
            ActionErrorKind::InvalidImageName
        }
        RuntimeError::Image { kind: ImageErrorKind::Pull, .. } => ActionErrorKind::ImagePull,
        RuntimeError::Unavailable { .. } => ActionErrorKind::Other,
    };
    ActionError { kind, message: error.chain() }
}
