//! What a pod asks for, summed over its containers.
//!
//! Sources: KEP-753 (init containers and sidecars): a pod needs the larger of (a) its regular
//! containers and sidecars together and (b) each init container with the sidecars that started
//! before it. KEP-2837: `spec.resources` takes the place of the sum for the resources it names.
//! KEP-1287: while a resize is under way, the largest of desired, allocated and actual counts.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, PodSpec, ResourceRequirements};

pub use crate::amounts::{Amounts, ResourceList};
use crate::amounts::{RunningSum, limits, requests};
use crate::pods::{AnyContainer, AnyPod, AnySpec, GrantedResources, condition};

/// The condition of a pod whose resources in the spec are not granted.
pub const RESIZE_PENDING: &str = "PodResizePending";
/// The condition of a pod whose granted resources are not in force yet.
pub const RESIZE_IN_PROGRESS: &str = "PodResizeInProgress";
/// The reason of [`RESIZE_PENDING`] when the node can never grant them.
pub const INFEASIBLE: &str = "Infeasible";
/// The reason of [`RESIZE_PENDING`] when the node has no room for them now.
pub const DEFERRED: &str = "Deferred";

/// Whether a resource can be given for a pod as a whole (KEP-2837).
pub fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// What the containers need at most at one time, of what `of` says of each.
pub fn sum_over_containers<S: AnySpec>(spec: &S, of: impl Fn(&S::Container) -> Amounts) -> Amounts {
    let mut sidecars = RunningSum::default();
    let mut initializing = RunningSum::default();
    for container in spec.init_containers() {
        let own = of(container);
        let is_sidecar = container.is_sidecar();
        if is_sidecar {
            sidecars.add(&own);
        }
        // Only what it asks for itself can be more than before: the sidecars' amounts were counted
        // when they came.
        for (name, amount) in own.iter() {
            let together = match sidecars.get(name) {
                Some(sum) if is_sidecar => sum,
                Some(sum) => amount.saturating_add(sum),
                None => amount,
            };
            initializing.raise_to(name, together);
        }
    }
    let mut total = sidecars;
    for container in spec.containers() {
        total.add(&of(container));
    }
    let mut total = Amounts::from(total);
    total.raise_to(&Amounts::from(initializing));
    total
}

/// What the spec asks for.
pub fn pod_requests(spec: &impl AnySpec) -> Amounts {
    spec_requests(spec, &Amounts::default())
}

fn spec_requests<S: AnySpec>(spec: &S, unsaid: &Amounts) -> Amounts {
    let of_container = |container: &S::Container| container.requests().into_owned().fill(unsaid);
    let mut total = sum_over_containers(spec, of_container);
    total.replace_by(&spec.requests().into_owned().of_names(is_pod_level));
    total.add(&spec.overhead());
    total
}

/// What a pod takes up: the largest of what its spec asks for, what its node has granted, and what
/// is in force. A spec that its node can never grant does not count.
pub fn pod_usage(pod: &impl AnyPod) -> Amounts {
    pod_usage_with(pod, &Amounts::default())
}

/// The same, where each container that does not say how much of something it asks for counts with
/// what is given for that.
pub fn pod_usage_with<P: AnyPod>(pod: &P, unsaid: &Amounts) -> Amounts {
    type Container<P> = <<P as AnyPod>::Spec as AnySpec>::Container;
    let Some(spec) = pod.spec() else { return Amounts::default() };
    if !tells_of_resources(pod, spec) {
        return spec_requests(spec, unsaid);
    }
    let is_infeasible = resize_pending_reason(pod) == Some(INFEASIBLE);
    let granted = |container: &Container<P>| match pod.granted_to(container.name()).allocated {
        Some(list) => Amounts::read(Some(list)),
        None if is_infeasible => Amounts::default(),
        None => container.requests().into_owned(),
    };
    let in_force = |container: &Container<P>| {
        let in_force = pod.granted_to(container.name()).in_force;
        match in_force.and_then(|resources| resources.requests.as_ref()) {
            Some(list) => Amounts::read(Some(list)),
            None => granted(container),
        }
    };
    let mut total = sum_over_containers(spec, |container| granted(container).fill(unsaid));
    total.raise_to(&sum_over_containers(spec, |container| in_force(container).fill(unsaid)));
    if !is_infeasible {
        let wanted = |container: &Container<P>| container.requests().into_owned().fill(unsaid);
        total.raise_to(&sum_over_containers(spec, wanted));
    }
    total.replace_by(&pod_level_usage(spec, pod.granted(), is_infeasible).of_names(is_pod_level));
    total.add(&spec.overhead());
    total
}

/// False while what the spec asks for is all that is known.
fn tells_of_resources(pod: &impl AnyPod, spec: &impl AnySpec) -> bool {
    let mut containers = spec.containers().iter().chain(spec.init_containers());
    containers.any(|container| pod.granted_to(container.name()).is_some())
        || pod.granted().is_some()
        || resize_pending_reason(pod).is_some()
}

fn pod_level_usage(
    spec: &impl AnySpec,
    granted: GrantedResources<'_>,
    is_infeasible: bool,
) -> Amounts {
    let wanted = spec.requests();
    let mut known = Amounts::read(granted.allocated);
    known.raise_to(&requests(granted.in_force));
    if !is_infeasible || known == Amounts::default() {
        known.raise_to(&wanted);
    }
    // only what the pod has of its own
    known.of_names(|name| wanted.names(name))
}

/// What a pod may use at most: the larger of what its spec allows each container and what is in
/// force. A resource that a container does not bound counts with the others' bounds, as upstream.
pub fn pod_limits(pod: &impl AnyPod) -> Amounts {
    let Some(spec) = pod.spec() else { return Amounts::default() };
    let mut total = sum_over_containers(spec, |container| {
        let mut most = container.limits().into_owned();
        most.raise_to(&limits(pod.granted_to(container.name()).in_force));
        most
    });
    let mut own = spec.limits().into_owned();
    own.raise_to(&limits(pod.granted().in_force).of_names(|name| own_names(spec, name)));
    total.replace_by(&own.of_names(is_pod_level));
    let bounded: Vec<String> = total.iter().map(|(name, _)| name.to_owned()).collect();
    let overhead = spec.overhead().into_owned();
    total.add(&overhead.of_names(|name| bounded.iter().any(|bounded| bounded == name)));
    total
}

/// Whether a pod bounds a resource as a whole.
fn own_names(spec: &impl AnySpec, name: &str) -> bool {
    spec.limits().names(name)
}

/// Whether a pod asks for neither CPU nor memory, and bounds neither: its QoS class is BestEffort.
pub fn is_best_effort(spec: &impl AnySpec) -> bool {
    let says = |list: &Amounts| ["cpu", "memory"].iter().any(|name| !list.get(name).is_zero());
    let (requests, limits) = (spec.requests(), spec.limits());
    let mut own = requests.iter().chain(limits.iter());
    if own.any(|(name, _)| is_pod_level(name)) {
        return !says(&requests) && !says(&limits);
    }
    let mut containers = spec.containers().iter().chain(spec.init_containers());
    !containers.any(|container| says(&container.requests()) || says(&container.limits()))
}

/// Why a resize is not granted, if one is not.
pub fn resize_pending_reason(pod: &impl AnyPod) -> Option<&str> {
    condition(pod, RESIZE_PENDING)?.reason.as_deref()
}

/// Whether a pod has resources of its own as a whole.
pub fn has_pod_level(spec: &PodSpec) -> bool {
    let lists = spec.resources.iter().flat_map(|own| [&own.requests, &own.limits]);
    lists.flatten().flat_map(BTreeMap::keys).any(|name| is_pod_level(name))
}

/// The QoS class of a pod: the one that the API has written, or else that of its spec.
pub fn qos_class_of(pod: &Pod) -> &str {
    let written = pod.status.as_ref().and_then(|status| status.qos_class.as_deref());
    written.or_else(|| pod.spec.as_ref().map(qos_class)).unwrap_or("BestEffort")
}

/// `Guaranteed`, `Burstable` or `BestEffort` (upstream `qos.ComputePodQOS`): from the CPU and the
/// memory of the pod as a whole, if it has any, else from those of its containers.
pub fn qos_class(spec: &PodSpec) -> &'static str {
    let none = ResourceRequirements::default();
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let counted: Vec<&ResourceRequirements> = match &spec.resources {
        Some(own) if has_pod_level(spec) => vec![own],
        Some(_) | None => containers.map(|c| c.resources.as_ref().unwrap_or(&none)).collect(),
    };
    let amount = |list: Option<&ResourceList>, name: &str| {
        Some(Amounts::read(list).get(name).millis()).filter(|millis| *millis != 0)
    };
    let (mut is_bounded, mut is_guaranteed) = (false, true);
    for resources in counted {
        for name in ["cpu", "memory"] {
            let limit = amount(resources.limits.as_ref(), name);
            let request = amount(resources.requests.as_ref(), name);
            is_bounded |= limit.is_some() || request.is_some();
            // an absent request is the limit
            is_guaranteed &=
                limit.is_some() && request.is_none_or(|request| Some(request) == limit);
        }
    }
    match (is_bounded, is_guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests;
