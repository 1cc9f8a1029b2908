//! What makes a Job valid, in upstream's words (`pkg/apis/batch/validation`). Defaults have been
//! filled before.

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use rekindle_types::validation::field_error::{FieldError, FieldProblem};

use super::{CONTROLLER_UID, JOB_NAME, OLD_CONTROLLER_UID, OLD_JOB_NAME, policies};
use crate::template;
use crate::validation::{Path, json, names, numbers, selector, text};

/// Pods that an Indexed Job may run at once.
const INDEXED_PARALLELISM_MAX: i32 = 100_000;

/// Everything wrong with a Job.
pub(super) fn job(job: &Job) -> Vec<FieldError> {
    let field = Path::new("spec");
    let Some(spec) = &job.spec else { return vec![FieldError::required(field, "")] };
    let mut errors = generated_selector(job, spec);
    errors.extend(spec_errors(spec, &field));
    let is_indexed = text(spec.completion_mode.as_ref()) == "Indexed";
    if let Some(completions) = spec.completions.filter(|count| is_indexed && *count > 0) {
        errors.extend(hostname(text(job.metadata.name.as_ref()), completions));
    }
    errors
}

/// Everything wrong with the spec of a Job.
pub(super) fn spec_errors(spec: &JobSpec, field: &Path) -> Vec<FieldError> {
    let mut errors = job_spec(spec, field);
    errors.extend(pod_selector(spec, field));
    errors
}

/// Everything wrong with what Jobs and the templates of CronJobs have in common.
pub(crate) fn job_spec(spec: &JobSpec, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (name, value) in [
        ("parallelism", spec.parallelism.map(i64::from)),
        ("completions", spec.completions.map(i64::from)),
        ("activeDeadlineSeconds", spec.active_deadline_seconds),
        ("backoffLimit", spec.backoff_limit.map(i64::from)),
        ("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished.map(i64::from)),
        ("backoffLimitPerIndex", spec.backoff_limit_per_index.map(i64::from)),
        ("maxFailedIndexes", spec.max_failed_indexes.map(i64::from)),
    ] {
        errors.extend(numbers::non_negative(value.unwrap_or(0), &field.child(name)));
    }
    errors.extend(policies::indexes_need_limit(spec, field));
    errors.extend(policies::managed_by(spec, &field.child("managedBy")));
    errors.extend(completion_mode(spec, field));
    errors.extend(policies::pod_failure(spec, &field.child("podFailurePolicy")));
    errors.extend(policies::success(spec, &field.child("successPolicy")));
    errors.extend(policies::pod_replacement(spec, &field.child("podReplacementPolicy")));
    errors.extend(pods(spec, field));
    errors
}

/// Unless the user selects by hand, selector and labels are the generated ones.
fn generated_selector(job: &Job, spec: &JobSpec) -> Vec<FieldError> {
    // a selector that is missing is a mistake of its own
    if spec.manual_selector == Some(true) || spec.selector.is_none() {
        return Vec::new();
    }
    let (name, uid) = (text(job.metadata.name.as_ref()), text(job.metadata.uid.as_ref()));
    let metadata = spec.template.metadata.as_ref();
    let labels = metadata.and_then(|metadata| metadata.labels.as_ref());
    let field = Path::new("spec").child("template").child("metadata").child("labels");
    let mut errors = Vec::new();
    for (key, wanted) in
        [(OLD_CONTROLLER_UID, uid), (OLD_JOB_NAME, name), (CONTROLLER_UID, uid), (JOB_NAME, name)]
    {
        let detail = format!("must be '{wanted}'");
        match labels.and_then(|labels| labels.get(key)) {
            None => errors.push(FieldError::required(field.key(key), detail)),
            Some(value) if value != wanted => errors.push(FieldError {
                field: field.key(key).into(),
                problem: FieldProblem::Invalid(json(&labels)),
                detail,
            }),
            Some(_) => {}
        }
    }
    let generated = [OLD_CONTROLLER_UID, CONTROLLER_UID].map(|key| (key, uid));
    let generated = generated.into_iter().chain([OLD_JOB_NAME, JOB_NAME].map(|key| (key, name)));
    let generated = generated.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    if let Some(labels_selector) = &spec.selector
        && !selector::matches(labels_selector, Some(&generated))
    {
        errors.push(FieldError {
            field: Path::new("spec").child("selector").into(),
            problem: FieldProblem::Invalid(json(labels_selector)),
            detail: "`selector` not auto-generated".to_owned(),
        });
    }
    let selected = spec.selector.as_ref().and_then(|selector| selector.match_labels.as_ref());
    if selected.and_then(|labels| labels.get(CONTROLLER_UID)).is_none_or(|value| value != uid) {
        errors.push(FieldError {
            field: "spec.selector".to_owned(),
            problem: FieldProblem::Invalid(json(&spec.selector)),
            detail: "`selector` not auto-generated".to_owned(),
        });
    }
    errors
}

fn completion_mode(spec: &JobSpec, field: &Path) -> Vec<FieldError> {
    match spec.completion_mode.as_deref() {
        None | Some("NonIndexed") => policies::only_of_indexed(spec, field),
        Some("Indexed") => indexed(spec, field),
        Some(other) => vec![FieldError::not_supported(
            field.child("completionMode"),
            other,
            &["NonIndexed", "Indexed"],
        )],
    }
}

fn indexed(spec: &JobSpec, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if spec.completions.is_none() {
        let detail = "when completion mode is Indexed";
        errors.push(FieldError::required(field.child("completions"), detail));
    }
    if let Some(parallelism) = spec.parallelism.filter(|count| *count > INDEXED_PARALLELISM_MAX) {
        errors.push(FieldError::invalid(
            field.child("parallelism"),
            parallelism,
            format!(
                "must be less than or equal to {INDEXED_PARALLELISM_MAX} when completion mode is Indexed"
            ),
        ));
    }
    errors.extend(policies::failed_indexes(spec, field));
    errors
}

/// The pods of an Indexed Job are called by its name and their index.
fn hostname(name: &str, completions: i32) -> Option<FieldError> {
    let longest = format!("{name}-{}", completions - 1);
    (!names::dns_label(&longest).is_empty()).then(|| {
        FieldError::invalid(
            Path::new("metadata").child("name"),
            name,
            format!("will not able to create pod with invalid DNS label: {longest}"),
        )
    })
}

/// Whether the Job knows its pods.
fn pod_selector(spec: &JobSpec, field: &Path) -> Vec<FieldError> {
    let metadata = spec.template.metadata.as_ref();
    let labels = metadata.and_then(|metadata| metadata.labels.as_ref());
    let selector_field = field.child("selector");
    let Some(labels_selector) = &spec.selector else {
        let unselected = template::unselected_labels(labels, &field.child("template"));
        return vec![FieldError::required(selector_field, ""), unselected];
    };
    let mut errors = selector::check(labels_selector, &selector_field);
    if errors.is_empty() && !selector::matches(labels_selector, labels) {
        errors.push(FieldError {
            field: field.child("template").child("metadata").child("labels").into(),
            problem: FieldProblem::Invalid(json(&labels)),
            detail: "`selector` does not match template `labels`".to_owned(),
        });
    }
    errors
}

/// The template.
fn pods(spec: &JobSpec, field: &Path) -> Vec<FieldError> {
    let template_field = field.child("template");
    let mut errors = template::check_pods(&spec.template, &template_field);
    let spec_field = template_field.child("spec");
    let Some(pods) = &spec.template.spec else {
        errors.push(FieldError::required(spec_field, ""));
        return errors;
    };
    let policy_field = spec_field.child("restartPolicy");
    match text(pods.restart_policy.as_ref()) {
        // Always is what defaulting leaves where the user said nothing; a Job's pods must be able
        // to end.
        "" | "Always" => errors
            .push(FieldError::required(policy_field, "valid values: \"OnFailure\", \"Never\"")),
        "OnFailure" if spec.pod_failure_policy.is_some() => errors.push(FieldError::invalid(
            policy_field,
            "OnFailure",
            "only \"Never\" is supported when podFailurePolicy is specified",
        )),
        "OnFailure" | "Never" => {}
        // the pod's own mistake, too
        other => {
            errors.push(FieldError::not_supported(policy_field, other, &["OnFailure", "Never"]))
        }
    }
    errors
}
