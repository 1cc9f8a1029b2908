//! What a ladder's own status says: whether it is accepted, and whether an older one decides for
//! its pods.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rekindle_types::Tick;
use rekindle_types::v1alpha1::{LadderScope, RestartLadder, RestartLadderStatus};

use crate::{InPlaceSupport, LadderAuthority, LadderPolicy};

const ACCEPTED: &str = "Accepted";
const OVERLAPPED: &str = "Overlapped";
const OVERLAP_OVER: &str = "no older ladder selects pods of this one any more";
/// A message quotes what a person wrote, which may be of any length.
const MESSAGE_BYTES_MAX: usize = 4096;

/// Whether a ladder reaches the pods that it selects, and with which rungs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LadderReach {
    /// It does.
    Pods(InPlaceSupport),
    /// Its namespace is not enabled; says what to do.
    NotEnabled(String),
    /// What says which pods it is meant for cannot be read; says why.
    Misread(String),
}

/// The status to write; equal to the present one when nothing changed. `overlapped` tells of the
/// older ladders that decide for pods of this one.
pub fn ladder_status(
    ladder: &RestartLadder,
    reach: &LadderReach,
    overlapped: Option<&str>,
    now: Tick,
) -> RestartLadderStatus {
    let present = ladder.status.iter().flat_map(|s| s.conditions.iter().flatten());
    let others = present.clone().filter(|c| c.type_ != ACCEPTED && c.type_ != OVERLAPPED);
    let condition = |type_: &str, status: &str, reason: &str, message: String| {
        let mut before = present.clone().filter(|c| c.type_ == type_ && c.status == status);
        Condition {
            last_transition_time: before
                .next()
                .map_or_else(|| now.to_time(), |before| before.last_transition_time.clone()),
            message: cut(message),
            observed_generation: ladder.metadata.generation,
            reason: reason.to_owned(),
            status: status.to_owned(),
            type_: type_.to_owned(),
        }
    };
    let (status, reason, message) = verdict(ladder, reach);
    let accepted = condition(ACCEPTED, status, reason, message);
    let overlapped = match overlapped {
        Some(by) => Some(condition(OVERLAPPED, "True", "OlderLadder", by.to_owned())),
        None if present.clone().any(|c| c.type_ == OVERLAPPED) => {
            Some(condition(OVERLAPPED, "False", "Over", OVERLAP_OVER.to_owned()))
        }
        None => None,
    };
    RestartLadderStatus {
        observed_generation: ladder.metadata.generation,
        conditions: Some(others.cloned().chain([accepted]).chain(overlapped).collect()),
    }
}

/// Whether the ladder's status tells of this overlap already.
pub fn tells_of_overlap(ladder: &RestartLadder, overlapped: &str) -> bool {
    let mut conditions = ladder.status.iter().flat_map(|s| s.conditions.iter().flatten());
    conditions.any(|c| c.type_ == OVERLAPPED && c.status == "True" && c.message == overlapped)
}

fn verdict(ladder: &RestartLadder, reach: &LadderReach) -> (&'static str, &'static str, String) {
    let policy = LadderPolicy::from_ladder(ladder);
    match (policy, reach) {
        (Ok(_), LadderReach::NotEnabled(why)) => ("False", "NotEnabled", why.clone()),
        (Ok(_), LadderReach::Misread(why)) => ("False", "Invalid", why.clone()),
        (Ok(policy), LadderReach::Pods(in_place)) => {
            let authority = LadderAuthority { in_place: *in_place, ..LadderAuthority::default() };
            let without = authority.rungs_without_agent(&policy);
            let names: Vec<&str> = without.iter().map(|rung| rung.name()).collect();
            let carried_out = match names.as_slice() {
                [] => "every rung is carried out".to_owned(),
                names => {
                    let why = match policy.scope {
                        LadderScope::Pod => "no node has an agent",
                        LadderScope::Group => "no agent here does that for a group",
                    };
                    format!("every rung but {} is carried out: {why}", names.join(" and "))
                }
            };
            let never = ladder.spec.never_climbs();
            let but = never.map(|(index, text)| format!("; spec.rungs[{index}].attempts: {text}"));
            let but = but.unwrap_or_default();
            ("True", "Accepted", format!("{carried_out}{but}"))
        }
        (Err(error), _) => ("False", "Invalid", error.to_string()),
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
