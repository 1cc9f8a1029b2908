//! Evaluates expressions and counts what they cost, as cel-go counts it.
//!
//! Each step has a cost, and work that has none upstream is counted apart ([`super::work`]). So an
//! evaluation ends soon, whatever it does.

use std::{cell::RefCell, cmp::Ordering, collections::BTreeMap, rc::Rc};

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators,
};
use regex::Regex;

use super::{
    authorizer::Authorizer,
    check::is_type_name,
    check_calls::LambdaCall,
    cost::{self, CALL_COST_MAX},
    functions, messages, operations,
    policy::{PolicyVariables, VARIABLES},
    signatures,
    value::{CelList, CelMap, CelText, CelValue},
    work::{REGEX_WORK, WORK_MAX},
};
use crate::go_regex;

/// Why an expression that costs too much has no value.
pub(super) const TOO_EXPENSIVE: &str = "operation cancelled: actual cost limit exceeded";
/// How deep a value may nest that an expression makes.
const VALUE_DEPTH_MAX: usize = 100;
/// How long the text of a failure may be. Texts of objects can be in it.
const FAILURE_BYTES_MAX: usize = 512;

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EvalError {
    /// A failure of the expression, such as a division by zero.
    Failed(String),
    /// It costs too much.
    TooExpensive,
}

impl EvalError {
    pub(super) fn new(problem: impl Into<String>) -> Self {
        let mut problem = problem.into();
        problem.truncate(problem.floor_char_boundary(FAILURE_BYTES_MAX));
        Self::Failed(problem)
    }

    /// The arguments of a call have types that it does not take.
    pub(super) fn no_overload() -> Self {
        Self::new("no such overload")
    }
}

pub(super) type EvalResult<'a> = Result<CelValue<'a>, EvalError>;

/// What the evaluations for one object share.
#[derive(Default)]
pub(super) struct SharedWork {
    work: usize,
    regexes: BTreeMap<String, Result<Rc<Regex>, String>>,
}

impl SharedWork {
    pub(super) fn charge(&mut self, work: usize) -> Result<(), EvalError> {
        self.work = self.work.saturating_add(work);
        if self.work > WORK_MAX { Err(EvalError::TooExpensive) } else { Ok(()) }
    }
}

/// One evaluation.
pub(super) struct Evaluation<'a> {
    variables: Vec<(&'a str, CelValue<'a>)>,
    cost: u64,
    /// What the expression may cost.
    cost_max: u64,
    shared: &'a RefCell<SharedWork>,
    /// What a policy has beside its variables.
    policy: Option<PolicyScope<'a>>,
}

/// What the expressions of a policy may use beside its inputs.
pub(super) struct PolicyScope<'a> {
    pub(super) authorizer: &'a dyn Authorizer,
    /// The variables that the policy composes, by name. Each is evaluated when it is first used.
    pub(super) composed: &'a PolicyVariables,
    pub(super) values: BTreeMap<&'a str, EvalResult<'a>>,
    /// How many variables are inputs; those after them belong to macros.
    pub(super) inputs: usize,
    /// What the variables cost that were evaluated since the expression began.
    composed_cost: u64,
}

impl<'a> Evaluation<'a> {
    pub(super) fn new(
        shared: &'a RefCell<SharedWork>,
        self_value: CelValue<'a>,
        old_self: Option<CelValue<'a>>,
    ) -> Self {
        let old_self = old_self.map(|value| ("oldSelf", value));
        let variables = [("self", self_value)].into_iter().chain(old_self).collect();
        Self { variables, cost: 0, cost_max: CALL_COST_MAX, shared, policy: None }
    }

    /// An evaluation of a policy with these inputs.
    pub(super) fn of_policy(
        shared: &'a RefCell<SharedWork>,
        inputs: Vec<(&'a str, CelValue<'a>)>,
        authorizer: &'a dyn Authorizer,
        composed: &'a PolicyVariables,
    ) -> Self {
        let (values, inputs_count) = (BTreeMap::new(), inputs.len());
        let scope =
            PolicyScope { authorizer, composed, values, inputs: inputs_count, composed_cost: 0 };
        Self { variables: inputs, cost: 0, cost_max: CALL_COST_MAX, shared, policy: Some(scope) }
    }

    /// Runs one expression of a policy, which may cost so much. Gives what it did cost, with the
    /// variables that it was the first to use.
    pub(super) fn run_within(
        &mut self,
        expression: &'a IdedExpr,
        cost_max: u64,
    ) -> (EvalResult<'a>, u64) {
        self.cost_max = cost_max.min(CALL_COST_MAX);
        let value = self.run(expression);
        let of_composed =
            self.policy.as_mut().map_or(0, |policy| std::mem::take(&mut policy.composed_cost));
        (value, std::mem::take(&mut self.cost).saturating_add(of_composed))
    }

    /// Who answers questions about rights, if there is one.
    pub(super) fn authorizer(&self) -> Option<&'a dyn Authorizer> {
        self.policy.as_ref().map(|policy| policy.authorizer)
    }

    /// A variable that the policy composes.
    fn composed(&mut self, name: &str) -> EvalResult<'a> {
        let Some(policy) = &self.policy else { return Err(EvalError::no_overload()) };
        if let Some(known) = policy.values.get(name).cloned() {
            return self.charge(cost::SELECT).and(known);
        }
        let Some((name, expression)) = policy.composed.get_key_value(name) else {
            return Err(EvalError::new(format!("no such key: {name}")));
        };
        // a variable has a limit of its own, as each expression has
        let inputs = policy.inputs;
        let of_macros = self.variables.split_off(inputs);
        let cost = std::mem::take(&mut self.cost);
        let value = self.run(expression.root());
        let own_cost = std::mem::replace(&mut self.cost, cost);
        self.variables.extend(of_macros);
        let value = value.map_err(|problem| {
            let why = match problem {
                EvalError::Failed(why) => why,
                EvalError::TooExpensive => TOO_EXPENSIVE.to_owned(),
            };
            EvalError::new(format!("composited variable {name:?} fails to evaluate: {why}"))
        });
        if let Some(policy) = &mut self.policy {
            policy.composed_cost = policy.composed_cost.saturating_add(own_cost);
            policy.values.insert(name, value.clone());
        }
        self.charge(cost::SELECT)?;
        value
    }

    /// Whether a name stands for the variables that the policy composes.
    fn names_composed(&self, operand: &IdedExpr) -> bool {
        self.policy.as_ref().is_some_and(|policy| {
            let is_shadowed =
                self.variables[policy.inputs..].iter().any(|(known, _)| *known == VARIABLES);
            !is_shadowed && is_variable(operand, VARIABLES)
        })
    }

    /// What the evaluation cost so far.
    pub(super) fn cost(&self) -> u64 {
        self.cost
    }

    pub(super) fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.cost_max { Err(EvalError::TooExpensive) } else { Ok(()) }
    }

    /// Counts work that has no cost of its own.
    pub(super) fn charge_work(&mut self, work: usize) -> Result<(), EvalError> {
        self.shared.borrow_mut().charge(work)
    }

    pub(super) fn work_left(&self) -> usize {
        WORK_MAX.saturating_sub(self.shared.borrow().work)
    }

    /// Compiles a regular expression, once for all rules of the object.
    pub(super) fn regex(&mut self, pattern: &str) -> Result<Rc<Regex>, EvalError> {
        if let Some(compiled) = self.shared.borrow().regexes.get(pattern) {
            return compiled.clone().map_err(EvalError::new);
        }
        self.charge_work(REGEX_WORK)?;
        let compiled = go_regex::compile(pattern).map(Rc::new);
        self.shared.borrow_mut().regexes.insert(pattern.to_owned(), compiled.clone());
        compiled.map_err(EvalError::new)
    }

    /// The value of a part. What is done with values is recursive, so they nest only so deep.
    pub(super) fn run(&mut self, expression: &'a IdedExpr) -> EvalResult<'a> {
        let value = self.part(expression)?;
        if value.depth() > VALUE_DEPTH_MAX {
            return Err(EvalError::new("the value of the expression nests too deep"));
        }
        Ok(value)
    }

    fn part(&mut self, expression: &'a IdedExpr) -> EvalResult<'a> {
        match &expression.expr {
            Expr::Literal(literal) => Ok(literal_value(literal)),
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => {
                if is_type_name(select) {
                    let name = match select.field.as_str() {
                        "Duration" => "google.protobuf.Duration",
                        _ => "google.protobuf.Timestamp",
                    };
                    return Ok(CelValue::TypeName(name));
                }
                if self.names_composed(&select.operand) {
                    // a variable is there whatever becomes of it
                    return match select.test {
                        true => Ok(CelValue::Bool(true)),
                        false => self.composed(&select.field),
                    };
                }
                if self.policy.is_some()
                    && messages::is_request_resource(&select.operand, &select.field)
                {
                    return self.variable(messages::REQUEST_RESOURCE);
                }
                let operand = self.run(&select.operand)?;
                let name = CelValue::Text(CelText::Borrowed(&select.field));
                self.charge_lookup(&operand, &name)?;
                if select.test {
                    return operations::has(&operand, &select.field).map(CelValue::Bool);
                }
                self.charge(cost::SELECT)?;
                let found = operations::select(&operand, &select.field)?;
                self.charge_conversion(&found)?;
                Ok(found)
            }
            Expr::Call(call) => self.call(call),
            Expr::List(list) => {
                let mut items = Vec::with_capacity(list.elements.len());
                for (at, element) in list.elements.iter().enumerate() {
                    match (self.run(element)?, list.optional_indices.contains(&at)) {
                        (CelValue::Optional(inner), true) => {
                            items.extend(inner.map(|inner| inner.as_ref().clone()));
                        }
                        (value, _) => items.push(value),
                    }
                }
                self.charge(cost::NEW_LIST)?;
                Ok(CelValue::List(CelList::made(items)))
            }
            Expr::Map(map) => {
                let mut entries: Vec<(CelValue<'a>, CelValue<'a>)> = Vec::new();
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else {
                        return Err(EvalError::no_overload());
                    };
                    let (key, value) = (self.run(&entry.key)?, self.run(&entry.value)?);
                    if key.depth() > 0 || matches!(key, CelValue::List(_) | CelValue::Map(_)) {
                        return Err(EvalError::new("unsupported key type"));
                    }
                    let each = self.charge_elements(&key)?;
                    self.charge_work(entries.len().saturating_mul(each))?;
                    if entries.iter().any(|(known, _)| known.equals(&key)) {
                        let problem = format!("Failed with repeated key: {}", key.shown());
                        return Err(EvalError::new(problem));
                    }
                    match (value, entry.optional) {
                        (CelValue::Optional(inner), true) => {
                            entries.extend(inner.map(|inner| (key, inner.as_ref().clone())));
                        }
                        (value, _) => entries.push((key, value)),
                    }
                }
                self.charge(cost::NEW_MAP)?;
                Ok(CelValue::Map(CelMap::made(entries)))
            }
            Expr::Comprehension(fold) => self.comprehension(fold),
            Expr::Struct(message) => self.message(message),
            Expr::Unspecified => Err(EvalError::no_overload()),
        }
    }

    fn variable(&mut self, name: &str) -> EvalResult<'a> {
        self.charge(cost::SELECT)?;
        if let Some((_, value)) = self.variables.iter().rev().find(|(known, _)| *known == name) {
            return match value {
                CelValue::Failure(problem) => Err(EvalError::new(&**problem)),
                value => Ok(value.clone()),
            };
        }
        operations::type_by_name(name)
            .ok_or_else(|| EvalError::new(format!("no such attribute(s): {name}")))
    }

    /// However it ends, its variables are gone then.
    fn comprehension(&mut self, fold: &'a ComprehensionExpr) -> EvalResult<'a> {
        let depth = self.variables.len();
        let result = self.fold(fold, depth);
        self.variables.truncate(depth);
        result
    }

    fn fold(&mut self, fold: &'a ComprehensionExpr, depth: usize) -> EvalResult<'a> {
        let range = self.run(&fold.iter_range)?;
        if let CelValue::Map(map) = &range {
            self.charge_work(map.len())?; // the keys are copied
        }
        let mut result = self.run(&fold.accu_init)?;
        for item in operations::range_items(&range)? {
            self.charge_conversion(&item)?;
            self.variables.push((&fold.accu_var, result));
            self.variables.push((&fold.iter_var, item));
            let goes_on = self.run(&fold.loop_cond);
            if matches!(goes_on, Err(EvalError::TooExpensive)) {
                return Err(EvalError::TooExpensive);
            }
            if matches!(goes_on, Ok(CelValue::Bool(false))) {
                self.variables.truncate(depth + 1);
                result = self.take_last();
                break;
            }
            result = self.step(fold, depth)?;
        }
        self.variables.truncate(depth);
        self.variables.push((&fold.accu_var, result));
        self.run(&fold.result)
    }

    fn take_last(&mut self) -> CelValue<'a> {
        self.variables.pop().map_or(CelValue::Null, |(_, value)| value)
    }

    /// One step of a comprehension. A step that appends to the result appends in place, so that
    /// `map` and `filter` do not copy the list for each item.
    fn step(&mut self, fold: &'a ComprehensionExpr, depth: usize) -> EvalResult<'a> {
        let mut step = &fold.loop_step;
        if let Expr::Call(call) = &step.expr
            && call.func_name == operators::CONDITIONAL
            && let [condition, yes, no] = call.args.as_slice()
            && is_variable(no, &fold.accu_var)
        {
            let is_true = matches!(self.run(condition)?, CelValue::Bool(true));
            if !is_true {
                self.charge(cost::SELECT)?;
                self.variables.truncate(depth + 1);
                return Ok(self.take_last());
            }
            step = yes;
        }
        if let Expr::Call(call) = &step.expr
            && call.func_name == operators::ADD
            && let [accumulated, added] = call.args.as_slice()
            && is_variable(accumulated, &fold.accu_var)
            && let Expr::List(list) = &added.expr
            && let [element] = list.elements.as_slice()
            && list.optional_indices.is_empty()
        {
            let item = self.run(element)?;
            self.charge(cost::SELECT + cost::NEW_LIST + 1)?;
            self.variables.truncate(depth + 1);
            return match self.take_last() {
                CelValue::List(CelList::Made(mut made)) => {
                    Rc::make_mut(&mut made).push(item);
                    Ok(CelValue::List(CelList::Made(made)))
                }
                _ => Err(EvalError::no_overload()),
            };
        }
        let result = self.run(step);
        self.variables.truncate(depth);
        match result {
            // a failure of one item may be made good by another: it is kept as the result
            Err(EvalError::Failed(problem)) if is_logical(step) => {
                Ok(CelValue::Failure(problem.into()))
            }
            other => other,
        }
    }

    fn call(&mut self, call: &'a CallExpr) -> EvalResult<'a> {
        if let Some((kind, names, parts)) = LambdaCall::read(call) {
            return self.lambda(call, kind, &names, parts);
        }
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::LOGICAL_AND, [a, b]) => return self.logical(a, b, false),
            (operators::LOGICAL_OR, [a, b]) => return self.logical(a, b, true),
            (operators::CONDITIONAL, [condition, yes, no]) => {
                return match self.run(condition)? {
                    CelValue::Bool(true) => self.run(yes),
                    CelValue::Bool(false) => self.run(no),
                    _ => Err(EvalError::no_overload()),
                };
            }
            (operators::NOT_STRICTLY_FALSE, [value]) => {
                let value = match self.run(value) {
                    Err(EvalError::TooExpensive) => return Err(EvalError::TooExpensive),
                    Ok(CelValue::Bool(value)) => value,
                    Ok(_) | Err(EvalError::Failed(_)) => true,
                };
                self.charge(1)?;
                return Ok(CelValue::Bool(value));
            }
            _ => {}
        }
        let dotted = self.dotted_name(call);
        let target = call.target.as_deref().filter(|_| dotted.is_none());
        let mut arguments = Vec::with_capacity(call.args.len() + 1);
        for argument in target.into_iter().chain(&call.args) {
            arguments.push(self.run(argument)?);
        }
        let name = dotted.as_deref().unwrap_or(&call.func_name);
        if let Some(result) = operations::operator(self, name, &arguments) {
            return result;
        }
        functions::call(self, name, target.is_some(), &arguments)
    }

    fn dotted_name(&self, call: &CallExpr) -> Option<String> {
        let Expr::Ident(namespace) = &call.target.as_ref()?.expr else { return None };
        let is_variable = self.variables.iter().any(|(known, _)| *known == namespace.as_str());
        if is_variable { None } else { signatures::dotted(namespace, &call.func_name) }
    }

    /// `&&` and `||`: one side that decides makes a failure of the other good.
    fn logical(&mut self, a: &'a IdedExpr, b: &'a IdedExpr, decides: bool) -> EvalResult<'a> {
        let mut failure = None;
        for side in [a, b] {
            match self.run(side) {
                Ok(CelValue::Bool(value)) if value == decides => {
                    return Ok(CelValue::Bool(decides));
                }
                Ok(CelValue::Bool(_)) => {}
                Ok(_) => failure = failure.or(Some(EvalError::no_overload())),
                Err(EvalError::TooExpensive) => return Err(EvalError::TooExpensive),
                Err(other) => failure = failure.or(Some(other)),
            }
        }
        failure.map_or(Ok(CelValue::Bool(!decides)), Err)
    }

    pub(super) fn with(
        &mut self,
        variables: &[(&'a str, CelValue<'a>)],
        part: &'a IdedExpr,
    ) -> EvalResult<'a> {
        let depth = self.variables.len();
        self.variables.extend_from_slice(variables);
        let value = self.run(part);
        self.variables.truncate(depth);
        value
    }
}

fn is_variable(expression: &IdedExpr, name: &str) -> bool {
    matches!(&expression.expr, Expr::Ident(found) if found == name)
}

fn is_logical(step: &IdedExpr) -> bool {
    matches!(&step.expr, Expr::Call(call)
        if matches!(call.func_name.as_str(), operators::LOGICAL_AND | operators::LOGICAL_OR))
}

fn literal_value(literal: &LiteralValue) -> CelValue<'_> {
    match literal {
        LiteralValue::Boolean(flag) => CelValue::Bool(*flag.inner()),
        LiteralValue::Bytes(bytes) => CelValue::Bytes(bytes.inner().into()),
        LiteralValue::Double(double) => CelValue::Double(*double.inner()),
        LiteralValue::Int(int) => CelValue::Int(*int.inner()),
        LiteralValue::Null => CelValue::Null,
        LiteralValue::String(text) => CelValue::Text(CelText::Borrowed(text.inner())),
        LiteralValue::UInt(uint) => CelValue::Uint(*uint.inner()),
    }
}

/// The cost of comparing two values: as much as the smaller one has.
pub(super) fn comparison_cost(a: &CelValue<'_>, b: &CelValue<'_>) -> u64 {
    let size = match (a, b) {
        // the longer text is not counted
        (CelValue::Text(x), CelValue::Text(y)) => {
            if x.len() < y.len() {
                a.size()
            } else {
                b.size()
            }
        }
        (CelValue::Text(text), other) | (other, CelValue::Text(text)) => {
            other.size().min(text.len() as u64)
        }
        _ => a.size().min(b.size()),
    };
    cost::traverse(size)
}

/// An order as `compareTo` gives it.
pub(super) fn as_int<'a>(order: Ordering) -> CelValue<'a> {
    CelValue::Int(order as i64)
}
