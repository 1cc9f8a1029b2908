//! What the texts of a rule (`x-kubernetes-validations`) may be, before it is compiled.

use rekindle_types::validation::FieldError;
use serde_json::Value;

use super::field_path::resolve;
use crate::{error_list::ErrorList, schema_node::SchemaNode};

const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Reports what is wrong with the texts of each rule of a node.
pub(super) fn check(node: SchemaNode<'_>, path: &str, errors: &mut ErrorList) {
    for (at, rule) in node.schemas("x-kubernetes-validations").enumerate() {
        let place = format!("{path}.x-kubernetes-validations[{at}]");
        check_rule(rule, &place, errors);
        let field_path = rule.text("fieldPath");
        let mut refuse = |detail: &str| {
            let field = format!("{place}.fieldPath");
            errors.push(FieldError::invalid(field, field_path, detail));
        };
        if field_path.is_empty() {
            continue;
        }
        if field_path.trim().is_empty() {
            refuse("must be non-empty if specified");
        }
        if has_line_break(field_path) {
            refuse("must not contain line breaks");
        }
        if resolve(node, field_path, true).is_err() {
            refuse("must be a valid path");
        }
    }
}

fn check_rule(rule: SchemaNode<'_>, path: &str, errors: &mut ErrorList) {
    let (text, message) = (rule.text("rule"), rule.text("message"));
    let message_field = format!("{path}.message");
    if text.trim().is_empty() {
        errors.push(FieldError::required(format!("{path}.rule"), "rule is not specified"));
    } else if !message.is_empty() && message.trim().is_empty() {
        let detail = "must be non-empty if specified";
        errors.push(FieldError::invalid(message_field, message, detail));
    } else if has_line_break(message.trim()) {
        let detail = "must not contain line breaks";
        errors.push(FieldError::invalid(message_field, message, detail));
    } else if has_line_break(text.trim()) && message.trim().is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        errors.push(FieldError::required(message_field, detail));
    }
    let expression = rule.text("messageExpression");
    if !expression.is_empty() && expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(format!("{path}.messageExpression"), detail));
    }
    if let Some(reason) = rule.get("reason").and_then(Value::as_str)
        && !REASONS.contains(&reason)
    {
        errors.push(FieldError::not_supported(format!("{path}.reason"), reason, &REASONS));
    }
}

fn has_line_break(text: &str) -> bool {
    text.contains(['\n', '\r'])
}
