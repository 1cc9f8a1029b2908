//! Annotations of pods that are not ours and that several crates look at.

use std::collections::BTreeMap;

use crate::pods::AnyPod;

/// On a pod that stands in the API for one of its node's own files. Its value names the file's
/// content.
pub const MIRROR: &str = "kubernetes.io/config.mirror";
/// What cluster-autoscaler asks; `"true"` lets a pod be evicted whatever it is, `"false"` keeps its
/// node.
pub const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";

/// How dear a pod is when its ReplicaSet has too many: a 32-bit integer, 0 unless given.
pub const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// What [`DELETION_COST`] says; `None` when that is no number as upstream takes it, without a plus
/// and without zeros before it.
pub fn deletion_cost(annotations: Option<&BTreeMap<String, String>>) -> Option<i32> {
    let Some(text) = annotations.and_then(|all| all.get(DELETION_COST)) else { return Some(0) };
    let is_odd = text.starts_with('+') || (text.starts_with('0') && text != "0");
    if is_odd { None } else { text.parse().ok() }
}

/// True for a pod that stands in the API for one of its node's own files.
pub fn is_mirror(pod: &impl AnyPod) -> bool {
    pod.metadata().annotations.as_ref().is_some_and(|all| all.contains_key(MIRROR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_cost_is_a_plain_number() {
        let cost = |text: &str| {
            deletion_cost(Some(&BTreeMap::from([(DELETION_COST.to_owned(), text.to_owned())])))
        };
        assert_eq!(deletion_cost(None), Some(0));
        for (text, expected) in
            [("0", 0), ("-10", -10), ("2147483647", i32::MAX), ("-2147483648", i32::MIN)]
        {
            assert_eq!(cost(text), Some(expected), "{text}");
        }
        for text in ["", "low", "+5", "05", "1.5", " 1", "2147483648"] {
            assert_eq!(cost(text), None, "{text:?}");
        }
    }
}
