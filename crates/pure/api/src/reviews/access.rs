//! What somebody may do.

use k8s_openapi::api::authorization::v1::{
    LocalSubjectAccessReview, NonResourceAttributes, NonResourceRule, ResourceAttributes,
    ResourceRule, SelfSubjectAccessReview, SelfSubjectRulesReview, SelfSubjectRulesReviewSpec,
    SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
    SubjectRulesReviewStatus,
};
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use super::{created, read};
use crate::auth::{AccessAttributes, ClientIdentity, UserInfo};
use crate::authority::AccessDecision;
use crate::outcome::ApiAnswer;
use crate::registry::FieldError;
use crate::registry::field_error::FieldProblem;
use crate::request::{ApiRequest, ResourcePath};
use crate::selectors::FieldSelector;
use crate::shared::ApiShared;
use crate::status::ApiError;
use crate::validation::{Path, items, selector, text};

/// `selfsubjectaccessreviews`.
pub(super) fn may_i(
    api: &ApiShared,
    request: &ApiRequest,
    _path: &ResourcePath,
) -> Result<ApiAnswer, ApiError> {
    let mut review: SelfSubjectAccessReview = read(request)?;
    check_metadata(&review.metadata)?;
    let spec = &review.spec;
    let what = attributes(&spec.resource_attributes, &spec.non_resource_attributes)?;
    review.status = Some(match &request.identity {
        ClientIdentity::Anonymous => status(AccessDecision::Deny, &spec.resource_attributes),
        ClientIdentity::User(user) => status(api.decide(user, &what)?, &spec.resource_attributes),
    });
    created(&review)
}

/// `subjectaccessreviews`.
pub(super) fn may_they(
    api: &ApiShared,
    request: &ApiRequest,
    _path: &ResourcePath,
) -> Result<ApiAnswer, ApiError> {
    let mut review: SubjectAccessReview = read(request)?;
    check_metadata(&review.metadata)?;
    review.status = Some(decide(api, &review.spec)?);
    created(&review)
}

/// `localsubjectaccessreviews`.
pub(super) fn may_they_here(
    api: &ApiShared,
    request: &ApiRequest,
    path: &ResourcePath,
) -> Result<ApiAnswer, ApiError> {
    let mut review: LocalSubjectAccessReview = read(request)?;
    let of = text(review.metadata.namespace.as_ref());
    let asked = review.spec.resource_attributes.as_ref();
    let asked = asked.map(|asked| text(asked.namespace.as_ref()));
    if !of.is_empty() && of != path.namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if let Some(path) = &review.spec.non_resource_attributes {
        let field = "spec.nonResourceAttributes";
        return Err(invalid(field, shown_path(path), "disallowed on this kind of request"));
    }
    if let Some(asked) = asked.filter(|asked| *asked != path.namespace) {
        let field = "spec.resourceAttributes.namespace";
        return Err(invalid(field, format!("{asked:?}"), "must match metadata.namespace"));
    }
    review.metadata.namespace = Some(path.namespace.clone());
    review.status = Some(decide(api, &review.spec)?);
    created(&review)
}

/// `selfsubjectrulesreviews`.
pub(super) fn what_may_i(
    api: &ApiShared,
    request: &ApiRequest,
    _path: &ResourcePath,
) -> Result<ApiAnswer, ApiError> {
    let mut review: SelfSubjectRulesReview = read(request)?;
    let namespace = text(review.spec.namespace.as_ref());
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let rules = match &request.identity {
        ClientIdentity::Anonymous => Vec::new(),
        ClientIdentity::User(user) => api.rules_for(user, namespace)?,
    };
    review.status = Some(rules_status(&rules));
    // answered without what was asked, as upstream
    review.spec = SelfSubjectRulesReviewSpec::default();
    created(&review)
}

fn rules_status(rules: &[PolicyRule]) -> SubjectRulesReviewStatus {
    let (paths, resources): (Vec<&PolicyRule>, Vec<&PolicyRule>) =
        rules.iter().partition(|rule| !items(rule.non_resource_urls.as_ref()).is_empty());
    SubjectRulesReviewStatus {
        resource_rules: resources
            .into_iter()
            .map(|rule| ResourceRule {
                verbs: rule.verbs.clone(),
                api_groups: rule.api_groups.clone(),
                resources: rule.resources.clone(),
                resource_names: rule.resource_names.clone(),
            })
            .collect(),
        non_resource_rules: paths
            .into_iter()
            .map(|rule| NonResourceRule {
                verbs: rule.verbs.clone(),
                non_resource_urls: rule.non_resource_urls.clone(),
            })
            .collect(),
        incomplete: false,
        evaluation_error: None,
    }
}

fn decide(
    api: &ApiShared,
    spec: &SubjectAccessReviewSpec,
) -> Result<SubjectAccessReviewStatus, ApiError> {
    let what = attributes(&spec.resource_attributes, &spec.non_resource_attributes)?;
    let groups = items(spec.groups.as_ref());
    let name = text(spec.user.as_ref());
    if name.is_empty() && groups.is_empty() {
        let why = "at least one of user or group must be specified";
        return Err(invalid("spec.user", "\"\"".to_owned(), why));
    }
    // Exactly the groups that were named: the asker knows whether the user is authenticated.
    let user = UserInfo {
        name: name.to_owned(),
        groups: groups.to_vec(),
        uid: spec.uid.clone(),
        extra: spec.extra.clone().unwrap_or_default(),
    };
    Ok(status(api.decide(&user, &what)?, &spec.resource_attributes))
}

fn status(
    verdict: AccessDecision,
    asked: &Option<ResourceAttributes>,
) -> SubjectAccessReviewStatus {
    let evaluation_error = asked.as_ref().and_then(ignored_selectors);
    match verdict {
        AccessDecision::Allow(reason) => SubjectAccessReviewStatus {
            allowed: true,
            reason: Some(reason).filter(|reason| !reason.is_empty()),
            evaluation_error,
            ..SubjectAccessReviewStatus::default()
        },
        AccessDecision::Deny => {
            SubjectAccessReviewStatus { evaluation_error, ..SubjectAccessReviewStatus::default() }
        }
    }
}

/// Says which selectors cannot be read, and so limit nothing.
fn ignored_selectors(resource: &ResourceAttributes) -> Option<String> {
    let of_fields = resource
        .field_selector
        .as_ref()
        .is_some_and(|asked| FieldSelector::parse(text(asked.raw_selector.as_ref())).is_err());
    let of_labels = resource.label_selector.as_ref().is_some_and(|asked| {
        let wanted = LabelSelector {
            match_expressions: asked.requirements.clone(),
            ..LabelSelector::default()
        };
        !selector::check(&wanted, &Path::new("requirements")).is_empty()
    });
    let ignored = [("fieldSelector", of_fields), ("labelSelector", of_labels)];
    let ignored = ignored.into_iter().filter(|(_, is_ignored)| *is_ignored);
    let said: Vec<String> = ignored
        .map(|(name, _)| format!("spec.resourceAttributes.{name} ignored due to parse error"))
        .collect();
    (!said.is_empty()).then(|| said.join(", "))
}

fn attributes<'a>(
    resource: &'a Option<ResourceAttributes>,
    path: &'a Option<NonResourceAttributes>,
) -> Result<AccessAttributes<'a>, ApiError> {
    match (resource, path) {
        (Some(resource), None) => {
            check_selectors(resource)?;
            Ok(AccessAttributes::Resource {
                verb: text(resource.verb.as_ref()),
                group: text(resource.group.as_ref()),
                resource: text(resource.resource.as_ref()),
                subresource: text(resource.subresource.as_ref()),
                namespace: text(resource.namespace.as_ref()),
                name: text(resource.name.as_ref()),
            })
        }
        (None, Some(path)) => Ok(AccessAttributes::Path {
            verb: text(path.verb.as_ref()),
            path: text(path.path.as_ref()),
        }),
        (Some(_), Some(path)) => Err(invalid(
            "spec.nonResourceAttributes",
            shown_path(path),
            "cannot be specified in combination with resourceAttributes",
        )),
        (None, None) => Err(invalid(
            "spec.resourceAttributes",
            "null".to_owned(),
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
    }
}

/// A review that asks nothing that can be answered. Upstream names the group and no kind.
fn invalid(field: &str, shown: String, why: &str) -> ApiError {
    let error = FieldError {
        field: field.to_owned(),
        problem: FieldProblem::Invalid(shown),
        detail: why.to_owned(),
    };
    ApiError::invalid_kind("authorization.k8s.io", "", "", &[error])
}

fn shown_path(path: &NonResourceAttributes) -> String {
    format!("{{\"Path\":{:?},\"Verb\":{:?}}}", text(path.path.as_ref()), text(path.verb.as_ref()))
}

/// A review is no object and has no metadata.
fn check_metadata(meta: &ObjectMeta) -> Result<(), ApiError> {
    let given = ObjectMeta { managed_fields: None, ..meta.clone() };
    match given == ObjectMeta::default() {
        true => Ok(()),
        false => Err(invalid("metadata", String::new(), "must be empty")),
    }
}

/// A selector is given as text or as requirements.
fn check_selectors(resource: &ResourceAttributes) -> Result<(), ApiError> {
    let why = "may not specified at the same time as requirements";
    let of_fields = resource.field_selector.as_ref();
    let of_labels = resource.label_selector.as_ref();
    let selectors = [
        (
            "fieldSelector",
            of_fields.and_then(|selector| selector.raw_selector.as_ref()),
            of_fields.is_some_and(|selector| !items(selector.requirements.as_ref()).is_empty()),
        ),
        (
            "labelSelector",
            of_labels.and_then(|selector| selector.raw_selector.as_ref()),
            of_labels.is_some_and(|selector| !items(selector.requirements.as_ref()).is_empty()),
        ),
    ];
    for (name, raw, has_requirements) in selectors {
        let raw = text(raw);
        if !raw.is_empty() && has_requirements {
            let field = format!("spec.resourceAttributes.{name}.rawSelector");
            return Err(invalid(&field, format!("{raw:?}"), why));
        }
    }
    Ok(())
}
