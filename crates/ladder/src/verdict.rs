//! What a ladder's own status says: whether it is accepted, and what of it is not carried out.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rekindle_types::Tick;
use rekindle_types::v1alpha1::{OnExhausted, RestartLadder, RestartLadderStatus};

use crate::Policy;

const ACCEPTED: &str = "Accepted";

/// The status to write; equal to the present one when nothing changed.
pub fn ladder_status(ladder: &RestartLadder, now: Tick) -> RestartLadderStatus {
    let (status, reason, message) = verdict(ladder);
    let present = ladder.status.iter().flat_map(|s| s.conditions.iter().flatten());
    let before = present.clone().find(|condition| condition.type_ == ACCEPTED);
    let since = match before {
        Some(before) if before.status == status => before.last_transition_time.clone(),
        Some(_) | None => now.to_time(),
    };
    let mut conditions: Vec<Condition> = present.filter(|c| c.type_ != ACCEPTED).cloned().collect();
    conditions.push(Condition {
        last_transition_time: since,
        message,
        observed_generation: ladder.metadata.generation,
        reason: reason.to_owned(),
        status: status.to_owned(),
        type_: ACCEPTED.to_owned(),
    });
    RestartLadderStatus {
        observed_generation: ladder.metadata.generation,
        conditions: Some(conditions),
    }
}

fn verdict(ladder: &RestartLadder) -> (&'static str, &'static str, String) {
    let policy = match Policy::of(ladder) {
        Ok(policy) => policy,
        Err(error) => return ("False", "Invalid", error.to_string()),
    };
    let mut missing: Vec<String> = Vec::new();
    let rungs: Vec<&str> = policy.unsupported().map(|rung| rung.name()).collect();
    let mut reason = "UnsupportedOnExhausted";
    if !rungs.is_empty() {
        reason = "UnsupportedRung";
        let word = if rungs.len() == 1 { "rung" } else { "rungs" };
        missing.push(format!("{word} {} passed over", rungs.join(", ")));
    }
    match policy.on_exhausted {
        OnExhausted::Hold => {}
        OnExhausted::Fail => missing.push("onExhausted Fail treated as Hold".to_owned()),
    }
    if missing.is_empty() {
        return ("True", "Accepted", "every rung is carried out".to_owned());
    }
    let message = format!("not carried out by this version of Rekindle: {}", missing.join("; "));
    ("False", reason, message)
}

#[cfg(test)]
mod tests;
