//! A bool that travels as `Yes` or `No`. The agent of a further node may be of another version than
//! the engine that asks it, so the words stay. Used as `#[serde(with = "yes_or_no")]`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
enum Word {
    Yes,
    No,
}

/// Writes the word.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(value: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    if *value { Word::Yes } else { Word::No }.serialize(serializer)
}

/// Reads the word.
///
/// # Errors
/// Those of the deserializer, and any other word.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Word::deserialize(deserializer).map(|word| matches!(word, Word::Yes))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_bool_travels_as_a_word() {
        #[derive(Debug, PartialEq, super::Serialize, super::Deserialize)]
        struct Question(#[serde(with = "super")] bool);

        for (value, word) in [(true, "\"Yes\""), (false, "\"No\"")] {
            assert_eq!(serde_json::to_string(&Question(value)).unwrap(), word);
            assert_eq!(serde_json::from_str::<Question>(word).unwrap(), Question(value));
        }
        assert!(serde_json::from_str::<Question>("true").is_err());
    }
}
