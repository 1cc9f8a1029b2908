//! ValidatingWebhookConfiguration: servers that check what is written.

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingWebhook, ValidatingWebhookConfiguration,
};
use rekindle_types::Tick;

use super::{WebhookParts, parts_of, set_defaults_of};
use crate::kinds::preparation;
use crate::registry::field_error::FieldError;
use crate::registry::resource::{ApiKind, ResourceNames, ResourceScope, TableCell, TableColumn};
use crate::table::{AGE, NAME, age, column};
use crate::validation::{items, text};

impl ApiKind for ValidatingWebhookConfiguration {
    const NAMES: ResourceNames = ResourceNames {
        singular: "validatingwebhookconfiguration",
        short_names: &[],
        categories: &["api-extensions"],
        scope: ResourceScope::Cluster,
    };
    const COLUMNS: &'static [TableColumn] =
        &[NAME, column("Webhooks", "integer", "How many webhooks the configuration has."), AGE];

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
        let count = items(self.webhooks.as_ref()).len();
        vec![
            text(self.metadata.name.as_ref()).into(),
            TableCell::Int(i64::try_from(count).unwrap_or(i64::MAX)),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

fn parts(webhook: &ValidatingWebhook) -> WebhookParts<'_> {
    parts_of!(webhook, None)
}

/// The webhooks of a configuration.
pub(crate) fn webhooks(
    configuration: &ValidatingWebhookConfiguration,
) -> impl Iterator<Item = WebhookParts<'_>> {
    items(configuration.webhooks.as_ref()).iter().map(parts)
}
