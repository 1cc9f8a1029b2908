//! PodTemplate (core/v1): a template of pods, kept for those who make pods from it.

use k8s_openapi::api::core::v1::PodTemplate;
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::preparation::{self, DesiredState};
use super::template;
use crate::registry::resource::{
    ApiKind, MetadataChecks, RequestContext, ResourceNames, ResourceScope, TableCell, TableColumn,
};
use crate::table::{NAME, column, containers_and_images};
use crate::validation::{Path, labels, text};

impl ApiKind for PodTemplate {
    const NAMES: ResourceNames = ResourceNames {
        singular: "podtemplate",
        short_names: &[],
        categories: &[],
        scope: ResourceScope::Namespaced,
    };
    const CREATES_ON_UPDATE: bool = true;
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfUpdate;
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Containers", "string", "Names of each container in the template."),
        column("Images", "string", "Images referenced by each container in the template."),
        column("Pod Labels", "string", "The labels for the pod template."),
    ];

    fn set_defaults(&mut self) {
        let template = self.template.get_or_insert_default();
        template.metadata.get_or_insert_default();
        template::set_defaults(template);
    }

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        preparation::first_generation(&mut self.metadata);
    }

    fn prepare_for_update(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        let desired = DesiredState::compare(&self.template, &old.template);
        preparation::next_generation(&mut self.metadata, &old.metadata, desired);
    }

    fn validate(&self) -> Vec<FieldError> {
        let field = Path::new("template");
        let Some(pods) = &self.template else { return vec![FieldError::required(field, "")] };
        template::check_pods(pods, &field)
    }

    fn warnings(&self) -> Vec<String> {
        let pods = self.template.as_ref();
        pods.map_or_else(Vec::new, |pods| template::warnings(pods, &Path::new("template")))
    }

    fn row(&self, _now: Tick) -> Vec<TableCell> {
        let pods = self.template.as_ref();
        let [containers, images] = containers_and_images(pods.and_then(|pods| pods.spec.as_ref()));
        let metadata = pods.and_then(|pods| pods.metadata.as_ref());
        vec![
            text(self.metadata.name.as_ref()).into(),
            containers,
            images,
            labels::format(metadata.and_then(|metadata| metadata.labels.as_ref())).into(),
        ]
    }
}
