//! Tells who writes a ladder, or pods, that several ladders select the same pods: one of them
//! decides for these, and nothing is seen of the others until something fails.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rekindle_kinds::ladder_annotations;
use rekindle_kinds::registry::AnyObject;
use rekindle_store::{RangeQuery, StoredObject};
use rekindle_types::labels;
use rekindle_types::owners::controller_of;
use rekindle_types::v1alpha1::RestartLadder;

use super::{ObjectWrite, namespace_pods};
use crate::call::ApiCall;
use crate::keys;
use crate::selectors::{labels_of, names_of_key};
use crate::status::ApiError;

/// Ladders of a namespace that are looked at.
const LADDERS_MAX: usize = 500;
/// Ladders that are named, at most.
const NAMED_MAX: usize = 3;

/// The warnings about a ladder, about a pod that is nobody's, or about what makes pods.
pub(super) fn warnings(write: &ObjectWrite<'_>) -> Result<Vec<String>, ApiError> {
    let (call, object) = (write.call, write.new);
    Ok(match object.as_any().downcast_ref::<RestartLadder>() {
        Some(ladder) => of_ladder(call, ladder),
        None => of_pods(call, object).into_iter().collect(),
    })
}

/// The warning about annotations of a ladder that stand elsewhere than on a pod.
pub(super) fn misplaced(write: &ObjectWrite<'_>) -> Result<Vec<String>, ApiError> {
    if write.call.entry.kind == "Pod" {
        return Ok(Vec::new());
    }
    Ok(ladder_annotations::misplaced(write.new).into_iter().collect())
}

fn of_ladder(call: &ApiCall<'_>, ladder: &RestartLadder) -> Vec<String> {
    let others =
        ladders(call).into_iter().filter(|other| other.metadata.uid != ladder.metadata.uid);
    let others: Vec<Arc<RestartLadder>> = others.collect();
    // most ladders are the only one of their namespace
    let pods = if others.is_empty() { Vec::new() } else { pods(call) };
    let overlaps = others.iter().filter_map(|other| {
        let how = overlap(&ladder.spec.selector, &other.spec.selector, &pods)?;
        let name = other.metadata.name.as_deref().unwrap_or_default();
        Some(match other.seniority() < ladder.seniority() {
            true => format!("RestartLadder {name:?} is older and {how}: it decides for what both select, and this one does not"),
            false => format!("RestartLadder {name:?} is younger and {how}: this one decides for what both select, and that one does not"),
        })
    });
    overlaps.take(NAMED_MAX).collect()
}

/// What the other ladder selects that ours selects as well, now or whatever pods there will be.
fn overlap(
    ours: &LabelSelector,
    other: &LabelSelector,
    pods: &[(String, labels::Labels)],
) -> Option<String> {
    if labels::is_empty(ours) || labels::is_empty(other) {
        return None;
    }
    if labels::covers(other, ours) {
        return Some("selects all that this one selects".to_owned());
    }
    if labels::covers(ours, other) {
        return Some("all that it selects is selected by this one".to_owned());
    }
    let by_both = |labels: &labels::Labels| {
        labels::matches(ours, Some(labels)) && labels::matches(other, Some(labels))
    };
    let mut both = pods.iter().filter(|(_, labels)| by_both(labels)).map(|(name, _)| name);
    let first = both.next()?;
    Some(match both.count() {
        0 => format!("selects pod {first:?}, too"),
        more => format!("selects pod {first:?} and {more} more, too"),
    })
}

/// A word about new pods that several ladders select. What a controller makes was warned of when
/// its template was written.
fn of_pods(call: &ApiCall<'_>, object: &dyn AnyObject) -> Option<String> {
    if controller_of(object.meta()).is_some() {
        return None;
    }
    let template = match call.entry.kind.as_ref() {
        "Pod" => None,
        "CronJob" => Some("/spec/jobTemplate/spec/template/metadata/labels"),
        "DaemonSet"
        | "Deployment"
        | "Job"
        | "ReplicaSet"
        | "ReplicationController"
        | "StatefulSet" => Some("/spec/template/metadata/labels"),
        _ => return None,
    };
    let mut ladders = ladders(call);
    if ladders.len() < 2 {
        return None;
    }
    let labels: labels::Labels = match template {
        None => object.meta().labels.clone().unwrap_or_default(),
        Some(path) => {
            let object = object.to_value();
            let labels = object.pointer(path)?.as_object()?;
            let text = |(key, value): (&String, &serde_json::Value)| {
                Some((key.clone(), value.as_str()?.to_owned()))
            };
            labels.iter().filter_map(text).collect()
        }
    };
    ladders.retain(|ladder| ladder.selects(Some(&labels)));
    ladders.sort_by(|one, other| one.seniority().cmp(&other.seniority()));
    let names = ladders.iter().filter_map(|ladder| ladder.metadata.name.as_deref());
    let names: Vec<String> = names.map(|name| format!("{name:?}")).collect();
    let [oldest, _, ..] = names.as_slice() else { return None };
    let (pods, shown) =
        (if template.is_some() { "its pods" } else { "it" }, names.len().min(NAMED_MAX));
    let more = match names.len() - shown {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown = names[..shown].join(", ");
    Some(format!(
        "RestartLadders {shown}{more} select {pods}: {oldest} decides, which is the oldest, and the others do not"
    ))
}

/// The ladders of the namespace that are not being deleted.
fn ladders(call: &ApiCall<'_>) -> Vec<Arc<RestartLadder>> {
    let Some(entry) = call.api.registry.find_kind("rekindle.dev", "RestartLadder") else {
        return Vec::new();
    };
    let query = RangeQuery {
        prefix: keys::collection(entry, &call.path.namespace),
        limit: Some(LADDERS_MAX),
        ..RangeQuery::default()
    };
    let Ok(range) = call.api.store.range(&query) else { return Vec::new() };
    let read = |stored: &Arc<StoredObject>| {
        call.api.read_as::<RestartLadder>(entry, stored).ok().flatten()
    };
    let ladders = range.objects.iter().filter_map(read);
    ladders.filter(|ladder| ladder.metadata.deletion_timestamp.is_none()).collect()
}

/// The pods of the namespace with their labels; none when they are too many.
fn pods(call: &ApiCall<'_>) -> Vec<(String, labels::Labels)> {
    let Some((entry, pods)) = namespace_pods::listed(call) else { return Vec::new() };
    let named = |stored: &Arc<StoredObject>| {
        let (_, name) = names_of_key(entry, stored.key.as_str());
        (name.to_owned(), labels_of(&stored.value))
    };
    pods.iter().map(named).collect()
}
