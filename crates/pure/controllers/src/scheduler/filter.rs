//! Whether a pod fits a node, and how well. Reasons are worded as upstream's plugins word them.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::Node;
use rekindle_types::held::HeldPod;
use rekindle_types::nodes;

use super::candidate::SCORE_MAX;
use super::refusal::{NodeRefusal, RefusalRemedy};
use super::{affinity, taints};
use crate::cluster::{NodeState, ResourceAmounts};

/// Taints are not named, so that nodes with different ones are counted together (upstream since
/// 1.34).
const UNTOLERATED: &str = "node(s) had untolerated taint(s)";

/// Why the pod may not go to the node, whatever else is there.
pub(super) fn placement_refusal(
    pod: &HeldPod,
    node: &Node,
    state: &NodeState,
) -> Option<NodeRefusal> {
    if !state.is_open()
        && let Some(refusal) = closed(pod, node, state)
    {
        return Some(refusal);
    }
    let matches = affinity::matches(pod, node);
    (!matches).then(|| NodeRefusal::final_for("node(s) didn't match Pod's node affinity/selector"))
}

fn closed(pod: &HeldPod, node: &Node, state: &NodeState) -> Option<NodeRefusal> {
    if nodes::is_cordoned(node) && !taints::tolerates_unschedulable(pod) {
        return Some(NodeRefusal::final_for("node(s) were unschedulable"));
    }
    if !state.is_ready() && !taints::tolerates_not_ready(pod) {
        return Some(NodeRefusal::final_for(UNTOLERATED));
    }
    taints::first_untolerated(pod, node).map(|_| NodeRefusal::final_for(UNTOLERATED))
}

/// Why there is no room, if there is none.
pub(super) fn shortages(
    requests: &ResourceAmounts,
    allocatable: &ResourceAmounts,
    used: &ResourceAmounts,
) -> Option<NodeRefusal> {
    let is_full = used.pods + 1 > allocatable.pods
        || is_short(requests.cpu_millis, allocatable.cpu_millis, used.cpu_millis)
        || is_short(requests.memory_bytes, allocatable.memory_bytes, used.memory_bytes)
        || is_short(requests.storage_bytes, allocatable.storage_bytes, used.storage_bytes)
        || requests
            .others
            .iter()
            .any(|(name, wanted)| is_short(*wanted, allocatable.other(name), used.other(name)));
    is_full.then(|| explain_shortages(requests, allocatable, used))
}

const fn is_short(wanted: i128, has: i128, taken: i128) -> bool {
    wanted > 0 && wanted > has - taken
}

/// Every resource that is short. One of which the node has too little for the pod alone is short
/// whatever ends there.
fn explain_shortages(
    requests: &ResourceAmounts,
    allocatable: &ResourceAmounts,
    used: &ResourceAmounts,
) -> NodeRefusal {
    let mut reasons: Vec<Cow<'static, str>> = Vec::new();
    let mut cure = RefusalRemedy::PodsEnd;
    if used.pods + 1 > allocatable.pods {
        reasons.push("Too many pods".into());
    }
    let mut check = |name: &dyn Fn() -> Cow<'static, str>, wanted: i128, has: i128, taken: i128| {
        if is_short(wanted, has, taken) {
            reasons.push(name());
            if wanted > has {
                cure = RefusalRemedy::Nothing;
            }
        }
    };
    let of_cpu = || "Insufficient cpu".into();
    check(&of_cpu, requests.cpu_millis, allocatable.cpu_millis, used.cpu_millis);
    let of_memory = || "Insufficient memory".into();
    check(&of_memory, requests.memory_bytes, allocatable.memory_bytes, used.memory_bytes);
    let of_storage = || "Insufficient ephemeral-storage".into();
    check(&of_storage, requests.storage_bytes, allocatable.storage_bytes, used.storage_bytes);
    for (name, wanted) in &requests.others {
        let of_other = || format!("Insufficient {name}").into();
        check(&of_other, *wanted, allocatable.other(name), used.other(name));
    }
    NodeRefusal::for_all(reasons, cure)
}

/// What a node has and has free is within 64 bits, where division is quick; of what is asked for
/// beyond that, that it is too much is enough.
fn in_64_bits(amount: i128) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

/// How much of CPU and memory stays free, 0..=200: upstream's LeastAllocated, for which a container
/// that asks for nothing counts with a little. On equal terms fewer pods.
pub(super) fn free_share(state: &NodeState, requests: &ResourceAmounts) -> i64 {
    let (has, used) = (state.allocatable(), state.used());
    let share = |has: i128, taken: i128, wanted: i128| {
        let (has, free) = (in_64_bits(has), in_64_bits((has - taken - wanted).max(0)));
        if has <= 0 { 0 } else { free.saturating_mul(100) / has }
    };
    let (there, wanted) = (&used.nonzero, &requests.nonzero);
    let resources = share(has.cpu_millis, there.cpu_millis, wanted.cpu_millis)
        + share(has.memory_bytes, there.memory_bytes, wanted.memory_bytes);
    resources * 1000 + share(has.pods, used.pods, requests.pods)
}

/// How much more even the use of CPU and memory gets by the pod, 0..=100, by what is really asked
/// for; 0 for all nodes when it asks for neither [kube-scheduler, NodeResourcesBalancedAllocation,
/// since 1.36 by the difference that the pod makes].
pub(super) fn balance(state: &NodeState, requests: &ResourceAmounts) -> i64 {
    let (wanted, has, used) = (requests, state.allocatable(), state.used());
    if wanted.cpu_millis == 0 && wanted.memory_bytes == 0 {
        return 0;
    }
    let before = evenness((used.cpu_millis, has.cpu_millis), (used.memory_bytes, has.memory_bytes));
    let after = evenness(
        (used.cpu_millis + wanted.cpu_millis, has.cpu_millis),
        (used.memory_bytes + wanted.memory_bytes, has.memory_bytes),
    );
    (SCORE_MAX + (SCORE_MAX / 2 + after - before)) / 2
}

/// 100 when as much of the CPU is used as of the memory, less the further they are apart. What the
/// node has none of does not count.
#[expect(clippy::cast_possible_truncation, reason = "0..=100 by construction")]
#[expect(
    clippy::cast_precision_loss,
    reason = "amounts are far below 2^52, or a share of them is all that counts"
)]
fn evenness(cpu: (i128, i128), memory: (i128, i128)) -> i64 {
    if cpu.1 <= 0 || memory.1 <= 0 {
        return SCORE_MAX;
    }
    let share =
        |(used, has): (i128, i128)| (in_64_bits(used) as f64 / in_64_bits(has) as f64).min(1.0);
    let deviation = (share(cpu) - share(memory)).abs() / 2.0;
    ((1.0 - deviation) * SCORE_MAX as f64) as i64
}
