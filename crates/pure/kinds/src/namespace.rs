//! Namespace (core/v1).

use k8s_openapi::api::core::v1::{Namespace, NamespaceStatus};
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::defaults;
use crate::registry::resource::{
    ApiKind, MetadataChecks, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell,
    TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{AGE, NAME, age, column};
use crate::validation::names::NameRule;
use crate::validation::{Path, invalid_each, names, text};

/// The label that carries the name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// The finalizer of the namespace controller.
const FINALIZER: &str = "kubernetes";

impl ApiKind for Namespace {
    const NAMES: ResourceNames = ResourceNames {
        singular: "namespace",
        short_names: &["ns"],
        categories: &[],
        scope: ResourceScope::Cluster,
    };
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Status, Subresource::Finalize];
    const STRATEGIES: Strategies<Self> = Strategies::of_status();
    const NAME_RULE: NameRule = NameRule::DnsLabel;
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfUpdate;
    const HAS_NAMESPACE_SELECTOR: bool = false;
    const COLUMNS: &'static [TableColumn] =
        &[NAME, column("Status", "string", "The status of the namespace"), AGE];
    const SELECTABLE_FIELDS: &'static [&'static str] = &["name", "status.phase"];

    fn set_defaults(&mut self) {
        let is_generated = !text(self.metadata.generate_name.as_ref()).is_empty();
        // a name that was made gets its label only after it was found right, as upstream does it
        let has_label =
            |name: &str| !name.is_empty() && (!is_generated || names::dns_label(name).is_empty());
        if let Some(name) = self.metadata.name.clone().filter(|name| has_label(name)) {
            self.metadata.labels.get_or_insert_default().insert(NAME_LABEL.to_owned(), name);
        }
        defaults::text(&mut self.status.get_or_insert_default().phase, "Active");
    }

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        self.status = Some(NamespaceStatus { phase: Some("Active".to_owned()), conditions: None });
        let finalizers = self.spec.get_or_insert_default().finalizers.get_or_insert_default();
        if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            finalizers.push(FINALIZER.to_owned());
        }
    }

    fn prepare_for_update(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        // Finalizers go through the finalize subresource only.
        self.spec.clone_from(&old.spec);
        self.status.clone_from(&old.status);
    }

    fn validate(&self) -> Vec<FieldError> {
        let field = Path::new("spec").child("finalizers");
        let finalizers = self.spec.iter().flat_map(|spec| spec.finalizers.iter().flatten());
        finalizers
            .flat_map(|finalizer| {
                invalid_each(&field, finalizer, names::qualified(finalizer)).collect::<Vec<_>>()
            })
            .collect()
    }

    fn selectable_fields(&self) -> Vec<(&'static str, String)> {
        let phase = self.status.as_ref().and_then(|status| status.phase.as_ref());
        vec![
            ("name", text(self.metadata.name.as_ref()).to_owned()),
            ("status.phase", text(phase).to_owned()),
        ]
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let phase = self.status.as_ref().and_then(|status| status.phase.as_ref());
        vec![
            text(self.metadata.name.as_ref()).into(),
            text(phase).into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

impl SubresourceStrategy<StatusPart> for Namespace {
    fn prepare_part(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        self.spec.clone_from(&old.spec);
    }
}
