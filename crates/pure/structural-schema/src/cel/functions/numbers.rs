//! Quantities and versions.

use std::rc::Rc;

use super::{
    super::{
        eval::{EvalError, EvalResult, Evaluation, as_int},
        quantity::CelQuantity,
        semver::CelSemver,
        value::CelValue,
    },
    charge_text,
};

pub(super) fn call_global<'a>(
    evaluation: &mut Evaluation<'a>,
    name: &str,
    arguments: &[CelValue<'a>],
) -> Option<EvalResult<'a>> {
    let (CelValue::Text(text), rest) = arguments.split_first()? else { return None };
    let is_lenient = match rest {
        [] => false,
        [CelValue::Bool(is_lenient)] if matches!(name, "semver" | "isSemver") => *is_lenient,
        _ => return None,
    };
    let result = match name {
        "isQuantity" => Ok(CelValue::Bool(CelQuantity::parse(text).is_some())),
        "quantity" => CelQuantity::parse(text).map(CelValue::Quantity).ok_or_else(|| {
            EvalError::new(
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            )
        }),
        "isSemver" => Ok(CelValue::Bool(CelSemver::parse(text, is_lenient).is_some())),
        "semver" => CelSemver::parse(text, is_lenient)
            .map(|version| CelValue::Semver(Rc::new(version)))
            .ok_or_else(|| EvalError::new("No Major.Minor.Patch elements found")),
        _ => return None,
    };
    Some(charge_text(evaluation, &arguments[0]).and(result))
}

pub(super) fn call<'a>(
    evaluation: &mut Evaluation<'a>,
    name: &str,
    arguments: &[CelValue<'a>],
) -> Option<EvalResult<'a>> {
    let result = match arguments {
        [CelValue::Quantity(quantity), rest @ ..] => of_quantity(name, *quantity, rest)?,
        [CelValue::Semver(version)] => {
            let part = match name {
                "major" => version.major,
                "minor" => version.minor,
                "patch" => version.patch,
                _ => return None,
            };
            Ok(CelValue::Int(i64::try_from(part).unwrap_or(i64::MAX)))
        }
        [CelValue::Semver(version), CelValue::Semver(other)] => {
            let order = version.compare(other);
            Ok(match name {
                "compareTo" => as_int(order),
                "isGreaterThan" => CelValue::Bool(order.is_gt()),
                "isLessThan" => CelValue::Bool(order.is_lt()),
                _ => return None,
            })
        }
        _ => return None,
    };
    Some(evaluation.charge(1).and(result))
}

fn of_quantity<'a>(
    name: &str,
    quantity: CelQuantity,
    rest: &[CelValue<'a>],
) -> Option<EvalResult<'a>> {
    let other = match rest {
        [] => None,
        [CelValue::Quantity(other)] => Some(*other),
        [CelValue::Int(int)] if matches!(name, "add" | "sub") => Some(CelQuantity::from_int(*int)),
        _ => return None,
    };
    let sum = |sum: Option<CelQuantity>| {
        sum.map(CelValue::Quantity).ok_or_else(|| EvalError::new("quantity overflow"))
    };
    Some(match (name, other) {
        ("isInteger", None) => Ok(CelValue::Bool(quantity.as_int().is_some())),
        ("asInteger", None) => quantity
            .as_int()
            .map(CelValue::Int)
            .ok_or_else(|| EvalError::new("cannot convert value to integer")),
        ("asApproximateFloat", None) => Ok(CelValue::Double(quantity.as_f64())),
        ("sign", None) => Ok(CelValue::Int(quantity.sign())),
        ("add", Some(other)) => sum(quantity.add(other)),
        ("sub", Some(other)) => sum(quantity.sub(other)),
        ("compareTo", Some(other)) => Ok(as_int(quantity.cmp(&other))),
        ("isGreaterThan", Some(other)) => Ok(CelValue::Bool(quantity > other)),
        ("isLessThan", Some(other)) => Ok(CelValue::Bool(quantity < other)),
        _ => return None,
    })
}
