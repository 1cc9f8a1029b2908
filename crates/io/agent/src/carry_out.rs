//! One PodRestart from its first look to its end: does what the procedure says, one step at a time.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use rekindle_cri_restart::{
    NodeCall, PodRuntime, RestartAction, RestartEnd, RestartProgress, RestartSituation,
    frozen_by_deleted, next_action, runtime_uid,
};
use rekindle_node::Clock;
use rekindle_pod_driver::restart_status_patch;
use rekindle_types::pods::in_full;
use rekindle_types::v1alpha1::{PodRestart, PodRestartPhase, PodRestartStatus};
use rekindle_types::{Tick, TickDuration};
use serde_json::json;
use tokio::sync::watch;

use crate::cri::CriError;
use crate::observed::{SeenRestart, SharedObjects};
use crate::pod_events::{event_of, record};
use crate::{ClusterAgent, NodeAccess};

/// How long it waits before it writes a status again that the API did not take.
const WRITE_PAUSE: Duration = Duration::from_secs(1);

/// The same of a status of a begun restart that a policy or a role forbids.
const DENIED_PAUSE: Duration = Duration::from_secs(10);

/// How often, and after which pause, the thaw of a pod is tried that no request names any more.
const THAW_TRIES_MAX: u32 = 5;
const THAW_PAUSE: Duration = Duration::from_secs(1);

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
    /// The request as it is now.
    Written(Box<PodRestart>),
    /// Something was written after what it was decided on.
    Stale,
    /// The request is no more.
    Gone,
    /// The API does not let the agent write it now: a policy may, or a role, a moment later.
    Denied(Box<kube::core::Status>),
}

/// The newest version of a request that is known: the watch may not show yet what was written.
#[derive(Default)]
struct NewestRestart {
    written: Option<PodRestart>,
    /// Versions that were written over. Each write names the version that it was decided on, so
    /// nothing else is older than what was written.
    superseded: BTreeSet<String>,
}

impl NewestRestart {
    fn after<'a>(&'a self, seen: &'a PodRestart) -> &'a PodRestart {
        let version = seen.metadata.resource_version.as_ref();
        let is_older = version.is_some_and(|version| self.superseded.contains(version));
        self.written.as_ref().filter(|_| is_older).unwrap_or(seen)
    }

    fn wrote(&mut self, before: &PodRestart, written: PodRestart) {
        self.superseded.extend(before.metadata.resource_version.clone());
        self.written = Some(written);
    }
}

impl RestartTask {
    pub(crate) async fn run(self) -> RestartEnd {
        let _until_it_ends = self.agent.figures.under_way();
        let mut changes = self.objects.changes();
        let mut progress = RestartProgress::default();
        let mut newest = NewestRestart::default();
        let mut last = None;
        loop {
            changes.mark_unchanged();
            let Some(seen) = self.objects.restart(&self.uid) else {
                return self.let_go(last.as_ref(), &progress).await;
            };
            let pod = seen.pod.as_deref();
            let restart = newest.after(&seen.restart).clone();
            last = Some(restart.clone());
            let is_begun = phase(&restart).is_some();
            let runtime = self.look(pod, is_begun, &mut progress).await;
            let situation = RestartSituation {
                node: &self.agent.node,
                own_namespace: self.agent.own_namespace.as_deref(),
                restart: &restart,
                pod,
                runtime: runtime.as_ref(),
                support: self.agent.access.freeze_support(),
                turn: seen.turn,
                now: self.clock.now(),
            };
            match next_action(&situation, &mut progress) {
                RestartAction::Leave if phase(&restart).is_some() => return RestartEnd::Answered,
                RestartAction::Leave => return RestartEnd::Unanswered,
                RestartAction::Write(status) => {
                    match self.write(&restart, &status, pod).await {
                        Ok(StatusWrite::Written(written)) if is_over(&written) => {
                            let status = written.status.unwrap_or_default();
                            tracing::info!(
                                pod = pod_name(&restart),
                                phase = ?status.phase,
                                message = status.message.unwrap_or_default(),
                                "PodRestart is over"
                            );
                            return RestartEnd::Answered;
                        }
                        Ok(StatusWrite::Written(written)) => newest.wrote(&restart, *written),
                        Ok(StatusWrite::Stale) => self.wait(&mut changes, &seen, None).await,
                        Ok(StatusWrite::Gone) => {
                            return self.let_go(last.as_ref(), &progress).await;
                        }
                        Ok(StatusWrite::Denied(error)) => {
                            tracing::warn!(pod = pod_name(&restart), %error, "failed to write PodRestart");
                            if phase(&restart).is_none() {
                                return RestartEnd::Later; // its slot is for others
                            }
                            tokio::time::sleep(DENIED_PAUSE).await;
                        }
                        Err(error) => {
                            tracing::warn!(pod = pod_name(&restart), %error, "failed to write PodRestart");
                            tokio::time::sleep(WRITE_PAUSE).await;
                        }
                    }
                }
                RestartAction::Wait(until) => {
                    self.wait(&mut changes, &seen, Some(until)).await;
                }
                RestartAction::Call(call) => self.act(&call, pod, &mut progress).await,
            }
        }
    }

    /// The request is deleted: nothing waits for its pod any more.
    async fn let_go(&self, last: Option<&PodRestart>, progress: &RestartProgress) -> RestartEnd {
        let cgroup = last.and_then(|last| frozen_by_deleted(last, progress));
        if let Some(cgroup) = cgroup {
            thaw(&self.agent.access, &cgroup, "its PodRestart was deleted").await;
        }
        RestartEnd::Answered
    }

    /// Changes something on the node, and remembers how that went.
    async fn act(&self, call: &NodeCall, pod: Option<&Pod>, progress: &mut RestartProgress) {
        match self.call(call, pod).await {
            Ok(()) => progress.succeeded(call.kind()),
            Err(error) => {
                let pod = pod.map(|pod| in_full(&pod.metadata)).unwrap_or_default();
                tracing::warn!(pod, error, "failed to restart pod in place");
                self.agent.figures.call_failed(&format!("{:?}", call.kind()));
                progress.failed(call.kind(), &error, self.clock.now());
            }
        }
    }

    async fn call(&self, call: &NodeCall, pod: Option<&Pod>) -> Result<(), String> {
        let (calls, access) = (&self.agent.calls, &self.agent.access);
        let gone = || "the pod is gone".to_owned();
        let refused = |error: CriError| error.to_string();
        let failed = |error: io::Error| error.to_string();
        match call {
            NodeCall::StopContainers(plan) => {
                let pod = pod.ok_or_else(gone)?;
                calls.stop_containers(pod, plan).await.map_err(refused)
            }
            NodeCall::HoldPod(cgroup) => access.freeze(cgroup).await.map_err(failed),
            NodeCall::KillContainers(ids) => calls.kill_containers(ids).await.map_err(refused),
            NodeCall::StopSandbox(id) => calls.stop_sandbox(id).await.map_err(refused),
            NodeCall::ClearEmptyDirs { cgroup, volumes } => {
                let uid = pod.and_then(runtime_uid).ok_or_else(gone)?;
                access.clear(cgroup, uid, volumes).await.map_err(failed)
            }
            NodeCall::ReleasePod(cgroup) => access.thaw(cgroup).map_err(failed),
            NodeCall::RemoveSandbox(id) => calls.remove_sandbox(id).await.map_err(refused),
        }
    }

    /// What the runtime shows of the pod; none when it gives no answer.
    async fn look(
        &self,
        pod: Option<&Pod>,
        is_begun: bool,
        progress: &mut RestartProgress,
    ) -> Option<PodRuntime> {
        let Some(uid) = pod.and_then(runtime_uid) else { return Some(PodRuntime::default()) };
        match self.agent.calls.look(uid).await {
            Ok(mut runtime) => {
                progress.answered();
                if !is_begun {
                    self.agent.calls.add_evidence(uid, &self.agent.access, &mut runtime).await;
                }
                Some(runtime)
            }
            Err(error) => {
                tracing::warn!(pod_uid = uid, %error, "failed to ask the runtime");
                progress.unanswered(&error.to_string(), self.clock.now());
                None
            }
        }
    }

    /// Waits until the request, its pod or its turn is another than this one, or until a time.
    async fn wait(
        &self,
        changes: &mut watch::Receiver<()>,
        before: &SeenRestart,
        until: Option<Tick>,
    ) {
        let is_as_before =
            || self.objects.restart(&self.uid).is_some_and(|seen| seen.is_as(before));
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

    /// Writes a status over the version that it was decided on: another agent, or the operator, may
    /// have answered since.
    async fn write(
        &self,
        before: &PodRestart,
        status: &PodRestartStatus,
        pod: Option<&Pod>,
    ) -> Result<StatusWrite, kube::Error> {
        let mut patch = restart_status_patch(before.metadata.uid.as_deref(), status);
        patch["metadata"]["resourceVersion"] = json!(before.metadata.resource_version);
        let namespace = before.metadata.namespace.as_deref().unwrap_or_default();
        let api: Api<PodRestart> = Api::namespaced(self.agent.client.clone(), namespace);
        let name = before.metadata.name.as_deref().unwrap_or_default();
        match api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(written) => {
                self.tell(phase(before), &written, pod);
                Ok(StatusWrite::Written(Box::new(written)))
            }
            Err(kube::Error::Api(answer)) => match answer.code {
                404 => Ok(StatusWrite::Gone),
                409 => Ok(StatusWrite::Stale),
                403 | 422 => Ok(StatusWrite::Denied(answer)),
                _ => Err(kube::Error::Api(answer)),
            },
            Err(error) => Err(error),
        }
    }
}

impl RestartTask {
    /// Counts what was written, and says it in an event of the pod, which nothing waits for.
    fn tell(&self, before: Option<PodRestartPhase>, written: &PodRestart, pod: Option<&Pod>) {
        if is_over(written) && before != phase(written) {
            self.agent.figures.ended(written);
        }
        let now = self.clock.now();
        let event = pod.and_then(|pod| event_of(before, written, pod, &self.agent.node, now));
        if let Some(event) = event {
            tokio::spawn(record(self.agent.client.clone(), event));
        }
    }
}

/// Thaws a pod that no request names any more.
pub(crate) async fn thaw(access: &NodeAccess, cgroup: &str, why: &str) {
    for _ in 0..THAW_TRIES_MAX {
        match access.thaw(cgroup) {
            Ok(()) => {
                tracing::info!(cgroup, why, "thawed a pod");
                return;
            }
            Err(error) => tracing::warn!(cgroup, %error, "failed to thaw a pod"),
        }
        tokio::time::sleep(THAW_PAUSE).await;
    }
}

fn is_over(restart: &PodRestart) -> bool {
    phase(restart).is_some_and(PodRestartPhase::is_final)
}

fn phase(restart: &PodRestart) -> Option<PodRestartPhase> {
    restart.status.as_ref().and_then(|status| status.phase)
}

fn pod_name(restart: &PodRestart) -> String {
    let namespace = restart.metadata.namespace.as_deref().unwrap_or_default();
    format!("{namespace}/{}", restart.spec.pod_name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says by failing what it expected")]
mod tests;
