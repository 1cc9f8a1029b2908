//! A pod's spec, read once: what the core needs of it, with the defaults that the API server would
//! have written.

use k8s_openapi::api::core::v1::{
    Container, ContainerResizePolicy, EphemeralContainer, LifecycleHandler, Pod, PodSpec,
};
use rekindle_types::{ContainerName, TickDuration, ephemeral};

use crate::action::PullPolicy;
use crate::probe::Probes;
use rekindle_types::restart_rules::{self, RestartRule, RuleAction};

/// The default of `terminationGracePeriodSeconds`.
const DEFAULT_GRACE: TickDuration = TickDuration::from_secs(30);

/// What the core needs of a pod's spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blueprint {
    /// Init containers and sidecars in their order, then the regular ones, then the ephemeral ones.
    pub(crate) containers: Vec<Definition>,
    /// `terminationGracePeriodSeconds`.
    pub(crate) grace: TickDuration,
    /// `activeDeadlineSeconds`.
    pub(crate) active_deadline: Option<TickDuration>,
    /// Whether it lives in the node's own network.
    pub(crate) network: NetworkOwner,
}

/// One container of the spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    pub(crate) name: ContainerName,
    pub(crate) role: RoleInPod,
    /// What follows its end.
    pub(crate) policy: RestartPolicy,
    pub(crate) image: String,
    pub(crate) pull_policy: PullPolicy,
    /// Of the image volumes that it mounts: made sure of after its own.
    pub(crate) volume_images: Vec<VolumeImage>,
    /// Asked before the policy is.
    pub(crate) rules: Vec<RestartRule>,
    pub(crate) probes: Probes,
    pub(crate) post_start: HookPresence,
    pub(crate) pre_stop: HookPresence,
    /// `resizePolicy` of cpu.
    pub(crate) on_cpu_resize: OnResize,
    /// `resizePolicy` of memory.
    pub(crate) on_memory_resize: OnResize,
    /// Of an ephemeral container: whose processes it sees.
    pub(crate) target: Option<ContainerName>,
}

/// What a container that runs needs for another limit to hold (KEP-1287).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnResize {
    Nothing,
    Restart,
}

/// The image of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VolumeImage {
    pub(crate) image: String,
    pub(crate) pull_policy: PullPolicy,
}

/// Whether a container has a hook of a kind. What it does is for the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HookPresence {
    Given,
    Absent,
}

/// What a container is for in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoleInPod {
    /// Runs to completion before the next one starts.
    Init,
    /// An init container with restartPolicy Always: done when started, and it keeps running
    /// (KEP-753).
    Sidecar,
    /// One of `spec.containers`.
    Regular,
    /// Added to look at a pod that runs: started at most once, and nothing depends on it (KEP-277).
    Ephemeral,
}

/// When a container that ended is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

/// Whose network the pod lives in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NetworkOwner {
    Own,
    Host,
}

impl Blueprint {
    pub(crate) fn from_pod(pod: &Pod) -> Self {
        let default = PodSpec::default();
        let spec = pod.spec.as_ref().unwrap_or(&default);
        let policy = RestartPolicy::parse(spec.restart_policy.as_deref());
        let with_volumes = |container: &Container, definition: Definition| Definition {
            volume_images: volume_images(container, spec),
            ..definition
        };
        let inits = spec.init_containers.iter().flatten();
        let inits = inits.map(|c| with_volumes(c, Definition::init(c, policy)));
        let regulars =
            spec.containers.iter().map(|c| with_volumes(c, Definition::regular(c, policy)));
        let ephemerals = spec.ephemeral_containers.iter().flatten().map(|ephemeral| {
            with_volumes(&ephemeral::as_container(ephemeral), Definition::ephemeral(ephemeral))
        });
        Self {
            containers: inits.chain(regulars).chain(ephemerals).collect(),
            grace: spec
                .termination_grace_period_seconds
                .map_or(DEFAULT_GRACE, TickDuration::of_field),
            active_deadline: spec.active_deadline_seconds.map(TickDuration::of_field),
            network: match spec.host_network {
                Some(true) => NetworkOwner::Host,
                Some(false) | None => NetworkOwner::Own,
            },
        }
    }
}

impl Definition {
    fn init(container: &Container, pod_policy: RestartPolicy) -> Self {
        let own = container.restart_policy.as_deref().map(|text| RestartPolicy::parse(Some(text)));
        let (role, policy) = match (own, pod_policy) {
            (Some(RestartPolicy::Always), _) => (RoleInPod::Sidecar, RestartPolicy::Always),
            // An init container that succeeded is never run again in the same sandbox.
            (None, RestartPolicy::Always) => (RoleInPod::Init, RestartPolicy::OnFailure),
            (Some(policy @ (RestartPolicy::OnFailure | RestartPolicy::Never)), _)
            | (None, policy @ (RestartPolicy::OnFailure | RestartPolicy::Never)) => {
                (RoleInPod::Init, policy)
            }
        };
        Self::new(container, role, policy)
    }

    fn regular(container: &Container, pod_policy: RestartPolicy) -> Self {
        let policy = match container.restart_policy.as_deref() {
            Some(text) => RestartPolicy::parse(Some(text)),
            None => pod_policy,
        };
        Self::new(container, RoleInPod::Regular, policy)
    }

    fn ephemeral(ephemeral: &EphemeralContainer) -> Self {
        let container = ephemeral::as_container(ephemeral);
        let target = ephemeral.target_container_name.clone().filter(|name| !name.is_empty());
        Self {
            target: target.map(ContainerName),
            ..Self::new(&container, RoleInPod::Ephemeral, RestartPolicy::Never)
        }
    }

    fn new(container: &Container, role: RoleInPod, policy: RestartPolicy) -> Self {
        let image = container.image.clone().unwrap_or_default();
        let pull_policy = pull_policy(container.image_pull_policy.as_deref(), &image);
        let lifecycle = container.lifecycle.as_ref();
        Self {
            name: ContainerName(container.name.clone()),
            role,
            policy,
            image,
            pull_policy,
            volume_images: Vec::new(),
            rules: restart_rules::rules_of(container),
            probes: Probes::from_container(container),
            post_start: HookPresence::from_handler(lifecycle.and_then(|l| l.post_start.as_ref())),
            pre_stop: HookPresence::from_handler(lifecycle.and_then(|l| l.pre_stop.as_ref())),
            on_cpu_resize: OnResize::new(container, "cpu"),
            on_memory_resize: OnResize::new(container, "memory"),
            target: None,
        }
    }

    /// The same with the image of one of its volumes (from 1 on) in place of its own (0).
    pub(crate) fn about_image(&self, number: usize) -> Self {
        match number.checked_sub(1).and_then(|at| self.volume_images.get(at)) {
            None => self.clone(),
            Some(VolumeImage { image, pull_policy }) => {
                Self { image: image.clone(), pull_policy: *pull_policy, ..self.clone() }
            }
        }
    }

    /// Whether a registry is asked at every start.
    pub(crate) fn asks_always(&self) -> bool {
        let of_volumes = self.volume_images.iter().map(|image| image.pull_policy);
        std::iter::once(self.pull_policy).chain(of_volumes).any(|policy| match policy {
            PullPolicy::Always => true,
            PullPolicy::IfNotPresent | PullPolicy::Never => false,
        })
    }

    /// Whether an end of it can make all containers restart.
    pub(crate) fn may_restart_all(&self) -> bool {
        self.rules.iter().any(|rule| rule.action == RuleAction::RestartAllContainers)
    }
}

impl OnResize {
    fn new(container: &Container, resource: &str) -> Self {
        let mut policies = container.resize_policy.iter().flatten();
        let restarts = |policy: &ContainerResizePolicy| {
            policy.resource_name == resource && policy.restart_policy == "RestartContainer"
        };
        if policies.any(restarts) { Self::Restart } else { Self::Nothing }
    }
}

impl HookPresence {
    fn from_handler(handler: Option<&LifecycleHandler>) -> Self {
        match handler {
            Some(_) => Self::Given,
            None => Self::Absent,
        }
    }
}

/// The images of the volumes that this container mounts, in the order of the spec.
fn volume_images(container: &Container, spec: &PodSpec) -> Vec<VolumeImage> {
    let mounts =
        |name: &str| container.volume_mounts.iter().flatten().any(|mount| mount.name == name);
    let volumes = spec.volumes.iter().flatten().filter(|volume| mounts(&volume.name));
    let sources = volumes.filter_map(|volume| volume.image.as_ref());
    let images = sources.map(|source| {
        let image = source.reference.clone().unwrap_or_default();
        let pull_policy = pull_policy(source.pull_policy.as_deref(), &image);
        VolumeImage { image, pull_policy }
    });
    images.collect()
}

fn pull_policy(given: Option<&str>, image: &str) -> PullPolicy {
    match given {
        Some("Always") => PullPolicy::Always,
        Some("Never") => PullPolicy::Never,
        Some("IfNotPresent") => PullPolicy::IfNotPresent,
        Some(_) | None => default_pull_policy(image),
    }
}

/// Always for `latest` and for no tag at all, else IfNotPresent [API reference of imagePullPolicy].
fn default_pull_policy(image: &str) -> PullPolicy {
    let last = image.rsplit('/').next().unwrap_or(image);
    if last.contains('@') {
        return PullPolicy::IfNotPresent;
    }
    match last.split_once(':') {
        Some((_, tag)) if tag != "latest" => PullPolicy::IfNotPresent,
        Some(_) | None => PullPolicy::Always,
    }
}

impl RestartPolicy {
    /// Always is the default of the API.
    fn parse(text: Option<&str>) -> Self {
        match text {
            Some("OnFailure") => Self::OnFailure,
            Some("Never") => Self::Never,
            Some(_) | None => Self::Always,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_without_a_policy_are_asked_for_as_the_api_defaults_it() {
        for (image, policy) in [
            ("nginx", PullPolicy::Always),
            ("nginx:latest", PullPolicy::Always),
            ("nginx:1.27", PullPolicy::IfNotPresent),
            ("registry.test:5000/nginx", PullPolicy::Always),
            ("registry.test:5000/nginx:1", PullPolicy::IfNotPresent),
            ("nginx@sha256:0123", PullPolicy::IfNotPresent),
        ] {
            assert_eq!(default_pull_policy(image), policy, "{image}");
        }
    }

    #[test]
    fn roles_and_policies_follow_the_spec() {
        let container = |name: &str, policy: Option<&str>| Container {
            name: name.to_owned(),
            restart_policy: policy.map(str::to_owned),
            ..Container::default()
        };
        let spec = PodSpec {
            init_containers: Some(vec![
                container("init", None),
                container("sidecar", Some("Always")),
                container("once", Some("Never")),
            ]),
            containers: vec![container("main", None), container("job", Some("OnFailure"))],
            ..PodSpec::default()
        };
        let pod = Pod { spec: Some(spec), ..Pod::default() };
        let blueprint = Blueprint::from_pod(&pod);
        let seen: Vec<_> =
            blueprint.containers.iter().map(|c| (c.name.0.as_str(), c.role, c.policy)).collect();
        let expected = [
            ("init", RoleInPod::Init, RestartPolicy::OnFailure),
            ("sidecar", RoleInPod::Sidecar, RestartPolicy::Always),
            ("once", RoleInPod::Init, RestartPolicy::Never),
            ("main", RoleInPod::Regular, RestartPolicy::Always),
            ("job", RoleInPod::Regular, RestartPolicy::OnFailure),
        ];
        assert_eq!(seen, expected);
        assert_eq!(blueprint.grace.as_secs(), 30);
    }
}
