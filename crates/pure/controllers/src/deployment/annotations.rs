//! The annotations through which a Deployment and its ReplicaSets know of each other's revisions
//! and sizes. kubectl's `rollout history` and `rollout undo` read them.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};

pub(super) use rekindle_types::revisions::DEPLOYMENT_REVISION as REVISION;

use super::fenceposts;

/// Revisions that a ReplicaSet had before it was rolled back to.
pub(super) const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The Deployment's replicas when the ReplicaSet was scaled last.
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// The same plus maxSurge.
pub(super) const MAX: &str = "deployment.kubernetes.io/max-replicas";
/// kubectl's own record of what was applied; not copied.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The annotation of an API long gone; not copied.
const ROLLBACK: &str = "deprecated.deployment.rollback.to";
/// Bytes of a revision history, as upstream.
const HISTORY_BYTES_MAX: usize = 2000;

type Annotations = BTreeMap<String, String>;

/// The revision of a ReplicaSet; 0 when it has none.
pub(super) fn revision(set: &ReplicaSet) -> i64 {
    number(set, REVISION).unwrap_or(0)
}

/// An annotation that holds a number.
pub(super) fn number<T: std::str::FromStr>(set: &ReplicaSet, key: &str) -> Option<T> {
    set.metadata.annotations.as_ref()?.get(key)?.parse().ok()
}

/// Writes size annotations; true when something changed.
pub(super) fn set_sizes(set: &mut ReplicaSet, deployment: &Deployment) -> bool {
    let wanted = fenceposts::wanted(deployment);
    let max = wanted.saturating_add(fenceposts::max_surge(deployment));
    let annotations = set.metadata.annotations.get_or_insert_default();
    let desired_changed = put(annotations, DESIRED, wanted.to_string());
    put(annotations, MAX, max.to_string()) || desired_changed
}

/// Copies the Deployment's own annotations; true when something changed.
pub(super) fn copy_from_deployment(set: &mut ReplicaSet, deployment: &Deployment) -> bool {
    let mut changed = false;
    let annotations = set.metadata.annotations.get_or_insert_default();
    for (key, value) in deployment.metadata.annotations.iter().flatten() {
        let is_own = [LAST_APPLIED, REVISION, REVISION_HISTORY, DESIRED, MAX, ROLLBACK]
            .contains(&key.as_str());
        changed |= !is_own && put(annotations, key, value.clone());
    }
    changed
}

/// Raises the ReplicaSet's revision to `revision`; the one it had goes to its history. True when
/// something changed.
pub(super) fn raise_revision(set: &mut ReplicaSet, revision: i64) -> bool {
    let annotations = set.metadata.annotations.get_or_insert_default();
    let old = annotations.get(REVISION).cloned();
    let old_number = old.as_deref().and_then(|r| r.parse::<i64>().ok()).unwrap_or(0);
    if old_number >= revision {
        return false;
    }
    annotations.insert(REVISION.to_owned(), revision.to_string());
    if let Some(old) = old {
        let history = annotations.get(REVISION_HISTORY).cloned().unwrap_or_default();
        annotations.insert(REVISION_HISTORY.to_owned(), extended(&history, &old));
    }
    true
}

/// The history with one more revision; the oldest go when it gets too long.
fn extended(history: &str, revision: &str) -> String {
    let mut revisions: Vec<&str> = history.split(',').filter(|r| !r.is_empty()).collect();
    revisions.push(revision);
    while revisions.iter().map(|r| r.len() + 1).sum::<usize>() > HISTORY_BYTES_MAX {
        revisions.remove(0);
    }
    revisions.join(",")
}

fn put(annotations: &mut Annotations, key: &str, value: String) -> bool {
    if annotations.get(key) == Some(&value) {
        return false;
    }
    annotations.insert(key.to_owned(), value);
    true
}
