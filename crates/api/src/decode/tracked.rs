//! Reads JSON and YAML into a tree while noting duplicate fields by path, with bounds on depth and, for YAML, on aliases.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

/// How deep objects and lists may nest. Kubernetes' own types stay below 30.
pub const DEPTH_MAX: usize = 100;

/// Duplicate fields that are told of one body. Each is written down with its path, which may be long.
const DUPLICATES_MAX: usize = 100;

/// YAML events (nodes) that one document may make, aliases expanded.
const YAML_EVENTS_MAX: usize = 500_000;

/// The tree, and the duplicate fields.
type Tracked = (Value, Vec<String>);

/// Reads one JSON value with nothing after it.
pub(super) fn from_json(bytes: &[u8]) -> Result<Tracked, String> {
    // checked as a whole, which takes less than to check string by string
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let mut state = State::default();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Node { state: &mut state }
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| error.to_string())?;
    Ok((value, state.into_duplicates()))
}

/// Reads one YAML document.
pub(super) fn from_yaml(bytes: &[u8]) -> Result<Tracked, String> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: YAML_EVENTS_MAX,
            max_nodes: YAML_EVENTS_MAX,
            max_depth: DEPTH_MAX + 8,
            max_documents: 1,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: YAML_EVENTS_MAX / 10,
            max_replay_stack_depth: 16,
        },
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins,
        with_snippet: false,
    };
    let mut state = State::default();
    let value =
        serde_saphyr::with_deserializer_from_slice_with_options(bytes, options, |deserializer| {
            Node { state: &mut state }.deserialize(deserializer)
        })
        .map_err(|error| error.to_string())?;
    Ok((value, state.into_duplicates()))
}

#[derive(Default)]
struct State {
    depth: usize,
    /// Paths from the value that is being read: each level puts its own step before those of the levels below, so that where no
    /// field stands twice no path is ever written down.
    duplicates: Vec<String>,
}

impl State {
    /// A field of the object that began then stands there again.
    fn found_again(&mut self, since: usize, name: &str) {
        let is_known = self.duplicates[since..].iter().any(|known| known == name);
        if !is_known && self.duplicates.len() < DUPLICATES_MAX {
            self.duplicates.push(name.to_owned());
        }
    }

    /// What was found since then is below this step.
    fn found_below(&mut self, since: usize, step: impl Fn() -> String) {
        for path in &mut self.duplicates[since..] {
            let point = if path.starts_with('[') { "" } else { "." };
            *path = format!("{}{point}{path}", step());
        }
    }

    /// The paths, each once.
    fn into_duplicates(self) -> Vec<String> {
        let mut once = Vec::with_capacity(self.duplicates.len());
        for path in self.duplicates {
            if !once.contains(&path) {
                once.push(path);
            }
        }
        once
    }
}

/// One value.
struct Node<'a> {
    state: &'a mut State,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.state.depth > DEPTH_MAX {
            return Err(D::Error::custom(format!("exceeded max depth of {DEPTH_MAX}")));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("not a finite number"))?;
        Ok(Value::Number(number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            let found = self.state.duplicates.len();
            self.state.depth += 1;
            let item = access.next_element_seed(Node { state: self.state })?;
            self.state.depth -= 1;
            self.state.found_below(found, || format!("[{}]", items.len()));
            match item {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        let begun = self.state.duplicates.len();
        while let Some(name) = access.next_key::<String>()? {
            let field = fields.entry(name);
            if let Entry::Occupied(known) = &field {
                self.state.found_again(begun, known.key());
            }
            let found = self.state.duplicates.len();
            self.state.depth += 1;
            let value = access.next_value_seed(Node { state: self.state })?;
            self.state.depth -= 1;
            self.state.found_below(found, || field.key().clone());
            match field {
                Entry::Occupied(mut known) => {
                    known.insert(value);
                }
                Entry::Vacant(new) => {
                    new.insert(value);
                }
            }
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn duplicate_fields_are_named_by_path_and_the_last_counts() {
        let json = br#"{"spec":{"a":1,"b":[{"c":1,"c":2}],"a":3,"a":4}}"#;
        let (value, duplicates) = from_json(json).unwrap();
        assert_eq!(value, serde_json::json!({"spec": {"a": 4, "b": [{"c": 2}]}}));
        assert_eq!(duplicates, ["spec.b[0].c", "spec.a"]);
        let (value, duplicates) = from_yaml(b"spec:\n  a: 1\n  b: x\n  a: 3\n").unwrap();
        assert_eq!(value, serde_json::json!({"spec": {"a": 3, "b": "x"}}));
        assert_eq!(duplicates, ["spec.a"]);
    }

    #[test]
    fn a_hundred_duplicate_fields_are_told_and_each_once() {
        let again = format!("{{\"a\":[{{{}\"b\":1}}]}}", "\"b\":1,".repeat(10_000));
        assert_eq!(from_json(again.as_bytes()).unwrap().1, ["a[0].b"]);
        let pairs: Vec<String> = (0..1_000).map(|n| format!("\"f{n}\":1,\"f{n}\":2")).collect();
        let (value, duplicates) = from_json(format!("{{{}}}", pairs.join(",")).as_bytes()).unwrap();
        assert_eq!(value.as_object().map(Map::len), Some(1_000));
        assert_eq!(duplicates.len(), DUPLICATES_MAX);
    }

    #[test]
    fn depth_is_bounded_in_both_formats() {
        let deep = |open: &str, close: &str, depth: usize| {
            format!("{}1{}", open.repeat(depth), close.repeat(depth))
        };
        assert!(from_json(deep("[", "]", 90).as_bytes()).is_ok());
        assert!(from_json(deep("[", "]", 100_000).as_bytes()).unwrap_err().contains("depth"));
        assert!(from_yaml(deep("[", "]", 100_000).as_bytes()).is_err());
        assert!(
            from_json(deep("{\"a\":", "}", 110).as_bytes())
                .unwrap_err()
                .contains("max depth of 100")
        );
    }

    #[test]
    fn a_yaml_alias_bomb_is_refused() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let below = format!("*a{}", level - 1);
            bomb += &format!("a{level}: &a{level} [{}]\n", vec![below; 10].join(", "));
        }
        assert!(from_yaml(bomb.as_bytes()).is_err());
        let (value, _) = from_yaml(b"a: &a [1]\nb: *a\n").unwrap();
        assert_eq!(value, serde_json::json!({"a": [1], "b": [1]}));
    }

    #[test]
    fn what_follows_the_value_is_refused() {
        assert!(from_json(b"{} {}").is_err());
        assert!(from_json(b"").is_err());
        assert!(from_yaml(b"a: 1\n---\nb: 2\n").is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = from_json(&bytes);
            let _ = from_yaml(&bytes);
        }

        #[test]
        fn no_yaml_like_text_panics(text in "[-a-c0-9:{}\\[\\]&*!|> \n\"',?#%@]{0,80}") {
            let _ = from_json(text.as_bytes());
            let _ = from_yaml(text.as_bytes());
        }
    }
}
