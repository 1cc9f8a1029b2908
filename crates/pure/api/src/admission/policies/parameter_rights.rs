//! Who may let a policy read parameters: messages of the policy can show what the parameters hold,
//! so its author needs the right to read them.
//!
//! Source: upstream's `pkg/registry/admissionregistration/*/authz.go`.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, ParamKind, ParamRef,
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use rekindle_kinds::admission_policy::GROUP;
use rekindle_kinds::identity::ClientIdentity;
use rekindle_kinds::registry::{AnyObject, ApiKind};
use rekindle_kinds::validation::text;
use rekindle_types::validation::field_error::FieldError;

use super::super::ObjectWrite;
use super::parameters;
use crate::auth::AccessAttributes;
use crate::authority::AccessDecision;
use crate::call::ApiCall;
use crate::keys;
use crate::object_meta;
use crate::status::ApiError;

/// Refuses a policy or a binding with parameters that its author may not read.
pub(in crate::admission) fn check(write: &ObjectWrite<'_>) -> Result<(), ApiError> {
    let Some(now) = Parameters::of(write.call, write.new) else { return Ok(()) };
    let before = write.old.and_then(|old| Parameters::of(write.call, old));
    if before.as_ref() == Some(&now) {
        return Ok(());
    }
    let Some(refused) = now.refusal(write.call)? else { return Ok(()) };
    Err(ApiError::invalid(write.call.entry, object_meta::name(write.new), &[refused]))
}

/// The parameters that a policy or a binding reads.
#[derive(PartialEq)]
struct Parameters {
    /// None of a binding to a policy that is not there yet, or has no parameters yet: it may get
    /// any.
    kind: Option<ParamKind>,
    /// Of a binding.
    reference: Option<ParamRef>,
}

impl Parameters {
    fn of(call: &ApiCall<'_>, object: &dyn AnyObject) -> Option<Self> {
        let object = object.as_any();
        if let Some(policy) = object.downcast_ref::<ValidatingAdmissionPolicy>() {
            let kind = policy.spec.as_ref()?.param_kind.clone()?;
            return Some(Self { kind: Some(kind), reference: None });
        }
        if let Some(policy) = object.downcast_ref::<MutatingAdmissionPolicy>() {
            let kind = policy.spec.as_ref()?.param_kind.clone()?;
            return Some(Self { kind: Some(kind), reference: None });
        }
        if let Some(binding) = object.downcast_ref::<ValidatingAdmissionPolicyBinding>() {
            let reference = Some(binding.spec.param_ref.clone()?);
            let policy: Option<ValidatingAdmissionPolicy> = stored(call, &binding.spec.policy_name);
            let kind = policy.and_then(|policy| policy.spec?.param_kind);
            return Some(Self { kind, reference });
        }
        let binding = object.downcast_ref::<MutatingAdmissionPolicyBinding>()?;
        let spec = binding.spec.as_ref()?;
        let reference = Some(spec.param_ref.clone()?);
        let policy: Option<MutatingAdmissionPolicy> = stored(call, text(spec.policy_name.as_ref()));
        let kind = policy.and_then(|policy| policy.spec?.param_kind);
        Some(Self { kind, reference })
    }

    /// Why the author may not let the policy read them.
    fn refusal(&self, call: &ApiCall<'_>) -> Result<Option<FieldError>, ApiError> {
        let kind = self.kind.as_ref();
        let api_version = kind.map_or("*/*", |kind| text(kind.api_version.as_ref()));
        let (group, _) = api_version.split_once('/').unwrap_or(("", api_version));
        let entry = kind.and_then(|kind| parameters::entry_of(call.api, kind));
        let resource = entry.as_ref().map_or("*", |entry| &entry.plural);
        let given = |value: &Option<String>| match text(value.as_ref()) {
            "" => "*".to_owned(),
            other => other.to_owned(),
        };
        let (verb, namespace, name) = match &self.reference {
            None => ("get", "*".to_owned(), "*".to_owned()),
            Some(reference) if reference.selector.is_some() => {
                ("list", given(&reference.namespace), "*".to_owned())
            }
            Some(reference) => ("get", given(&reference.namespace), given(&reference.name)),
        };
        let what = AccessAttributes::Resource {
            verb,
            group,
            resource,
            subresource: "",
            namespace: &namespace,
            name: &name,
        };
        let is_allowed = match &call.request.identity {
            ClientIdentity::User(user) => call.api.decide(user, &what)? != AccessDecision::Deny,
            ClientIdentity::Anonymous => false,
        };
        if is_allowed {
            return Ok(None);
        }
        let user = call.request.identity.name();
        Ok(Some(match self.reference {
            None => FieldError::forbidden(
                "spec.paramKind",
                format!(
                    "user {user} must have \"get\" permission on all objects of the referenced \
                     paramKind (kind={}, apiVersion={api_version})",
                    text(kind.and_then(|kind| kind.kind.as_ref()))
                ),
            ),
            Some(_) => FieldError::forbidden(
                "spec.paramRef",
                format!(
                    "user {user} does not have {verb:?} permission on the referenced parameters \
                     (resource={resource}, namespace={namespace}, name={name})"
                ),
            ),
        }))
    }
}

/// The policy of a binding, if it is there.
fn stored<K: ApiKind>(call: &ApiCall<'_>, name: &str) -> Option<K> {
    let entry = call.api.registry.find(GROUP, K::VERSION, K::URL_PATH_SEGMENT)?;
    let stored = call.api.store.newest(&keys::object(entry, "", name))?;
    K::from_json(&stored.value).ok()
}
