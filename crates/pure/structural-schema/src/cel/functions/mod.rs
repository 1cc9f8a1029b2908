//! The functions that rules may call.

mod convert;
mod lists;
mod named_formats;
mod network;
mod numbers;
mod optionals;
mod texts;
mod time;

pub(super) use convert::converts_text;

use super::{
    authorizer, cost,
    eval::{EvalError, EvalResult, Evaluation},
    value::CelValue,
};

/// Calls a function. A member's receiver is its first argument.
pub(super) fn call<'a>(
    evaluation: &mut Evaluation<'a>,
    name: &str,
    is_member: bool,
    arguments: &[CelValue<'a>],
) -> EvalResult<'a> {
    let by_kind = match (is_member, arguments.first()) {
        (true, Some(CelValue::Text(_))) => texts::call(evaluation, name, arguments),
        (true, Some(CelValue::List(_))) => lists::call(evaluation, name, arguments),
        (true, Some(CelValue::Timestamp(_) | CelValue::Duration(_))) => {
            time::call(evaluation, name, arguments)
        }
        (true, Some(CelValue::Optional(_))) => optionals::call(evaluation, name, arguments),
        (true, Some(CelValue::Quantity(_) | CelValue::Semver(_))) => {
            numbers::call(evaluation, name, arguments)
        }
        (true, Some(CelValue::Ip(_) | CelValue::Cidr(..) | CelValue::Url(_))) => {
            network::call(evaluation, name, arguments)
        }
        (true, Some(CelValue::Authorization(_))) => authorizer::call(evaluation, name, arguments),
        (true, Some(CelValue::Format(format))) if name == "validate" => {
            named_formats::validate(evaluation, format, arguments)
        }
        _ => None,
    };
    if let Some(result) = by_kind {
        return result;
    }
    if let ("size", [value]) = (name, arguments) {
        evaluation.charge(1)?;
        if let CelValue::Text(text) = value {
            evaluation.charge_text_read(text)?;
        }
        return match value {
            CelValue::Text(_) | CelValue::Bytes(_) | CelValue::List(_) | CelValue::Map(_) => {
                Ok(CelValue::Int(i64::try_from(value.size()).unwrap_or(i64::MAX)))
            }
            _ => Err(EvalError::no_overload()),
        };
    }
    if is_member {
        return Err(EvalError::no_overload());
    }
    let global = [
        convert::call,
        lists::call_global,
        texts::call_global,
        numbers::call_global,
        network::call_global,
        optionals::call_global,
        named_formats::call_global,
    ];
    for call in global {
        if let Some(result) = call(evaluation, name, arguments) {
            return result;
        }
    }
    Err(EvalError::no_overload())
}

/// Charges for walking over the first argument.
fn charge_text(evaluation: &mut Evaluation<'_>, text: &CelValue<'_>) -> Result<(), EvalError> {
    evaluation.charge(cost::traverse(text.size()))
}
