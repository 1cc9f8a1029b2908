//! One rule, as it was written and as it runs.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use cel::common::ast::IdedExpr;
use rekindle_types::validation::{FieldError, field_error::FieldProblem};
use serde_json::{Value, json};

use super::{
    check::{CheckedExpression, check},
    parse::{parse, placed},
    types::CelType,
};
use crate::{
    definition::resolve_field_path, error_list::ErrorList, schema_node::SchemaNode,
    shown::json as shown_json,
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
    use cel::common::ast::{EntryExpr, Expr};
    match &expression.expr {
        Expr::Ident(found) => found == name,
        Expr::Select(select) => mentions(&select.operand, name),
        Expr::Call(call) => {
            call.target.iter().any(|target| mentions(target, name))
                || call.args.iter().any(|argument| mentions(argument, name))
        }
        Expr::List(list) => list.elements.iter().any(|element| mentions(element, name)),
        Expr::Map(map) => map.entries.iter().any(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => {
                mentions(&entry.key, name) || mentions(&entry.value, name)
            }
            EntryExpr::StructField(field) => mentions(&field.value, name),
        }),
        Expr::Comprehension(fold) => {
            let parts =
                [&fold.iter_range, &fold.accu_init, &fold.loop_cond, &fold.loop_step, &fold.result];
            parts.into_iter().any(|part| mentions(part, name))
        }
        Expr::Struct(_) | Expr::Literal(_) | Expr::Unspecified => false,
    }
}

/// What a checked rule may cost, for each of its expressions.
pub(crate) struct RuleEstimate {
    pub(crate) rule: u64,
    pub(crate) message: Option<u64>,
    pub(crate) uses_old_self: bool,
}

/// Compiles a rule against the type of its node. Reports what is wrong with it at `path`.
pub(crate) fn check_rule(
    rule: SchemaNode<'_>,
    self_type: &CelType,
    path: &str,
    errors: &mut ErrorList,
) -> Option<RuleEstimate> {
    let text = rule.text("rule");
    if text.trim().is_empty() {
        return None;
    }
    let old_self = if rule.is_set("optionalOldSelf") {
        CelType::Optional(Arc::new(self_type.clone()))
    } else {
        self_type.clone()
    };
    let compile = |text: &str| {
        let root = parse(text)?;
        check(&root, self_type, &old_self).map_err(|problems| placed(text, &problems))
    };
    let mut refuse = |keyword: &str, detail: String| {
        errors.push(FieldError {
            field: format!("{path}.{keyword}"),
            problem: FieldProblem::Invalid(go_rule(rule)),
            detail,
        });
    };
    let checked: CheckedExpression = match compile(text) {
        Ok(checked) if matches!(checked.cel_type, CelType::Bool | CelType::Any(_)) => checked,
        Ok(_) => {
            refuse("rule", "cel expression must evaluate to a bool".to_owned());
            return None;
        }
        Err(problem) => {
            refuse("rule", format!("compilation failed: {problem}"));
            return None;
        }
    };
    let expression = rule.text("messageExpression");
    let message = match (expression.trim().is_empty(), compile(expression)) {
        (true, _) => None,
        (false, Ok(message)) if matches!(message.cel_type, CelType::Text(_)) => {
            Some(message.cost_max)
        }
        (false, Ok(_)) => {
            let detail = "messageExpression must evaluate to a string".to_owned();
            refuse("messageExpression", detail);
            None
        }
        (false, Err(problem)) => {
            refuse("messageExpression", format!("messageExpression compilation failed: {problem}"));
            None
        }
    };
    Some(RuleEstimate { rule: checked.cost_max, message, uses_old_self: checked.uses_old_self })
}

/// A rule as upstream's errors show it: the fields of a struct, in their order.
fn go_rule(rule: SchemaNode<'_>) -> String {
    let text = |name: &str| shown_json(&json!(rule.text(name)));
    let value = |name: &str| shown_json(rule.get(name).unwrap_or(&Value::Null));
    format!(
        r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{},"FieldPath":{},"OptionalOldSelf":{}}}"#,
        text("rule"),
        text("message"),
        text("messageExpression"),
        value("reason"),
        text("fieldPath"),
        value("optionalOldSelf"),
    )
}
