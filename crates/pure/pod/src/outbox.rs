//! The way out: actions in order, and what each that waits for an answer belongs to.

use std::collections::{BTreeMap, VecDeque};

use rekindle_types::SandboxAttempt;

use crate::action::{CoreAction, CoreOutput, CoreReport, HookKind, PodEvent, ProbeKind};
use crate::key::{ActionId, ContainerStartKey};

/// What an answer is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PendingAnswer {
    Volumes,
    SandboxSetUp,
    SandboxTearDown(SandboxAttempt),
    /// The container by its place.
    Pull(usize),
    Start(usize),
    Signal(usize),
    Kill(usize),
    Probe(usize, ProbeKind),
    Hook(usize, HookKind),
    SandboxUpdate,
    ContainerUpdate(usize),
    /// Of a container that is not wanted any more.
    Clearance(ContainerStartKey),
}

/// Whether what is asked for is begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum OutboxFlow {
    #[default]
    Open,
    /// The journal finds no room, so all that was not polled yet waits.
    HeldUp,
}

/// What a batch asks for, as far as the journal in front of it is concerned. The last one of these
/// that is in it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BatchContent {
    Nothing,
    /// Actions that concern no sandbox.
    Actions,
    SandboxTearDown,
    SandboxSetUp,
}

/// What is on its way to the driver. The actions of one event form a batch, so that the journal can
/// go in front of them.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    way: OutboxFlow,
    next_id: u64,
    queue: VecDeque<CoreOutput>,
    batch: Vec<(ActionId, CoreAction)>,
    notes: Vec<CoreReport>,
    pending: BTreeMap<ActionId, PendingAnswer>,
}

impl Outbox {
    /// Asks for something that is answered.
    pub(crate) fn act(&mut self, action: CoreAction, pending: PendingAnswer) -> ActionId {
        let id = self.take_id();
        self.batch.push((id, action));
        self.pending.insert(id, pending);
        id
    }

    /// Tells something, after what is asked for: it is not answered, and nothing waits for it.
    pub(crate) fn note(&mut self, report: CoreReport) {
        self.notes.push(report);
    }

    /// Has an Event recorded on the pod.
    pub(crate) fn emit(&mut self, event: PodEvent) {
        self.note(CoreReport::EmitEvent(event));
    }

    /// What this batch asks for.
    pub(crate) fn batch_content(&self) -> BatchContent {
        let of_action = |action: &CoreAction| match action {
            CoreAction::SetUpSandbox { .. } => BatchContent::SandboxSetUp,
            CoreAction::TearDownSandbox { .. } => BatchContent::SandboxTearDown,
            CoreAction::MountVolumes
            | CoreAction::RefreshVolumes
            | CoreAction::FindImage { .. }
            | CoreAction::PullImage { .. }
            | CoreAction::StartContainer { .. }
            | CoreAction::SignalContainer { .. }
            | CoreAction::KillContainer { .. }
            | CoreAction::RemoveContainer { .. }
            | CoreAction::UpdateSandbox { .. }
            | CoreAction::UpdateContainer { .. }
            | CoreAction::RunProbe { .. }
            | CoreAction::RunHook { .. } => BatchContent::Actions,
        };
        let contents = self.batch.iter().map(|(_, action)| of_action(action));
        contents.max().unwrap_or(BatchContent::Nothing)
    }

    /// What an answer is for; `None` when it is late or was given before.
    pub(crate) fn answered(&mut self, id: ActionId) -> Option<PendingAnswer> {
        self.pending.remove(&id)
    }

    /// Closes the batch: `first` in front, then the actions.
    pub(crate) fn close_batch(&mut self, first: Option<CoreReport>) {
        self.queue.extend(first.map(CoreOutput::Report));
        self.queue.extend(self.batch.drain(..).map(|(id, action)| CoreOutput::Act(id, action)));
    }

    /// Behind all that: `status`, then what was told, then `last`.
    pub(crate) fn tell(&mut self, status: Option<CoreReport>, last: Option<CoreReport>) {
        let notes = std::mem::take(&mut self.notes);
        let reports = status.into_iter().chain(notes).chain(last);
        self.queue.extend(reports.map(CoreOutput::Report));
    }

    pub(crate) fn pop(&mut self) -> Option<CoreOutput> {
        self.queue.pop_front()
    }

    /// The next that ends a container, whatever it stands behind.
    pub(crate) fn pop_end(&mut self) -> Option<CoreOutput> {
        let place = self.queue.iter().position(|output| match output {
            CoreOutput::Act(_, action) => action.ends_container(),
            CoreOutput::Report(_) => false,
        })?;
        self.queue.remove(place)
    }

    /// Journals that are on their way are older than the one that is written then.
    pub(crate) fn hold_up(&mut self) {
        self.way = OutboxFlow::HeldUp;
        self.queue.retain(|output| !matches!(output, CoreOutput::Report(CoreReport::Persist(_))));
    }

    pub(crate) fn go_on(&mut self) {
        self.way = OutboxFlow::Open;
    }

    pub(crate) fn is_held_up(&self) -> bool {
        self.way == OutboxFlow::HeldUp
    }

    /// Whether an action was not polled yet.
    pub(crate) fn is_queued(&self, id: ActionId) -> bool {
        self.queue
            .iter()
            .any(|output| matches!(output, CoreOutput::Act(queued, _) if *queued == id))
    }

    fn take_id(&mut self) -> ActionId {
        let id = ActionId(self.next_id);
        self.next_id += 1;
        id
    }
}
