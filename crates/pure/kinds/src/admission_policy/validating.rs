//! ValidatingAdmissionPolicy: what written objects must be like.

use k8s_openapi::api::admissionregistration::v1::{
    AuditAnnotation, ValidatingAdmissionPolicy, ValidatingAdmissionPolicySpec,
    ValidatingAdmissionPolicyStatus, Validation,
};
use rekindle_structural_schema::{ExpressionPlace, ExpressionResult, PolicyExpression};
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;
use rekindle_types::validation::field_error::FieldProblem;

use super::match_resources::PolicyEffect;
use super::program::{AnnotationProgram, CONDITION, PolicyProgram, ProgramCompiler};
use super::{PolicyParts, match_resources, set_failure_policy};
use crate::registry::object_meta::FinalizerRule;
use crate::registry::resource::{
    ApiKind, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell, TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{AGE, NAME, age, column};
use crate::validation::{ListKeys, Path, invalid_each, items, names, text};
use crate::{defaults, preparation};

/// Reasons that a validation may give, in upstream's order.
const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];

const AUDIT_ANNOTATIONS_MAX: usize = 20;
const AUDIT_EXPRESSION_BYTES_MAX: usize = 5 << 10;

/// One thing that a policy checks.
#[derive(Debug)]
pub struct ValidationProgram {
    /// The expression as it was written, which errors name.
    pub text: String,
    /// What must be true.
    pub expression: PolicyExpression,
    /// What a refusal says; empty if the policy does not say.
    pub message: String,
    /// What makes the message of a refusal.
    pub message_expression: Option<PolicyExpression>,
    /// The reason of the refusal; empty if the policy does not say.
    pub reason: String,
}

impl ApiKind for ValidatingAdmissionPolicy {
    const NAMES: ResourceNames = ResourceNames {
        singular: "validatingadmissionpolicy",
        short_names: &[],
        categories: &["api-extensions"],
        scope: ResourceScope::Cluster,
    };
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Status];
    const STRATEGIES: Strategies<Self> = Strategies::of_status();
    const FINALIZERS: FinalizerRule = FinalizerRule::Any;
    const NEEDS_VERSION_ON_UPDATE: bool = true;
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Validations", "integer", "How many validations the policy has."),
        column("ParamKind", "string", "The kind of the policy's parameters."),
        AGE,
    ];

    fn set_defaults(&mut self) {
        let spec = self.spec.get_or_insert_default();
        set_failure_policy(&mut spec.failure_policy);
        spec.match_constraints.iter_mut().for_each(match_resources::set_defaults);
        defaults::drop_empty_list(&mut spec.validations);
        defaults::drop_empty_list(&mut spec.variables);
        defaults::drop_empty_list(&mut spec.match_conditions);
        defaults::drop_empty_list(&mut spec.audit_annotations);
    }

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        preparation::first_generation(&mut self.metadata);
        self.status = Some(ValidatingAdmissionPolicyStatus::default());
    }

    preparation::updates_of_spec!();

    fn validate(&self) -> Vec<FieldError> {
        let none = ValidatingAdmissionPolicySpec::default();
        let spec = self.spec.as_ref().unwrap_or(&none);
        let mut errors = parts(spec).errors(PolicyEffect::Validates, &Path::new("spec"));
        let name = text(self.metadata.name.as_ref());
        let (_, more) = compile(spec, name);
        errors.extend(more);
        errors
    }

    fn warnings(&self) -> Vec<String> {
        let Some(spec) = &self.spec else { return Vec::new() };
        match_resources::warnings(
            "policy",
            PolicyEffect::Validates,
            spec.match_constraints.as_ref(),
        )
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let none = ValidatingAdmissionPolicySpec::default();
        let spec = self.spec.as_ref().unwrap_or(&none);
        let count = items(spec.validations.as_ref()).len();
        vec![
            text(self.metadata.name.as_ref()).into(),
            TableCell::Int(i64::try_from(count).unwrap_or(i64::MAX)),
            parts(spec).param_kind_cell(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

impl SubresourceStrategy<StatusPart> for ValidatingAdmissionPolicy {
    preparation::updates_of_status_alone!();

    fn validate_part(&self, _old: &Self) -> Vec<FieldError> {
        let status = self.status.as_ref();
        let checked = status.and_then(|status| status.type_checking.as_ref());
        let warnings = checked.and_then(|checked| checked.expression_warnings.as_ref());
        let field = Path::new("status").child("typeChecking").child("expressionWarnings");
        let mut errors = Vec::new();
        for (index, warning) in items(warnings).iter().enumerate() {
            let field = field.index(index);
            for (name, given) in [("warning", &warning.warning), ("fieldRef", &warning.field_ref)] {
                if given.trim().is_empty() {
                    errors.push(FieldError::required(field.child(name), ""));
                }
            }
        }
        errors
    }
}

pub(super) fn parts(spec: &ValidatingAdmissionPolicySpec) -> PolicyParts<'_> {
    PolicyParts {
        failure_policy: spec.failure_policy.as_ref(),
        param_kind: spec.param_kind.as_ref(),
        match_constraints: spec.match_constraints.as_ref(),
        match_conditions: items(spec.match_conditions.as_ref()),
        variables: items(spec.variables.as_ref()),
    }
}

/// What a stored policy says, and its program.
pub fn program(
    policy: &ValidatingAdmissionPolicy,
) -> Option<(PolicyParts<'_>, PolicyProgram<ValidationProgram>, Vec<FieldError>)> {
    let spec = policy.spec.as_ref()?;
    let (program, errors) = compile(spec, text(policy.metadata.name.as_ref()));
    Some((parts(spec), program, errors))
}

/// The program of a policy, as far as its expressions are right, and what is wrong with them.
fn compile(
    spec: &ValidatingAdmissionPolicySpec,
    name: &str,
) -> (PolicyProgram<ValidationProgram>, Vec<FieldError>) {
    let (parts, field) = (parts(spec), Path::new("spec"));
    let mut compiler = ProgramCompiler::new(&parts);
    let conditions = compiler.conditions(parts.match_conditions, &field.child("matchConditions"));
    let variables = compiler.variables(parts.variables, &field.child("variables"));
    let validations = items(spec.validations.as_ref());
    let annotations = items(spec.audit_annotations.as_ref());
    if validations.is_empty() && annotations.is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        for name in ["validations", "auditAnnotations"] {
            compiler.refuse(FieldError::required(field.child(name), why));
        }
    }
    let mut steps = Vec::new();
    for (index, validation) in validations.iter().enumerate() {
        let field = field.child("validations").index(index);
        steps.extend(compile_validation(&mut compiler, validation, &field));
    }
    let field = field.child("auditAnnotations");
    let annotations = compile_annotations(&mut compiler, annotations, name, &field);
    (PolicyProgram { conditions, variables, steps, annotations }, compiler.into_errors())
}

fn compile_validation(
    compiler: &mut ProgramCompiler,
    validation: &Validation,
    field: &Path,
) -> Option<ValidationProgram> {
    let expression_field = field.child("expression");
    let expression = match validation.expression.trim() {
        "" => {
            let why = "expression is not specified";
            compiler.refuse(FieldError::required(expression_field, why));
            None
        }
        _ => compiler.expression(&validation.expression, CONDITION, &expression_field),
    };
    let message_field = field.child("messageExpression");
    let given = text(validation.message_expression.as_ref());
    let message_expression = match given.trim() {
        "" if given.is_empty() => None,
        "" => {
            let why = "must be non-empty if specified";
            compiler.refuse(FieldError::invalid(message_field, given, why));
            None
        }
        _ => {
            let wanted = (ExpressionPlace::Message, ExpressionResult::Text);
            compiler.expression(given, wanted, &message_field)
        }
    };
    let message = text(validation.message.as_ref());
    if !message.is_empty() && message.trim().is_empty() {
        let why = "message must be non-empty if specified";
        compiler.refuse(FieldError::invalid(field.child("message"), message, why));
    } else if message.trim().contains(['\n', '\r']) {
        let why = "message must not contain line breaks";
        compiler.refuse(FieldError::invalid(field.child("message"), message, why));
    }
    if let Some(reason) = &validation.reason
        && !REASONS.contains(&reason.as_str())
    {
        compiler.refuse(FieldError::not_supported(field.child("reason"), reason, &REASONS));
    }
    Some(ValidationProgram {
        text: validation.expression.clone(),
        expression: expression?,
        message: message.trim().to_owned(),
        message_expression,
        reason: text(validation.reason.as_ref()).to_owned(),
    })
}

/// The annotations of the audit log.
fn compile_annotations(
    compiler: &mut ProgramCompiler,
    annotations: &[AuditAnnotation],
    policy: &str,
    field: &Path,
) -> Vec<AnnotationProgram> {
    let mut programs = Vec::new();
    if annotations.len() > AUDIT_ANNOTATIONS_MAX {
        compiler.refuse(FieldError {
            field: field.into(),
            problem: FieldProblem::Invalid(format!("{} items", annotations.len())),
            detail: format!("must not have more than {AUDIT_ANNOTATIONS_MAX} auditAnnotations"),
        });
        return programs;
    }
    let mut known = ListKeys::new();
    for (index, annotation) in annotations.iter().enumerate() {
        let field = field.index(index);
        let key_field = field.child("key");
        if policy.is_empty() {
            let why = "requires metadata.name be non-empty";
            compiler.refuse(FieldError::invalid(&key_field, &annotation.key, why));
        } else {
            let key = format!("{policy}/{}", annotation.key);
            for error in invalid_each(&key_field, &key, names::qualified(&key)) {
                compiler.refuse(error);
            }
        }
        let value_field = field.child("valueExpression");
        let value = annotation.value_expression.trim();
        if value.is_empty() {
            let why = "valueExpression is not specified";
            compiler.refuse(FieldError::required(value_field, why));
        } else if value.len() > AUDIT_EXPRESSION_BYTES_MAX {
            let why = format!("must not exceed {AUDIT_EXPRESSION_BYTES_MAX} bytes in length");
            compiler.refuse(FieldError::required(value_field, why));
        } else {
            let wanted = (ExpressionPlace::Rule, ExpressionResult::TextOrNull);
            let expression = compiler.expression(value, wanted, &value_field);
            programs.extend(expression.map(|expression| AnnotationProgram {
                key: annotation.key.clone(),
                text: value.to_owned(),
                expression,
            }));
        }
        if known.add(annotation.key.as_str()).is_some() {
            compiler.refuse(FieldError::duplicate(key_field, &annotation.key));
        }
    }
    programs
}
