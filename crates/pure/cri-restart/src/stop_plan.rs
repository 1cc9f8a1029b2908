//! The order in which containers are stopped, as the kubelet does it: all that are no sidecars at
//! once, then the sidecars one by one, the last one first. All of them share one grace period.

use k8s_openapi::api::core::v1::{LifecycleHandler, PodSpec};
use rekindle_types::TickDuration;
use rekindle_types::pods::AnyContainer;

/// What is left of a grace period is never less, unless there was none at all
/// (`pkg/kubelet/kuberuntime`).
pub const MINIMUM_GRACE: TickDuration = TickDuration::from_secs(2);

/// Containers to be stopped.
#[derive(Clone, Debug, PartialEq)]
pub struct StopPlan {
    /// Each wave begins when the one before is over; its containers are stopped at once.
    pub waves: Vec<Vec<ContainerStop>>,
    /// What all of them have together.
    pub grace: TickDuration,
}

/// A container to be stopped.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerStop {
    /// The runtime's id.
    pub id: String,
    /// Its name in the pod.
    pub name: String,
    /// Its preStop hook.
    pub pre_stop: Option<LifecycleHandler>,
}

impl StopPlan {
    /// Of these containers of a pod, as `(name, id)`.
    pub fn new(spec: &PodSpec, running: &[(String, String)], grace: TickDuration) -> Self {
        let stop = |(name, id): &(String, String)| {
            let mut all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
            let container = all.find(|container| container.name == *name);
            let lifecycle = container.and_then(|container| container.lifecycle.as_ref());
            let pre_stop = lifecycle.and_then(|lifecycle| lifecycle.pre_stop.clone());
            ContainerStop { id: id.clone(), name: name.clone(), pre_stop }
        };
        let sidecars: Vec<&str> = spec
            .init_containers
            .iter()
            .flatten()
            .filter(|init| init.is_sidecar())
            .map(|init| init.name.as_str())
            .collect();
        let is_sidecar = |name: &str| sidecars.contains(&name);
        let first = running.iter().filter(|(name, _)| !is_sidecar(name)).map(stop).collect();
        let mut waves: Vec<Vec<ContainerStop>> = vec![first];
        for sidecar in sidecars.iter().rev() {
            let of_it = running.iter().filter(|(name, _)| name == sidecar);
            waves.push(of_it.map(stop).collect());
        }
        waves.retain(|wave| !wave.is_empty());
        Self { waves, grace }
    }

    /// What is left of the grace period after this long.
    pub fn grace_left(&self, elapsed: TickDuration) -> TickDuration {
        if self.grace == TickDuration::ZERO {
            return TickDuration::ZERO;
        }
        let left = self.grace.as_micros().saturating_sub(elapsed.as_micros());
        TickDuration::from_micros(left).max(MINIMUM_GRACE)
    }
}
