//! Writes objects as JSON text or as a tree.
//!
//! One serializer does both, as it is compiled for every type of every kind. A serializer of
//! serde_json is compiled for each of them once more, and so is each of its ways to write a raw
//! value. What does not depend on the type is in functions of its own, which are compiled once.
//!
//! Text has no spaces. It holds a `fieldsV1` of managedFields that is kept as one text as the JSON
//! that it is: as a tree, the fields of an object may take more memory than the rest of it.

use serde::Serialize;
use serde::ser::{
    Error as _, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde_json::{Error, Map, Value};

use crate::go_numbers::write_go_json;

/// Room for the text of most objects, so that it does not move while it grows.
pub(crate) const TEXT_BYTES: usize = 4 << 10;

/// The way to the fields: the depth of the object that has the key, and the key.
const WAY: [(u32, &str); 3] = [(1, "metadata"), (2, "managedFields"), (4, "fieldsV1")];

/// The type of references to Secrets of the same namespace. Its one field is a text, and Go prints
/// none that is empty: no check refuses the empty name of a pull secret.
const LOCAL_REFERENCE: &str = "LocalObjectReference";

/// The text of an object.
pub(crate) fn text_of<T: Serialize>(object: &T) -> Result<Vec<u8>, Error> {
    write(object, TextSink { text: Vec::with_capacity(TEXT_BYTES), ..TextSink::default() })
}

/// The text of metadata without the object around it.
pub(crate) fn metadata_text_of<T: Serialize>(metadata: &T) -> Result<Vec<u8>, Error> {
    write(metadata, TextSink { depth: 1, on_way: 1, ..TextSink::default() })
}

fn write<T: Serialize>(object: &T, sink: TextSink) -> Result<Vec<u8>, Error> {
    let mut writer = ObjectWriter { sink: Sink::Text(sink), is_key: false, key_of_text: None };
    object.serialize(&mut writer)?;
    match writer.sink {
        Sink::Text(sink) => Ok(sink.text),
        Sink::Tree(_) => unreachable!("a writer keeps its sink"),
    }
}

/// The tree of an object.
pub(crate) fn tree_of<T: Serialize>(object: &T) -> Result<Value, Error> {
    let mut writer =
        ObjectWriter { sink: Sink::Tree(TreeSink::default()), is_key: false, key_of_text: None };
    object.serialize(&mut writer)?;
    match writer.sink {
        Sink::Tree(sink) => Ok(sink.root),
        Sink::Text(_) => unreachable!("a writer keeps its sink"),
    }
}

struct ObjectWriter {
    sink: Sink,
    /// Whether what is written next is the key of a map.
    is_key: bool,
    /// A key that is written with its value, unless that is an empty text.
    key_of_text: Option<&'static str>,
}

enum Sink {
    Text(TextSink),
    Tree(TreeSink),
}

/// What becomes text.
#[derive(Default)]
struct TextSink {
    text: Vec<u8>,
    /// Whether a value stands before what comes next, in the same object or list.
    follows_value: bool,
    /// Open objects and lists.
    depth: u32,
    /// How far along the way the current value lies.
    on_way: usize,
}

/// What becomes a tree.
#[derive(Default)]
struct TreeSink {
    /// The objects and lists that are open, the innermost last.
    open: Vec<OpenNode>,
    root: Value,
}

enum OpenNode {
    Object { fields: Map<String, Value>, key: String },
    List(Vec<Value>),
}

/// A value that holds no others.
#[derive(Clone, Copy)]
enum Scalar {
    Null,
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
}

impl From<Scalar> for Value {
    /// A number that JSON does not have becomes null, as with serde_json.
    fn from(scalar: Scalar) -> Self {
        match scalar {
            Scalar::Null => Self::Null,
            Scalar::Bool(value) => value.into(),
            Scalar::Signed(value) => value.into(),
            Scalar::Unsigned(value) => value.into(),
            Scalar::Float(value) => value.into(),
        }
    }
}

impl TextSink {
    fn comma(&mut self) {
        if self.follows_value {
            self.text.push(b',');
        }
    }

    fn open(&mut self, bracket: u8) {
        self.text.push(bracket);
        self.follows_value = false;
        self.depth += 1;
    }

    fn close(&mut self, bracket: u8) {
        self.text.push(bracket);
        self.follows_value = true;
        self.depth -= 1;
    }

    fn key(&mut self, key: &str) -> Result<(), Error> {
        while self.on_way > 0 && WAY[self.on_way - 1].0 >= self.depth {
            self.on_way -= 1;
        }
        if WAY.get(self.on_way) == Some(&(self.depth, key)) {
            self.on_way += 1;
        }
        self.comma();
        serde_json::to_writer(&mut self.text, key)?;
        self.text.push(b':');
        self.follows_value = false;
        Ok(())
    }

    fn string(&mut self, value: &str) -> Result<(), Error> {
        self.follows_value = true;
        match self.on_way == WAY.len() && self.depth == 4 {
            true => {
                self.text.extend_from_slice(value.as_bytes());
                Ok(())
            }
            false => serde_json::to_writer(&mut self.text, value),
        }
    }

    fn scalar(&mut self, scalar: Scalar) -> Result<(), Error> {
        self.follows_value = true;
        match scalar {
            Scalar::Null => serde_json::to_writer(&mut self.text, &()),
            Scalar::Bool(value) => serde_json::to_writer(&mut self.text, &value),
            Scalar::Signed(value) => serde_json::to_writer(&mut self.text, &value),
            Scalar::Unsigned(value) => serde_json::to_writer(&mut self.text, &value),
            Scalar::Float(value) => write_go_json(&value, &mut self.text),
        }
    }
}

impl TreeSink {
    fn key(&mut self, name: &str) {
        if let Some(OpenNode::Object { key, .. }) = self.open.last_mut() {
            name.clone_into(key);
        }
    }

    fn close(&mut self) {
        match self.open.pop() {
            Some(OpenNode::Object { fields, .. }) => self.value(Value::Object(fields)),
            Some(OpenNode::List(items)) => self.value(Value::Array(items)),
            None => {}
        }
    }

    fn value(&mut self, value: Value) {
        match self.open.last_mut() {
            Some(OpenNode::Object { fields, key }) => {
                fields.insert(std::mem::take(key), value);
            }
            Some(OpenNode::List(items)) => items.push(value),
            None => self.root = value,
        }
    }
}

impl ObjectWriter {
    fn is_no_key(&self) -> Result<(), Error> {
        if self.is_key { Err(Error::custom("key must be a string")) } else { Ok(()) }
    }

    fn open_object(&mut self) -> Result<(), Error> {
        self.is_no_key()?;
        match &mut self.sink {
            Sink::Text(sink) => sink.open(b'{'),
            Sink::Tree(sink) => {
                sink.open.push(OpenNode::Object { fields: Map::new(), key: String::new() });
            }
        }
        Ok(())
    }

    fn open_list(&mut self, len: usize) -> Result<(), Error> {
        self.is_no_key()?;
        match &mut self.sink {
            Sink::Text(sink) => sink.open(b'['),
            Sink::Tree(sink) => sink.open.push(OpenNode::List(Vec::with_capacity(len))),
        }
        Ok(())
    }

    fn close(&mut self, bracket: u8) {
        match &mut self.sink {
            Sink::Text(sink) => sink.close(bracket),
            Sink::Tree(sink) => sink.close(),
        }
    }

    fn key(&mut self, key: &str) -> Result<(), Error> {
        match &mut self.sink {
            Sink::Text(sink) => sink.key(key),
            Sink::Tree(sink) => {
                sink.key(key);
                Ok(())
            }
        }
    }

    fn before_item(&mut self) {
        if let Sink::Text(sink) = &mut self.sink {
            sink.comma();
        }
    }

    fn scalar(&mut self, scalar: Scalar) -> Result<(), Error> {
        self.is_no_key()?;
        match &mut self.sink {
            Sink::Text(sink) => sink.scalar(scalar),
            Sink::Tree(sink) => {
                sink.value(scalar.into());
                Ok(())
            }
        }
    }

    fn string(&mut self, value: &str) -> Result<(), Error> {
        if std::mem::take(&mut self.is_key) {
            return self.key(value);
        }
        if let Some(key) = self.key_of_text.take() {
            match (&self.sink, value) {
                (Sink::Text(_), "") => return Ok(()),
                (Sink::Text(_) | Sink::Tree(_), _) => self.key(key)?,
            }
        }
        match &mut self.sink {
            Sink::Text(sink) => sink.string(value),
            Sink::Tree(sink) => {
                sink.value(value.into());
                Ok(())
            }
        }
    }
}

/// An object or a list that is being written, part by part.
struct Parts<'w> {
    writer: &'w mut ObjectWriter,
    /// What closes it, and the object of a variant around it.
    brackets: &'static [u8],
    /// Whether a field is written that is an empty text.
    shows_empty_texts: bool,
}

impl Parts<'_> {
    fn close(self) {
        for bracket in self.brackets {
            self.writer.close(*bracket);
        }
    }
}

impl<'w> Serializer for &'w mut ObjectWriter {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Parts<'w>;
    type SerializeTuple = Parts<'w>;
    type SerializeTupleStruct = Parts<'w>;
    type SerializeTupleVariant = Parts<'w>;
    type SerializeMap = Parts<'w>;
    type SerializeStruct = Parts<'w>;
    type SerializeStructVariant = Parts<'w>;

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.scalar(Scalar::Bool(value))
    }
    fn serialize_i8(self, value: i8) -> Result<(), Error> {
        self.scalar(Scalar::Signed(value.into()))
    }
    fn serialize_i16(self, value: i16) -> Result<(), Error> {
        self.scalar(Scalar::Signed(value.into()))
    }
    fn serialize_i32(self, value: i32) -> Result<(), Error> {
        self.scalar(Scalar::Signed(value.into()))
    }
    fn serialize_i64(self, value: i64) -> Result<(), Error> {
        self.scalar(Scalar::Signed(value))
    }
    fn serialize_u8(self, value: u8) -> Result<(), Error> {
        self.scalar(Scalar::Unsigned(value.into()))
    }
    fn serialize_u16(self, value: u16) -> Result<(), Error> {
        self.scalar(Scalar::Unsigned(value.into()))
    }
    fn serialize_u32(self, value: u32) -> Result<(), Error> {
        self.scalar(Scalar::Unsigned(value.into()))
    }
    fn serialize_u64(self, value: u64) -> Result<(), Error> {
        self.scalar(Scalar::Unsigned(value))
    }
    fn serialize_f32(self, value: f32) -> Result<(), Error> {
        self.scalar(Scalar::Float(value.into()))
    }
    fn serialize_f64(self, value: f64) -> Result<(), Error> {
        self.scalar(Scalar::Float(value))
    }
    fn serialize_char(self, value: char) -> Result<(), Error> {
        self.string(value.encode_utf8(&mut [0; 4]))
    }
    fn serialize_str(self, value: &str) -> Result<(), Error> {
        self.string(value)
    }
    fn serialize_bytes(self, value: &[u8]) -> Result<(), Error> {
        self.collect_seq(value)
    }
    fn serialize_none(self) -> Result<(), Error> {
        self.scalar(Scalar::Null)
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }
    fn serialize_unit(self) -> Result<(), Error> {
        self.scalar(Scalar::Null)
    }
    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), Error> {
        self.scalar(Scalar::Null)
    }
    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<(), Error> {
        self.string(variant)
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        self.open_object()?;
        self.key(variant)?;
        value.serialize(&mut *self)?;
        self.close(b'}');
        Ok(())
    }
    fn serialize_seq(self, len: Option<usize>) -> Result<Parts<'w>, Error> {
        self.open_list(len.unwrap_or(0))?;
        Ok(Parts { writer: self, brackets: b"]", shows_empty_texts: true })
    }
    fn serialize_tuple(self, len: usize) -> Result<Parts<'w>, Error> {
        self.serialize_seq(Some(len))
    }
    fn serialize_tuple_struct(self, _name: &'static str, len: usize) -> Result<Parts<'w>, Error> {
        self.serialize_seq(Some(len))
    }
    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Parts<'w>, Error> {
        self.open_object()?;
        self.key(variant)?;
        self.open_list(len)?;
        Ok(Parts { writer: self, brackets: b"]}", shows_empty_texts: true })
    }
    fn serialize_map(self, _len: Option<usize>) -> Result<Parts<'w>, Error> {
        self.open_object()?;
        Ok(Parts { writer: self, brackets: b"}", shows_empty_texts: true })
    }
    fn serialize_struct(self, name: &'static str, _len: usize) -> Result<Parts<'w>, Error> {
        let parts = self.serialize_map(None)?;
        Ok(Parts { shows_empty_texts: name != LOCAL_REFERENCE, ..parts })
    }
    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Parts<'w>, Error> {
        self.open_object()?;
        self.key(variant)?;
        self.open_object()?;
        Ok(Parts { writer: self, brackets: b"}}", shows_empty_texts: true })
    }
}

impl SerializeSeq for Parts<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.writer.before_item();
        value.serialize(&mut *self.writer)
    }
    fn end(self) -> Result<(), Error> {
        self.close();
        Ok(())
    }
}

impl SerializeMap for Parts<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.writer.is_key = true;
        key.serialize(&mut *self.writer)
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(&mut *self.writer)
    }
    fn end(self) -> Result<(), Error> {
        self.close();
        Ok(())
    }
}

impl SerializeStruct for Parts<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        match self.shows_empty_texts {
            true => self.writer.key(key)?,
            false => self.writer.key_of_text = Some(key),
        }
        value.serialize(&mut *self.writer)
    }
    fn end(self) -> Result<(), Error> {
        self.close();
        Ok(())
    }
}

impl SerializeTuple for Parts<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        SerializeSeq::serialize_element(self, value)
    }
    fn end(self) -> Result<(), Error> {
        SerializeSeq::end(self)
    }
}

impl SerializeTupleStruct for Parts<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        SerializeSeq::serialize_element(self, value)
    }
    fn end(self) -> Result<(), Error> {
        SerializeSeq::end(self)
    }
}

impl SerializeTupleVariant for Parts<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        SerializeSeq::serialize_element(self, value)
    }
    fn end(self) -> Result<(), Error> {
        SerializeSeq::end(self)
    }
}

impl SerializeStructVariant for Parts<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        SerializeStruct::serialize_field(self, key, value)
    }
    fn end(self) -> Result<(), Error> {
        SerializeStruct::end(self)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::ObjectJson;
    use crate::json_text;

    /// Each way of serde to write something.
    #[derive(Serialize)]
    enum AnyShape {
        Unit,
        Newtype(Option<i64>),
        Tuple(u8, char),
        Struct { float: f64, nothing: (), bytes: &'static [u8] },
    }

    #[derive(Serialize)]
    struct AllShapes {
        shapes: Vec<AnyShape>,
        map: BTreeMap<&'static str, (bool, i32)>,
        flat: Flat,
    }

    #[derive(Serialize)]
    struct Flat {
        own: String,
        #[serde(flatten)]
        rest: BTreeMap<String, Value>,
    }

    #[test]
    fn each_shape_is_written_as_serde_json_writes_it() {
        let all = AllShapes {
            shapes: vec![
                AnyShape::Unit,
                AnyShape::Newtype(None),
                AnyShape::Newtype(Some(-1)),
                AnyShape::Tuple(255, '"'),
                AnyShape::Struct { float: f64::NAN, nothing: (), bytes: &[0, 1] },
                AnyShape::Struct { float: 1.5, nothing: (), bytes: &[] },
            ],
            map: BTreeMap::from([("", (true, 1)), ("a\n", (false, i32::MIN))]),
            flat: Flat {
                own: "\u{1}é".to_owned(),
                rest: BTreeMap::from([("x".into(), json!([{}]))]),
            },
        };
        assert_eq!(text_of(&all).unwrap(), serde_json::to_vec(&all).unwrap());
        assert_eq!(tree_of(&all).unwrap(), serde_json::to_value(&all).unwrap());
    }

    #[test]
    fn keys_that_are_no_texts_are_refused() {
        for map in [json!([1]), json!({}), json!(null), json!(1.5)] {
            let map: Vec<(Value, u8)> = vec![(map, 1)];
            let as_map = serde_fn(move |serializer: &mut ObjectWriter| {
                serializer.collect_map(map.iter().map(|(key, value)| (key, value)))
            });
            assert_eq!(as_map.unwrap_err().to_string(), "key must be a string");
        }
    }

    fn serde_fn(write: impl FnOnce(&mut ObjectWriter) -> Result<(), Error>) -> Result<(), Error> {
        write(&mut ObjectWriter {
            sink: Sink::Text(TextSink::default()),
            is_key: false,
            key_of_text: None,
        })
    }

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 40, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[a-z\"]{0,3}", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_tree_is_written_as_json(tree in tree()) {
            prop_assert_eq!(text_of(&tree).unwrap(), json_text(&tree).unwrap());
            prop_assert_eq!(tree_of(&tree).unwrap(), tree);
        }
    }

    fn written(object: &Value) -> Value {
        let object: ConfigMap = serde_json::from_value(object.clone()).unwrap();
        serde_json::from_slice(&object.to_json()).unwrap()
    }

    #[test]
    fn only_the_fields_of_entries_are_written_as_they_are() {
        let fields = r#"{"f:data":{".":{},"f:a\"b":{},"k:{\"name\":\"x\\\\\"}":{}}}"#;
        let entry = |fields: Value| json!({"manager": "fieldsV1", "fieldsV1": fields});
        let object = |fields: Value| {
            json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "data": {"fieldsV1": "{}", "metadata": "managedFields"},
                "metadata": {
                    "annotations": {"fieldsV1": "{}", "managedFields": "x"},
                    "managedFields": [entry(fields.clone()), entry(json!({})), entry(fields)],
                    "name": "fieldsV1",
                },
            })
        };
        let tree: Value = serde_json::from_str(fields).unwrap();
        assert_eq!(written(&object(json!(fields))), object(tree.clone()));
        assert_eq!(written(&object(tree.clone())), object(tree));
    }

    #[test]
    fn a_pull_secret_without_a_name_has_none_in_its_text() {
        let secrets = json!([{"name": ""}, {"name": "a]"}, {"name": ""}]);
        let spec = json!({"containers": [], "imagePullSecrets": secrets});
        let pod: Pod = serde_json::from_value(json!({"spec": spec.clone()})).unwrap();
        let written: Value = serde_json::from_slice(&pod.to_json()).unwrap();
        assert_eq!(written["spec"]["imagePullSecrets"], json!([{}, {"name": "a]"}, {}]));
        assert_eq!(pod.to_value()["spec"], spec, "it is a key of the list in the tree");
    }

    #[test]
    fn the_fields_of_a_pod_are_written_as_they_are_whatever_its_conditions_lack() {
        let entry = |fields: Value| json!([{"manager": "x", "fieldsV1": fields}]);
        let with = |condition: Value, fields: Value| {
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "web", "managedFields": entry(fields)},
                "status": {"conditions": [condition]},
            })
        };
        let (text, tree) = (json!("{\"f:spec\":{}}"), json!({"f:spec": {}}));
        let time = "2026-11-27T09:00:00Z";
        for condition in [
            json!({"type": "Ready", "status": "True"}),
            json!({
                "type": "Ready", "status": "True", "lastProbeTime": time, "lastTransitionTime": time,
            }),
        ] {
            let pod: Pod = serde_json::from_value(with(condition, text.clone())).unwrap();
            let written: Value = serde_json::from_slice(&pod.to_json()).unwrap();
            assert_eq!(written["metadata"]["managedFields"], entry(tree.clone()));
        }
    }
}
