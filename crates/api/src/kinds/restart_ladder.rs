//! RestartLadder (rekindle.dev/v1alpha1).

use rekindle_types::v1alpha1::{
    API_VERSION, LadderBudget, LadderRung, OnExhausted, RestartLadder, RestartLadderSpec, Rung,
};
use rekindle_types::{Tick, TickDuration, span};

use super::fill;
use super::refresh;
use crate::registry::field_error::FieldError;
use crate::registry::resource::{ApiKind, Cell, Column, Context, Names, Scope, Subresource};
use crate::table::{AGE, NAME, age, column, list_or_none};
use crate::validation::{Path, numbers, selector, text};

const WINDOW_DEFAULT: &str = "10m";
pub(super) const AVOID_NODE_DEFAULT: &str = "30m";
const ATTEMPTS_MAX: u32 = 1000;
/// Neither a window nor an avoidance makes sense beyond this.
const SPAN_MAX: TickDuration = TickDuration::from_secs(30 * 24 * 3600);

impl ApiKind for RestartLadder {
    const NAMES: Names = Names {
        singular: "restartladder",
        short_names: &["rl"],
        categories: &["rekindle"],
        scope: Scope::Namespaced,
    };
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Status];
    const COLUMNS: &'static [Column] = &[
        NAME,
        column("Rungs", "string", "What is tried one after the other, each with its attempts."),
        column("Window", "string", "Attempts count inside this window."),
        AGE,
    ];

    fn set_defaults(&mut self) {
        API_VERSION.clone_into(&mut self.api_version);
        "RestartLadder".clone_into(&mut self.kind);
        let spec = &mut self.spec;
        fill::text(&mut spec.window, WINDOW_DEFAULT);
        spec.on_exhausted.get_or_insert(OnExhausted::Hold);
        for rung in &mut spec.rungs {
            rung.attempts.get_or_insert(1);
            if rung.rung == Rung::Reschedule {
                fill::text(&mut rung.avoid_node_for, AVOID_NODE_DEFAULT);
            }
        }
    }

    fn prepare_for_create(&mut self, _ctx: &Context<'_>) {
        fill::first_generation(&mut self.metadata);
        self.status = None;
    }

    fill::updates_of_spec_and_status!();

    fn validate(&self) -> Vec<FieldError> {
        spec_errors(&self.spec, &Path::new("spec"))
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (index, rung) in self.spec.rungs.iter().enumerate() {
            let field = Path::new("spec").child("rungs").index(index).child("refresh");
            warnings.extend(refresh::warning(rung.refresh.as_deref(), &field));
        }
        warnings
    }

    fn row(&self, now: Tick) -> Vec<Cell> {
        let rungs: Vec<String> = self
            .spec
            .rungs
            .iter()
            .map(|rung| format!("{}:{}", rung.rung, rung.attempts.unwrap_or(1)))
            .collect();
        vec![
            text(self.metadata.name.as_ref()).into(),
            list_or_none(rungs.iter().map(String::as_str)).into(),
            text(self.spec.window.as_ref()).into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

fn spec_errors(spec: &RestartLadderSpec, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if selector::is_empty(&spec.selector) {
        errors.push(FieldError::required(
            field.child("selector"),
            "a ladder must say which pods it is for",
        ));
    } else {
        errors.extend(selector::check(&spec.selector, &field.child("selector")));
    }
    errors.extend(climb_errors(spec, field));
    if let Some(budget) = &spec.budget {
        errors.extend(budget_errors(budget, &field.child("budget")));
    }
    errors
}

/// Everything wrong with what is tried, and for how long it counts.
pub(super) fn climb_errors(spec: &RestartLadderSpec, field: &Path) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> =
        span_error(spec.window.as_ref(), &field.child("window")).into_iter().collect();
    let rungs_field = field.child("rungs");
    if spec.rungs.is_empty() {
        errors.push(FieldError::required(&rungs_field, "a ladder needs a rung"));
    }
    for (index, rung) in spec.rungs.iter().enumerate() {
        let before = &spec.rungs[..index];
        errors.extend(rung_errors(rung, before, &rungs_field.index(index)));
    }
    errors
}

fn budget_errors(budget: &LadderBudget, field: &Path) -> Vec<FieldError> {
    let limits = [("maxConcurrent", budget.max_concurrent), ("perMinute", budget.per_minute)];
    let nothing = limits.into_iter().filter(|(_, limit)| *limit == Some(0));
    let detail = "must be at least 1; leave it out for no limit";
    nothing.map(|(name, _)| FieldError::invalid(field.child(name), 0, detail)).collect()
}

fn rung_errors(rung: &LadderRung, before: &[LadderRung], field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if before.iter().any(|other| other.rung == rung.rung) {
        errors.push(FieldError::duplicate(field.child("rung"), rung.rung.name()));
    } else if let Some(higher) = before.iter().find(|other| other.rung > rung.rung) {
        errors.push(FieldError::invalid(
            field.child("rung"),
            rung.rung.name(),
            format!(
                "must stand before {}: the order is Container, Containers, Pod, Recreate, Reschedule, Rollback",
                higher.rung
            ),
        ));
    }
    if let Some(attempts) = rung.attempts {
        errors.extend(numbers::in_range(attempts, 1, ATTEMPTS_MAX, &field.child("attempts")));
    }
    errors.extend(refresh::check(rung.rung, rung.refresh.as_deref(), &field.child("refresh")));
    if rung.avoid_node_for.is_some() && rung.rung != Rung::Reschedule {
        errors.push(FieldError::forbidden(
            field.child("avoidNodeFor"),
            "may only be set on the rung Reschedule",
        ));
    }
    errors.extend(span_error(rung.avoid_node_for.as_ref(), &field.child("avoidNodeFor")));
    errors
}

pub(super) fn span_error(text: Option<&String>, field: &Path) -> Option<FieldError> {
    let text = text?;
    match span::parse(text) {
        Err(error) => Some(FieldError::invalid(field, text, error.to_string())),
        Ok(span) if span == TickDuration::ZERO => {
            Some(FieldError::invalid(field, text, "must be greater than zero"))
        }
        Ok(span) if span > SPAN_MAX => {
            Some(FieldError::invalid(field, text, "must be no more than 720h"))
        }
        Ok(_) => None,
    }
}
