//! Policies and bindings as they run, kept by the versions of their objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::admissionregistration::v1::{
    MatchResources, MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, ParamKind, ParamRef,
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use rekindle_kinds::admission_policy::program::{PolicyProgram, unusable};
use rekindle_kinds::admission_policy::{
    FailurePolicy, MutationProgram, PolicyParts, ValidationProgram, is_run_again, mutating_program,
    validating_program,
};
use rekindle_kinds::validation::text;
use rekindle_types::validation::field_error::FieldError;

use crate::admission::compiled_objects::CompiledObjects;
use crate::shared::ApiShared;
use crate::status::ApiError;

/// What is known of all policies.
#[derive(Default)]
pub(crate) struct PolicyMemory {
    pub(super) validating: PolicyKindMemory<ValidationProgram>,
    pub(in crate::admission) mutating: PolicyKindMemory<MutationProgram>,
}

/// What is known of the policies of one kind, and of their bindings.
pub(in crate::admission) struct PolicyKindMemory<S> {
    policies: CompiledObjects<StoredPolicy<S>>,
    bindings: CompiledObjects<StoredBinding>,
}

impl<S> Default for PolicyKindMemory<S> {
    fn default() -> Self {
        Self { policies: CompiledObjects::default(), bindings: CompiledObjects::default() }
    }
}

/// A policy with its bindings.
pub(in crate::admission) type BoundPolicy<S> = (Arc<StoredPolicy<S>>, Vec<Arc<StoredBinding>>);

/// A stored policy.
pub(in crate::admission) struct StoredPolicy<S> {
    pub(super) name: String,
    pub(super) on_failure: FailurePolicy,
    pub(super) constraints: MatchResources,
    pub(super) param_kind: Option<ParamKind>,
    pub(super) program: PolicyProgram<S>,
    /// Why it cannot run, of a policy that another version of the engine stored.
    pub(super) unusable: Option<String>,
    /// Whether it runs once more when others changed the object after it.
    pub(in crate::admission) is_run_again: bool,
}

/// A stored binding.
pub(in crate::admission) struct StoredBinding {
    pub(super) name: String,
    policy: String,
    pub(super) matched: Option<MatchResources>,
    pub(super) parameters: Option<ParamRef>,
    /// What becomes of a request that is not valid: `Deny`, `Warn`, `Audit`.
    pub(super) actions: Vec<String>,
}

impl PolicyKindMemory<ValidationProgram> {
    /// Every policy that has a binding, with its bindings, both by name.
    pub(super) fn bound(
        &self,
        api: &ApiShared,
    ) -> Result<Vec<BoundPolicy<ValidationProgram>>, ApiError> {
        let bindings = self.bindings.all(api, |binding: ValidatingAdmissionPolicyBinding| {
            Some(StoredBinding {
                name: binding.metadata.name.unwrap_or_default(),
                policy: binding.spec.policy_name,
                matched: binding.spec.match_resources,
                parameters: binding.spec.param_ref,
                actions: binding.spec.validation_actions,
            })
        })?;
        if bindings.is_empty() {
            return Ok(Vec::new());
        }
        let policies = self.policies.all(api, |policy: ValidatingAdmissionPolicy| {
            let (parts, program, errors) = validating_program(&policy)?;
            let name = text(policy.metadata.name.as_ref());
            Some(StoredPolicy::new(name, &parts, (program, &errors), false))
        })?;
        Ok(bind(policies, &bindings))
    }
}

impl PolicyKindMemory<MutationProgram> {
    /// Every policy that has a binding, with its bindings, both by name.
    pub(in crate::admission) fn bound(
        &self,
        api: &ApiShared,
    ) -> Result<Vec<BoundPolicy<MutationProgram>>, ApiError> {
        let bindings = self.bindings.all(api, |binding: MutatingAdmissionPolicyBinding| {
            let spec = binding.spec?;
            Some(StoredBinding {
                name: binding.metadata.name.unwrap_or_default(),
                policy: spec.policy_name.unwrap_or_default(),
                matched: spec.match_resources,
                parameters: spec.param_ref,
                actions: Vec::new(),
            })
        })?;
        if bindings.is_empty() {
            return Ok(Vec::new());
        }
        let policies = self.policies.all(api, |policy: MutatingAdmissionPolicy| {
            let (parts, program, errors) = mutating_program(&policy)?;
            let name = text(policy.metadata.name.as_ref());
            Some(StoredPolicy::new(name, &parts, (program, &errors), is_run_again(&policy)))
        })?;
        Ok(bind(policies, &bindings))
    }
}

impl<S> StoredPolicy<S> {
    fn new(
        name: &str,
        parts: &PolicyParts<'_>,
        (program, errors): (PolicyProgram<S>, &[FieldError]),
        is_run_again: bool,
    ) -> Self {
        Self {
            name: name.to_owned(),
            on_failure: parts.on_failure(),
            constraints: parts.match_constraints.cloned().unwrap_or_default(),
            param_kind: parts.param_kind.cloned(),
            program,
            unusable: unusable(errors),
            is_run_again,
        }
    }
}

fn bind<S>(
    policies: Vec<Arc<StoredPolicy<S>>>,
    bindings: &[Arc<StoredBinding>],
) -> Vec<BoundPolicy<S>> {
    let mut by_policy: BTreeMap<&str, Vec<Arc<StoredBinding>>> = BTreeMap::new();
    for binding in bindings {
        by_policy.entry(&binding.policy).or_default().push(Arc::clone(binding));
    }
    let bound = policies.into_iter().filter_map(|policy| {
        let bindings = by_policy.remove(policy.name.as_str())?;
        Some((policy, bindings))
    });
    bound.collect()
}
