//! Compiles the rules of a schema, and adds up what they may cost.

use rekindle_types::validation::{FieldError, field_error::FieldProblem};
use serde_json::Value;

use super::walk::{RulePlace, SchemaPlace};
use crate::{
    cel::{
        cost::{RULE_ESTIMATE_MAX, SCHEMA_ESTIMATE_MAX, over_budget},
        rule::check_rule,
        types::{Declared, declare},
    },
    error_list::ErrorList,
    schema_node::SchemaNode,
};

/// How many of the most expensive rules are named.
const NAMED_MAX: usize = 4;

/// What is wrong with rules, and what they cost together.
#[derive(Default)]
pub(super) struct RuleChecks {
    errors: ErrorList,
    total: u64,
    most_expensive: Vec<(u64, String)>,
}

impl RuleChecks {
    /// Checks the rules of a node.
    pub(super) fn node(&mut self, node: SchemaNode<'_>, place: &SchemaPlace<'_>) {
        let Some(rules) = place.rules.filter(|rules| !rules.node.rules.is_empty()) else { return };
        let is_resource = place.is_root || node.is_embedded_resource();
        let Some(declared) = declare(rules.node, is_resource) else {
            self.errors.push(FieldError {
                field: format!("{}.x-kubernetes-validations", place.path),
                problem: FieldProblem::Internal,
                detail: "internal error: failed to construct type information for \
                         x-kubernetes-validations rules: unable to convert structural schema to \
                         CEL declarations"
                    .to_owned(),
            });
            return;
        };
        for (at, rule) in node.schemas("x-kubernetes-validations").enumerate() {
            if self.errors.is_full() {
                return;
            }
            let path = format!("{}.x-kubernetes-validations[{at}]", place.path);
            self.rule(rule, &path, rules, &declared, place);
        }
    }

    fn rule(
        &mut self,
        rule: SchemaNode<'_>,
        path: &str,
        rules: RulePlace<'_>,
        declared: &Declared,
        place: &SchemaPlace<'_>,
    ) {
        let mut found = ErrorList::default();
        let estimate = check_rule(rule, &declared.cel_type, path, &mut found);
        let count = rules.count_max.unwrap_or_else(|| declared.count_max());
        let cost = estimate.rule.saturating_mul(count);
        self.observe(&format!("{path}.rule"), "estimated rule cost", cost);
        self.errors.extend(found.into_vec());
        if let Some(cost) = estimate.message {
            let field = format!("{path}.messageExpression");
            self.observe(&field, "estimated messageExpression cost", cost);
        }
        match (estimate.uses_old_self, &place.uncorrelated_below) {
            (true, Some(list)) => {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                );
                let text = rule.text("rule");
                self.errors.push(FieldError::invalid(format!("{path}.rule"), text, detail));
            }
            (false, _) if rule.get("optionalOldSelf").is_some() => {
                let is_set = rule.get("optionalOldSelf") == Some(&Value::Bool(true));
                self.errors.push(FieldError {
                    field: format!("{path}.optionalOldSelf"),
                    problem: FieldProblem::Invalid(is_set.to_string()),
                    detail: "may not be set if oldSelf is not used in rule".to_owned(),
                });
            }
            (true, None) | (false, _) => {}
        }
    }

    /// Adds a cost, and refuses an expression that costs too much alone.
    fn observe(&mut self, field: &str, what: &str, cost: u64) {
        if cost > RULE_ESTIMATE_MAX {
            let detail = over_budget(what, cost, RULE_ESTIMATE_MAX);
            self.errors.push(FieldError::forbidden(field, detail));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= SCHEMA_ESTIMATE_MAX / 100 {
            self.most_expensive.push((cost, field.to_owned()));
            self.most_expensive.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
            self.most_expensive.truncate(NAMED_MAX);
        }
    }

    /// All errors, with those of the schema as a whole.
    pub(super) fn finish(self, path: &str) -> Vec<FieldError> {
        let mut errors = self.errors.into_vec();
        if self.total > SCHEMA_ESTIMATE_MAX {
            for (_, field) in self.most_expensive {
                let detail = "contributed to estimated rule cost total exceeding cost limit for \
                              entire OpenAPIv3 schema";
                errors.push(FieldError::forbidden(field, detail));
            }
            let what =
                "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
            let detail = over_budget(what, self.total, SCHEMA_ESTIMATE_MAX);
            errors.push(FieldError::forbidden(path, detail));
        }
        errors
    }
}
