//! What a pod asks of a node.
//!
//! Source: the API reference on init containers and KEP-753 (sidecars): a pod needs the larger of (a) its regular
//! containers and sidecars together and (b) each init container with the sidecars that started before it; plus overhead.
//! `spec.resources` (KEP-2837) takes the place of the sum for the resources it names.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use rekindle_types::Quantity;

type List = BTreeMap<String, ApiQuantity>;

/// Amounts of the resources the scheduler knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// CPU in millicores.
    pub cpu_millis: i64,
    /// Memory in bytes.
    pub memory_bytes: i64,
    /// Ephemeral storage in bytes.
    pub storage_bytes: i64,
    /// Pods.
    pub pods: i64,
}

impl Requests {
    /// What one pod asks for.
    pub fn of(pod: &Pod) -> Self {
        let Some(spec) = &pod.spec else { return Self { pods: 1, ..Self::default() } };
        let mut sidecars = Self::default();
        let mut init_peak = Self::default();
        for container in spec.init_containers.iter().flatten() {
            let own = of_container(container);
            if container.restart_policy.as_deref() == Some("Always") {
                sidecars.add(&own);
                init_peak = init_peak.max(&sidecars);
            } else {
                let mut with_sidecars = sidecars;
                with_sidecars.add(&own);
                init_peak = init_peak.max(&with_sidecars);
            }
        }
        let mut running = sidecars;
        for container in &spec.containers {
            running.add(&of_container(container));
        }
        let mut total = running.max(&init_peak);
        if let Some(list) = spec.resources.as_ref().and_then(|r| r.requests.as_ref()) {
            total = total.overridden_by(list);
        }
        if let Some(overhead) = &spec.overhead {
            total.add(&of_list(overhead));
        }
        total.pods = 1;
        total
    }

    /// What a node can give: `status.allocatable`, or `status.capacity` where that is absent.
    pub fn allocatable(node: &k8s_openapi::api::core::v1::Node) -> Self {
        let Some(status) = &node.status else { return Self::default() };
        let list = status.allocatable.as_ref().or(status.capacity.as_ref());
        list.map_or_else(Self::default, |list| Self {
            pods: amount(list, "pods", Quantity::units).unwrap_or(0),
            ..of_list(list)
        })
    }

    /// Adds another.
    pub fn add(&mut self, other: &Self) {
        self.cpu_millis = self.cpu_millis.saturating_add(other.cpu_millis);
        self.memory_bytes = self.memory_bytes.saturating_add(other.memory_bytes);
        self.storage_bytes = self.storage_bytes.saturating_add(other.storage_bytes);
        self.pods = self.pods.saturating_add(other.pods);
    }

    /// Takes another away.
    pub fn subtract(&mut self, other: &Self) {
        self.cpu_millis -= other.cpu_millis;
        self.memory_bytes -= other.memory_bytes;
        self.storage_bytes -= other.storage_bytes;
        self.pods -= other.pods;
    }

    fn max(&self, other: &Self) -> Self {
        Self {
            cpu_millis: self.cpu_millis.max(other.cpu_millis),
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
            storage_bytes: self.storage_bytes.max(other.storage_bytes),
            pods: self.pods.max(other.pods),
        }
    }

    fn overridden_by(&self, list: &List) -> Self {
        Self {
            cpu_millis: amount(list, "cpu", Quantity::millis).unwrap_or(self.cpu_millis),
            memory_bytes: amount(list, "memory", Quantity::units).unwrap_or(self.memory_bytes),
            ..*self
        }
    }
}

fn of_container(container: &Container) -> Requests {
    let list = container.resources.as_ref().and_then(|r| r.requests.as_ref());
    list.map_or_else(Requests::default, of_list)
}

fn of_list(list: &List) -> Requests {
    Requests {
        cpu_millis: amount(list, "cpu", Quantity::millis).unwrap_or(0),
        memory_bytes: amount(list, "memory", Quantity::units).unwrap_or(0),
        storage_bytes: amount(list, "ephemeral-storage", Quantity::units).unwrap_or(0),
        pods: 0,
    }
}

/// The amount of one resource. A quantity that cannot be read asks for nothing; validation lets none in.
fn amount(list: &List, name: &str, unit: impl Fn(Quantity) -> i64) -> Option<i64> {
    list.get(name)?.0.parse().ok().map(unit)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{PodSpec, ResourceRequirements};

    use super::*;

    fn container(cpu: &str, restart_policy: Option<&str>) -> Container {
        Container {
            name: "c".to_owned(),
            restart_policy: restart_policy.map(str::to_owned),
            resources: Some(ResourceRequirements {
                requests: Some(List::from([("cpu".to_owned(), ApiQuantity(cpu.to_owned()))])),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    #[test]
    fn init_containers_need_the_peak_and_sidecars_add_to_it() {
        let sidecar = Some("Always");
        // (init containers, regular containers, millicores), after KEP-753's examples
        for (init, regular, expected) in [
            (vec![], vec![("100m", None), ("200m", None)], 300),
            (vec![("1", None)], vec![("100m", None)], 1000),
            (vec![("50m", sidecar)], vec![("100m", None)], 150),
            (vec![("50m", sidecar), ("1", None)], vec![("100m", None)], 1050),
            (vec![("1", None), ("50m", sidecar)], vec![("100m", None)], 1000),
            (vec![("400m", sidecar), ("50m", sidecar)], vec![("100m", None)], 550),
        ] {
            let pod = Pod {
                spec: Some(PodSpec {
                    init_containers: Some(
                        init.iter().map(|(cpu, policy)| container(cpu, *policy)).collect(),
                    ),
                    containers: regular
                        .iter()
                        .map(|(cpu, policy)| container(cpu, *policy))
                        .collect(),
                    ..Default::default()
                }),
                ..Default::default()
            };
            assert_eq!(Requests::of(&pod).cpu_millis, expected, "{init:?} {regular:?}");
            assert_eq!(Requests::of(&pod).pods, 1);
        }
    }
}
