//! One PodRestart from its first look to its end: does what the procedure says, one step at a time.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use rekindle_cri_restart::{
    PodRuntime, RestartAction, RestartEnd, RestartProgress, RestartSituation, RuntimeCall,
    next_action, runtime_uid,
};
use rekindle_node::Clock;
use rekindle_pod_driver::restart_status_patch;
use rekindle_types::v1alpha1::{PodRestart, PodRestartPhase, PodRestartStatus};
use rekindle_types::{Tick, TickDuration};
use serde_json::json;
use tokio::sync::watch;

use crate::ClusterAgent;
use crate::cri::CriError;
use crate::observed::SharedObjects;

/// How long it waits before it writes a status again that the API did not take.
const WRITE_PAUSE: Duration = Duration::from_secs(1);

/// A status that was decided on something stale waits for the watch no longer than this.
const STALE_MAX: TickDuration = TickDuration::from_secs(5);

/// One request of this node.
pub(crate) struct RestartTask {
    pub(crate) agent: ClusterAgent,
    pub(crate) objects: SharedObjects,
    pub(crate) clock: Clock,
    /// The request's UID.
    pub(crate) uid: String,
}

/// What became of a status.
enum StatusWrite {
    Written,
    /// Something was written after what it was decided on.
    Stale,
    Gone,
}

impl RestartTask {
    pub(crate) async fn run(self) -> RestartEnd {
        let mut changes = self.objects.changes();
        let mut progress = RestartProgress::default();
        let mut written: Option<PodRestartStatus> = None;
        loop {
            changes.mark_unchanged();
            let Some((seen, pod)) = self.objects.restart(&self.uid) else {
                return RestartEnd::Answered;
            };
            let restart = newest(&seen, written.as_ref());
            let runtime = self.look(pod.as_deref(), &mut progress).await;
            let situation = RestartSituation {
                node: &self.agent.node,
                own_namespace: self.agent.own_namespace.as_deref(),
                restart: &restart,
                pod: pod.as_deref(),
                runtime: runtime.as_ref(),
                now: self.clock.now(),
            };
            match next_action(&situation, &mut progress) {
                RestartAction::Leave if phase(&restart).is_some() => return RestartEnd::Answered,
                RestartAction::Leave => return RestartEnd::Unanswered,
                RestartAction::Write(status) => match self.write(&restart, &status).await {
                    Ok(StatusWrite::Written) => {
                        let phase = status.phase;
                        if phase.is_some_and(PodRestartPhase::is_final) {
                            let message = status.message.unwrap_or_default();
                            tracing::info!(
                                pod = pod_name(&seen),
                                ?phase,
                                message,
                                "PodRestart is over"
                            );
                            return RestartEnd::Answered;
                        }
                        written = Some(*status);
                    }
                    Ok(StatusWrite::Stale) => self.wait(&mut changes, &seen, &pod, None).await,
                    Ok(StatusWrite::Gone) => return RestartEnd::Answered,
                    Err(error) => {
                        tracing::warn!(pod = pod_name(&seen), %error, "failed to write PodRestart");
                        tokio::time::sleep(WRITE_PAUSE).await;
                    }
                },
                RestartAction::StopContainers(plan) => {
                    let Some(pod) = &pod else { continue };
                    let stopped = self.agent.calls.stop_containers(pod, &plan).await;
                    called(
                        RuntimeCall::StopContainers,
                        stopped,
                        &mut progress,
                        &seen,
                        self.clock.now(),
                    );
                }
                RestartAction::StopSandbox(id) => {
                    let stopped = self.agent.calls.stop_sandbox(&id).await;
                    called(
                        RuntimeCall::StopSandbox,
                        stopped,
                        &mut progress,
                        &seen,
                        self.clock.now(),
                    );
                }
                RestartAction::RemoveSandbox(id) => {
                    let removed = self.agent.calls.remove_sandbox(&id).await;
                    called(
                        RuntimeCall::RemoveSandbox,
                        removed,
                        &mut progress,
                        &seen,
                        self.clock.now(),
                    );
                }
                RestartAction::Wait(until) => {
                    self.wait(&mut changes, &seen, &pod, Some(until)).await;
                }
            }
        }
    }

    /// What the runtime shows of the pod; none when it gives no answer.
    async fn look(&self, pod: Option<&Pod>, progress: &mut RestartProgress) -> Option<PodRuntime> {
        let Some(uid) = pod.and_then(runtime_uid) else { return Some(PodRuntime::default()) };
        match self.agent.calls.look(uid).await {
            Ok(runtime) => {
                progress.answered();
                Some(runtime)
            }
            Err(error) => {
                tracing::warn!(pod_uid = uid, %error, "failed to ask the runtime");
                progress.unanswered(&error.to_string(), self.clock.now());
                None
            }
        }
    }

    /// Waits until the request or its pod is another than this one, or until a time.
    async fn wait(
        &self,
        changes: &mut watch::Receiver<()>,
        restart: &PodRestart,
        pod: &Option<Arc<Pod>>,
        until: Option<Tick>,
    ) {
        let version = |pod: &Option<Arc<Pod>>| {
            pod.as_ref().and_then(|pod| pod.metadata.resource_version.clone())
        };
        let is_as_before = || {
            self.objects.restart(&self.uid).is_some_and(|(now, now_pod)| {
                now.metadata.resource_version == restart.metadata.resource_version
                    && version(&now_pod) == version(pod)
            })
        };
        let until = self.clock.instant_of(until.unwrap_or(self.clock.now() + STALE_MAX));
        let changed = async {
            while is_as_before() {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = changed => {}
            () = tokio::time::sleep_until(until) => {}
        }
    }

    async fn write(
        &self,
        before: &PodRestart,
        status: &PodRestartStatus,
    ) -> Result<StatusWrite, kube::Error> {
        let mut patch = restart_status_patch(before.metadata.uid.as_deref(), status);
        let is_first = phase(before).is_none();
        if is_first {
            // another agent, or the operator, may have answered since
            patch["metadata"]["resourceVersion"] = json!(before.metadata.resource_version);
        }
        let namespace = before.metadata.namespace.as_deref().unwrap_or_default();
        let api: Api<PodRestart> = Api::namespaced(self.agent.client.clone(), namespace);
        let name = before.metadata.name.as_deref().unwrap_or_default();
        match api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => Ok(StatusWrite::Written),
            Err(kube::Error::Api(answer)) if answer.code == 409 && is_first => {
                Ok(StatusWrite::Stale)
            }
            Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409 | 422) => {
                tracing::warn!(pod = pod_name(before), error = %answer, "failed to write PodRestart");
                Ok(StatusWrite::Gone)
            }
            Err(error) => Err(error),
        }
    }
}

/// The request with the newest status that is known: the watch may not show yet what was written.
fn newest(seen: &PodRestart, written: Option<&PodRestartStatus>) -> PodRestart {
    let mut restart = seen.clone();
    let is_over = phase(seen).is_some_and(PodRestartPhase::is_final);
    if let Some(written) = written.filter(|_| !is_over) {
        restart.status = Some(written.clone());
    }
    restart
}

fn phase(restart: &PodRestart) -> Option<PodRestartPhase> {
    restart.status.as_ref().and_then(|status| status.phase)
}

fn pod_name(restart: &PodRestart) -> String {
    let namespace = restart.metadata.namespace.as_deref().unwrap_or_default();
    format!("{namespace}/{}", restart.spec.pod_name)
}

fn called(
    call: RuntimeCall,
    result: Result<(), CriError>,
    progress: &mut RestartProgress,
    restart: &PodRestart,
    now: Tick,
) {
    match result {
        Ok(()) => progress.succeeded(call),
        Err(error) => {
            tracing::warn!(pod = pod_name(restart), %error, "failed to restart pod in place");
            progress.failed(call, &error.to_string(), now);
        }
    }
}
