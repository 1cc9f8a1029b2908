//! Pods that their node refused for a kernel setting or a port, or that its labels or taints exclude though their template names it. The next
//! one asks for the same and is refused as well: without a pause their controller would make them in a circle, as upstream's does
//! (kubernetes/kubernetes#72593).

use std::sync::Arc;

use rekindle_types::held::Pod;
use rekindle_types::{Tick, node_affinity, node_ports, sysctls, taints};

use crate::{failed_pods, pods};

/// Reasons that are true of the next pod, too.
const REASONS: [&str; 4] =
    [sysctls::FORBIDDEN, node_affinity::REFUSED, node_ports::REFUSED, taints::REFUSED];

/// True when the pod was refused.
pub(crate) fn is_refused(pod: &Pod) -> bool {
    let reason = pod.status.as_ref().and_then(|status| status.reason.as_deref());
    pods::phase(pod) == "Failed" && reason.is_some_and(|reason| REASONS.contains(&reason))
}

/// Until when no further pod is made, in view of these: 10 s after the first that was refused, doubled with each that follows, at most
/// 10 minutes.
pub(crate) fn held_until<'a>(pods: impl Iterator<Item = &'a Arc<Pod>>) -> Option<Tick> {
    let refused = pods.filter(|pod| is_refused(pod));
    failed_pods::next_after(refused.map(|pod| failed_pods::finished_at(pod)))
}
