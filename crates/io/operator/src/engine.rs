//! The loop around the planner: watches, writes and the clock.

use rekindle_controllers::{Outcome, Step};
use rekindle_reconcile::{Planner, Seen, Task, Work};
use tokio::task::JoinSet;

use crate::feed::Feed;
use crate::in_term::InTerm;
use crate::writer::Writer;
use crate::{Clock, Parts};

/// Controllers and ladder at work.
pub(crate) struct Engine {
    clock: Clock,
    feed: Feed,
    writer: Writer,
    planner: Planner,
    writes: JoinSet<(Work, Box<Step>, Outcome)>,
}

/// What woke the loop.
enum Wake {
    Seen(Option<Seen>),
    Written(Box<(Work, Box<Step>, Outcome)>),
    Due,
}

impl Engine {
    /// Which says in each write in which term it is made, if it is elected.
    pub(crate) fn new(parts: Parts, in_term: Option<InTerm>) -> Self {
        let Parts { client, clock, limits, nodes, figures } = parts;
        let writer = Writer::new(client.clone());
        let mut planner = Planner::new(limits).with_figures(figures);
        planner.set_node_settings(nodes);
        Self {
            feed: Feed::start(&client),
            writer: match in_term {
                Some(in_term) => writer.in_term(in_term),
                None => writer,
            },
            clock,
            planner,
            writes: JoinSet::new(),
        }
    }

    /// Ends only when the watches do, which is never.
    pub(crate) async fn run(mut self) {
        loop {
            match self.wake().await {
                Wake::Seen(None) => return,
                Wake::Seen(Some(seen)) => {
                    self.planner.see((self.clock)(), seen);
                    // What is there already is taken in before anything is decided.
                    while let Some(seen) = self.feed.try_next() {
                        self.planner.see((self.clock)(), seen);
                    }
                }
                Wake::Written(written) => {
                    let (work, step, outcome) = *written;
                    if let Outcome::Refused { message, .. } | Outcome::Unknown { message } =
                        &outcome
                    {
                        tracing::debug!(%work, message, "write");
                    }
                    self.planner.settle((self.clock)(), &work, &step, outcome);
                }
                Wake::Due => {}
            }
            self.planner.begin_due((self.clock)());
            self.begin_tasks();
        }
    }

    fn begin_tasks(&mut self) {
        while let Some(task) = self.planner.poll_task() {
            let writer = self.writer.clone();
            match task {
                Task::Write(work, step) => {
                    self.writes.spawn(async move {
                        let outcome = writer.carry_out(&step.write).await;
                        (work, step, outcome)
                    });
                }
                Task::Record(event) => {
                    tokio::spawn(async move { writer.record(event).await });
                }
            }
        }
    }

    async fn wake(&mut self) -> Wake {
        let now = (self.clock)();
        let due = self.planner.next_due();
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
                    // A write task does not panic; if it does, its work is found again by the next
                    // change.
                    tracing::error!(%error, "failed to write: the task panicked");
                    Wake::Due
                }
            },
            () = wait => Wake::Due,
        }
    }
}
