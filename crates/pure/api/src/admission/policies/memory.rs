//! Policies and bindings as they run, kept by the versions of their objects.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::admissionregistration::v1::{
    MatchResources, MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, ParamKind, ParamRef,
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use rekindle_store::{RangeQuery, StoredObject};

use crate::keys;
use crate::kinds::admission_policy::program::{PolicyProgram, unusable};
use crate::kinds::admission_policy::{
    FailurePolicy, GROUP, MutationProgram, PolicyParts, ValidationProgram, is_run_again,
    mutating_program, validating_program,
};
use crate::made_of::MadeOf;
use crate::registry::{ApiKind, FieldError};
use crate::shared::ApiShared;
use crate::status::ApiError;
use crate::validation::text;

/// What is known of all policies.
#[derive(Default)]
pub(crate) struct PolicyMemory {
    pub(super) validating: PolicyKindMemory<ValidationProgram>,
    pub(super) mutating: PolicyKindMemory<MutationProgram>,
}

/// What is known of the policies of one kind, and of their bindings.
pub(super) struct PolicyKindMemory<S> {
    policies: Known<StoredPolicy<S>>,
    bindings: Known<StoredBinding>,
}

impl<S> Default for PolicyKindMemory<S> {
    fn default() -> Self {
        Self { policies: Known::default(), bindings: Known::default() }
    }
}

/// A policy with its bindings.
pub(super) type BoundPolicy<S> = (Arc<StoredPolicy<S>>, Vec<Arc<StoredBinding>>);

/// A stored policy.
pub(super) struct StoredPolicy<S> {
    pub(super) name: String,
    pub(super) on_failure: FailurePolicy,
    pub(super) constraints: MatchResources,
    pub(super) param_kind: Option<ParamKind>,
    pub(super) program: PolicyProgram<S>,
    /// Why it cannot run, of a policy that another version of the engine stored.
    pub(super) unusable: Option<String>,
    /// Whether it runs once more when others changed the object after it.
    pub(super) is_run_again: bool,
}

/// A stored binding.
pub(super) struct StoredBinding {
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
    pub(super) fn bound(
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

/// What was made of stored objects, by their keys.
struct Known<T> {
    by_key: Mutex<BTreeMap<String, MadeOf<T>>>,
}

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self { by_key: Mutex::default() }
    }
}

impl<T> Known<T> {
    /// What `make` makes of every durable object of a kind, by name.
    fn all<K: ApiKind>(
        &self,
        api: &ApiShared,
        make: impl Fn(K) -> Option<T>,
    ) -> Result<Vec<Arc<T>>, ApiError> {
        let Some(entry) = api.registry.find(GROUP, K::VERSION, K::URL_PATH_SEGMENT) else {
            return Ok(Vec::new());
        };
        let prefix = keys::collection(entry, "");
        let page = api.store.range(&RangeQuery { prefix, ..RangeQuery::default() })?;
        // nothing is compiled under the lock, which every write takes
        let found: Vec<Option<Arc<T>>> = {
            let known = self.lock();
            let of_version = |stored: &Arc<StoredObject>| {
                known.get(stored.key.as_str()).and_then(|known| known.of_version(stored))
            };
            page.objects.iter().map(of_version).collect()
        };
        let mut all = Vec::with_capacity(found.len());
        for (stored, found) in page.objects.iter().zip(found) {
            if let Some(found) = found {
                all.push(found);
            } else if let Some(made) = make(read(stored)?).map(Arc::new) {
                all.push(Arc::clone(&made));
                let key = stored.key.as_str().to_owned();
                self.lock().insert(key, MadeOf::new(stored, &made));
            }
        }
        let mut known = self.lock();
        if known.len() > page.objects.len() {
            let is_there = |key: &str| {
                page.objects.binary_search_by(|stored| stored.key.as_str().cmp(key)).is_ok()
            };
            known.retain(|key, _| is_there(key));
        }
        Ok(all)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, MadeOf<T>>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read<K: ApiKind>(stored: &StoredObject) -> Result<K, ApiError> {
    K::from_json(&stored.value).map_err(|error| {
        ApiError::internal(format!("{} cannot be read: {error}", stored.key.as_str()))
    })
}
