//! Checks the types of an expression, and estimates what it costs at most.
//!
//! The library `cel` has neither. Types come from the schema, as upstream declares them; the cost
//! follows cel-go's `checker/cost.go`, which counts the worst case of each part.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr,
};

use super::{
    cost, messages,
    parse::{ExpressionProblem, PROBLEMS_MAX},
    policy::ComposedName,
    signatures::{self, Signature},
    types::CelType,
};

pub(super) static FUNCTIONS: LazyLock<BTreeMap<&'static str, Vec<Signature>>> =
    LazyLock::new(signatures::all);

/// A part of an expression: its type, and its cost at most.
#[derive(Clone, Debug)]
pub(super) struct Checked {
    pub(super) cel_type: CelType,
    pub(super) cost: u64,
}

impl Checked {
    pub(super) fn new(cel_type: CelType, cost: u64) -> Self {
        Self { cel_type, cost }
    }
}

/// An expression that was found right.
#[derive(Debug)]
pub(crate) struct CheckedExpression {
    pub(crate) cel_type: CelType,
    pub(crate) cost_max: u64,
    pub(crate) uses_old_self: bool,
    /// How deep the variables of a policy nest that it uses.
    pub(super) composed_depth: usize,
}

/// Checks an expression. `self` and `oldSelf` have the given types.
pub(crate) fn check(
    root: &IdedExpr,
    self_type: &CelType,
    old_self: &CelType,
) -> Result<CheckedExpression, Vec<ExpressionProblem>> {
    let variables =
        vec![("self".to_owned(), self_type.clone()), ("oldSelf".to_owned(), old_self.clone())];
    check_with(root, KnownNames { variables, composed: None, has_messages: false })
}

/// What an expression may name.
pub(super) struct KnownNames<'n> {
    pub(super) variables: Vec<(String, CelType)>,
    /// The fields of `variables`, in a policy.
    pub(super) composed: Option<&'n BTreeMap<String, ComposedName>>,
    /// Whether objects can be made by the names of their types.
    pub(super) has_messages: bool,
}

/// Checks an expression that may use these names.
pub(super) fn check_with(
    root: &IdedExpr,
    names: KnownNames<'_>,
) -> Result<CheckedExpression, Vec<ExpressionProblem>> {
    let KnownNames { variables, composed, has_messages } = names;
    let mut checker = Checker {
        variables,
        composed,
        composed_depth: 0,
        has_messages,
        uses_old_self: false,
        problems: Vec::new(),
    };
    let Checked { cel_type, cost } = checker.expression(root);
    if !checker.problems.is_empty() {
        return Err(checker.problems);
    }
    let Checker { uses_old_self, composed_depth, .. } = checker;
    Ok(CheckedExpression { cel_type, cost_max: cost, uses_old_self, composed_depth })
}

pub(super) struct Checker<'a> {
    variables: Vec<(String, CelType)>,
    composed: Option<&'a BTreeMap<String, ComposedName>>,
    composed_depth: usize,
    pub(super) has_messages: bool,
    uses_old_self: bool,
    problems: Vec<ExpressionProblem>,
}

/// How deep a type may nest. A schema makes types of 64 levels.
const TYPE_DEPTH_MAX: usize = 100;

/// Names of types, which are values too.
const TYPE_NAMES: [&str; 11] = [
    "bool",
    "bytes",
    "double",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "type",
    "uint",
    "optional_type",
];

impl Checker<'_> {
    /// Reports a problem. The part counts as any type, so that it is reported once.
    pub(super) fn problem(&mut self, part: u64, problem: impl Into<String>) -> Checked {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(ExpressionProblem { part, problem: problem.into() });
        }
        Checked::new(CelType::ANY, 0)
    }

    /// Checks a part. Nothing more is looked at once there are problems enough.
    pub(super) fn expression(&mut self, expression: &IdedExpr) -> Checked {
        if self.problems.len() >= PROBLEMS_MAX {
            return Checked::new(CelType::ANY, 0);
        }
        let checked = self.part(expression);
        if checked.cel_type.depth() > TYPE_DEPTH_MAX {
            return self.problem(expression.id, "the type of the expression nests too deep");
        }
        checked
    }

    fn part(&mut self, expression: &IdedExpr) -> Checked {
        let id = expression.id;
        match &expression.expr {
            Expr::Literal(literal) => Checked::new(literal_type(literal), 0),
            Expr::Ident(name) => self.variable(id, name),
            Expr::Select(select) => self.select(id, select),
            Expr::Call(call) => self.call(id, call),
            Expr::List(list) => {
                let mut cost = cost::NEW_LIST;
                let mut item: Option<CelType> = None;
                for (at, element) in list.elements.iter().enumerate() {
                    let mut checked = self.expression(element);
                    cost = cost.saturating_add(checked.cost);
                    if list.optional_indices.contains(&at)
                        && let CelType::Optional(inner) = &checked.cel_type
                    {
                        checked.cel_type = inner.as_ref().clone();
                    }
                    item = Some(self.same(element.id, item, checked.cel_type));
                }
                let size = list.elements.len() as u64;
                let item = Arc::new(item.unwrap_or(CelType::ANY));
                Checked::new(CelType::List(item, size), cost)
            }
            Expr::Map(map) => {
                let mut cost = cost::NEW_MAP;
                let (mut key, mut value) = (None, None);
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else {
                        return self.problem(id, "a map has entries only");
                    };
                    let (k, v) = (self.expression(&entry.key), self.expression(&entry.value));
                    cost = cost.saturating_add(k.cost).saturating_add(v.cost);
                    let v_type = match (entry.optional, v.cel_type) {
                        (true, CelType::Optional(inner)) => inner.as_ref().clone(),
                        (_, other) => other,
                    };
                    if !k.cel_type.can_be_key() {
                        let problem = format!("unsupported type '{}' of a map key", k.cel_type);
                        self.problem(entry.key.id, problem);
                    }
                    key = Some(self.same(entry.key.id, key, k.cel_type));
                    value = Some(self.same(entry.value.id, value, v_type));
                }
                let size = map.entries.len() as u64;
                let inner = |part: Option<CelType>| Arc::new(part.unwrap_or(CelType::ANY));
                Checked::new(CelType::Map(inner(key), inner(value), size), cost)
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Struct(message) => self.message(id, message),
            Expr::Unspecified => self.problem(id, "the expression is incomplete"),
        }
    }

    /// The type of elements that must all be of one type.
    fn same(&mut self, id: u64, first: Option<CelType>, next: CelType) -> CelType {
        let Some(first) = first else { return next };
        if !first.is_like(&next) {
            self.problem(id, format!("expected type '{first}' but found '{next}'"));
        }
        first.or(next)
    }

    fn variable(&mut self, id: u64, name: &str) -> Checked {
        if let Some(found) = self.lookup(name) {
            if name == "oldSelf" {
                self.uses_old_self = true;
            }
            return Checked::new(found, cost::SELECT);
        }
        if TYPE_NAMES.contains(&name) {
            return Checked::new(CelType::TypeName, cost::SELECT);
        }
        self.problem(id, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn lookup(&self, name: &str) -> Option<CelType> {
        let found = self.variables.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, cel_type)| cel_type.clone())
    }

    fn select(&mut self, id: u64, select: &SelectExpr) -> Checked {
        if is_type_name(select) {
            return Checked::new(CelType::TypeName, cost::SELECT);
        }
        if messages::is_request_resource(&select.operand, &select.field)
            && let Some(known) = self.lookup(messages::REQUEST_RESOURCE)
        {
            return Checked::new(known, cost::SELECT);
        }
        let operand = self.expression(&select.operand);
        let (field, is_optional) = match &operand.cel_type {
            CelType::Optional(inner) => (self.field(id, inner, &select.field), true),
            other => (self.field(id, other, &select.field), false),
        };
        if select.test {
            return Checked::new(CelType::Bool, operand.cost);
        }
        let own = match operand.cel_type {
            CelType::Map(..) | CelType::Object(_) => cost::SELECT,
            _ => 0,
        };
        let cel_type = if is_optional { CelType::Optional(Arc::new(field)) } else { field };
        Checked::new(cel_type, operand.cost.saturating_add(own))
    }

    /// The type of a field.
    fn field(&mut self, id: u64, of: &CelType, name: &str) -> CelType {
        match of {
            CelType::Object(fields) => match fields.get(name) {
                Some(field) => field.clone(),
                None => self.problem(id, format!("undefined field '{name}'")).cel_type,
            },
            CelType::Map(_, value, _) => value.as_ref().clone(),
            CelType::Any(_) => CelType::ANY,
            CelType::Message(message) if **message == *messages::COMPOSED => {
                match self.composed.and_then(|composed| composed.get(name)) {
                    Some(known) => {
                        self.composed_depth = self.composed_depth.max(known.depth);
                        known.cel_type.clone()
                    }
                    None => self.problem(id, format!("undefined field '{name}'")).cel_type,
                }
            }
            CelType::Message(message) => match messages::field_type(message, name) {
                Some(field) => field,
                None => self.problem(id, format!("undefined field '{name}'")).cel_type,
            },
            other => {
                let problem = format!("type '{other}' does not support field selection");
                self.problem(id, problem).cel_type
            }
        }
    }

    fn comprehension(&mut self, fold: &ComprehensionExpr) -> Checked {
        let range = self.expression(&fold.iter_range);
        let item = self.range_item(fold.iter_range.id, &range.cel_type);
        let start = self.expression(&fold.accu_init);
        let depth = self.variables.len();
        self.variables.push((fold.accu_var.clone(), start.cel_type.clone()));
        self.variables.push((fold.iter_var.clone(), item));
        let condition = self.expression(&fold.loop_cond);
        let step = self.expression(&fold.loop_step);
        self.variables.truncate(depth);
        let size = range.cel_type.size();
        let result_type = match (&start.cel_type, step.cel_type) {
            (CelType::List(..), step @ CelType::List(..)) => step.with_size(size),
            (start, _) => start.clone(),
        };
        self.variables.push((fold.accu_var.clone(), result_type));
        let result = self.expression(&fold.result);
        self.variables.truncate(depth);
        let once = condition.cost.saturating_add(step.cost);
        let cost = range
            .cost
            .saturating_add(start.cost)
            .saturating_add(result.cost)
            .saturating_add(size.saturating_mul(once));
        Checked::new(result.cel_type, cost)
    }

    /// What a comprehension goes over: the items of a list, or the keys of a map.
    pub(super) fn range_item(&mut self, id: u64, range: &CelType) -> CelType {
        match range {
            CelType::List(item, _) => item.as_ref().clone(),
            CelType::Map(key, _, _) => key.as_ref().clone(),
            CelType::Any(_) => CelType::ANY,
            other => {
                let problem = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be \
                     list, map, or dynamic)"
                );
                self.problem(id, problem).cel_type
            }
        }
    }

    /// Checks a part in which variables have these types.
    pub(super) fn with_variables(
        &mut self,
        variables: &[(&str, CelType)],
        part: &IdedExpr,
    ) -> Checked {
        let depth = self.variables.len();
        let named = variables.iter().map(|(name, cel_type)| ((*name).to_owned(), cel_type.clone()));
        self.variables.extend(named);
        let checked = self.expression(part);
        self.variables.truncate(depth);
        checked
    }

    /// The name of a dotted function that a call spells, such as `sets.contains`.
    pub(super) fn dotted_name(&self, call: &CallExpr) -> Option<String> {
        let Expr::Ident(namespace) = &call.target.as_ref()?.expr else { return None };
        if self.lookup(namespace).is_some() {
            return None;
        }
        signatures::dotted(namespace, &call.func_name)
    }
}

/// Whether a selection spells the name of a type.
pub(super) fn is_type_name(select: &SelectExpr) -> bool {
    let Expr::Select(inner) = &select.operand.expr else { return false };
    let Expr::Ident(root) = &inner.operand.expr else { return false };
    root == "google"
        && inner.field == "protobuf"
        && matches!(select.field.as_str(), "Timestamp" | "Duration")
}

fn literal_type(literal: &LiteralValue) -> CelType {
    match literal {
        LiteralValue::Boolean(_) => CelType::Bool,
        LiteralValue::Bytes(bytes) => CelType::Bytes(bytes.inner().len() as u64),
        LiteralValue::Double(_) => CelType::Double,
        LiteralValue::Int(_) => CelType::Int,
        LiteralValue::Null => CelType::Null,
        LiteralValue::String(text) => CelType::Text(text.inner().chars().count() as u64),
        LiteralValue::UInt(_) => CelType::Uint,
    }
}
