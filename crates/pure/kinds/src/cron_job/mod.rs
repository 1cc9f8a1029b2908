//! CronJob (batch/v1).
//!
//! Source: API reference of batch/v1; documentation, "CronJob".

mod validate;

use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus};
use rekindle_cron::{Schedule, time_zone};
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::defaults;
use super::preparation;
use super::template;
use crate::registry::resource::{
    ApiKind, MetadataChecks, POD_NAMES, RequestContext, ResourceNames, ResourceScope, Subresource,
    TableCell, TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{AGE, NAME, age, column, containers_and_images, wide};
use crate::validation::{Path, items, selector, text};

/// 2024-01-01: of the five years after it, one has a 29th of February.
const ANY_TIME: Tick = Tick::from_secs(1_704_067_200);

impl ApiKind for CronJob {
    const NAMES: ResourceNames = ResourceNames {
        singular: "cronjob",
        short_names: &["cj"],
        categories: &["all"],
        scope: ResourceScope::Namespaced,
    };
    const NAME_IS_IN: Option<&'static str> = Some(POD_NAMES);
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Status];
    const STRATEGIES: Strategies<Self> = Strategies::of_status();
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfUpdate;
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Schedule", "string", "When a job is made, in the format of cron."),
        column("Timezone", "string", "The time zone of the schedule."),
        column("Suspend", "boolean", "Whether no further jobs are made."),
        column("Active", "integer", "Number of jobs that run."),
        column("Last Schedule", "string", "How long ago a job was last due and made."),
        AGE,
        wide("Containers", "string", "Names of each container in the template."),
        wide("Images", "string", "Images referenced by each container in the template."),
        wide("Selector", "string", "Label selector for pods."),
    ];

    fn set_defaults(&mut self) {
        let spec = &mut self.spec;
        defaults::text(&mut spec.concurrency_policy, "Allow");
        spec.suspend.get_or_insert(false);
        spec.successful_jobs_history_limit.get_or_insert(3);
        spec.failed_jobs_history_limit.get_or_insert(1);
        // The rest of the job is filled in when it is made, as upstream.
        spec.job_template.metadata.get_or_insert_default();
        let template = &mut spec.job_template.spec.get_or_insert_default().template;
        template.metadata.get_or_insert_default();
        template::set_defaults(template);
    }

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        preparation::first_generation(&mut self.metadata);
        self.status = Some(CronJobStatus::default());
    }

    preparation::updates_of_spec!();

    fn validate(&self) -> Vec<FieldError> {
        validate::spec(&self.spec)
    }

    fn validate_new(&self) -> Vec<FieldError> {
        validate::name(text(self.metadata.name.as_ref())).into_iter().collect()
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = never_fires(self).into_iter().collect();
        let job = Path::new("spec").child("jobTemplate").child("spec");
        let template = self.spec.job_template.spec.as_ref().map(|spec| &spec.template);
        warnings.extend(
            template.into_iter().flat_map(|pods| template::warnings(pods, &job.child("template"))),
        );
        warnings
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let status = self.status.as_ref();
        let job = self.spec.job_template.spec.as_ref();
        let pods = job.and_then(|job| job.template.spec.as_ref());
        let labels = job.and_then(|job| job.selector.as_ref());
        let active = items(status.and_then(|status| status.active.as_ref())).len();
        let last = status.and_then(|status| status.last_schedule_time.as_ref());
        let suspended = match self.spec.suspend {
            None => "<unset>",
            Some(true) => "True",
            Some(false) => "False",
        };
        let [containers, images] = containers_and_images(pods);
        vec![
            text(self.metadata.name.as_ref()).into(),
            self.spec.schedule.as_str().into(),
            self.spec.time_zone.as_deref().unwrap_or("<none>").into(),
            suspended.into(),
            TableCell::Int(i64::try_from(active).unwrap_or(i64::MAX)),
            last.map_or_else(|| "<none>".to_owned(), |last| age(Some(last), now)).into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
            containers,
            images,
            labels.map_or_else(|| "<none>".to_owned(), selector::format).into(),
        ]
    }
}

impl SubresourceStrategy<StatusPart> for CronJob {
    preparation::updates_of_status_and_metadata!();
}

/// Kubernetes takes a 31st of February, and says what is wrong with it in an event only.
fn never_fires(cron: &CronJob) -> Option<String> {
    let zone = time_zone(cron.spec.time_zone.as_deref().unwrap_or("UTC"))?;
    let text = &cron.spec.schedule;
    let schedule = Schedule::parse(text, zone).ok()?;
    let is_never = schedule.next_after(ANY_TIME).is_none();
    is_never.then(|| {
        format!("spec.schedule: {text:?} names a time that never comes; no job will be made")
    })
}
