//! The steps of a PodRestart: what was done and when, as it is kept in the status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PodRestartPhase, PodRestartStatus};
use crate::Tick;

/// Steps kept of a restart.
pub const RESTART_STEPS_MAX: usize = 16;

/// Bytes of a message; what is longer is cut.
pub const RESTART_MESSAGE_BYTES_MAX: usize = 4096;

/// One step of a restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "dev.rekindle.v1alpha1.PodRestartStep")]
pub struct PodRestartStep {
    /// When it began; the first time, when it was taken more than once.
    pub at: MicroTime,
    /// The phase of the restart then.
    pub phase: PodRestartPhase,
    /// What was done or what held it back, for people.
    pub message: String,
    /// How often it was taken: a request that a budget holds back is tried again and again. At
    /// least 1.
    #[schemars(range(min = 1))]
    pub count: i32,
    /// When it began for the last time; absent when that is `at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_at: Option<MicroTime>,
}

impl PodRestartStatus {
    /// The restart goes on, or ends: phase and message become these, and a step is added. Nothing
    /// is added when that is the step it is at already; a step that alternates with the one it is
    /// at (tried and held back in turn) is counted.
    pub fn go_on(&mut self, phase: PodRestartPhase, mut message: String, at: MicroTime) {
        message.truncate(message.floor_char_boundary(RESTART_MESSAGE_BYTES_MAX));
        let place = self.steps.iter().rposition(|s| s.phase == phase && s.message == message);
        let latest = self.steps.len().wrapping_sub(1);
        let now = at.clone();
        match place {
            Some(place) if place == latest => {}
            Some(place) if place + 1 == latest => {
                let mut again = self.steps.remove(place);
                again.count = again.count.saturating_add(1);
                again.last_at = Some(at);
                self.steps.push(again);
            }
            Some(_) | None => {
                let message = message.clone();
                self.steps.push(PodRestartStep { at, phase, message, count: 1, last_at: None });
            }
        }
        let surplus = self.steps.len().saturating_sub(RESTART_STEPS_MAX);
        self.steps.drain(..surplus);
        self.stand(phase, message, &now);
    }

    /// Phase and message become these, and the conditions follow; no step is added.
    pub fn stand(&mut self, phase: PodRestartPhase, message: String, at: &MicroTime) {
        let (finished, succeeded) = match phase {
            PodRestartPhase::Running => ("False", "Unknown"),
            PodRestartPhase::Succeeded => ("True", "True"),
            PodRestartPhase::Failed | PodRestartPhase::Refused | PodRestartPhase::Withdrawn => {
                ("True", "False")
            }
        };
        let before = self.conditions.take().unwrap_or_default();
        let condition = |type_: &str, status: &str| {
            let known = before.iter().find(|c| c.type_ == type_ && c.status == status);
            Condition {
                last_transition_time: known.map_or_else(
                    || Tick::from(at).to_time(),
                    |known| known.last_transition_time.clone(),
                ),
                message: message.clone(),
                observed_generation: None,
                reason: format!("{phase:?}"),
                status: status.to_owned(),
                type_: type_.to_owned(),
            }
        };
        self.conditions =
            Some(vec![condition("Finished", finished), condition("Succeeded", succeeded)]);
        self.phase = Some(phase);
        self.message = Some(message);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::TickDuration;

    fn after(seconds: u64) -> MicroTime {
        (Tick::ZERO + TickDuration::from_secs(seconds)).to_micro_time()
    }

    fn told(status: &PodRestartStatus) -> Vec<(&str, i32, MicroTime)> {
        let last = |s: &PodRestartStep| s.last_at.clone().unwrap_or_else(|| s.at.clone());
        status.steps.iter().map(|s| (s.message.as_str(), s.count, last(s))).collect()
    }

    #[test]
    fn a_request_that_is_held_back_again_and_again_has_two_steps_that_count() {
        let mut status = PodRestartStatus::default();
        for round in 0..3 {
            status.go_on(PodRestartPhase::Running, "evicting".to_owned(), after(2 * round));
            status.go_on(PodRestartPhase::Running, "held".to_owned(), after(2 * round + 1));
            status.go_on(PodRestartPhase::Running, "held".to_owned(), after(2 * round + 1));
        }
        assert_eq!(told(&status), [("evicting", 3, after(4)), ("held", 3, after(5))]);
        assert_eq!(status.steps[0].at, after(0));
        status.go_on(PodRestartPhase::Running, "evicting".to_owned(), after(6));
        status.go_on(PodRestartPhase::Succeeded, "done".to_owned(), after(7));
        let expected = [("held", 3, after(5)), ("evicting", 4, after(6)), ("done", 1, after(7))];
        assert_eq!(told(&status), expected, "the order is that of the last time");
        assert_eq!(status.phase, Some(PodRestartPhase::Succeeded));
        assert_eq!(status.message.as_deref(), Some("done"));
    }

    #[test]
    fn the_conditions_say_whether_it_is_finished_and_succeeded_and_since_when() {
        let told = |status: &PodRestartStatus| -> Vec<(String, Time)> {
            let conditions = status.conditions.iter().flatten();
            let told = conditions.map(|c| {
                (format!("{} {} {}", c.type_, c.status, c.reason), c.last_transition_time.clone())
            });
            told.collect()
        };
        let at = |seconds| Tick::from(&after(seconds)).to_time();
        let mut status = PodRestartStatus::default();
        status.go_on(PodRestartPhase::Running, "stopping".to_owned(), after(1));
        status.go_on(PodRestartPhase::Running, "starting".to_owned(), after(2));
        let running = ["Finished False Running", "Succeeded Unknown Running"];
        assert_eq!(told(&status), running.map(|text| (text.to_owned(), at(1))));
        let mut done = status.clone();
        done.go_on(PodRestartPhase::Succeeded, "runs".to_owned(), after(3));
        let succeeded = ["Finished True Succeeded", "Succeeded True Succeeded"];
        assert_eq!(told(&done), succeeded.map(|text| (text.to_owned(), at(3))));
        status.go_on(PodRestartPhase::Failed, "the deadline passed".to_owned(), after(4));
        let failed = ["Finished True Failed", "Succeeded False Failed"];
        assert_eq!(told(&status), failed.map(|text| (text.to_owned(), at(4))));
    }

    #[test]
    fn the_steps_are_bounded_and_the_newest_stay() {
        let mut status = PodRestartStatus::default();
        for step in 0..100 {
            status.go_on(PodRestartPhase::Running, format!("step {step}"), after(step));
        }
        assert_eq!(status.steps.len(), RESTART_STEPS_MAX);
        assert_eq!(status.steps[RESTART_STEPS_MAX - 1].message, "step 99");
    }
}
