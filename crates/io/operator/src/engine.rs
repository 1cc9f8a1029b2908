//! The loop around the planner: watches, writes and the clock.

use rekindle_controllers::readings::NamespaceReading;
use rekindle_controllers::{PlannedWrite, WriteRefusal, WriteResult};
use rekindle_reconcile::{Planner, PlannerRole, PlannerTask, WatchUpdate, WorkItem};
use tokio::task::JoinSet;

use crate::feed::WatchFeed;
use crate::in_term::LeaderTerm;
use crate::metric_reader::MetricReader;
use crate::writer::PlanWriter;
use crate::{Clock, OperatorParts};

/// Controllers and ladder at work.
pub(crate) struct OperatorLoop {
    clock: Clock,
    feed: WatchFeed,
    /// The API is a cluster's, which gives it no more rights than it needs.
    is_guest: bool,
    writer: PlanWriter,
    reader: MetricReader,
    planner: Planner,
    writes: JoinSet<(WorkItem, Box<PlannedWrite>, WriteResult)>,
    readings: JoinSet<(String, NamespaceReading)>,
}

/// What woke the loop.
enum LoopWake {
    Seen(Option<WatchUpdate>),
    Written(Box<(WorkItem, Box<PlannedWrite>, WriteResult)>),
    Measured(String, NamespaceReading),
    Due,
}

impl OperatorLoop {
    /// Which says in each write in which term it is made, if it is elected.
    pub(crate) fn new(parts: OperatorParts, in_term: Option<LeaderTerm>) -> Self {
        let OperatorParts { client, clock, role, limits, nodes, figures } = parts;
        let writer = PlanWriter::new(client.clone());
        let reader = MetricReader::new(client.clone());
        let feed = WatchFeed::start(&client, &role);
        let is_guest = matches!(role, PlannerRole::Cluster(_));
        let mut planner = Planner::new(limits).with_role(role).with_figures(figures);
        planner.set_node_settings(nodes);
        Self {
            feed,
            is_guest,
            writer: match in_term {
                Some(in_term) => writer.in_term(in_term),
                None => writer,
            },
            reader,
            clock,
            planner,
            writes: JoinSet::new(),
            readings: JoinSet::new(),
        }
    }

    /// Ends only when the watches do, which is never.
    pub(crate) async fn run(mut self) {
        loop {
            match self.wake().await {
                LoopWake::Seen(None) => return,
                LoopWake::Seen(Some(seen)) => {
                    self.planner.see((self.clock)(), seen);
                    // What is there already is taken in before anything is decided.
                    while let Some(seen) = self.feed.try_next() {
                        self.planner.see((self.clock)(), seen);
                    }
                }
                LoopWake::Written(written) => {
                    let (work, step, outcome) = *written;
                    self.log(&work, &outcome);
                    self.planner.settle((self.clock)(), &work, &step, outcome);
                }
                LoopWake::Measured(namespace, reading) => {
                    if let Err(why) = &reading.usage {
                        tracing::debug!(namespace, why, "read what pods use");
                    }
                    self.planner.measured((self.clock)(), &namespace, reading);
                }
                LoopWake::Due => {}
            }
            self.planner.begin_due((self.clock)());
            self.begin_tasks();
        }
    }

    /// On a cluster a right may be missing, which nothing else shows.
    fn log(&self, work: &WorkItem, outcome: &WriteResult) {
        match outcome {
            WriteResult::Refused { refusal: WriteRefusal::Other, message } if self.is_guest => {
                tracing::warn!(%work, error = message, "failed to write: the API refused");
            }
            WriteResult::Refused { message, .. } | WriteResult::Unknown { message } => {
                tracing::debug!(%work, message, "write");
            }
            WriteResult::Stored(_) | WriteResult::Done | WriteResult::Gone => {}
        }
    }

    fn begin_tasks(&mut self) {
        while let Some(task) = self.planner.poll_task() {
            let writer = self.writer.clone();
            match task {
                PlannerTask::Write(work, step) => {
                    self.writes.spawn(async move {
                        let outcome = writer.carry_out(&step.write).await;
                        (work, step, outcome)
                    });
                }
                PlannerTask::Record(event) => {
                    tokio::spawn(async move { writer.record(event).await });
                }
                PlannerTask::Read(request) => {
                    let namespace = request.namespace.clone();
                    let reader = self.reader.clone();
                    self.readings.spawn(async move { (namespace, reader.read(request).await) });
                }
            }
        }
    }

    async fn wake(&mut self) -> LoopWake {
        let now = (self.clock)();
        let due = self.planner.next_due();
        let wait = async move {
            match due {
                Some(due) => tokio::time::sleep(due.since(now).to_std()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            seen = self.feed.next() => LoopWake::Seen(seen),
            Some(written) = self.writes.join_next() => match written {
                Ok(written) => LoopWake::Written(Box::new(written)),
                Err(error) => {
                    // A write task does not panic; if it does, its work is found again by the next
                    // change.
                    tracing::error!(%error, "failed to write: the task panicked");
                    LoopWake::Due
                }
            },
            Some(measured) = self.readings.join_next() => match measured {
                Ok((namespace, reading)) => LoopWake::Measured(namespace, reading),
                Err(error) => {
                    tracing::error!(%error, "failed to read what pods use: the task panicked");
                    LoopWake::Due
                }
            },
            () = wait => LoopWake::Due,
        }
    }
}
