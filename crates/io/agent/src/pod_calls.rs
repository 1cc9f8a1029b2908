//! The calls of a restart: what runs of a pod, stops with preStop hooks, and the end of sandboxes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{LifecycleHandler, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use rekindle_cri_restart::{
    ContainerStop, PodRuntime, RuntimeContainer, RuntimeContainerState, RuntimeSandbox, StopPlan,
};
use rekindle_node::run_http_hook;
use rekindle_types::TickDuration;
use rekindle_types::v1alpha1::{ContainerLastEnd, END_MESSAGE_BYTES_MAX};
use serde_json::Value;
use tokio::time::Instant;

use crate::NodeAccess;
use crate::cri::messages::{
    ContainerFilter, ContainerStatusRequest, ContainerStatusResponse, EmptyResponse,
    ExecSyncRequest, ExecSyncResponse, ListContainersRequest, ListContainersResponse,
    ListPodSandboxRequest, ListPodSandboxResponse, ListedContainer, PodSandboxFilter,
    PodSandboxStatusRequest, PodSandboxStatusResponse, RuntimeContainerStatus, SandboxRequest,
    StopContainerRequest, VersionRequest, VersionResponse,
};
use crate::cri::{CriClient, CriError};

/// The label by which the kubelet marks what belongs to a pod.
const POD_UID_LABEL: &str = "io.kubernetes.pod.uid";
/// How long a list may take.
const LIST_LIMIT: Duration = Duration::from_secs(10);
/// How long the runtime may take beyond a grace period, and to end a sandbox: the kubelet's own
/// limit is two minutes.
const STOP_LIMIT: Duration = Duration::from_secs(120);
/// How long the kill of a container may take: the kernel ends a process at once, unless it waits
/// for a device.
const KILL_LIMIT: Duration = Duration::from_secs(30);

/// The calls of restarts to one runtime.
#[derive(Clone, Debug)]
pub struct PodCalls(Arc<CriClient>);

impl PodCalls {
    /// To this runtime.
    pub fn new(client: CriClient) -> Self {
        Self(Arc::new(client))
    }

    /// The runtime's name and version.
    ///
    /// # Errors
    /// When it gives no answer.
    pub async fn version(&self) -> Result<String, CriError> {
        let version: VersionResponse =
            self.0.call("Version", &VersionRequest {}, LIST_LIMIT).await?;
        Ok(format!("{} {}", version.runtime_name, version.runtime_version))
    }

    /// What runs of a pod, and how what is over has ended.
    ///
    /// # Errors
    /// When the runtime gives no answer.
    pub async fn look(&self, pod_uid: &str) -> Result<PodRuntime, CriError> {
        let of_pod = BTreeMap::from([(POD_UID_LABEL.to_owned(), pod_uid.to_owned())]);
        let filter = PodSandboxFilter { label_selector: of_pod.clone() };
        let request = ListPodSandboxRequest { filter: Some(filter) };
        let sandboxes: ListPodSandboxResponse =
            self.0.call("ListPodSandbox", &request, LIST_LIMIT).await?;
        let filter = ContainerFilter { label_selector: of_pod };
        let request = ListContainersRequest { filter: Some(filter) };
        let listed: ListContainersResponse =
            self.0.call("ListContainers", &request, LIST_LIMIT).await?;
        let containers = join_all(listed.containers.into_iter().map(|c| self.container(c))).await;
        Ok(PodRuntime {
            sandboxes: sandboxes
                .items
                .into_iter()
                .map(|sandbox| RuntimeSandbox {
                    id: sandbox.id,
                    is_ready: sandbox.state == 0,
                    created_at: sandbox.created_at,
                })
                .collect(),
            containers,
            cgroup: None,
            oom_kills: None,
        })
    }

    /// Adds what is kept of a pod before it is restarted, as far as the agent sees it: its cgroup
    /// and the last lines of logs. What is not known is left out.
    pub async fn add_evidence(&self, pod_uid: &str, access: &NodeAccess, runtime: &mut PodRuntime) {
        if access.cgroups.is_some()
            && let Some(sandbox) = runtime.ready_sandbox()
        {
            let path = self.cgroup_path(&sandbox.id).await;
            let seen = path.and_then(|path| access.look_at_cgroup(&path, pod_uid));
            if let Some((cgroup, oom_kills)) = seen {
                runtime.cgroup = Some(cgroup);
                runtime.oom_kills = oom_kills;
            }
        }
        if access.pod_logs.is_some() {
            let logs = runtime.containers.iter().map(|container| self.status_of(&container.id));
            for (at, status) in join_all(logs).await.into_iter().enumerate() {
                runtime.containers[at].last_log =
                    status.and_then(|status| access.last_log(&status.log_path));
            }
        }
    }

    /// The cgroup of a sandbox, as its OCI specification has it.
    async fn cgroup_path(&self, sandbox: &str) -> Option<String> {
        let request = PodSandboxStatusRequest { pod_sandbox_id: sandbox.to_owned(), verbose: true };
        let answer = self.0.call("PodSandboxStatus", &request, LIST_LIMIT).await;
        let PodSandboxStatusResponse { info } = answer
            .inspect_err(|error| tracing::debug!(sandbox, %error, "failed to read a sandbox"))
            .ok()?;
        let info: Value = serde_json::from_str(info.get("info")?).ok()?;
        Some(info["runtimeSpec"]["linux"]["cgroupsPath"].as_str()?.to_owned())
    }

    async fn container(&self, listed: ListedContainer) -> RuntimeContainer {
        let metadata = listed.metadata.unwrap_or_default();
        let state = match listed.state {
            0 => RuntimeContainerState::Created,
            1 => RuntimeContainerState::Running,
            2 => RuntimeContainerState::Exited,
            _ => RuntimeContainerState::Unknown,
        };
        let end = match state {
            RuntimeContainerState::Exited => self.end_of(&listed.id).await,
            RuntimeContainerState::Created
            | RuntimeContainerState::Running
            | RuntimeContainerState::Unknown => None,
        };
        RuntimeContainer {
            id: listed.id,
            sandbox_id: listed.pod_sandbox_id,
            name: metadata.name,
            attempt: metadata.attempt,
            state,
            end,
            last_log: None,
        }
    }

    /// How a container is. It is evidence only: what is not known is left out.
    async fn status_of(&self, id: &str) -> Option<RuntimeContainerStatus> {
        let request = ContainerStatusRequest { container_id: id.to_owned() };
        let answer = self.0.call("ContainerStatus", &request, LIST_LIMIT).await;
        let ContainerStatusResponse { status } = answer
            .inspect_err(
                |error| tracing::debug!(container = id, %error, "failed to read a container"),
            )
            .ok()?;
        status
    }

    /// How a container ended.
    async fn end_of(&self, id: &str) -> Option<ContainerLastEnd> {
        let status = self.status_of(id).await?;
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        let mut message = status.message;
        message.truncate(message.floor_char_boundary(END_MESSAGE_BYTES_MAX));
        let finished_at = jiff::Timestamp::from_microsecond(status.finished_at / 1000).ok();
        Some(ContainerLastEnd {
            exit_code: status.exit_code,
            reason: some(status.reason),
            message: some(message),
            finished_at: finished_at.map(MicroTime),
        })
    }

    /// Runs preStop hooks and stops containers, in the order of the plan.
    ///
    /// # Errors
    /// When a container could not be stopped.
    pub async fn stop_containers(&self, pod: &Pod, plan: &StopPlan) -> Result<(), CriError> {
        let began = Instant::now();
        for wave in &plan.waves {
            // to the end of each: a call that is dropped may not stop its container
            let stops = wave.iter().map(|stop| self.stop_container(pod, stop, plan, began));
            join_all(stops).await.into_iter().collect::<Result<Vec<()>, CriError>>()?;
        }
        Ok(())
    }

    async fn stop_container(
        &self,
        pod: &Pod,
        stop: &ContainerStop,
        plan: &StopPlan,
        began: Instant,
    ) -> Result<(), CriError> {
        let left = || plan.grace_left(TickDuration::from(began.elapsed()));
        if let Some(hook) = stop.pre_stop.as_ref().filter(|_| plan.grace > TickDuration::ZERO)
            && let Err(error) = self.run_hook(pod, stop, hook, left().to_std()).await
        {
            // as with the kubelet it does not hold the stop back
            tracing::info!(container = stop.name, %error, "preStop hook failed");
        }
        let grace = left();
        let request = StopContainerRequest {
            container_id: stop.id.clone(),
            timeout: i64::try_from(grace.as_micros().div_ceil(1_000_000)).unwrap_or(i64::MAX),
        };
        let limit = grace.to_std() + STOP_LIMIT;
        let stopped = self.0.call("StopContainer", &request, limit).await;
        gone_is_done(stopped)
    }

    /// Kills containers, without hooks and without grace.
    ///
    /// # Errors
    /// When one could not be killed.
    pub async fn kill_containers(&self, ids: &[String]) -> Result<(), CriError> {
        let kills = ids.iter().map(async |id| {
            let request = StopContainerRequest { container_id: id.clone(), timeout: 0 };
            gone_is_done(self.0.call("StopContainer", &request, KILL_LIMIT).await)
        });
        join_all(kills).await.into_iter().collect()
    }

    async fn run_hook(
        &self,
        pod: &Pod,
        stop: &ContainerStop,
        hook: &LifecycleHandler,
        limit: Duration,
    ) -> Result<(), String> {
        if let Some(action) = &hook.exec {
            let request = ExecSyncRequest {
                container_id: stop.id.clone(),
                cmd: action.command.clone().unwrap_or_default(),
                timeout: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX).max(1),
            };
            let limit = limit + LIST_LIMIT;
            let answer: Result<ExecSyncResponse, CriError> =
                self.0.call("ExecSync", &request, limit).await;
            let answer = answer.map_err(|error| error.to_string())?;
            return match answer.exit_code {
                0 => Ok(()),
                code => Err(format!("the command ended with exit code {code}")),
            };
        }
        if let Some(action) = &hook.http_get {
            let spec = pod.spec.as_ref();
            let containers = spec
                .map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
            let container = containers.into_iter().flatten().find(|c| c.name == stop.name);
            let container = container.ok_or("the pod has no such container")?;
            let ip = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref());
            let ip = ip.and_then(|ip| ip.parse().ok());
            return run_http_hook(action, container, ip, limit).await;
        }
        if let Some(action) = &hook.sleep {
            let span = Duration::from_secs(u64::try_from(action.seconds).unwrap_or(0));
            tokio::time::sleep(span.min(limit)).await;
            return Ok(());
        }
        Err("it is none of exec, httpGet and sleep".to_owned())
    }

    /// Ends a sandbox and takes its network down.
    ///
    /// # Errors
    /// When that failed.
    pub async fn stop_sandbox(&self, id: &str) -> Result<(), CriError> {
        let request = SandboxRequest { pod_sandbox_id: id.to_owned() };
        gone_is_done(self.0.call("StopPodSandbox", &request, STOP_LIMIT).await)
    }

    /// Removes a sandbox and its containers.
    ///
    /// # Errors
    /// When that failed.
    pub async fn remove_sandbox(&self, id: &str) -> Result<(), CriError> {
        let request = SandboxRequest { pod_sandbox_id: id.to_owned() };
        gone_is_done(self.0.call("RemovePodSandbox", &request, STOP_LIMIT).await)
    }
}

/// What is gone is stopped, and removed.
fn gone_is_done(answer: Result<EmptyResponse, CriError>) -> Result<(), CriError> {
    match answer {
        Ok(EmptyResponse {}) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}
