//! Reads an object from a tree of JSON, and notes the fields that its kind does not know and where
//! a value of a wrong type stands.
//!
//! One deserializer does both, as it is compiled for every type of every kind: wrapped around
//! another one, each half would be compiled for each of them again. What does not depend on the
//! type is in functions of its own, which are compiled once.

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, Expected, MapAccess, SeqAccess,
    Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Map, Number, Value};

use super::decode_error::DecodeError;

/// Unknown fields that are told of one body, as upstream (`sigs.k8s.io/json`).
const UNKNOWN_FIELDS_MAX: usize = 100;

/// Bytes of a path that is told. A longer one loses its beginning.
const PATH_BYTES_MAX: usize = 512;

/// An object as read, with the paths of fields that its type does not have, in reading order.
pub(crate) fn read<T: DeserializeOwned>(value: &Value) -> Result<(T, Vec<String>), DecodeError> {
    let mut notes = StrictNotes::default();
    match T::deserialize(StrictValue { value, notes: &mut notes }) {
        Ok(object) => Ok((object, notes.unknown_fields)),
        Err(error) => {
            let path = notes.failed_at.filter(|path| !path.is_empty());
            let path = path.unwrap_or_else(|| ".".to_owned());
            Err(DecodeError { path, problem: error.to_string() })
        }
    }
}

/// A step on the way from the object to a value in it.
enum PathStep<'v> {
    Field(&'v str),
    Index(usize),
}

#[derive(Default)]
struct StrictNotes<'v> {
    path: Vec<PathStep<'v>>,
    unknown_fields: Vec<String>,
    /// The innermost value that could not be read.
    failed_at: Option<String>,
}

impl StrictNotes<'_> {
    /// The current path as the API writes it: `spec.containers[0].foo`.
    fn text(&self) -> String {
        let mut text = String::new();
        for step in &self.path {
            match step {
                PathStep::Field(name) => {
                    if !text.is_empty() {
                        text.push('.');
                    }
                    text.push_str(name);
                }
                PathStep::Index(index) => text.push_str(&format!("[{index}]")),
            }
        }
        let begin = text.ceil_char_boundary(text.len().saturating_sub(PATH_BYTES_MAX));
        text.split_off(begin)
    }

    /// The value at the current path is done with.
    fn leave(&mut self, read: ValueRead) {
        if read == ValueRead::Failed && self.failed_at.is_none() {
            self.failed_at = Some(self.text());
        }
        self.path.pop();
    }
}

/// How reading a value ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueRead {
    Done,
    Failed,
}

impl<T> From<&Result<T, Error>> for ValueRead {
    fn from(result: &Result<T, Error>) -> Self {
        if result.is_ok() { Self::Done } else { Self::Failed }
    }
}

/// The value at the current path.
struct StrictValue<'n, 'v> {
    value: &'v Value,
    notes: &'n mut StrictNotes<'v>,
}

impl<'v> Deserializer<'v> for StrictValue<'_, 'v> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => number.deserialize_any(visitor),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) => {
                let mut items = StrictItems { rest: items.iter().enumerate(), notes: self.notes };
                let read = visitor.visit_seq(&mut items)?;
                all_taken(items.rest.len(), &"fewer elements in array").map(|()| read)
            }
            Value::Object(fields) => visit_fields(fields, self.notes, visitor),
        }
    }

    /// Most types are structs. Only what their visitors take is compiled for each of them.
    fn deserialize_struct<V: Visitor<'v>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.value {
            Value::Object(fields) => visit_fields(fields, self.notes, visitor),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => Err(wrong_type(self.value, &visitor)),
        }
    }

    fn deserialize_option<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Null => visitor.visit_none(),
            Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'v>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    /// What a variant holds is not looked into: no served kind has a variant that holds anything.
    fn deserialize_enum<V: Visitor<'v>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.value.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.notes.unknown_fields.len() < UNKNOWN_FIELDS_MAX {
            let path = self.notes.text();
            self.notes.unknown_fields.push(path);
        }
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        <V: Visitor<'v>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier
    }
}

fn visit_fields<'v, V: Visitor<'v>>(
    fields: &'v Map<String, Value>,
    notes: &mut StrictNotes<'v>,
    visitor: V,
) -> Result<V::Value, Error> {
    let mut fields = StrictFields::new(fields, notes);
    let read = visitor.visit_map(&mut fields)?;
    all_taken(fields.rest.len(), &"fewer elements in map").map(|()| read)
}

/// The error of serde for a value that a visitor does not take.
fn wrong_type(value: &Value, expected: &dyn Expected) -> Error {
    let number = |number: &Number| match (number.as_u64(), number.as_i64()) {
        (Some(value), _) => Unexpected::Unsigned(value),
        (None, Some(value)) => Unexpected::Signed(value),
        (None, None) => Unexpected::Float(number.as_f64().unwrap_or_default()),
    };
    let found = match value {
        Value::Null => Unexpected::Unit,
        Value::Bool(value) => Unexpected::Bool(*value),
        Value::Number(value) => number(value),
        Value::String(text) => Unexpected::Str(text),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    };
    Error::invalid_type(found, expected)
}

/// A visitor that leaves something behind expected less.
fn all_taken(left: usize, expected: &&str) -> Result<(), Error> {
    if left == 0 { Ok(()) } else { Err(Error::invalid_length(left, expected)) }
}

struct StrictItems<'n, 'v> {
    rest: std::iter::Enumerate<std::slice::Iter<'v, Value>>,
    notes: &'n mut StrictNotes<'v>,
}

impl<'v> SeqAccess<'v> for StrictItems<'_, 'v> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'v>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let Some((index, value)) = self.rest.next() else { return Ok(None) };
        self.notes.path.push(PathStep::Index(index));
        let read = seed.deserialize(StrictValue { value, notes: self.notes });
        self.notes.leave(ValueRead::from(&read));
        read.map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

struct StrictFields<'n, 'v> {
    rest: serde_json::map::Iter<'v>,
    /// Of the field whose name was read last.
    value: Option<&'v Value>,
    notes: &'n mut StrictNotes<'v>,
}

impl<'n, 'v> StrictFields<'n, 'v> {
    fn new(fields: &'v Map<String, Value>, notes: &'n mut StrictNotes<'v>) -> Self {
        Self { rest: fields.iter(), value: None, notes }
    }

    fn next_name(&mut self) -> Option<&'v str> {
        let (name, value) = self.rest.next()?;
        self.value = Some(value);
        self.notes.path.push(PathStep::Field(name));
        Some(name)
    }
}

impl<'v> MapAccess<'v> for StrictFields<'_, 'v> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'v>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let Some(name) = self.next_name() else { return Ok(None) };
        match seed.deserialize(BorrowedStrDeserializer::new(name)) {
            Ok(key) => Ok(Some(key)),
            Err(error) => {
                self.notes.leave(ValueRead::Failed);
                Err(error)
            }
        }
    }

    fn next_value_seed<T: DeserializeSeed<'v>>(&mut self, seed: T) -> Result<T::Value, Error> {
        let value = self.value.take().ok_or_else(|| Error::custom("value is missing"))?;
        let read = seed.deserialize(StrictValue { value, notes: self.notes });
        self.notes.leave(ValueRead::from(&read));
        read
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn problem_of(value: &Value) -> (String, String) {
        let error = read::<Pod>(value).map(drop).unwrap_err();
        (error.path, error.problem)
    }

    #[test]
    fn unknown_fields_are_noted_by_path_wherever_they_stand() {
        let value = json!({
            "apiVersion": "v1", "kind": "Pod", "color": "red",
            "metadata": {"name": "a", "labels": {"any": "thing"}, "colour": {"deep": 1}},
            "spec": {"containers": [{"name": "a"}, {"name": "b", "imag": "x", "ports": [{"containerPort": 1, "x": []}]}]},
        });
        let (pod, unknown) = read::<Pod>(&value).unwrap();
        assert_eq!(pod.metadata.name.as_deref(), Some("a"));
        let expected = [
            "color",
            "metadata.colour",
            "spec.containers[1].imag",
            "spec.containers[1].ports[0].x",
        ];
        assert_eq!(unknown, expected);
    }

    #[test]
    fn a_hundred_unknown_fields_are_told_by_short_paths() {
        let unknown: Map<String, Value> =
            (0..1_000).map(|n| (format!("{}{n}", "x".repeat(1_000)), Value::Null)).collect();
        let (_, told) = read::<Pod>(&json!({"spec": unknown})).unwrap();
        assert_eq!(told.len(), UNKNOWN_FIELDS_MAX);
        assert!(told.iter().all(|path| path.len() == PATH_BYTES_MAX));
    }

    #[test]
    fn a_value_of_a_wrong_type_is_named_by_the_innermost_path() {
        let pod = |spec: Value| json!({"apiVersion": "v1", "kind": "Pod", "spec": spec});
        for (value, path, problem) in [
            (
                pod(json!({"containers": [{"name": "a", "ports": [{"containerPort": "x"}]}]})),
                "spec.containers[0].ports[0].containerPort",
                "invalid type: string \"x\", expected i32",
            ),
            (
                pod(json!({"containers": {}})),
                "spec.containers",
                "invalid type: map, expected a sequence",
            ),
            (pod(json!([1])), "spec", "invalid type: sequence, expected PodSpec"),
            (
                pod(json!({"nodeSelector": {"a.b": 1}})),
                "spec.nodeSelector.a.b",
                "invalid type: integer `1`, expected a string",
            ),
            (json!(3), ".", "invalid type: integer `3`, expected Pod"),
        ] {
            assert_eq!(problem_of(&value), (path.to_owned(), problem.to_owned()));
        }
    }

    fn leaf() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a-z0-9.%]{0,6}".prop_map(Value::from),
        ]
    }

    /// Mostly fields that a pod has, of types that are seldom right.
    fn tree() -> impl Strategy<Value = Value> {
        const NAMES: [&str; 18] = [
            "apiVersion",
            "kind",
            "metadata",
            "spec",
            "status",
            "containers",
            "name",
            "image",
            "ports",
            "containerPort",
            "env",
            "value",
            "labels",
            "resources",
            "limits",
            "cpu",
            "httpGet",
            "unknown",
        ];
        leaf().prop_recursive(6, 40, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                proptest::collection::btree_map(proptest::sample::select(&NAMES[..]), inner, 0..6)
                    .prop_map(|fields| fields
                        .into_iter()
                        .map(|(n, v)| (n.to_owned(), v))
                        .collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_reads_what_serde_json_reads_and_says_what_it_says(
            spec in tree(), metadata in tree(), is_whole in any::<bool>()
        ) {
            let value = if is_whole {
                spec
            } else {
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
            };
            let ours = read::<Pod>(&value).map(|(pod, _)| pod).map_err(|error| error.problem);
            let theirs = serde_json::from_value::<Pod>(value).map_err(|error| error.to_string());
            prop_assert_eq!(ours, theirs);
        }
    }
}
