//! Leader election: of those who could act, one does, and it holds a Lease while it does.
//!
//! ```text
//!              read: free, expired, or mine                       renewal sent ─► done
//!  Follows ──────────────────────────────► acquires ─► Leads(term) ◄──┘ every `renew_interval`
//!    ▲  └── read: another's ─► waits until its duration has passed since it was last *seen* renewed
//!    └──────── another holds it, it is gone, or `renew_deadline` has passed since the last renewal that was sent and done
//! ```
//!
//! What keeps two from leading at once:
//! - **No clock is compared with another.** A candidate counts a holder's duration from when it saw
//!   the Lease change itself, as client-go does; what times the Lease carries is for people.
//! - **The leader gives up first**: `renew_deadline` is shorter than `lease_duration`, and counts
//!   from when the renewal was *sent*, which is before anybody else saw it.
//! - **Every write names the resourceVersion it was decided on**: of two that acquire at the same
//!   time one is refused.
//! - **Each acquisition is a new [`Term`]**, also by the same holder. Writes carry it, and an API
//!   that knows terms refuses those of an old one (docs/adr/0030).
//!
//! Pure: the driver reads, writes and keeps time. Source of the periods and of what a release
//! writes: client-go, `leaderelection`.

mod lease;
#[cfg(test)]
mod tests;

use k8s_openapi::api::coordination::v1::Lease;
use rekindle_types::{Term, Tick, TickDuration};

use crate::{NamespacedName, ViewObject, WriteOperation, WriteRefusal, WriteResult};
use lease::LeaseRecord;

/// Who stands for election, and for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidacy {
    /// The Lease.
    pub lease: NamespacedName,
    /// The candidate. No two that live at the same time have the same.
    pub identity: String,
    /// When who does what.
    pub timing: ElectionTiming,
}

/// The periods, with client-go's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElectionTiming {
    /// How long others wait after they last saw the Lease renewed.
    pub lease_duration: TickDuration,
    /// How long a leader goes on after the last renewal that was done.
    pub renew_deadline: TickDuration,
    /// Between two attempts.
    pub retry_period: TickDuration,
}

/// Periods that do not fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElectionTimingError {
    /// A leader would still act when another one begins.
    #[error("the lease's duration must be longer than the renew deadline")]
    DurationTooShort,
    /// A leader could try only once.
    #[error("the renew deadline must be longer than the retry period by a fifth")]
    DeadlineTooShort,
    /// It would try without a pause.
    #[error("the retry period must be at least 100 ms, and the lease's duration at least 1 s")]
    PeriodTooShort,
}

impl Default for ElectionTiming {
    /// Those of Kubernetes' own components.
    fn default() -> Self {
        Self {
            lease_duration: TickDuration::from_secs(15),
            renew_deadline: TickDuration::from_secs(10),
            retry_period: TickDuration::from_secs(2),
        }
    }
}

impl ElectionTiming {
    /// Checks the periods as client-go does.
    ///
    /// # Errors
    /// When with them two could lead at once, or nobody for long.
    pub fn check(self) -> Result<Self, ElectionTimingError> {
        let fifth_more = TickDuration::from_micros(self.retry_period.as_micros() / 5 * 6);
        if self.lease_duration <= self.renew_deadline {
            return Err(ElectionTimingError::DurationTooShort);
        }
        if self.renew_deadline <= fifth_more {
            return Err(ElectionTimingError::DeadlineTooShort);
        }
        if self.retry_period < TickDuration::from_millis(100)
            || self.lease_duration < TickDuration::from_secs(1)
        {
            return Err(ElectionTimingError::PeriodTooShort);
        }
        Ok(self)
    }

    /// Between two renewals that succeed. client-go renews every retry period; half the deadline
    /// leaves time for as many attempts as matter, and costs the disk less.
    pub fn renew_interval(self) -> TickDuration {
        TickDuration::from_micros(self.renew_deadline.as_micros() / 2).max(self.retry_period)
    }

    /// How long an answer is waited for.
    pub fn answer_within(self) -> TickDuration {
        TickDuration::from_micros(self.renew_deadline.as_micros() / 2)
    }
}

/// What a candidate wants of its driver.
#[derive(Clone, Debug, PartialEq)]
pub enum ElectionTask {
    /// Read the Lease, then tell [`ElectionCandidate::has_read`].
    Read,
    /// Write it, then tell [`ElectionCandidate::has_written`].
    Write(Box<WriteOperation>),
    /// Nothing until then, or until the Lease is seen to change.
    Wait(Tick),
}

/// One candidate.
#[derive(Clone, Debug)]
pub struct ElectionCandidate {
    candidacy: Candidacy,
    known: LeaseKnowledge,
    standing: CandidateState,
    under_way: ElectionRequest,
    /// Not before this is anything asked again.
    not_before: Tick,
}

/// What is known of the Lease.
#[derive(Clone, Debug)]
enum LeaseKnowledge {
    /// Nothing, or it was changed since: it has to be read.
    Nothing,
    /// It was not there.
    Absent,
    /// This was read, and its record has been the same since `since`.
    Held { lease: Box<Lease>, since: Tick },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum CandidateState {
    Follows,
    /// It leads in this term; the newest renewal that was done was sent at `renewed`.
    Leads {
        term: Term,
        renewed: Tick,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ElectionRequest {
    Nothing,
    Reading,
    Acquiring { sent: Tick },
    Renewing { sent: Tick },
}

impl ElectionCandidate {
    /// One who knows nothing yet.
    pub fn new(candidacy: Candidacy) -> Self {
        Self {
            candidacy,
            known: LeaseKnowledge::Nothing,
            standing: CandidateState::Follows,
            under_way: ElectionRequest::Nothing,
            not_before: Tick::ZERO,
        }
    }

    /// Its candidacy.
    pub fn candidacy(&self) -> &Candidacy {
        &self.candidacy
    }

    /// The term it leads in; none when it does not.
    pub fn leads(&self, now: Tick) -> Option<&Term> {
        match &self.standing {
            CandidateState::Leads { term, .. }
                if self.leads_until().is_some_and(|end| now < end) =>
            {
                Some(term)
            }
            CandidateState::Leads { .. } | CandidateState::Follows => None,
        }
    }

    /// Until when it leads if nothing is renewed.
    pub fn leads_until(&self) -> Option<Tick> {
        match &self.standing {
            CandidateState::Leads { renewed, .. } => {
                Some(*renewed + self.candidacy.timing.renew_deadline)
            }
            CandidateState::Follows => None,
        }
    }

    /// Who holds the Lease, as far as is known.
    pub fn holder(&self) -> Option<&str> {
        self.lease()?.spec.as_ref()?.holder_identity.as_deref()
    }

    /// The Lease, as far as it is known.
    pub fn lease(&self) -> Option<&Lease> {
        match &self.known {
            LeaseKnowledge::Held { lease, .. } => Some(lease),
            LeaseKnowledge::Nothing | LeaseKnowledge::Absent => None,
        }
    }

    /// What is to be done now. While something is asked for, the next is asked for when it was
    /// answered.
    pub fn poll(&mut self, now: Tick) -> ElectionTask {
        if self.leads_until().is_some_and(|end| end <= now) {
            self.standing = CandidateState::Follows;
        }
        let end = self.leads_until();
        if self.under_way != ElectionRequest::Nothing {
            return ElectionTask::Wait(end.unwrap_or(now + self.candidacy.timing.answer_within()));
        }
        let due = self.due().max(self.not_before);
        if now < due {
            return ElectionTask::Wait(end.map_or(due, |end| end.min(due)));
        }
        let (acquiring, renewing) =
            (ElectionRequest::Acquiring { sent: now }, ElectionRequest::Renewing { sent: now });
        let (under_way, ask) = match (&self.known, &self.standing) {
            (LeaseKnowledge::Nothing, _) => (ElectionRequest::Reading, ElectionTask::Read),
            (LeaseKnowledge::Absent, _) => (
                acquiring,
                ElectionTask::write(WriteOperation::Create(
                    lease::first(&self.candidacy, now).into(),
                )),
            ),
            (LeaseKnowledge::Held { lease, .. }, CandidateState::Leads { .. }) => {
                (renewing, ElectionTask::write(WriteOperation::Update(lease::renewed(lease, now))))
            }
            (LeaseKnowledge::Held { lease, .. }, CandidateState::Follows) => {
                let lease = lease::acquired(lease, &self.candidacy, now);
                (acquiring, ElectionTask::write(WriteOperation::Update(lease)))
            }
        };
        self.under_way = under_way;
        ask
    }

    /// When the next step is due.
    fn due(&self) -> Tick {
        match (&self.standing, &self.known) {
            (_, LeaseKnowledge::Nothing | LeaseKnowledge::Absent) => Tick::ZERO,
            (CandidateState::Leads { renewed, .. }, LeaseKnowledge::Held { .. }) => {
                *renewed + self.candidacy.timing.renew_interval()
            }
            (CandidateState::Follows, LeaseKnowledge::Held { lease, since }) => {
                let record = LeaseRecord::from_lease(lease);
                match record.holder {
                    "" => Tick::ZERO,
                    // it is its own, of an earlier term: of an earlier life, or given up
                    holder if holder == self.candidacy.identity => Tick::ZERO,
                    _ => *since + record.duration,
                }
            }
        }
    }

    /// A watch shows the Lease so; none when it was deleted. Older versions than the known one are
    /// ignored.
    pub fn sees(&mut self, lease: Option<&Lease>, now: Tick) {
        if let (Some(lease), LeaseKnowledge::Held { lease: known, .. }) = (lease, &self.known)
            && !is_newer(lease, known)
        {
            return;
        }
        self.learns(lease, now);
    }

    /// The answer to [`ElectionTask::Read`]; an error when nothing is known of it.
    pub fn has_read(&mut self, lease: Result<Option<&Lease>, UnansweredRequest>, now: Tick) {
        self.under_way = ElectionRequest::Nothing;
        match lease {
            Ok(lease) => self.learns(lease, now),
            Err(UnansweredRequest) => self.pauses(now),
        }
    }

    /// The answer to [`ElectionTask::Write`].
    pub fn has_written(&mut self, outcome: &WriteResult, now: Tick) {
        let write = std::mem::replace(&mut self.under_way, ElectionRequest::Nothing);
        match outcome {
            WriteResult::Stored(ViewObject::Lease(lease)) => self.holds(lease, write, now),
            WriteResult::Refused {
                refusal: WriteRefusal::Conflict | WriteRefusal::AlreadyExists,
                ..
            }
            | WriteResult::Gone => self.known = LeaseKnowledge::Nothing, // somebody else was faster: who?
            WriteResult::Refused {
                refusal:
                    WriteRefusal::Budget
                    | WriteRefusal::DeadlockedBudget
                    | WriteRefusal::StillThere
                    | WriteRefusal::NamespaceTerminating
                    | WriteRefusal::Other,
                ..
            }
            | WriteResult::Unknown { .. }
            | WriteResult::Stored(_)
            | WriteResult::Done => {
                // it may have been done: only a look tells
                self.known = LeaseKnowledge::Nothing;
                self.pauses(now);
            }
        }
    }

    /// What was asked for failed without an answer.
    pub fn fails(&mut self, now: Tick) {
        self.under_way = ElectionRequest::Nothing;
        self.known = LeaseKnowledge::Nothing;
        self.pauses(now);
    }

    /// It asks for nothing during the next retry period.
    pub fn pauses(&mut self, now: Tick) {
        self.not_before = now + self.candidacy.timing.retry_period;
    }

    /// Its own write was done.
    fn holds(&mut self, lease: &Lease, write: ElectionRequest, now: Tick) {
        if matches!(&self.known, LeaseKnowledge::Held { lease: known, .. }
            if known.metadata.uid == lease.metadata.uid && is_newer(known, lease))
        {
            return; // and undone by somebody since, as the watch has shown
        }
        self.known = LeaseKnowledge::Held { lease: Box::new(lease.clone()), since: now };
        let Some(term) = Term::from_lease(lease) else { return };
        match (write, &mut self.standing) {
            (ElectionRequest::Acquiring { sent }, standing) => {
                *standing = CandidateState::Leads { term, renewed: sent };
            }
            (ElectionRequest::Renewing { sent }, CandidateState::Leads { renewed, .. }) => {
                *renewed = sent
            }
            // It came too late: the leader has given up meanwhile, and begins again in a new term.
            (ElectionRequest::Renewing { .. }, CandidateState::Follows)
            | (ElectionRequest::Reading | ElectionRequest::Nothing, _) => {}
        }
    }

    /// What is there now, by whoever wrote it.
    fn learns(&mut self, lease: Option<&Lease>, now: Tick) {
        let Some(lease) = lease else {
            self.known = LeaseKnowledge::Absent;
            self.standing = CandidateState::Follows;
            return;
        };
        if let CandidateState::Leads { term, .. } = &self.standing
            && (LeaseRecord::from_lease(lease).holder != self.identity()
                || Term::from_lease(lease).as_ref() != Some(term))
        {
            self.standing = CandidateState::Follows;
        }
        let since = match &self.known {
            LeaseKnowledge::Held { lease: known, since }
                if LeaseRecord::from_lease(known) == LeaseRecord::from_lease(lease) =>
            {
                *since
            }
            LeaseKnowledge::Held { .. } | LeaseKnowledge::Nothing | LeaseKnowledge::Absent => now,
        };
        self.known = LeaseKnowledge::Held { lease: Box::new(lease.clone()), since };
    }

    /// The write that gives the Lease back, after the leader has stopped to act; none when it does
    /// not lead.
    pub fn release(&mut self, now: Tick) -> Option<WriteOperation> {
        self.leads(now)?;
        let LeaseKnowledge::Held { lease, .. } = &self.known else { return None };
        let write = WriteOperation::Update(lease::released(lease, now));
        self.standing = CandidateState::Follows;
        self.under_way = ElectionRequest::Nothing;
        self.known = LeaseKnowledge::Nothing;
        Some(write)
    }

    fn identity(&self) -> &str {
        &self.candidacy.identity
    }
}

/// Nobody knows how a request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnansweredRequest;

impl ElectionTask {
    fn write(write: WriteOperation) -> Self {
        Self::Write(Box::new(write))
    }
}

/// Whether one of two is the later one; of two with different UIDs it is the one that was heard of
/// last.
fn is_newer(one: &Lease, other: &Lease) -> bool {
    one.metadata.uid != other.metadata.uid || version(one) > version(other)
}

/// The version as a number, as clients may compare them since Kubernetes 1.35 (KEP-5504); 0 for
/// what is none.
fn version(lease: &Lease) -> u128 {
    let version = lease.metadata.resource_version.as_deref();
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}
