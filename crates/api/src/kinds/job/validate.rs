//! What makes a Job valid, in upstream's words (`pkg/apis/batch/validation`). Defaults have been filled before.

use k8s_openapi::api::batch::v1::{Job, JobSpec};

use super::{CONTROLLER_UID, JOB_NAME, OLD_CONTROLLER_UID, OLD_JOB_NAME, unsupported};
use crate::kinds::pod::validate::{Holder, pod_spec};
use crate::kinds::template;
use crate::registry::field_error::{FieldError, Problem};
use crate::validation::{Path, names, numbers, selector, text};

/// Pods that an Indexed Job may run at once.
const INDEXED_PARALLELISM_MAX: i32 = 100_000;

/// Everything wrong with a Job.
pub(super) fn job(job: &Job) -> Vec<FieldError> {
    let field = Path::new("spec");
    let Some(spec) = &job.spec else { return vec![FieldError::required(field, "")] };
    let mut errors = Vec::new();
    errors.extend(generated_selector(job, spec));
    for (name, value) in [
        ("parallelism", spec.parallelism.map(i64::from)),
        ("completions", spec.completions.map(i64::from)),
        ("activeDeadlineSeconds", spec.active_deadline_seconds),
        ("backoffLimit", spec.backoff_limit.map(i64::from)),
        ("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished.map(i64::from)),
    ] {
        errors.extend(numbers::non_negative(value.unwrap_or(0), &field.child(name)));
    }
    errors.extend(completion_mode(job, spec, &field));
    errors.extend(pods(spec, &field));
    let replacement = text(spec.pod_replacement_policy.as_ref());
    if !matches!(replacement, "Failed" | "TerminatingOrFailed") {
        errors.push(FieldError::not_supported(
            field.child("podReplacementPolicy"),
            replacement,
            &["Failed", "TerminatingOrFailed"],
        ));
    }
    errors.extend(unsupported::check(spec, &field));
    errors
}

/// Unless the user selects by hand, selector and labels are the generated ones.
fn generated_selector(job: &Job, spec: &JobSpec) -> Vec<FieldError> {
    if spec.manual_selector == Some(true) {
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
                problem: Problem::Invalid(template::json(&labels)),
                detail,
            }),
            Some(_) => {}
        }
    }
    let selected = spec.selector.as_ref().and_then(|selector| selector.match_labels.as_ref());
    if selected.and_then(|labels| labels.get(CONTROLLER_UID)).is_none_or(|value| value != uid) {
        errors.push(FieldError {
            field: "spec.selector".to_owned(),
            problem: Problem::Invalid(template::json(&spec.selector)),
            detail: "`selector` not auto-generated".to_owned(),
        });
    }
    errors
}

fn completion_mode(job: &Job, spec: &JobSpec, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match text(spec.completion_mode.as_ref()) {
        "NonIndexed" => {}
        "Indexed" => {
            let Some(completions) = spec.completions else {
                let detail = "when completion mode is Indexed";
                return vec![FieldError::required(field.child("completions"), detail)];
            };
            let parallelism = spec.parallelism.unwrap_or(1);
            if parallelism > INDEXED_PARALLELISM_MAX {
                errors.push(FieldError::invalid(
                    field.child("parallelism"),
                    parallelism,
                    format!(
                        "must be less than or equal to {INDEXED_PARALLELISM_MAX} when completion mode is Indexed"
                    ),
                ));
            }
            errors.extend(hostname(text(job.metadata.name.as_ref()), completions));
        }
        other => errors.push(FieldError::not_supported(
            field.child("completionMode"),
            other,
            &["Indexed", "NonIndexed"],
        )),
    }
    errors
}

/// The pods of an Indexed Job are called by its name and their index.
fn hostname(name: &str, completions: i32) -> Option<FieldError> {
    let longest = format!("{name}-{}", completions.saturating_sub(1).max(0));
    let wrong = names::dns_label(&longest);
    (!wrong.is_empty()).then(|| {
        let wrong: Vec<String> = wrong.iter().map(ToString::to_string).collect();
        FieldError::invalid(
            Path::new("metadata").child("name"),
            name,
            format!(
                "will not able to create pod with invalid DNS label: {longest}: {}",
                wrong.join(", ")
            ),
        )
    })
}

/// Selector and template.
fn pods(spec: &JobSpec, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let template_field = field.child("template");
    let metadata = spec.template.metadata.as_ref();
    let labels = metadata.and_then(|metadata| metadata.labels.as_ref());
    match &spec.selector {
        None => errors.push(FieldError::required(field.child("selector"), "")),
        Some(labels_selector) => {
            errors.extend(selector::check(labels_selector, &field.child("selector")));
            if !selector::matches(labels_selector, labels) {
                errors.push(FieldError {
                    field: template_field.child("metadata").child("labels").into(),
                    problem: Problem::Invalid(template::json(&labels)),
                    detail: "`selector` does not match template `labels`".to_owned(),
                });
            }
        }
    }
    errors.extend(template::check_metadata(&spec.template, &template_field.child("metadata")));
    let spec_field = template_field.child("spec");
    let Some(pods) = &spec.template.spec else {
        errors.push(FieldError::required(spec_field, ""));
        return errors;
    };
    errors.extend(pod_spec(pods, Holder::Template, &spec_field));
    // Always is what defaulting leaves where the user said nothing; a Job's pods must be able to end.
    if text(pods.restart_policy.as_ref()) == "Always" {
        errors.push(FieldError::required(
            spec_field.child("restartPolicy"),
            "valid values: \"OnFailure\", \"Never\"",
        ));
    }
    errors
}
