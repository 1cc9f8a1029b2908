//! The status of a pod, as far as a patch leaves it.

use k8s_openapi::api::core::v1::PodStatus;

/// The status without what is replaced: nearly all of it, when a node writes a status.
pub(super) fn without(status: &PodStatus, is_replaced: &dyn Fn(&str) -> bool) -> PodStatus {
    fn kept<T: Clone>(
        field: &Option<T>,
        name: &str,
        is_replaced: &dyn Fn(&str) -> bool,
    ) -> Option<T> {
        field.as_ref().filter(|_| !is_replaced(name)).cloned()
    }
    PodStatus {
        conditions: kept(&status.conditions, "conditions", is_replaced),
        container_statuses: kept(&status.container_statuses, "containerStatuses", is_replaced),
        ephemeral_container_statuses: kept(
            &status.ephemeral_container_statuses,
            "ephemeralContainerStatuses",
            is_replaced,
        ),
        init_container_statuses: kept(
            &status.init_container_statuses,
            "initContainerStatuses",
            is_replaced,
        ),
        allocated_resources: kept(&status.allocated_resources, "allocatedResources", is_replaced),
        extended_resource_claim_status: kept(
            &status.extended_resource_claim_status,
            "extendedResourceClaimStatus",
            is_replaced,
        ),
        host_ip: kept(&status.host_ip, "hostIP", is_replaced),
        host_ips: kept(&status.host_ips, "hostIPs", is_replaced),
        message: kept(&status.message, "message", is_replaced),
        node_allocatable_resource_claim_statuses: kept(
            &status.node_allocatable_resource_claim_statuses,
            "nodeAllocatableResourceClaimStatuses",
            is_replaced,
        ),
        nominated_node_name: kept(&status.nominated_node_name, "nominatedNodeName", is_replaced),
        observed_generation: kept(&status.observed_generation, "observedGeneration", is_replaced),
        phase: kept(&status.phase, "phase", is_replaced),
        pod_ip: kept(&status.pod_ip, "podIP", is_replaced),
        pod_ips: kept(&status.pod_ips, "podIPs", is_replaced),
        qos_class: kept(&status.qos_class, "qosClass", is_replaced),
        reason: kept(&status.reason, "reason", is_replaced),
        resize: kept(&status.resize, "resize", is_replaced),
        resource_claim_statuses: kept(
            &status.resource_claim_statuses,
            "resourceClaimStatuses",
            is_replaced,
        ),
        resources: kept(&status.resources, "resources", is_replaced),
        start_time: kept(&status.start_time, "startTime", is_replaced),
        volume_health: kept(&status.volume_health, "volumeHealth", is_replaced),
    }
}
