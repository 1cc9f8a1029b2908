//! What makes the policies of a Job valid, in upstream's words (`pkg/apis/batch/validation`).

use k8s_openapi::api::batch::v1::{
    JobSpec, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyOnPodConditionsPattern,
    PodFailurePolicyRule, SuccessPolicyRule,
};
use rekindle_types::validation::field_error::{FieldError, FieldProblem};

use crate::validation::{ListKeys, Path, invalid_each, items, json, names, numbers, text};

const RULES_MAX: usize = 20;
const PATTERNS_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const SUCCEEDED_INDEXES_BYTES_MAX: usize = 64 * 1024;
const MANAGED_BY_BYTES_MAX: usize = 63;
const FAILED_INDEXES_MAX: i32 = 100_000;
/// Above so many completions an Indexed Job with backoffLimitPerIndex is held to fewer pods and
/// failures.
const MANY_COMPLETIONS: i32 = 100_000;
/// Pods at once, and failed indexes, of a Job with that many completions.
const OF_MANY_MAX: i32 = 10_000;

const ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: &[&str] = &["In", "NotIn"];
const CONDITION_STATUSES: &[&str] = &["False", "True", "Unknown"];

/// maxFailedIndexes goes with backoffLimitPerIndex.
pub(super) fn indexes_need_limit(spec: &JobSpec, field: &Path) -> Option<FieldError> {
    (spec.max_failed_indexes.is_some() && spec.backoff_limit_per_index.is_none()).then(|| {
        FieldError::required(
            field.child("backoffLimitPerIndex"),
            "when maxFailedIndexes is specified",
        )
    })
}

/// Who looks after the Job: a domain, and a path below it (`IsDomainPrefixedPath`).
pub(super) fn managed_by(spec: &JobSpec, field: &Path) -> Vec<FieldError> {
    let Some(manager) = spec.managed_by.as_deref() else { return Vec::new() };
    let mut errors = Vec::new();
    if manager.is_empty() {
        errors.push(FieldError::required(field, ""));
        return errors;
    }
    match manager.split_once('/') {
        Some((domain, path)) if !domain.is_empty() && !path.is_empty() => {
            errors.extend(invalid_each(field, domain, names::dns_subdomain(domain)));
            if !is_path(path) {
                errors.push(FieldError::invalid(field, path, "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')"));
            }
        }
        Some(_) | None => errors.push(FieldError::invalid(
            field,
            manager,
            "must be a domain-prefixed path (such as \"acme.io/foo\")",
        )),
    }
    if manager.len() > MANAGED_BY_BYTES_MAX {
        errors.push(FieldError::too_long(field, MANAGED_BY_BYTES_MAX));
    }
    errors
}

fn is_path(path: &str) -> bool {
    path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b))
}

/// Limits of failed indexes, of an Indexed Job.
pub(super) fn failed_indexes(spec: &JobSpec, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let completions = spec.completions;
    let failed_field = field.child("maxFailedIndexes");
    let failed = spec.max_failed_indexes;
    if let Some(most) = failed.filter(|most| completions.is_some_and(|all| *most > all)) {
        let detail = "must be less than or equal to completions";
        errors.push(FieldError::invalid(&failed_field, most, detail));
    }
    let mut at_most = |value: Option<i32>, limit: i32, field: &Path, detail: String| {
        if let Some(value) = value.filter(|value| *value > limit) {
            errors.push(FieldError::invalid(field, value, detail));
        }
    };
    let plain = format!("must be less than or equal to {FAILED_INDEXES_MAX}");
    at_most(failed, FAILED_INDEXES_MAX, &failed_field, plain);
    let has_many = completions.is_some_and(|count| count > MANY_COMPLETIONS);
    if !has_many || spec.backoff_limit_per_index.is_none() {
        return errors;
    }
    let of_many = format!(
        "must be less than or equal to {OF_MANY_MAX} when completions are above {MANY_COMPLETIONS} and used with backoff limit per index"
    );
    at_most(spec.parallelism, OF_MANY_MAX, &field.child("parallelism"), of_many.clone());
    at_most(failed, OF_MANY_MAX, &failed_field, of_many);
    if failed.is_none() {
        let detail = format!("must be specified when completions is above {MANY_COMPLETIONS}");
        errors.push(FieldError::required(&failed_field, detail));
    }
    errors
}

/// What a Job without indexes cannot have.
pub(super) fn only_of_indexed(spec: &JobSpec, field: &Path) -> Vec<FieldError> {
    let limits = [
        ("backoffLimitPerIndex", spec.backoff_limit_per_index),
        ("maxFailedIndexes", spec.max_failed_indexes),
    ];
    let set = limits.into_iter().filter_map(|(name, limit)| Some((name, limit?)));
    set.map(|(name, limit)| {
        FieldError::invalid(field.child(name), limit, "requires indexed completion mode")
    })
    .collect()
}

/// podReplacementPolicy.
pub(super) fn pod_replacement(spec: &JobSpec, field: &Path) -> Option<FieldError> {
    let policy = spec.pod_replacement_policy.as_deref()?;
    let supported: &[&str] = match spec.pod_failure_policy {
        Some(_) => &["Failed"],
        None => &["Failed", "TerminatingOrFailed"],
    };
    (!supported.contains(&policy)).then(|| FieldError::not_supported(field, policy, supported))
}

/// podFailurePolicy.
pub(super) fn pod_failure(spec: &JobSpec, field: &Path) -> Vec<FieldError> {
    let Some(policy) = &spec.pod_failure_policy else { return Vec::new() };
    let field = field.child("rules");
    let mut errors = Vec::new();
    if policy.rules.len() > RULES_MAX {
        errors.push(FieldError::too_many(&field, RULES_MAX));
    }
    let containers = spec
        .template
        .spec
        .iter()
        .flat_map(|pods| pods.containers.iter().chain(items(pods.init_containers.as_ref())));
    let containers: ListKeys<&str> = containers.map(|container| container.name.as_str()).collect();
    for (index, rule) in policy.rules.iter().enumerate() {
        errors.extend(pod_failure_rule(spec, rule, &containers, &field.index(index)));
    }
    errors
}

fn pod_failure_rule(
    spec: &JobSpec,
    rule: &PodFailurePolicyRule,
    containers: &ListKeys<&str>,
    field: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let action = rule.action.as_str();
    errors.extend(one_of(action, ACTIONS, &field.child("action")));
    if action == "FailIndex" && spec.backoff_limit_per_index.is_none() {
        let detail = "requires the backoffLimitPerIndex to be set";
        errors.push(FieldError::invalid(field.child("action"), action, detail));
    }
    let patterns = items(rule.on_pod_conditions.as_ref());
    if let Some(requirement) = &rule.on_exit_codes {
        errors.extend(exit_codes(requirement, containers, &field.child("onExitCodes")));
    }
    errors.extend(pod_conditions(patterns, &field.child("onPodConditions")));
    let count = match (rule.on_exit_codes.is_some(), patterns.is_empty()) {
        (true, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, true) => "specifying one of OnExitCodes and OnPodConditions is required",
        (true, true) | (false, false) => return errors,
    };
    errors.push(FieldError {
        field: field.to_string(),
        problem: FieldProblem::Invalid(String::new()),
        detail: count.to_owned(),
    });
    errors
}

/// A text that must be given, and be one of these.
fn one_of(value: &str, supported: &[&str], field: &Path) -> Option<FieldError> {
    if value.is_empty() {
        let quoted: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
        return Some(FieldError::required(field, format!("valid values: [{}]", quoted.join(" "))));
    }
    (!supported.contains(&value)).then(|| FieldError::not_supported(field, value, supported))
}

fn exit_codes(
    requirement: &PodFailurePolicyOnExitCodesRequirement,
    containers: &ListKeys<&str>,
    field: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    errors.extend(one_of(&requirement.operator, OPERATORS, &field.child("operator")));
    let container = requirement.container_name.as_deref();
    if let Some(name) = container.filter(|name| !containers.has(name)) {
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.push(FieldError::invalid(field.child("containerName"), name, detail));
    }
    let field = field.child("values");
    let values = &requirement.values;
    if values.is_empty() {
        errors.push(invalid_list(&field, values, "at least one value is required"));
    } else if values.len() > EXIT_CODES_MAX {
        errors.push(FieldError::too_many(&field, EXIT_CODES_MAX));
    }
    let mut seen = ListKeys::new();
    for (index, value) in values.iter().enumerate() {
        let field = field.index(index);
        if requirement.operator == "In" && *value == 0 {
            errors.push(FieldError::invalid(&field, value, "must not be 0 for the In operator"));
        }
        if seen.add(value).is_some() {
            errors.push(FieldError::duplicate(&field, value));
        }
    }
    if !values.is_sorted() {
        errors.push(invalid_list(&field, values, "must be ordered"));
    }
    errors
}

fn invalid_list(field: &Path, values: &[i32], detail: &str) -> FieldError {
    FieldError {
        field: field.to_string(),
        problem: FieldProblem::Invalid(json(&values)),
        detail: detail.to_owned(),
    }
}

fn pod_conditions(
    patterns: &[PodFailurePolicyOnPodConditionsPattern],
    field: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if patterns.len() > PATTERNS_MAX {
        errors.push(FieldError::too_many(field, PATTERNS_MAX));
    }
    for (index, pattern) in patterns.iter().enumerate() {
        let field = field.index(index);
        let wrong = names::qualified(&pattern.type_);
        errors.extend(invalid_each(&field.child("type"), &pattern.type_, wrong));
        let status = text(pattern.status.as_ref());
        errors.extend(one_of(status, CONDITION_STATUSES, &field.child("status")));
    }
    errors
}

/// successPolicy.
pub(super) fn success(spec: &JobSpec, field: &Path) -> Vec<FieldError> {
    let Some(policy) = &spec.success_policy else { return Vec::new() };
    if text(spec.completion_mode.as_ref()) != "Indexed" {
        return vec![FieldError {
            field: field.to_string(),
            problem: FieldProblem::Invalid(json(policy)),
            detail: "requires indexed completion mode".to_owned(),
        }];
    }
    let field = field.child("rules");
    let mut errors = Vec::new();
    if policy.rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errors.push(FieldError::required(&field, detail));
    }
    if policy.rules.len() > RULES_MAX {
        errors.push(FieldError::too_many(&field, RULES_MAX));
    }
    // An Indexed Job without completions is refused for that already.
    let completions = spec.completions.unwrap_or(i32::MAX);
    for (index, rule) in policy.rules.iter().enumerate() {
        errors.extend(success_rule(rule, completions, &field.index(index)));
    }
    errors
}

fn success_rule(rule: &SuccessPolicyRule, completions: i32, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if rule.succeeded_count.is_none() && rule.succeeded_indexes.is_none() {
        let detail = "at least one of succeededCount or succeededIndexes must be specified";
        errors.push(FieldError::required(field, detail));
    }
    let mut named = None;
    if let Some(indexes) = rule.succeeded_indexes.as_deref() {
        let field = field.child("succeededIndexes");
        if indexes.len() > SUCCEEDED_INDEXES_BYTES_MAX {
            errors.push(FieldError::too_long(&field, SUCCEEDED_INDEXES_BYTES_MAX));
        }
        match count_indexes(indexes, completions) {
            Ok(count) => named = Some(count),
            Err(error) => {
                named = Some(0);
                let detail = format!("error parsing succeededIndexes: {error}");
                errors.push(FieldError::invalid(field, indexes, detail));
            }
        }
    }
    let Some(count) = rule.succeeded_count else { return errors };
    let field = field.child("succeededCount");
    errors.extend(numbers::non_negative(count, &field));
    if count > completions {
        let detail = format!(
            "must be less than or equal to {completions} (the number of specified completions)"
        );
        errors.push(FieldError::invalid(&field, count, detail));
    }
    if let Some(named) = named.filter(|named| i64::from(count) > *named) {
        let detail = format!(
            "must be less than or equal to {named} (the number of indexes in the specified succeededIndexes field)"
        );
        errors.push(FieldError::invalid(&field, count, detail));
    }
    errors
}

/// How many indexes a text like `1,3-5` names; they rise and are below `completions`.
fn count_indexes(text: &str, completions: i32) -> Result<i64, String> {
    let mut count = 0;
    let mut before = None;
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, last) = interval(part, completions)?;
        if let Some(before) = before.filter(|before| *before >= first) {
            return Err(format!("non-increasing order, previous: {before}, current: {first}"));
        }
        count += last - first + 1;
        before = Some(last);
    }
    Ok(count)
}

fn interval(part: &str, completions: i32) -> Result<(i64, i64), String> {
    let number = |text: &str| match text.parse::<i64>() {
        Ok(index) if index >= i64::from(completions) => Err(format!("too large index: {text:?}")),
        Ok(index) => Ok(index),
        Err(_) => Err(format!("cannot convert string to integer for index: {text:?}")),
    };
    match part.split('-').collect::<Vec<_>>()[..] {
        [only] => number(only).map(|index| (index, index)),
        [first, last] => {
            let (first, last) = (number(first)?, number(last)?);
            if first >= last {
                return Err(format!("non-increasing order, previous: {first}, current: {last}"));
            }
            Ok((first, last))
        }
        _ => Err(format!(
            "the fragment {part:?} violates the requirement that an index interval can have at most two parts separated by '-'"
        )),
    }
}
