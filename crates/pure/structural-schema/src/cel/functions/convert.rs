//! Conversions between types.

use jiff::Timestamp;

use super::{
    super::{
        eval::{EvalError, EvalResult, Evaluation},
        value::CelValue,
    },
    charge_text,
};
use crate::formats::{is_in_range, parse_date_time, parse_go_duration};

const NAMES: [&str; 10] =
    ["type", "dyn", "int", "uint", "double", "string", "bool", "bytes", "duration", "timestamp"];

pub(super) fn call<'a>(
    evaluation: &mut Evaluation<'a>,
    name: &str,
    arguments: &[CelValue<'a>],
) -> Option<EvalResult<'a>> {
    let [value] = arguments else { return None };
    if !NAMES.contains(&name) {
        return None;
    }
    if let CelValue::Text(text) = value
        && let Err(error) = evaluation.charge_text_read(text)
    {
        return Some(Err(error));
    }
    let charged = match (name, value) {
        ("string" | "bytes", CelValue::Text(_) | CelValue::Bytes(_)) => {
            charge_text(evaluation, value)
        }
        _ => evaluation.charge(1),
    };
    Some(charged.and_then(|()| match name {
        "type" => Ok(CelValue::TypeName(value.type_name())),
        "int" => to_int(value),
        "uint" => to_uint(value),
        "double" => to_double(value),
        "string" => to_text(value),
        "bool" => to_bool(value),
        "bytes" => to_bytes(value),
        "duration" => to_duration(value),
        "timestamp" => to_timestamp(value),
        _ => Ok(value.clone()),
    }))
}

/// Whether a function makes a number or a truth value of a text; nothing if it makes neither.
pub(in crate::cel) fn converts_text(name: &str, text: &str) -> Option<bool> {
    let value = CelValue::text(text);
    Some(match name {
        "int" => to_int(&value).is_ok(),
        "uint" => to_uint(&value).is_ok(),
        "double" => to_double(&value).is_ok(),
        "bool" => to_bool(&value).is_ok(),
        _ => return None,
    })
}

fn failed<'a>(from: &CelValue<'_>, to: &str) -> EvalResult<'a> {
    match from {
        CelValue::Text(_) => {
            Err(EvalError::new(format!("type conversion error from 'string' to '{to}'")))
        }
        CelValue::Int(_) | CelValue::Uint(_) | CelValue::Double(_) if to == "uint" => {
            Err(EvalError::new("unsigned integer overflow"))
        }
        CelValue::Int(_) | CelValue::Uint(_) | CelValue::Double(_) => {
            Err(EvalError::new("integer overflow"))
        }
        _ => Err(EvalError::no_overload()),
    }
}

fn to_int<'a>(value: &CelValue<'a>) -> EvalResult<'a> {
    let int = match value {
        CelValue::Int(int) => Some(*int),
        CelValue::Uint(uint) => i64::try_from(*uint).ok(),
        CelValue::Double(double) => {
            let fits = double.abs() < 9_223_372_036_854_775_807.0;
            fits.then_some(*double as i64)
        }
        CelValue::Text(text) => text.parse().ok(),
        CelValue::Timestamp(moment) => Some(moment.as_second()),
        _ => return Err(EvalError::no_overload()),
    };
    int.map_or_else(|| failed(value, "int"), |int| Ok(CelValue::Int(int)))
}

fn to_uint<'a>(value: &CelValue<'a>) -> EvalResult<'a> {
    let uint = match value {
        CelValue::Uint(uint) => Some(*uint),
        CelValue::Int(int) => u64::try_from(*int).ok(),
        CelValue::Double(double) => {
            let fits = (0.0..18_446_744_073_709_551_615.0).contains(double);
            fits.then_some(*double as u64)
        }
        CelValue::Text(text) => text.parse().ok(),
        _ => return Err(EvalError::no_overload()),
    };
    uint.map_or_else(|| failed(value, "uint"), |uint| Ok(CelValue::Uint(uint)))
}

fn to_double<'a>(value: &CelValue<'a>) -> EvalResult<'a> {
    let double = match value {
        CelValue::Double(double) => Some(*double),
        CelValue::Int(int) => Some(*int as f64),
        CelValue::Uint(uint) => Some(*uint as f64),
        CelValue::Text(text) => text.parse().ok(),
        _ => return Err(EvalError::no_overload()),
    };
    double.map_or_else(|| failed(value, "double"), |double| Ok(CelValue::Double(double)))
}

fn to_text<'a>(value: &CelValue<'a>) -> EvalResult<'a> {
    match value {
        CelValue::Text(_) => Ok(value.clone()),
        CelValue::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(CelValue::text(text)),
            Err(_) => Err(EvalError::new("invalid UTF-8 in bytes, cannot convert to string")),
        },
        CelValue::Bool(_)
        | CelValue::Int(_)
        | CelValue::Uint(_)
        | CelValue::Double(_)
        | CelValue::Duration(_)
        | CelValue::Timestamp(_)
        | CelValue::Ip(_)
        | CelValue::Cidr(..) => Ok(CelValue::text(value.shown())),
        _ => Err(EvalError::no_overload()),
    }
}

fn to_bool<'a>(value: &CelValue<'a>) -> EvalResult<'a> {
    match value {
        CelValue::Bool(_) => Ok(value.clone()),
        CelValue::Text(text) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(CelValue::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(CelValue::Bool(false)),
            _ => failed(value, "bool"),
        },
        _ => Err(EvalError::no_overload()),
    }
}

fn to_bytes<'a>(value: &CelValue<'a>) -> EvalResult<'a> {
    match value {
        CelValue::Bytes(_) => Ok(value.clone()),
        CelValue::Text(text) => Ok(CelValue::Bytes(text.as_bytes().into())),
        _ => Err(EvalError::no_overload()),
    }
}

fn to_duration<'a>(value: &CelValue<'a>) -> EvalResult<'a> {
    match value {
        CelValue::Duration(_) => Ok(value.clone()),
        CelValue::Text(text) => parse_go_duration(text).map_or_else(
            || failed(value, "google.protobuf.Duration"),
            |nanos| Ok(CelValue::Duration(nanos)),
        ),
        _ => Err(EvalError::no_overload()),
    }
}

fn to_timestamp<'a>(value: &CelValue<'a>) -> EvalResult<'a> {
    let moment = match value {
        CelValue::Timestamp(moment) => return Ok(CelValue::Timestamp(*moment)),
        CelValue::Text(text) => match parse_date_time(text) {
            Some(moment) => Some(moment),
            None => return failed(value, "google.protobuf.Timestamp"),
        },
        CelValue::Int(seconds) => Timestamp::from_second(*seconds).ok(),
        _ => return Err(EvalError::no_overload()),
    };
    let moment = moment.filter(is_in_range);
    moment.map(CelValue::Timestamp).ok_or_else(|| EvalError::new("timestamp overflow"))
}
