//! What the controllers ask for, and what becomes of it on its way.

use rekindle_controllers::WriteRefusal;
use rekindle_reconcile::{PlannerTask, WorkItem};

use super::{EventRecording, World, budgets, evictions};
use crate::faults::WriteFate;

impl World {
    pub(super) fn carry_out(&mut self, task: PlannerTask) {
        match task {
            PlannerTask::Write(work, step) => {
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
                if let rekindle_controllers::WriteResult::Stored(_)
                | rekindle_controllers::WriteResult::Done = &sent
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
                if let WorkItem::Climb(_) = work {
                    self.check_ladders();
                }
            }
            PlannerTask::Read(request) => {
                let reading = self.reading_of(&request);
                self.planner.measured(self.desk_now(), &request.namespace, reading);
            }
            PlannerTask::Record(event) => match self.records {
                EventRecording::Written => self.server.record(&event),
                EventRecording::Counted => self.server.count_event(),
            },
        }
    }
}

fn unknown() -> rekindle_controllers::WriteResult {
    rekindle_controllers::WriteResult::Unknown { message: "injected fault".to_owned() }
}

fn conflict() -> rekindle_controllers::WriteResult {
    let message = "injected fault".to_owned();
    rekindle_controllers::WriteResult::Refused { refusal: WriteRefusal::Conflict, message }
}

fn outcome_name(outcome: &rekindle_controllers::WriteResult) -> String {
    use rekindle_controllers::WriteResult;
    match outcome {
        WriteResult::Stored(object) => format!("wrote {}", object.id()),
        WriteResult::Gone => "gone".to_owned(),
        WriteResult::Done => "done".to_owned(),
        WriteResult::Refused { message, .. } => format!("refused: {message}"),
        WriteResult::Unknown { message } => format!("unknown: {message}"),
    }
}
