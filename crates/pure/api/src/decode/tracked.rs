//! Reads JSON and YAML into a tree while noting duplicate fields by path, with bounds on depth and,
//! for YAML, on aliases.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

/// How deep objects and lists may nest. Kubernetes' own types stay below 30.
pub const DEPTH_MAX: usize = 100;

/// The same in YAML, whose reader takes twenty times as much stack for each level; one that runs
/// out ends the process. kubectl and Helm send JSON.
const YAML_DEPTH_MAX: usize = 50;

/// How many values one body may hold: objects, lists and what is in them. Each takes far more
/// memory than its text, and every check looks at it. 3 MiB of YAML are held to about as many by
/// its own limit, and etcd's limit of 1.5 MiB lets few objects have half as many upstream.
pub const VALUES_MAX: usize = 125_000;

/// Duplicate fields that are told of one body. Each is written down with its path.
const DUPLICATES_MAX: usize = 100;

/// Bytes of such a path. A longer one loses its beginning.
const PATH_BYTES_MAX: usize = 512;

/// YAML events (nodes) that one document may make, aliases expanded.
const YAML_EVENTS_MAX: usize = 500_000;

/// The tree, and the duplicate fields.
type Tracked = (Value, Vec<String>);

/// Why a body cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BodyReadError {
    /// It holds more values than allowed.
    #[error("the body holds more than {VALUES_MAX} values (objects, lists, texts and numbers)")]
    TooManyValues,
    /// It does not follow its format.
    #[error("{0}")]
    Malformed(String),
}

/// Reads one JSON value with nothing after it.
pub(super) fn from_json(bytes: &[u8]) -> Result<Tracked, BodyReadError> {
    // checked as a whole, which takes less than to check string by string
    let text =
        std::str::from_utf8(bytes).map_err(|error| BodyReadError::Malformed(error.to_string()))?;
    let mut state = ReadState::new(DEPTH_MAX);
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = TrackedValue { state: &mut state }
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| state.read_error(error.to_string()))?;
    Ok((value, state.duplicates_once()))
}

/// Reads one YAML document.
pub(super) fn from_yaml(bytes: &[u8]) -> Result<Tracked, BodyReadError> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: YAML_EVENTS_MAX,
            max_nodes: YAML_EVENTS_MAX,
            max_depth: YAML_DEPTH_MAX + 8,
            max_documents: 1,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: YAML_EVENTS_MAX / 10,
            max_replay_stack_depth: 16,
        },
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins,
        with_snippet: false,
    };
    let mut state = ReadState::new(YAML_DEPTH_MAX);
    let value =
        serde_saphyr::with_deserializer_from_slice_with_options(bytes, options, |deserializer| {
            TrackedValue { state: &mut state }.deserialize(deserializer)
        })
        .map_err(|error| state.read_error(error.to_string()))?;
    Ok((value, state.duplicates_once()))
}

struct ReadState {
    depth: usize,
    depth_max: usize,
    values: usize,
    /// Paths from the value that is being read: each level puts its own step before those of the
    /// levels below, so that where no field stands twice no path is ever written down.
    duplicates: Vec<String>,
}

impl ReadState {
    const fn new(depth_max: usize) -> Self {
        Self { depth: 0, depth_max, values: 0, duplicates: Vec::new() }
    }

    /// A field of the object that began then stands there again.
    fn found_again(&mut self, since: usize, name: &str) {
        let is_known = self.duplicates[since..].iter().any(|known| known == name);
        if !is_known && self.duplicates.len() < DUPLICATES_MAX {
            self.duplicates.push(end_of(name).to_owned());
        }
    }

    /// Why reading stopped, which the deserializer puts in words of its own.
    fn read_error(&self, why: String) -> BodyReadError {
        match self.values > VALUES_MAX {
            true => BodyReadError::TooManyValues,
            false => BodyReadError::Malformed(why),
        }
    }

    /// What was found since then is below this step.
    fn found_below(&mut self, since: usize, step: impl Fn() -> String) {
        for path in self.duplicates[since..].iter_mut().filter(|path| path.len() < PATH_BYTES_MAX) {
            let point = if path.starts_with('[') { "" } else { "." };
            let longer = format!("{}{point}{path}", end_of(&step()));
            *path = end_of(&longer).to_owned();
        }
    }

    /// The paths, each once.
    fn duplicates_once(&mut self) -> Vec<String> {
        let mut once = Vec::with_capacity(self.duplicates.len());
        for path in std::mem::take(&mut self.duplicates) {
            if !once.contains(&path) {
                once.push(path);
            }
        }
        once
    }
}

/// As much of the end of a path as is told.
pub(super) fn end_of(path: &str) -> &str {
    let begin = path.len().saturating_sub(PATH_BYTES_MAX);
    &path[path.ceil_char_boundary(begin)..]
}

/// One value.
struct TrackedValue<'a> {
    state: &'a mut ReadState,
}

impl<'de> DeserializeSeed<'de> for TrackedValue<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.state.depth > self.state.depth_max {
            let why = format!("exceeded max depth of {}", self.state.depth_max);
            return Err(D::Error::custom(why));
        }
        self.state.values += 1;
        if self.state.values > VALUES_MAX {
            return Err(D::Error::custom(BodyReadError::TooManyValues));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TrackedValue<'_> {
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
            let item = access.next_element_seed(TrackedValue { state: self.state })?;
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
            let value = access.next_value_seed(TrackedValue { state: self.state })?;
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
    fn the_paths_of_duplicate_fields_are_short_whatever_the_names() {
        let long = "k".repeat(10_000);
        let pairs: Vec<String> = (0..200).map(|n| format!("\"f{n}\":1,\"f{n}\":2")).collect();
        let body = format!("{{\"{long}\":{{\"{long}\":{{{}}}}}}}", pairs.join(","));
        let duplicates = from_json(body.as_bytes()).unwrap().1;
        assert_eq!(duplicates.len(), DUPLICATES_MAX);
        assert!(duplicates.iter().all(|path| path.len() <= PATH_BYTES_MAX + 1));
        assert!(duplicates[7].ends_with("k.f7"), "{}", duplicates[7]);
    }

    #[test]
    fn the_number_of_values_is_bounded_in_both_formats() {
        let list = |values: usize| format!("[{}1]", "1,".repeat(values - 2));
        assert!(from_json(list(VALUES_MAX).as_bytes()).is_ok());
        for read in [from_json, from_yaml] {
            let refused = read(list(VALUES_MAX + 1).as_bytes());
            assert_eq!(refused, Err(BodyReadError::TooManyValues));
        }
    }

    #[test]
    fn depth_is_bounded_in_both_formats() {
        let deep = |open: &str, close: &str, depth: usize| {
            format!("{}1{}", open.repeat(depth), close.repeat(depth))
        };
        assert!(from_json(deep("[", "]", 90).as_bytes()).is_ok());
        assert!(
            from_json(deep("[", "]", 100_000).as_bytes())
                .unwrap_err()
                .to_string()
                .contains("depth")
        );
        assert!(from_yaml(deep("[", "]", 100_000).as_bytes()).is_err());
        assert!(
            from_json(deep("{\"a\":", "}", 110).as_bytes())
                .unwrap_err()
                .to_string()
                .contains("max depth of 100")
        );
    }

    /// Each of them ended the process in a build without optimization.
    #[test]
    fn deep_yaml_is_refused_before_the_stack_ends() {
        let indented: String = (0..500).map(|n| format!("{}a:\n", " ".repeat(n))).collect();
        let flow = format!("{}{}", "[".repeat(99), "]".repeat(99));
        for text in ["- ".repeat(10_000), "? ".repeat(10_000), "- - ? ".repeat(99), indented, flow]
        {
            assert!(from_yaml(text.as_bytes()).is_err(), "{}", &text[..60]);
        }
        let flow = format!("{}1{}", "[".repeat(50), "]".repeat(50));
        assert!(from_yaml(flow.as_bytes()).is_ok());
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
