//! Optional values.

use std::rc::Rc;

use super::super::{
    eval::{EvalError, EvalResult, Evaluation},
    value::CelValue,
};

pub(super) fn call<'a>(
    evaluation: &mut Evaluation<'a>,
    name: &str,
    arguments: &[CelValue<'a>],
) -> Option<EvalResult<'a>> {
    let CelValue::Optional(value) = arguments.first()? else { return None };
    let other = arguments.get(1);
    let result = match (name, value, other) {
        ("hasValue", value, None) => Ok(CelValue::Bool(value.is_some())),
        ("value", Some(value), None) => Ok(value.as_ref().clone()),
        ("value", None, None) => Err(EvalError::new("optional.none() dereference")),
        ("or", Some(_), Some(_)) => Ok(arguments[0].clone()),
        ("or", None, Some(other)) => Ok(other.clone()),
        ("orValue", Some(value), Some(_)) => Ok(value.as_ref().clone()),
        ("orValue", None, Some(other)) => Ok(other.clone()),
        _ => return None,
    };
    Some(evaluation.charge(1).and(result))
}

pub(super) fn call_global<'a>(
    evaluation: &mut Evaluation<'a>,
    name: &str,
    arguments: &[CelValue<'a>],
) -> Option<EvalResult<'a>> {
    let result = match (name, arguments) {
        ("optional.none", []) => None,
        ("optional.of", [value]) => Some(Rc::new(value.clone())),
        ("optional.ofNonZeroValue", [value]) => {
            let is_zero = match value {
                CelValue::Null => true,
                CelValue::Bool(flag) => !flag,
                CelValue::Int(int) => *int == 0,
                CelValue::Uint(uint) => *uint == 0,
                CelValue::Double(double) => *double == 0.0,
                CelValue::Duration(nanos) => *nanos == 0,
                CelValue::Text(_) | CelValue::Bytes(_) | CelValue::List(_) | CelValue::Map(_) => {
                    value.size() == 0
                }
                CelValue::Optional(inner) => inner.is_none(),
                _ => false,
            };
            (!is_zero).then(|| Rc::new(value.clone()))
        }
        _ => return None,
    };
    Some(evaluation.charge(1).map(|()| CelValue::Optional(result)))
}
