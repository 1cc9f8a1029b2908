//! Drives a candidate: reads and writes its Lease, hears of changes to it by a watch, and lets the
//! work run while it leads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::coordination::v1::Lease;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use rekindle_controllers::events::{EventCorrelator, EventNote};
use rekindle_controllers::leader_election::{
    Candidacy, ElectionCandidate, ElectionTask, UnansweredRequest,
};
use rekindle_controllers::{ViewObject, WriteResult};
use rekindle_object_watch::watcher;
use rekindle_types::reasons::event;
use rekindle_types::{EventSeverity, Term, Tick};
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;

use crate::Clock;
use crate::in_term::LeaderTerm;
use crate::leadership::{Leadership, LeadershipState};
use crate::writer::PlanWriter;

/// `source.component` of the events.
const NAME: &str = "rekindle-controllers";

/// A candidate with its connection to the API.
pub(crate) struct Elector {
    clock: Clock,
    api: Api<Lease>,
    writer: PlanWriter,
    candidate: ElectionCandidate,
    recorder: EventCorrelator,
    /// Microseconds of the tick until which it leads; 0 while it does not. Asked before each write
    /// of the work.
    until: Arc<AtomicU64>,
    asked: JoinSet<LeaseAnswer>,
    /// The term that the work runs in.
    term: Option<Term>,
    work: JoinSet<()>,
    /// The leader that the log names.
    stands_by_for: Option<String>,
    /// What monitoring sees.
    leadership: Arc<Leadership>,
}

/// What came back.
enum LeaseAnswer {
    Read(Result<Option<Box<Lease>>, UnansweredRequest>),
    Wrote(Box<WriteResult>),
}

/// What woke the loop.
enum ElectorWake {
    Seen(Box<Event<Lease>>),
    Answered(Result<LeaseAnswer, JoinError>),
    WorkEnded(Result<(), JoinError>),
    Due,
    Stop,
}

impl Elector {
    pub(crate) fn new(
        client: Client,
        clock: Clock,
        candidacy: Candidacy,
        leadership: Arc<Leadership>,
    ) -> Self {
        Self {
            clock,
            api: Api::namespaced(client.clone(), &candidacy.lease.namespace),
            writer: PlanWriter::new(client),
            candidate: ElectionCandidate::new(candidacy),
            recorder: EventCorrelator::new(),
            until: Arc::default(),
            asked: JoinSet::new(),
            term: None,
            work: JoinSet::new(),
            stands_by_for: None,
            leadership,
        }
    }

    /// Until `stop` resolves; then the work is stopped and the Lease given back.
    pub(crate) async fn run<W>(
        mut self,
        mut act: impl FnMut(LeaderTerm) -> W,
        stop: impl Future<Output = ()>,
    ) where
        W: Future<Output = ()> + Send + 'static,
    {
        let mut seen = self.watch();
        let mut stop = std::pin::pin!(stop);
        loop {
            let until = self.ask();
            self.follow(&mut act).await;
            let wait = until.since((self.clock)()).to_std();
            let wake = tokio::select! {
                biased;
                () = &mut stop => ElectorWake::Stop,
                Some(answered) = self.asked.join_next() => ElectorWake::Answered(answered),
                Some(ended) = self.work.join_next() => ElectorWake::WorkEnded(ended),
                Some(event) = seen.next() => ElectorWake::Seen(Box::new(event)),
                () = tokio::time::sleep(wait) => ElectorWake::Due,
            };
            match wake {
                ElectorWake::Seen(event) => self.see(&event),
                ElectorWake::Answered(answered) => self.hear(answered),
                ElectorWake::WorkEnded(ended) => self.work_ended(ended).await,
                ElectorWake::Due => {}
                ElectorWake::Stop => return self.give_back().await,
            }
        }
    }

    /// Asks for what the candidate wants; answers until when there is nothing to be asked for.
    fn ask(&mut self) -> Tick {
        loop {
            let now = (self.clock)();
            let ask = self.candidate.poll(now);
            let until = self.candidate.leads_until().map_or(0, Tick::as_micros);
            self.until.store(until, Ordering::Release);
            let within = self.candidate.candidacy().timing.answer_within().to_std();
            match ask {
                ElectionTask::Read => {
                    let (api, name) =
                        (self.api.clone(), self.candidate.candidacy().lease.name.clone());
                    self.asked.spawn(async move {
                        let read = timeout(within, api.get_opt(&name)).await;
                        LeaseAnswer::Read(match read {
                            Ok(Ok(lease)) => Ok(lease.map(Box::new)),
                            Ok(Err(error)) => {
                                tracing::warn!(%error, "failed to read the lease {name}");
                                Err(UnansweredRequest)
                            }
                            Err(_elapsed) => Err(UnansweredRequest),
                        })
                    });
                }
                ElectionTask::Write(write) => {
                    let writer = self.writer.clone();
                    self.asked.spawn(async move {
                        let wrote = timeout(within, writer.carry_out(&write)).await;
                        LeaseAnswer::Wrote(Box::new(wrote.unwrap_or_else(|_elapsed| unanswered())))
                    });
                }
                ElectionTask::Wait(until) => return until,
            }
        }
    }

    /// Begins and ends the work as the candidate leads or not.
    async fn follow<W>(&mut self, act: &mut impl FnMut(LeaderTerm) -> W)
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let leads = self.candidate.leads((self.clock)()).cloned();
        let holder = self.candidate.holder().filter(|holder| !holder.is_empty());
        self.leadership.set(match (&leads, holder) {
            (Some(_), _) => LeadershipState::Leads,
            (None, Some(_)) => LeadershipState::StandsBy,
            (None, None) => LeadershipState::Undecided,
        });
        // a lease of its own that is not yet confirmed, or that an earlier process left
        let holder = holder.filter(|holder| leads.is_none() && *holder != self.identity());
        if holder.is_some() && holder != self.stands_by_for.as_deref() {
            tracing::info!(holder, "stands by");
            self.stands_by_for = holder.map(str::to_owned);
        }
        if leads == self.term {
            return;
        }
        if let Some(term) = self.term.take() {
            tracing::warn!(%term, "lost the lease; stopped leading");
            self.work.shutdown().await;
            self.say("stopped leading");
        }
        if let Some(term) = leads {
            tracing::info!(%term, identity = self.identity(), "leads");
            let (clock, until) = (Arc::clone(&self.clock), Arc::clone(&self.until));
            let lasts = move || clock().as_micros() < until.load(Ordering::Acquire);
            self.work.spawn(act(LeaderTerm::new(term.clone(), lasts)));
            self.term = Some(term);
            self.stands_by_for = None;
            self.say("became leader");
        }
    }

    fn see(&mut self, event: &Event<Lease>) {
        let now = (self.clock)();
        match event {
            Event::Apply(lease) | Event::InitApply(lease) => self.candidate.sees(Some(lease), now),
            Event::Delete(_) => self.candidate.sees(None, now),
            Event::Init | Event::InitDone => {}
        }
    }

    fn hear(&mut self, answered: Result<LeaseAnswer, JoinError>) {
        let now = (self.clock)();
        match answered {
            Ok(LeaseAnswer::Read(lease)) => {
                let lease = lease.as_ref().map(Option::as_deref).map_err(|unanswered| *unanswered);
                self.candidate.has_read(lease, now);
            }
            Ok(LeaseAnswer::Wrote(outcome)) => {
                if let WriteResult::Refused { message, .. } | WriteResult::Unknown { message } =
                    &*outcome
                {
                    tracing::info!(message, "the lease was not written");
                }
                self.candidate.has_written(&outcome, now);
            }
            Err(error) => {
                tracing::error!(%error, "failed to renew the lease: the task panicked");
                self.candidate.fails(now);
            }
        }
    }

    /// Work that ends by itself has failed inside: somebody else may do better, and if nobody is
    /// there it begins anew after a pause.
    async fn work_ended(&mut self, ended: Result<(), JoinError>) {
        if let Err(error) = ended {
            tracing::error!(%error, "failed to run controllers and ladder: the task panicked");
        }
        self.give_back().await;
        self.term = None;
        self.candidate.pauses((self.clock)());
    }

    /// Stops to act, and gives the Lease back if it is held.
    async fn give_back(&mut self) {
        self.work.shutdown().await;
        // it looks no more: who leads from now on is not known here
        self.leadership.set(LeadershipState::Undecided);
        let within = self.candidate.candidacy().timing.answer_within().to_std();
        // a renewal on its way would make the release one of an older version
        while let Ok(Some(answered)) = timeout(within, self.asked.join_next()).await {
            self.hear(answered);
        }
        let told = self.event("stopped leading");
        let Some(release) = self.candidate.release((self.clock)()) else { return };
        self.until.store(0, Ordering::Release);
        if timeout(within, self.writer.carry_out(&release)).await.is_err() {
            tracing::warn!("failed to release the lease in time; others wait until it expires");
            return;
        }
        if let Some(told) = told {
            // best effort: whoever stops does not wait for it long
            let _ = timeout(within, self.writer.record(told)).await;
        }
    }

    fn say(&mut self, what: &str) {
        if let Some(event) = self.event(what) {
            let writer = self.writer.clone();
            tokio::spawn(async move { writer.record(event).await });
        }
    }

    /// The event of client-go about a Lease.
    fn event(&mut self, what: &str) -> Option<rekindle_controllers::events::EventWrite> {
        let lease = ViewObject::from(self.candidate.lease()?.clone());
        let message = format!("{} {what}", self.identity());
        let note =
            EventNote::new(&lease, EventSeverity::Normal, event::LEADER_ELECTION, message, NAME);
        self.recorder.record(note, (self.clock)())
    }

    fn identity(&self) -> &str {
        &self.candidate.candidacy().identity
    }

    fn watch(&self) -> BoxStream<'static, Event<Lease>> {
        let name = &self.candidate.candidacy().lease.name;
        let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let events = watcher(self.api.clone(), only).default_backoff();
        let sound = events.filter_map(|event| async move {
            event.inspect_err(|error| tracing::debug!(%error, "watch the lease")).ok()
        });
        sound.boxed()
    }
}

fn unanswered() -> WriteResult {
    WriteResult::Unknown { message: "no answer in time".to_owned() }
}
