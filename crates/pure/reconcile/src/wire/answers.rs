//! What the answer to a write's request says, in the words of the plan.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause};
use rekindle_controllers::plan::DeleteWrite;
use rekindle_controllers::{ObjectId, ResourceKind, WriteOperation, WriteRefusal, WriteResult};
use rekindle_types::reasons::DEADLOCKED_BUDGET;
use rekindle_types::term::TERM_OVER;
use serde_json::Value;

use super::objects::object_from_json;

/// The kind of the stored object in the answer to a write; none if the answer is something else.
pub fn stored_kind(write: &WriteOperation) -> Option<ResourceKind> {
    match write {
        WriteOperation::Create(manifest) => Some(manifest.id().kind),
        WriteOperation::Update(object) | WriteOperation::UpdateStatus(object) => {
            Some(object.kind())
        }
        WriteOperation::Patch { id, .. } => Some(id.kind),
        WriteOperation::Nominate { pod, .. } => Some(pod.kind),
        WriteOperation::TryCreate(_)
        | WriteOperation::Scale(_)
        | WriteOperation::Delete(_)
        | WriteOperation::DeleteAll { .. }
        | WriteOperation::Bind { .. }
        | WriteOperation::Evict(_)
        | WriteOperation::Finalize(_)
        | WriteOperation::CheckAbsent { .. }
        | WriteOperation::CheckEmpty { .. } => None,
    }
}

/// What came of a write that was answered with success and this text: an object, a list or a
/// `Status`.
pub fn outcome_of_success(write: &WriteOperation, text: &[u8]) -> WriteResult {
    if let Some(kind) = stored_kind(write) {
        return stored(kind, text);
    }
    let answer = || serde_json::from_slice::<Value>(text);
    let outcome = match write {
        WriteOperation::Delete(delete) => answer().map(|answer| deleted(delete, &answer, text)),
        WriteOperation::Finalize(_) => answer().map(|left| finalized(&left, text)),
        WriteOperation::CheckAbsent { id, uid } => {
            answer().map(|found| looked_for(id, uid.as_deref(), &found))
        }
        WriteOperation::CheckEmpty { of } => answer().map(|list| listed(of, &list)),
        // What a dry run would store is not stored: the view must not learn of it.
        WriteOperation::TryCreate(_)
        | WriteOperation::Create(_)
        | WriteOperation::Update(_)
        | WriteOperation::UpdateStatus(_)
        | WriteOperation::Patch { .. }
        | WriteOperation::Scale(_)
        | WriteOperation::DeleteAll { .. }
        | WriteOperation::Bind { .. }
        | WriteOperation::Nominate { .. }
        | WriteOperation::Evict(_) => Ok(WriteResult::Done),
    };
    outcome.unwrap_or_else(|error| unreadable(&error))
}

/// What came of a write that the API refused.
pub fn outcome_of_refusal(write: &WriteOperation, status: Status) -> WriteResult {
    match write {
        WriteOperation::CheckAbsent { id, .. } if status.code == Some(404) => absent(id, status),
        WriteOperation::TryCreate(_) => match refused(status) {
            WriteResult::Refused { refusal: WriteRefusal::AlreadyExists, .. } => WriteResult::Done,
            outcome => outcome,
        },
        WriteOperation::CheckAbsent { .. }
        | WriteOperation::Create(_)
        | WriteOperation::Update(_)
        | WriteOperation::UpdateStatus(_)
        | WriteOperation::Patch { .. }
        | WriteOperation::Scale(_)
        | WriteOperation::Delete(_)
        | WriteOperation::DeleteAll { .. }
        | WriteOperation::Bind { .. }
        | WriteOperation::Nominate { .. }
        | WriteOperation::Evict(_)
        | WriteOperation::Finalize(_)
        | WriteOperation::CheckEmpty { .. } => refused(status),
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

fn deleted(delete: &DeleteWrite, answer: &Value, text: &[u8]) -> WriteResult {
    // A Status, or an object that nothing holds any more, is the last that is heard of it.
    if is_last_word(answer) { WriteResult::Gone } else { stored(delete.id.kind, text) }
}

/// True when the answer to a delete says that the object is gone already.
fn is_last_word(answer: &Value) -> bool {
    let meta = &answer["metadata"];
    let in_grace = meta["deletionGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds > 0);
    answer["kind"] == "Status" || (!has_entries(&meta["finalizers"]) && !in_grace)
}

fn finalized(left: &Value, text: &[u8]) -> WriteResult {
    let is_held =
        has_entries(&left["spec"]["finalizers"]) || has_entries(&left["metadata"]["finalizers"]);
    let is_going = !left["metadata"]["deletionTimestamp"].is_null();
    if is_going && !is_held { WriteResult::Gone } else { stored(ResourceKind::Namespace, text) }
}

fn looked_for(id: &ObjectId, uid: Option<&str>, found: &Value) -> WriteResult {
    match uid {
        Some(uid) if found["metadata"]["uid"] != uid => WriteResult::Done,
        Some(_) | None => still_there(format!("{id} is still there")),
    }
}

/// A 404 says that an object is absent only if it names the object. The one for a path that is not
/// served names none: a definition may have stopped to serve the version that was asked for, and
/// the object lives on.
fn absent(id: &ObjectId, status: Status) -> WriteResult {
    let named = status.details.as_ref().and_then(|details| details.name.as_deref());
    if named == Some(&*id.name.name) {
        return WriteResult::Done;
    }
    let message = status.message.unwrap_or_default();
    WriteResult::Refused { refusal: WriteRefusal::Other, message }
}

fn listed(of: &ObjectId, list: &Value) -> WriteResult {
    if has_entries(&list["items"]) {
        let (plural, namespace) = (of.kind.info().plural, &of.name.namespace);
        return still_there(format!("{plural} of namespace {namespace} are left"));
    }
    WriteResult::Done
}

fn still_there(message: String) -> WriteResult {
    WriteResult::Refused { refusal: WriteRefusal::StillThere, message }
}

fn has_entries(list: &Value) -> bool {
    list.as_array().is_some_and(|list| !list.is_empty())
}

fn stored(kind: ResourceKind, text: &[u8]) -> WriteResult {
    match object_from_json(kind, text) {
        Ok(object) => WriteResult::Stored(object),
        Err(error) => unreadable(&error),
    }
}

fn unreadable(error: &serde_json::Error) -> WriteResult {
    WriteResult::Unknown { message: format!("read the answer: {error}") }
}

/// A refusal of the server in the words of the plan.
fn refused(status: Status) -> WriteResult {
    let is_caused_by = |reason| causes(&status).any(|c| c.reason.as_deref() == Some(reason));
    let refusal = match (status.code.unwrap_or_default(), status.reason.as_deref()) {
        _ if is_caused_by("NamespaceTerminating") => WriteRefusal::NamespaceTerminating,
        (404, _) => return WriteResult::Gone,
        (_, Some("AlreadyExists")) => WriteRefusal::AlreadyExists,
        (409, _) => WriteRefusal::Conflict,
        (429, _) if is_caused_by(DEADLOCKED_BUDGET) => WriteRefusal::DeadlockedBudget,
        (429, _) => WriteRefusal::Budget,
        _ => WriteRefusal::Other,
    };
    let message = match refusal {
        WriteRefusal::Budget | WriteRefusal::DeadlockedBudget => budget_refusal(&status),
        WriteRefusal::Conflict
        | WriteRefusal::AlreadyExists
        | WriteRefusal::StillThere
        | WriteRefusal::NamespaceTerminating
        | WriteRefusal::Other => status.message.unwrap_or_default(),
    };
    WriteResult::Refused { refusal, message }
}

fn causes(status: &Status) -> impl Iterator<Item = &StatusCause> {
    status.details.iter().flat_map(|details| details.causes.iter().flatten())
}
