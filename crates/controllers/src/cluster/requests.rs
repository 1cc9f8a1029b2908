//! What a pod asks of a node, in the scheduler's numbers; how it is summed up is in `rekindle_types::resources`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use rekindle_types::resources::{self, Amounts};

/// Amounts of what nodes have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// CPU in millicores.
    pub cpu_millis: i64,
    /// Memory in bytes.
    pub memory_bytes: i64,
    /// Ephemeral storage in bytes.
    pub storage_bytes: i64,
    /// Pods.
    pub pods: i64,
    /// Extended resources and huge pages, by name.
    pub others: BTreeMap<String, i64>,
}

impl Requests {
    /// What one pod asks for, or has: while its resources are being changed in place, the larger of both (KEP-1287).
    pub fn of(pod: &Pod) -> Self {
        Self { pods: 1, ..Self::of_amounts(&resources::pod_usage(pod)) }
    }

    /// What a node can give: `status.allocatable`, or `status.capacity` where that is absent.
    pub fn allocatable(node: &Node) -> Self {
        let Some(status) = &node.status else { return Self::default() };
        let amounts = Amounts::read(status.allocatable.as_ref().or(status.capacity.as_ref()));
        let pods = amounts.get("pods").units();
        Self { pods, ..Self::of_amounts(&amounts) }
    }

    fn of_amounts(amounts: &Amounts) -> Self {
        let mut requests = Self::default();
        for (name, amount) in amounts.iter() {
            match name {
                "cpu" => requests.cpu_millis = amount.millis(),
                "memory" => requests.memory_bytes = amount.units(),
                "ephemeral-storage" => requests.storage_bytes = amount.units(),
                "pods" => {}
                _ => drop(requests.others.insert(name.to_owned(), amount.units())),
            }
        }
        requests
    }

    /// Adds another.
    pub fn add(&mut self, other: &Self) {
        self.cpu_millis = self.cpu_millis.saturating_add(other.cpu_millis);
        self.memory_bytes = self.memory_bytes.saturating_add(other.memory_bytes);
        self.storage_bytes = self.storage_bytes.saturating_add(other.storage_bytes);
        self.pods = self.pods.saturating_add(other.pods);
        for (name, amount) in &other.others {
            let sum = self.others.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
    }

    /// Takes another away.
    pub fn subtract(&mut self, other: &Self) {
        self.cpu_millis -= other.cpu_millis;
        self.memory_bytes -= other.memory_bytes;
        self.storage_bytes -= other.storage_bytes;
        self.pods -= other.pods;
        for (name, amount) in &other.others {
            *self.others.entry(name.clone()).or_default() -= amount;
        }
        self.others.retain(|_, amount| *amount != 0);
    }

    /// How much of an extended resource.
    pub fn other(&self, name: &str) -> i64 {
        self.others.get(name).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
    use rekindle_types::resources::ResourceList as List;

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
