use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use proptest::prelude::*;

use super::*;

type Pairs<'a> = &'a [(&'a str, &'a str)];

fn list(pairs: Pairs<'_>) -> ResourceList {
    pairs.iter().map(|(n, q)| ((*n).to_owned(), ApiQuantity((*q).to_owned()))).collect()
}

fn resources(requests: Pairs<'_>, limits: Pairs<'_>) -> ResourceRequirements {
    ResourceRequirements {
        requests: Some(list(requests)),
        limits: Some(list(limits)),
        ..ResourceRequirements::default()
    }
}

fn container(name: &str, requests: Pairs<'_>, limits: Pairs<'_>) -> Container {
    let resources = Some(resources(requests, limits));
    Container { name: name.to_owned(), resources, ..Container::default() }
}

#[test]
fn classes_follow_requests_and_limits_of_all_containers_or_of_the_pod() {
    let none: Pairs<'_> = &[];
    let both: Pairs<'_> = &[("cpu", "100m"), ("memory", "64Mi")];
    let same_in_other_words: Pairs<'_> = &[("cpu", "0.1"), ("memory", "67108864")];
    let cpu: Pairs<'_> = &[("cpu", "1")];
    let zero: Pairs<'_> = &[("cpu", "0")];
    let c = |requests, limits| container("c", requests, limits);
    for (pod_level, containers, class) in [
        (None, vec![c(none, none)], "BestEffort"),
        (None, vec![c(zero, none)], "BestEffort"),
        (None, vec![c(both, both)], "Guaranteed"),
        (None, vec![c(same_in_other_words, both)], "Guaranteed"),
        (None, vec![c(none, both)], "Guaranteed"),
        (None, vec![c(both, none)], "Burstable"),
        (None, vec![c(none, cpu)], "Burstable"),
        (None, vec![c(both, both), c(none, none)], "Burstable"),
        (Some(resources(both, both)), vec![c(none, none)], "Guaranteed"),
        (Some(resources(cpu, none)), vec![c(both, both)], "Burstable"),
        (Some(resources(none, none)), vec![c(both, both)], "Guaranteed"),
    ] {
        let spec = PodSpec { resources: pod_level, containers, ..PodSpec::default() };
        assert_eq!(qos_class(&spec), class, "{spec:?}");
    }
}

/// A pod that wants 500m, was granted `granted` and has `in_force`; as its node says with this
/// reason, if any.
fn resized(granted: &str, in_force: &str, reason: Option<&str>) -> Pod {
    let condition = |reason: &str| PodCondition {
        type_: RESIZE_PENDING.to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()),
        ..PodCondition::default()
    };
    let status = ContainerStatus {
        name: "c".to_owned(),
        allocated_resources: Some(list(&[("cpu", granted)])),
        resources: Some(resources(&[("cpu", in_force)], &[])),
        ..ContainerStatus::default()
    };
    Pod {
        spec: Some(PodSpec {
            containers: vec![container("c", &[("cpu", "500m")], &[])],
            ..PodSpec::default()
        }),
        status: Some(PodStatus {
            container_statuses: Some(vec![status]),
            conditions: reason.map(|reason| vec![condition(reason)]),
            ..PodStatus::default()
        }),
        ..Pod::default()
    }
}

#[test]
fn a_pod_takes_up_the_largest_of_wanted_granted_and_in_force() {
    for (granted, in_force, reason, millis) in [
        ("500m", "500m", None, 500),
        ("200m", "200m", None, 500),
        ("200m", "200m", Some(DEFERRED), 500),
        ("200m", "100m", Some(INFEASIBLE), 200),
        ("600m", "700m", None, 700),
        ("900m", "700m", Some(INFEASIBLE), 900),
    ] {
        let pod = resized(granted, in_force, reason);
        let cpu = pod_usage(&pod).get("cpu").millis();
        assert_eq!(cpu, millis, "granted {granted}, in force {in_force}, {reason:?}");
    }
}

#[test]
fn what_a_pod_has_as_a_whole_replaces_the_sum_for_what_it_names() {
    let spec = PodSpec {
        resources: Some(resources(&[("cpu", "2")], &[])),
        overhead: Some(list(&[("cpu", "10m")])),
        containers: vec![
            container("a", &[("cpu", "100m"), ("memory", "1Ki"), ("example.com/gpu", "1")], &[]),
            container("b", &[("memory", "2Ki"), ("example.com/gpu", "2")], &[]),
        ],
        ..PodSpec::default()
    };
    let requests = pod_requests(&spec);
    let amounts = ["cpu", "memory", "example.com/gpu"].map(|name| requests.get(name).millis());
    assert_eq!(amounts, [2010, 3 * 1024 * 1000, 3000]);
    let pod = Pod { spec: Some(spec), status: Some(PodStatus::default()), ..Pod::default() };
    assert_eq!(pod_usage(&pod), requests);
}

/// By the definition: each init container together with the sidecars before it, resource by
/// resource.
fn sum_by_definition(spec: &PodSpec) -> Amounts {
    let of = |container: &Container| requests(container.resources.as_ref());
    let mut sidecars = Amounts::default();
    let mut initializing = Amounts::default();
    for container in spec.init_containers.iter().flatten() {
        let mut own = of(container);
        if container.is_sidecar() {
            sidecars.add(&own);
            initializing.raise_to(&sidecars);
        } else {
            own.add(&sidecars);
            initializing.raise_to(&own);
        }
    }
    let mut total = sidecars;
    for container in &spec.containers {
        total.add(&of(container));
    }
    total.raise_to(&initializing);
    total
}

fn any_container() -> impl Strategy<Value = Container> {
    let amount =
        prop_oneof![Just("1"), Just("2Ki"), Just("500m"), Just("0"), Just("1e3"), Just("-1")];
    let requests = proptest::collection::btree_map("[a-d]", amount, 0..4);
    (requests, any::<bool>()).prop_map(|(requests, is_sidecar)| Container {
        resources: Some(ResourceRequirements {
            requests: Some(
                requests
                    .into_iter()
                    .map(|(name, text)| (name, ApiQuantity(text.to_owned())))
                    .collect(),
            ),
            ..ResourceRequirements::default()
        }),
        restart_policy: is_sidecar.then(|| "Always".to_owned()),
        ..Container::default()
    })
}

proptest! {
    #[test]
    fn the_sum_over_containers_is_that_of_the_definition(
        init in proptest::collection::vec(any_container(), 0..5),
        containers in proptest::collection::vec(any_container(), 0..4),
    ) {
        let spec = PodSpec { init_containers: Some(init), containers, ..PodSpec::default() };
        let of = |container: &Container| requests(container.resources.as_ref());
        prop_assert_eq!(sum_over_containers(&spec, of), sum_by_definition(&spec));
    }
}
