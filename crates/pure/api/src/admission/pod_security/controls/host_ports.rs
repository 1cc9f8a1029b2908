//! Ports of the node.

use std::collections::BTreeSet;

use super::wording::plural;
use super::{ControlViolation, PodUnderReview, wording};

/// Forbids to open them.
pub(super) fn host_ports(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    // in the order of their texts, as upstream tells them
    let mut ports = BTreeSet::new();
    let names = pod.containers_that(|container| {
        let opened = container.ports.iter().filter_map(|port| port.host_port);
        let count = opened.filter(|port| *port != 0).map(|port| ports.insert(port.to_string()));
        count.count() > 0
    });
    wording::violation_of_containers("hostPort", &names, |containers| {
        let uses = plural(names.len(), "uses", "use");
        let word = plural(ports.len(), "hostPort", "hostPorts");
        let ports: Vec<String> = ports.into_iter().collect();
        format!("{containers} {uses} {word} {}", ports.join(", "))
    })
}
