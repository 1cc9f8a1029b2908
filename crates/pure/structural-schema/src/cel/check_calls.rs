//! Checks calls: operators, functions, and macros that the parser leaves as calls.

use std::sync::Arc;

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};

use super::{
    check::{Checked, Checker, FUNCTIONS},
    cost, estimate,
    signatures::{NOT_SUPPORTED, Signature},
    types::CelType,
};
use crate::formats::{parse_date_time, parse_go_duration};

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
            return self.problem(id, &problem);
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
            return self.problem(id, &problem);
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
        self.problem(id, &problem)
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
                None => return self.problem(id, &format!("undefined field '{}'", name.inner())),
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
                _ => CelType::ANY,
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
            "timestamp" if parse_date_time(text).is_none() => Some("invalid timestamp argument"),
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

/// The result of an operator: nothing if `name` is none, or `None` inside if no form fits.
fn operator(name: &str, arguments: &[Checked]) -> Option<Option<Checked>> {
    let cost = arguments.iter().fold(0, |sum: u64, argument| sum.saturating_add(argument.cost));
    let done =
        |cel_type: CelType, own: u64| Some(Some(Checked::new(cel_type, cost.saturating_add(own))));
    let is_bool = |argument: &Checked| matches!(argument.cel_type, CelType::Bool | CelType::Any(_));
    match (name, arguments) {
        (operators::LOGICAL_AND | operators::LOGICAL_OR, [a, b]) => {
            if is_bool(a) && is_bool(b) {
                done(CelType::Bool, 0)
            } else {
                Some(None)
            }
        }
        (operators::LOGICAL_NOT, [a]) => {
            if is_bool(a) {
                done(CelType::Bool, 1)
            } else {
                Some(None)
            }
        }
        (operators::CONDITIONAL, [condition, yes, no]) => {
            if !is_bool(condition) || !yes.cel_type.is_like(&no.cel_type) {
                return Some(None);
            }
            let cost = condition.cost.saturating_add(yes.cost.max(no.cost));
            Some(Some(Checked::new(yes.cel_type.clone().or(no.cel_type.clone()), cost)))
        }
        (operators::EQUALS | operators::NOT_EQUALS, [a, b]) => {
            if !a.cel_type.is_like(&b.cel_type) {
                return Some(None);
            }
            let own = match &a.cel_type {
                CelType::Quantity | CelType::Ip | CelType::Cidr | CelType::Semver => 1,
                _ => cost::traverse(a.cel_type.size().min(b.cel_type.size())),
            };
            done(CelType::Bool, own)
        }
        (
            operators::LESS
            | operators::LESS_EQUALS
            | operators::GREATER
            | operators::GREATER_EQUALS,
            [a, b],
        ) => match ordering_cost(&a.cel_type, &b.cel_type) {
            Some(own) => done(CelType::Bool, own),
            None => Some(None),
        },
        (operators::IN, [item, within]) => match &within.cel_type {
            CelType::List(of, size) if of.is_like(&item.cel_type) => done(CelType::Bool, *size),
            CelType::Map(key, _, _) if key.is_like(&item.cel_type) => done(CelType::Bool, 1),
            CelType::Any(size) => done(CelType::Bool, *size),
            _ => Some(None),
        },
        (operators::INDEX | operators::OPT_INDEX, [from, at]) => {
            let (is_optional, from) = match &from.cel_type {
                CelType::Optional(inner) => (true, inner.as_ref()),
                other => (name == operators::OPT_INDEX, other),
            };
            let found = match (from, &at.cel_type) {
                (CelType::List(item, _), CelType::Int | CelType::Any(_)) => item.as_ref().clone(),
                (CelType::Map(key, value, _), at) if key.is_like(at) => value.as_ref().clone(),
                (CelType::Any(_), _) => CelType::ANY,
                _ => return Some(None),
            };
            done(if is_optional { CelType::Optional(Arc::new(found)) } else { found }, 1)
        }
        (operators::NEGATE, [a]) => match &a.cel_type {
            CelType::Int | CelType::Double | CelType::Any(_) => done(a.cel_type.clone(), 1),
            _ => Some(None),
        },
        (operators::ADD, [a, b]) => match addition(&a.cel_type, &b.cel_type) {
            Some((result, own)) => done(result, own),
            None => Some(None),
        },
        (operators::SUBSTRACT, [a, b]) => {
            let result = match (&a.cel_type, &b.cel_type) {
                (CelType::Timestamp(_), CelType::Timestamp(_)) => CelType::Duration(1),
                (moment @ CelType::Timestamp(_), CelType::Duration(_)) => moment.clone(),
                (span @ CelType::Duration(_), CelType::Duration(_)) => span.clone(),
                (a, b) => match arithmetic(a, b) {
                    Some(result) => result,
                    None => return Some(None),
                },
            };
            done(result, 1)
        }
        (operators::MULTIPLY | operators::DIVIDE | operators::MODULO, [a, b]) => {
            let result = arithmetic(&a.cel_type, &b.cel_type);
            let is_right = |t: &CelType| name != operators::MODULO || !matches!(t, CelType::Double);
            match result.filter(is_right) {
                Some(result) => done(result, 1),
                None => Some(None),
            }
        }
        _ => None,
    }
}

fn ordering_cost(a: &CelType, b: &CelType) -> Option<u64> {
    let is_number =
        |t: &CelType| matches!(t, CelType::Int | CelType::Uint | CelType::Double | CelType::Any(_));
    match (a, b) {
        (a, b) if is_number(a) && is_number(b) => Some(1),
        (CelType::Text(_) | CelType::Bytes(_) | CelType::Any(_), b) | (b, CelType::Any(_))
            if a.is_like(b) =>
        {
            Some(cost::traverse(a.size().min(b.size())))
        }
        (CelType::Bool, CelType::Bool)
        | (CelType::Duration(_), CelType::Duration(_))
        | (CelType::Timestamp(_), CelType::Timestamp(_)) => Some(1),
        _ => None,
    }
}

fn arithmetic(a: &CelType, b: &CelType) -> Option<CelType> {
    match (a, b) {
        (CelType::Int, CelType::Int) => Some(CelType::Int),
        (CelType::Uint, CelType::Uint) => Some(CelType::Uint),
        (CelType::Double, CelType::Double) => Some(CelType::Double),
        (CelType::Any(_), other) | (other, CelType::Any(_)) => match other {
            CelType::Int | CelType::Uint | CelType::Double => Some(other.clone()),
            CelType::Any(_) | CelType::Duration(_) | CelType::Timestamp(_) => Some(CelType::ANY),
            _ => None,
        },
        _ => None,
    }
}

fn addition(a: &CelType, b: &CelType) -> Option<(CelType, u64)> {
    let size = a.size().saturating_add(b.size());
    match (a, b) {
        (CelType::Text(_) | CelType::Bytes(_), _) if a.is_like(b) => {
            Some((a.clone().with_size(size), cost::traverse(size)))
        }
        (_, CelType::Text(_) | CelType::Bytes(_)) if a.is_like(b) => {
            Some((b.clone().with_size(size), cost::traverse(size)))
        }
        (CelType::List(..), CelType::List(..)) if a.is_like(b) => {
            let joined = match (a, b) {
                // an empty list has items of any type
                (CelType::List(item, _), b) if item.is_any() => b.clone(),
                (a, _) => a.clone(),
            };
            Some((joined.with_size(size), 1))
        }
        (list @ CelType::List(..), CelType::Any(_))
        | (CelType::Any(_), list @ CelType::List(..)) => Some((list.clone().with_size(size), 1)),
        (CelType::Timestamp(_), CelType::Duration(_))
        | (CelType::Duration(_), CelType::Timestamp(_)) => Some((CelType::Timestamp(1), 1)),
        (CelType::Duration(_), CelType::Duration(_)) => Some((CelType::Duration(1), 1)),
        (CelType::Any(_), CelType::Any(_)) => Some((CelType::ANY, cost::traverse(size))),
        _ => arithmetic(a, b).map(|result| (result, 1)),
    }
}
