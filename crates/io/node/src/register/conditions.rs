//! The node's conditions, with the kubelet's reasons and messages.

use k8s_openapi::api::core::v1::NodeCondition;
use rekindle_types::Tick;

use crate::eviction::{PressureKind, Standing};

/// The condition that says whether the node takes and runs pods.
const READY: &str = "Ready";

/// Whether the node is fit to run pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeFitness {
    Ready,
    /// It stops, and has ended its pods.
    ShuttingDown,
}

/// What the conditions say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConditionInputs {
    pub(crate) fitness: NodeFitness,
    pub(crate) pressures: Standing,
}

/// Whether this is a condition of the agent, or of somebody else who looks after the node.
pub(crate) fn is_own(kind: &str) -> bool {
    let pressures = [PressureKind::Memory, PressureKind::Disk, PressureKind::Pid];
    kind == READY || pressures.into_iter().any(|pressure| pressure.condition() == kind)
}

/// The conditions; `since` of one that was so before is kept.
pub(crate) fn conditions(
    now: Tick,
    shown: &ConditionInputs,
    before: &[NodeCondition],
) -> Vec<NodeCondition> {
    let pressure = |pressure: PressureKind, yes: (&str, &str), no: (&str, &str)| {
        let there = shown.pressures.contains(&pressure);
        let (reason, message) = if there { yes } else { no };
        condition(now, before, pressure.condition(), there, reason, message)
    };
    vec![
        pressure(
            PressureKind::Memory,
            ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
            ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ),
        pressure(
            PressureKind::Disk,
            ("KubeletHasDiskPressure", "kubelet has disk pressure"),
            ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ),
        pressure(
            PressureKind::Pid,
            ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
            ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ),
        match shown.fitness {
            NodeFitness::Ready => condition(
                now,
                before,
                READY,
                true,
                "KubeletReady",
                "kubelet is posting ready status",
            ),
            NodeFitness::ShuttingDown => {
                condition(now, before, READY, false, "KubeletNotReady", "node is shutting down")
            }
        },
    ]
}

fn condition(
    now: Tick,
    before: &[NodeCondition],
    kind: &str,
    is_true: bool,
    reason: &str,
    message: &str,
) -> NodeCondition {
    let status = if is_true { "True" } else { "False" };
    let same = before.iter().find(|known| known.type_ == kind && known.status == status);
    NodeCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_heartbeat_time: Some(now.to_time()),
        last_transition_time: same
            .and_then(|known| known.last_transition_time.clone())
            .or_else(|| Some(now.to_time())),
    }
}
