//! Which waiting pods a change may help: only those are looked at again.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, Pod};

use super::requests::Requests;
use super::{filter, is_waiting};
use crate::{Change, Key, NamespacedName, Object, View, pods, volumes};

/// The pods that a change may give a node.
pub(crate) fn affected(view: &View, change: &Change, keys: &mut BTreeSet<Key>) {
    match (&change.before, &change.after) {
        (_, Some(Object::Pod(pod))) if is_waiting(pod) => {
            let had_same_needs = matches!(&change.before, Some(Object::Pod(before))
                if is_waiting(before) && before.spec == pod.spec);
            if !had_same_needs {
                keys.insert(Key::Schedule(change.id.name.clone()));
            }
            if has_lost_nomination(change) {
                keys.extend(waiting(view));
            }
        }
        (Some(Object::Pod(before)), after) => {
            let freed = pods::node(before).is_some()
                && !pods::is_finished(before)
                && match after {
                    Some(Object::Pod(pod)) => {
                        pods::is_finished(pod)
                            || pods::node(pod).is_none()
                            || asks_for_something_else(view, before, pod)
                    }
                    _ => true,
                };
            if freed || has_lost_nomination(change) {
                keys.extend(waiting(view));
            } else if is_news_to_others(before, after.as_ref()) {
                keys.extend(waiting_for_pods(view));
            }
        }
        (None, Some(Object::Pod(pod))) if pods::node(pod).is_some() => {
            keys.extend(waiting_for_pods(view));
        }
        (before, Some(Object::Namespace(namespace))) => {
            let is_same = matches!(before, Some(Object::Namespace(before))
                if before.metadata.labels == namespace.metadata.labels);
            if !is_same {
                keys.extend(waiting_for_pods(view));
            }
        }
        (before, Some(Object::Node(node))) => {
            let is_same = matches!(before, Some(Object::Node(before)) if looks_alike(before, node));
            if !is_same {
                keys.extend(waiting(view));
            }
        }
        (
            _,
            Some(
                Object::PersistentVolumeClaim(_)
                | Object::PersistentVolume(_)
                | Object::StorageClass(_),
            ),
        ) => keys.extend(waiting_for_volumes(view)),
        _ => {}
    }
}

/// True when room was kept for a pod and is not any more: it has another nomination or none, went elsewhere, or is gone.
fn has_lost_nomination(change: &Change) -> bool {
    let Some(Object::Pod(before)) = &change.before else { return false };
    if pods::node(before).is_some() || !pods::is_active(before) {
        return false;
    }
    let Some(kept) = pods::nominated_node(before) else { return false };
    match &change.after {
        Some(Object::Pod(pod)) if pods::is_active(pod) => {
            pods::node(pod).or(pods::nominated_node(pod)) != Some(kept)
        }
        _ => true,
    }
}

/// The pods without a node that use claims.
fn waiting_for_volumes(view: &View) -> impl Iterator<Item = Key> {
    view.unscheduled()
        .filter(|pod| is_waiting(pod) && volumes::claims_of(pod).next().is_some())
        .map(|pod| Key::Schedule(NamespacedName::of(&pod.metadata)))
}

/// The pods without a node whose place depends on other pods.
fn waiting_for_pods(view: &View) -> impl Iterator<Item = Key> {
    view.looking_around()
        .filter(|pod| is_waiting(pod))
        .map(|pod| Key::Schedule(NamespacedName::of(&pod.metadata)))
}

/// True when those who look at other pods see another one now: it got a node, other labels, or began to terminate.
fn is_news_to_others(before: &Pod, after: Option<&Object>) -> bool {
    let Some(Object::Pod(after)) = after else { return false };
    pods::node(after).is_some()
        && (pods::node(before).is_none()
            || before.metadata.labels != after.metadata.labels
            || pods::is_terminating(before) != pods::is_terminating(after))
}

/// True when its resources were changed in place; looked at only when somebody waits for room.
fn asks_for_something_else(view: &View, before: &Pod, after: &Pod) -> bool {
    view.unscheduled().next().is_some() && Requests::of(before) != Requests::of(after)
}

/// True when nothing differs that the scheduler looks at: a heartbeat must not wake every waiting pod.
fn looks_alike(a: &Node, b: &Node) -> bool {
    a.spec == b.spec
        && a.metadata.labels == b.metadata.labels
        && filter::is_ready(a) == filter::is_ready(b)
        && a.metadata.deletion_timestamp == b.metadata.deletion_timestamp
        && Requests::allocatable(a) == Requests::allocatable(b)
}

fn waiting(view: &View) -> impl Iterator<Item = Key> {
    view.unscheduled()
        .filter(|pod| is_waiting(pod))
        .map(|pod| Key::Schedule(NamespacedName::of(&pod.metadata)))
}
