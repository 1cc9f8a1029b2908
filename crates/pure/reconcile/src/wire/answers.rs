//! What the answer to a write's request says, in the words of the plan.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause};
use rekindle_controllers::plan::Delete;
use rekindle_controllers::{Kind, ObjectId, Outcome, Refusal, Write};
use rekindle_types::reasons::DEADLOCKED_BUDGET;
use rekindle_types::term::TERM_OVER;
use serde_json::Value;

use super::objects::{object_from_json, object_from_value};

/// The kind of the stored object in the answer to a write; none if the answer is something else.
pub fn stored_kind(write: &Write) -> Option<Kind> {
    match write {
        Write::Create(manifest) => Some(manifest.id().kind),
        Write::Update(object) | Write::UpdateStatus(object) => Some(object.kind()),
        Write::Patch { id, .. } => Some(id.kind),
        Write::Nominate { pod, .. } => Some(pod.kind),
        Write::TryCreate(_)
        | Write::Delete(_)
        | Write::DeleteAll { .. }
        | Write::Bind { .. }
        | Write::Evict(_)
        | Write::Finalize(_)
        | Write::CheckAbsent { .. }
        | Write::CheckEmpty { .. } => None,
    }
}

/// What came of a write that was answered with success and this text: an object, a list or a
/// `Status`.
pub fn outcome_of_success(write: &Write, text: &[u8]) -> Outcome {
    if let Some(kind) = stored_kind(write) {
        return match object_from_json(kind, text) {
            Ok(object) => Outcome::Stored(object),
            Err(error) => unreadable(&error),
        };
    }
    let answer = || serde_json::from_slice::<Value>(text);
    let outcome = match write {
        Write::Delete(delete) => answer().map(|answer| deleted(delete, answer)),
        Write::Finalize(_) => answer().map(finalized),
        Write::CheckAbsent { id, uid } => {
            answer().map(|found| looked_for(id, uid.as_deref(), &found))
        }
        Write::CheckEmpty { of } => answer().map(|list| listed(of, &list)),
        // What a dry run would store is not stored: the view must not learn of it.
        Write::TryCreate(_)
        | Write::Create(_)
        | Write::Update(_)
        | Write::UpdateStatus(_)
        | Write::Patch { .. }
        | Write::DeleteAll { .. }
        | Write::Bind { .. }
        | Write::Nominate { .. }
        | Write::Evict(_) => Ok(Outcome::Done),
    };
    outcome.unwrap_or_else(|error| unreadable(&error))
}

/// What came of a write that the API refused.
pub fn outcome_of_refusal(write: &Write, status: Status) -> Outcome {
    match write {
        Write::CheckAbsent { .. } if status.code == Some(404) => Outcome::Done,
        Write::TryCreate(_) => match refused(status) {
            Outcome::Refused { refusal: Refusal::AlreadyExists, .. } => Outcome::Done,
            outcome => outcome,
        },
        Write::CheckAbsent { .. }
        | Write::Create(_)
        | Write::Update(_)
        | Write::UpdateStatus(_)
        | Write::Patch { .. }
        | Write::Delete(_)
        | Write::DeleteAll { .. }
        | Write::Bind { .. }
        | Write::Nominate { .. }
        | Write::Evict(_)
        | Write::Finalize(_)
        | Write::CheckEmpty { .. } => refused(status),
    }
}

/// True for a refusal of an event that needs no line in the log: its namespace is gone or going, so
/// that no reader will look for it, or another operator leads and records its own events.
pub fn is_expected_event_refusal(status: &Status) -> bool {
    matches!(status.code, Some(403 | 404))
        || causes(status).any(|cause| cause.reason.as_deref() == Some(TERM_OVER))
}

/// A budget's refusal with those of its causes that its message leaves out: upstream names the
/// budget in them alone.
pub fn budget_refusal(status: &Status) -> String {
    let message = status.message.as_deref().unwrap_or_default();
    let untold: Vec<&str> = causes(status)
        .filter_map(|cause| cause.message.as_deref())
        .filter(|cause| !message.contains(cause))
        .collect();
    match untold.as_slice() {
        [] => message.to_owned(),
        untold => {
            let end = if message.ends_with('.') { "" } else { ";" };
            format!("{message}{end} {}", untold.join("; "))
        }
    }
}

fn deleted(delete: &Delete, answer: Value) -> Outcome {
    // A Status, or an object that nothing holds any more, is the last that is heard of it.
    if is_last_word(&answer) { Outcome::Gone } else { stored(delete.id.kind, answer) }
}

/// True when the answer to a delete says that the object is gone already.
fn is_last_word(answer: &Value) -> bool {
    let meta = &answer["metadata"];
    let in_grace = meta["deletionGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds > 0);
    answer["kind"] == "Status" || (!has_entries(&meta["finalizers"]) && !in_grace)
}

fn finalized(left: Value) -> Outcome {
    let is_held =
        has_entries(&left["spec"]["finalizers"]) || has_entries(&left["metadata"]["finalizers"]);
    let is_going = !left["metadata"]["deletionTimestamp"].is_null();
    if is_going && !is_held { Outcome::Gone } else { stored(Kind::Namespace, left) }
}

fn looked_for(id: &ObjectId, uid: Option<&str>, found: &Value) -> Outcome {
    match uid {
        Some(uid) if found["metadata"]["uid"] != uid => Outcome::Done,
        Some(_) | None => still_there(format!("{id} is still there")),
    }
}

fn listed(of: &ObjectId, list: &Value) -> Outcome {
    if has_entries(&list["items"]) {
        let (plural, namespace) = (of.kind.info().plural, &of.name.namespace);
        return still_there(format!("{plural} of namespace {namespace} are left"));
    }
    Outcome::Done
}

fn still_there(message: String) -> Outcome {
    Outcome::Refused { refusal: Refusal::StillThere, message }
}

fn has_entries(list: &Value) -> bool {
    list.as_array().is_some_and(|list| !list.is_empty())
}

fn stored(kind: Kind, answer: Value) -> Outcome {
    match object_from_value(kind, answer) {
        Ok(object) => Outcome::Stored(object),
        Err(error) => unreadable(&error),
    }
}

fn unreadable(error: &serde_json::Error) -> Outcome {
    Outcome::Unknown { message: format!("read the answer: {error}") }
}

/// A refusal of the server in the words of the plan.
fn refused(status: Status) -> Outcome {
    let is_caused_by = |reason| causes(&status).any(|c| c.reason.as_deref() == Some(reason));
    let refusal = match (status.code.unwrap_or_default(), status.reason.as_deref()) {
        _ if is_caused_by("NamespaceTerminating") => Refusal::NamespaceTerminating,
        (404, _) => return Outcome::Gone,
        (_, Some("AlreadyExists")) => Refusal::AlreadyExists,
        (409, _) => Refusal::Conflict,
        (429, _) if is_caused_by(DEADLOCKED_BUDGET) => Refusal::DeadlockedBudget,
        (429, _) => Refusal::Budget,
        _ => Refusal::Other,
    };
    let message = match refusal {
        Refusal::Budget | Refusal::DeadlockedBudget => budget_refusal(&status),
        Refusal::Conflict
        | Refusal::AlreadyExists
        | Refusal::StillThere
        | Refusal::NamespaceTerminating
        | Refusal::Other => status.message.unwrap_or_default(),
    };
    Outcome::Refused { refusal, message }
}

fn causes(status: &Status) -> impl Iterator<Item = &StatusCause> {
    status.details.iter().flat_map(|details| details.causes.iter().flatten())
}
