//! The loop that owns the view: it feeds what watches show, plans what is due, and settles how writes went.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kube::Client;
use rekindle_controllers::events::{Note, Recorder};
use rekindle_controllers::plan::Verdict;
use rekindle_controllers::{Change, Key, Kind, Outcome, Plan, Settled, Step, View};
use rekindle_ladder::Limits;
use rekindle_types::Tick;
use tokio::task::JoinSet;

use crate::Clock;
use crate::feed::{Feed, Seen, kinds};
use crate::queue::Queue;
use crate::turns::{Leave, Turns};
use crate::work::{Work, touched};
use crate::writer::Writer;

/// Controllers and ladder at work.
pub(crate) struct Engine {
    clock: Clock,
    limits: Limits,
    feed: Feed,
    writer: Writer,
    view: View,
    queue: Queue,
    turns: Turns,
    recorder: Recorder,
    /// Kinds whose first list has not been seen. Nothing is decided before: an empty view is not an empty world.
    unseen: BTreeSet<Kind>,
    /// Plans under way, by their work: each work has one at most.
    under_way: BTreeMap<Work, UnderWay>,
    writes: JoinSet<(Work, Step, Outcome)>,
}

/// A plan that is being carried out.
#[derive(Default)]
struct UnderWay {
    batches: VecDeque<Vec<Step>>,
    outstanding: usize,
    verdict: Verdict,
    freshness: Freshness,
}

/// Whether something changed for a work while its plan was under way.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Freshness {
    #[default]
    Fresh,
    Stale,
}

/// What woke the loop.
enum Wake {
    Seen(Option<Seen>),
    Written(Box<(Work, Step, Outcome)>),
    Due,
}

impl Engine {
    pub(crate) fn new(client: Client, clock: Clock, limits: Limits) -> Self {
        Self {
            feed: Feed::start(&client),
            writer: Writer::new(client),
            clock,
            limits,
            view: View::new(),
            queue: Queue::default(),
            turns: Turns::default(),
            recorder: Recorder::new(),
            unseen: kinds().collect(),
            under_way: BTreeMap::new(),
            writes: JoinSet::new(),
        }
    }

    /// Ends only when the watches do, which is never.
    pub(crate) async fn run(mut self) {
        loop {
            match self.wake().await {
                Wake::Seen(None) => return,
                Wake::Seen(Some(seen)) => {
                    self.see(seen);
                    // What is there already is taken in before anything is decided.
                    while let Some(seen) = self.feed.try_next() {
                        self.see(seen);
                    }
                }
                Wake::Written(written) => {
                    let (work, step, outcome) = *written;
                    self.settle(work, &step, outcome);
                }
                Wake::Due => {}
            }
            if self.unseen.is_empty() {
                self.begin_due();
            }
        }
    }

    async fn wake(&mut self) -> Wake {
        let now = (self.clock)();
        let due = self.queue.next_due();
        let wait = async move {
            match due {
                Some(due) => tokio::time::sleep(due.since(now).to_std()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            seen = self.feed.next() => Wake::Seen(seen),
            Some(written) = self.writes.join_next() => match written {
                Ok(written) => Wake::Written(Box::new(written)),
                Err(error) => {
                    // A write task does not panic; if it does, its work is found again by the next change.
                    tracing::error!(%error, "a write failed inside");
                    Wake::Due
                }
            },
            () = wait => Wake::Due,
        }
    }

    fn see(&mut self, seen: Seen) {
        self.view.set_time((self.clock)());
        let changes = match seen {
            Seen::List(kind, objects) => {
                self.unseen.remove(&kind);
                let reset = self.view.reset(kind, objects);
                let doubts = reset.doubtful.into_iter().map(Key::Doubt).map(Work::Controller);
                doubts.for_each(|doubt| self.enqueue(doubt));
                reset.changes
            }
            Seen::Applied(object) => self.view.apply(object).into_iter().collect(),
            Seen::Deleted(id, uid) => self.view.delete(&id, &uid).into_iter().collect(),
        };
        self.follow(changes);
    }

    /// Queues what changes touch.
    fn follow(&mut self, changes: Vec<Change>) {
        for change in changes {
            for work in touched(&self.view, &change) {
                self.enqueue(work);
            }
        }
    }

    fn enqueue(&mut self, work: Work) {
        match self.under_way.get_mut(&work) {
            Some(under_way) => under_way.freshness = Freshness::Stale,
            None => self.queue.add(work),
        }
    }

    /// Plans everything that is due and begins to carry it out.
    fn begin_due(&mut self) {
        let now = (self.clock)();
        self.view.set_time(now);
        loop {
            let due = self.queue.take(now);
            if due.is_empty() {
                return;
            }
            let mut due: Vec<Work> = due.into_iter().collect();
            due.sort_by_cached_key(|work| work.turn(&self.view));
            for work in due {
                match self.under_way.get_mut(&work) {
                    // its time came while it writes: what it writes would be decided on twice
                    Some(under_way) => under_way.freshness = Freshness::Stale,
                    None => self.begin(work, now),
                }
            }
        }
    }

    fn begin(&mut self, work: Work, now: Tick) {
        let plan = work.plan(&self.view, now, &self.limits);
        if self.turns.ask(&work, &plan) == Leave::Waits {
            return;
        }
        let Plan { batches, notes, again_at } = plan;
        self.record(notes);
        if let Some(at) = again_at {
            // never in a circle without time passing
            let at = at.max(now + rekindle_types::TickDuration::from_millis(1));
            self.queue.add_at(work.clone(), at);
        }
        let batches: VecDeque<Vec<Step>> =
            batches.into_iter().filter(|batch| !batch.is_empty()).collect();
        if batches.is_empty() {
            self.queue.forgive(&work);
            self.end_turn(&work);
            return;
        }
        self.under_way.insert(work.clone(), UnderWay { batches, ..UnderWay::default() });
        self.next_batch(&work);
    }

    /// Begins the next batch of a plan, or ends the plan.
    fn next_batch(&mut self, work: &Work) {
        let Some(under_way) = self.under_way.get_mut(work) else { return };
        let next = match under_way.verdict {
            Verdict::Continue => under_way.batches.pop_front(),
            Verdict::Retry | Verdict::Stop => None,
        };
        let Some(batch) = next else { return self.end(work) };
        under_way.outstanding = batch.len();
        for step in batch {
            let changes = self.view.begin(&step);
            self.follow(changes);
            let (writer, work) = (self.writer.clone(), work.clone());
            self.writes.spawn(async move {
                let outcome = writer.carry_out(&step.write).await;
                (work, step, outcome)
            });
        }
    }

    fn settle(&mut self, work: Work, step: &Step, outcome: Outcome) {
        if let Outcome::Refused { message, .. } | Outcome::Unknown { message } = &outcome {
            tracing::debug!(%work, message, "write");
        }
        let Settled { changes, notes, verdict } = self.view.settle(&work.object(), step, outcome);
        self.record(notes);
        self.follow(changes);
        let Some(under_way) = self.under_way.get_mut(&work) else { return };
        under_way.outstanding -= 1;
        under_way.verdict = worse(under_way.verdict, verdict);
        if under_way.outstanding == 0 {
            self.next_batch(&work);
        }
    }

    fn end(&mut self, work: &Work) {
        let Some(under_way) = self.under_way.remove(work) else { return };
        match under_way.verdict {
            Verdict::Continue | Verdict::Stop => {
                self.queue.forgive(work);
                self.end_turn(work);
            }
            // it keeps its turn: what it wrote may have been done, and not be seen yet
            Verdict::Retry => self.queue.retry(work.clone(), (self.clock)()),
        }
        if under_way.freshness == Freshness::Stale && under_way.verdict != Verdict::Retry {
            self.queue.add(work.clone());
        }
    }

    fn end_turn(&mut self, work: &Work) {
        for next in self.turns.over(work) {
            self.enqueue(next);
        }
    }

    fn record(&mut self, notes: Vec<Note>) {
        let now = (self.clock)();
        for note in notes {
            if let Some(event) = self.recorder.record(note, now) {
                let writer = self.writer.clone();
                tokio::spawn(async move { writer.record(event).await });
            }
        }
    }
}

/// The one of two verdicts that lets less go on.
fn worse(one: Verdict, other: Verdict) -> Verdict {
    match (one, other) {
        (Verdict::Stop, _) | (_, Verdict::Stop) => Verdict::Stop,
        (Verdict::Retry, _) | (_, Verdict::Retry) => Verdict::Retry,
        (Verdict::Continue, Verdict::Continue) => Verdict::Continue,
    }
}
