//! The pods of a namespace that begins to enforce more. They run on; the writer of the label is
//! warned of those that would be refused now.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use rekindle_kinds::validation::text;
use rekindle_store::RangeQuery;

use super::policy::LevelAtVersion;
use super::{controls, subject};
use crate::keys;
use crate::shared::ApiShared;
use crate::status::ApiError;

/// Pods that are checked at most, as upstream.
const PODS_MAX: usize = 3000;
/// Bytes of pods that are checked at most, so that the request stays short. Upstream limits the
/// time to one second instead.
const BYTES_MAX: usize = 16 << 20;

/// The pods that have the same violations.
struct ViolatingPods {
    /// The first of them by name.
    first: String,
    count: usize,
}

/// The warnings about the pods of a namespace; those of exempt runtime classes are left out.
pub(super) fn warnings(
    api: &ApiShared,
    namespace: &str,
    enforce: LevelAtVersion,
    exempt_classes: &BTreeSet<String>,
) -> Result<Vec<String>, ApiError> {
    let Some(entry) = api.registry.find("", "v1", "pods") else { return Ok(Vec::new()) };
    let query = RangeQuery {
        prefix: keys::collection(entry, namespace),
        limit: Some(PODS_MAX),
        ..RangeQuery::default()
    };
    let range = api.store.range(&query)?;
    let total = range.objects.len() + range.remaining;
    let (mut checked, mut bytes) = (0, 0);
    let mut violators: BTreeMap<String, ViolatingPods> = BTreeMap::new();
    for stored in &range.objects {
        bytes += stored.value.len();
        if bytes > BYTES_MAX && checked > 0 {
            break;
        }
        checked += 1;
        let Some(pod) = api.read_as::<Pod>(entry, stored)? else { continue };
        let Some(spec) = &pod.spec else { continue };
        if spec.runtime_class_name.as_ref().is_some_and(|class| exempt_classes.contains(class)) {
            continue;
        }
        let review = subject::review(Some(&pod.metadata), spec);
        let violations = controls::violations(enforce, &review);
        if violations.is_empty() {
            continue;
        }
        // objects come in the order of their names
        let first =
            || ViolatingPods { first: text(pod.metadata.name.as_ref()).to_owned(), count: 0 };
        violators.entry(controls::in_short(&violations)).or_insert_with(first).count += 1;
    }
    Ok(told(namespace, enforce, checked, total, violators))
}

fn told(
    namespace: &str,
    enforce: LevelAtVersion,
    checked: usize,
    total: usize,
    violators: BTreeMap<String, ViolatingPods>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    if checked < total {
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {checked} of {total} existing pods"
        ));
    }
    if !violators.is_empty() {
        warnings.push(format!(
            "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level \"{enforce}\""
        ));
    }
    let of_pods = violators.into_iter().map(|(why, ViolatingPods { first, count })| match count {
        1 => format!("{first}: {why}"),
        2 => format!("{first} (and 1 other pod): {why}"),
        more => format!("{first} (and {} other pods): {why}", more - 1),
    });
    let mut of_pods: Vec<String> = of_pods.collect();
    of_pods.sort_unstable();
    warnings.extend(of_pods);
    warnings
}
