//! What a webhook is asked, and what it says: an AdmissionReview (admission.k8s.io).

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use rekindle_types::null_as_default;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::configurations::{StoredWebhook, WebhookRole};
use crate::admission::reviewed_request::ReviewedRequest;
use crate::status::ApiError;

const GROUP: &str = "admission.k8s.io";
const KIND: &str = "AdmissionReview";
const V1: &str = "v1";
const JSON_PATCH: &str = "JSONPatch";

/// One question to a webhook.
pub(crate) struct WebhookReview {
    uid: String,
    version: &'static str,
    role: WebhookRole,
}

/// What a webhook says.
#[derive(Debug)]
pub(crate) struct ReviewAnswer {
    /// Why it does not allow the request.
    pub(super) refusal: Option<ReviewRefusal>,
    /// What it wants to change, as a JSON patch with steps.
    pub(super) patch: Option<Value>,
    pub(super) warnings: Vec<String>,
    /// For the audit log, without the webhook's name in their keys.
    pub(super) annotations: BTreeMap<String, String>,
}

/// Why what a webhook has answered cannot be used, in upstream's words.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnusableAnswer {
    /// It is no answer to the question.
    #[error("received invalid webhook response: {0}")]
    Invalid(String),
    /// What it wants to change cannot be read.
    #[error("received undecodable patch in webhook response: {0}")]
    Patch(String),
    /// It wants to change the object in another way than by a JSON patch.
    #[error("unsupported patch type {0:?}")]
    PatchType(String),
}

/// Why a webhook does not allow a request.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ReviewRefusal {
    code: Option<i64>,
    #[serde(deserialize_with = "null_as_default")]
    reason: String,
    #[serde(deserialize_with = "null_as_default")]
    message: String,
    details: Option<Value>,
}

/// The request of a review without its UID: the same question has the same content.
pub(super) fn content(request: &ReviewedRequest<'_>) -> Result<Vec<u8>, ApiError> {
    let [object, old_object] = request.shown_objects()?;
    let content = ReviewContent { request: request.admission_request(), object, old_object };
    serde_json::to_vec(&content).map_err(ApiError::internal)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReviewContent {
    #[serde(flatten)]
    request: Map<String, Value>,
    /// In the version of the request.
    object: Box<RawValue>,
    old_object: Box<RawValue>,
}

impl WebhookReview {
    pub(super) fn new(webhook: &StoredWebhook, uid: String) -> Self {
        Self { uid, version: webhook.review_version, role: webhook.role }
    }

    /// The whole review of this content, as JSON.
    pub(super) fn body(&self, content: &[u8]) -> Bytes {
        let head = json!({"kind": KIND, "apiVersion": self.api_version()}).to_string();
        // both are objects with fields: the one goes on where the other ends
        let mut body = head.trim_end_matches('}').as_bytes().to_vec();
        body.extend_from_slice(format!(",\"request\":{{\"uid\":{},", json!(self.uid)).as_bytes());
        body.extend_from_slice(content.strip_prefix(b"{").unwrap_or(content));
        body.push(b'}');
        body.into()
    }

    fn api_version(&self) -> String {
        format!("{GROUP}/{}", self.version)
    }

    /// Reads what the webhook answered. A refusal counts whatever else the answer says.
    ///
    /// # Errors
    /// Why the answer cannot be used.
    pub(crate) fn read_answer(&self, body: &[u8]) -> Result<ReviewAnswer, UnusableAnswer> {
        let response = self.response(body).map_err(UnusableAnswer::Invalid)?;
        let patch = match response.allowed {
            true => response.json_patch()?,
            false => None,
        };
        let refusal = (!response.allowed).then(|| response.status.unwrap_or_default());
        let annotations = response.audit_annotations.unwrap_or_default();
        Ok(ReviewAnswer { refusal, patch, warnings: response.warnings, annotations })
    }

    /// The response, if it is one to this question. What checks changes nothing.
    fn response(&self, body: &[u8]) -> Result<ReviewResponse, String> {
        let answered: AnsweredReview =
            serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let mut response = answered.response.ok_or("webhook response was absent")?;
        let is_strict = self.version == V1;
        if is_strict {
            if response.uid != self.uid {
                let (wanted, found) = (&self.uid, &response.uid);
                return Err(format!("expected response.uid={wanted:?}, got {found:?}"));
            }
            let (version, kind) = (&answered.api_version, &answered.kind);
            if *version != self.api_version() || kind != KIND {
                let wanted = self.api_version();
                return Err(format!(
                    "expected webhook response of {wanted}, Kind={KIND}, got {version}, Kind={kind}"
                ));
            }
        }
        response.patch.take_if(|patch| patch.is_empty());
        match (self.role, &response.patch, &response.patch_type) {
            (WebhookRole::Mutating { .. }, Some(_), None) if is_strict => {
                Err("webhook returned response.patch but not response.patchType".to_owned())
            }
            (WebhookRole::Mutating { .. }, None, Some(_)) if is_strict => {
                Err("webhook returned response.patchType but not response.patch".to_owned())
            }
            (WebhookRole::Mutating { .. }, _, Some(empty)) if empty.is_empty() => {
                Err("webhook returned invalid response.patchType of \"\"".to_owned())
            }
            (WebhookRole::Mutating { .. }, _, _) => Ok(response),
            (WebhookRole::Validating, Some(_), _) if is_strict => {
                Err("validating webhook may not return response.patch".to_owned())
            }
            (WebhookRole::Validating, _, Some(_)) if is_strict => {
                Err("validating webhook may not return response.patchType".to_owned())
            }
            (WebhookRole::Validating, _, _) => Ok(ReviewResponse { patch: None, ..response }),
        }
    }
}

/// An AdmissionReview that was answered.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AnsweredReview {
    #[serde(deserialize_with = "null_as_default")]
    api_version: String,
    #[serde(deserialize_with = "null_as_default")]
    kind: String,
    response: Option<ReviewResponse>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ReviewResponse {
    #[serde(deserialize_with = "null_as_default")]
    uid: String,
    #[serde(deserialize_with = "null_as_default")]
    allowed: bool,
    status: Option<ReviewRefusal>,
    /// In base64.
    patch: Option<String>,
    patch_type: Option<String>,
    #[serde(deserialize_with = "null_as_default")]
    warnings: Vec<String>,
    audit_annotations: Option<BTreeMap<String, String>>,
}

impl ReviewResponse {
    /// The patch, unless it has no steps. The first version of reviews knew no type but JSON Patch.
    fn json_patch(&self) -> Result<Option<Value>, UnusableAnswer> {
        let undecodable = |why: &dyn ToString| UnusableAnswer::Patch(why.to_string());
        let Some(patch) = &self.patch else { return Ok(None) };
        let bytes = STANDARD.decode(patch).map_err(|error| undecodable(&error))?;
        let steps: Option<Vec<Map<String, Value>>> =
            serde_json::from_slice(&bytes).map_err(|error| undecodable(&error))?;
        let Some(steps) = steps.filter(|steps| !steps.is_empty()) else { return Ok(None) };
        match self.patch_type.as_deref() {
            None | Some(JSON_PATCH) => Ok(Some(steps.into_iter().map(Value::Object).collect())),
            Some(other) => Err(UnusableAnswer::PatchType(other.to_owned())),
        }
    }
}

impl ReviewRefusal {
    pub(super) fn to_error(&self, webhook: &str) -> ApiError {
        let denied = format!("admission webhook {webhook:?} denied the request");
        let message = match (&*self.message, &*self.reason) {
            ("", "") => format!("{denied} without explanation"),
            ("", why) | (why, _) => format!("{denied}: {why}"),
        };
        // a refusal is an error, whatever code the webhook gives
        let code = self.code.and_then(|code| u16::try_from(code).ok());
        let code = code.filter(|code| (400..600).contains(code)).unwrap_or(400);
        let details = self.details.clone();
        let details = details.and_then(|details| serde_json::from_value(details).ok());
        ApiError::refused_elsewhere(code, &self.reason, message, details)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn review(role: WebhookRole, version: &'static str) -> WebhookReview {
        WebhookReview { uid: "u-1".to_owned(), version, role }
    }

    const MUTATING: WebhookRole = WebhookRole::Mutating { is_run_again: false };

    fn answered(response: &Value) -> Vec<u8> {
        let answer = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
        });
        answer.to_string().into_bytes()
    }

    #[test]
    fn the_body_is_a_review_with_the_uid() {
        let body: Value =
            serde_json::from_slice(&review(MUTATING, "v1").body(br#"{"operation":"CREATE"}"#))
                .unwrap();
        let request = json!({"uid": "u-1", "operation": "CREATE"});
        let wanted = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request,
        });
        assert_eq!(body, wanted);
    }

    #[test]
    fn what_is_no_answer_to_the_question_is_refused() {
        const INVALID: &str = "received invalid webhook response: ";
        fn both(patch: &str, patch_type: &str) -> Value {
            json!({"uid": "u-1", "allowed": true, "patch": patch, "patchType": patch_type})
        }
        let steps = STANDARD.encode(r#"[{"op":"remove","path":"/x"}]"#);
        let no_steps = STANDARD.encode("{}");
        for (role, response, prefix, wanted) in [
            (MUTATING, Value::Null, INVALID, "webhook response was absent"),
            (
                MUTATING,
                json!({"uid": "u-2", "allowed": true}),
                INVALID,
                "expected response.uid=\"u-1\", got \"u-2\"",
            ),
            (
                MUTATING,
                json!({"uid": "u-1", "allowed": true, "patch": steps}),
                INVALID,
                "webhook returned response.patch but not response.patchType",
            ),
            (
                MUTATING,
                json!({"uid": "u-1", "allowed": true, "patchType": "JSONPatch"}),
                INVALID,
                "webhook returned response.patchType but not response.patch",
            ),
            (
                MUTATING,
                both(&steps, ""),
                INVALID,
                "webhook returned invalid response.patchType of \"\"",
            ),
            (MUTATING, both(&steps, "Merge"), "", "unsupported patch type \"Merge\""),
            (
                MUTATING,
                both(&no_steps, "JSONPatch"),
                "received undecodable patch in webhook response: ",
                "invalid type: map, expected a sequence at line 1 column 0",
            ),
            (
                WebhookRole::Validating,
                json!({"uid": "u-1", "allowed": true, "patch": steps}),
                INVALID,
                "validating webhook may not return response.patch",
            ),
            (
                WebhookRole::Validating,
                json!({"uid": "u-1", "allowed": true, "patchType": "JSONPatch"}),
                INVALID,
                "validating webhook may not return response.patchType",
            ),
        ] {
            let refused = review(role, "v1").read_answer(&answered(&response));
            let wanted = format!("{prefix}{wanted}");
            assert_eq!(refused.unwrap_err().to_string(), wanted, "{response}");
        }
        let other = json!({"apiVersion": "v1", "kind": "Pod", "response": {"uid": "u-1"}});
        let refused = review(MUTATING, "v1").read_answer(other.to_string().as_bytes());
        assert_eq!(
            refused.unwrap_err().to_string(),
            "received invalid webhook response: expected webhook response of \
             admission.k8s.io/v1, Kind=AdmissionReview, got v1, Kind=Pod"
        );
        for text in ["", "<html>", "{\"response\":{\"allowed\":\"yes\"}}"] {
            assert!(review(MUTATING, "v1").read_answer(text.as_bytes()).is_err(), "{text}");
        }
    }

    /// A webhook that ignores failures may not lose its refusal to them.
    #[test]
    fn a_refusal_counts_whatever_the_patch_is() {
        for (patch, patch_type) in [("%", "JSONPatch"), ("e30=", "JSONPatch"), ("W10=", "Merge")] {
            let response = json!({
                "uid": "u-1", "allowed": false, "status": {"message": "no"},
                "patch": patch, "patchType": patch_type, "warnings": ["w"],
            });
            let answer = review(MUTATING, "v1").read_answer(&answered(&response)).unwrap();
            assert_eq!(answer.warnings, ["w"]);
            let refusal = answer.refusal.unwrap().to_error("x").to_string();
            assert_eq!(refusal, "admission webhook \"x\" denied the request: no");
        }
    }

    #[test]
    fn null_is_what_was_not_given() {
        let status = json!({"code": null, "message": null, "reason": null, "details": null});
        let response = json!({
            "uid": "u-1", "allowed": true, "status": status, "patch": null, "patchType": null,
            "warnings": null, "auditAnnotations": null,
        });
        let answer = review(MUTATING, "v1").read_answer(&answered(&response)).unwrap();
        assert!(answer.refusal.is_none() && answer.patch.is_none());
        let response = json!({"uid": "u-1", "allowed": null, "status": {"code": -1}});
        let answer = review(MUTATING, "v1").read_answer(&answered(&response)).unwrap();
        assert_eq!(answer.refusal.unwrap().to_error("w").code().as_u16(), 400);
    }

    #[test]
    fn the_older_version_of_a_review_is_read_with_less_care() {
        let patch = STANDARD.encode(r#"[{"op":"remove","path":"/x"}]"#);
        let body = json!({"response": {"allowed": true, "patch": patch}}).to_string();
        let answer = review(MUTATING, "v1beta1").read_answer(body.as_bytes()).unwrap();
        assert_eq!(answer.patch, Some(json!([{"op": "remove", "path": "/x"}])));
        let answer =
            review(WebhookRole::Validating, "v1beta1").read_answer(body.as_bytes()).unwrap();
        assert_eq!(answer.patch, None, "what checks changes nothing");
    }

    #[test]
    fn a_refusal_says_who_refuses_and_why() {
        for (status, code, message) in [
            (Value::Null, 400, "admission webhook \"w\" denied the request without explanation"),
            (
                json!({"message": "no", "code": 403, "reason": "Forbidden"}),
                403,
                "admission webhook \"w\" denied the request: no",
            ),
            (json!({"reason": "why"}), 400, "admission webhook \"w\" denied the request: why"),
            (
                json!({"message": "no", "code": 200}),
                400,
                "admission webhook \"w\" denied the request: no",
            ),
        ] {
            let response = json!({"uid": "u-1", "allowed": false, "status": status});
            let answer = review(MUTATING, "v1").read_answer(&answered(&response)).unwrap();
            let error = answer.refusal.unwrap().to_error("w");
            assert_eq!((error.code().as_u16(), error.to_string().as_str()), (code, message));
        }
    }
}
