//! What a ladder must hold to beyond its types. The API refuses one that does not; another API
//! server may know less, and then whoever acts by the ladder has to say what is wrong with it. So
//! the rules stand here once, for both.

use super::schema_rules::{GROUP_FAIL_MESSAGE, GROUP_ROLLBACK_MESSAGE};
use super::{
    EmptyDirPolicy, LadderBudget, LadderRung, LadderScope, OnExhausted, RestartLadderSpec, Rung,
};
use crate::backoff::ends_within;
use crate::validation::{FieldError, Path, numbers, selector};
use crate::{TickDuration, labels, span};

/// The window of a ladder that names none.
pub const LADDER_WINDOW_DEFAULT: &str = "10m";
/// How long a node is avoided when nothing else is said.
pub const AVOID_NODE_DEFAULT: &str = "30m";
/// No node is avoided for longer than this: 720 h.
pub const AVOID_NODE_MAX: TickDuration = TickDuration::from_secs(30 * 24 * 3600);
/// The attempts of a rung that names none.
pub const RUNG_ATTEMPTS_DEFAULT: u32 = 1;

const ATTEMPTS_MAX: u32 = 1000;
/// Each rung stands once.
const RUNGS_MAX: usize = Rung::ALL.len();
/// Neither a window nor an avoidance makes sense beyond this.
const SPAN_MAX: TickDuration = AVOID_NODE_MAX;
/// A span of time takes no more than this to write.
const SPAN_BYTES_MAX: usize = 32;

impl RestartLadderSpec {
    /// Everything wrong with it; nothing when it can be carried out.
    pub fn faults(&self) -> Vec<FieldError> {
        let field = Path::new("spec");
        let mut errors = Vec::new();
        if labels::is_empty(&self.selector) {
            let detail = "a ladder must say which pods it is for";
            errors.push(FieldError::required(field.child("selector"), detail));
        } else {
            errors.extend(selector::check(&self.selector, &field.child("selector")));
        }
        errors.extend(self.climb_faults());
        errors.extend(self.group_faults(&field));
        if let Some(budget) = &self.budget {
            errors.extend(budget_faults(budget, &field.child("budget")));
        }
        errors
    }

    /// What a ladder for groups may not ask for.
    fn group_faults(&self, field: &Path) -> Vec<FieldError> {
        let mut errors = Vec::new();
        match self.scope() {
            LadderScope::Pod => return errors,
            LadderScope::Group => {}
        }
        if let Some(index) = self.rungs.iter().position(|rung| rung.rung == Rung::Rollback) {
            let field = field.child("rungs").index(index).child("rung");
            errors.push(FieldError::forbidden(field, GROUP_ROLLBACK_MESSAGE));
        }
        if self.on_exhausted == Some(OnExhausted::Fail) {
            errors.push(FieldError::forbidden(field.child("onExhausted"), GROUP_FAIL_MESSAGE));
        }
        errors
    }

    /// Everything wrong with what is tried, and for how long it counts: all that a ladder in
    /// annotations has.
    pub fn climb_faults(&self) -> Vec<FieldError> {
        let field = Path::new("spec");
        let window = span_fault(self.window.as_ref(), &field.child("window"));
        let mut errors: Vec<FieldError> = window.into_iter().collect();
        let rungs_field = field.child("rungs");
        if self.rungs.is_empty() {
            errors.push(FieldError::required(&rungs_field, "a ladder needs a rung"));
        }
        // Each fault is told with all of an annotation, which may be long; and more rungs than
        // there are come twice anyway.
        if self.rungs.len() > RUNGS_MAX {
            errors.push(FieldError::too_many(&rungs_field, RUNGS_MAX));
        }
        for (index, rung) in self.rungs.iter().enumerate().take(RUNGS_MAX) {
            let before = &self.rungs[..index];
            errors.extend(rung_faults(rung, before, &rungs_field.index(index)));
        }
        errors
    }
}

impl RestartLadderSpec {
    /// Why what comes after the rung Container is never reached by a container that crashes at
    /// once, and where that is said: the backoff lets fewer failures fall into the window than the
    /// rung has attempts. It is no fault: one that crashes later would climb even less.
    pub fn never_climbs(&self) -> Option<(usize, String)> {
        let written = self.window.as_deref().unwrap_or(LADDER_WINDOW_DEFAULT);
        let window = span::parse(written).ok()?;
        let index = self.rungs.iter().position(|rung| rung.rung == Rung::Container)?;
        let attempts = self.rungs.get(index)?.attempts.unwrap_or(RUNG_ATTEMPTS_DEFAULT);
        // the failure that climbs must fall into the window, too
        let at_most = ends_within(window).saturating_sub(1);
        (attempts > at_most).then(|| {
            let text = format!(
                "{attempts}: what comes after Container is never reached: with the backoff between restarts, a container that crashes at once fails \
                 {} times within {written}; at most {at_most}",
                at_most + 1
            );
            (index, text)
        })
    }
}

fn budget_faults(budget: &LadderBudget, field: &Path) -> Vec<FieldError> {
    let limits = [("maxConcurrent", budget.max_concurrent), ("perMinute", budget.per_minute)];
    let nothing = limits.into_iter().filter(|(_, limit)| *limit == Some(0));
    let detail = "must be at least 1; leave it out for no limit";
    nothing.map(|(name, _)| FieldError::invalid(field.child(name), 0, detail)).collect()
}

fn rung_faults(rung: &LadderRung, before: &[LadderRung], field: &Path) -> Vec<FieldError> {
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
    errors.extend(empty_dirs_fault(rung.rung, rung.empty_dirs, &field.child("emptyDirs")));
    errors.extend(avoidance_faults(
        rung.rung,
        rung.avoid_node_for.as_ref(),
        &field.child("avoidNodeFor"),
    ));
    errors
}

/// Only the rung Pod may clear emptyDir volumes, so only there can they be kept.
pub fn empty_dirs_fault(
    rung: Rung,
    policy: Option<EmptyDirPolicy>,
    field: &Path,
) -> Option<FieldError> {
    (policy.is_some() && rung != Rung::Pod)
        .then(|| FieldError::forbidden(field, "may only be set on the rung Pod"))
}

/// Only the rung Reschedule avoids a node, for a span of time.
pub fn avoidance_faults(rung: Rung, span: Option<&String>, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if span.is_some() && rung != Rung::Reschedule {
        errors.push(FieldError::forbidden(field, "may only be set on the rung Reschedule"));
    }
    errors.extend(span_fault(span, field));
    errors
}

fn span_fault(text: Option<&String>, field: &Path) -> Option<FieldError> {
    let text = text?;
    if text.len() > SPAN_BYTES_MAX {
        return Some(FieldError::too_long(field, SPAN_BYTES_MAX));
    }
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

#[cfg(test)]
mod tests;
