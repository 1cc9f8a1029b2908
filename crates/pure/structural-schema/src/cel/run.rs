//! Runs the rules of an object, within a budget (apiextensions-apiserver `schema/cel`).

use std::{
    cell::{OnceCell, RefCell},
    rc::Rc,
};

use cel::common::ast::IdedExpr;
use rekindle_types::validation::{FieldError, field_error::FieldProblem};
use serde_json::Value;

use super::{
    cost::OBJECT_COST_MAX,
    eval::{EvalError, Evaluation, SharedWork},
    rule::{CelRule, ParsedRule, RuleReason},
    types::declare,
    value::{CelValue, from_json},
};
use crate::{
    AdditionalFields, StructuralSchema,
    error_list::ErrorList,
    shown::shown,
    validation::{OldItems, ValuePath, field_below, has_blocking_error, is_unchanged},
};

/// How long a message may be that a rule computes, in bytes.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;
const OVER_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

impl StructuralSchema {
    /// Runs the rules (`x-kubernetes-validations`) of a whole object. `earlier` are the errors that
    /// were found before: some of them keep the rules from being run.
    pub(crate) fn validate_rules(
        &self,
        earlier: &[FieldError],
        new: &Value,
        old: Option<&Value>,
    ) -> Vec<FieldError> {
        if !self.has_rules {
            return Vec::new();
        }
        if has_blocking_error(earlier) {
            return vec![FieldError {
                field: field_below("", ""),
                problem: FieldProblem::Invalid("null".to_owned()),
                detail: "some validation rules were not checked because the object was invalid; \
                         correct the existing errors to complete validation"
                    .to_owned(),
            }];
        }
        self.run_rules("", RulesChecked::Before, true, (new, old))
    }

    /// Runs the rules of a value that lies at the field `prefix`.
    pub(crate) fn run_rules(
        &self,
        prefix: &str,
        checked: RulesChecked,
        is_resource: bool,
        (new, old): (&Value, Option<&Value>),
    ) -> Vec<FieldError> {
        let shared = RefCell::default();
        let mut run = RuleRun {
            prefix,
            checked,
            shared: &shared,
            budget: Some(OBJECT_COST_MAX),
            errors: ErrorList::default(),
        };
        let current = old.map(|old| OldPair::new(self, new, old));
        let correlation = Correlation { current, parent: None };
        run.node(self, is_resource, (new, old), &correlation, &ValuePath::Root);
        run.errors.into_vec()
    }
}

/// When the types of rules are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RulesChecked {
    /// They were, when the definition was written.
    Before,
    /// They are now: the definition is being written, and a default is looked at first.
    Now,
}

/// A value with its old value and their schema.
struct OldPair<'a> {
    schema: &'a StructuralSchema,
    new: &'a Value,
    old: &'a Value,
    /// Found once, however many rules below ask.
    is_unchanged: OnceCell<bool>,
}

impl<'a> OldPair<'a> {
    fn new(schema: &'a StructuralSchema, new: &'a Value, old: &'a Value) -> Rc<Self> {
        Rc::new(Self { schema, new, old, is_unchanged: OnceCell::new() })
    }
}

/// What a value was before. An error of a value that did not change is not reported.
#[derive(Default)]
struct Correlation<'a> {
    current: Option<Rc<OldPair<'a>>>,
    /// The nearest value above that has an old one.
    parent: Option<Rc<OldPair<'a>>>,
}

impl<'a> Correlation<'a> {
    fn is_unchanged(&self) -> bool {
        let pair = self.current.as_ref().or(self.parent.as_ref());
        pair.is_some_and(|pair| {
            *pair.is_unchanged.get_or_init(|| is_unchanged(pair.schema, pair.new, pair.old))
        })
    }

    fn field(&self, name: &str) -> Self {
        let Some(pair) = &self.current else { return self.below(None) };
        if self.parent.is_none() && matches!(name, "apiVersion" | "kind") {
            return Self::default();
        }
        self.below((|| {
            Some(OldPair::new(
                pair.schema.of_field(name)?,
                pair.new.get(name)?,
                pair.old.get(name)?,
            ))
        })())
    }

    fn item(&self, new: &'a Value, old: Option<&'a Value>) -> Self {
        let Some(pair) = &self.current else { return self.below(None) };
        self.below((|| Some(OldPair::new(pair.schema.items.as_deref()?, new, old?)))())
    }

    fn below(&self, current: Option<Rc<OldPair<'a>>>) -> Self {
        Self { current, parent: self.current.clone().or_else(|| self.parent.clone()) }
    }
}

struct RuleRun<'a, 'p> {
    prefix: &'p str,
    checked: RulesChecked,
    shared: &'a RefCell<SharedWork>,
    /// What may still be spent; nothing once it ran out.
    budget: Option<u64>,
    errors: ErrorList,
}

impl<'a> RuleRun<'a, '_> {
    fn node(
        &mut self,
        schema: &'a StructuralSchema,
        is_resource: bool,
        (new, old): (&'a Value, Option<&'a Value>),
        correlation: &Correlation<'a>,
        path: &ValuePath<'_>,
    ) {
        if !schema.has_rules || new.is_null() || self.is_over() {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        let node = RuleNode { schema, is_resource, new, old, correlation };
        for rule in &schema.rules {
            if self.is_over() {
                return;
            }
            self.rule(rule, &node, path);
        }
        match new {
            Value::Object(fields) => {
                let old_of = |name: &str| old.and_then(|old| old.get(name));
                if let Some(AdditionalFields::Schema(of_value)) = schema.additional.as_deref() {
                    for (name, field) in fields {
                        let values = (field, old_of(name));
                        let place = ValuePath::Key(path, name);
                        let correlation = correlation.field(name);
                        let is_resource = of_value.is_embedded_resource;
                        self.node(of_value, is_resource, values, &correlation, &place);
                    }
                }
                for (name, field) in fields {
                    let Some(property) = schema.properties.get(name.as_str()) else { continue };
                    let values = (field, old_of(name));
                    let place = ValuePath::Field(path, name);
                    let correlation = correlation.field(name);
                    let is_resource = property.is_embedded_resource;
                    self.node(property, is_resource, values, &correlation, &place);
                }
            }
            Value::Array(items) => {
                let Some(of_item) = schema.items.as_deref() else { return };
                let old_items = OldItems::new(schema, old);
                for (at, item) in items.iter().enumerate() {
                    let old = old_items.get(item);
                    let place = ValuePath::Index(path, at);
                    let correlation = correlation.item(item, old);
                    let is_resource = of_item.is_embedded_resource;
                    self.node(of_item, is_resource, (item, old), &correlation, &place);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn rule(&mut self, rule: &'a CelRule, node: &RuleNode<'a, '_>, path: &ValuePath<'_>) {
        let prefix = self.prefix;
        let field = || match path.text() {
            path if path.starts_with('[') => format!("{prefix}{path}"),
            path => field_below(prefix, &path),
        };
        let type_name = node.schema.value_type.map_or("", |known| known.name());
        let refused = |detail: String| FieldError::invalid(field(), type_name, detail);
        let unchecked = match self.checked {
            RulesChecked::Before => None,
            RulesChecked::Now => declare(node.schema, node.is_resource)
                .and_then(|declared| rule.compile_problem(&declared.cel_type)),
        };
        let parsed = match unchecked.map_or_else(|| rule.parsed().map_err(str::to_owned), Err) {
            Ok(parsed) => parsed,
            Err(problem) => {
                self.errors.push(refused(format!("rule compile error: {problem}")));
                return;
            }
        };
        if parsed.uses_old_self && node.old.is_none() && !rule.has_optional_old_self {
            return;
        }
        let (result, cost) = self.evaluate(&parsed.rule, rule, parsed, node);
        if !self.spend(cost) {
            self.errors.push(refused(OVER_BUDGET.to_owned()));
            return;
        }
        let problem = match result {
            Ok(CelValue::Bool(true)) => return,
            Ok(CelValue::Bool(false)) => {
                if let Some(error) = self.failed(rule, parsed, node, &field()) {
                    self.errors.push(error);
                }
                return;
            }
            Ok(_) => "no such overload".to_owned(),
            Err(EvalError::TooExpensive) => {
                self.budget = None;
                self.errors.push(refused(format!(
                    "'operation cancelled: actual cost limit exceeded': no further validation \
                     rules will be run due to call cost exceeds limit for rule: {}",
                    rule.shown()
                )));
                return;
            }
            Err(EvalError::Failed(problem)) => problem,
        };
        let detail = if problem.starts_with("no such overload") {
            format!(
                "'{problem}': call arguments did not match a supported operator, function or \
                 macro signature for rule: {}",
                rule.shown()
            )
        } else {
            format!("{problem} evaluating rule: {}", rule.shown())
        };
        self.errors.push(refused(detail));
    }

    /// Whether nothing more is run: the budget ran out, or there are errors enough.
    fn is_over(&self) -> bool {
        self.budget.is_none() || self.errors.is_full()
    }

    /// Takes a cost from the budget. Says whether there was enough.
    fn spend(&mut self, cost: u64) -> bool {
        self.budget = self.budget.and_then(|budget| budget.checked_sub(cost));
        self.budget.is_some()
    }

    fn evaluate(
        &self,
        expression: &'a IdedExpr,
        rule: &CelRule,
        parsed: &ParsedRule,
        node: &RuleNode<'a, '_>,
    ) -> (Result<CelValue<'a>, EvalError>, u64) {
        let value = |value: &'a Value| from_json(value, Some(node.schema), node.is_resource);
        let old_self = match (rule.has_optional_old_self, node.old) {
            (true, old) => Some(CelValue::Optional(old.map(|old| value(old).into()))),
            (false, Some(old)) if parsed.uses_old_self => Some(value(old)),
            (false, _) => None,
        };
        let mut evaluation = Evaluation::new(self.shared, value(node.new), old_self);
        let result = evaluation.run(expression);
        (result, evaluation.cost())
    }

    /// The error of a rule that is not met. None, if it was not met before either.
    fn failed(
        &mut self,
        rule: &'a CelRule,
        parsed: &'a ParsedRule,
        node: &RuleNode<'a, '_>,
        field: &str,
    ) -> Option<FieldError> {
        let field = match &*rule.field_path {
            "" => field.to_owned(),
            below if field == "<nil>" => below.to_owned(),
            below => format!("{field}.{below}"),
        };
        let message = parsed.message.as_ref().map(|expression| {
            let (result, cost) = self.evaluate(expression, rule, parsed, node);
            self.message(result, cost, rule)
        });
        let is_kept = !parsed.uses_old_self && node.correlation.is_unchanged();
        let detail = match message {
            Some(Err(problem)) => {
                let type_name = node.schema.value_type.map_or("", |known| known.name());
                return (!is_kept).then(|| FieldError::invalid(field, type_name, problem));
            }
            Some(Ok(Some(message))) => message,
            Some(Ok(None)) | None if rule.message.is_empty() => {
                format!("failed rule: {}", rule.shown())
            }
            Some(Ok(None)) | None => rule.message.trim().to_owned(),
        };
        if is_kept {
            return None;
        }
        let value = match node.new {
            Value::Object(_) | Value::Array(_) => String::new(),
            scalar => shown(scalar),
        };
        let problem = match rule.reason {
            Some(RuleReason::Forbidden) => FieldProblem::Forbidden,
            Some(RuleReason::Required) => FieldProblem::Required,
            Some(RuleReason::Duplicate) => {
                let problem = FieldProblem::Duplicate(value);
                return Some(FieldError { field, problem, detail: String::new() });
            }
            Some(RuleReason::Invalid) | None => FieldProblem::Invalid(value),
        };
        Some(FieldError { field, problem, detail })
    }

    /// The computed message of a rule: nothing, if it cannot be used. An error ends the run.
    fn message(
        &mut self,
        result: Result<CelValue<'a>, EvalError>,
        cost: u64,
        rule: &CelRule,
    ) -> Result<Option<String>, String> {
        if !self.spend(cost) {
            return Err("messageExpression evaluation failed due to running out of cost budget, \
                        no further validation rules will be run"
                .to_owned());
        }
        match result {
            Err(EvalError::TooExpensive) => {
                self.budget = None;
                Err(format!(
                    "no further validation rules will be run due to call cost exceeds limit for \
                     messageExpression: {:?}",
                    rule.message_expression
                ))
            }
            Ok(CelValue::Text(message)) => {
                let message = message.trim();
                let is_usable = !message.is_empty()
                    && message.len() <= MESSAGE_BYTES_MAX
                    && !message.contains('\n');
                Ok(is_usable.then(|| message.to_owned()))
            }
            Ok(_) | Err(EvalError::Failed(_)) => Ok(None),
        }
    }
}

/// The value that a rule is about.
struct RuleNode<'a, 'c> {
    schema: &'a StructuralSchema,
    is_resource: bool,
    new: &'a Value,
    old: Option<&'a Value>,
    correlation: &'c Correlation<'a>,
}
