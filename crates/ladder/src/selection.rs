//! Which ladder applies to a pod.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rekindle_types::Tick;
use rekindle_types::held::Pod;
use rekindle_types::v1alpha1::RestartLadder;

/// The ladder that applies: of those in the pod's namespace that select it, the oldest, then the first by name. A ladder with an
/// empty selector, and one that is being deleted, selects nothing.
pub fn select<'a>(
    ladders: impl Iterator<Item = &'a RestartLadder>,
    pod: &Pod,
) -> Option<&'a RestartLadder> {
    ladders
        .filter(|ladder| {
            ladder.metadata.namespace == pod.metadata.namespace
                && ladder.metadata.deletion_timestamp.is_none()
                && selects(&ladder.spec.selector, pod.metadata.labels.as_ref())
        })
        .min_by_key(|ladder| (created(ladder), ladder.metadata.name.as_deref()))
}

/// A ladder that was not stored yet is the youngest.
fn created(ladder: &RestartLadder) -> Tick {
    let created = ladder.metadata.creation_timestamp.as_ref();
    created.map_or(Tick::from_micros(u64::MAX), Tick::from)
}

/// Label selector semantics of the API reference, but for the empty selector. An unknown operator matches nothing.
fn selects(selector: &LabelSelector, labels: Option<&BTreeMap<String, String>>) -> bool {
    let mut pairs = selector.match_labels.iter().flatten();
    let expressions = selector.match_expressions.as_deref().unwrap_or_default();
    if selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty) && expressions.is_empty() {
        return false;
    }
    let get = |key: &str| labels.and_then(|labels| labels.get(key));
    pairs.all(|(key, value)| get(key) == Some(value))
        && expressions.iter().all(|requirement| {
            let value = get(&requirement.key);
            let listed = || {
                value.is_some_and(|value| requirement.values.iter().flatten().any(|v| v == value))
            };
            match requirement.operator.as_str() {
                "In" => listed(),
                "NotIn" => !listed(),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests;
