//! Carrying out what a pod core asks for: each action is one call that may be repeated.

mod containers;
mod health;
mod images;
mod limits;
pub(super) mod volumes;

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rekindle_pod::{
    ActionError, ActionErrorKind, ActionOutcome, ContainerStartKey, CoreAction, Made, PodEvent,
};
use rekindle_runtime::{
    ContainerKey, CreatedContainer, ImageErrorKind, Runtime, RuntimeError, SandboxInfo, SandboxKey,
    StopSignal,
};
use rekindle_types::signals::signal_number;
use rekindle_types::{EventSeverity, PodRef, SandboxAttempt};

use self::volumes::VolumeWork;
use super::etc_files::{self, EtcFileError};
use super::resolver;
use crate::container_spec::{find_container, sandbox_spec};
use crate::context::NodeContext;
use crate::counters::ActionMetric;
use crate::env::PodFacts;
use crate::layout::PodDirs;
use crate::network::{self, NetworkError, PodNetwork};
use crate::objects::PodObjects;
use crate::tokens::PodTokens;

/// What a container id begins with in the API.
const ID_SCHEME: &str = "rekindle://";

/// A runtime's id as the API shows it.
pub(crate) fn container_id(id: &str) -> String {
    format!("{ID_SCHEME}{id}")
}

/// What a runtime made, as the core knows it.
pub(super) fn made(created: CreatedContainer) -> Made {
    let CreatedContainer { id, image_id, user } = created;
    Made { container_id: container_id(&id), image_id, user }
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
    pub(crate) volumes: VolumeWork,
    pub(crate) tokens: Arc<PodTokens>,
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
            volumes: self.volumes.clone(),
            tokens: self.tokens.clone(),
        }
    }
}

type ActionResult = Result<ActionOutcome, ActionError>;

impl<R: Runtime, N: PodNetwork> PodActions<R, N> {
    /// Carries out an action that expects an answer, and counts it.
    pub(crate) async fn perform(self, action: CoreAction) -> ActionResult {
        let counted = ActionMetric::new(&action, &self.pod);
        let (node, pod_ref) = (self.node.clone(), self.pod_ref.clone());
        let begun_at = node.clock.now();
        let result = self.carry_out(action).await;
        node.counters.count(&counted, &pod_ref, (begun_at, node.clock.now()), &result);
        result
    }

    async fn carry_out(self, action: CoreAction) -> ActionResult {
        match action {
            CoreAction::MountVolumes => self.mount_volumes().await,
            CoreAction::RefreshVolumes => self.refresh_volumes().await,
            CoreAction::SetUpSandbox { attempt } => self.set_up_sandbox(attempt).await,
            CoreAction::TearDownSandbox { attempt } => self.tear_down_sandbox(attempt).await,
            CoreAction::FindImage { container: _, image, policy } => {
                self.look_for_image(&image, policy).await
            }
            CoreAction::PullImage { container: _, image } => self.pull_image(&image).await,
            CoreAction::StartContainer { key, target } => self.start_container(key, target).await,
            CoreAction::SignalContainer { key } => self.signal_container(key).await,
            CoreAction::KillContainer { key } => self.kill_container(key).await,
            CoreAction::RemoveContainer { key } => self.remove_container(key).await,
            CoreAction::UpdateSandbox { attempt, step } => self.update_sandbox(attempt, step).await,
            CoreAction::UpdateContainer { key } => self.update_container(key).await,
            CoreAction::RunProbe { key, probe, timeout } => {
                self.run_probe(key, probe, timeout).await
            }
            CoreAction::RunHook { key, hook, limit } => self.run_hook(key, hook, limit).await,
        }
    }

    fn sandbox_key(&self, attempt: SandboxAttempt) -> SandboxKey {
        SandboxKey { pod: self.pod_ref.clone(), attempt }
    }

    fn container_key(&self, key: ContainerStartKey) -> ContainerKey {
        ContainerKey {
            sandbox: self.sandbox_key(key.sandbox),
            name: key.name,
            attempt: key.attempt,
        }
    }

    fn facts(&self) -> PodFacts {
        let spec = self.pod.spec.as_ref();
        let shares_network = spec.is_some_and(|spec| spec.host_network == Some(true));
        let api =
            self.node.api.map(|api| if shares_network { api.of_the_node } else { api.of_pods });
        PodFacts { pod_ips: self.ips.clone(), host_ips: self.node.host_ips.clone(), api }
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

    async fn set_up_sandbox(self, attempt: SandboxAttempt) -> ActionResult {
        let failed = |error: &dyn std::fmt::Display| ActionError {
            kind: ActionErrorKind::Sandbox,
            message: format!("set up the sandbox of pod {}: {error}", self.pod_ref),
        };
        let users = self.node.users.of(&self.pod, &self.pod_ref, &self.dirs);
        let users = users.map_err(|error| failed(&error))?;
        let spec = sandbox_spec(
            self.sandbox_key(attempt),
            &self.pod,
            &self.node.cluster_domain,
            self.node.pod_pids_limit,
            users,
        );
        let spec = spec.map_err(|error| failed(&error))?;
        let info = self.node.runtime.run_sandbox(&spec).await.map_err(|e| runtime_error(&e))?;
        self.node.sandbox_taken.notify_one();
        let ips = self.put_on_network(&info).await.map_err(|error| ActionError {
            kind: ActionErrorKind::Sandbox,
            message: format!("set up the network of pod {}: {error}", self.pod_ref),
        })?;
        self.write_etc_files(&ips).await.map_err(|error| ActionError {
            kind: ActionErrorKind::Sandbox,
            message: format!("write /etc/hosts of pod {}: {error}", self.pod_ref),
        })?;
        Ok(ActionOutcome::SandboxReady { ips })
    }

    async fn write_etc_files(&self, ips: &[IpAddr]) -> Result<(), EtcFileError> {
        let conf = resolver::pod_resolv_conf(&self.pod, &self.pod_ref, &self.node.resolvers)?;
        let write =
            || etc_files::write(&self.dirs, &self.pod, ips, &self.node.cluster_domain, &conf.text);
        match write() {
            // what a container has done to its files must not keep the next sandbox from getting
            // its own
            Err(error) if error.is_lack_of_room() => {
                let _no_mounts_meanwhile = self.volumes.turn().await;
                etc_files::make_room(&self.dirs)?;
                write()?;
            }
            written => written?,
        }
        for (reason, message) in conf.notices {
            let severity = EventSeverity::Warning;
            let event = PodEvent { severity, reason, message, field_path: None };
            self.node.recorder.pod_event(&self.pod_ref, event);
        }
        Ok(())
    }

    async fn put_on_network(&self, sandbox: &SandboxInfo) -> Result<Vec<IpAddr>, NetworkError> {
        let ips = network::addresses(&self.node, sandbox).await?;
        // before anything leads there, and before a container can send
        self.node.policies.enter(&self.pod, &ips).await;
        network::open_ports(&self.node, &self.pod, sandbox, &ips).await?;
        Ok(ips)
    }

    async fn tear_down_sandbox(self, attempt: SandboxAttempt) -> ActionResult {
        let key = self.sandbox_key(attempt);
        let id = self.node.runtime.sandbox_id(&key);
        if let Some(id) = &id {
            // first: what is removed would not answer, not even with a refusal
            network::close_ports(&self.node, &self.pod, id).await;
        }
        self.node.runtime.remove_sandbox(&key).await.map_err(|e| runtime_error(&e))?;
        // One that did not stand any more was taken off the network when this agent started.
        let Some(id) = id else { return Ok(ActionOutcome::Done) };
        let detached = self.node.network.detach(&id).await;
        detached.map_err(|error| ActionError {
            kind: ActionErrorKind::Sandbox,
            message: format!("take pod {} off the network: {error}", self.pod_ref),
        })?;
        Ok(ActionOutcome::Done)
    }

    async fn signal_container(self, key: ContainerStartKey) -> ActionResult {
        let signal = self.stop_signal(&key.name.0);
        let sent = self.node.runtime.signal_container(&self.container_key(key), signal).await;
        sent.map(|()| ActionOutcome::Done).map_err(|e| runtime_error(&e))
    }

    /// `lifecycle.stopSignal`, else what the image says.
    fn stop_signal(&self, container: &str) -> StopSignal {
        let container = find_container(&self.pod, container).ok();
        let lifecycle = container.as_ref().and_then(|container| container.lifecycle.as_ref());
        let given = lifecycle.and_then(|lifecycle| lifecycle.stop_signal.as_deref());
        match given.and_then(signal_number) {
            Some(number) => StopSignal::Number(number),
            None => StopSignal::ImageDefault,
        }
    }

    async fn kill_container(self, key: ContainerStartKey) -> ActionResult {
        let key = self.container_key(key);
        let killed = self.node.runtime.signal_container(&key, StopSignal::Kill).await;
        killed.map(|()| ActionOutcome::Done).map_err(|e| runtime_error(&e))
    }

    async fn remove_container(self, key: ContainerStartKey) -> ActionResult {
        let removed = self.node.runtime.remove_container(&self.container_key(key)).await;
        removed.map(|()| ActionOutcome::Done).map_err(|e| runtime_error(&e))
    }
}

fn config(message: String) -> ActionError {
    ActionError { kind: ActionErrorKind::ContainerConfig, message }
}

fn other(message: String) -> ActionError {
    ActionError { kind: ActionErrorKind::Other, message }
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
    let message = match error {
        RuntimeError::Config { key, problem } => in_kubelets_words(key, problem),
        RuntimeError::Sandbox { .. }
        | RuntimeError::Container { .. }
        | RuntimeError::Start { .. }
        | RuntimeError::Image { .. }
        | RuntimeError::Unavailable { .. } => error.chain(),
    };
    ActionError { kind, message }
}

/// What is wrong with a container's config, and with whose, as the kubelet says it
/// (`verifyRunAsNonRoot`).
fn in_kubelets_words(key: &ContainerKey, problem: &str) -> String {
    let pod = key.sandbox.pod.in_full();
    format!("{problem} (pod: {pod:?}, container: {})", key.name)
}
