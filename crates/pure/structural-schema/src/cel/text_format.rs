//! `string.format`: fills values into a text.

use rekindle_types::go_float;

use super::{
    eval::{EvalError, EvalResult, Evaluation},
    value::{CelList, CelValue},
};

/// How many digits a number may be printed with.
const PRECISION_MAX: usize = 100;

/// Replaces each clause, such as `%s` or `%.2f`, by a value.
pub(super) fn format<'a>(
    evaluation: &mut Evaluation<'a>,
    text: &str,
    values: &CelList<'a>,
) -> EvalResult<'a> {
    let mut out = String::new();
    let mut used = 0;
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let (precision, after) = match after.strip_prefix('.') {
            Some(digits) => {
                let end = digits.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(digits.len());
                let precision = digits[..end].parse().map_err(|_| {
                    EvalError::new("could not parse formatting clause: error while converting precision to integer")
                })?;
                (Some(precision), &digits[end..])
            }
            None => (None, after),
        };
        let Some(clause) = after.chars().next() else {
            return Err(EvalError::new("unexpected end of string"));
        };
        rest = &after[clause.len_utf8()..];
        let value =
            values.get(used).ok_or_else(|| EvalError::new(format!("index {used} out of range")))?;
        used += 1;
        evaluation.charge_elements(&value)?;
        let filled = filled(clause, precision, &value)?;
        evaluation.charge_text_made(filled.len())?;
        out.push_str(&filled);
    }
    out.push_str(rest);
    Ok(CelValue::text(out))
}

fn filled(
    clause: char,
    precision: Option<usize>,
    value: &CelValue<'_>,
) -> Result<String, EvalError> {
    let digits = precision.unwrap_or(6).min(PRECISION_MAX);
    let text = match (clause, value) {
        ('s', value) => Some(value.shown()),
        ('d', CelValue::Int(_) | CelValue::Uint(_)) => Some(value.shown()),
        ('d', CelValue::Double(double)) if !double.is_finite() => Some(go_float(*double)),
        ('f', CelValue::Double(double)) => Some(format!("{double:.digits$}")),
        ('f', CelValue::Int(int)) => Some(format!("{:.digits$}", *int as f64)),
        ('e', CelValue::Double(double)) => Some(exponent(*double, digits)),
        ('e', CelValue::Int(int)) => Some(exponent(*int as f64, digits)),
        ('b', CelValue::Int(int)) => Some(signed(*int, |size| format!("{size:b}"))),
        ('b', CelValue::Uint(uint)) => Some(format!("{uint:b}")),
        ('b', CelValue::Bool(flag)) => Some(u8::from(*flag).to_string()),
        ('o', CelValue::Int(int)) => Some(signed(*int, |size| format!("{size:o}"))),
        ('o', CelValue::Uint(uint)) => Some(format!("{uint:o}")),
        ('x', CelValue::Int(int)) => Some(signed(*int, |size| format!("{size:x}"))),
        ('X', CelValue::Int(int)) => Some(signed(*int, |size| format!("{size:X}"))),
        ('x', CelValue::Uint(uint)) => Some(format!("{uint:x}")),
        ('X', CelValue::Uint(uint)) => Some(format!("{uint:X}")),
        ('x' | 'X', CelValue::Text(text)) => Some(hex(text.as_bytes(), clause == 'X')),
        ('x' | 'X', CelValue::Bytes(bytes)) => Some(hex(bytes, clause == 'X')),
        _ => None,
    };
    text.ok_or_else(|| {
        let problem = match clause {
            's' | 'd' | 'f' | 'e' | 'b' | 'o' | 'x' | 'X' => format!(
                "error during formatting: the clause %{clause} takes no value of type {}",
                value.type_name()
            ),
            other => format!(
                "could not parse formatting clause: unrecognized formatting clause \"{other}\""
            ),
        };
        EvalError::new(problem)
    })
}

fn signed(int: i64, print: impl Fn(u64) -> String) -> String {
    let sign = if int < 0 { "-" } else { "" };
    format!("{sign}{}", print(int.unsigned_abs()))
}

fn exponent(number: f64, digits: usize) -> String {
    let text = format!("{number:.digits$e}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
    format!("{digits}e{sign}{exponent:0>2}")
}

fn hex(bytes: &[u8], is_upper: bool) -> String {
    let digits: &[u8; 16] = if is_upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    let halves = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    halves.map(|half| char::from(digits[usize::from(half)])).collect()
}
