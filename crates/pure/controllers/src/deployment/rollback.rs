//! Going back to the revision before, as `kubectl rollout undo` does: the Deployment gets its
//! template again.
//!
//! Only a revision with evidence is gone back to: its ReplicaSet carries [`HEALTHY`], which says
//! that all its replicas had been ready for as long as a ladder's window. A revision that was
//! healthy itself is not gone back from: what fails then is not the rollout.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use rekindle_types::revisions::TEMPLATE_HASH_LABEL;

use super::annotations;
use super::template::has_template;
use crate::{ClusterView, ViewObject, owners};

/// Of a ReplicaSet: since when it is known that the revision can be healthy.
pub const HEALTHY: &str = "rekindle.dev/healthy-since";

/// From where and to where.
#[derive(Clone, Copy, Debug)]
pub struct Rollback<'a> {
    /// The Deployment.
    pub deployment: &'a Arc<Deployment>,
    /// The revision to go back to.
    pub to: &'a Arc<ReplicaSet>,
}

impl Rollback<'_> {
    /// The number of the revision that is gone back to.
    pub fn revision(&self) -> i64 {
        annotations::revision(self.to)
    }
}

/// Why a revision cannot be gone back from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RollbackObstacle {
    /// It is nobody's, or its Deployment is gone.
    #[error("it is not of a Deployment")]
    NoDeployment,
    /// The Deployment has another template by now.
    #[error("it is not of its Deployment's present revision")]
    NotPresent,
    /// The Deployment is left as it is.
    #[error("its Deployment is paused, or being deleted")]
    Stopped,
    /// It worked: what fails now is not the rollout.
    #[error("its revision is known to have been healthy itself")]
    WasHealthy,
    /// There is nothing to go back to.
    #[error(
        "no revision before it is known to have been healthy: a RestartLadder that lists Rollback notes that when all replicas were \
         ready for its window"
    )]
    NothingBefore,
}

/// The newest healthy revision before this one.
///
/// # Errors
/// Unless this one is the Deployment's present one and never was healthy, and there is such a
/// revision.
pub fn target<'a>(
    view: &'a ClusterView,
    from: &'a ReplicaSet,
) -> Result<Rollback<'a>, RollbackObstacle> {
    let owner = owners::controller_of(&from.metadata).ok_or(RollbackObstacle::NoDeployment)?;
    let Some(ViewObject::Deployment(deployment)) = view.by_uid(&owner.uid) else {
        return Err(RollbackObstacle::NoDeployment);
    };
    if !has_template(from, &deployment.spec.template) {
        return Err(RollbackObstacle::NotPresent);
    }
    if deployment.spec.paused == Some(true) || owners::is_terminating(&deployment.metadata) {
        return Err(RollbackObstacle::Stopped);
    }
    if was_healthy(from) {
        return Err(RollbackObstacle::WasHealthy);
    }
    let before = annotations::revision(from);
    let to = view
        .replica_sets_of(&owner.uid)
        .filter(|set| annotations::revision(set) < before && was_healthy(set))
        .filter(|set| !owners::is_terminating(&set.metadata))
        .max_by_key(|set| annotations::revision(set));
    to.map(|to| Rollback { deployment, to }).ok_or(RollbackObstacle::NothingBefore)
}

/// True when the revision is known to have been healthy.
pub fn was_healthy(set: &ReplicaSet) -> bool {
    set.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(HEALTHY))
}

/// True when the Deployment has this revision's template.
pub(crate) fn is_at(deployment: &Deployment, set: &ReplicaSet) -> bool {
    has_template(set, &deployment.spec.template)
}

/// The Deployment with this revision's template.
pub(crate) fn at(deployment: &Deployment, set: &ReplicaSet) -> Deployment {
    let mut deployment = deployment.clone();
    let mut template = set.spec.template.clone().unwrap_or_default();
    if let Some(labels) = template.metadata.as_mut().and_then(|meta| meta.labels.as_mut()) {
        labels.remove(TEMPLATE_HASH_LABEL);
    }
    deployment.spec.template = template;
    deployment
}
