//! Checks calls: operators, functions, and macros that the parser leaves as calls.

use std::sync::Arc;

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};

use super::{
    check::{Checked, Checker, FUNCTIONS},
    check_operators::operator,
    cost, estimate,
    signatures::{NOT_SUPPORTED, Signature},
    types::CelType,
};
use crate::formats::{is_in_range, parse_date_time, parse_go_duration};

/// Functions that take a variable and an expression.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LambdaCall {
    /// `optMap(x, e)`.
    OptMap,
    /// `optFlatMap(x, e)`.
    OptFlatMap,
    /// `all(i, v, e)`.
    All,
    /// `exists(i, v, e)`.
    Exists,
    /// `existsOne(i, v, e)`.
    ExistsOne,
    /// `transformList(i, v, e)`, with a filter before `e` or without.
    TransformList,
    /// `transformMap(k, v, e)`, with a filter before `e` or without.
    TransformMap,
}

impl LambdaCall {
    /// The macro that a call is, with the names of its variables and its expressions.
    pub(super) fn read(call: &CallExpr) -> Option<(Self, Vec<&str>, &[IdedExpr])> {
        call.target.as_ref()?;
        let (kind, variables) = match (call.func_name.as_str(), call.args.len()) {
            ("optMap", 2) => (Self::OptMap, 1),
            ("optFlatMap", 2) => (Self::OptFlatMap, 1),
            ("all", 3) => (Self::All, 2),
            ("exists", 3) => (Self::Exists, 2),
            ("existsOne" | "exists_one", 3) => (Self::ExistsOne, 2),
            ("transformList", 3 | 4) => (Self::TransformList, 2),
            ("transformMap", 3 | 4) => (Self::TransformMap, 2),
            _ => return None,
        };
        let (names, parts) = call.args.split_at(variables);
        let names = names.iter().map(|name| match &name.expr {
            Expr::Ident(name) => Some(name.as_str()),
            _ => None,
        });
        Some((kind, names.collect::<Option<Vec<_>>>()?, parts))
    }
}

impl Checker<'_> {
    pub(super) fn call(&mut self, id: u64, call: &CallExpr) -> Checked {
        if NOT_SUPPORTED.contains(&call.func_name.as_str()) {
            let problem = format!("the function '{}' is not supported here", call.func_name);
            return self.problem(id, problem);
        }
        if let Some((kind, names, parts)) = LambdaCall::read(call) {
            return self.lambda(id, call, kind, &names, parts);
        }
        if call.func_name == operators::OPT_SELECT {
            return self.optional_select(id, call);
        }
        let dotted = self.dotted_name(call);
        let target = call.target.as_deref().filter(|_| dotted.is_none());
        let target = target.map(|target| self.expression(target));
        let is_member = target.is_some();
        let arguments: Vec<Checked> = target
            .into_iter()
            .chain(call.args.iter().map(|argument| self.expression(argument)).collect::<Vec<_>>())
            .collect();
        self.check_literals(call);
        let name = dotted.as_deref().unwrap_or(&call.func_name);
        if let Some(checked) = operator(name, &arguments) {
            return checked.unwrap_or_else(|| self.no_overload(id, name, is_member, &arguments));
        }
        let Some(forms) = FUNCTIONS.get(name) else {
            let problem = format!("undeclared reference to '{name}' (in container '')");
            return self.problem(id, problem);
        };
        let found = forms.iter().find_map(|form| matches(form, is_member, &arguments));
        let Some(result) = found else {
            return self.no_overload(id, name, is_member, &arguments);
        };
        estimate::function(name, result, &arguments, call)
    }

    fn no_overload(
        &mut self,
        id: u64,
        name: &str,
        is_member: bool,
        arguments: &[Checked],
    ) -> Checked {
        let types: Vec<String> = arguments.iter().map(|a| a.cel_type.to_string()).collect();
        let signature = match (is_member, types.split_first()) {
            (true, Some((receiver, rest))) => format!("{receiver}.({})", rest.join(", ")),
            _ => format!("({})", types.join(", ")),
        };
        let problem = format!("found no matching overload for '{name}' applied to '{signature}'");
        self.problem(id, problem)
    }

    /// `a.?b`: the value of a field that may be absent.
    fn optional_select(&mut self, id: u64, call: &CallExpr) -> Checked {
        let [operand, field] = call.args.as_slice() else {
            return self.problem(id, "unsupported optional field selection");
        };
        let Expr::Literal(LiteralValue::String(name)) = &field.expr else {
            return self.problem(id, "unsupported optional field selection");
        };
        let operand = self.expression(operand);
        let inner = match &operand.cel_type {
            CelType::Optional(inner) => inner.as_ref(),
            other => other,
        };
        let field = match inner {
            CelType::Object(fields) => match fields.get(name.inner()) {
                Some(field) => field.clone(),
                None => return self.problem(id, format!("undefined field '{}'", name.inner())),
            },
            CelType::Map(_, value, _) => value.as_ref().clone(),
            _ => CelType::ANY,
        };
        let cost = operand.cost.saturating_add(cost::SELECT);
        Checked::new(CelType::Optional(Arc::new(field)), cost)
    }

    fn lambda(
        &mut self,
        id: u64,
        call: &CallExpr,
        kind: LambdaCall,
        names: &[&str],
        parts: &[IdedExpr],
    ) -> Checked {
        let Some(target) = &call.target else { return self.problem(id, "a macro has a receiver") };
        let target_id = target.id;
        let target = self.expression(target);
        if let LambdaCall::OptMap | LambdaCall::OptFlatMap = kind {
            let inner = match &target.cel_type {
                CelType::Optional(inner) => inner.as_ref().clone(),
                CelType::Any(_) => CelType::ANY,
                // the macro stands for calls of these two
                other => {
                    let receiver = [Checked::new(other.clone(), 0)];
                    self.no_overload(id, "hasValue", true, &receiver);
                    return self.no_overload(id, "value", true, &receiver);
                }
            };
            let [part] = parts else { return self.problem(id, "a macro has one expression") };
            let part = self.with_variables(&[(names[0], inner)], part);
            let cost = target.cost.saturating_add(part.cost).saturating_add(3);
            let result = match (kind, part.cel_type) {
                (LambdaCall::OptFlatMap, optional @ CelType::Optional(_)) => optional,
                (_, other) => CelType::Optional(Arc::new(other)),
            };
            return Checked::new(result, cost);
        }
        let item = self.range_item(target_id, &target.cel_type);
        let (key, value) = match &target.cel_type {
            CelType::Map(key, value, _) => (key.as_ref().clone(), value.as_ref().clone()),
            CelType::List(..) => (CelType::Int, item),
            _ => (CelType::ANY, item),
        };
        let size = target.cel_type.size();
        let variables = [(names[0], key.clone()), (names[1], value)];
        let mut once = 3_u64;
        let mut last = CelType::ANY;
        for part in parts {
            let part = self.with_variables(&variables, part);
            once = once.saturating_add(part.cost);
            last = part.cel_type;
        }
        let cost = target.cost.saturating_add(size.saturating_mul(once)).saturating_add(2);
        let result = match kind {
            LambdaCall::TransformList => CelType::List(Arc::new(last), size),
            LambdaCall::TransformMap => CelType::Map(Arc::new(key), Arc::new(last), size),
            LambdaCall::All | LambdaCall::Exists | LambdaCall::ExistsOne => CelType::Bool,
            LambdaCall::OptMap | LambdaCall::OptFlatMap => CelType::ANY,
        };
        Checked::new(result, cost)
    }

    /// Literals of expressions, durations and times are read now, not when the rule runs.
    fn check_literals(&mut self, call: &CallExpr) {
        let Some(argument) = call.args.last() else { return };
        let Expr::Literal(LiteralValue::String(text)) = &argument.expr else { return };
        let text = text.inner();
        let problem = match call.func_name.as_str() {
            "matches" | "find" | "findAll" => {
                crate::go_regex::compile(text).err().map(|_| "invalid matches argument")
            }
            "duration" if parse_go_duration(text).is_none() => Some("invalid duration argument"),
            "timestamp" if !parse_date_time(text).as_ref().is_some_and(is_in_range) => {
                Some("invalid timestamp argument")
            }
            _ => None,
        };
        if let Some(problem) = problem {
            self.problem(argument.id, problem);
        }
    }
}

/// The result of a form of a function that takes these arguments.
fn matches(form: &Signature, is_member: bool, arguments: &[Checked]) -> Option<CelType> {
    if form.is_member != is_member || form.parameters.len() != arguments.len() {
        return None;
    }
    let mut bound = Vec::new();
    for (parameter, argument) in form.parameters.iter().zip(arguments) {
        if !bind(parameter, &argument.cel_type, &mut bound) {
            return None;
        }
    }
    Some(substitute(&form.result, &bound))
}

fn bind(parameter: &CelType, argument: &CelType, bound: &mut Vec<(char, CelType)>) -> bool {
    match (parameter, argument) {
        (CelType::Param(name), _) => match bound.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => {
                if known.is_any() {
                    *known = argument.clone();
                }
                known.is_like(argument)
            }
            None => {
                bound.push((*name, argument.clone()));
                true
            }
        },
        (_, CelType::Any(_)) => true,
        (CelType::List(a, _), CelType::List(b, _))
        | (CelType::Optional(a), CelType::Optional(b)) => bind(a, b, bound),
        (CelType::Map(a, b, _), CelType::Map(c, d, _)) => bind(a, c, bound) && bind(b, d, bound),
        (CelType::Null, _) | (_, CelType::Null) => false,
        _ => parameter.is_like(argument),
    }
}

fn substitute(result: &CelType, bound: &[(char, CelType)]) -> CelType {
    let inner = |part: &CelType| Arc::new(substitute(part, bound));
    match result {
        CelType::Param(name) => {
            let found = bound.iter().find(|(known, _)| known == name);
            found.map_or(CelType::ANY, |(_, cel_type)| cel_type.clone())
        }
        CelType::List(item, size) => CelType::List(inner(item), *size),
        CelType::Optional(item) => CelType::Optional(inner(item)),
        CelType::Map(key, value, size) => CelType::Map(inner(key), inner(value), *size),
        other => other.clone(),
    }
}
