//! The owner that a request stands for.

use rekindle_kinds::registry::{AnyObject, KindEntry, Subresource};
use rekindle_structured_merge::{FieldOperation, FieldOwner, FieldPath, FieldSet};

use crate::call::{ApiCall, ObjectPart};

/// The owner of a client that says neither its name nor its program.
const UNKNOWN: &str = "unknown";

/// Bytes of an owner's name that a user agent gives.
const NAME_BYTES_MAX: usize = 128;

/// Who writes with this request.
pub(super) fn of_call(call: &ApiCall<'_>, operation: FieldOperation) -> FieldOwner {
    FieldOwner {
        manager: manager(call),
        operation,
        api_version: match operation {
            FieldOperation::Apply => String::new(),
            FieldOperation::Update => call.entry.api_version.to_string(),
        },
        subresource: call.path.subresource.clone(),
    }
}

/// When a write happens, in seconds since 1970. Of a Scale it is not noted, as upstream.
pub(super) fn write_seconds(call: &ApiCall<'_>) -> Option<i64> {
    (!call.path.is_scale()).then(|| call.request.now.to_time().0.as_second())
}

/// The name that the request gives, or that of the program that sent it.
fn manager(call: &ApiCall<'_>) -> String {
    let given = call.options.get("fieldManager").unwrap_or_default();
    if !given.is_empty() {
        return given.to_owned();
    }
    let program = call.request.user_agent.split('/').next().unwrap_or_default();
    let mut name: String = program.chars().filter(|c| !c.is_control()).collect();
    name.truncate(name.floor_char_boundary(NAME_BYTES_MAX));
    match name.is_empty() {
        false => name,
        true => part_of_engine(call.request.identity.name()).unwrap_or(UNKNOWN).to_owned(),
    }
}

/// The name of a part of the engine, which sends no user agent: its user says which part it is.
fn part_of_engine(user: &str) -> Option<&str> {
    let rest = user.strip_prefix("system:")?;
    match rest.split_once(':') {
        None => Some(rest),
        Some(("node", _)) => Some("rekindle-node"),
        Some(("serviceaccount", account)) => account.strip_prefix("kube-system:"),
        Some(_) => None,
    }
}

/// The fields that a write of this part does not change. The writer does not come to own them.
/// There is no old object when one is created.
pub(super) fn ignored(
    entry: &KindEntry,
    part: ObjectPart,
    old: Option<&dyn AnyObject>,
) -> FieldSet {
    let fields = |paths: &[&[&str]]| {
        FieldSet::from_paths(paths.iter().map(|path| FieldPath::of_fields(path)))
    };
    match part {
        ObjectPart::Main if entry.subresources.contains(&Subresource::Status) => {
            fields(&[&["status"]])
        }
        ObjectPart::Main => FieldSet::default(),
        ObjectPart::Status => match entry.group_and_kind() {
            ("apps", "Deployment") => fields(&[&["spec"], &["metadata", "labels"]]),
            ("", "Pod") => fields(&[
                &["spec"],
                &["metadata", "deletionTimestamp"],
                &["metadata", "ownerReferences"],
            ]),
            _ if old.is_some_and(|old| old.keeps_metadata(part)) => {
                fields(&[&["spec"], &["metadata"]])
            }
            _ => fields(&[&["spec"]]),
        },
        ObjectPart::Finalize | ObjectPart::Resize | ObjectPart::EphemeralContainers => {
            fields(&[&["status"], &["metadata"]])
        }
        ObjectPart::Approval => fields(&[&["spec"], &["status", "certificate"]]),
    }
}
