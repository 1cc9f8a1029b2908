//! The Node object as the agent writes it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    ContainerImage, Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeFeatures,
    NodeRuntimeHandler, NodeRuntimeHandlerFeatures, NodeSpec, NodeStatus,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::Quantity;

use super::machine::{MachineFacts, architecture};
use crate::config::NodeConfig;

/// The labels that every node carries, and those of the configuration.
pub(crate) fn labels(config: &NodeConfig) -> BTreeMap<String, String> {
    let mut labels = config.labels.clone();
    labels.extend(rekindle_types::labels::default_node_labels(&config.name, architecture()));
    labels
}

/// The whole object, to be created.
pub(crate) fn node_object(config: &NodeConfig, status: NodeStatus) -> Node {
    Node {
        metadata: ObjectMeta {
            name: Some(config.name.clone()),
            labels: Some(labels(config)),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            pod_cidr: config.pod_cidrs.first().cloned(),
            pod_cidrs: Some(config.pod_cidrs.clone()).filter(|cidrs| !cidrs.is_empty()),
            ..NodeSpec::default()
        }),
        status: Some(status),
    }
}

/// The status with these conditions.
pub(crate) fn node_status(
    config: &NodeConfig,
    machine: &MachineFacts,
    conditions: Vec<NodeCondition>,
    images: Vec<ContainerImage>,
) -> NodeStatus {
    NodeStatus {
        addresses: Some(addresses(config)),
        allocatable: Some(amounts(&machine.allocatable)),
        capacity: Some(amounts(&machine.capacity)),
        conditions: Some(conditions),
        daemon_endpoints: Some(NodeDaemonEndpoints::default()),
        features: Some(NodeFeatures { supplemental_groups_policy: Some(true) }),
        runtime_handlers: Some(vec![NodeRuntimeHandler {
            name: Some(String::new()),
            features: Some(NodeRuntimeHandlerFeatures {
                recursive_read_only_mounts: Some(true),
                user_namespaces: Some(maps_ids(&machine.info.kernel_version)),
            }),
        }]),
        images: (!images.is_empty()).then_some(images), // as the API omits an empty list
        node_info: Some(machine.info.clone()),
        ..NodeStatus::default()
    }
}

/// Whether the kernel shows every file system of ours by other ids: tmpfs came last, in Linux 6.3.
fn maps_ids(kernel: &str) -> bool {
    let mut numbers = kernel.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().ok());
    let version: (Option<u32>, Option<u32>) = (numbers.next().flatten(), numbers.next().flatten());
    version >= (Some(6), Some(3))
}

fn addresses(config: &NodeConfig) -> Vec<NodeAddress> {
    let of_type = |type_: &str, address: String| NodeAddress { type_: type_.to_owned(), address };
    let internal = config.addresses.iter().map(|ip| of_type("InternalIP", ip.to_string()));
    let external = config.external_address.map(|ip| of_type("ExternalIP", ip.to_string()));
    internal.chain(external).chain([of_type("Hostname", config.name.clone())]).collect()
}

fn amounts(resources: &BTreeMap<String, Quantity>) -> BTreeMap<String, ApiQuantity> {
    resources.iter().map(|(name, amount)| (name.clone(), ApiQuantity(amount.to_string()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_map_the_ids_of_all_file_systems_from_6_3_on() {
        for (kernel, expected) in [
            ("6.18.44-fc-v595", true),
            ("6.3.0", true),
            ("10.0", true),
            ("6.2.16-3-pve", false),
            ("5.15.0-100-generic", false),
            ("", false),
        ] {
            assert_eq!(maps_ids(kernel), expected, "{kernel:?}");
        }
    }
}
