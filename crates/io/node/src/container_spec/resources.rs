//! Requests and limits as cgroup settings, by the kubelet's formulas.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use rekindle_runtime::Resources;
use rekindle_types::Quantity;
use rekindle_types::pods::AnyContainer;

/// The smallest weight a cgroup takes.
const SHARES_MIN: u64 = 2;
/// The largest weight a cgroup takes.
const SHARES_MAX: u64 = 262_144;
/// Weight of one whole CPU.
const SHARES_PER_CPU: u64 = 1024;
/// The smallest CPU limit the kernel takes: a quota of 1 ms in a period of 100 ms.
const CPU_LIMIT_MILLIS_MIN: u64 = 10;

/// CPU in millicores as a cgroup weight.
pub(crate) fn cpu_shares(millis: u64) -> u64 {
    (millis.saturating_mul(SHARES_PER_CPU) / 1000).clamp(SHARES_MIN, SHARES_MAX)
}

/// The limits of one container of a pod; what it has no limit of, the pod's limit as a whole is its
/// (KEP-2837).
pub(crate) fn container_resources(pod: &Pod, container: &Container) -> Resources {
    let own = container.resources.as_ref();
    let whole =
        ComputeAmounts::from_resources(pod.spec.as_ref().and_then(|spec| spec.resources.as_ref()));
    let mut amounts = ComputeAmounts::from_resources(own);
    amounts.cpu_limit = amounts.cpu_limit.or(whole.cpu_limit);
    amounts.memory_limit = amounts.memory_limit.or(whole.memory_limit);
    let request = amount(own.and_then(|own| own.requests.as_ref()), "cpu").map(millis);
    Resources {
        cpu_shares: Some(cpu_shares(request.or(amounts.cpu_limit).unwrap_or(0))),
        cpu_limit_millis: amounts.cpu_limit.map(at_least_minimum),
        memory_limit_bytes: amounts.memory_limit,
        pids_limit: None,
    }
}

/// The limits of the pod as a whole: the sum of the containers' requests, and of their limits where
/// all of them have one. `pids_limit` is the node's for every pod.
pub(crate) fn pod_resources(pod: &Pod, pids_limit: Option<u64>) -> Resources {
    let Some(spec) = &pod.spec else { return Resources::default() };
    let total = pod_amounts(spec);
    Resources {
        cpu_shares: Some(cpu_shares(total.cpu_request)),
        cpu_limit_millis: total.cpu_limit.map(at_least_minimum),
        memory_limit_bytes: total.memory_limit,
        pids_limit,
    }
}

fn at_least_minimum(millis: u64) -> u64 {
    millis.max(CPU_LIMIT_MILLIS_MIN)
}

/// What a container, or several, ask for and may use. `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ComputeAmounts {
    cpu_request: u64,
    cpu_limit: Option<u64>,
    memory_limit: Option<u64>,
}

impl ComputeAmounts {
    fn from_resources(resources: Option<&ResourceRequirements>) -> Self {
        let limits = resources.and_then(|r| r.limits.as_ref());
        let requests = resources.and_then(|r| r.requests.as_ref());
        // a limit of 0 means none, as for the kubelet
        let cpu_limit = amount(limits, "cpu").map(millis).filter(|millis| *millis > 0);
        let memory_limit = amount(limits, "memory").map(units).filter(|bytes| *bytes > 0);
        let cpu_request = amount(requests, "cpu").map(millis).or(cpu_limit).unwrap_or(0);
        Self { cpu_request, cpu_limit, memory_limit }
    }

    /// Both at the same time: a missing limit on one side is none for both.
    fn plus(self, other: Self) -> Self {
        Self {
            cpu_request: self.cpu_request.saturating_add(other.cpu_request),
            cpu_limit: self.cpu_limit.zip(other.cpu_limit).map(|(a, b)| a.saturating_add(b)),
            memory_limit: self
                .memory_limit
                .zip(other.memory_limit)
                .map(|(a, b)| a.saturating_add(b)),
        }
    }

    /// One after the other.
    fn or_more(self, other: Self) -> Self {
        Self {
            cpu_request: self.cpu_request.max(other.cpu_request),
            cpu_limit: self.cpu_limit.zip(other.cpu_limit).map(|(a, b)| a.max(b)),
            memory_limit: self.memory_limit.zip(other.memory_limit).map(|(a, b)| a.max(b)),
        }
    }

    /// Nothing used at all: neutral in [`plus`](Self::plus) and [`or_more`](Self::or_more).
    const fn nothing() -> Self {
        Self { cpu_request: 0, cpu_limit: Some(0), memory_limit: Some(0) }
    }
}

/// The most the pod needs at one time: its containers and sidecars together, or an init container
/// beside the sidecars started before it (KEP-753). Amounts given for the pod itself (KEP-2837)
/// win.
fn pod_amounts(spec: &PodSpec) -> ComputeAmounts {
    let running = spec.containers.iter().fold(ComputeAmounts::nothing(), |sum, container| {
        sum.plus(ComputeAmounts::from_resources(container.resources.as_ref()))
    });
    let mut sidecars = ComputeAmounts::nothing();
    let mut while_initializing = ComputeAmounts::nothing();
    for container in spec.init_containers.iter().flatten() {
        let own = ComputeAmounts::from_resources(container.resources.as_ref());
        if container.is_sidecar() {
            sidecars = sidecars.plus(own);
            while_initializing = while_initializing.or_more(sidecars);
        } else {
            while_initializing = while_initializing.or_more(sidecars.plus(own));
        }
    }
    let mut total = running.plus(sidecars).or_more(while_initializing);
    let own = ComputeAmounts::from_resources(spec.resources.as_ref());
    if own.cpu_request > 0 {
        total.cpu_request = own.cpu_request;
    }
    total.cpu_limit = own.cpu_limit.or(total.cpu_limit).filter(|millis| *millis > 0);
    total.memory_limit = own.memory_limit.or(total.memory_limit).filter(|bytes| *bytes > 0);
    total
}

/// The amount of one resource. What cannot be read counts as absent: the API has refused it before.
fn amount(map: Option<&BTreeMap<String, ApiQuantity>>, name: &str) -> Option<Quantity> {
    map?.get(name)?.0.parse().ok()
}

fn millis(quantity: Quantity) -> u64 {
    u64::try_from(quantity.millis()).unwrap_or(0)
}

fn units(quantity: Quantity) -> u64 {
    u64::try_from(quantity.units()).unwrap_or(0)
}
