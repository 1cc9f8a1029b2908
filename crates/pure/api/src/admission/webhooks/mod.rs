//! Admission webhooks: servers that written objects are sent to, which change them and then check
//! them.
//!
//! A configuration counts from the moment at which its write is answered. [`configurations`] keeps
//! them as they are used, [`review`] is what a webhook is asked and what it says, and
//! `admission_session` carries both to the front and back.
//!
//! Source: the API reference of AdmissionReview (admission.k8s.io/v1), and upstream's
//! `apiserver/pkg/admission/plugin/webhook`.

mod configurations;
mod review;

use std::sync::Arc;

use bytes::Bytes;
use rekindle_kinds::admission_policy::FailurePolicy;
use rekindle_kinds::registry::AnyObject;
use rekindle_structural_schema::{PolicyEvaluation, PolicyVariables, PolicyWork};

pub(crate) use configurations::{StoredWebhook, WebhookMemory};
pub(crate) use review::{ReviewAnswer, WebhookReview};

use super::policies::run::{self, PolicyFailure};
use super::request_bodies::RequestBody;
use super::reviewed_request::ReviewedRequest;
use super::{ObjectWrite, WriteReview, mutations};
use crate::admission_session::{WebhookQuestion, waits};
use crate::call::ApiCall;
use crate::patch;
use crate::status::ApiError;

/// The longest answer: a patch of the largest object (3 MiB), in base64.
const ANSWER_BYTES_MAX: usize = 5 << 20;

/// What a webhook says to a request that it is for.
enum WebhookSaid {
    /// It failed, and does not count then.
    Nothing,
    /// It has not answered yet.
    Waits,
    /// This.
    Answer(Arc<Result<ReviewAnswer, String>>),
}

/// Checks what is written. Gives the warnings.
pub(super) fn check(write: &ObjectWrite<'_>) -> Result<Vec<String>, ApiError> {
    match ReviewedRequest::new(write.call, Some(write.new), write.old) {
        Some(request) => check_all(&request, &write.call.api.webhooks.validating(write.call.api)?),
        None => Ok(Vec::new()),
    }
}

/// Checks what is deleted. Gives the warnings.
pub(super) fn check_deletion(
    call: &ApiCall<'_>,
    object: &dyn AnyObject,
) -> Result<Vec<String>, ApiError> {
    match ReviewedRequest::new(call, None, Some(object)) {
        Some(request) => check_unchanged(&request),
        None => Ok(Vec::new()),
    }
}

/// Checks what is asked for where no object is written. Gives the warnings.
pub(super) fn check_request(
    call: &ApiCall<'_>,
    body: &RequestBody,
) -> Result<Vec<String>, ApiError> {
    check_unchanged(&ReviewedRequest::of_body(call, body))
}

/// Checks a request of which nothing can be changed.
fn check_unchanged(request: &ReviewedRequest<'_>) -> Result<Vec<String>, ApiError> {
    let api = request.call.api;
    let mut warnings = Vec::new();
    let checked = let_change_nothing(request, &mut warnings)
        .and_then(|()| check_all(request, &api.webhooks.validating(api)?));
    match checked {
        Ok(more) => {
            warnings.extend(more);
            Ok(warnings)
        }
        Err(error) => Err(error.with_warnings(warnings)),
    }
}

/// Asks the webhooks that change objects about what they cannot change: an object that goes, or
/// what is asked for.
fn let_change_nothing(
    request: &ReviewedRequest<'_>,
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    let call = request.call;
    for webhook in call.api.webhooks.mutating(call.api)? {
        if !is_for_request(request, &webhook)? {
            continue;
        }
        let patch = match ask(request, &webhook)? {
            WebhookSaid::Nothing => continue,
            WebhookSaid::Waits => return Err(waits()),
            WebhookSaid::Answer(answer) => allowed(call, &webhook, &answer, warnings)?,
        };
        if patch.is_some() {
            return Err(ApiError::internal(format!(
                "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
                webhook.name
            )));
        }
    }
    Ok(())
}

/// Asks all webhooks at once that check a request, and counts what they say in their order.
fn check_all(
    request: &ReviewedRequest<'_>,
    webhooks: &[Arc<StoredWebhook>],
) -> Result<Vec<String>, ApiError> {
    // a condition that fails refuses the request before any webhook hears of it
    let mut wanted = Vec::new();
    for webhook in webhooks {
        if is_for_request(request, webhook)? {
            wanted.push(webhook);
        }
    }
    let (mut answers, mut is_waiting) = (Vec::new(), false);
    for webhook in wanted {
        match ask(request, webhook)? {
            WebhookSaid::Nothing => {}
            WebhookSaid::Waits => is_waiting = true,
            WebhookSaid::Answer(answer) => answers.push((webhook, answer)),
        }
    }
    if is_waiting {
        return Err(waits());
    }
    let mut warnings = Vec::new();
    for (webhook, answer) in answers {
        if let Err(error) = allowed(request.call, webhook, &answer, &mut warnings) {
            return Err(error.with_warnings(warnings));
        }
    }
    Ok(warnings)
}

/// Lets a webhook change an object. None when it is not for the request, else whether it did.
pub(super) fn change(
    review: &WriteReview<'_>,
    object: &mut dyn AnyObject,
    webhook: &Arc<StoredWebhook>,
    warnings: &mut Vec<String>,
) -> Result<Option<bool>, ApiError> {
    let (call, old) = (review.call(), review.old());
    let patch = {
        let Some(request) = ReviewedRequest::new(call, Some(&*object), old) else {
            return Ok(None);
        };
        if !is_for_request(&request, webhook)? {
            return Ok(None);
        }
        match ask(&request, webhook)? {
            WebhookSaid::Nothing => return Ok(Some(false)),
            WebhookSaid::Waits => return Err(waits()),
            WebhookSaid::Answer(answer) => allowed(call, webhook, &answer, warnings)?,
        }
    };
    let Some(patch) = patch else { return Ok(Some(false)) };
    let patched = patch::apply_operations(&patch, object.to_value()).map_err(ApiError::internal)?;
    mutations::replace(call.entry, object, patched).map(Some).map_err(ApiError::internal)
}

/// Asks a webhook about a request.
fn ask(
    request: &ReviewedRequest<'_>,
    webhook: &Arc<StoredWebhook>,
) -> Result<WebhookSaid, ApiError> {
    let call = request.call;
    if call.session.is_full() {
        return Ok(WebhookSaid::Waits);
    }
    let content = review::content(request)?;
    let asked = call.session.answer_to(webhook, &content, || {
        let review = WebhookReview::new(webhook, call.api.new_uid());
        let question = question(call, webhook, review.body(&content));
        (review, question)
    });
    Ok(match (asked, webhook.on_failure) {
        (None, _) => WebhookSaid::Waits,
        (Some(answer), FailurePolicy::Ignore) if answer.is_err() => WebhookSaid::Nothing,
        (Some(answer), FailurePolicy::Ignore | FailurePolicy::Fail) => WebhookSaid::Answer(answer),
    })
}

/// Whether the rules, selectors and conditions of a webhook are for the request.
fn is_for_request(
    request: &ReviewedRequest<'_>,
    webhook: &StoredWebhook,
) -> Result<bool, ApiError> {
    if !request.is_matched(&webhook.matched)? {
        return Ok(false);
    }
    if webhook.conditions.is_empty() && webhook.unusable.is_none() {
        return Ok(true);
    }
    let (variables, work) = (PolicyVariables::new(), PolicyWork::default());
    let authorizer = run::authorizer(request);
    let input = run::input(request, None, &authorizer)?;
    let mut evaluation = PolicyEvaluation::new(input, &variables, &work);
    let met = match &webhook.unusable {
        Some(why) => Err(PolicyFailure::Configuration(why.clone())),
        None => run::are_met(&webhook.conditions, &mut evaluation),
    };
    match met {
        Ok(met) => Ok(met),
        Err(failure) => match webhook.on_failure {
            FailurePolicy::Ignore => Ok(false),
            FailurePolicy::Fail => {
                let why = failure.into_text();
                Err(ApiError::forbidden(request.call.entry, request.name(), &why))
            }
        },
    }
}

/// Refuses what a webhook does not allow. Gives the patch that it wants, and adds its warnings, and
/// its annotations of the audit log.
fn allowed(
    call: &ApiCall<'_>,
    webhook: &StoredWebhook,
    answer: &Result<ReviewAnswer, String>,
    warnings: &mut Vec<String>,
) -> Result<Option<serde_json::Value>, ApiError> {
    let answer = match answer {
        Ok(answer) => answer,
        Err(why) => {
            let why = format!("failed calling webhook {:?}: {why}", webhook.name);
            return Err(ApiError::internal(why));
        }
    };
    warnings.extend(answer.warnings.iter().cloned());
    if let Some(notes) = &call.request.notes {
        for (key, value) in &answer.annotations {
            notes.annotate(format!("{}/{key}", webhook.name), value.as_str());
        }
    }
    match &answer.refusal {
        Some(refusal) => Err(refusal.to_error(&webhook.name)),
        None => Ok(answer.patch.clone()),
    }
}

/// What the front sends to the webhook.
fn question(call: &ApiCall<'_>, webhook: &StoredWebhook, body: Bytes) -> WebhookQuestion {
    let timeout_seconds = webhook.timeout_seconds;
    WebhookQuestion {
        webhook: webhook.name.clone(),
        target: webhook.location.target(call.api, timeout_seconds, call.request.now),
        ca_bundle: webhook.ca_bundle.clone(),
        timeout_seconds,
        body,
        answer_bytes_max: ANSWER_BYTES_MAX,
    }
}

/// Whether a webhook is for a request, by its rules and selectors.
pub(super) fn are_for_request(request: &ReviewedRequest<'_>) -> Result<bool, ApiError> {
    let (api, known) = (request.call.api, &request.call.api.webhooks);
    for webhook in known.mutating(api)?.into_iter().chain(known.validating(api)?) {
        if request.is_matched(&webhook.matched)? {
            return Ok(true);
        }
    }
    Ok(false)
}
