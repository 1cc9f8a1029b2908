//! One rule, as it was written and as it runs.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use cel::common::ast::{Expr, IdedExpr};
use rekindle_types::validation::{FieldError, field_error::FieldProblem};

use super::{
    check::{CheckedExpression, check},
    instantiation::{has_part, instantiation_problem},
    parse::{parse, placed},
    types::CelType,
};
use crate::{
    definition::resolve_field_path, error_list::ErrorList, internal_form::internal_rule,
    schema_node::SchemaNode,
};

/// A rule of a node. Its expressions are parsed when they first run.
#[derive(Debug)]
pub(crate) struct CelRule {
    pub(crate) rule: Box<str>,
    pub(crate) message: Box<str>,
    pub(crate) message_expression: Box<str>,
    pub(crate) reason: Option<RuleReason>,
    /// The path of the field that the rule is about, below the node; empty for the node.
    pub(crate) field_path: Box<str>,
    pub(crate) has_optional_old_self: bool,
    parsed: OnceLock<Result<ParsedRule, String>>,
}

/// The parsed expressions of a rule.
pub(crate) struct ParsedRule {
    pub(crate) rule: IdedExpr,
    pub(crate) uses_old_self: bool,
    pub(crate) message: Option<IdedExpr>,
}

impl fmt::Debug for ParsedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParsedRule").field("uses_old_self", &self.uses_old_self).finish()
    }
}

/// The reason of an error that a rule gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleReason {
    Duplicate,
    Forbidden,
    Invalid,
    Required,
}

impl CelRule {
    /// Reads a rule of the node `schema`.
    pub(crate) fn read(rule: SchemaNode<'_>, schema: SchemaNode<'_>) -> Self {
        let path = rule.text("fieldPath");
        let field_path = resolve_field_path(schema, path, true).map(|(shown, _)| shown);
        Self {
            rule: rule.text("rule").into(),
            message: rule.text("message").into(),
            message_expression: rule.text("messageExpression").into(),
            reason: match rule.text("reason") {
                "FieldValueDuplicate" => Some(RuleReason::Duplicate),
                "FieldValueForbidden" => Some(RuleReason::Forbidden),
                "FieldValueInvalid" => Some(RuleReason::Invalid),
                "FieldValueRequired" => Some(RuleReason::Required),
                _ => None,
            },
            field_path: field_path.unwrap_or_default().into(),
            has_optional_old_self: rule.is_set("optionalOldSelf"),
            parsed: OnceLock::new(),
        }
    }

    /// The parsed expressions. A definition that was checked has no others.
    pub(crate) fn parsed(&self) -> Result<&ParsedRule, &str> {
        let parsed = self.parsed.get_or_init(|| {
            let rule = parse(&self.rule)?;
            let message = match &*self.message_expression {
                "" => None,
                text => parse(text).ok(),
            };
            let uses_old_self = mentions(&rule, "oldSelf");
            Ok(ParsedRule { rule, uses_old_self, message })
        });
        parsed.as_ref().map_err(String::as_str)
    }

    /// The rule in an error: its message if it has one.
    pub(crate) fn shown(&self) -> &str {
        let message = self.message.trim();
        if message.is_empty() { self.rule.trim() } else { message }
    }
}

impl Clone for CelRule {
    fn clone(&self) -> Self {
        Self {
            rule: self.rule.clone(),
            message: self.message.clone(),
            message_expression: self.message_expression.clone(),
            reason: self.reason,
            field_path: self.field_path.clone(),
            has_optional_old_self: self.has_optional_old_self,
            parsed: OnceLock::new(),
        }
    }
}

impl PartialEq for CelRule {
    fn eq(&self, other: &Self) -> bool {
        self.rule == other.rule
            && self.message == other.message
            && self.message_expression == other.message_expression
            && self.reason == other.reason
            && self.field_path == other.field_path
            && self.has_optional_old_self == other.has_optional_old_self
    }
}

/// Whether an expression names a variable.
fn mentions(expression: &IdedExpr, name: &str) -> bool {
    has_part(expression, &mut |part| matches!(&part.expr, Expr::Ident(found) if found == name))
}

/// What a checked rule may cost, for each of its expressions.
#[derive(Default)]
pub(crate) struct RuleEstimate {
    pub(crate) rule: u64,
    pub(crate) message: Option<u64>,
    pub(crate) uses_old_self: bool,
}

/// The types that the expressions of a rule see.
struct RuleTypes<'t> {
    own: &'t CelType,
    old: CelType,
}

impl<'t> RuleTypes<'t> {
    fn new(own: &'t CelType, has_optional_old_self: bool) -> Self {
        let old = match has_optional_old_self {
            true => CelType::Optional(Arc::new(own.clone())),
            false => own.clone(),
        };
        Self { own, old }
    }

    fn compile(&self, text: &str) -> Result<(IdedExpr, CheckedExpression), String> {
        let root = parse(text)?;
        let checked = check(&root, self.own, &self.old);
        checked.map(|checked| (root, checked)).map_err(|problems| placed(text, &problems))
    }

    /// Compiles a rule, or says what is wrong with it.
    fn rule(&self, text: &str) -> Result<CheckedExpression, String> {
        let (root, checked) =
            self.compile(text).map_err(|problem| format!("compilation failed: {problem}"))?;
        if !matches!(checked.cel_type, CelType::Bool) {
            return Err("cel expression must evaluate to a bool".to_owned());
        }
        match instantiation_problem(&root) {
            Some(problem) => Err(format!("program instantiation failed: {problem}")),
            None => Ok(checked),
        }
    }

    fn message(&self, text: &str) -> Result<CheckedExpression, String> {
        let (root, checked) = self
            .compile(text)
            .map_err(|problem| format!("messageExpression compilation failed: {problem}"))?;
        if !matches!(checked.cel_type, CelType::Text(_)) {
            return Err("messageExpression must evaluate to a string".to_owned());
        }
        match instantiation_problem(&root) {
            Some(problem) => Err(format!("messageExpression instantiation failed: {problem}")),
            None => Ok(checked),
        }
    }
}

impl CelRule {
    /// What is wrong with the rule of a value of this type, as of a rule that was not checked.
    pub(crate) fn compile_problem(&self, self_type: &CelType) -> Option<String> {
        RuleTypes::new(self_type, self.has_optional_old_self).rule(&self.rule).err()
    }
}

/// Compiles a rule against the type of its node. Reports what is wrong with it at `path`. A rule
/// that is wrong costs nothing, and uses no old value.
pub(crate) fn check_rule(
    rule: SchemaNode<'_>,
    self_type: &CelType,
    path: &str,
    errors: &mut ErrorList,
) -> RuleEstimate {
    let text = rule.text("rule");
    if text.trim().is_empty() {
        return RuleEstimate::default();
    }
    let types = RuleTypes::new(self_type, rule.is_set("optionalOldSelf"));
    let mut refuse = |keyword: &str, detail: String| {
        errors.push(FieldError {
            field: format!("{path}.{keyword}"),
            problem: FieldProblem::Invalid(internal_rule(rule.value())),
            detail,
        });
    };
    let checked = match types.rule(text) {
        Ok(checked) => checked,
        Err(problem) => {
            refuse("rule", problem);
            return RuleEstimate::default();
        }
    };
    let expression = rule.text("messageExpression");
    let message = match (expression.trim().is_empty(), types.message(expression)) {
        (true, _) => None,
        (false, Ok(message)) => Some(message.cost_max),
        (false, Err(problem)) => {
            refuse("messageExpression", problem);
            None
        }
    };
    RuleEstimate { rule: checked.cost_max, message, uses_old_self: checked.uses_old_self }
}
