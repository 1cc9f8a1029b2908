//! What a pod asks of a node, in the scheduler's numbers; how it is summed up is in `rekindle_types::resources`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use rekindle_types::resources::{self, Amounts};

/// Amounts of what nodes have. Each that is read is within 64 bits, which their sums need not be: what many pods ask for together can
/// be taken away again, pod by pod, whatever each of them wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// CPU in millicores.
    pub cpu_millis: i128,
    /// Memory in bytes.
    pub memory_bytes: i128,
    /// Ephemeral storage in bytes.
    pub storage_bytes: i128,
    /// Pods.
    pub pods: i128,
    /// Extended resources and huge pages, by name.
    pub others: BTreeMap<String, i128>,
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
        let pods = amounts.get("pods").units().into();
        Self { pods, ..Self::of_amounts(&amounts) }
    }

    fn of_amounts(amounts: &Amounts) -> Self {
        let mut requests = Self::default();
        for (name, amount) in amounts.iter() {
            match name {
                "cpu" => requests.cpu_millis = amount.millis().into(),
                "memory" => requests.memory_bytes = amount.units().into(),
                "ephemeral-storage" => requests.storage_bytes = amount.units().into(),
                "pods" => {}
                _ => drop(requests.others.insert(name.to_owned(), amount.units().into())),
            }
        }
        requests
    }

    /// Adds another.
    pub fn add(&mut self, other: &Self) {
        self.cpu_millis += other.cpu_millis;
        self.memory_bytes += other.memory_bytes;
        self.storage_bytes += other.storage_bytes;
        self.pods += other.pods;
        for (name, amount) in &other.others {
            *self.others.entry(name.clone()).or_default() += amount;
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
    pub fn other(&self, name: &str) -> i128 {
        self.others.get(name).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
    use proptest::prelude::*;
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
    fn amounts() -> impl Strategy<Value = Requests> {
        let amount = || prop_oneof![Just(0), 1..1000_i128, Just(i128::from(i64::MAX))];
        (amount(), amount(), amount(), amount()).prop_map(|(cpu, memory, storage, other)| {
            Requests {
                cpu_millis: cpu,
                memory_bytes: memory,
                storage_bytes: storage,
                pods: 1,
                others: [("example.com/gpu".to_owned(), other)]
                    .into_iter()
                    .filter(|(_, n)| *n > 0)
                    .collect(),
            }
        })
    }

    proptest! {
        #[test]
        fn what_came_can_go_again_in_any_order(
            (comes, goes) in prop::collection::vec(amounts(), 1..6)
                .prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
            there in amounts(),
        ) {
            let mut sum = there.clone();
            comes.iter().for_each(|requests| sum.add(requests));
            let memory: i128 = comes.iter().map(|requests| requests.memory_bytes).sum();
            prop_assert_eq!(sum.memory_bytes, there.memory_bytes + memory);
            goes.iter().for_each(|requests| sum.subtract(requests));
            prop_assert_eq!(sum, there);
        }
    }
}
