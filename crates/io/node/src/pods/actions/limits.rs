//! Changing the limits of a pod and its containers while they run. As in the kubelet
//! (`validateMemoryResizeAction`), no memory limit is set below what is in use: the kernel would
//! end processes for it. Between the look and the change more may come into use; that is upstream's
//! gap, too.

use rekindle_pod::{ActionError, ActionOutcome, ContainerStartKey, LimitStep, Restarts};
use rekindle_runtime::{LimitChange, MemoryState, Runtime, SandboxKey};
use rekindle_types::SandboxAttempt;

use super::{ActionResult, PodActions, config, other, runtime_error};
use crate::container_spec::find_container;
use crate::container_spec::resources::{container_resources, pod_resources};
use crate::network::PodNetwork;

impl<R: Runtime, N: PodNetwork> PodActions<R, N> {
    pub(super) async fn update_sandbox(
        self,
        attempt: SandboxAttempt,
        step: LimitStep,
    ) -> ActionResult {
        let key = self.sandbox_key(attempt);
        let resources = pod_resources(&self.pod, self.node.pod_pids_limit);
        let change = match step {
            LimitStep::Raise { in_place, restarts } => {
                let whole = match restarts {
                    Restarts::None => resources.memory_limit_bytes,
                    // what restarts gives its memory back first
                    Restarts::Some => None,
                };
                self.check_memory(&key, whole, &in_place).await?;
                LimitChange::RaiseOnly
            }
            LimitStep::Settle => {
                self.check_memory(&key, resources.memory_limit_bytes, &[]).await?;
                LimitChange::Exact
            }
        };
        let updated = self.node.runtime.update_sandbox(&key, &resources, change).await;
        updated.map(|()| ActionOutcome::Done).map_err(|e| runtime_error(&e))
    }

    pub(super) async fn update_container(self, key: ContainerStartKey) -> ActionResult {
        let container =
            find_container(&self.pod, &key.name.0).map_err(|e| config(e.to_string()))?;
        let resources = container_resources(&self.pod, &container);
        let sandbox = self.sandbox_key(key.sandbox);
        self.check_memory(&sandbox, None, std::slice::from_ref(&key)).await?;
        let key = self.container_key(key);
        let updated = self.node.runtime.update_container(&key, &resources).await;
        updated.map(|()| ActionOutcome::Done).map_err(|e| runtime_error(&e))
    }

    /// Refuses limits below what is in use: the pod's, if one is given, and those of these
    /// containers.
    async fn check_memory(
        &self,
        sandbox: &SandboxKey,
        whole: Option<u64>,
        containers: &[ContainerStartKey],
    ) -> Result<(), ActionError> {
        let memory = self.node.runtime.memory(sandbox).await.map_err(|e| runtime_error(&e))?;
        let mut problems = Vec::new();
        problems.extend(problem("pod", memory.pod, whole));
        for key in containers {
            let name = &key.name.0;
            let found = find_container(&self.pod, name).map_err(|e| config(e.to_string()))?;
            let limit = container_resources(&self.pod, &found).memory_limit_bytes;
            let state = memory.containers.get(&self.container_key(key.clone()));
            let state = state.copied().unwrap_or_default();
            problems.extend(problem(&format!("container {name:?}"), state, limit));
        }
        match problems.as_slice() {
            [] => Ok(()),
            [one] => Err(other(format!("cannot decrease memory limits: {one}"))),
            several => {
                Err(other(format!("cannot decrease memory limits: [{}]", several.join(", "))))
            }
        }
    }
}

/// What is wrong with a new limit.
fn problem(of: &str, state: MemoryState, new: Option<u64>) -> Option<String> {
    let MemoryState { limit_bytes, usage_bytes } = state;
    let new = new.filter(|new| limit_bytes.is_none_or(|limit| *new < limit))?;
    (usage_bytes >= new).then(|| {
        format!("attempting to set {of} memory limit ({new}) below current usage ({usage_bytes})")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_limits_that_fall_below_what_is_in_use_are_problems() {
        for (limit, usage, new, refused) in [
            (Some(100), 60, Some(50), true),
            (Some(100), 50, Some(50), true),
            (Some(100), 40, Some(50), false),
            (None, 60, Some(50), true),
            (Some(40), 60, Some(50), false), // it rises
            (Some(100), 60, None, false),
        ] {
            let state = MemoryState { limit_bytes: limit, usage_bytes: usage };
            assert_eq!(problem("pod", state, new).is_some(), refused, "{state:?} {new:?}");
        }
    }
}
