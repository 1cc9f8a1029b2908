//! The Jobs of a CronJob.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use rekindle_cron::in_zone;
use rekindle_types::Tick;
use rekindle_types::reasons::event;
use serde_json::json;

use super::COMPONENT;
use crate::events::{Note, Severity};
use crate::plan::{Part, Propagation, Report, Step, Write};
use crate::{Kind, NamespacedName, Object, ObjectId, owners};

/// The annotation with the time that a Job was made for, in the time zone of the schedule.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// True when the CronJob with this UID manages the Job.
pub(super) fn is_of(job: &Job, cron_uid: &str) -> bool {
    owners::controller_of(&job.metadata).is_some_and(|owner| owner.uid == cron_uid)
}

/// What a Job for this time is called: by the minute.
pub(super) fn name(cron: &CronJob, at: Tick) -> String {
    let minute = at.as_micros() / 60_000_000;
    format!("{}-{minute}", cron.metadata.name.as_deref().unwrap_or_default())
}

/// The time for which the Job says it was made, if its name agrees. Whether that time can be served
/// is `served`'s to say.
pub(super) fn made_for(cron: &CronJob, job: &Job) -> Option<Tick> {
    let text = job.metadata.annotations.as_ref()?.get(SCHEDULED)?;
    let time: Time = serde_json::from_value(serde_json::Value::String(text.clone())).ok()?;
    let at = Tick::from(&time);
    (job.metadata.name.as_deref() == Some(name(cron, at).as_str())).then_some(at)
}

/// How the status names a Job that runs.
pub(super) fn reference(job: &Job) -> ObjectReference {
    ObjectReference {
        api_version: Some(Kind::Job.api_version()),
        kind: Some(Kind::Job.info().kind.to_owned()),
        namespace: job.metadata.namespace.clone(),
        name: job.metadata.name.clone(),
        uid: job.metadata.uid.clone(),
        resource_version: job.metadata.resource_version.clone(),
        field_path: None,
    }
}

/// Makes the Job for this time.
pub(super) fn creation(cron: &Arc<CronJob>, at: Tick) -> Step {
    let template = &cron.spec.job_template;
    let from = template.metadata.clone().unwrap_or_default();
    let mut annotations = from.annotations.unwrap_or_default();
    let zone = cron.spec.time_zone.as_deref().unwrap_or("UTC");
    annotations.insert(SCHEDULED.to_owned(), in_zone(at, zone));
    let name = name(cron, at);
    let job = Job {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: cron.metadata.namespace.clone(),
            labels: from.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![owners::controller_reference(
                Kind::CronJob,
                &cron.metadata,
            )]),
            ..Default::default()
        },
        spec: template.spec.clone(),
        status: None,
    };
    let about = Object::CronJob(cron.clone());
    let message = format!("Created job {name}");
    let success = Note::new(&about, Severity::Normal, event::SUCCESSFUL_CREATE, message, COMPONENT);
    let failure = Note::new(
        &about,
        Severity::Warning,
        event::FAILED_CREATE,
        "Error creating job: ",
        COMPONENT,
    );
    Step { write: Write::Create(job.into()), report: Some(Report::new(success, failure)) }
}

/// Says in the status that the time is served, right behind the creation of its Job: that counts
/// also if the Job is deleted before the next look.
pub(super) fn served_write(cron: &CronJob, at: Tick) -> Write {
    let id = ObjectId::new(Kind::CronJob, NamespacedName::of(&cron.metadata));
    let patch = json!({
        "metadata": {"uid": cron.metadata.uid},
        "status": {"lastScheduleTime": at.to_time()},
    });
    Write::Patch { id, part: Part::Status, patch }
}

/// Deletes a Job with its pods.
pub(super) fn deletion(cron: &Arc<CronJob>, job: &Arc<Job>) -> Step {
    let about = Object::CronJob(cron.clone());
    let message = format!("Deleted job {}", job.metadata.name.as_deref().unwrap_or_default());
    let success = Note::new(&about, Severity::Normal, "SuccessfulDelete", message, COMPONENT);
    let failure = Note::new(&about, Severity::Warning, "FailedDelete", "Deleted job: ", COMPONENT);
    let write = Write::delete(&Object::Job(job.clone()), Propagation::Background);
    Step { write, report: Some(Report::new(success, failure)) }
}
