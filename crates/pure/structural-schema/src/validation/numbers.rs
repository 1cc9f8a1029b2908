//! Limits of numbers, with the rounding of kube-openapi.

use std::cmp::Ordering;

use rekindle_types::go_float;
use serde_json::Value;

use super::{
    outcome::{Reporter, ValueOutcome},
    value_path::ValuePath,
};
use crate::{
    SchemaType, StructuralSchema,
    shown::GoNumber,
    value_rules::{ValueFormat, ValueRules},
};

/// The largest whole number that a JSON float holds exactly.
const FLOAT_INTEGER_MAX: f64 = 9_007_199_254_740_991.0;
/// How close to a whole number a quotient counts as one.
const EPSILON: f64 = 1e-9;

pub(super) struct NumberCheck<'a> {
    pub(super) reporter: &'a Reporter<'a>,
    pub(super) path: &'a ValuePath<'a>,
    pub(super) schema: &'a StructuralSchema,
    pub(super) value: &'a Value,
    pub(super) number: GoNumber,
}

impl NumberCheck<'_> {
    pub(super) fn run(&self, rules: Option<&ValueRules>) -> ValueOutcome {
        let mut outcome = ValueOutcome { checks: 1, ..ValueOutcome::default() };
        self.range(self.number, rules, "Checked", &mut outcome);
        let Some(rules) = rules else { return outcome };
        if let Some(factor) = rules.multiple_of {
            let fits = self.range(GoNumber::Float(factor), Some(rules), "MultipleOf", &mut outcome);
            self.multiple_of(factor, fits, &mut outcome);
        }
        for (bound, beyond, word) in
            [(rules.minimum, Ordering::Less, "greater"), (rules.maximum, Ordering::Greater, "less")]
        {
            let Some(bound) = bound else { continue };
            let what = if beyond == Ordering::Less { "Minimum" } else { "Maximum" };
            let limit = GoNumber::Float(bound.limit);
            let fits = self.range(limit, Some(rules), &format!("{what} boundary"), &mut outcome);
            let or_equal = if bound.is_exclusive { "" } else { " or equal to" };
            let (order, shown) = self.compare(bound.limit, fits);
            if order == Some(beyond) || bound.is_exclusive && order == Some(Ordering::Equal) {
                let rule = format!("should be {word} than{or_equal} {shown}");
                outcome.add(self.reporter.broken(self.path, self.value, &rule));
            }
        }
        outcome
    }

    /// Whether a number fits the type and format of the schema.
    fn range(
        &self,
        number: GoNumber,
        rules: Option<&ValueRules>,
        what: &str,
        outcome: &mut ValueOutcome,
    ) -> bool {
        let format = rules.and_then(|rules| rules.format.as_ref());
        let is_integer =
            self.schema.value_type == Some(SchemaType::Integer) && !self.schema.is_int_or_string;
        let whole = match number {
            GoNumber::Int(int) => Some(int),
            GoNumber::Float(float) => (float.fract() == 0.0
                && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&float))
            .then_some(float as i64),
        };
        let fits = match (is_integer, format) {
            (true, Some(ValueFormat::Int32)) => whole.is_some_and(|int| i32::try_from(int).is_ok()),
            (true, _) => whole.is_some(),
            (false, Some(ValueFormat::Float)) => (number.as_f64() as f32).is_finite(),
            (false, _) => true,
        };
        if !fits {
            let type_name = if is_integer { "integer" } else { "number" };
            let format = format.map_or_else(
                || "(default format)".to_owned(),
                |format| format!("with format {}", format.name()),
            );
            let path = self.path.text();
            let detail = format!("{what} value must be of type {type_name} {format} in {path}");
            outcome.add(self.reporter.of_whole(detail));
        }
        fits
    }

    /// Compares the value with a limit. Upstream compares a whole number by the limit's whole part.
    fn compare(&self, limit: f64, fits: bool) -> (Option<Ordering>, String) {
        match self.number {
            GoNumber::Int(int) if fits => {
                let whole = limit as i64;
                (Some(int.cmp(&whole)), whole.to_string())
            }
            number => (number.as_f64().partial_cmp(&limit), go_float(limit)),
        }
    }

    fn multiple_of(&self, factor: f64, fits: bool, outcome: &mut ValueOutcome) {
        let whole_factor = factor as i64;
        let (is_positive, is_multiple, shown) = match self.number {
            GoNumber::Int(int) if fits => (
                whole_factor > 0,
                whole_factor > 0 && int % whole_factor == 0,
                whole_factor.to_string(),
            ),
            number => {
                let number = number.as_f64();
                let quotient = if factor < 1.0 { 1.0 / factor * number } else { number / factor };
                (factor > 0.0, is_json_integer(quotient), go_float(factor))
            }
        };
        if !is_positive {
            let path = self.path.text();
            let detail = format!("factor MultipleOf declared for {path} must be positive: {shown}");
            outcome.add(self.reporter.invalid(self.path, shown, detail));
        } else if !is_multiple {
            let rule = format!("should be a multiple of {shown}");
            outcome.add(self.reporter.broken(self.path, self.value, &rule));
        }
    }
}

/// Whether a float stands for a whole number, but for rounding.
pub(super) fn is_json_integer(float: f64) -> bool {
    if !float.is_finite() || float.abs() > FLOAT_INTEGER_MAX {
        return false;
    }
    let whole = float.round();
    let difference = (float - whole).abs();
    difference == 0.0 || whole != 0.0 && difference / (float.abs() + whole.abs()) < EPSILON
}
