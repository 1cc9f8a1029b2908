//! Webhooks as they are asked, kept by the versions of their configurations.

use std::sync::Arc;

use bytes::Bytes;
use k8s_openapi::api::admissionregistration::v1::{
    MatchResources, MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use rekindle_kinds::admission_policy::FailurePolicy;
use rekindle_kinds::admission_policy::program::{ConditionProgram, unusable};
use rekindle_kinds::admission_webhook::{REVIEW_VERSIONS, WebhookParts, mutating, validating};
use rekindle_kinds::validation::Path;

use crate::admission::compiled_objects::CompiledObjects;
use crate::shared::ApiShared;
use crate::status::ApiError;
use crate::webhook_location::WebhookLocation;

/// What is known of all webhooks.
#[derive(Default)]
pub(crate) struct WebhookMemory {
    validating: CompiledObjects<Vec<Arc<StoredWebhook>>>,
    mutating: CompiledObjects<Vec<Arc<StoredWebhook>>>,
}

/// A webhook of a stored configuration.
#[derive(Debug)]
pub(crate) struct StoredWebhook {
    pub(super) name: String,
    pub(super) on_failure: FailurePolicy,
    pub(super) matched: MatchResources,
    pub(super) conditions: Vec<ConditionProgram>,
    /// Why its conditions cannot run, if another version of the engine stored it.
    pub(super) unusable: Option<String>,
    pub(super) location: WebhookLocation,
    pub(super) ca_bundle: Bytes,
    pub(super) timeout_seconds: u32,
    /// Of the AdmissionReview.
    pub(super) review_version: &'static str,
    pub(super) role: WebhookRole,
}

/// What a webhook does with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WebhookRole {
    /// It checks the object.
    Validating,
    /// It changes the object. It may do so again when a later webhook changes the object too.
    Mutating {
        /// `reinvocationPolicy: IfNeeded`.
        is_run_again: bool,
    },
}

impl WebhookMemory {
    /// Every webhook that checks objects, by the names of the configurations.
    pub(super) fn validating(&self, api: &ApiShared) -> Result<Vec<Arc<StoredWebhook>>, ApiError> {
        let all = self.validating.all(api, |configuration: ValidatingWebhookConfiguration| {
            let webhooks = validating::webhooks(&configuration);
            Some(webhooks.filter_map(|w| StoredWebhook::new(&w, WebhookRole::Validating)).collect())
        })?;
        Ok(flat(&all))
    }

    /// Every webhook that changes objects, by the names of the configurations.
    pub(in crate::admission) fn mutating(
        &self,
        api: &ApiShared,
    ) -> Result<Vec<Arc<StoredWebhook>>, ApiError> {
        let all = self.mutating.all(api, |configuration: MutatingWebhookConfiguration| {
            let webhooks = mutating::webhooks(&configuration);
            let stored = webhooks.filter_map(|webhook| {
                let is_run_again = webhook.is_run_again();
                StoredWebhook::new(&webhook, WebhookRole::Mutating { is_run_again })
            });
            Some(stored.collect())
        })?;
        Ok(flat(&all))
    }
}

fn flat(all: &[Arc<Vec<Arc<StoredWebhook>>>]) -> Vec<Arc<StoredWebhook>> {
    all.iter().flat_map(|webhooks| webhooks.iter().cloned()).collect()
}

impl StoredWebhook {
    /// None of one without rules, which is for no request.
    fn new(webhook: &WebhookParts<'_>, role: WebhookRole) -> Option<Arc<Self>> {
        if webhook.rules.is_empty() {
            return None;
        }
        let location = WebhookLocation::new(webhook.client.into())?;
        let known = |wanted: &String| REVIEW_VERSIONS.into_iter().find(|known| known == wanted);
        let (conditions, errors) = webhook.conditions(&Path::new("matchConditions"));
        Some(Arc::new(Self {
            name: webhook.name.to_owned(),
            on_failure: webhook.on_failure(),
            matched: webhook.matched(),
            conditions,
            unusable: unusable(&errors),
            location,
            ca_bundle: webhook.client.ca_bundle.clone().map(|pem| pem.0.into()).unwrap_or_default(),
            timeout_seconds: webhook.timeout_seconds(),
            review_version: webhook.review_versions.iter().find_map(known)?,
            role,
        }))
    }

    /// Whether it is asked once more when others changed the object after it.
    pub(in crate::admission) fn is_run_again(&self) -> bool {
        matches!(self.role, WebhookRole::Mutating { is_run_again: true })
    }
}
