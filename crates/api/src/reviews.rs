//! Questions about oneself: `kubectl auth can-i` (SelfSubjectAccessReview, SelfSubjectRulesReview), `kubectl auth whoami`
//! (SelfSubjectReview). They are answered and never stored.

use http::{Method, StatusCode};
use k8s_openapi::api::authentication::v1::{SelfSubjectReview, SelfSubjectReviewStatus, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceRule, ResourceRule, SelfSubjectAccessReview, SelfSubjectRulesReview,
    SubjectAccessReviewStatus, SubjectRulesReviewStatus,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::auth::{Attributes, Decision, Identity};
use crate::decode;
use crate::outcome::Answer;
use crate::request::{Request, ResourcePath};
use crate::shared::Shared;
use crate::status::ApiError;

/// One kind of review, for discovery.
pub(crate) struct Review {
    pub(crate) group: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
}

/// The version that all of them have.
pub(crate) const VERSION: &str = "v1";

/// The reviews that are answered.
pub(crate) const REVIEWS: [Review; 3] = [
    Review {
        group: "authentication.k8s.io",
        kind: "SelfSubjectReview",
        plural: "selfsubjectreviews",
    },
    Review {
        group: "authorization.k8s.io",
        kind: "SelfSubjectAccessReview",
        plural: "selfsubjectaccessreviews",
    },
    Review {
        group: "authorization.k8s.io",
        kind: "SelfSubjectRulesReview",
        plural: "selfsubjectrulesreviews",
    },
];

/// Answers a review; none when the path names something else.
pub(crate) fn serve(
    api: &Shared,
    request: &Request,
    path: &ResourcePath,
) -> Result<Option<Answer>, ApiError> {
    let known = REVIEWS.iter().find(|review| {
        review.group == path.group && review.plural == path.resource && path.version == VERSION
    });
    let Some(review) = known else { return Ok(None) };
    if request.method != Method::POST || !path.name.is_empty() || !path.namespace.is_empty() {
        return Err(ApiError::method_not_allowed());
    }
    let answer = match review.kind {
        "SelfSubjectReview" => who_am_i(request, read(request)?),
        "SelfSubjectAccessReview" => can_i(api, request, read(request)?),
        _ => what_can_i(api, request, read(request)?),
    }?;
    Ok(Some(answer))
}

fn read<T: DeserializeOwned>(request: &Request) -> Result<T, ApiError> {
    let body = decode::read(decode::body_format(&request.content_type)?, &request.body)?;
    serde_json::from_value(body.value)
        .map_err(|error| ApiError::bad_request(format!("the review cannot be read: {error}")))
}

fn created(review: &impl Serialize) -> Result<Answer, ApiError> {
    let json = serde_json::to_vec(review).map_err(ApiError::internal)?;
    Ok(Answer::json(StatusCode::CREATED, json))
}

fn who_am_i(request: &Request, mut review: SelfSubjectReview) -> Result<Answer, ApiError> {
    let groups = match &request.identity {
        Identity::Anonymous => vec!["system:unauthenticated".to_owned()],
        Identity::User(user) => user.groups.clone(),
    };
    let user_info = UserInfo {
        username: Some(request.identity.name().to_owned()),
        groups: Some(groups),
        ..UserInfo::default()
    };
    review.status = Some(SelfSubjectReviewStatus { user_info: Some(user_info) });
    created(&review)
}

fn can_i(
    api: &Shared,
    request: &Request,
    mut review: SelfSubjectAccessReview,
) -> Result<Answer, ApiError> {
    let spec = &review.spec;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let decision = match (&spec.resource_attributes, &spec.non_resource_attributes) {
        (Some(resource), None) => api.authorizer.decide(
            &request.identity,
            &Attributes::Resource {
                verb: &text(&resource.verb),
                group: &text(&resource.group),
                resource: &text(&resource.resource),
                subresource: &text(&resource.subresource),
                namespace: &text(&resource.namespace),
                name: &text(&resource.name),
            },
        ),
        (None, Some(path)) => api.authorizer.decide(
            &request.identity,
            &Attributes::Path { verb: &text(&path.verb), path: &text(&path.path) },
        ),
        (Some(_), Some(_)) | (None, None) => {
            return Err(ApiError::bad_request(
                "spec: Invalid value: exactly one of nonResourceAttributes or resourceAttributes must be specified",
            ));
        }
    };
    review.status = Some(SubjectAccessReviewStatus {
        allowed: decision == Decision::Allow,
        ..SubjectAccessReviewStatus::default()
    });
    created(&review)
}

fn what_can_i(
    api: &Shared,
    request: &Request,
    mut review: SelfSubjectRulesReview,
) -> Result<Answer, ApiError> {
    let everything = Attributes::Resource {
        verb: "*",
        group: "*",
        resource: "*",
        subresource: "",
        namespace: "",
        name: "",
    };
    let all = || Some(vec!["*".to_owned()]);
    let status = match api.authorizer.decide(&request.identity, &everything) {
        Decision::Allow => SubjectRulesReviewStatus {
            resource_rules: vec![ResourceRule {
                verbs: vec!["*".to_owned()],
                api_groups: all(),
                resources: all(),
                ..ResourceRule::default()
            }],
            non_resource_rules: vec![NonResourceRule {
                verbs: vec!["*".to_owned()],
                non_resource_urls: all(),
            }],
            incomplete: false,
            evaluation_error: None,
        },
        Decision::Deny => SubjectRulesReviewStatus::default(),
    };
    review.status = Some(status);
    created(&review)
}
