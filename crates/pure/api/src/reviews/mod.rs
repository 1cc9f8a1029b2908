//! Questions about rights and identities: `kubectl auth can-i` (SelfSubjectAccessReview,
//! SelfSubjectRulesReview), `kubectl auth whoami` (SelfSubjectReview), and what servers ask about
//! their clients (TokenReview, SubjectAccessReview, LocalSubjectAccessReview). They are answered
//! and never stored.

mod access;
mod identity;

use http::{Method, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::decode;
use crate::outcome::{ApiAnswer, RequestOutcome};
use crate::registry::ResourceScope;
use crate::request::accept::{self, HandlerTypes};
use crate::request::{ApiRequest, RequestOptions, RequestVerb, ResourcePath};
use crate::shared::ApiShared;
use crate::status::ApiError;

/// One kind of review, for discovery.
pub(crate) struct ReviewKind {
    pub(crate) group: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) scope: ResourceScope,
    answer: fn(&ApiShared, &ApiRequest, &ResourcePath) -> Result<ApiAnswer, ApiError>,
}

/// The version that all of them have.
pub(crate) const VERSION: &str = "v1";

/// The reviews that are answered.
pub(crate) const REVIEWS: [ReviewKind; 6] = [
    ReviewKind {
        group: "authentication.k8s.io",
        kind: "SelfSubjectReview",
        plural: "selfsubjectreviews",
        singular: "selfsubjectreview",
        scope: ResourceScope::Cluster,
        answer: identity::who_am_i,
    },
    ReviewKind {
        group: "authentication.k8s.io",
        kind: "TokenReview",
        plural: "tokenreviews",
        singular: "tokenreview",
        scope: ResourceScope::Cluster,
        answer: identity::whose_token,
    },
    ReviewKind {
        group: "authorization.k8s.io",
        kind: "LocalSubjectAccessReview",
        plural: "localsubjectaccessreviews",
        singular: "localsubjectaccessreview",
        scope: ResourceScope::Namespaced,
        answer: access::may_they_here,
    },
    ReviewKind {
        group: "authorization.k8s.io",
        kind: "SelfSubjectAccessReview",
        plural: "selfsubjectaccessreviews",
        singular: "selfsubjectaccessreview",
        scope: ResourceScope::Cluster,
        answer: access::may_i,
    },
    ReviewKind {
        group: "authorization.k8s.io",
        kind: "SelfSubjectRulesReview",
        plural: "selfsubjectrulesreviews",
        singular: "selfsubjectrulesreview",
        scope: ResourceScope::Cluster,
        answer: access::what_may_i,
    },
    ReviewKind {
        group: "authorization.k8s.io",
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
    let answer = (review.answer)(api, request, path)?;
    Ok(Some(RequestOutcome::Answer(answer).encoded(encoding)))
}

fn read<T: DeserializeOwned>(request: &ApiRequest) -> Result<T, ApiError> {
    let body = decode::read(decode::body_format(&request.content_type)?, &request.body)?;
    serde_json::from_value(body.value)
        .map_err(|error| ApiError::bad_request(format!("the review cannot be read: {error}")))
}

fn created(review: &impl Serialize) -> Result<ApiAnswer, ApiError> {
    let json = serde_json::to_vec(review).map_err(ApiError::internal)?;
    Ok(ApiAnswer::json(StatusCode::CREATED, json))
}
