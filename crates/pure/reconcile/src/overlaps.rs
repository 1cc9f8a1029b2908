//! Ladders that select the same pods: the oldest decides for these, and nothing would be seen of
//! the others until something fails. The younger one says so in its status, and in an Event when
//! that is news. Our API warns who writes one; other APIs do not. Pure, as the controllers are.

use rekindle_controllers::{ClusterView, NamespacedName, ObjectChange, ResourceKind, ViewObject};
use rekindle_types::labels::{self, Labels};
use rekindle_types::v1alpha1::RestartLadder;

use crate::policies::ladders;

/// Ladders that are named, at most.
const NAMED_MAX: usize = 3;

/// What is said of a ladder with older ones that select pods of its; none when there are none.
pub(crate) fn overlap_warning(view: &ClusterView, ladder: &RestartLadder) -> Option<String> {
    if !ladder.is_at_work() {
        return None;
    }
    let namespace = ladder.metadata.namespace.as_deref().unwrap_or_default();
    let mut older: Vec<&RestartLadder> = ladders(view, namespace)
        .filter(|other| other.is_at_work() && other.seniority() < ladder.seniority())
        .collect();
    older.sort_by_key(|ladder| ladder.seniority());
    let ours = &ladder.spec.selector;
    if let Some(all) = older.iter().find(|other| labels::covers(&other.spec.selector, ours)) {
        return Some(format!(
            "RestartLadder {:?} is older and selects all that this one selects: it decides for them, and this one does not",
            name(all)
        ));
    }
    older.retain(|other| {
        labels::covers(ours, &other.spec.selector) || share_pods(view, ladder, other)
    });
    let named: Vec<String> =
        older.iter().take(NAMED_MAX).map(|other| format!("{:?}", name(other))).collect();
    let more = match older.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named = named.join(", ");
    match older.len() {
        0 => None,
        1 => Some(format!(
            "RestartLadder {named} is older and selects pods that this one selects, too: it decides for these, and this one does not"
        )),
        _ => Some(format!(
            "RestartLadders {named}{more} are older and select pods that this one selects, too: they decide for these, and this one does not"
        )),
    }
}

/// The ladders whose status may say something else after a change: those that are younger than one
/// that has come, gone or changed, and those that select a pod which another one selects, too.
pub(crate) fn concerned(view: &ClusterView, change: &ObjectChange) -> Vec<NamespacedName> {
    let namespace = change.id.name.namespace.as_str();
    match change.latest() {
        ViewObject::RestartLadder(changed) if is_news(change) => ladders(view, namespace)
            .filter(|other| changed.seniority() < other.seniority())
            .map(|other| NamespacedName::from_meta(&other.metadata))
            .collect(),
        ViewObject::Pod(_) => {
            let [before, after] = [&change.before, &change.after]
                .map(|side| side.as_ref().map(|pod| pod.meta().labels.as_ref()));
            if before == after {
                return Vec::new();
            }
            let sides = [before, after].into_iter().flatten().flatten();
            sides.flat_map(|labels| ladders_beside_the_first(view, namespace, labels)).collect()
        }
        _ => Vec::new(),
    }
}

/// The ladders that select a pod with these labels, when they are several, without the one that
/// decides.
fn ladders_beside_the_first(
    view: &ClusterView,
    namespace: &str,
    labels: &Labels,
) -> Vec<NamespacedName> {
    let mut selecting: Vec<&RestartLadder> =
        ladders(view, namespace).filter(|ladder| ladder.selects(Some(labels))).collect();
    selecting.sort_by_key(|ladder| ladder.seniority());
    selecting
        .into_iter()
        .skip(1)
        .map(|ladder| NamespacedName::from_meta(&ladder.metadata))
        .collect()
}

/// False of a write to the status alone.
fn is_news(change: &ObjectChange) -> bool {
    let what = |object: &Option<ViewObject>| match object {
        Some(ViewObject::RestartLadder(ladder)) => {
            Some((ladder.spec.selector.clone(), ladder.is_at_work()))
        }
        Some(_) | None => None,
    };
    what(&change.before) != what(&change.after)
}

fn share_pods(view: &ClusterView, one: &RestartLadder, other: &RestartLadder) -> bool {
    let namespace = one.metadata.namespace.as_deref().unwrap_or_default();
    view.in_namespace(ResourceKind::Pod, namespace).any(|pod| {
        let labels = pod.meta().labels.as_ref();
        one.selects(labels) && other.selects(labels)
    })
}

fn name(ladder: &RestartLadder) -> &str {
    ladder.metadata.name.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests;
