//! Job (batch/v1).
//!
//! Source: API reference of batch/v1; documentation, "Jobs".

mod indexes;
mod policies;
mod status;
mod update;
pub(super) mod validate;

use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use rekindle_types::validation::field_error::FieldError;
use rekindle_types::{ObjectJson, Tick};

use super::defaults;
use super::preparation::{self, DesiredState};
use super::template;
use crate::registry::resource::{
    ApiKind, MetadataChecks, POD_NAMES, RequestContext, ResourceNames, ResourceScope, Subresource,
    TableCell, TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{AGE, NAME, age, column, containers_and_images, human, wide};
use crate::validation::{Path, names, selector, text};

/// The label with the UID of the Job, by which it knows its pods.
const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
/// The label with the name of the Job.
const JOB_NAME: &str = "batch.kubernetes.io/job-name";
/// [`CONTROLLER_UID`] as it was called first; still set.
const OLD_CONTROLLER_UID: &str = "controller-uid";
/// [`JOB_NAME`] as it was called first; still set, and what `kubectl logs job/x` users select by.
const OLD_JOB_NAME: &str = "job-name";
/// Failures after which a Job is given up, unless it says otherwise.
const BACKOFF_LIMIT: i32 = 6;

impl ApiKind for Job {
    const NAMES: ResourceNames = ResourceNames {
        singular: "job",
        short_names: &[],
        categories: &["all"],
        scope: ResourceScope::Namespaced,
    };
    const NAME_IS_IN: Option<&'static str> = Some(POD_NAMES);
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Status];
    const STRATEGIES: Strategies<Self> = Strategies::of_status();
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfUpdate;
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Status", "string", "Status of the job."),
        column("Completions", "string", "How many pods succeeded, of how many that are to."),
        column("Duration", "string", "Time from the start of the job to its completion."),
        AGE,
        wide("Containers", "string", "Names of each container in the template."),
        wide("Images", "string", "Images referenced by each container in the template."),
        wide("Selector", "string", "Label selector for pods."),
    ];
    const SELECTABLE_FIELDS: &'static [&'static str] = &["status.successful"];

    fn set_defaults(&mut self) {
        let spec = self.spec.get_or_insert_default();
        template::set_defaults(&mut spec.template);
        if spec.completions.is_none() && spec.parallelism.is_none() {
            spec.completions = Some(1);
        }
        spec.parallelism.get_or_insert(1);
        // With a limit for each index there is none for all of them.
        let limit = spec.backoff_limit_per_index.map_or(BACKOFF_LIMIT, |_| i32::MAX);
        spec.backoff_limit.get_or_insert(limit);
        defaults::absent_text(&mut spec.completion_mode, "NonIndexed");
        spec.suspend.get_or_insert(false);
        spec.manual_selector.get_or_insert(false);
        let replacement = match spec.pod_failure_policy {
            Some(_) => "Failed",
            None => "TerminatingOrFailed",
        };
        defaults::absent_text(&mut spec.pod_replacement_policy, replacement);
        set_policy_defaults(spec);
        defaults::drop_zeros!(self.status, [active, succeeded, failed]);
    }

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        preparation::first_generation(&mut self.metadata);
        self.status = Some(JobStatus::default());
    }

    fn prepare_named(&mut self) {
        // upstream gives it the generated labels only after it was found right
        if !names::label_value(text(self.metadata.name.as_ref())).is_empty() {
            label_as_pods(self);
            generate_selector(self);
        } else {
            generate_selector(self);
            label_as_pods(self);
        }
    }

    fn prepare_for_update(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        let desired = DesiredState::compare(&self.spec, &old.spec);
        preparation::next_generation(&mut self.metadata, &old.metadata, desired);
        self.status.clone_from(&old.status);
        label_as_pods(self);
    }

    /// The labels that it gets from its pods are owned with the others.
    fn tracked_value(&self) -> serde_json::Value {
        let mut labelled = self.clone();
        label_as_pods(&mut labelled);
        ObjectJson::to_value(&labelled)
    }

    fn validate(&self) -> Vec<FieldError> {
        validate::job(self)
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        // upstream looks at the new spec twice: its causes are there twice
        let spec = self.spec.as_ref();
        let mut errors =
            spec.map_or(Vec::new(), |spec| validate::spec_errors(spec, &Path::new("spec")));
        errors.extend(update::check(self, old));
        errors
    }

    fn warnings(&self) -> Vec<String> {
        self.spec
            .as_ref()
            .map_or_else(Vec::new, |spec| template::warnings(&spec.template, &template::field()))
    }

    fn selectable_fields(&self) -> Vec<(&'static str, String)> {
        let succeeded = self.status.as_ref().and_then(|status| status.succeeded).unwrap_or(0);
        vec![("status.successful", succeeded.to_string())]
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let pods = self.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        let labels = self.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let [containers, images] = containers_and_images(pods);
        vec![
            text(self.metadata.name.as_ref()).into(),
            standing(self).into(),
            completions(self).into(),
            duration(self, now).into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
            containers,
            images,
            labels.map_or_else(|| "<none>".to_owned(), selector::format).into(),
        ]
    }
}

impl SubresourceStrategy<StatusPart> for Job {
    fn prepare_part(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        self.spec.clone_from(&old.spec);
        label_as_pods(self);
        self.metadata.generation = old.metadata.generation;
    }

    fn validate_part(&self, old: &Self) -> Vec<FieldError> {
        status::check(self, old)
    }
}

/// A pattern of a condition that says nothing of the status means True.
fn set_policy_defaults(spec: &mut JobSpec) {
    for rule in spec.pod_failure_policy.iter_mut().flat_map(|policy| &mut policy.rules) {
        for pattern in rule.on_pod_conditions.iter_mut().flatten() {
            defaults::text(&mut pattern.status, "True");
        }
    }
}

/// As upstream: a Job without labels has those of its pods.
fn label_as_pods(job: &mut Job) {
    let template = job.spec.as_ref().and_then(|spec| spec.template.metadata.as_ref());
    if job.metadata.labels.as_ref().is_none_or(|labels| labels.is_empty()) {
        job.metadata.labels = template.and_then(|template| template.labels.clone());
    }
}

/// Gives the pods labels that no other Job's pods have, and the Job a selector for them; unless the
/// user selects by hand. A label that stands there already is left to validation.
fn generate_selector(job: &mut Job) {
    let name = text(job.metadata.name.as_ref()).to_owned();
    let uid = text(job.metadata.uid.as_ref()).to_owned();
    let spec = job.spec.get_or_insert_default();
    if spec.manual_selector == Some(true) {
        return;
    }
    let metadata = spec.template.metadata.get_or_insert_default();
    let labels = metadata.labels.get_or_insert_default();
    for (key, value) in [
        (OLD_JOB_NAME, &name),
        (JOB_NAME, &name),
        (OLD_CONTROLLER_UID, &uid),
        (CONTROLLER_UID, &uid),
    ] {
        labels.entry(key.to_owned()).or_insert_with(|| value.clone());
    }
    let selected = spec.selector.get_or_insert_default().match_labels.get_or_insert_default();
    selected.entry(CONTROLLER_UID.to_owned()).or_insert(uid);
}

/// Whether a condition is True.
fn has_condition(job: &Job, type_: &str) -> bool {
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == type_ && condition.status == "True")
}

/// Where the Job stands, in one word.
fn standing(job: &Job) -> &'static str {
    if has_condition(job, "Complete") {
        "Complete"
    } else if has_condition(job, "Failed") {
        "Failed"
    } else if job.metadata.deletion_timestamp.is_some() {
        "Terminating"
    } else if has_condition(job, "Suspended") {
        "Suspended"
    } else if has_condition(job, "SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else if has_condition(job, "FailureTarget") {
        "FailureTarget"
    } else {
        "Running"
    }
}

/// How many pods succeeded, of how many.
fn completions(job: &Job) -> String {
    let succeeded = job.status.as_ref().and_then(|status| status.succeeded).unwrap_or(0);
    let wanted = job.spec.as_ref().and_then(|spec| spec.completions);
    let parallelism = job.spec.as_ref().and_then(|spec| spec.parallelism).unwrap_or(0);
    match wanted {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    }
}

/// From the start to the completion, or to now; empty before the start.
fn duration(job: &Job, now: Tick) -> String {
    let status = job.status.as_ref();
    let Some(start) = status.and_then(|status| status.start_time.as_ref()) else {
        return String::new();
    };
    let end = status.and_then(|status| status.completion_time.as_ref()).map_or(now, Tick::from);
    human(end.since(Tick::from(start)))
}
