//! ReplicationController (v1): what was there before ReplicaSets.

use k8s_openapi::api::apps::v1::ReplicaSetStatus;
use k8s_openapi::api::core::v1::{
    ReplicationController, ReplicationControllerSpec, ReplicationControllerStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::template::{self, PodMaker};
use super::{defaults, preparation, replica_set};
use crate::registry::resource::{
    ApiKind, MetadataChecks, POD_NAMES, RequestContext, ResourceNames, ResourceScope, Subresource,
    TableCell, TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{AGE, NAME, age, column, containers_and_images, wide};
use crate::validation::{Path, numbers, selector, text};

impl ApiKind for ReplicationController {
    const NAMES: ResourceNames = ResourceNames {
        singular: "replicationcontroller",
        short_names: &["rc"],
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
    const SELECTABLE_FIELDS: &'static [&'static str] = &["status.replicas"];

    fn set_defaults(&mut self) {
        let spec = self.spec.get_or_insert_default();
        spec.replicas.get_or_insert(1);
        defaults::drop_zeros!(
            self.status,
            [observed_generation, fully_labeled_replicas, ready_replicas, available_replicas]
        );
        let Some(pods) = &mut spec.template else { return };
        template::set_defaults(pods);
        let labels = pods.metadata.as_ref().and_then(|metadata| metadata.labels.clone());
        for slot in [&mut spec.selector, &mut self.metadata.labels] {
            if slot.as_ref().is_none_or(|labels| labels.is_empty()) {
                slot.clone_from(&labels);
            }
        }
    }

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        preparation::first_generation(&mut self.metadata);
        self.status = Some(ReplicationControllerStatus::default());
    }

    preparation::updates_of_spec!();

    fn validate(&self) -> Vec<FieldError> {
        let field = Path::new("spec");
        let none = ReplicationControllerSpec::default();
        let spec = self.spec.as_ref().unwrap_or(&none);
        let mut errors = Vec::new();
        for (name, value) in
            [("minReadySeconds", spec.min_ready_seconds), ("replicas", spec.replicas)]
        {
            errors.extend(numbers::non_negative(value.unwrap_or(0), &field.child(name)));
        }
        match &spec.template {
            None => {
                if spec.selector.as_ref().is_none_or(|selector| selector.is_empty()) {
                    errors.push(FieldError::required(field.child("selector"), ""));
                }
                errors.push(FieldError::required(field.child("template"), ""));
            }
            Some(pods) => errors.extend(template::check(
                PodMaker::ReplicationController,
                &label_selector(spec),
                pods,
                &field,
            )),
        }
        errors
    }

    fn warnings(&self) -> Vec<String> {
        let template = self.spec.as_ref().and_then(|spec| spec.template.as_ref());
        template.map_or_else(Vec::new, |template| template::warnings(template, &template::field()))
    }

    fn selectable_fields(&self) -> Vec<(&'static str, String)> {
        let replicas = self.status.as_ref().map_or(0, |status| status.replicas);
        vec![("status.replicas", replicas.to_string())]
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let (no_spec, no_status) = Default::default();
        let spec = self.spec.as_ref().unwrap_or(&no_spec);
        let status: &ReplicationControllerStatus = self.status.as_ref().unwrap_or(&no_status);
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
            selector::format(&label_selector(spec)).into(),
        ]
    }
}

impl SubresourceStrategy<StatusPart> for ReplicationController {
    /// Upstream takes the labels of the pods again when it reads a controller without labels.
    fn prepare_part(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        self.spec.clone_from(&old.spec);
        self.metadata.generation = old.metadata.generation;
        ApiKind::set_defaults(self);
    }

    fn validate_part(&self, _old: &Self) -> Vec<FieldError> {
        let Some(status) = &self.status else { return Vec::new() };
        replica_set::status_errors(&ReplicaSetStatus {
            replicas: status.replicas,
            fully_labeled_replicas: status.fully_labeled_replicas,
            ready_replicas: status.ready_replicas,
            available_replicas: status.available_replicas,
            observed_generation: status.observed_generation,
            terminating_replicas: None,
            conditions: None,
        })
    }
}

/// The selector as those of the other kinds are.
fn label_selector(spec: &ReplicationControllerSpec) -> LabelSelector {
    LabelSelector { match_labels: spec.selector.clone(), match_expressions: None }
}
