//! When the journal is written: what changed is found by comparing the pod with the journal that
//! was given out last.
//!
//! | what differs | written |
//! |---|---|
//! | sandbox attempt, end, restart, requests, grant, node stop | at once: what is asked for next, or reported, depends on it |
//! | an end, its number and the one before | at once; while all containers end, with the next action: nothing is decided before the last one has ended, and each write would delay that |
//! | a restart delay | at once: it has been waited for |
//! | the only start of an ephemeral container | at once: it must not be made twice |
//! | a start that was under way when all was to end | at once: the next agent has to end it |
//! | that it failed, while the node stops | at once: its number is used, and no status says so |
//! | health, a failure, limits of a container | with the next action: until then runtime and status tell the same |
//! | an added container | with the next action |
//! | the rest | with the next journal: the runtime tells it too, or it follows from it |
//!
//! Some journals are written if anything differs: the first one of an agent, and the one before a
//! sandbox is set up or the last one is torn down. The runtime tells the rest only of a sandbox
//! that stands.

use std::sync::Arc;

use rekindle_types::{ContainerName, SandboxAttempt};

use crate::blueprint::RoleInPod;
use crate::containers::{ContainerRecordView, Containers};
use crate::context::PodContext;
use crate::journal::{
    ContainerRecord, ContainerStanding, EndingRecord, HealthRecord, Journal, NodeStop,
    RestartRecord, RestartResult, SupersededRestart,
};
use crate::outbox::BatchContent;

/// The journal that was given out last, and the pod as its node left it.
#[derive(Debug)]
pub(crate) struct JournalKeeper {
    persisted: Arc<Journal>,
    author: JournalAuthor,
    /// The pod as it was when its node began to stop.
    left: Option<Box<LeftWithNode>>,
}

/// Who gave the journal out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JournalAuthor {
    EarlierAgent,
    ThisAgent,
}

/// When a change is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum WriteUrgency {
    /// Before the next action.
    WithNextAction,
    /// With this batch.
    AtOnce,
}

/// The pod as it was when its node began to stop: what the next agent is to go on from.
#[derive(Debug)]
struct LeftWithNode {
    journal: Journal,
    /// The sandbox to begin with if no start comes of those on their way: a number that was given
    /// out goes with its sandbox, and the next agent gives out another for what has begun only.
    first_sandbox: SandboxAttempt,
    /// The containers that ran then.
    ran: Vec<ContainerName>,
}

/// What a journal says of the pod as a whole and what is written at once.
#[derive(PartialEq)]
struct JournalHead<'a> {
    version: u32,
    sandbox: SandboxAttempt,
    ending: Option<&'a EndingRecord>,
    restart: Option<&'a RestartRecord>,
    superseded: &'a [SupersededRestart],
    recent_restarts: &'a [RestartResult],
    node_stop: NodeStop,
}

impl<'a> From<&'a Journal> for JournalHead<'a> {
    fn from(journal: &'a Journal) -> Self {
        Self {
            version: journal.version,
            sandbox: journal.sandbox,
            ending: journal.ending.as_ref(),
            restart: journal.restart.as_ref(),
            superseded: &journal.superseded,
            recent_restarts: &journal.recent_restarts,
            node_stop: journal.node_stop,
        }
    }
}

impl<'a> From<&PodContext<'a>> for JournalHead<'a> {
    fn from(context: &PodContext<'a>) -> Self {
        let (lifecycle, restarts) = (context.lifecycle, context.restarts);
        Self {
            version: Journal::VERSION,
            sandbox: context.sandboxes.attempt(),
            ending: lifecycle.ending(),
            restart: restarts.current(),
            superseded: restarts.superseded(),
            recent_restarts: restarts.recent(),
            node_stop: NodeStop::None,
        }
    }
}

impl JournalKeeper {
    /// The journal that an earlier agent left.
    pub(crate) fn new(journal: Journal) -> Self {
        let (persisted, author) = (Arc::new(journal), JournalAuthor::EarlierAgent);
        Self { persisted, author, left: None }
    }

    /// The journal as it is now.
    pub(crate) fn journal(&self, context: &PodContext<'_>, containers: &Containers) -> Journal {
        match &self.left {
            Some(left) => left.journal(containers),
            None => journal_of(context, containers),
        }
    }

    /// The same, taken for written.
    pub(crate) fn write(
        &mut self,
        context: &PodContext<'_>,
        containers: &Containers,
    ) -> Arc<Journal> {
        self.persisted = Arc::new(self.journal(context, containers));
        self.author = JournalAuthor::ThisAgent;
        self.persisted.clone()
    }

    /// The journal, if it is to be written now, before the actions of this batch.
    pub(crate) fn write_if_due(
        &mut self,
        context: &PodContext<'_>,
        containers: &Containers,
        batch: BatchContent,
    ) -> Option<Arc<Journal>> {
        let is_whole = match batch {
            BatchContent::Nothing | BatchContent::Actions => false,
            BatchContent::SandboxTearDown => context.lifecycle.is_ending(),
            BatchContent::SandboxSetUp => true,
        };
        let author = std::mem::replace(&mut self.author, JournalAuthor::ThisAgent);
        let is_due = if is_whole || author == JournalAuthor::EarlierAgent {
            self.journal(context, containers) != *self.persisted
        } else {
            match self.urgency(context, containers) {
                Some(WriteUrgency::AtOnce) => true,
                Some(WriteUrgency::WithNextAction) => batch != BatchContent::Nothing,
                None => false,
            }
        };
        is_due.then(|| self.write(context, containers))
    }

    /// The node stops: the journal stays as it is, but for what runs and ends from now on.
    pub(crate) fn leave_with_node(&mut self, context: &PodContext<'_>, containers: &Containers) {
        if self.left.is_none() {
            let journal = journal_of(context, containers);
            let sandboxes = context.sandboxes;
            let given_out = sandboxes.may_stand() || sandboxes.is_in_flight();
            let first_sandbox = if given_out { journal.sandbox.next() } else { journal.sandbox };
            let ran = containers.iter().filter(|container| container.has_process());
            let ran = ran.map(|container| container.name().clone()).collect();
            self.left = Some(Box::new(LeftWithNode { journal, first_sandbox, ran }));
        }
    }

    /// When what differs from the persisted journal is written. None if it can wait.
    fn urgency(&self, context: &PodContext<'_>, containers: &Containers) -> Option<WriteUrgency> {
        let written = &*self.persisted;
        if let Some(left) = &self.left {
            let journal = left.journal(containers);
            if JournalHead::from(&journal) != written.into()
                || journal.resources != written.resources
            {
                return Some(WriteUrgency::AtOnce);
            }
            let records = journal.containers.iter();
            let records = records.map(|(name, record)| (name, (&**record).into()));
            return self.urgency_of_containers(records, context, containers);
        }
        if JournalHead::from(context) != written.into()
            || !context.resize.is_recorded(written.resources.as_ref())
        {
            return Some(WriteUrgency::AtOnce);
        }
        let records = containers.records(context.resize.granted(), context.recorded_halt());
        self.urgency_of_containers(records, context, containers)
    }

    fn urgency_of_containers<'a>(
        &self,
        records: impl Iterator<Item = (&'a ContainerName, ContainerRecordView<'a>)>,
        context: &PodContext<'_>,
        containers: &Containers,
    ) -> Option<WriteUrgency> {
        let urgencies = records.filter_map(|(name, record)| {
            let Some(written) = self.persisted.containers.get(name) else {
                return Some(WriteUrgency::WithNextAction);
            };
            let container = containers.find(name)?;
            // what ran when the node began to stop was no start that was under way
            let left = self.left.as_ref();
            let ran = left.is_some_and(|left| left.ran.contains(name));
            let is_to_end = context.is_recorded_to_halt() && !ran;
            let of_start = || match container.role() {
                RoleInPod::Ephemeral => Some(WriteUrgency::AtOnce),
                RoleInPod::Init | RoleInPod::Sidecar | RoleInPod::Regular => {
                    is_to_end.then_some(WriteUrgency::AtOnce)
                }
            };
            let is_written =
                || written.health.is_some_and(|health| health.number == written.number);
            let of_end = || match context.halt() {
                // it says also that the start was made, which no status does
                Some(_) if left.is_some() && !ran && !is_written() => WriteUrgency::AtOnce,
                Some(_) => WriteUrgency::WithNextAction,
                None => WriteUrgency::AtOnce,
            };
            let is_as_started = |health: HealthRecord| container.is_as_started(health);
            urgency_of(written, record, of_start, of_end, is_as_started)
        });
        urgencies.max()
    }
}

/// When the change of one container's record is written. `of_start` says it of a start, `of_end` of
/// an end, and `is_as_started` whether nothing has come of a start yet.
fn urgency_of(
    written: &ContainerRecord,
    record: ContainerRecordView<'_>,
    of_start: impl Fn() -> Option<WriteUrgency>,
    of_end: impl Fn() -> WriteUrgency,
    is_as_started: impl Fn(HealthRecord) -> bool,
) -> Option<WriteUrgency> {
    // every field is looked at, or named here as one that can wait
    let ContainerRecordView {
        number,
        standing,
        last,
        before,
        crash,
        gate: _,
        health,
        in_force,
        failing,
        kill_by: _,
        stopped_with_node: _,
    } = record;
    let written: ContainerRecordView<'_> = written.into();
    let ended = number != written.number || last != written.last || before != written.before;
    let started = !ended
        && standing != written.standing
        && match standing {
            ContainerStanding::Due | ContainerStanding::Started => true,
            ContainerStanding::Done => false,
        };
    let of_health = health.filter(|_| !ended && health != written.health).and_then(|health| {
        let is_known = written.health.is_some_and(|before| before.number == health.number);
        if is_known || !is_as_started(health) {
            Some(WriteUrgency::WithNextAction)
        } else {
            of_start()
        }
    });
    let limits_changed = in_force != written.in_force;
    let failed = failing.is_some_and(|failing| {
        !written.failing.is_some_and(|before| before.is_same_failure(&failing))
    });
    [
        ended.then(of_end),
        (crash != written.crash).then_some(WriteUrgency::AtOnce),
        if started { of_start() } else { None },
        of_health,
        (limits_changed || failed).then_some(WriteUrgency::WithNextAction),
    ]
    .into_iter()
    .flatten()
    .max()
}

fn journal_of(context: &PodContext<'_>, containers: &Containers) -> Journal {
    let head = JournalHead::from(context);
    let records = containers.records(context.resize.granted(), context.recorded_halt());
    let records = records.map(|(name, record)| (name.clone(), Box::new(record.to_record())));
    Journal {
        version: head.version,
        sandbox: head.sandbox,
        volumes: context.volumes.record(),
        containers: records.collect(),
        ending: head.ending.cloned(),
        restart: head.restart.cloned(),
        resources: Some(context.resize.record()),
        superseded: head.superseded.to_vec(),
        recent_restarts: head.recent_restarts.to_vec(),
        node_stop: head.node_stop,
    }
}

impl LeftWithNode {
    /// What the next agent is to go on from.
    fn journal(&self, containers: &Containers) -> Journal {
        let mut journal = self.journal.clone();
        containers.note_with_node(&mut journal);
        if journal.ending.is_none() {
            journal.node_stop = NodeStop::Begun;
        }
        let begun =
            journal.containers.values().any(|record| record.standing != ContainerStanding::Due);
        if !begun && containers.nothing_lives() {
            journal.sandbox = self.first_sandbox;
        }
        journal
    }
}
