//! What makes a CronJob valid, in upstream's words (`pkg/apis/batch/validation`). Defaults have
//! been filled before.

use k8s_openapi::api::batch::v1::{CronJobSpec, JobSpec};
use rekindle_cron::{Schedule, time_zone as find_time_zone};
use rekindle_types::validation::field_error::{FieldError, FieldProblem};

use crate::job;
use crate::validation::{Path, json, labels, numbers, text};

/// A job's name has 11 letters more, and at most 63.
const NAME_MAX: usize = 52;
/// Letters in a part of a time zone's name (theory.html of the IANA database, "Naming").
const ZONE_PART_MAX: usize = 14;

/// What is wrong with the name of a new CronJob.
pub(super) fn name(name: &str) -> Option<FieldError> {
    (name.len() > NAME_MAX).then(|| {
        let detail = format!("must be no more than {NAME_MAX} characters");
        FieldError::invalid(Path::new("metadata").child("name"), name, detail)
    })
}

/// Everything wrong with the spec.
pub(super) fn spec(spec: &CronJobSpec) -> Vec<FieldError> {
    let field = Path::new("spec");
    let mut errors = schedule(&spec.schedule, &field.child("schedule"));
    let deadline = spec.starting_deadline_seconds.unwrap_or(0);
    errors.extend(numbers::non_negative(deadline, &field.child("startingDeadlineSeconds")));
    errors.extend(time_zone(spec.time_zone.as_deref(), &field.child("timeZone")));
    let policy = text(spec.concurrency_policy.as_ref());
    if !matches!(policy, "Allow" | "Forbid" | "Replace") {
        errors.push(FieldError::not_supported(
            field.child("concurrencyPolicy"),
            policy,
            &["Allow", "Forbid", "Replace"],
        ));
    }
    errors.extend(job_template(spec, &field.child("jobTemplate")));
    for (name, limit) in [
        ("successfulJobsHistoryLimit", spec.successful_jobs_history_limit),
        ("failedJobsHistoryLimit", spec.failed_jobs_history_limit),
    ] {
        errors.extend(numbers::non_negative(limit.unwrap_or(0), &field.child(name)));
    }
    errors
}

fn schedule(schedule: &str, field: &Path) -> Vec<FieldError> {
    if schedule.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    let mut errors = Vec::new();
    let has_zone = schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=");
    let plain = match schedule.split_once(' ') {
        Some((_, rest)) if has_zone => rest.trim(),
        Some(_) | None => schedule,
    };
    if let Err(error) = Schedule::parse(plain, jiff::tz::TimeZone::UTC) {
        errors.push(FieldError::invalid(field, schedule, error.to_string()));
    }
    if schedule.contains("TZ") {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.push(FieldError::invalid(field, schedule, detail));
    }
    errors
}

fn time_zone(zone: Option<&str>, field: &Path) -> Option<FieldError> {
    let zone = zone?;
    let detail = if zone.is_empty() {
        "timeZone must be nil or non-empty string".to_owned()
    } else if zone.eq_ignore_ascii_case("Local") {
        "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
            .to_owned()
    } else if !zone.split('/').all(is_zone_part) || find_time_zone(zone).is_none() {
        format!("unknown time zone {zone}")
    } else {
        return None;
    };
    Some(FieldError::invalid(field, zone, detail))
}

fn is_zone_part(part: &str) -> bool {
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b".-_+".contains(&b);
    (1..=ZONE_PART_MAX).contains(&part.len())
        && !matches!(part, "." | "..")
        && !part.starts_with('-')
        && part.bytes().all(is_name)
}

fn job_template(spec: &CronJobSpec, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(metadata) = &spec.job_template.metadata {
        let field = field.child("metadata");
        errors.extend(labels::labels(metadata.labels.as_ref(), &field.child("labels")));
        let annotations = metadata.annotations.as_ref();
        errors.extend(labels::annotations(annotations, &field.child("annotations")));
    }
    let none = JobSpec::default();
    let job = spec.job_template.spec.as_ref().unwrap_or(&none);
    let field = field.child("spec");
    errors.extend(job::validate::job_spec(job, &field));
    if job.selector.is_some() {
        errors.push(FieldError {
            field: field.child("selector").into(),
            problem: FieldProblem::Invalid(json(&job.selector)),
            detail: "`selector` will be auto-generated".to_owned(),
        });
    }
    if job.manual_selector == Some(true) {
        errors.push(FieldError::not_supported(
            field.child("manualSelector"),
            true,
            &["nil", "false"],
        ));
    }
    errors
}
