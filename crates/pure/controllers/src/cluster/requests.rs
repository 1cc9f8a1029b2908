//! What a pod asks of a node, in the scheduler's numbers; how it is summed up is in
//! `rekindle_types::resources`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use rekindle_types::held::{HeldContainer, HeldContainerStatus, HeldPod};
use rekindle_types::resources::{self, Amounts, ResourceList};

/// What a container counts for that does not say how much it asks for, when nodes are compared
/// [kube-scheduler, `DefaultMilliCPURequest` and `DefaultMemoryRequest`].
static UNSAID: LazyLock<Amounts> = LazyLock::new(|| {
    let amounts = [("cpu", "100m"), ("memory", "200Mi")];
    let list = amounts.map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())));
    Amounts::read(Some(&ResourceList::from(list)))
});

/// Amounts of what nodes have. Each that is read is within 64 bits, which their sums need not be:
/// what many pods ask for together can be taken away again, pod by pod, whatever each of them
/// wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceAmounts {
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
    /// What counts when nodes are compared by what is free.
    pub nonzero: NonzeroRequests,
}

/// CPU and memory that pods ask for, where a container that does not say how much counts with a
/// little [kube-scheduler, `GetNonzeroRequests`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NonzeroRequests {
    /// CPU in millicores.
    pub cpu_millis: i128,
    /// Memory in bytes.
    pub memory_bytes: i128,
}

impl ResourceAmounts {
    /// What one pod asks for, or has: while its resources are being changed in place, the larger of
    /// both (KEP-1287).
    pub fn from_pod(pod: &HeldPod) -> Self {
        let asked = Self::of_amounts(&resources::pod_usage(pod));
        let nonzero = if says_all(pod) {
            NonzeroRequests { cpu_millis: asked.cpu_millis, memory_bytes: asked.memory_bytes }
        } else {
            let counted = Self::of_amounts(&resources::pod_usage_with(pod, &UNSAID));
            NonzeroRequests { cpu_millis: counted.cpu_millis, memory_bytes: counted.memory_bytes }
        };
        Self { pods: 1, nonzero, ..asked }
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
        self.nonzero.cpu_millis += other.nonzero.cpu_millis;
        self.nonzero.memory_bytes += other.nonzero.memory_bytes;
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
        self.nonzero.cpu_millis -= other.nonzero.cpu_millis;
        self.nonzero.memory_bytes -= other.nonzero.memory_bytes;
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

/// True when each container says how much CPU and memory it asks for, wherever something is said of
/// it. So it is for most pods, which are summed up once then.
fn says_all(pod: &HeldPod) -> bool {
    let says = |list: &ResourceList| list.contains_key("cpu") && list.contains_key("memory");
    let wants = |container: &HeldContainer| {
        container.requests.names("cpu") && container.requests.names("memory")
    };
    let is_told = |status: &HeldContainerStatus| {
        let in_force = status.resources.as_ref().and_then(|own| own.requests.as_ref());
        status.allocated_resources.as_deref().is_none_or(says) && in_force.is_none_or(says)
    };
    let spec = pod.spec.as_ref();
    let mut containers =
        spec.into_iter().flat_map(|spec| spec.containers.iter().chain(&*spec.init_containers));
    let status = pod.status.as_ref();
    let mut statuses = status.into_iter().flat_map(|status| {
        let lists = [&status.container_statuses, &status.init_container_statuses];
        lists.into_iter().flatten().flatten()
    });
    containers.all(wants)
        && statuses.all(is_told)
        && resources::resize_pending_reason(pod) != Some(resources::INFEASIBLE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn container((cpu, restart_policy): &(&str, Option<&str>)) -> Value {
        json!({"name": "c", "restartPolicy": restart_policy, "resources": {"requests": {"cpu": cpu}}})
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
            let [init_containers, containers] =
                [&init, &regular].map(|list| list.iter().map(container).collect::<Vec<_>>());
            let spec = json!({"initContainers": init_containers, "containers": containers});
            let pod = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
            assert_eq!(
                ResourceAmounts::from_pod(&pod).cpu_millis,
                expected,
                "{init:?} {regular:?}"
            );
            assert_eq!(ResourceAmounts::from_pod(&pod).pods, 1);
        }
    }

    #[test]
    fn a_container_that_does_not_say_counts_with_a_little() {
        let container = |requests: Value| json!({"name": "c", "resources": {"requests": requests}});
        let (said, silent) =
            (container(json!({"cpu": "1", "memory": "1Gi"})), container(json!({})));
        let sidecar = json!({"name": "s", "restartPolicy": "Always"});
        let granted = json!([{"name": "c", "allocatedResources": {"cpu": "1"},
            "image": "", "imageID": "", "ready": true, "restartCount": 0}]);
        // (spec, statuses of containers, millicores, MiB)
        for (spec, statuses, cpu, memory) in [
            (json!({"containers": [said]}), json!([]), 1000, 1024),
            (json!({"containers": [silent]}), json!([]), 100, 200),
            (json!({"containers": [silent, silent]}), json!([]), 200, 400),
            (json!({"containers": [said, silent]}), json!([]), 1100, 1224),
            (json!({"containers": [container(json!({"cpu": "0"}))]}), json!([]), 0, 200),
            (json!({"containers": [container(json!({"memory": "7Mi"}))]}), json!([]), 100, 7),
            (json!({"containers": [said], "initContainers": [silent]}), json!([]), 1000, 1024),
            (json!({"containers": [silent], "initContainers": [said]}), json!([]), 1000, 1024),
            (json!({"containers": [silent], "initContainers": [sidecar]}), json!([]), 200, 400),
            (json!({"containers": [silent], "overhead": {"cpu": "10m"}}), json!([]), 110, 200),
            (
                json!({"containers": [silent], "resources": {"requests": {"cpu": "2"}}}),
                json!([]),
                2000,
                200,
            ),
            (
                json!({"containers": [container(json!({"cpu": "1", "memory": "7Mi"}))]}),
                granted,
                1000,
                200,
            ),
        ] {
            let pod =
                json!({"metadata": {}, "spec": spec, "status": {"containerStatuses": statuses}});
            let requests = ResourceAmounts::from_pod(&serde_json::from_value(pod).unwrap());
            let expected = NonzeroRequests { cpu_millis: cpu, memory_bytes: memory << 20 };
            assert_eq!(requests.nonzero, expected, "{spec} {statuses}");
        }
    }

    #[test]
    fn what_is_not_said_is_not_asked_for() {
        let pod = json!({"metadata": {}, "spec": {"containers": [{"name": "c"}]}});
        let requests = ResourceAmounts::from_pod(&serde_json::from_value(pod).unwrap());
        assert_eq!((requests.cpu_millis, requests.memory_bytes), (0, 0));
    }

    fn amounts() -> impl Strategy<Value = ResourceAmounts> {
        let amount = || prop_oneof![Just(0), 1..1000_i128, Just(i128::from(i64::MAX))];
        (amount(), amount(), amount(), amount()).prop_map(|(cpu, memory, storage, other)| {
            ResourceAmounts {
                cpu_millis: cpu,
                memory_bytes: memory,
                storage_bytes: storage,
                pods: 1,
                others: [("example.com/gpu".to_owned(), other)]
                    .into_iter()
                    .filter(|(_, n)| *n > 0)
                    .collect(),
                nonzero: NonzeroRequests {
                    cpu_millis: cpu.max(100),
                    memory_bytes: memory.max(200),
                },
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
