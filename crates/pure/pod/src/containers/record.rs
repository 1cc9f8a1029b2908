//! What the journal is to say of a container, as a view that costs nothing: it is compared with
//! what the journal says already, and copied only when it is written.

use k8s_openapi::api::core::v1::ResourceRequirements;
use rekindle_types::{ContainerAttempt, Tick};

use super::container::PodContainer;
use crate::backoff::CrashBackoff;
use crate::blueprint::HookPresence;
use crate::journal::{
    ContainerRecord, ContainerStanding, EndedContainer, Failing, FailingRecord, Halt, HealthRecord,
    Launched, Readiness, SidecarGate,
};

/// A [`ContainerRecord`] that borrows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContainerRecordView<'a> {
    pub(crate) number: ContainerAttempt,
    pub(crate) standing: ContainerStanding,
    pub(crate) last: Option<&'a EndedContainer>,
    pub(crate) before: Option<&'a EndedContainer>,
    pub(crate) crash: CrashBackoff,
    pub(crate) gate: SidecarGate,
    pub(crate) health: Option<HealthRecord>,
    pub(crate) in_force: Option<&'a ResourceRequirements>,
    pub(crate) failing: Option<FailingView<'a>>,
    pub(crate) kill_by: Option<Tick>,
    pub(crate) stopped_with_node: Option<ContainerAttempt>,
}

/// A [`FailingRecord`] that borrows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FailingView<'a> {
    number: ContainerAttempt,
    what: Failing,
    words: &'a str,
    kill_at: Tick,
}

impl FailingView<'_> {
    /// Whether it says the same of the same start. The time by which it is killed follows from the
    /// rest until it has notice, which the runtime knows.
    pub(crate) fn is_same_failure(&self, other: &FailingView<'_>) -> bool {
        (self.number, self.what, self.words) == (other.number, other.what, other.words)
    }
}

impl<'a> From<&'a FailingRecord> for FailingView<'a> {
    fn from(record: &'a FailingRecord) -> Self {
        let FailingRecord { number, what, words, kill_at } = record;
        Self { number: *number, what: *what, words, kill_at: *kill_at }
    }
}

impl<'a> From<&'a ContainerRecord> for ContainerRecordView<'a> {
    fn from(record: &'a ContainerRecord) -> Self {
        Self {
            number: record.number,
            standing: record.standing,
            last: record.last.as_ref(),
            before: record.before.as_ref(),
            crash: record.crash,
            gate: record.gate,
            health: record.health,
            in_force: record.in_force.as_ref(),
            failing: record.failing.as_ref().map(FailingView::from),
            kill_by: record.kill_by,
            stopped_with_node: record.stopped_with_node,
        }
    }
}

impl ContainerRecordView<'_> {
    /// To be written.
    pub(crate) fn to_record(self) -> ContainerRecord {
        let failing = self.failing.map(|FailingView { number, what, words, kill_at }| {
            FailingRecord { number, what, words: words.to_owned(), kill_at }
        });
        ContainerRecord {
            number: self.number,
            standing: self.standing,
            last: self.last.cloned(),
            before: self.before.cloned(),
            crash: self.crash,
            gate: self.gate,
            health: self.health,
            in_force: self.in_force.cloned(),
            failing,
            kill_by: self.kill_by,
            stopped_with_node: self.stopped_with_node,
        }
    }
}

impl PodContainer {
    /// As the journal is to have it while all has to end for `halt`.
    pub(super) fn record(
        &self,
        granted: &ResourceRequirements,
        halt: Option<Halt>,
    ) -> ContainerRecordView<'_> {
        ContainerRecordView {
            number: self.number,
            standing: self.standing,
            last: self.last.as_ref(),
            before: self.before.as_ref(),
            crash: self.crash,
            gate: self.gate,
            health: self.health().and_then(|health| health.record(self.number, &self.definition)),
            in_force: Some(&self.in_force).filter(|own| *own != granted),
            failing: self.failing_record(),
            kill_by: halt.and_then(|halt| self.killed_before(halt)),
            stopped_with_node: self.stopped_with_node.filter(|number| *number == self.number),
        }
    }

    /// Whether a start with this health is as it was when its process was started.
    pub(crate) fn is_as_started(&self, health: HealthRecord) -> bool {
        let HealthRecord { launched, readiness, .. } = health;
        let at_first = match (self.definition.post_start, &self.definition.probes.startup) {
            (HookPresence::Absent, None) => Launched::Started,
            (HookPresence::Given, _) | (HookPresence::Absent, Some(_)) => Launched::Fresh,
        };
        let ready_at_first = match (at_first, &self.definition.probes.readiness) {
            (Launched::Started, None) => Readiness::Ready,
            (Launched::Started, Some(_)) | (Launched::Fresh | Launched::HookDone, _) => {
                Readiness::Unready
            }
        };
        launched == at_first && readiness == ready_at_first
    }

    /// Why it is being ended, when something of it failed.
    fn failing_record(&self) -> Option<FailingView<'_>> {
        let stop = self.stop()?;
        let (what, words) = stop.reason.failing().zip(self.failed.as_deref())?;
        Some(FailingView { number: self.number, what, words, kill_at: stop.kill_at })
    }

    /// When it is killed, if that is before what ends with it.
    fn killed_before(&self, halt: Halt) -> Option<Tick> {
        let stop = self.stop()?;
        match halt {
            Halt::AtOnce => None,
            Halt::By { deadline, .. } => Some(stop.kill_at).filter(|at| *at < deadline),
        }
    }
}
