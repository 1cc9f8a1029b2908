//! The Jobs of a CronJob.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use rekindle_cron::in_zone;
use rekindle_types::reasons::event;
use rekindle_types::{EventSeverity, Tick};
use serde_json::json;

use super::COMPONENT;
use crate::events::EventNote;
use crate::plan::{DependentPolicy, PatchTarget, PlannedWrite, WriteNotes, WriteOperation};
use crate::{NamespacedName, ObjectId, ResourceKind, ViewObject, owners};

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
        api_version: Some(ResourceKind::Job.api_version()),
        kind: Some(ResourceKind::Job.info().kind.to_owned()),
        namespace: job.metadata.namespace.clone(),
        name: job.metadata.name.clone(),
        uid: job.metadata.uid.clone(),
        resource_version: job.metadata.resource_version.clone(),
        field_path: None,
    }
}

/// Makes the Job for this time.
pub(super) fn creation(cron: &Arc<CronJob>, at: Tick) -> PlannedWrite {
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
                ResourceKind::CronJob,
                &cron.metadata,
            )]),
            ..Default::default()
        },
        spec: template.spec.clone(),
        status: None,
    };
    let about = ViewObject::CronJob(cron.clone());
    let message = format!("Created job {name}");
    let success =
        EventNote::new(&about, EventSeverity::Normal, event::SUCCESSFUL_CREATE, message, COMPONENT);
    let failure = EventNote::new(
        &about,
        EventSeverity::Warning,
        event::FAILED_CREATE,
        "Error creating job: ",
        COMPONENT,
    );
    PlannedWrite {
        write: WriteOperation::Create(job.into()),
        report: Some(WriteNotes::new(success, failure)),
    }
}

/// Says in the status that the time is served, right behind the creation of its Job: that counts
/// also if the Job is deleted before the next look.
pub(super) fn served_write(cron: &CronJob, at: Tick) -> WriteOperation {
    let id = ObjectId::new(ResourceKind::CronJob, NamespacedName::from_meta(&cron.metadata));
    let patch = json!({
        "metadata": {"uid": cron.metadata.uid},
        "status": {"lastScheduleTime": at.to_time()},
    });
    WriteOperation::Patch { id, part: PatchTarget::Status, patch }
}

/// Deletes a Job with its pods.
pub(super) fn deletion(cron: &Arc<CronJob>, job: &Arc<Job>) -> PlannedWrite {
    let about = ViewObject::CronJob(cron.clone());
    let message = format!("Deleted job {}", job.metadata.name.as_deref().unwrap_or_default());
    let success =
        EventNote::new(&about, EventSeverity::Normal, "SuccessfulDelete", message, COMPONENT);
    let failure =
        EventNote::new(&about, EventSeverity::Warning, "FailedDelete", "Deleted job: ", COMPONENT);
    let write = WriteOperation::delete(&ViewObject::Job(job.clone()), DependentPolicy::Background);
    PlannedWrite { write, report: Some(WriteNotes::new(success, failure)) }
}
