//! Reads objects, from their text or from a tree of JSON. Read strictly, it notes the fields that a
//! type does not know, and where a value of a wrong type stands.
//!
//! One deserializer does it all, as it is compiled for every type of every kind: one for texts and
//! one for trees, or one wrapped around another, would be compiled for each of them again. What
//! does not depend on the type is in functions of its own, which are compiled once.
//!
//! What reads a struct or a list is not inlined: the compiler would optimise it again within each
//! type around it. This crate took three times as long to build, and read 2 to 7 % faster.

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, Expected, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::{Error, Map, Number, Value};

use crate::json_node::{JsonFields, JsonItems, JsonNode, JsonShape};

/// Unknown fields that are named of one body, as upstream (`sigs.k8s.io/json`).
const UNKNOWN_FIELDS_MAX: usize = 100;

/// Bytes of a path that is named. A longer one loses its beginning.
const PATH_BYTES_MAX: usize = 512;

/// A type that upstream gives no fields, though ours takes any JSON.
const WITHOUT_FIELDS: &str = "CustomResourceSubresourceStatus";

/// Reads an object, and notes each of its fields as unknown.
#[derive(Deserialize)]
struct NoFields {}

/// A field with a value of the wrong type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct DecodeError {
    /// The path, for example `spec.replicas`; `.` for the object itself.
    pub path: String,
    /// What was found and what was expected.
    pub problem: String,
}

/// What reading notes beside the object.
#[derive(Debug)]
pub(crate) struct ReadNotes<'v> {
    mode: ReadMode,
    path: Vec<PathStep<'v>>,
    unknown_fields: Vec<String>,
    /// The innermost value that could not be read.
    failed_at: Option<String>,
}

/// Whether a reader notes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadMode {
    /// It does.
    Strict,
    /// Unknown fields are skipped, and an error says no path.
    Lenient,
}

/// A step on the way from the object to a value in it.
#[derive(Debug)]
enum PathStep<'v> {
    Field(&'v str),
    Index(usize),
}

impl<'v> ReadNotes<'v> {
    pub(crate) const fn new(mode: ReadMode) -> Self {
        Self { mode, path: Vec::new(), unknown_fields: Vec::new(), failed_at: None }
    }

    /// The paths of unknown fields, in reading order.
    pub(crate) fn into_unknown_fields(self) -> Vec<String> {
        self.unknown_fields
    }

    /// The error with its path.
    pub(crate) fn locate(self, error: &Error) -> DecodeError {
        let path = self.failed_at.filter(|path| !path.is_empty());
        DecodeError { path: path.unwrap_or_else(|| ".".to_owned()), problem: error.to_string() }
    }

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

    /// The next value is one step further.
    fn enter(&mut self, step: PathStep<'v>) {
        match self.mode {
            ReadMode::Strict => self.path.push(step),
            ReadMode::Lenient => {}
        }
    }

    /// The value at the current path is done with.
    fn leave(&mut self, read: ValueRead) {
        if self.mode == ReadMode::Lenient {
            return;
        }
        if read == ValueRead::Failed && self.failed_at.is_none() {
            self.failed_at = Some(self.text());
        }
        self.path.pop();
    }

    /// The type does not know the field at the current path.
    fn note_unknown(&mut self) {
        if self.mode == ReadMode::Strict && self.unknown_fields.len() < UNKNOWN_FIELDS_MAX {
            self.unknown_fields.push(self.text());
        }
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

/// Reads the value at the current path.
#[derive(Debug)]
pub struct ObjectReader<'n, 'v> {
    node: JsonNode<'v>,
    notes: &'n mut ReadNotes<'v>,
}

impl<'n, 'v> ObjectReader<'n, 'v> {
    pub(crate) const fn new(node: JsonNode<'v>, notes: &'n mut ReadNotes<'v>) -> Self {
        Self { node, notes }
    }
}

impl<'v> Deserializer<'v> for ObjectReader<'_, 'v> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.node.shape() {
            JsonShape::Null => visitor.visit_unit(),
            JsonShape::Bool(value) => visitor.visit_bool(value),
            JsonShape::Number(number) => number.deserialize_any(visitor),
            JsonShape::Text(text) => visitor.visit_borrowed_str(text),
            JsonShape::List(_) => self.deserialize_seq(visitor),
            JsonShape::Object(_) => self.deserialize_map(visitor),
        }
    }

    /// Only what the visitors of structs, lists and texts take is compiled: most values are such.
    #[inline(never)]
    fn deserialize_struct<V: Visitor<'v>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_map(visitor)
    }

    #[inline(never)]
    fn deserialize_map<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
        let Some(rest) = self.node.fields() else { return Err(wrong_type(self.node, &visitor)) };
        let mut fields = ReadFields { rest, value: None, notes: self.notes };
        let read = visitor.visit_map(&mut fields)?;
        all_taken(fields.rest.len(), &"fewer elements in map").map(|()| read)
    }

    #[inline(never)]
    fn deserialize_seq<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
        let Some(rest) = self.node.items() else { return Err(wrong_type(self.node, &visitor)) };
        let mut items = ReadItems { rest, index: 0, notes: self.notes };
        let read = visitor.visit_seq(&mut items)?;
        all_taken(items.rest.len(), &"fewer elements in array").map(|()| read)
    }

    fn deserialize_str<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.node.text() {
            Some(text) => visitor.visit_borrowed_str(text),
            None => Err(wrong_type(self.node, &visitor)),
        }
    }

    fn deserialize_string<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.node.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'v>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        if name == WITHOUT_FIELDS {
            let NoFields {} = NoFields::deserialize(self)?;
            return visitor.visit_newtype_struct(Value::Object(Map::new()));
        }
        visitor.visit_newtype_struct(self)
    }

    /// What a variant holds is not looked into: no served kind has a variant that holds anything.
    fn deserialize_enum<V: Visitor<'v>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.node.to_tree().deserialize_enum(name, variants, visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
        self.notes.note_unknown();
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        <V: Visitor<'v>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct tuple
        tuple_struct identifier
    }
}

/// The error of serde for a value that a visitor does not take.
fn wrong_type(node: JsonNode<'_>, expected: &dyn Expected) -> Error {
    let number = |number: &Number| match (number.as_u64(), number.as_i64()) {
        (Some(value), _) => Unexpected::Unsigned(value),
        (None, Some(value)) => Unexpected::Signed(value),
        (None, None) => Unexpected::Float(number.as_f64().unwrap_or_default()),
    };
    let found = match node.shape() {
        JsonShape::Null => Unexpected::Unit,
        JsonShape::Bool(value) => Unexpected::Bool(value),
        JsonShape::Number(value) => number(value),
        JsonShape::Text(text) => Unexpected::Str(text),
        JsonShape::List(_) => Unexpected::Seq,
        JsonShape::Object(_) => Unexpected::Map,
    };
    Error::invalid_type(found, expected)
}

/// A visitor that leaves something behind expected less.
fn all_taken(left: usize, expected: &&str) -> Result<(), Error> {
    if left == 0 { Ok(()) } else { Err(Error::invalid_length(left, expected)) }
}

struct ReadItems<'n, 'v> {
    rest: JsonItems<'v>,
    index: usize,
    notes: &'n mut ReadNotes<'v>,
}

impl<'v> ReadItems<'_, 'v> {
    fn next_node(&mut self) -> Option<JsonNode<'v>> {
        let node = self.rest.next()?;
        self.notes.enter(PathStep::Index(self.index));
        self.index += 1;
        Some(node)
    }
}

impl<'v> SeqAccess<'v> for ReadItems<'_, 'v> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'v>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let Some(node) = self.next_node() else { return Ok(None) };
        let read = seed.deserialize(ObjectReader { node, notes: self.notes });
        self.notes.leave(ValueRead::from(&read));
        read.map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

struct ReadFields<'n, 'v> {
    rest: JsonFields<'v>,
    /// Of the field whose name was read last.
    value: Option<JsonNode<'v>>,
    notes: &'n mut ReadNotes<'v>,
}

impl<'v> ReadFields<'_, 'v> {
    fn next_name(&mut self) -> Option<&'v str> {
        let (name, value) = self.rest.next()?;
        self.value = Some(value);
        self.notes.enter(PathStep::Field(name));
        Some(name)
    }

    fn next_value(&mut self) -> Result<JsonNode<'v>, Error> {
        self.value.take().ok_or_else(|| Error::custom("value is missing"))
    }
}

impl<'v> MapAccess<'v> for ReadFields<'_, 'v> {
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
        let node = self.next_value()?;
        let read = seed.deserialize(ObjectReader { node, notes: self.notes });
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
    use crate::ObjectJson;

    fn problem_of(value: &Value) -> (String, String) {
        let error = Pod::from_value_strictly(value).map(drop).unwrap_err();
        (error.path, error.problem)
    }

    #[test]
    fn unknown_fields_are_noted_by_path_wherever_they_stand() {
        let value = json!({
            "apiVersion": "v1", "kind": "Pod", "color": "red",
            "metadata": {"name": "a", "labels": {"any": "thing"}, "colour": {"deep": 1}},
            "spec": {"containers": [{"name": "a"}, {"name": "b", "imag": "x", "ports": [{"containerPort": 1, "x": []}]}]},
        });
        let (pod, unknown) = Pod::from_value_strictly(&value).unwrap();
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
    fn a_hundred_unknown_fields_are_named_by_short_paths() {
        let unknown: Map<String, Value> =
            (0..1_000).map(|n| (format!("{}{n}", "x".repeat(1_000)), Value::Null)).collect();
        let (_, unknown_fields) = Pod::from_value_strictly(&json!({"spec": unknown})).unwrap();
        assert_eq!(unknown_fields.len(), UNKNOWN_FIELDS_MAX);
        assert!(unknown_fields.iter().all(|path| path.len() == PATH_BYTES_MAX));
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
            // of a number with a fraction, text and tree are not exactly the same
            let text = value.to_string();
            let value: Value = serde_json::from_str(&text).unwrap();
            let ours = Pod::from_value_strictly(&value).map(|(pod, _)| pod).map_err(|error| error.problem);
            let theirs = serde_json::from_value::<Pod>(value).map_err(|error| error.to_string());
            prop_assert_eq!(&ours, &theirs);
            let of_text = Pod::from_json(text.as_bytes()).map_err(|error| error.to_string());
            prop_assert_eq!(ours, of_text);
        }
    }
}
