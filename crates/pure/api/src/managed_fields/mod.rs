//! Who owns which fields of an object (`metadata.managedFields`), and server-side apply.
//!
//! `rekindle-structured-merge` has the rules. Here is what an API server adds: the types of its
//! kinds, the owner that a request stands for, and the form in which entries are kept.
//!
//! Entries are kept in the object's metadata, each set of fields as one text
//! ([`rekindle_kinds::registry::managed_entries`]). `rekindle_types::ObjectJson` writes that text
//! as the JSON that it is.

mod apply;
mod last_applied;
mod options;
mod owner;
mod tracking;

use serde_json::Value;

pub(crate) use apply::{AppliedConfig, apply_scale, entries_after_own_apply};
pub(crate) use options::{check as check_options, is_apply};
pub(crate) use tracking::{ServerFilled, keep_times_of_unchanged, track_change, track_new};

/// Takes out of an object who owns its fields.
pub(crate) fn remove_entries(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}
