//! ReplicaSet (apps/v1).

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::defaults;
use super::preparation;
use super::status_counts::{self, PartialCount};
use super::template;
use crate::registry::resource::{
    ApiKind, MetadataChecks, POD_NAMES, RequestContext, ResourceNames, ResourceScope, Subresource,
    TableCell, TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{AGE, NAME, age, column, containers_and_images, wide};
use crate::validation::{Path, numbers, selector, text};

impl ApiKind for ReplicaSet {
    const NAMES: ResourceNames = ResourceNames {
        singular: "replicaset",
        short_names: &["rs"],
        categories: &["all"],
        scope: ResourceScope::Namespaced,
    };
    const NAME_IS_IN: Option<&'static str> = Some(POD_NAMES);
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Scale, Subresource::Status];
    const STRATEGIES: Strategies<Self> = Strategies::of_status();
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfUpdate;
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Desired", "integer", "The number of desired pods."),
        column("Current", "integer", "The most recently observed number of pods."),
        column("Ready", "integer", "The number of pods with a Ready condition."),
        AGE,
        wide("Containers", "string", "Names of each container in the template."),
        wide("Images", "string", "Images referenced by each container in the template."),
        wide("Selector", "string", "Label selector for pods."),
    ];

    fn set_defaults(&mut self) {
        let spec = &mut self.spec;
        template::set_defaults(spec.template.get_or_insert_default());
        spec.replicas.get_or_insert(1);
        defaults::drop_zeros!(
            self.status,
            [observed_generation, fully_labeled_replicas, ready_replicas, available_replicas]
        );
    }

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        preparation::first_generation(&mut self.metadata);
        self.status = Some(ReplicaSetStatus::default());
    }

    preparation::updates_of_spec!();

    fn validate(&self) -> Vec<FieldError> {
        let field = Path::new("spec");
        let spec = &self.spec;
        let mut errors = Vec::new();
        for (name, value) in
            [("replicas", spec.replicas), ("minReadySeconds", spec.min_ready_seconds)]
        {
            errors.extend(numbers::non_negative(value.unwrap_or(0), &field.child(name)));
        }
        let none = Default::default();
        let pods = spec.template.as_ref().unwrap_or(&none);
        errors.extend(template::check(
            template::PodMaker::ReplicaSet,
            &spec.selector,
            pods,
            &field,
        ));
        errors
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        let (new, old) = (&self.spec.selector, &old.spec.selector);
        template::check_selector_update(new, old).into_iter().collect()
    }

    fn warnings(&self) -> Vec<String> {
        self.spec
            .template
            .as_ref()
            .map_or_else(Vec::new, |template| template::warnings(template, &template::field()))
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let no_status = ReplicaSetStatus::default();
        let spec = &self.spec;
        let status = self.status.as_ref().unwrap_or(&no_status);
        let pods = spec.template.as_ref().and_then(|pods| pods.spec.as_ref());
        let [containers, images] = containers_and_images(pods);
        vec![
            text(self.metadata.name.as_ref()).into(),
            spec.replicas.unwrap_or(1).into(),
            status.replicas.into(),
            status.ready_replicas.unwrap_or(0).into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
            containers,
            images,
            selector::format(&spec.selector).into(),
        ]
    }
}

impl SubresourceStrategy<StatusPart> for ReplicaSet {
    preparation::updates_of_status_and_metadata!();

    fn validate_part(&self, _old: &Self) -> Vec<FieldError> {
        self.status.as_ref().map_or_else(Vec::new, status_errors)
    }
}

/// Everything wrong with a status; upstream, `ValidateReplicaSetStatus`.
pub(super) fn status_errors(status: &ReplicaSetStatus) -> Vec<FieldError> {
    let counts = [
        ("replicas", status.replicas),
        ("fullyLabeledReplicas", status.fully_labeled_replicas.unwrap_or(0)),
        ("readyReplicas", status.ready_replicas.unwrap_or(0)),
        ("availableReplicas", status.available_replicas.unwrap_or(0)),
        ("terminatingReplicas", status.terminating_replicas.unwrap_or(0)),
    ];
    let parts = [
        PartialCount::of_all("fullyLabeledReplicas"),
        PartialCount::of_all("readyReplicas"),
        PartialCount::of_all("availableReplicas"),
        PartialCount { name: "availableReplicas", of: "readyReplicas", called: "readyReplicas" },
    ];
    let mut errors = status_counts::check(&counts, &parts);
    errors.extend(status_counts::check_generation(status.observed_generation));
    errors
}
