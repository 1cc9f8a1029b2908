//! Deployment (apps/v1).

use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentSpec, DeploymentStatus, DeploymentStrategy, RollingUpdateDeployment,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::defaults;
use super::preparation::{self, DesiredState};
use super::status_counts::{self, PartialCount};
use super::template;
use crate::registry::resource::{
    ApiKind, MetadataChecks, POD_NAMES, RequestContext, ResourceNames, ResourceScope, Subresource,
    TableCell, TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{AGE, NAME, age, column, containers_and_images, wide};
use crate::validation::{Path, amounts, numbers, selector, text};

impl ApiKind for Deployment {
    const NAMES: ResourceNames = ResourceNames {
        singular: "deployment",
        short_names: &["deploy"],
        categories: &["all"],
        scope: ResourceScope::Namespaced,
    };
    const NAME_IS_IN: Option<&'static str> = Some(POD_NAMES);
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Scale, Subresource::Status];
    const STRATEGIES: Strategies<Self> = Strategies::of_status();
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfUpdate;
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Ready", "string", "Number of the pod with ready state"),
        column("Up-to-date", "string", "The number of pods of the newest template."),
        column("Available", "string", "The number of pods ready for at least minReadySeconds."),
        AGE,
        wide("Containers", "string", "Names of each container in the template."),
        wide("Images", "string", "Images referenced by each container in the template."),
        wide("Selector", "string", "Label selector for pods."),
    ];

    fn set_defaults(&mut self) {
        let spec = &mut self.spec;
        template::set_defaults(&mut spec.template);
        spec.replicas.get_or_insert(1);
        spec.revision_history_limit.get_or_insert(10);
        spec.progress_deadline_seconds.get_or_insert(600);
        defaults::drop_false(&mut spec.paused);
        let strategy = spec.strategy.get_or_insert_default();
        defaults::text(&mut strategy.type_, "RollingUpdate");
        if strategy.type_.as_deref() == Some("RollingUpdate") {
            let rolling = strategy.rolling_update.get_or_insert_default();
            let quarter = || IntOrString::String("25%".to_owned());
            rolling.max_unavailable.get_or_insert_with(quarter);
            rolling.max_surge.get_or_insert_with(quarter);
        }
        defaults::drop_zeros!(
            self.status,
            [
                observed_generation,
                replicas,
                updated_replicas,
                ready_replicas,
                available_replicas,
                unavailable_replicas
            ]
        );
    }

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        preparation::first_generation(&mut self.metadata);
        self.status = Some(DeploymentStatus::default());
    }

    fn prepare_for_update(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        // Annotations count too: a rollout is recorded in them.
        let new_state = (&self.spec, &self.metadata.annotations);
        let desired = DesiredState::compare(&new_state, &(&old.spec, &old.metadata.annotations));
        preparation::next_generation(&mut self.metadata, &old.metadata, desired);
        self.status.clone_from(&old.status);
    }

    fn validate(&self) -> Vec<FieldError> {
        spec_errors(&self.spec, &Path::new("spec"))
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        let (new, old) = (&self.spec.selector, &old.spec.selector);
        template::check_selector_update(new, old).into_iter().collect()
    }

    fn warnings(&self) -> Vec<String> {
        template::warnings(&self.spec.template, &template::field())
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let no_status = DeploymentStatus::default();
        let spec = &self.spec;
        let status = self.status.as_ref().unwrap_or(&no_status);
        let ready = status.ready_replicas.unwrap_or(0);
        let [containers, images] = containers_and_images(spec.template.spec.as_ref());
        vec![
            text(self.metadata.name.as_ref()).into(),
            format!("{ready}/{}", spec.replicas.unwrap_or(1)).into(),
            status.updated_replicas.unwrap_or(0).into(),
            status.available_replicas.unwrap_or(0).into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
            containers,
            images,
            selector::format(&spec.selector).into(),
        ]
    }
}

impl SubresourceStrategy<StatusPart> for Deployment {
    fn prepare_part(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        self.spec.clone_from(&old.spec);
        self.metadata.labels.clone_from(&old.metadata.labels);
        self.metadata.generation = old.metadata.generation;
    }

    fn validate_part(&self, _old: &Self) -> Vec<FieldError> {
        self.status.as_ref().map_or_else(Vec::new, status_errors)
    }
}

fn spec_errors(spec: &DeploymentSpec, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    errors.extend(numbers::non_negative(spec.replicas.unwrap_or(0), &field.child("replicas")));
    errors.extend(template::check(
        template::PodMaker::ReplicaSet,
        &spec.selector,
        &spec.template,
        field,
    ));
    if let Some(strategy) = &spec.strategy {
        errors.extend(strategy_errors(strategy, &field.child("strategy")));
    }
    for (name, value) in [
        ("minReadySeconds", spec.min_ready_seconds),
        ("revisionHistoryLimit", spec.revision_history_limit),
        ("progressDeadlineSeconds", spec.progress_deadline_seconds),
    ] {
        errors.extend(numbers::non_negative(value.unwrap_or(0), &field.child(name)));
    }
    if let Some(deadline) = spec.progress_deadline_seconds
        && deadline <= spec.min_ready_seconds.unwrap_or(0)
    {
        errors.push(FieldError::invalid(
            field.child("progressDeadlineSeconds"),
            deadline,
            "must be greater than minReadySeconds",
        ));
    }
    errors
}

/// Upstream, `ValidateDeploymentStatus`.
fn status_errors(status: &DeploymentStatus) -> Vec<FieldError> {
    let counts = [
        ("replicas", status.replicas.unwrap_or(0)),
        ("updatedReplicas", status.updated_replicas.unwrap_or(0)),
        ("readyReplicas", status.ready_replicas.unwrap_or(0)),
        ("availableReplicas", status.available_replicas.unwrap_or(0)),
        ("unavailableReplicas", status.unavailable_replicas.unwrap_or(0)),
        ("terminatingReplicas", status.terminating_replicas.unwrap_or(0)),
        ("collisionCount", status.collision_count.unwrap_or(0)),
    ];
    let parts = [
        PartialCount::of_all("updatedReplicas"),
        PartialCount::of_all("readyReplicas"),
        PartialCount::of_all("availableReplicas"),
        PartialCount { name: "availableReplicas", of: "readyReplicas", called: "readyReplicas" },
    ];
    let mut errors = status_counts::check(&counts, &parts);
    errors.extend(status_counts::check_generation(status.observed_generation));
    errors
}

fn strategy_errors(strategy: &DeploymentStrategy, field: &Path) -> Vec<FieldError> {
    match text(strategy.type_.as_ref()) {
        "Recreate" if strategy.rolling_update.is_some() => vec![FieldError::forbidden(
            field.child("rollingUpdate"),
            "may not be specified when strategy `type` is 'Recreate'",
        )],
        "Recreate" => Vec::new(),
        "RollingUpdate" => strategy.rolling_update.as_ref().map_or_else(Vec::new, |rolling| {
            rolling_errors(rolling, &field.child("rollingUpdate"))
        }),
        other => vec![FieldError::not_supported(field, other, &["Recreate", "RollingUpdate"])],
    }
}

fn rolling_errors(rolling: &RollingUpdateDeployment, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (unavailable, surge) = (rolling.max_unavailable.as_ref(), rolling.max_surge.as_ref());
    let unavailable_field = field.child("maxUnavailable");
    errors.extend(unavailable.and_then(|amount| amounts::check(amount, &unavailable_field)));
    errors.extend(surge.and_then(|amount| amounts::check(amount, &field.child("maxSurge"))));
    if unavailable.is_none_or(amounts::is_zero) && surge.is_none_or(amounts::is_zero) {
        let shown = unavailable.map_or_else(|| "0".to_owned(), amounts::shown);
        errors.push(FieldError::invalid(
            &unavailable_field,
            shown,
            "may not be 0 when `maxSurge` is 0",
        ));
    }
    errors.extend(unavailable.and_then(|amount| amounts::at_most_all(amount, &unavailable_field)));
    errors
}
