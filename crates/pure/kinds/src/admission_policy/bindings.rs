//! Bindings: for which requests, and with which parameters, a policy counts.

use k8s_openapi::api::admissionregistration::v1::{
    MatchResources, MutatingAdmissionPolicyBinding, MutatingAdmissionPolicyBindingSpec, ParamRef,
    ValidatingAdmissionPolicyBinding,
};
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;
use rekindle_types::validation::field_error::FieldProblem;
use serde_json::json;

use super::match_resources::PolicyEffect;
use super::{UNSET, match_resources, parameters};
use crate::preparation;
use crate::registry::object_meta::FinalizerRule;
use crate::registry::resource::{
    ApiKind, MetadataChecks, ResourceNames, ResourceScope, TableCell, TableColumn,
};
use crate::table::{AGE, NAME, age, column};
use crate::validation::{ListKeys, Path, invalid_each, names, text};

const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];

const COLUMNS: [TableColumn; 4] = [
    NAME,
    column("PolicyName", "string", "The policy that is bound."),
    column("ParamRef", "string", "The parameters that the policy is run with."),
    AGE,
];

impl ApiKind for ValidatingAdmissionPolicyBinding {
    const NAMES: ResourceNames = ResourceNames {
        singular: "validatingadmissionpolicybinding",
        short_names: &[],
        categories: &["api-extensions"],
        scope: ResourceScope::Cluster,
    };
    const FINALIZERS: FinalizerRule = FinalizerRule::Any;
    const NEEDS_VERSION_ON_UPDATE: bool = true;
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfObject;
    const COLUMNS: &'static [TableColumn] = &COLUMNS;

    fn set_defaults(&mut self) {
        self.spec.match_resources.iter_mut().for_each(match_resources::set_defaults);
    }

    preparation::writes_of!(spec);

    fn validate(&self) -> Vec<FieldError> {
        let spec = &self.spec;
        let field = Path::new("spec");
        let matched = spec.match_resources.as_ref();
        let mut errors = binding_errors(
            &spec.policy_name,
            spec.param_ref.as_ref(),
            matched.map(|matched| (matched, PolicyEffect::Validates)),
            &field,
        );
        errors.extend(action_errors(&spec.validation_actions, &field.child("validationActions")));
        errors
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        vec![
            text(self.metadata.name.as_ref()).into(),
            self.spec.policy_name.as_str().into(),
            reference_cell(self.spec.param_ref.as_ref()),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

impl ApiKind for MutatingAdmissionPolicyBinding {
    const NAMES: ResourceNames = ResourceNames {
        singular: "mutatingadmissionpolicybinding",
        short_names: &[],
        categories: &["api-extensions"],
        scope: ResourceScope::Cluster,
    };
    const FINALIZERS: FinalizerRule = FinalizerRule::Any;
    const NEEDS_VERSION_ON_UPDATE: bool = true;
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfObject;
    const COLUMNS: &'static [TableColumn] = &COLUMNS;

    fn set_defaults(&mut self) {
        let spec = self.spec.get_or_insert_default();
        spec.match_resources.iter_mut().for_each(match_resources::set_defaults);
    }

    preparation::writes_of!(spec);

    fn validate(&self) -> Vec<FieldError> {
        let none = MutatingAdmissionPolicyBindingSpec::default();
        let spec = self.spec.as_ref().unwrap_or(&none);
        let matched = spec.match_resources.as_ref();
        binding_errors(
            text(spec.policy_name.as_ref()),
            spec.param_ref.as_ref(),
            matched.map(|matched| (matched, PolicyEffect::Mutates)),
            &Path::new("spec"),
        )
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let spec = self.spec.as_ref();
        vec![
            text(self.metadata.name.as_ref()).into(),
            text(spec.and_then(|spec| spec.policy_name.as_ref())).into(),
            reference_cell(spec.and_then(|spec| spec.param_ref.as_ref())),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

fn reference_cell(reference: Option<&ParamRef>) -> TableCell {
    let Some(reference) = reference else { return UNSET.into() };
    match (text(reference.namespace.as_ref()), text(reference.name.as_ref())) {
        ("", name) => name.into(),
        (namespace, name) => format!("{namespace}/{name}").into(),
    }
}

fn binding_errors(
    policy: &str,
    reference: Option<&ParamRef>,
    matched: Option<(&MatchResources, PolicyEffect)>,
    field: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let policy_field = field.child("policyName");
    if policy.is_empty() {
        errors.push(FieldError::required(policy_field, ""));
    } else {
        errors.extend(invalid_each(&policy_field, policy, names::dns_subdomain(policy)));
    }
    if let Some(reference) = reference {
        errors.extend(parameters::reference_errors(reference, &field.child("paramRef")));
    }
    if let Some((matched, effect)) = matched {
        let field = field.child("matchResources");
        errors.extend(match_resources::errors(matched, &field));
        errors.extend(match_resources::operation_errors(matched, effect, &field));
    }
    errors
}

fn action_errors(actions: &[String], field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut known = ListKeys::new();
    for (index, action) in actions.iter().enumerate() {
        if !ACTIONS.contains(&action.as_str()) {
            errors.push(FieldError::not_supported(field.index(index), action, &ACTIONS));
        }
        if known.add(action.as_str()).is_some() {
            errors.push(FieldError::duplicate(field.index(index), action));
        }
    }
    if known.has("Deny") && known.has("Warn") {
        errors.push(FieldError {
            field: field.into(),
            problem: FieldProblem::Invalid(json!(actions).to_string()),
            detail: "must not contain both Deny and Warn (repeating the same validation failure \
                     information in the API response and headers serves no purpose)"
                .to_owned(),
        });
    }
    if actions.is_empty() {
        errors.push(FieldError::required(field, "at least one validation action is required"));
    }
    errors
}
