//! A ladder as annotations of a pod, for the simple cases: no object beside the pod, no selector,
//! no budget of its own.
//!
//! ```yaml
//! metadata:
//!   annotations:
//!     rekindle.dev/ladder: "Container:3, Pod:2, Recreate"
//!     rekindle.dev/ladder-window: 5m
//! ```
//! What is read here becomes a [`RestartLadderSpec`], and the same rules hold for both. What breaks
//! them is told with its annotation.

use std::collections::BTreeMap;

use super::{EmptyDirPolicy, LadderRung, OnExhausted, RestartLadderSpec, Rung};
use crate::validation::field_error::{FieldError, FieldProblem};

/// Makes a ladder: the rungs, each with its attempts: `Container:3, Pod:2, Recreate`. The others
/// need it.
pub const LADDER: &str = "rekindle.dev/ladder";
/// The window: `10m`.
pub const LADDER_WINDOW: &str = "rekindle.dev/ladder-window";
/// What the rung Pod does with the contents of emptyDir volumes: `Clear` or `Keep`.
pub const LADDER_EMPTY_DIRS: &str = "rekindle.dev/ladder-empty-dirs";
/// How long the rung Reschedule avoids the node: `30m`.
pub const LADDER_AVOID_NODE_FOR: &str = "rekindle.dev/ladder-avoid-node-for";
/// `Hold` or `Fail`.
pub const LADDER_ON_EXHAUSTED: &str = "rekindle.dev/ladder-on-exhausted";
/// All of them.
pub const LADDER_ANNOTATIONS: [&str; 5] =
    [LADDER, LADDER_WINDOW, LADDER_EMPTY_DIRS, LADDER_AVOID_NODE_FOR, LADDER_ON_EXHAUSTED];

/// What is wrong with one of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotation {annotation}: {value:?}: {problem}")]
pub struct LadderAnnotationError {
    /// Which.
    pub annotation: &'static str,
    /// What it says; empty when it is missing.
    pub value: String,
    /// Why that makes no ladder, and what does.
    pub problem: String,
}

/// The ladder that these annotations make; none when none of them is there.
///
/// # Errors
/// Everything that cannot be read, or else everything that makes no ladder, each with its
/// annotation.
pub fn annotated_ladder(
    annotations: Option<&BTreeMap<String, String>>,
) -> Result<Option<RestartLadderSpec>, Vec<LadderAnnotationError>> {
    let get = |name: &str| annotations.and_then(|all| all.get(name)).map(String::as_str);
    let others = || LADDER_ANNOTATIONS.into_iter().find(|name| get(name).is_some());
    let Some(text) = get(LADDER) else {
        return match others() {
            None => Ok(None),
            Some(other) => {
                let problem = format!("{other} needs it: name the rungs, such as {EXAMPLE:?}");
                Err(vec![LadderAnnotationError {
                    annotation: LADDER,
                    value: String::new(),
                    problem,
                }])
            }
        };
    };
    let mut errors = Vec::new();
    let Some(rungs) = read(&mut errors, LADDER, text, rungs) else { return Err(errors) };
    let mut spec = RestartLadderSpec {
        window: get(LADDER_WINDOW).map(str::to_owned),
        rungs,
        on_exhausted: get(LADDER_ON_EXHAUSTED)
            .and_then(|text| read(&mut errors, LADDER_ON_EXHAUSTED, text, on_exhausted)),
        ..RestartLadderSpec::default()
    };
    if let Some(text) = get(LADDER_EMPTY_DIRS) {
        let step = step(&mut spec.rungs, Rung::Pod);
        let parsed = |text: &str| Ok((step?, empty_dirs(text)?));
        if let Some((step, policy)) = read(&mut errors, LADDER_EMPTY_DIRS, text, parsed) {
            step.empty_dirs = Some(policy);
        }
    }
    if let Some(text) = get(LADDER_AVOID_NODE_FOR) {
        let step = step(&mut spec.rungs, Rung::Reschedule);
        if let Some(step) = read(&mut errors, LADDER_AVOID_NODE_FOR, text, |_| step) {
            step.avoid_node_for = Some(text.to_owned());
        }
    }
    if errors.is_empty() {
        errors.extend(spec.climb_faults().into_iter().map(|fault| told(&fault, &get)));
    }
    if errors.is_empty() { Ok(Some(spec)) } else { Err(errors) }
}

/// A broken rule of a ladder with the annotation that breaks it.
fn told<'a>(fault: &FieldError, get: &impl Fn(&str) -> Option<&'a str>) -> LadderAnnotationError {
    let annotation = match fault.field.as_str() {
        "spec.window" => LADDER_WINDOW,
        field if field.ends_with(".avoidNodeFor") => LADDER_AVOID_NODE_FOR,
        field if field.ends_with(".emptyDirs") => LADDER_EMPTY_DIRS,
        _ => LADDER,
    };
    // of several rungs in one text, it has to be said which is meant; that a value is invalid is
    // said of the text as a whole
    let problem = match (fault.field.rsplit('.').next(), &fault.problem) {
        (Some("rung" | "attempts"), FieldProblem::Invalid(value)) => {
            format!("{value}: {}", fault.detail)
        }
        (Some("rung" | "attempts"), _) => fault.body(),
        (Some(_) | None, _) if fault.detail.is_empty() => fault.body(),
        (Some(_) | None, _) => fault.detail.clone(),
    };
    let value = get(annotation).unwrap_or_default().to_owned();
    LadderAnnotationError { annotation, value, problem }
}

/// The rungs that are the pod's own business. Who may write a pod may not change its Deployment.
const RUNGS: [Rung; 5] =
    [Rung::Container, Rung::Containers, Rung::Pod, Rung::Recreate, Rung::Reschedule];

/// What a ladder may look like.
const EXAMPLE: &str = "Container:3, Pod:2, Recreate";

fn read<T>(
    errors: &mut Vec<LadderAnnotationError>,
    annotation: &'static str,
    text: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Option<T> {
    parse(text)
        .map_err(|problem| {
            let value = text.to_owned();
            errors.push(LadderAnnotationError { annotation, value, problem });
        })
        .ok()
}

fn rungs(text: &str) -> Result<Vec<LadderRung>, String> {
    text.split(',').map(|entry| rung(entry.trim())).collect()
}

fn rung(entry: &str) -> Result<LadderRung, String> {
    let (name, attempts) = match entry.split_once(':') {
        None => (entry, None),
        Some((name, attempts)) => (name.trim_end(), Some(attempts.trim_start())),
    };
    if name == Rung::Rollback.name() {
        return Err(
            "Rollback changes the Deployment and not the pod: it takes a RestartLadder".to_owned()
        );
    }
    let Some(rung) = RUNGS.into_iter().find(|rung| rung.name() == name) else {
        let known = RUNGS.map(Rung::name).join(", ");
        return Err(format!(
            "{name:?} is no rung; write such as {EXAMPLE:?}, with rungs of {known}"
        ));
    };
    let attempts = attempts.map(|text| {
        text.parse::<u32>()
            .map_err(|_| format!("{text:?} is no number of attempts; write such as {name}:3"))
    });
    Ok(LadderRung { rung, attempts: attempts.transpose()?, empty_dirs: None, avoid_node_for: None })
}

fn empty_dirs(text: &str) -> Result<EmptyDirPolicy, String> {
    match text {
        "Clear" => Ok(EmptyDirPolicy::Clear),
        "Keep" => Ok(EmptyDirPolicy::Keep),
        _ => Err("is Clear or Keep".to_owned()),
    }
}

fn on_exhausted(text: &str) -> Result<OnExhausted, String> {
    match text {
        "Hold" => Ok(OnExhausted::Hold),
        "Fail" => Ok(OnExhausted::Fail),
        _ => Err("is Hold or Fail".to_owned()),
    }
}

/// The rung that an annotation is about.
fn step(rungs: &mut [LadderRung], rung: Rung) -> Result<&mut LadderRung, String> {
    let named = rungs.iter_mut().find(|step| step.rung == rung);
    named.ok_or_else(|| format!("is about the rung {rung}, which {LADDER} does not name"))
}

#[cfg(test)]
mod tests;
