//! The status of a pod, as far as a patch leaves it.

use k8s_openapi::api::core::v1::PodStatus;

/// The status without what is replaced. Its lists are nearly all of it, and a node that writes a status replaces them.
pub(super) fn without(status: &PodStatus, is_replaced: &dyn Fn(&str) -> bool) -> PodStatus {
    fn kept<T: Clone>(
        list: &Option<Vec<T>>,
        name: &str,
        is_replaced: &dyn Fn(&str) -> bool,
    ) -> Option<Vec<T>> {
        list.as_ref().filter(|_| !is_replaced(name)).cloned()
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
        allocated_resources: status.allocated_resources.clone(),
        extended_resource_claim_status: status.extended_resource_claim_status.clone(),
        host_ip: status.host_ip.clone(),
        host_ips: status.host_ips.clone(),
        message: status.message.clone(),
        node_allocatable_resource_claim_statuses: status
            .node_allocatable_resource_claim_statuses
            .clone(),
        nominated_node_name: status.nominated_node_name.clone(),
        observed_generation: status.observed_generation,
        phase: status.phase.clone(),
        pod_ip: status.pod_ip.clone(),
        pod_ips: status.pod_ips.clone(),
        qos_class: status.qos_class.clone(),
        reason: status.reason.clone(),
        resize: status.resize.clone(),
        resource_claim_statuses: status.resource_claim_statuses.clone(),
        resources: status.resources.clone(),
        start_time: status.start_time.clone(),
        volume_health: status.volume_health.clone(),
    }
}
