//! Old ReplicaSets beyond `revisionHistoryLimit` are deleted, the oldest revisions first, once they
//! are empty.

use super::annotations;
use super::rollout::Rollout;
use crate::ViewObject;
use crate::owners;
use crate::plan::{DependentPolicy, PlannedWrite, WriteOperation};

/// The default of `spec.revisionHistoryLimit`.
const LIMIT: i32 = 10;

impl Rollout<'_> {
    /// Deletes what is beyond the limit.
    pub(super) fn clean_up_history(&mut self) {
        let limit = self.deployment.spec.revision_history_limit;
        let limit = usize::try_from(limit.unwrap_or(LIMIT)).unwrap_or(0);
        let mut old: Vec<usize> = self
            .old()
            .filter(|index| !owners::is_terminating(&self.sets[*index].set.metadata))
            .collect();
        old.sort_by_key(|index| annotations::revision(&self.sets[*index].set));
        let excess = old.len().saturating_sub(limit);
        for index in old.into_iter().take(excess) {
            let member = &self.sets[index];
            if member.replicas == 0 && member.actual() == 0 && member.is_observed() {
                let object = ViewObject::ReplicaSet(member.set.clone());
                self.steps.push(PlannedWrite::from(WriteOperation::delete(
                    &object,
                    DependentPolicy::Background,
                )));
            }
        }
    }
}
