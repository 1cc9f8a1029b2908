//! Whether a node under pressure takes a new pod up. Source: kubelet, the eviction manager's
//! `Admit`.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Pod, Taint};
use rekindle_pod::{EvictionCause, PodEviction};
use rekindle_types::reasons::pod::AdmissionRefusal;
use rekindle_types::resources::qos_class_of;
use rekindle_types::{TickDuration, taints};

use super::figures::is_critical;
use super::messages;
use super::signal::PressureKind;

/// What the node is under.
pub(crate) type Standing = BTreeSet<PressureKind>;

/// Why the pod is not taken up, if it is not.
pub(crate) fn refusal(pod: &Pod, pressures: &Standing) -> Option<PodEviction> {
    if pressures.is_empty() || is_critical(pod) {
        return None;
    }
    let only_memory = pressures.iter().all(|pressure| *pressure == PressureKind::Memory);
    if only_memory && (qos_class_of(pod) != "BestEffort" || tolerates_memory(pod)) {
        return None;
    }
    Some(PodEviction {
        cause: EvictionCause::NotAdmitted { refusal: AdmissionRefusal::NodePressure },
        message: messages::node_had_conditions(pressures.iter().copied()),
        grace: TickDuration::ZERO,
    })
}

fn tolerates_memory(pod: &Pod) -> bool {
    let taint = Taint {
        key: taints::MEMORY_PRESSURE.to_owned(),
        effect: taints::NO_SCHEDULE.to_owned(),
        ..Taint::default()
    };
    taints::is_tolerated(taints::tolerations(pod), &taint)
}
