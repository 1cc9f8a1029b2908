//! Numbers in JSON as the API server writes them: a float that is whole has no fraction.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use serde_json::{Error, Value};

/// From this size on, a float has an exponent.
const EXPONENT_FROM: f64 = 1e21;

/// Writes JSON with the floats of Go.
struct GoNumbers;

impl Formatter for GoNumbers {
    fn write_f64<W: Write + ?Sized>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        if value.fract() == 0.0 && value.abs() < EXPONENT_FROM {
            write!(writer, "{value}")
        } else {
            write!(writer, "{}", Value::from(value))
        }
    }
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
        let text = json_text(&json!([5.0, 1.5, 1e10, 1e20, 1e300, -2.0, 7, {"a": "1.0"}])).unwrap();
        let expected = r#"[5,1.5,10000000000,100000000000000000000,1e+300,-2,7,{"a":"1.0"}]"#;
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
