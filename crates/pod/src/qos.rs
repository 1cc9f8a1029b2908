//! `status.qosClass`, when the API has not written it yet [API reference of pod quality of service classes].

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use rekindle_types::Quantity;

/// The class of a pod: the API's, or else that of its spec.
pub fn qos_class_of(pod: &Pod) -> &str {
    let written = pod.status.as_ref().and_then(|status| status.qos_class.as_deref());
    written.or_else(|| pod.spec.as_ref().map(qos_class)).unwrap_or("BestEffort")
}

const RESOURCES: [&str; 2] = ["cpu", "memory"];

/// Guaranteed: every container limits CPU and memory, and requests what it limits. BestEffort: none requests or limits either.
pub(crate) fn qos_class(spec: &PodSpec) -> &'static str {
    let containers = || spec.containers.iter().chain(spec.init_containers.iter().flatten());
    if containers().all(is_unbounded) {
        "BestEffort"
    } else if containers().all(is_guaranteed) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

fn is_unbounded(container: &Container) -> bool {
    RESOURCES
        .iter()
        .all(|name| limit(container, name).is_none() && request(container, name).is_none())
}

fn is_guaranteed(container: &Container) -> bool {
    RESOURCES.iter().all(|name| match (limit(container, name), request(container, name)) {
        (Some(limit), Some(request)) => limit.millis() == request.millis(),
        // An absent request is the limit.
        (Some(_), None) => true,
        (None, _) => false,
    })
}

fn limit(container: &Container, name: &str) -> Option<Quantity> {
    amount(container.resources.as_ref()?.limits.as_ref()?, name)
}

fn request(container: &Container, name: &str) -> Option<Quantity> {
    amount(container.resources.as_ref()?.requests.as_ref()?, name)
}

/// Zero is no request and no limit; what cannot be read was refused by the API.
fn amount(list: &BTreeMap<String, ApiQuantity>, name: &str) -> Option<Quantity> {
    let quantity: Quantity = list.get(name)?.0.parse().ok()?;
    Some(quantity).filter(|quantity| !quantity.is_zero())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ResourceRequirements;

    use super::*;

    type Amounts = &'static [(&'static str, &'static str)];

    fn container(requests: Amounts, limits: Amounts) -> Container {
        let list = |amounts: Amounts| {
            let pairs =
                amounts.iter().map(|(n, q)| ((*n).to_owned(), ApiQuantity((*q).to_owned())));
            Some(pairs.collect::<BTreeMap<_, _>>())
        };
        let resources = ResourceRequirements {
            requests: list(requests),
            limits: list(limits),
            ..ResourceRequirements::default()
        };
        Container { resources: Some(resources), ..Container::default() }
    }

    #[test]
    fn classes_follow_requests_and_limits_of_all_containers() {
        let none: Amounts = &[];
        let both: Amounts = &[("cpu", "100m"), ("memory", "64Mi")];
        let same_in_other_words: Amounts = &[("cpu", "0.1"), ("memory", "67108864")];
        let cpu: Amounts = &[("cpu", "1")];
        let zero: Amounts = &[("cpu", "0")];
        for (containers, class) in [
            (vec![container(none, none)], "BestEffort"),
            (vec![container(zero, none)], "BestEffort"),
            (vec![container(both, both)], "Guaranteed"),
            (vec![container(same_in_other_words, both)], "Guaranteed"),
            (vec![container(none, both)], "Guaranteed"),
            (vec![container(both, none)], "Burstable"),
            (vec![container(none, cpu)], "Burstable"),
            (vec![container(both, both), container(none, none)], "Burstable"),
        ] {
            let spec = PodSpec { containers, ..PodSpec::default() };
            assert_eq!(qos_class(&spec), class, "{spec:?}");
        }
    }
}
