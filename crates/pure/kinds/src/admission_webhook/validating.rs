//! ValidatingWebhookConfiguration: servers that check what is written.

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingWebhook, ValidatingWebhookConfiguration,
};
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::{WebhookParts, parts_of, set_defaults_of};
use crate::preparation;
use crate::registry::object_meta::FinalizerRule;
use crate::registry::resource::{
    ApiKind, MetadataChecks, ResourceNames, ResourceScope, TableCell, TableColumn,
};
use crate::validation::items;

impl ApiKind for ValidatingWebhookConfiguration {
    const NAMES: ResourceNames = ResourceNames {
        singular: "validatingwebhookconfiguration",
        short_names: &[],
        categories: &["api-extensions"],
        scope: ResourceScope::Cluster,
    };
    const FINALIZERS: FinalizerRule = FinalizerRule::Any;
    const NEEDS_VERSION_ON_UPDATE: bool = true;
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfObject;
    const COLUMNS: &'static [TableColumn] = super::COLUMNS;

    fn set_defaults(&mut self) {
        for webhook in self.webhooks.iter_mut().flatten() {
            set_defaults_of!(webhook);
        }
    }

    preparation::writes_of!(webhooks);

    fn validate(&self) -> Vec<FieldError> {
        super::errors(webhooks(self))
    }

    fn warnings(&self) -> Vec<String> {
        super::warnings(webhooks(self))
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        super::row(&self.metadata, webhooks(self).count(), now)
    }
}

fn parts(webhook: &ValidatingWebhook) -> WebhookParts<'_> {
    parts_of!(webhook, None)
}

/// The webhooks of a configuration.
pub fn webhooks(
    configuration: &ValidatingWebhookConfiguration,
) -> impl Iterator<Item = WebhookParts<'_>> {
    items(configuration.webhooks.as_ref()).iter().map(parts)
}
