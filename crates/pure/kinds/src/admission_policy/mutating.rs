//! MutatingAdmissionPolicy: how written objects are changed.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingAdmissionPolicy, MutatingAdmissionPolicySpec, Mutation,
};
use rekindle_structural_schema::{ExpressionPlace, ExpressionResult, PolicyExpression};
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::match_resources::PolicyEffect;
use super::program::{PolicyProgram, ProgramCompiler};
use super::{IF_NEEDED, NEVER, PolicyParts, match_resources, set_failure_policy};
use crate::registry::object_meta::FinalizerRule;
use crate::registry::resource::{
    ApiKind, MetadataChecks, ResourceNames, ResourceScope, TableCell, TableColumn,
};
use crate::table::{AGE, NAME, age, column};
use crate::validation::{Path, items, text};
use crate::{defaults, preparation};

const APPLY: &str = "ApplyConfiguration";
const JSON_PATCH: &str = "JSONPatch";

/// One change that a policy makes.
#[derive(Debug)]
pub struct MutationProgram {
    /// What becomes of the expression's value.
    pub form: MutationForm,
    /// What is changed.
    pub expression: PolicyExpression,
    /// The expression as it was written.
    pub text: String,
}

/// How a mutation changes an object.
#[derive(Clone, Copy, Debug)]
pub enum MutationForm {
    /// Applies an object, as server-side apply merges.
    Apply,
    /// Runs a JSON patch.
    JsonPatch,
}

impl ApiKind for MutatingAdmissionPolicy {
    const NAMES: ResourceNames = ResourceNames {
        singular: "mutatingadmissionpolicy",
        short_names: &[],
        categories: &["api-extensions"],
        scope: ResourceScope::Cluster,
    };
    const FINALIZERS: FinalizerRule = FinalizerRule::Any;
    const NEEDS_VERSION_ON_UPDATE: bool = true;
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfObject;
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Mutations", "integer", "How many mutations the policy has."),
        column("ParamKind", "string", "The kind of the policy's parameters."),
        AGE,
    ];

    fn set_defaults(&mut self) {
        let spec = self.spec.get_or_insert_default();
        set_failure_policy(&mut spec.failure_policy);
        spec.match_constraints.iter_mut().for_each(match_resources::set_defaults);
        defaults::drop_empty_list(&mut spec.mutations);
        defaults::drop_empty_list(&mut spec.variables);
        defaults::drop_empty_list(&mut spec.match_conditions);
    }

    preparation::writes_of!(spec);

    fn validate(&self) -> Vec<FieldError> {
        let none = MutatingAdmissionPolicySpec::default();
        let spec = self.spec.as_ref().unwrap_or(&none);
        let field = Path::new("spec");
        let mut errors = parts(spec).errors(PolicyEffect::Mutates, &field);
        let (_, more) = compile(spec);
        errors.extend(more);
        let field = field.child("reinvocationPolicy");
        match text(spec.reinvocation_policy.as_ref()) {
            "" => errors.push(FieldError::required(field, "")),
            IF_NEEDED | NEVER => {}
            other => errors.push(FieldError::not_supported(field, other, &[IF_NEEDED, NEVER])),
        }
        errors
    }

    fn warnings(&self) -> Vec<String> {
        let spec = self.spec.as_ref();
        let matched = spec.and_then(|spec| spec.match_constraints.as_ref());
        match_resources::warnings("mutating policy", PolicyEffect::Mutates, matched)
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let none = MutatingAdmissionPolicySpec::default();
        let spec = self.spec.as_ref().unwrap_or(&none);
        let count = items(spec.mutations.as_ref()).len();
        vec![
            text(self.metadata.name.as_ref()).into(),
            TableCell::Int(i64::try_from(count).unwrap_or(i64::MAX)),
            parts(spec).param_kind_cell(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

fn parts(spec: &MutatingAdmissionPolicySpec) -> PolicyParts<'_> {
    PolicyParts {
        failure_policy: spec.failure_policy.as_ref(),
        param_kind: spec.param_kind.as_ref(),
        match_constraints: spec.match_constraints.as_ref(),
        match_conditions: items(spec.match_conditions.as_ref()),
        variables: items(spec.variables.as_ref()),
    }
}

/// Whether a policy runs once more when others changed the object after it.
pub fn is_run_again(policy: &MutatingAdmissionPolicy) -> bool {
    let again = policy.spec.as_ref().and_then(|spec| spec.reinvocation_policy.as_deref());
    again == Some(IF_NEEDED)
}

/// What a stored policy says, and its program.
pub fn program(
    policy: &MutatingAdmissionPolicy,
) -> Option<(PolicyParts<'_>, PolicyProgram<MutationProgram>, Vec<FieldError>)> {
    let spec = policy.spec.as_ref()?;
    let (program, errors) = compile(spec);
    Some((parts(spec), program, errors))
}

/// The program of a policy, as far as its expressions are right, and what is wrong with them.
fn compile(
    spec: &MutatingAdmissionPolicySpec,
) -> (PolicyProgram<MutationProgram>, Vec<FieldError>) {
    let (parts, field) = (parts(spec), Path::new("spec"));
    let mut compiler = ProgramCompiler::new(&parts);
    let conditions = compiler.conditions(parts.match_conditions, &field.child("matchConditions"));
    let variables = compiler.variables(parts.variables, &field.child("variables"));
    let field = field.child("mutations");
    let mutations = items(spec.mutations.as_ref());
    if mutations.is_empty() {
        let why = "mutations must contain at least one item";
        compiler.refuse(FieldError::required(&field, why));
    }
    let mut steps = Vec::new();
    for (index, mutation) in mutations.iter().enumerate() {
        steps.extend(compile_mutation(&mut compiler, mutation, &field.index(index)));
    }
    (
        PolicyProgram { conditions, variables, steps, annotations: Vec::new() },
        compiler.into_errors(),
    )
}

fn compile_mutation(
    compiler: &mut ProgramCompiler,
    mutation: &Mutation,
    field: &Path,
) -> Option<MutationProgram> {
    let (apply, json_patch) = (&mutation.apply_configuration, &mutation.json_patch);
    let apply = apply.as_ref().map(|apply| text(apply.expression.as_ref()));
    let json_patch = json_patch.as_ref().map(|patch| text(patch.expression.as_ref()));
    let (apply, json_patch) = (("applyConfiguration", apply), ("jsonPatch", json_patch));
    let (wanted, (name, given), (other, other_given)) = match mutation.patch_type.as_str() {
        APPLY => (ExpressionResult::Object, apply, json_patch),
        JSON_PATCH => (ExpressionResult::JsonPatch, json_patch, apply),
        "" => {
            compiler.refuse(FieldError::required(field.child("patchType"), ""));
            return None;
        }
        other => {
            let known = [APPLY, JSON_PATCH];
            compiler.refuse(FieldError::not_supported(field.child("patchType"), other, &known));
            return None;
        }
    };
    let kind = &mutation.patch_type;
    let expression_field = field.child(name).child("expression");
    let expression = match given.map(str::trim) {
        None => {
            let why = format!("must be specified when patchType is {kind}");
            compiler.refuse(FieldError::required(field.child(name), why));
            None
        }
        Some("") => {
            compiler.refuse(FieldError::required(expression_field, ""));
            None
        }
        Some(given) => {
            let wanted = (ExpressionPlace::Mutation, wanted);
            compiler.expression(given, wanted, &expression_field)
        }
    };
    if other_given.is_some() {
        let why = format!("must not be specified when patchType is {kind}");
        let shown = format!("{{{other}}}");
        compiler.refuse(FieldError::invalid(field.child(other), shown, why));
    }
    let form = match wanted {
        ExpressionResult::Object => MutationForm::Apply,
        _ => MutationForm::JsonPatch,
    };
    let text = given.map(str::trim).unwrap_or_default().to_owned();
    Some(MutationProgram { form, expression: expression?, text })
}
