//! Quantities and versions.

use std::rc::Rc;

use rekindle_types::{Quantity, QuantityError};

use super::{
    super::{
        eval::{EvalError, EvalResult, Evaluation, as_int},
        semver::CelSemver,
        value::{CelValue, quantity_order},
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
        "isQuantity" => Ok(CelValue::Bool(text.parse::<Quantity>().is_ok())),
        "quantity" => text
            .parse()
            .map(CelValue::Quantity)
            .map_err(|error: QuantityError| EvalError::new(error.to_string())),
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
            if let Err(error) = evaluation.charge_work(version.work() + other.work()) {
                return Some(Err(error));
            }
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
    quantity: Quantity,
    rest: &[CelValue<'a>],
) -> Option<EvalResult<'a>> {
    let other = match rest {
        [] => None,
        [CelValue::Quantity(other)] => Some(*other),
        [CelValue::Int(int)] if matches!(name, "add" | "sub") => Some(Quantity::from_units(*int)),
        _ => return None,
    };
    // what is too large for whole units is none of them
    let units = quantity.units();
    let is_integer = quantity_order(Quantity::from_units(units), quantity).is_eq();
    Some(match (name, other) {
        ("isInteger", None) => Ok(CelValue::Bool(is_integer)),
        ("asInteger", None) if is_integer => Ok(CelValue::Int(units)),
        ("asInteger", None) => Err(EvalError::new("cannot convert value to integer")),
        ("asApproximateFloat", None) => {
            Ok(CelValue::Double(quantity.ratio_to(Quantity::from_units(1))))
        }
        ("sign", None) => Ok(as_int(quantity_order(quantity, Quantity::default()))),
        ("add", Some(other)) => Ok(CelValue::Quantity(quantity.saturating_add(other))),
        ("sub", Some(other)) => Ok(CelValue::Quantity(quantity.saturating_sub(other))),
        ("compareTo", Some(other)) => Ok(as_int(quantity_order(quantity, other))),
        ("isGreaterThan", Some(other)) => Ok(CelValue::Bool(quantity.exceeds(other))),
        ("isLessThan", Some(other)) => Ok(CelValue::Bool(other.exceeds(quantity))),
        _ => return None,
    })
}
