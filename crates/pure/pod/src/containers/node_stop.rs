//! A pod whose node stops, and that comes back with it: its containers end, and the pod is not
//! over.
//!
//! The journal stays as it was, for the next agent to go on from, but for what ran and how the
//! containers ended: no sandbox is left to tell of that, and no status was written. What a
//! container says by its exit code when its node asked it to end says nothing of its work: none
//! counts as done for it. Nor is it a crash: the next start does not wait for the back-off of
//! earlier ones. What waits already goes on waiting.
//!
//! An agent that is killed before leaves a journal that says so, and the next one finds this
//! out about the start that was in progress:
//!
//! | the runtime says of it | |
//! |---|---|
//! | it has ended | it was asked to, or was about to be: its end is that of its node |
//! | it runs, and has notice or a preStop hook, which it may have run | it is not ended any more; when it ends by itself, that is its answer |
//! | it runs, and has neither | it was not asked, and goes on |

use rekindle_types::{Exit, ExitStatus, StopNotice};

use super::Containers;
use super::container::PodContainer;
use super::end::FollowUp;
use crate::blueprint::{HookPresence, RestartPolicy, RoleInPod};
use crate::journal::{ContainerRecord, ContainerStanding, Journal, RestartStage};
use crate::texts;

/// What a container ended for that ended while its node stopped.
#[derive(Clone, Copy)]
enum EndedFor {
    /// Its pod was ending already.
    Pod,
    /// It was asked to run again.
    Restart,
    /// Its node alone.
    Node,
}

impl EndedFor {
    /// In a pod that its node left with this journal.
    fn new(left: &Journal, container: &PodContainer) -> Self {
        let stage = left.restart.as_ref().map(|restart| &restart.stage);
        match (&left.ending, stage) {
            (Some(_), _) => Self::Pod,
            (None, Some(RestartStage::Cycling { targets, .. }))
                if targets.get(&container.definition.name)
                    == Some(&container.last.as_ref().map(|last| last.attempt)) =>
            {
                Self::Restart
            }
            (None, _) => Self::Node,
        }
    }
}

impl Containers {
    /// Adds to the journal as it was when the node began to stop what has run and ended since.
    pub(crate) fn note_with_node(&self, journal: &mut Journal) {
        for container in &self.list {
            let ended_for = EndedFor::new(journal, container);
            if let Some(record) = journal.containers.get_mut(&container.definition.name) {
                container.note_start_with_node(record);
                container.note_end_with_node(record, ended_for);
            }
        }
    }
}

impl PodContainer {
    /// Adds that the start that is recorded was made: it may have been on its way when the node
    /// began to stop.
    fn note_start_with_node(&self, record: &mut ContainerRecord) {
        if let Some(health) = self.health().filter(|_| self.number == record.number) {
            record.health = Some(health.record_of_start(self.number, &self.definition));
        }
    }

    /// Adds its end, when the start that is recorded has ended since.
    fn note_end_with_node(&self, record: &mut ContainerRecord, ended_for: EndedFor) {
        let Some(last) = self.last.as_ref().filter(|last| last.attempt == record.number) else {
            return;
        };
        let mut last = last.clone();
        record.number = self.number;
        record.standing = match ended_for {
            EndedFor::Pod => ContainerStanding::Done,
            EndedFor::Restart => ContainerStanding::Started,
            EndedFor::Node => {
                record.crash.skip_wait(record.number);
                self.standing_after_node(&mut last.exit)
            }
        };
        record.before = self.before.clone();
        record.last = Some(last);
        record.kill_by = None;
    }

    /// Where it stands when it ended so with its node.
    fn standing_after_node(&self, exit: &mut Exit) -> ContainerStanding {
        let standing = self.standing_after(exit.status);
        self.tell_of_node_stop(exit);
        standing
    }

    /// Its message says that it ended when its node was stopped: its exit code is its answer to
    /// that. Where nothing follows a good end, it is not told whether the work was done, and the
    /// end counts as a failure.
    pub(super) fn tell_of_node_stop(&self, exit: &mut Exit) {
        match (self.definition.role, exit.status) {
            (RoleInPod::Ephemeral, _)
            | (_, ExitStatus::OomKilled | ExitStatus::StartError | ExitStatus::Unknown) => return,
            (RoleInPod::Init | RoleInPod::Sidecar | RoleInPod::Regular, _) => {}
        }
        let stays = self.standing_after(exit.status) == ContainerStanding::Done;
        exit.message = texts::ended_with_node(exit.status.code(), &exit.message);
        if stays && exit.status.is_success() {
            exit.status = ExitStatus::Unknown;
        }
    }

    fn standing_after(&self, status: ExitStatus) -> ContainerStanding {
        match (self.definition.role, self.follow_up(status), self.definition.policy) {
            (RoleInPod::Ephemeral, ..) => ContainerStanding::Done, // started at most once
            (_, FollowUp::Stay, RestartPolicy::Never) => ContainerStanding::Done,
            (_, FollowUp::Stay, RestartPolicy::Always | RestartPolicy::OnFailure)
            | (
                _,
                FollowUp::RestartByPolicy
                | FollowUp::RestartAsAsked
                | FollowUp::AwaitRound
                | FollowUp::RestartAll,
                _,
            ) => ContainerStanding::Started,
        }
    }

    /// Its start in progress was asked to end by a stop of its node, under an earlier agent.
    pub(super) fn is_stopped_with_node(&self) -> bool {
        self.stopped_with_node == Some(self.number)
    }

    /// What follows its end then: no crash, and no work that is done.
    pub(super) fn follow_up_of_node_stop(&self, status: ExitStatus) -> FollowUp {
        match self.standing_after(status) {
            ContainerStanding::Done => FollowUp::Stay,
            ContainerStanding::Started | ContainerStanding::Due => FollowUp::RestartAsAsked,
        }
    }

    /// It runs, or is yet to be started: what its node has not asked to end does not end with it.
    pub(super) fn outlives_node_stop(&mut self, notice: StopNotice) {
        match (notice, self.definition.pre_stop) {
            (StopNotice::Given, _) | (StopNotice::NotGiven, HookPresence::Given) => {}
            (StopNotice::NotGiven, HookPresence::Absent) => self.stopped_with_node = None,
        }
    }
}
