//! The annotations by which a pod, or the pods of a template, carry a ladder of their own (docs/ladder.md).

use std::collections::BTreeMap;

use rekindle_types::v1alpha1::{
    LADDER, LADDER_ANNOTATIONS, LADDER_AVOID_NODE_FOR, LADDER_REFRESH, LADDER_WINDOW,
    RestartLadderSpec, annotated_ladder,
};

use super::restart_ladder;
use crate::registry::AnyObject;
use crate::registry::field_error::FieldError;
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
        Ok(None) => {}
        Ok(Some(spec)) => errors.extend(check_spec(&spec, annotations, field)),
        Err(unread) => errors.extend(unread.into_iter().map(|error| {
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

/// The rules of a RestartLadder, told with the annotation that breaks them.
fn check_spec(
    spec: &RestartLadderSpec,
    annotations: Option<&BTreeMap<String, String>>,
    field: &Path,
) -> Vec<FieldError> {
    let root = Path::new("spec");
    let mut broken = restart_ladder::climb_errors(spec, &root);
    for error in &mut broken {
        let annotation = annotation_of(&error.field);
        let said = annotations.and_then(|all| all.get(annotation)).map_or("", String::as_str);
        let detail = match error.field.rsplit('.').next() {
            Some("rung" | "attempts") => error.body(),
            Some(_) | None => error.detail.clone(),
        };
        *error = FieldError::invalid(field.key(annotation), said, detail);
    }
    broken
}

/// The annotation that a field of the spec was read from.
fn annotation_of(field: &str) -> &'static str {
    match field {
        "spec.window" => LADDER_WINDOW,
        _ if field.ends_with(".avoidNodeFor") => LADDER_AVOID_NODE_FOR,
        _ if field.contains(".refresh") => LADDER_REFRESH,
        _ => LADDER,
    }
}

/// A word about a ladder on an object that has no pod's annotations: there it does nothing.
pub(crate) fn misplaced(object: &dyn AnyObject) -> Option<String> {
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
