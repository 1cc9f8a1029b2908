//! What a whole-pod restart makes new, as ladders and requests say it.

use rekindle_types::v1alpha1::{Refresh, Rung};

use crate::registry::field_error::FieldError;
use crate::validation::Path;

/// Only the rung Pod throws a shared context away; what it refreshes is named once, and is not nothing.
pub(super) fn check(rung: Rung, refresh: Option<&[Refresh]>, field: &Path) -> Vec<FieldError> {
    let Some(refresh) = refresh else { return Vec::new() };
    if rung != Rung::Pod {
        return vec![FieldError::forbidden(field, "may only be set on the rung Pod")];
    }
    if refresh.is_empty() {
        return vec![FieldError::required(
            field,
            "name what is made new, or leave it out for all of it",
        )];
    }
    let twice = refresh.iter().enumerate().filter(|(index, item)| refresh[..*index].contains(item));
    twice.map(|(index, item)| FieldError::duplicate(field.index(index), item.name())).collect()
}

/// What belongs to the sandbox is made new as a whole; only the contents of emptyDir volumes can be kept.
pub(super) fn warning(refresh: Option<&[Refresh]>, field: &Path) -> Option<String> {
    let refresh = refresh.filter(|refresh| !refresh.is_empty())?;
    let sandbox = [Refresh::Network, Refresh::Ipc, Refresh::Cgroup];
    let left_out: Vec<&str> =
        sandbox.into_iter().filter(|part| !refresh.contains(part)).map(Refresh::name).collect();
    (!left_out.is_empty()).then(|| {
        format!(
            "{field}: {} will be made new, too: this version of Rekindle always makes the whole sandbox new, and keeps emptyDir \
             volumes when EmptyDir is left out",
            left_out.join(", ")
        )
    })
}
