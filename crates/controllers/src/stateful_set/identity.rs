//! What a pod of a StatefulSet is known by: its ordinal, and the names and labels that follow from it.

use std::ops::Range;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::revisions;

/// The label that holds the pod's name.
pub(super) const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
/// The label that holds the ordinal.
pub(super) const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// The set's name.
pub(super) fn set_name(set: &StatefulSet) -> &str {
    set.metadata.name.as_deref().unwrap_or_default()
}

/// The ordinals that the set wants.
pub(super) fn ordinals(set: &StatefulSet) -> Range<i32> {
    let start = set.spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0);
    start..start.saturating_add(set.spec.replicas.unwrap_or(1).max(0))
}

/// The ordinal of a pod, if its name is one of the set's. `web-01` is none: `web-1` would be a second pod of ordinal 1.
pub(super) fn ordinal_of(set: &StatefulSet, pod: &ObjectMeta) -> Option<i32> {
    let digits = pod.name.as_deref()?.strip_prefix(set_name(set))?.strip_prefix('-')?;
    let is_plain = digits.bytes().all(|digit| digit.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'));
    digits.parse().ok().filter(|_| is_plain)
}

/// The name of the pod of an ordinal.
pub(super) fn pod_name(set: &StatefulSet, ordinal: i32) -> String {
    format!("{}-{ordinal}", set_name(set))
}

/// The name of the revision that a pod was made from, or empty.
pub(super) fn revision_of(pod: &Pod) -> &str {
    revisions::hash_of(pod.metadata.labels.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_plain_number_behind_the_sets_name_is_an_ordinal() {
        let named = |name: &str| ObjectMeta { name: Some(name.to_owned()), ..Default::default() };
        let set = StatefulSet { metadata: named("web"), ..Default::default() };
        for (pod, expected) in [
            ("web-0", Some(0)),
            ("web-12", Some(12)),
            ("web-01", None),
            ("web-+1", None),
            ("web--1", None),
            ("web-0-0", None),
            ("web", None),
            ("other-0", None),
            ("web-99999999999", None),
        ] {
            assert_eq!(ordinal_of(&set, &named(pod)), expected, "{pod}");
        }
    }
}
