//! A pod whose node stops, and that comes back with it: its containers end, and the pod is not over.
//!
//! The journal stays as it was, for the next agent to go on from, but for what ran and how the containers ended: no sandbox is left to
//! tell of that, and no status was written.
//! What a container says by its exit code when its node asked it to end says nothing of its work: none counts as done for it.

use rekindle_types::{Exit, ExitStatus, TickDuration};

use crate::blueprint::{RestartPolicy, Role};
use crate::container::{Container, FollowUp};
use crate::core::PodCore;
use crate::journal::{ContainerRecord, Journal, Standing};
use crate::texts;

impl PodCore {
    /// Ends the containers within this time. It may be told while the pod ends for another reason, which stays.
    pub(crate) fn node_stops(&mut self, grace: TickDuration) {
        if self.left_with_node.is_none() {
            let mut left = self.journal();
            let begun = left.containers.values().any(|record| record.standing != Standing::Due);
            if !begun && (self.sandbox.may_stand() || self.sandbox.is_in_flight()) {
                // it goes, and its number with it; the next agent gives out another for what has begun only
                left.sandbox = left.sandbox.next();
            }
            self.left_with_node = Some(Box::new(left));
        }
        self.delete_requested(grace);
    }

    /// What the next agent is to go on from.
    pub(crate) fn journal_left(&self, left: &Journal) -> Journal {
        let mut journal = left.clone();
        let goes_on = left.ending.is_none();
        for container in &self.containers {
            if let Some(record) = journal.containers.get_mut(&container.definition.name) {
                container.note_start_with_node(record);
                container.note_end_with_node(record, goes_on);
            }
        }
        journal
    }
}

impl Container {
    /// Adds that the start that is recorded was made: it may have been on its way when the node began to stop.
    fn note_start_with_node(&self, record: &mut ContainerRecord) {
        if let Some(health) = self.health().filter(|_| self.number == record.number) {
            record.health = Some(health.record_of_start(self.number, &self.definition));
        }
    }

    /// Adds its end, when the start that is recorded has ended since, in a pod that goes on with its node or was ending already.
    fn note_end_with_node(&self, record: &mut ContainerRecord, goes_on: bool) {
        let Some(last) = self.last.as_ref().filter(|last| last.attempt == record.number) else {
            return;
        };
        let mut last = last.clone();
        record.standing = match goes_on {
            true => self.standing_after_node(&mut last.exit),
            false => Standing::Done,
        };
        record.before = self.before.clone();
        record.last = Some(last);
        record.number = self.number;
        record.kill_by = None;
    }

    /// Where it stands when it ended so with its node.
    fn standing_after_node(&self, exit: &mut Exit) -> Standing {
        match (self.definition.role, self.follow_up(exit.status), self.definition.policy) {
            (Role::Ephemeral, ..) => Standing::Done, // started at most once
            (_, FollowUp::Stay, RestartPolicy::Never) => {
                if exit.status.is_success() {
                    exit.message = texts::ended_with_node(&exit.message);
                    exit.status = ExitStatus::Unknown;
                }
                Standing::Done
            }
            (_, FollowUp::Stay, RestartPolicy::Always | RestartPolicy::OnFailure)
            | (
                _,
                FollowUp::RestartByPolicy
                | FollowUp::RestartAsAsked
                | FollowUp::AwaitRound
                | FollowUp::RestartAll,
                _,
            ) => Standing::Started,
        }
    }
}
