//! What is known of the hooks of a pod's containers (P5): no stop signal before preStop, and
//! nothing is `started` before postStart.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Lifecycle, Pod, PodStatus};
use rekindle_pod::{ActionId, ContainerStartKey, HookKind, HookLimit};
use rekindle_types::{Tick, TickDuration};

use super::named;

/// The hooks that were run.
#[derive(Debug, Default)]
pub(super) struct HookRuns {
    run: BTreeMap<(ContainerStartKey, HookKind), HookState>,
    /// Those that the agent's process waits for.
    waited_for: BTreeMap<ActionId, (ContainerStartKey, HookKind)>,
}

/// How far a hook is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HookState {
    /// Its end was not heard of.
    Begun { at: Tick, limit: HookLimit },
    /// It went well, or failed: a preStop hook that failed holds nothing up.
    Ended,
}

impl HookRuns {
    pub(super) fn begin(
        &mut self,
        id: ActionId,
        now: Tick,
        (key, hook): (ContainerStartKey, HookKind),
        limit: HookLimit,
    ) {
        self.waited_for.insert(id, (key.clone(), hook));
        self.run.insert((key, hook), HookState::Begun { at: now, limit });
    }

    /// An action was answered, which may have been a hook.
    pub(super) fn answered(&mut self, id: ActionId) {
        if let Some(of) = self.waited_for.remove(&id) {
            self.run.insert(of, HookState::Ended);
        }
    }

    /// The agent's process is gone: what it waited for nobody hears of, and is run again.
    pub(super) fn agent_crashed(&mut self) {
        self.waited_for.clear();
    }

    /// The next agent counts by another clock: how much time is left to a hook nobody can say.
    pub(super) fn clock_was_set(&mut self) {
        self.run.values_mut().for_each(|run| *run = HookState::Ended);
    }

    /// The sandbox is gone, or the container was taken away: nobody asks for its hooks any more.
    pub(super) fn forget(&mut self, is_gone: impl Fn(&ContainerStartKey) -> bool) {
        self.run.retain(|(key, _), _| !is_gone(key));
    }

    /// What is wrong with a stop signal to this container now.
    pub(super) fn check_signal(
        &self,
        now: Tick,
        pod: &Pod,
        key: &ContainerStartKey,
        grace_min: TickDuration,
    ) -> Option<String> {
        // a container that a rule restarts ends without its hook, as in Kubernetes
        if !has(pod, &key.name.0, HookKind::PreStop) || has_rules(pod) {
            return None;
        }
        let broken = match self.run.get(&(key.clone(), HookKind::PreStop)) {
            None => "before its hook preStop was run",
            Some(HookState::Ended) => return None,
            Some(HookState::Begun { at, limit }) => {
                let limit = match limit {
                    HookLimit::None => grace_min,
                    HookLimit::Grace(grace) => grace_min.min(*grace),
                };
                if now.since(*at) >= limit {
                    return None;
                }
                "while its hook preStop had time left"
            }
        };
        Some(format!("P5: {} got its stop signal {broken}", named(key)))
    }

    /// What is wrong with a status that is to be written. `newest` is the newest start of a
    /// container.
    pub(super) fn check_status(
        &self,
        pod: &Pod,
        status: &PodStatus,
        newest: impl Fn(&str) -> Option<ContainerStartKey>,
    ) -> Option<String> {
        let all = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
        let started = all.filter(|container| {
            let runs = container.state.as_ref().is_some_and(|state| state.running.is_some());
            runs && container.started == Some(true)
                && has(pod, &container.name, HookKind::PostStart)
        });
        // only then: to look for it among thousands of starts takes its time
        started.filter_map(|container| newest(&container.name)).find_map(|key| {
            let ended =
                self.run.get(&(key.clone(), HookKind::PostStart)) == Some(&HookState::Ended);
            (!ended).then(|| {
                format!("P5: {} is said to be started before its hook postStart ended", named(&key))
            })
        })
    }
}

/// The pod's containers and init containers.
pub(super) fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    let spec = pod.spec.iter();
    spec.flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()))
}

fn has(pod: &Pod, name: &str, hook: HookKind) -> bool {
    let mut of_that_name = containers(pod).filter(|container| container.name == name);
    let lifecycle = of_that_name.next().and_then(|container| container.lifecycle.as_ref());
    lifecycle.is_some_and(|Lifecycle { post_start, pre_stop, .. }| match hook {
        HookKind::PostStart => post_start.is_some(),
        HookKind::PreStop => pre_stop.is_some(),
    })
}

fn has_rules(pod: &Pod) -> bool {
    containers(pod).any(|container| container.restart_policy_rules.is_some())
}

#[cfg(test)]
mod tests {
    use rekindle_types::{ContainerAttempt, ContainerName, SandboxAttempt};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_that_is_said_to_be_started_before_its_hook_has_ended_is_named() {
        let hook = json!({"exec": {"command": ["true"]}});
        let spec = json!({"containers": [{"name": "app", "lifecycle": {"postStart": hook}}]});
        let pod: Pod = serde_json::from_value(json!({"spec": spec})).unwrap();
        let container = json!({
            "name": "app", "ready": false, "started": true, "restartCount": 0, "image": "app:1",
            "imageID": "", "state": {"running": {}},
        });
        let status = serde_json::from_value(json!({"containerStatuses": [container]})).unwrap();
        let key = ContainerStartKey {
            sandbox: SandboxAttempt(0),
            name: ContainerName("app".to_owned()),
            attempt: ContainerAttempt(0),
        };
        let mut hooks = HookRuns::default();
        let (id, of) = (ActionId(1), (key.clone(), HookKind::PostStart));
        hooks.begin(id, Tick::ZERO, of, HookLimit::None);
        let broken = hooks.check_status(&pod, &status, |_| Some(key.clone())).unwrap();
        assert_eq!(
            broken,
            "P5: container app (start 1) is said to be started before its hook postStart ended"
        );
        hooks.answered(id);
        assert_eq!(hooks.check_status(&pod, &status, |_| Some(key.clone())), None);
    }
}
