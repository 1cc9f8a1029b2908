//! Strategy Recreate: every old pod is gone before a new one comes.

use super::new_set::NewReplicaSet;
use super::rollout::Rollout;
use super::status;
use crate::pods;

impl Rollout<'_> {
    /// One step of a recreation.
    pub(super) fn recreate(&mut self) {
        if self.find_new_set() == NewReplicaSet::InTheMaking {
            return;
        }
        let mut has_scaled = false;
        for index in self.old() {
            if self.sets[index].replicas != 0 && self.resize(index, 0) {
                has_scaled = true;
            }
        }
        if has_scaled || self.old_pods_remain() {
            self.sync_rollout_status();
            return;
        }
        match self.new {
            None => {
                self.ensure_new_set();
                return;
            }
            Some(index) => {
                if self.sets[index].replicas != self.wanted() {
                    self.resize(index, self.wanted());
                }
            }
        }
        let calculated = self.calculate_status();
        if status::is_complete(self.deployment, &calculated) {
            self.clean_up_history();
        }
        self.sync_rollout_status();
    }

    /// True while an old ReplicaSet reports pods or one of its pods has not ended; a terminating
    /// pod has not.
    fn old_pods_remain(&self) -> bool {
        self.old().any(|index| {
            let member = &self.sets[index];
            let uid = member.set.metadata.uid.as_deref().unwrap_or_default();
            member.actual() > 0 || self.view.pods_of(uid).any(|pod| !pods::is_finished(pod))
        })
    }
}
