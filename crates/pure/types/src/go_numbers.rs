//! Numbers as the API server, which is written in Go, prints them.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Error;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

/// Writes JSON with the floats of Go.
struct GoNumbers;

impl Formatter for GoNumbers {
    fn write_f64<W: Write + ?Sized>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(json_float(value).as_bytes())
    }
}

/// A float in JSON: a whole one has no fraction.
pub fn json_float(float: f64) -> String {
    // an exponent has no zero before its digit there
    float_within(float, 1e-6, 1e21).replace("e-0", "e-")
}

/// A float as Go's `%v` and `strconv.FormatFloat` with the format `g` print it: an exponent for
/// large and small ones.
pub fn go_float(float: f64) -> String {
    float_within(float, 1e-4, 1e6)
}

/// A float, with an exponent unless its size lies within these limits.
fn float_within(float: f64, plain_from: f64, exponent_from: f64) -> String {
    if float.is_infinite() {
        return if float > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    if float == 0.0 || float.is_nan() || (plain_from..exponent_from).contains(&float.abs()) {
        return format!("{float}");
    }
    let text = format!("{float:e}");
    let (digits, exponent) = text.split_once('e').expect("`{:e}` prints an exponent");
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
    format!("{digits}e{sign}{exponent:0>2}")
}

/// The text of a value.
///
/// # Errors
/// None: a value has text keys only.
pub fn json_text(value: &Value) -> Result<Vec<u8>, Error> {
    let mut text = Vec::new();
    write_go_json(value, &mut text)?;
    Ok(text)
}

/// Adds the text of a value.
pub(crate) fn write_go_json<T: Serialize>(value: &T, text: &mut Vec<u8>) -> Result<(), Error> {
    value.serialize(&mut Serializer::with_formatter(text, GoNumbers))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_floats_have_no_fraction() {
        let value = json!([5.0, 1.5, 1e10, 1e20, 1e300, 1e-5, 1e-7, -2.0, 7, {"a": "1.0"}]);
        let text = json_text(&value).unwrap();
        let expected =
            r#"[5,1.5,10000000000,100000000000000000000,1e+300,0.00001,1e-7,-2,7,{"a":"1.0"}]"#;
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
