//! What a ladder's own status says: whether it is accepted.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rekindle_types::Tick;
use rekindle_types::v1alpha1::{RestartLadder, RestartLadderStatus};

use crate::Policy;

const ACCEPTED: &str = "Accepted";
/// A message quotes what a person wrote, which may be of any length.
const MESSAGE_BYTES_MAX: usize = 4096;

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
    match Policy::of(ladder) {
        Ok(_) => {
            let never = ladder.spec.never_climbs();
            let but = never.map(|(index, text)| format!("; spec.rungs[{index}].attempts: {text}"));
            let but = but.unwrap_or_default();
            ("True", "Accepted", format!("every rung is carried out{but}"))
        }
        Err(error) => ("False", "Invalid", cut(error.to_string())),
    }
}

fn cut(mut message: String) -> String {
    if message.len() > MESSAGE_BYTES_MAX {
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        message.push('…');
    }
    message
}

#[cfg(test)]
mod tests;
