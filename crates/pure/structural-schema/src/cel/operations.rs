//! Operators, fields and ranges.

use std::{cmp::Ordering, rc::Rc};

use cel::common::ast::operators;

use super::{
    cost,
    eval::{EvalError, EvalResult, Evaluation, comparison_cost},
    list_sums,
    value::{CelMessage, CelValue},
};
use crate::formats::is_in_range;

/// Whether a value has a field.
pub(super) fn has(operand: &CelValue<'_>, name: &str) -> Result<bool, EvalError> {
    match operand {
        CelValue::Map(map) => Ok(map.field(name).is_some()),
        CelValue::Message(message) => Ok(message.fields.field(name).is_some()),
        CelValue::Optional(None) => Ok(false),
        CelValue::Optional(Some(inner)) => has(inner, name),
        CelValue::List(_) => Err(named_index()),
        // what has no fields lacks this one, too
        _ => Ok(false),
    }
}

/// A list has no fields.
fn named_index() -> EvalError {
    EvalError::new("unsupported index type 'string' in list")
}

fn no_such_key(name: impl std::fmt::Display) -> EvalError {
    EvalError::new(format!("no such key: {name}"))
}

/// The value of a field.
pub(super) fn select<'a>(operand: &CelValue<'a>, name: &str) -> EvalResult<'a> {
    match operand {
        CelValue::Map(map) | CelValue::Message(CelMessage { fields: map, .. }) => {
            map.field(name).ok_or_else(|| no_such_key(name))
        }
        CelValue::Optional(None) => Ok(CelValue::Optional(None)),
        CelValue::Optional(Some(inner)) => Ok(CelValue::Optional(match &**inner {
            CelValue::Map(map) => map.field(name).map(Rc::new),
            _ => return Err(EvalError::no_overload()),
        })),
        CelValue::List(_) => Err(named_index()),
        _ => Err(no_such_key(name)),
    }
}

/// The types that are values.
pub(super) fn type_by_name<'a>(name: &str) -> Option<CelValue<'a>> {
    const NAMES: [&str; 11] = [
        "bool",
        "bytes",
        "double",
        "int",
        "list",
        "map",
        "null_type",
        "optional_type",
        "string",
        "type",
        "uint",
    ];
    NAMES.into_iter().find(|known| *known == name).map(CelValue::TypeName)
}

/// What a macro goes over: the items of a list, or the keys of a map.
pub(super) fn range_items<'a>(
    range: &CelValue<'a>,
) -> Result<Box<dyn Iterator<Item = CelValue<'a>> + 'a>, EvalError> {
    match range {
        CelValue::List(list) => {
            let list = list.clone();
            Ok(Box::new((0..list.len()).filter_map(move |at| list.get(at))))
        }
        CelValue::Map(map) => Ok(Box::new(map.keys().into_iter())),
        _ => Err(EvalError::no_overload()),
    }
}

/// The entries of a map, or the items of a list with their indices.
pub(super) fn entries<'a>(
    range: &CelValue<'a>,
) -> Result<Vec<(CelValue<'a>, CelValue<'a>)>, EvalError> {
    match range {
        CelValue::List(list) => {
            Ok(list.iter().enumerate().map(|(at, item)| (CelValue::Int(at as i64), item)).collect())
        }
        CelValue::Map(map) => Ok(map.entries()),
        _ => Err(EvalError::no_overload()),
    }
}

/// Applies an operator; nothing if the name is none.
pub(super) fn operator<'a>(
    evaluation: &mut Evaluation<'a>,
    name: &str,
    arguments: &[CelValue<'a>],
) -> Option<EvalResult<'a>> {
    Some(match (name, arguments) {
        (operators::EQUALS | operators::NOT_EQUALS, [a, b]) => {
            equals(evaluation, a, b).map(|same| CelValue::Bool(same == (name == operators::EQUALS)))
        }
        (
            operators::LESS
            | operators::LESS_EQUALS
            | operators::GREATER
            | operators::GREATER_EQUALS,
            [a, b],
        ) => ordered(evaluation, name, a, b),
        (operators::LOGICAL_NOT, [CelValue::Bool(flag)]) => {
            evaluation.charge(1).map(|()| CelValue::Bool(!flag))
        }
        (operators::LOGICAL_NOT, _) => Err(EvalError::no_overload()),
        (operators::IN, [item, within]) => contains(evaluation, item, within),
        (operators::INDEX | operators::OPT_INDEX | operators::OPT_SELECT, [from, at]) => {
            found_at(evaluation, name, from, at)
        }
        (operators::NEGATE, [value]) => evaluation.charge(1).and_then(|()| match value {
            CelValue::Int(int) => int.checked_neg().map(CelValue::Int).ok_or_else(overflow),
            CelValue::Double(double) => Ok(CelValue::Double(-double)),
            _ => Err(EvalError::no_overload()),
        }),
        (operators::ADD, [a, b]) => add(evaluation, a, b),
        (
            operators::SUBSTRACT | operators::MULTIPLY | operators::DIVIDE | operators::MODULO,
            [a, b],
        ) => evaluation.charge(1).and_then(|()| arithmetic(name, a, b)),
        _ => return None,
    })
}

fn overflow() -> EvalError {
    EvalError::new("integer overflow")
}

fn equals<'a>(
    evaluation: &mut Evaluation<'a>,
    a: &CelValue<'a>,
    b: &CelValue<'a>,
) -> Result<bool, EvalError> {
    evaluation.charge(comparison_cost(a, b))?;
    match a {
        CelValue::List(_) | CelValue::Map(_) if a.size() != b.size() => {}
        CelValue::List(_)
        | CelValue::Map(_)
        | CelValue::Message(_)
        | CelValue::Optional(_)
        | CelValue::Semver(_) => {
            evaluation.charge_elements(a)?;
            evaluation.charge_elements(b)?;
        }
        _ => {}
    }
    Ok(a.equals(b))
}

fn ordered<'a>(
    evaluation: &mut Evaluation<'a>,
    name: &str,
    a: &CelValue<'a>,
    b: &CelValue<'a>,
) -> EvalResult<'a> {
    let own = match a {
        CelValue::Text(_) | CelValue::Bytes(_) => comparison_cost(a, b),
        _ => 1,
    };
    evaluation.charge(own)?;
    let is_nan = |value: &CelValue<'_>| matches!(value, CelValue::Double(d) if d.is_nan());
    let Some(order) = a.order(b) else {
        let has_nan = is_nan(a) || is_nan(b);
        return if has_nan { Ok(CelValue::Bool(false)) } else { Err(EvalError::no_overload()) };
    };
    Ok(CelValue::Bool(match name {
        operators::LESS => order == Ordering::Less,
        operators::LESS_EQUALS => order != Ordering::Greater,
        operators::GREATER => order == Ordering::Greater,
        _ => order != Ordering::Less,
    }))
}

fn contains<'a>(
    evaluation: &mut Evaluation<'a>,
    item: &CelValue<'a>,
    within: &CelValue<'a>,
) -> EvalResult<'a> {
    match within {
        CelValue::List(list) => {
            evaluation.charge(list.len() as u64)?;
            let each = evaluation.charge_elements(item)?;
            evaluation.charge_work(list.len().saturating_mul(each))?;
            for found in list.iter() {
                // those are converted or sorted to be compared, however small the other is
                if let CelValue::Bytes(_) | CelValue::List(_) = found {
                    evaluation.charge_elements(&found)?;
                }
                if found.equals(item) {
                    return Ok(CelValue::Bool(true));
                }
            }
            Ok(CelValue::Bool(false))
        }
        CelValue::Map(map) => {
            evaluation.charge(1)?;
            evaluation.charge_lookup(within, item)?;
            Ok(CelValue::Bool(map.get(item).is_some()))
        }
        _ => Err(EvalError::no_overload()),
    }
}

/// The value at an index or a key.
fn found_at<'a>(
    evaluation: &mut Evaluation<'a>,
    name: &str,
    from: &CelValue<'a>,
    at: &CelValue<'a>,
) -> EvalResult<'a> {
    evaluation.charge(1)?;
    evaluation.charge_lookup(from, at)?;
    let found = match name {
        operators::INDEX => index(evaluation, from, at),
        _ => optional_index(from, at),
    }?;
    evaluation.charge_conversion(&found)?;
    Ok(found)
}

/// The index that a number is, if it is whole.
fn as_index(at: &CelValue<'_>) -> Option<i64> {
    match at {
        CelValue::Int(int) => Some(*int),
        CelValue::Uint(uint) => i64::try_from(*uint).ok(),
        CelValue::Double(double) if double.fract() == 0.0 => Some(*double as i64),
        _ => None,
    }
}

fn index<'a>(
    evaluation: &mut Evaluation<'a>,
    from: &CelValue<'a>,
    at: &CelValue<'a>,
) -> EvalResult<'a> {
    match from {
        CelValue::List(list) => {
            let Some(at) = as_index(at) else {
                return Err(EvalError::new(format!(
                    "unsupported index type '{}' in list",
                    at.type_name()
                )));
            };
            let found = usize::try_from(at).ok().and_then(|at| list.get(at));
            found.ok_or_else(|| EvalError::new(format!("index out of bounds: {at}")))
        }
        CelValue::Map(map) => match map.get(at) {
            Some(found) => Ok(found),
            None => {
                evaluation.charge_elements(at)?;
                Err(no_such_key(at.shown()))
            }
        },
        CelValue::Optional(_) => optional_index(from, at),
        _ => Err(no_such_key(at.shown())),
    }
}

fn optional_index<'a>(from: &CelValue<'a>, at: &CelValue<'a>) -> EvalResult<'a> {
    Ok(CelValue::Optional(match from {
        CelValue::Optional(None) => None,
        CelValue::Optional(Some(inner)) => return optional_index(inner, at),
        CelValue::List(list) => {
            let at = as_index(at).ok_or_else(EvalError::no_overload)?;
            usize::try_from(at).ok().and_then(|at| list.get(at)).map(Rc::new)
        }
        CelValue::Map(map) => map.get(at).map(Rc::new),
        _ => return Err(EvalError::no_overload()),
    }))
}

fn add<'a>(evaluation: &mut Evaluation<'a>, a: &CelValue<'a>, b: &CelValue<'a>) -> EvalResult<'a> {
    match (a, b) {
        (CelValue::Text(x), CelValue::Text(y)) => {
            evaluation.charge(cost::traverse(a.size().saturating_add(b.size())))?;
            evaluation.charge_text_made(x.len() + y.len())?;
            Ok(CelValue::text([&**x, &**y].concat()))
        }
        (CelValue::Bytes(x), CelValue::Bytes(y)) => {
            evaluation.charge(cost::traverse(a.size().saturating_add(b.size())))?;
            Ok(CelValue::Bytes([&**x, &**y].concat().into()))
        }
        (CelValue::List(x), CelValue::List(y)) => {
            evaluation.charge(1)?;
            list_sums::add(evaluation, x, y)
        }
        _ => evaluation.charge(1).and_then(|()| arithmetic(operators::ADD, a, b)),
    }
}

fn arithmetic<'a>(name: &str, a: &CelValue<'a>, b: &CelValue<'a>) -> EvalResult<'a> {
    match (a, b) {
        (CelValue::Int(a), CelValue::Int(b)) => integers(name, *a, *b).map(CelValue::Int),
        (CelValue::Uint(a), CelValue::Uint(b)) => naturals(name, *a, *b).map(CelValue::Uint),
        (CelValue::Double(a), CelValue::Double(b)) => Ok(CelValue::Double(match name {
            operators::ADD => a + b,
            operators::SUBSTRACT => a - b,
            operators::MULTIPLY => a * b,
            operators::DIVIDE => a / b,
            _ => return Err(EvalError::no_overload()),
        })),
        _ => times(name, a, b),
    }
}

fn integers(name: &str, a: i64, b: i64) -> Result<i64, EvalError> {
    match name {
        operators::DIVIDE if b == 0 => return Err(EvalError::new("division by zero")),
        operators::MODULO if b == 0 => return Err(EvalError::new("modulus by zero")),
        operators::ADD => a.checked_add(b),
        operators::SUBSTRACT => a.checked_sub(b),
        operators::MULTIPLY => a.checked_mul(b),
        operators::DIVIDE => a.checked_div(b),
        _ => a.checked_rem(b),
    }
    .ok_or_else(overflow)
}

fn naturals(name: &str, a: u64, b: u64) -> Result<u64, EvalError> {
    match name {
        operators::DIVIDE if b == 0 => return Err(EvalError::new("division by zero")),
        operators::MODULO if b == 0 => return Err(EvalError::new("modulus by zero")),
        operators::ADD => a.checked_add(b),
        operators::SUBSTRACT => a.checked_sub(b),
        operators::MULTIPLY => a.checked_mul(b),
        operators::DIVIDE => a.checked_div(b),
        _ => a.checked_rem(b),
    }
    .ok_or_else(|| EvalError::new("unsigned integer overflow"))
}

fn times<'a>(name: &str, a: &CelValue<'a>, b: &CelValue<'a>) -> EvalResult<'a> {
    let overflow = || EvalError::new("duration overflow");
    let moved = |moment: &jiff::Timestamp, nanos: i64| {
        let span = jiff::SignedDuration::from_nanos(nanos);
        let moved = moment.checked_add(span).ok().filter(is_in_range);
        moved.map(CelValue::Timestamp).ok_or_else(|| EvalError::new("timestamp overflow"))
    };
    match (name, a, b) {
        (operators::ADD, CelValue::Duration(a), CelValue::Duration(b)) => {
            a.checked_add(*b).map(CelValue::Duration).ok_or_else(overflow)
        }
        (operators::SUBSTRACT, CelValue::Duration(a), CelValue::Duration(b)) => {
            a.checked_sub(*b).map(CelValue::Duration).ok_or_else(overflow)
        }
        (operators::ADD, CelValue::Timestamp(moment), CelValue::Duration(nanos))
        | (operators::ADD, CelValue::Duration(nanos), CelValue::Timestamp(moment)) => {
            moved(moment, *nanos)
        }
        (operators::SUBSTRACT, CelValue::Timestamp(moment), CelValue::Duration(nanos)) => {
            moved(moment, nanos.checked_neg().ok_or_else(overflow)?)
        }
        (operators::SUBSTRACT, CelValue::Timestamp(a), CelValue::Timestamp(b)) => {
            let nanos = a.duration_since(*b).as_nanos();
            i64::try_from(nanos).map(CelValue::Duration).map_err(|_| overflow())
        }
        _ => Err(EvalError::no_overload()),
    }
}
