//! Costs of expressions, in the units of cel-go: one for each look at a value.

/// What one expression may cost when it runs.
pub(crate) const CALL_COST_MAX: u64 = 1_000_000;
/// What all rules may cost for one object.
pub(crate) const OBJECT_COST_MAX: u64 = 10_000_000;
/// What one expression may be estimated to cost at most.
pub(crate) const RULE_ESTIMATE_MAX: u64 = 10_000_000;
/// What all expressions of a schema may be estimated to cost at most.
pub(crate) const SCHEMA_ESTIMATE_MAX: u64 = 100_000_000;
/// The largest request, on which sizes without a limit are based.
pub(crate) const REQUEST_BYTES_MAX: u64 = 3 * 1024 * 1024;

/// The cost of looking at a variable or a field.
pub(crate) const SELECT: u64 = 1;
/// The cost of making a list.
pub(crate) const NEW_LIST: u64 = 10;
/// The cost of making a map.
pub(crate) const NEW_MAP: u64 = 30;
/// The cost of each character that is looked at.
pub(crate) const PER_CHARACTER: f64 = 0.1;
/// The cost of each character of a regular expression.
pub(crate) const PER_REGEX_CHARACTER: f64 = 0.25;

/// A size times a factor, rounded up. What is too large stays the largest.
pub(crate) fn times(size: u64, factor: f64) -> u64 {
    let cost = (size as f64 * factor).ceil();
    if cost >= 18_446_744_073_709_551_616.0 { u64::MAX } else { cost as u64 }
}

/// The cost of walking over a text.
pub(crate) fn traverse(size: u64) -> u64 {
    times(size, PER_CHARACTER)
}

/// The cost of matching a text with an expression.
pub(crate) fn matching(text: u64, regex: u64) -> u64 {
    traverse(text.saturating_add(1)).saturating_mul(times(regex, PER_REGEX_CHARACTER))
}

/// Why a rule with an estimate over a limit is refused.
pub(crate) fn over_budget(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding \
         maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}
