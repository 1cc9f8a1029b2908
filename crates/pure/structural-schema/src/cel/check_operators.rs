//! Types and costs of operators.

use std::sync::Arc;

use cel::common::ast::operators;

use super::{check::Checked, cost, types::CelType};

/// The result of an operator: nothing if `name` is none, or `None` inside if no form fits.
pub(super) fn operator(name: &str, arguments: &[Checked]) -> Option<Option<Checked>> {
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
        _ => arithmetic_operator(name, arguments, cost),
    }
}

/// The result of an operator that computes.
fn arithmetic_operator(name: &str, arguments: &[Checked], cost: u64) -> Option<Option<Checked>> {
    let done =
        |cel_type: CelType, own: u64| Some(Some(Checked::new(cel_type, cost.saturating_add(own))));
    match (name, arguments) {
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
