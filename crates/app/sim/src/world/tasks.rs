//! What the controllers ask for, and what becomes of it on its way.

use rekindle_controllers::Refusal;
use rekindle_reconcile::{Task, Work};

use super::{Records, World, budgets, evictions};
use crate::faults::WriteFate;

impl World {
    pub(super) fn carry_out(&mut self, task: Task) {
        match task {
            Task::Write(work, step) => {
                self.budgets.note_write(&work);
                let fate = self.faults.write_fate();
                let ended = budgets::ended_by_rung(&work, &step.write);
                let ended = ended.and_then(|pod| self.server.pod(&pod.name));
                let tainted = evictions::ended_by_taint(&work, &step.write);
                let tainted = tainted.and_then(|pod| self.server.pod(&pod.name));
                let sent = match fate {
                    WriteFate::Well | WriteFate::DoneUnsaid => {
                        let forced = self.forced(&work, &step.write);
                        let write = forced.as_ref().unwrap_or(&step.write);
                        self.server.carry_out(write, None)
                    }
                    WriteFate::Lost => unknown(),
                    WriteFate::Conflict => conflict(),
                };
                if let rekindle_controllers::Outcome::Stored(_)
                | rekindle_controllers::Outcome::Done = &sent
                {
                    ended.into_iter().for_each(|pod| self.server.note_eviction(pod));
                    tainted.into_iter().for_each(|pod| self.check_taint_eviction(&pod));
                }
                let outcome = match fate {
                    WriteFate::DoneUnsaid => unknown(),
                    WriteFate::Well | WriteFate::Lost | WriteFate::Conflict => sent,
                };
                self.trace.add(self.now, &format!("{work}: {}", outcome_name(&outcome)));
                self.planner.settle(self.desk_now(), &work, &step, outcome);
                self.check_evictions();
                if let Work::Climb(_) = work {
                    self.check_ladders();
                }
            }
            Task::Record(event) => match self.records {
                Records::Written => self.server.record(&event),
                Records::Counted => self.server.count_event(),
            },
        }
    }
}

fn unknown() -> rekindle_controllers::Outcome {
    rekindle_controllers::Outcome::Unknown { message: "injected fault".to_owned() }
}

fn conflict() -> rekindle_controllers::Outcome {
    let message = "injected fault".to_owned();
    rekindle_controllers::Outcome::Refused { refusal: Refusal::Conflict, message }
}

fn outcome_name(outcome: &rekindle_controllers::Outcome) -> String {
    use rekindle_controllers::Outcome as Went;
    match outcome {
        Went::Stored(object) => format!("wrote {}", object.id()),
        Went::Gone => "gone".to_owned(),
        Went::Done => "done".to_owned(),
        Went::Refused { message, .. } => format!("refused: {message}"),
        Went::Unknown { message } => format!("unknown: {message}"),
    }
}
