//! What a pod of a StatefulSet is known by: its ordinal, and the names and labels that follow from
//! it.

use std::ops::Range;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::held::HeldPod;
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

/// The ordinal of a pod, if its name is one of the set's.
pub(super) fn ordinal_of(set: &StatefulSet, pod: &ObjectMeta) -> Option<i32> {
    ordinal_in(set, pod.name.as_deref()?)
}

/// The same of a pod's name. `web-01` is none: `web-1` would be a second pod of ordinal 1.
pub(super) fn ordinal_in(set: &StatefulSet, pod_name: &str) -> Option<i32> {
    let [b'-', digits @ ..] = pod_name.as_bytes().strip_prefix(set_name(set).as_bytes())? else {
        return None;
    };
    match digits {
        [] | [b'0', _, ..] => None,
        _ => digits.iter().try_fold(0i32, |ordinal, digit| {
            let digit = digit.is_ascii_digit().then(|| i32::from(digit - b'0'))?;
            ordinal.checked_mul(10)?.checked_add(digit)
        }),
    }
}

/// The name of the pod of an ordinal.
pub(super) fn pod_name(set: &StatefulSet, ordinal: i32) -> String {
    format!("{}-{ordinal}", set_name(set))
}

/// The name of the revision that a pod was made from, or empty.
pub(super) fn revision_of(pod: &HeldPod) -> &str {
    revisions::hash_of(pod.metadata.labels.as_ref())
}

/// What the labels of a pod say of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MemberLabels<'a> {
    /// As [`revision_of`].
    pub(super) revision: &'a str,
    name: Option<&'a str>,
    index: Option<&'a str>,
}

impl<'a> MemberLabels<'a> {
    /// One walk through the labels.
    pub(super) fn from_pod(pod: &'a HeldPod) -> Self {
        let mut marks = Self::default();
        for (key, value) in pod.metadata.labels.iter().flatten() {
            match key.as_str() {
                revisions::HASH_LABEL => marks.revision = value,
                POD_NAME => marks.name = Some(value),
                POD_INDEX => marks.index = Some(value),
                _ => {} // of the template
            }
        }
        marks
    }

    /// True when they say its name and its ordinal, which ends the name.
    pub(super) fn are_complete(&self, pod: &HeldPod) -> bool {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let ordinal = name.rsplit_once('-').map(|(_, ordinal)| ordinal);
        self.name == Some(name) && ordinal.is_some() && self.index == ordinal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_labels_of_a_pod_are_complete_when_they_say_its_name_and_its_ordinal() {
        let name = ("statefulset.kubernetes.io/pod-name", "my-web-12");
        let index = ("apps.kubernetes.io/pod-index", "12");
        for (labels, expected) in [
            (vec![name, index], true),
            (vec![name, index, ("app", "web")], true),
            (vec![name], false),
            (vec![index], false),
            (vec![name, (index.0, "2")], false),
            (vec![name, (index.0, "web-12")], false),
            (vec![name, (index.0, "")], false),
            (vec![(name.0, "my-web-1"), index], false),
            (vec![], false),
        ] {
            let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            let metadata = ObjectMeta {
                name: Some("my-web-12".to_owned()),
                labels: Some(labels.iter().map(owned).collect()),
                ..ObjectMeta::default()
            };
            let pod = HeldPod { metadata, ..HeldPod::default() };
            assert_eq!(MemberLabels::from_pod(&pod).are_complete(&pod), expected, "{labels:?}");
        }
    }

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
            ("web-", None),
            ("web-1x", None),
            ("web-2147483647", Some(i32::MAX)),
            ("web-2147483648", None),
            ("web-99999999999", None),
        ] {
            assert_eq!(ordinal_of(&set, &named(pod)), expected, "{pod}");
        }
    }
}
