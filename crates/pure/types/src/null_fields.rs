//! Fields that are null: Go writes an absent list so, and reads null as what is absent.

use serde::{Deserialize, Deserializer};

/// Reads null as the default, for `#[serde(deserialize_with)]`. A field that may be absent needs
/// `#[serde(default)]` as well.
///
/// # Errors
/// When the value is neither null nor one of this type.
pub fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_the_default_and_another_type_an_error() {
        for (json, expected) in [("null", Some(vec![])), ("[1]", Some(vec![1])), ("1", None)] {
            let read = null_as_default::<_, Vec<u8>>(&mut serde_json::Deserializer::from_str(json));
            assert_eq!(read.ok(), expected, "{json}");
        }
    }
}
