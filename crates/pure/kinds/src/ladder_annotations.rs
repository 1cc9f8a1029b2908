//! The annotations by which a pod, or the pods of a template, carry a ladder of their own
//! (docs/ladder.md).

use std::collections::BTreeMap;

use rekindle_types::v1alpha1::{LADDER, LADDER_ANNOTATIONS, annotated_ladder};
use rekindle_types::validation::field_error::FieldError;

use crate::registry::AnyObject;
use crate::validation::Path;

/// Everything wrong with the ladder in the annotations at `field`.
pub(super) fn check(
    annotations: Option<&BTreeMap<String, String>>,
    field: &Path,
) -> Vec<FieldError> {
    let all = annotations.into_iter().flatten();
    let mut errors: Vec<FieldError> = all
        .filter(|(name, _)| is_ours(name) && !LADDER_ANNOTATIONS.contains(&name.as_str()))
        .map(|(name, _)| FieldError::not_supported(field, name, &LADDER_ANNOTATIONS))
        .collect();
    match annotated_ladder(annotations) {
        Ok(None | Some(_)) => {}
        Err(broken) => errors.extend(broken.into_iter().map(|error| {
            let field = field.key(error.annotation);
            match error.value.as_str() {
                "" if annotations.is_none_or(|all| !all.contains_key(error.annotation)) => {
                    FieldError::required(field, error.problem)
                }
                value => FieldError::invalid(field, value, error.problem),
            }
        })),
    }
    errors
}

/// What the ladder in the annotations at `field` does that may not be meant: what it makes new
/// although it is not named, and where it never gets to.
pub(super) fn warnings(
    annotations: Option<&BTreeMap<String, String>>,
    field: &Path,
) -> Vec<String> {
    let Ok(Some(ladder)) = annotated_ladder(annotations) else { return Vec::new() };
    let never = ladder.never_climbs().map(|(_, text)| format!("{}: {text}", field.key(LADDER)));
    never.into_iter().collect()
}

/// A word about a ladder on an object that has no pod's annotations: there it does nothing.
pub fn misplaced(object: &dyn AnyObject) -> Option<String> {
    let annotations = object.meta().annotations.as_ref()?;
    let name = annotations.keys().find(|name| is_ours(name))?;
    Some(format!(
        "metadata.annotations[{name}]: does nothing here: a ladder is an annotation of a pod; of a workload, put it into \
         spec.template.metadata.annotations"
    ))
}

fn is_ours(name: &str) -> bool {
    name == LADDER || name.starts_with("rekindle.dev/ladder-")
}

#[cfg(test)]
mod tests;
