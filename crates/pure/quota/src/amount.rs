//! The names in `spec.hard`, and what each of them means.

use crate::counted::CountedResource;

const CLASS_SUFFIX: &str = ".storageclass.storage.k8s.io/";
const COUNT_PREFIX: &str = "count/";
const REQUESTS_PREFIX: &str = "requests.";
const LIMITS_PREFIX: &str = "limits.";
const HUGE_PAGES_PREFIX: &str = "hugepages-";
/// Devices that a pod asks for as if they were an extended resource (KEP-5004).
const DEVICE_CLASS_PREFIX: &str = "deviceclass.resource.kubernetes.io/";
/// What a quota can bound of a pod's requests under their plain names.
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Kinds of the core group that are counted under their plain names, too.
const PLAIN_COUNTS: [&str; 4] =
    ["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];

/// What a name in `spec.hard` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaAmount<'n> {
    /// Objects of a resource, whatever their state.
    Objects(CountedResource<'n>),
    /// Pods that are not over.
    LivePods,
    /// What those pods ask for of a resource.
    Requests(&'n str),
    /// What those pods may use of a resource at most.
    Limits(&'n str),
    /// Ports of the nodes that Services take.
    NodePorts,
    /// Services of type LoadBalancer.
    LoadBalancers,
    /// What claims ask for.
    Storage,
    /// Claims of a storage class.
    ClaimsOfClass(&'n str),
    /// What the claims of a storage class ask for.
    StorageOfClass(&'n str),
}

impl<'n> QuotaAmount<'n> {
    /// What a name means; none when no object is counted under it.
    pub fn of_name(name: &'n str) -> Option<Self> {
        if let Some(resource) = name.strip_prefix(COUNT_PREFIX) {
            let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
            let resource = CountedResource { group, plural };
            return (!resource.is_ignored()).then_some(Self::Objects(resource));
        }
        if let Some((class, amount)) = name.split_once(CLASS_SUFFIX) {
            return match amount {
                "persistentvolumeclaims" => Some(Self::ClaimsOfClass(class)),
                "requests.storage" => Some(Self::StorageOfClass(class)),
                _ => None,
            };
        }
        match name {
            "pods" => Some(Self::LivePods),
            "services" => Some(Self::Objects(CountedResource::SERVICES)),
            "services.nodeports" => Some(Self::NodePorts),
            "services.loadbalancers" => Some(Self::LoadBalancers),
            "persistentvolumeclaims" => Some(Self::Objects(CountedResource::CLAIMS)),
            "requests.storage" => Some(Self::Storage),
            plain if PLAIN_COUNTS.contains(&plain) => {
                Some(Self::Objects(CountedResource::of_core(plain)))
            }
            _ => Self::of_compute(name),
        }
    }

    fn of_compute(name: &'n str) -> Option<Self> {
        if COMPUTE.contains(&name) || name.starts_with(HUGE_PAGES_PREFIX) {
            return Some(Self::Requests(name));
        }
        if let Some(resource) = name.strip_prefix(LIMITS_PREFIX) {
            return COMPUTE.contains(&resource).then_some(Self::Limits(resource));
        }
        let resource = name.strip_prefix(REQUESTS_PREFIX)?;
        let is_counted = COMPUTE.contains(&resource)
            || resource.starts_with(HUGE_PAGES_PREFIX)
            || resource.starts_with(DEVICE_CLASS_PREFIX)
            || is_extended(resource);
        is_counted.then_some(Self::Requests(resource))
    }

    /// The resource that it counts objects of.
    pub const fn resource(self) -> CountedResource<'n> {
        match self {
            Self::Objects(resource) => resource,
            Self::LivePods | Self::Requests(_) | Self::Limits(_) => CountedResource::PODS,
            Self::NodePorts | Self::LoadBalancers => CountedResource::SERVICES,
            Self::Storage | Self::ClaimsOfClass(_) | Self::StorageOfClass(_) => {
                CountedResource::CLAIMS
            }
        }
    }
}

/// Whether a resource is neither Kubernetes' own nor without a domain.
fn is_extended(resource: &str) -> bool {
    resource.contains('/') && !resource.contains("kubernetes.io/")
}

/// Whether a name without a domain is one that a quota may have.
pub fn is_standard_name(name: &str) -> bool {
    match QuotaAmount::of_name(name) {
        Some(
            QuotaAmount::Objects(_)
            | QuotaAmount::LivePods
            | QuotaAmount::Limits(_)
            | QuotaAmount::NodePorts
            | QuotaAmount::LoadBalancers
            | QuotaAmount::Storage
            | QuotaAmount::Requests(_),
        ) => !name.contains('/'),
        Some(QuotaAmount::ClaimsOfClass(_) | QuotaAmount::StorageOfClass(_)) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_what_the_documentation_says() {
        use QuotaAmount::{
            ClaimsOfClass, Limits, LivePods, LoadBalancers, NodePorts, Objects, Requests, Storage,
            StorageOfClass,
        };
        let objects = |group, plural| Some(Objects(CountedResource { group, plural }));
        for (name, meaning) in [
            ("pods", Some(LivePods)),
            ("count/pods", objects("", "pods")),
            ("count/deployments.apps", objects("apps", "deployments")),
            ("count/widgets.shop.example.com", objects("shop.example.com", "widgets")),
            ("secrets", objects("", "secrets")),
            ("services", objects("", "services")),
            ("cpu", Some(Requests("cpu"))),
            ("requests.cpu", Some(Requests("cpu"))),
            ("limits.memory", Some(Limits("memory"))),
            ("requests.ephemeral-storage", Some(Requests("ephemeral-storage"))),
            ("hugepages-2Mi", Some(Requests("hugepages-2Mi"))),
            ("requests.hugepages-2Mi", Some(Requests("hugepages-2Mi"))),
            ("requests.nvidia.com/gpu", Some(Requests("nvidia.com/gpu"))),
            (
                "requests.deviceclass.resource.kubernetes.io/gpu",
                Some(Requests("deviceclass.resource.kubernetes.io/gpu")),
            ),
            ("services.nodeports", Some(NodePorts)),
            ("services.loadbalancers", Some(LoadBalancers)),
            ("requests.storage", Some(Storage)),
            ("gold.storageclass.storage.k8s.io/requests.storage", Some(StorageOfClass("gold"))),
            (
                "gold.storageclass.storage.k8s.io/persistentvolumeclaims",
                Some(ClaimsOfClass("gold")),
            ),
            // counted under no name
            ("limits.nvidia.com/gpu", None),
            ("nvidia.com/gpu", None),
            ("requests.kubernetes.io/odd", None),
            ("count/events", None),
            ("count/events.events.k8s.io", None),
            ("deployments", None),
        ] {
            assert_eq!(QuotaAmount::of_name(name), meaning, "{name}");
        }
    }

    #[test]
    fn names_with_a_domain_are_not_standard_ones() {
        for name in ["pods", "cpu", "limits.cpu", "requests.hugepages-1Gi", "secrets", "services"] {
            assert!(is_standard_name(name), "{name}");
        }
        for name in ["count/pods", "requests.nvidia.com/gpu", "storage", "widgets"] {
            assert!(!is_standard_name(name), "{name}");
        }
    }
}
