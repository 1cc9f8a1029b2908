//! How a PodRestart ended, as the ledger of the ladder that asked for it remembers: the request
//! itself is removed some minutes later.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PodRestart, PodRestartPhase, ReplacementStep, RollbackStatus, Rung};

/// What a request without a message is said to have ended for.
const NO_REASON: &str = "nobody says why";

/// How a PodRestart ended that a ladder asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "dev.rekindle.v1alpha1.RestartOutcome")]
pub struct RestartOutcome {
    /// Its last phase.
    pub phase: PodRestartPhase,
    /// The pod that it was for.
    pub pod_name: String,
    /// What was to be restarted.
    pub rung: Rung,
    /// What happened, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When something was done to the pod first; absent when nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// Of Recreate and Reschedule: how far the replacement of the pod came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<ReplacementStep>,
    /// The pod that took its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_pod_name: Option<String>,
    /// Of Rollback: from where and to where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<RollbackStatus>,
}

/// What a request that is over did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestEffect<'a> {
    /// It was carried out, or begun and not finished.
    Done,
    /// It was over before anything was done to the pod, and nobody took it back: why.
    Nothing(&'a str),
    /// It was taken back before anything was done to the pod.
    TakenBack,
}

impl RestartOutcome {
    /// Of a request that is over; none while it is not.
    pub fn from_restart(restart: &PodRestart) -> Option<Self> {
        let status = restart.status.as_ref()?;
        let phase = status.phase.filter(|phase| phase.is_final())?;
        let replacement = status.replacement.as_ref();
        Some(Self {
            phase,
            pod_name: restart.spec.pod_name.clone(),
            rung: restart.spec.rung(),
            message: status.message.clone(),
            started_at: status.started_at.clone(),
            finished_at: status.finished_at.clone(),
            step: replacement.map(|replacement| replacement.step),
            new_pod_name: replacement.and_then(|replacement| replacement.new_pod_name.clone()),
            rollback: status.rollback.clone(),
        })
    }

    /// What it did.
    pub fn effect(&self) -> RequestEffect<'_> {
        let why = || self.message.as_deref().unwrap_or(NO_REASON);
        match self.phase {
            PodRestartPhase::Withdrawn => RequestEffect::TakenBack,
            PodRestartPhase::Refused => RequestEffect::Nothing(why()),
            PodRestartPhase::Failed if self.started_at.is_none() => RequestEffect::Nothing(why()),
            PodRestartPhase::Failed | PodRestartPhase::Running | PodRestartPhase::Succeeded => {
                RequestEffect::Done
            }
        }
    }

    /// Why it was given up, if something held it back until then.
    pub fn given_up(&self) -> Option<&str> {
        let was_held = self.step == Some(ReplacementStep::Held);
        self.message.as_deref().filter(|_| was_held && self.phase == PodRestartPhase::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_request_did_is_known_by_its_last_phase_and_whether_it_was_begun() {
        let outcome = |phase: &str, status: serde_json::Value| {
            let mut restart = serde_json::json!({"apiVersion": "rekindle.dev/v1alpha1", "kind": "PodRestart",
                "metadata": {"name": "again"}, "spec": {"podName": "web-0"}, "status": status});
            restart["status"]["phase"] = phase.into();
            RestartOutcome::from_restart(&serde_json::from_value(restart).unwrap())
        };
        let begun = || serde_json::json!({"startedAt": "2026-11-21T12:00:00Z", "message": "late"});
        let unbegun = || serde_json::json!({"message": "no such pod"});
        let nothing = |why: &str| format!("{:?}", RequestEffect::Nothing(why));
        for (phase, status, effect) in [
            ("Succeeded", begun(), "Done".to_owned()),
            ("Failed", begun(), "Done".to_owned()),
            ("Failed", unbegun(), nothing("no such pod")),
            ("Refused", begun(), nothing("late")),
            ("Refused", serde_json::json!({}), nothing(NO_REASON)),
            ("Withdrawn", unbegun(), "TakenBack".to_owned()),
        ] {
            let outcome = outcome(phase, status).unwrap();
            assert_eq!(format!("{:?}", outcome.effect()), effect, "{phase}");
            assert_eq!(outcome.given_up(), None, "{phase}");
        }
        assert_eq!(outcome("Running", begun()), None, "it is not over");
    }
}
