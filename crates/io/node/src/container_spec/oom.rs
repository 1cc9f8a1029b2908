//! How soon the kernel ends a container's processes when the machine has no memory left: by the
//! pod's QoS class, and of burstable pods by how much memory the container asks for. Source:
//! kubelet `qos.GetContainerOOMScoreAdjust`; of sidecars KEP-753, of amounts for the pod as a whole
//! KEP-2837.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ResourceRequirements};
use rekindle_types::pods::AnySpec;
use rekindle_types::resources::{Amounts, qos_class_of, sum_over_containers};

use crate::shutdown::CRITICAL_PRIORITY;

/// Of a pod with all that it asks for guaranteed, and of one that the node needs.
const LAST: i32 = -997;
/// Of a pod that asks for nothing.
const FIRST: i32 = 1000;

/// The score of a container on a machine with so much memory.
pub(super) fn oom_score_adj(pod: &Pod, container: &Container, memory_bytes: u64) -> i32 {
    let Some(spec) = &pod.spec else { return FIRST };
    if is_node_critical(spec) {
        return LAST;
    }
    match qos_class_of(pod) {
        "Guaranteed" => LAST,
        "BestEffort" => FIRST,
        _ => burstable_score(spec, container, memory_bytes),
    }
}

fn is_node_critical(spec: &PodSpec) -> bool {
    spec.priority.unwrap_or_default() >= CRITICAL_PRIORITY
        && spec.priority_class_name.as_deref() == Some("system-node-critical")
}

/// A container that asks for a tenth of the memory has 900: it comes to 1000, and with that to
/// those that ask for nothing, when it uses as much. It stays between those that ask for nothing
/// and those with a guarantee.
fn burstable_score(spec: &PodSpec, container: &Container, memory_bytes: u64) -> i32 {
    let own = memory_request(container.resources.as_ref());
    // A sidecar goes no sooner than the container that it serves.
    let smallest = spec.containers.iter().map(|one| memory_request(one.resources.as_ref())).min();
    let counted = match smallest {
        Some(smallest) if spec.has_sidecar(&container.name) => own.max(smallest),
        Some(_) | None => own,
    };
    let bytes = counted + share_of_the_rest(spec);
    let share = i32::try_from(1000 * bytes / i128::from(memory_bytes.max(1)));
    FIRST.saturating_sub(share.unwrap_or(i32::MAX)).clamp(FIRST + LAST, FIRST - 1)
}

/// What the pod as a whole asks for beyond its containers, in equal parts to all of them.
fn share_of_the_rest(spec: &PodSpec) -> i128 {
    let whole = memory_request(spec.resources.as_ref());
    if whole == 0 {
        return 0;
    }
    let of_container = |one: &Container| requests(one.resources.as_ref());
    let used = sum_over_containers(spec, of_container).get("memory").units();
    let initial = spec.init_containers.as_ref().map_or(0, Vec::len);
    let count = (spec.containers.len() + initial).max(1);
    (whole - i128::from(used)) / count as i128
}

fn memory_request(resources: Option<&ResourceRequirements>) -> i128 {
    i128::from(requests(resources).get("memory").units())
}

fn requests(resources: Option<&ResourceRequirements>) -> Amounts {
    Amounts::read(resources.and_then(|resources| resources.requests.as_ref()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const MACHINE: u64 = 10 << 30;

    fn score(spec: Value, name: &str) -> i32 {
        let pod: Pod = serde_json::from_value(json!({ "spec": spec })).unwrap();
        let spec = pod.spec.as_ref().unwrap();
        let all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
        let container = all.into_iter().find(|container| container.name == name).unwrap();
        oom_score_adj(&pod, container, MACHINE)
    }

    /// A container that asks for that much memory.
    fn asks(name: &str, memory: &str) -> Value {
        json!({ "name": name, "resources": { "requests": { "memory": memory } } })
    }

    fn sidecar(memory: &str) -> Value {
        let mut sidecar = asks("side", memory);
        sidecar["restartPolicy"] = json!("Always");
        sidecar
    }

    #[test]
    fn who_asks_for_more_goes_later_and_who_asks_for_nothing_first() {
        let amounts = json!({ "cpu": "1", "memory": "1Gi" });
        let guaranteed = json!({ "name": "app", "resources": { "limits": amounts } });
        let cpu = json!({ "name": "app", "resources": { "requests": { "cpu": "1" } } });
        for (containers, expected) in [
            (json!([{ "name": "app" }]), 1000),
            (json!([guaranteed]), -997),
            (json!([cpu]), 999),
            (json!([asks("app", "1")]), 999),
            (json!([asks("app", "1Gi")]), 900),
            (json!([asks("app", "2.5Gi")]), 750),
            (json!([asks("app", "10Gi")]), 3),
            (json!([asks("app", "100Gi")]), 3),
            (json!([{ "name": "app" }, asks("other", "1Gi")]), 999),
        ] {
            assert_eq!(score(json!({ "containers": containers }), "app"), expected, "{containers}");
        }
    }

    #[test]
    fn a_pod_that_the_node_needs_goes_last() {
        for (class, priority, expected) in [
            ("system-node-critical", 2_000_001_000, -997),
            ("system-cluster-critical", 2_000_000_000, 1000),
            ("system-node-critical", 0, 1000),
        ] {
            let spec = json!({
                "containers": [{ "name": "app" }], "priority": priority, "priorityClassName": class,
            });
            assert_eq!(score(spec, "app"), expected, "{class} {priority}");
        }
    }

    #[test]
    fn a_sidecar_goes_no_sooner_than_the_least_of_the_containers() {
        for (memory, expected) in [("1Gi", 800), ("3Gi", 700)] {
            let spec = json!({
                "containers": [asks("app", "4Gi"), asks("small", "2Gi")],
                "initContainers": [sidecar(memory), asks("init", "1Gi")],
            });
            assert_eq!(score(spec.clone(), "side"), expected, "{memory}");
            assert_eq!(score(spec, "init"), 900, "one that ends is no sidecar");
        }
    }

    #[test]
    fn what_the_pod_asks_for_as_a_whole_is_shared() {
        let spec = json!({
            "resources": { "requests": { "memory": "7Gi" } },
            "containers": [asks("app", "1Gi"), { "name": "none" }],
            "initContainers": [sidecar("2Gi"), { "name": "init" }],
        });
        // 7 less the 3 of the containers: 1 for each of four
        for (name, expected) in [("app", 800), ("none", 900), ("side", 700), ("init", 900)] {
            assert_eq!(score(spec.clone(), name), expected, "{name}");
        }
    }
}
