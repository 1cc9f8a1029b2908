//! Questions about rights and identities: `kubectl auth can-i` (SelfSubjectAccessReview,
//! SelfSubjectRulesReview), `kubectl auth whoami` (SelfSubjectReview), and what servers ask about
//! their clients (TokenReview, SubjectAccessReview, LocalSubjectAccessReview). They are answered
//! and never stored.

mod access;
mod identity;

use http::{Method, StatusCode};
use rekindle_kinds::registry::ResourceScope;
use rekindle_types::ObjectJson;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::decode::{UnstoredBody, UnstoredKind, unstored};
use crate::outcome::{ApiAnswer, RequestOutcome};
use crate::request::accept::{self, HandlerTypes};
use crate::request::{ApiRequest, RequestOptions, RequestVerb, ResourcePath};
use crate::shared::ApiShared;
use crate::status::ApiError;

/// One kind of review, for discovery.
pub(crate) struct ReviewKind {
    pub(crate) group: &'static str,
    api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) scope: ResourceScope,
    answer: fn(&ReviewCall<'_>) -> Result<ApiAnswer, ApiError>,
}

/// A request for a review.
struct ReviewCall<'a> {
    api: &'a ApiShared,
    request: &'a ApiRequest,
    path: &'a ResourcePath,
    options: &'a RequestOptions,
    kind: UnstoredKind,
}

/// The version that all of them have.
pub(crate) const VERSION: &str = "v1";

/// The reviews that are answered.
pub(crate) const REVIEWS: [ReviewKind; 6] = [
    ReviewKind {
        group: "authentication.k8s.io",
        api_version: "authentication.k8s.io/v1",
        kind: "SelfSubjectReview",
        plural: "selfsubjectreviews",
        singular: "selfsubjectreview",
        scope: ResourceScope::Cluster,
        answer: identity::who_am_i,
    },
    ReviewKind {
        group: "authentication.k8s.io",
        api_version: "authentication.k8s.io/v1",
        kind: "TokenReview",
        plural: "tokenreviews",
        singular: "tokenreview",
        scope: ResourceScope::Cluster,
        answer: identity::whose_token,
    },
    ReviewKind {
        group: "authorization.k8s.io",
        api_version: "authorization.k8s.io/v1",
        kind: "LocalSubjectAccessReview",
        plural: "localsubjectaccessreviews",
        singular: "localsubjectaccessreview",
        scope: ResourceScope::Namespaced,
        answer: access::may_they_here,
    },
    ReviewKind {
        group: "authorization.k8s.io",
        api_version: "authorization.k8s.io/v1",
        kind: "SelfSubjectAccessReview",
        plural: "selfsubjectaccessreviews",
        singular: "selfsubjectaccessreview",
        scope: ResourceScope::Cluster,
        answer: access::may_i,
    },
    ReviewKind {
        group: "authorization.k8s.io",
        api_version: "authorization.k8s.io/v1",
        kind: "SelfSubjectRulesReview",
        plural: "selfsubjectrulesreviews",
        singular: "selfsubjectrulesreview",
        scope: ResourceScope::Cluster,
        answer: access::what_may_i,
    },
    ReviewKind {
        group: "authorization.k8s.io",
        api_version: "authorization.k8s.io/v1",
        kind: "SubjectAccessReview",
        plural: "subjectaccessreviews",
        singular: "subjectaccessreview",
        scope: ResourceScope::Cluster,
        answer: access::may_they,
    },
];

/// Answers a review; none when the path names something else.
pub(crate) fn serve(
    api: &ApiShared,
    request: &ApiRequest,
    (path, options): (&ResourcePath, &RequestOptions),
) -> Result<Option<RequestOutcome>, ApiError> {
    let known = REVIEWS.iter().find(|review| {
        review.group == path.group && review.plural == path.resource && path.version == VERSION
    });
    let Some(review) = known else { return Ok(None) };
    let place_fits = path.namespace.is_empty() == (review.scope == ResourceScope::Cluster);
    if request.method != Method::POST || !path.name.is_empty() || !place_fits {
        return Err(ApiError::method_not_allowed());
    }
    accept::check_handler(&request.accept, HandlerTypes::Objects)?;
    let encoding = accept::negotiate_encoding(&request.accept)?;
    options.check(RequestVerb::Create)?;
    let kind = UnstoredKind { api_version: review.api_version, kind: review.kind };
    let answer = (review.answer)(&ReviewCall { api, request, path, options, kind })?;
    Ok(Some(RequestOutcome::Answer(answer).encoded(encoding)))
}

/// Leaves out what a question does not say, as upstream: it has pointers to objects only.
fn drop_empty(fields: &mut Map<String, Value>) {
    fields.retain(|name, value| match value {
        Value::String(text) => !text.is_empty(),
        Value::Array(values) => !values.is_empty(),
        Value::Object(fields) if name == "extra" => !fields.is_empty(),
        Value::Object(fields) => {
            drop_empty(fields);
            true
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    });
}

impl ReviewCall<'_> {
    /// Reads the review, and answers with what `fill` makes of it.
    fn answer<T: ObjectJson + Serialize>(
        &self,
        fill: impl FnOnce(&mut T) -> Result<(), ApiError>,
    ) -> Result<ApiAnswer, ApiError> {
        let validation = self.options.field_validation;
        let UnstoredBody { object, warnings } = unstored(self.request, validation, self.kind)?;
        let mut review: T = object;
        match fill(&mut review) {
            Ok(()) => {
                let mut shown = serde_json::to_value(&review).map_err(ApiError::internal)?;
                if let Some(Value::Object(spec)) = shown.get_mut("spec") {
                    drop_empty(spec);
                }
                let json = shown.to_string().into_bytes();
                Ok(ApiAnswer::json(StatusCode::CREATED, json).with_warnings(warnings))
            }
            Err(error) => Err(error.with_warnings(warnings)),
        }
    }
}
