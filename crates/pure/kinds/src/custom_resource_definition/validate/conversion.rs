//! How a definition says that objects get from one version to another.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinitionSpec, WebhookConversion,
};
use rekindle_types::validation::field_error::{FieldError, FieldProblem};

use crate::validation::{Path, names, webhook_client};

/// The versions of ConversionReview that upstream speaks.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

pub(super) fn errors(spec: &CustomResourceDefinitionSpec, field: &Path) -> Vec<FieldError> {
    let Some(conversion) = &spec.conversion else { return Vec::new() };
    let strategy = field.child("strategy");
    let mut errors = Vec::new();
    if spec.preserve_unknown_fields == Some(true) && conversion.strategy != "None" {
        let must = "must be None if spec.preserveUnknownFields is true";
        errors.push(FieldError::invalid(&strategy, &conversion.strategy, must));
    }
    match conversion.strategy.as_str() {
        "None" => errors.extend(unused(conversion.webhook.as_ref(), field)),
        "Webhook" => errors.extend(webhook_errors(conversion.webhook.as_ref(), field)),
        "" => errors.push(FieldError::required(strategy, "")),
        other => errors.push(FieldError::not_supported(strategy, other, &["None", "Webhook"])),
    }
    errors
}

fn unused(webhook: Option<&WebhookConversion>, field: &Path) -> Vec<FieldError> {
    let Some(webhook) = webhook else { return Vec::new() };
    let must = "should not be set when strategy is not set to Webhook";
    let mut errors = Vec::new();
    if webhook.client_config.is_some() {
        errors.push(FieldError::forbidden(field.child("webhookClientConfig"), must));
    }
    if !webhook.conversion_review_versions.is_empty() {
        errors.push(FieldError::forbidden(field.child("conversionReviewVersions"), must));
    }
    errors
}

fn webhook_errors(webhook: Option<&WebhookConversion>, field: &Path) -> Vec<FieldError> {
    let client = field.child("webhookClientConfig");
    let mut errors = Vec::new();
    match webhook.and_then(|webhook| webhook.client_config.as_ref()) {
        None => {
            errors.push(FieldError::required(client, "required when strategy is set to Webhook"));
        }
        Some(config) => errors.extend(webhook_client::errors(config.into(), &client)),
    }
    let field = field.child("conversionReviewVersions");
    let versions = webhook.map_or(&[][..], |webhook| &webhook.conversion_review_versions);
    if versions.is_empty() {
        errors.push(FieldError::required(field, ""));
        return errors;
    }
    let mut known = BTreeSet::new();
    for (at, version) in versions.iter().enumerate() {
        let wrong = names::dns_1035_label(version);
        if !known.insert(version) {
            errors.push(FieldError::invalid(field.index(at), version, "duplicate version"));
        } else if !wrong.is_empty() {
            errors.push(FieldError::invalid(field.index(at), version, wrong.join(",")));
        }
    }
    if !versions.iter().any(|version| REVIEW_VERSIONS.contains(&version.as_str())) {
        errors.push(FieldError {
            field: field.into(),
            problem: FieldProblem::Invalid(serde_json::json!(versions).to_string()),
            detail: format!("must include at least one of {}", REVIEW_VERSIONS.join(", ")),
        });
    }
    errors
}
