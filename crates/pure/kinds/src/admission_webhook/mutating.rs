//! MutatingWebhookConfiguration: servers that change what is written.

use k8s_openapi::api::admissionregistration::v1::{MutatingWebhook, MutatingWebhookConfiguration};
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::{NEVER, WebhookParts, parts_of, set_defaults_of};
use crate::registry::object_meta::FinalizerRule;
use crate::registry::resource::{
    ApiKind, MetadataChecks, ResourceNames, ResourceScope, TableCell, TableColumn,
};
use crate::validation::items;
use crate::{defaults, preparation};

impl ApiKind for MutatingWebhookConfiguration {
    const NAMES: ResourceNames = ResourceNames {
        singular: "mutatingwebhookconfiguration",
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
            defaults::absent_text(&mut webhook.reinvocation_policy, NEVER);
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

fn parts(webhook: &MutatingWebhook) -> WebhookParts<'_> {
    parts_of!(webhook, webhook.reinvocation_policy.as_ref())
}

/// The webhooks of a configuration.
pub fn webhooks(
    configuration: &MutatingWebhookConfiguration,
) -> impl Iterator<Item = WebhookParts<'_>> {
    items(configuration.webhooks.as_ref()).iter().map(parts)
}
