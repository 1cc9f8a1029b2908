//! What a strict reader refuses in a body: fields that its kind does not have, and fields that
//! stand there twice. Upstream names them in the order of the document.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::BodyFormat;
use super::tracked::end_of;

/// The fields by their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StrictErrors {
    /// Those that the kind does not have.
    pub unknown: Vec<String>,
    /// Those that stand there twice.
    pub duplicate: Vec<String>,
}

impl StrictErrors {
    /// The errors in upstream's words, of a body that was not sent as one document.
    pub fn texts(&self) -> Vec<String> {
        let duplicate = self.duplicate.iter().map(|path| duplicate_text(path));
        duplicate.chain(self.unknown.iter().map(|path| unknown_text(path))).collect()
    }

    /// The same of a document. That of YAML becomes JSON with sorted fields upstream, so its order
    /// does not show.
    pub fn texts_of_document(&self, format: BodyFormat, document: &[u8]) -> Vec<String> {
        let is_one = self.unknown.len() + self.duplicate.len() < 2;
        match format {
            BodyFormat::Json if !is_one => self.texts_in_order(document),
            BodyFormat::Json | BodyFormat::Yaml | BodyFormat::Protobuf => self.texts(),
        }
    }

    /// Reads the document again, which is only done when something is wrong with it.
    fn texts_in_order(&self, document: &[u8]) -> Vec<String> {
        let mut walk = DocumentWalk {
            unknown: self.unknown.iter().map(String::as_str).collect(),
            duplicate: self.duplicate.iter().map(|path| (path.as_str(), false)).collect(),
            path: String::new(),
            texts: Vec::new(),
        };
        let mut reader = serde_json::Deserializer::from_slice(document);
        match walk.deserialize(&mut reader) {
            Ok(()) => walk.texts,
            // it was read before, so this cannot be; the errors are right in any order
            Err(_) => self.texts(),
        }
    }
}

fn unknown_text(path: &str) -> String {
    format!("unknown field {path:?}")
}

fn duplicate_text(path: &str) -> String {
    format!("duplicate field {path:?}")
}

/// Goes through a document and meets the wrong fields.
struct DocumentWalk<'e> {
    /// Those that were not met yet.
    unknown: BTreeSet<&'e str>,
    /// Those that were not met twice yet, and whether they were met once.
    duplicate: BTreeMap<&'e str, bool>,
    /// Where the walk is.
    path: String,
    texts: Vec<String>,
}

/// Whether a walk looks at the value of a field.
enum FieldValue {
    Walked,
    Skipped,
}

impl DocumentWalk<'_> {
    /// The walk is at a field.
    fn meet(&mut self) -> FieldValue {
        let path = end_of(&self.path);
        if self.unknown.remove(path) {
            self.texts.push(unknown_text(path));
            return FieldValue::Skipped;
        }
        match self.duplicate.get_mut(path) {
            Some(was_met @ false) => *was_met = true,
            Some(true) => {
                self.duplicate.remove(path);
                self.texts.push(duplicate_text(path));
            }
            None => {}
        }
        FieldValue::Walked
    }
}

impl<'de> DeserializeSeed<'de> for &mut DocumentWalk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut DocumentWalk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _value: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _value: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _value: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _value: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _value: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        let above = self.path.len();
        let mut index = 0;
        loop {
            self.path.push_str(&format!("[{index}]"));
            let item = access.next_element_seed(&mut *self)?;
            self.path.truncate(above);
            index += 1;
            if item.is_none() {
                return Ok(());
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        let above = self.path.len();
        while let Some(name) = access.next_key::<String>()? {
            if above > 0 {
                self.path.push('.');
            }
            self.path.push_str(&name);
            match self.meet() {
                FieldValue::Walked => access.next_value_seed(&mut *self)?,
                FieldValue::Skipped => {
                    access.next_value::<IgnoredAny>()?;
                }
            }
            self.path.truncate(above);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(unknown: &[&str], duplicate: &[&str]) -> StrictErrors {
        let owned = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
        StrictErrors { unknown: owned(unknown), duplicate: owned(duplicate) }
    }

    #[test]
    fn they_are_named_in_the_order_of_the_document() {
        let document =
            br#"{"z": {"b": 1, "b": 2}, "spec": {"y": 1, "list": [{"c": 1, "a": {}, "c": 2}],
            "y": 2}, "metadata": {"labels": {"a.b/c": "1", "a.b/c": "2", "a.b/c": "3"}}, "a": []}"#;
        let wrong = errors(
            &["a", "spec.list[0].a", "spec.y", "z"],
            &["z.b", "spec.list[0].c", "spec.y", "metadata.labels.a.b/c"],
        );
        let expected = [
            "unknown field \"z\"",
            "unknown field \"spec.y\"",
            "unknown field \"spec.list[0].a\"",
            "duplicate field \"spec.list[0].c\"",
            "duplicate field \"metadata.labels.a.b/c\"",
            "unknown field \"a\"",
        ];
        let texts = wrong.texts_of_document(BodyFormat::Json, document);
        // a field that the kind does not have is named once, however often it stands there
        assert_eq!(texts, expected);
    }

    #[test]
    fn a_document_in_yaml_has_the_order_of_its_sorted_fields() {
        let wrong = errors(&["a", "b"], &["c"]);
        let expected = ["duplicate field \"c\"", "unknown field \"a\"", "unknown field \"b\""];
        assert_eq!(wrong.texts_of_document(BodyFormat::Yaml, b"b: 1\na: 1\nc: 1\nc: 2"), expected);
        assert_eq!(wrong.texts(), expected);
    }
}
