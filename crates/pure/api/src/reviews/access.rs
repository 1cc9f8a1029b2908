//! What somebody may do.

use k8s_openapi::api::authorization::v1::{
    LocalSubjectAccessReview, NonResourceAttributes, NonResourceRule, ResourceAttributes,
    ResourceRule, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SelfSubjectRulesReview,
    SelfSubjectRulesReviewSpec, SubjectAccessReview, SubjectAccessReviewSpec,
    SubjectAccessReviewStatus, SubjectRulesReviewStatus,
};
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use rekindle_kinds::identity::{ClientIdentity, UserInfo};
use rekindle_kinds::validation::{Path, items, selector, text};
use rekindle_types::validation::field_error::FieldError;
use rekindle_types::validation::field_error::FieldProblem;

use super::ReviewCall;
use crate::auth::AccessAttributes;
use crate::authority::AccessDecision;
use crate::outcome::ApiAnswer;
use crate::selectors::{self, FieldSelector};
use crate::shared::ApiShared;
use crate::status::ApiError;

/// `selfsubjectaccessreviews`.
pub(super) fn may_i(call: &ReviewCall<'_>) -> Result<ApiAnswer, ApiError> {
    call.answer(|review: &mut SelfSubjectAccessReview| {
        let asked = AskedAccess::of_self(&review.spec);
        let mut errors = asked.mistakes();
        errors.extend(given_metadata(&review.metadata, "must be empty"));
        refuse(&errors)?;
        review.status = Some(match &call.request.identity {
            ClientIdentity::Anonymous => asked.status(AccessDecision::Deny),
            ClientIdentity::User(user) => asked.status(asked.decide(call.api, user)?),
        });
        Ok(())
    })
}

/// `subjectaccessreviews`.
pub(super) fn may_they(call: &ReviewCall<'_>) -> Result<ApiAnswer, ApiError> {
    call.answer(|review: &mut SubjectAccessReview| {
        let mut errors = mistakes(&review.spec);
        errors.extend(given_metadata(&review.metadata, "must be empty"));
        refuse(&errors)?;
        review.status = Some(decide(call.api, &review.spec)?);
        Ok(())
    })
}

/// `localsubjectaccessreviews`.
pub(super) fn may_they_here(call: &ReviewCall<'_>) -> Result<ApiAnswer, ApiError> {
    let namespace = &call.path.namespace;
    call.answer(|review: &mut LocalSubjectAccessReview| {
        let of = text(review.metadata.namespace.as_ref());
        if !of.is_empty() && of != namespace {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        let mut errors = mistakes(&review.spec);
        let meta = ObjectMeta { namespace: None, ..review.metadata.clone() };
        errors.extend(given_metadata(&meta, "must be empty except for namespace"));
        let asked = review.spec.resource_attributes.as_ref();
        let asked = asked.map(|asked| text(asked.namespace.as_ref()));
        if let Some(asked) = asked.filter(|asked| asked != namespace) {
            let field = "spec.resourceAttributes.namespace";
            errors.push(invalid(field, format!("{asked:?}"), "must match metadata.namespace"));
        }
        if let Some(path) = &review.spec.non_resource_attributes {
            let field = "spec.nonResourceAttributes";
            errors.push(invalid(field, shown_path(path), "disallowed on this kind of request"));
        }
        refuse(&errors)?;
        review.metadata.namespace = Some(namespace.clone());
        review.status = Some(decide(call.api, &review.spec)?);
        Ok(())
    })
}

/// `selfsubjectrulesreviews`.
pub(super) fn what_may_i(call: &ReviewCall<'_>) -> Result<ApiAnswer, ApiError> {
    call.answer(|review: &mut SelfSubjectRulesReview| {
        let namespace = text(review.spec.namespace.as_ref());
        if namespace.is_empty() {
            return Err(ApiError::bad_request("no namespace on request"));
        }
        let rules = match &call.request.identity {
            ClientIdentity::Anonymous => Vec::new(),
            ClientIdentity::User(user) => call.api.rules_for(user, namespace)?,
        };
        review.status = Some(rules_status(&rules));
        // answered without what was asked, as upstream
        review.metadata = ObjectMeta::default();
        review.spec = SelfSubjectRulesReviewSpec::default();
        Ok(())
    })
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

/// What a review asks about.
#[derive(Clone, Copy)]
struct AskedAccess<'a> {
    resource: Option<&'a ResourceAttributes>,
    path: Option<&'a NonResourceAttributes>,
}

impl<'a> AskedAccess<'a> {
    fn of_self(spec: &'a SelfSubjectAccessReviewSpec) -> Self {
        Self {
            resource: spec.resource_attributes.as_ref(),
            path: spec.non_resource_attributes.as_ref(),
        }
    }

    fn of_subject(spec: &'a SubjectAccessReviewSpec) -> Self {
        Self {
            resource: spec.resource_attributes.as_ref(),
            path: spec.non_resource_attributes.as_ref(),
        }
    }

    /// A resource or a path, and no more than one of them.
    fn choice_mistake(self) -> Option<FieldError> {
        match (self.resource, self.path) {
            (Some(_), Some(path)) => Some(invalid(
                "spec.nonResourceAttributes",
                shown_path(path),
                "cannot be specified in combination with resourceAttributes",
            )),
            (None, None) => Some(invalid(
                "spec.resourceAttributes",
                "null".to_owned(),
                "exactly one of nonResourceAttributes or resourceAttributes must be specified",
            )),
            (Some(_), None) | (None, Some(_)) => None,
        }
    }

    fn mistakes(self) -> Vec<FieldError> {
        let selectors = self.resource.map_or_else(Vec::new, selector_mistakes);
        self.choice_mistake().into_iter().chain(selectors).collect()
    }

    fn decide(self, api: &ApiShared, user: &UserInfo) -> Result<AccessDecision, ApiError> {
        match (self.resource, self.path) {
            (Some(resource), _) => {
                let what = AccessAttributes::Resource {
                    verb: text(resource.verb.as_ref()),
                    group: text(resource.group.as_ref()),
                    resource: text(resource.resource.as_ref()),
                    subresource: text(resource.subresource.as_ref()),
                    namespace: text(resource.namespace.as_ref()),
                    name: text(resource.name.as_ref()),
                };
                api.decide(user, &what)
            }
            (None, Some(path)) => {
                let (verb, path) = (text(path.verb.as_ref()), text(path.path.as_ref()));
                api.decide(user, &AccessAttributes::Path { verb, path })
            }
            // refused before
            (None, None) => Ok(AccessDecision::Deny),
        }
    }

    fn status(self, decision: AccessDecision) -> SubjectAccessReviewStatus {
        let evaluation_error = self.resource.and_then(ignored_selectors);
        let (allowed, reason) = match decision {
            AccessDecision::Allow(reason) => (true, Some(reason).filter(|text| !text.is_empty())),
            AccessDecision::Deny => (false, None),
        };
        SubjectAccessReviewStatus { allowed, reason, evaluation_error, denied: None }
    }
}

/// Everything wrong with a question about another user.
fn mistakes(spec: &SubjectAccessReviewSpec) -> Vec<FieldError> {
    let asked = AskedAccess::of_subject(spec);
    let is_nobody = text(spec.user.as_ref()).is_empty() && items(spec.groups.as_ref()).is_empty();
    let user = is_nobody.then(|| {
        let why = "at least one of user or group must be specified";
        invalid("spec.user", "\"\"".to_owned(), why)
    });
    let selectors = asked.resource.map_or_else(Vec::new, selector_mistakes);
    asked.choice_mistake().into_iter().chain(user).chain(selectors).collect()
}

fn decide(
    api: &ApiShared,
    spec: &SubjectAccessReviewSpec,
) -> Result<SubjectAccessReviewStatus, ApiError> {
    let asked = AskedAccess::of_subject(spec);
    // Exactly the groups that were named: the asker knows whether the user is authenticated.
    let user = UserInfo {
        name: text(spec.user.as_ref()).to_owned(),
        groups: items(spec.groups.as_ref()).to_vec(),
        uid: spec.uid.clone(),
        extra: spec.extra.clone().unwrap_or_default(),
    };
    Ok(asked.status(asked.decide(api, &user)?))
}

/// Says which selectors cannot be read, and so limit nothing.
fn ignored_selectors(resource: &ResourceAttributes) -> Option<String> {
    let is_known = |operator: &str| matches!(operator, "In" | "NotIn" | "Exists" | "DoesNotExist");
    let of_fields = resource.field_selector.as_ref().is_some_and(|asked| {
        FieldSelector::parse(text(asked.raw_selector.as_ref())).is_err()
            || items(asked.requirements.as_ref()).iter().any(|one| !is_known(&one.operator))
    });
    let of_labels = resource.label_selector.as_ref().is_some_and(|asked| {
        let wanted = LabelSelector {
            match_expressions: asked.requirements.clone(),
            ..LabelSelector::default()
        };
        selectors::LabelSelector::parse(text(asked.raw_selector.as_ref())).is_err()
            || !selector::check(&wanted, &Path::new("requirements")).is_empty()
    });
    let ignored = [("fieldSelector", of_fields), ("labelSelector", of_labels)];
    let ignored = ignored.into_iter().filter(|(_, is_ignored)| *is_ignored);
    let said: Vec<String> = ignored
        .map(|(name, _)| format!("spec.resourceAttributes.{name} ignored due to parse error"))
        .collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// A review that asks nothing that can be answered. Upstream names the group and no kind.
fn refuse(errors: &[FieldError]) -> Result<(), ApiError> {
    match errors.is_empty() {
        true => Ok(()),
        false => Err(ApiError::invalid_kind("authorization.k8s.io", "", "", errors)),
    }
}

fn invalid(field: &str, shown: String, why: &str) -> FieldError {
    FieldError {
        field: field.to_owned(),
        problem: FieldProblem::Invalid(shown),
        detail: why.to_owned(),
    }
}

fn shown_path(path: &NonResourceAttributes) -> String {
    format!("{{\"Path\":{:?},\"Verb\":{:?}}}", text(path.path.as_ref()), text(path.verb.as_ref()))
}

/// A review is no object and has no metadata.
fn given_metadata(meta: &ObjectMeta, why: &str) -> Option<FieldError> {
    let given = ObjectMeta { managed_fields: None, ..meta.clone() };
    (given != ObjectMeta::default()).then(|| invalid("metadata", String::new(), why))
}

/// A selector is given as text or as requirements.
fn selector_mistakes(resource: &ResourceAttributes) -> Vec<FieldError> {
    let at = Path::new("spec").child("resourceAttributes");
    let mut errors = Vec::new();
    if let Some(asked) = &resource.field_selector {
        let (field, requirements) = (at.child("fieldSelector"), items(asked.requirements.as_ref()));
        let raw = text(asked.raw_selector.as_ref());
        errors.extend(form_mistake(raw, requirements.is_empty(), &field));
        for (index, requirement) in requirements.iter().enumerate().take(selector::TERMS_MAX) {
            let field = field.child("requirements").index(index);
            if requirement.key.is_empty() {
                errors.push(FieldError::required(field.child("key"), "must be specified"));
            }
            let (operator, values) = (&requirement.operator, requirement.values.as_ref());
            errors.extend(selector::values_mismatch(operator, values, &field));
        }
    }
    if let Some(asked) = &resource.label_selector {
        let (field, requirements) = (at.child("labelSelector"), items(asked.requirements.as_ref()));
        let raw = text(asked.raw_selector.as_ref());
        errors.extend(form_mistake(raw, requirements.is_empty(), &field));
        let field = field.child("requirements");
        errors.extend(selector::check_requirements(requirements, &field));
    }
    errors
}

fn form_mistake(raw: &str, has_no_requirements: bool, field: &Path) -> Option<FieldError> {
    if raw.is_empty() && has_no_requirements {
        let why = format!("when {field} is specified, requirements or rawSelector is required");
        Some(FieldError::required(field.child("requirements"), why))
    } else if !raw.is_empty() && !has_no_requirements {
        let why = "may not specified at the same time as requirements";
        Some(FieldError::invalid(field.child("rawSelector"), raw, why))
    } else {
        None
    }
}
