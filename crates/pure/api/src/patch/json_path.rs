//! Where an operation of a JSON patch points to: a JSON pointer (RFC 6901), as upstream's library
//! reads it. It drops what stands before the first slash, and an index may have a sign or zeros.

use serde_json::{Map, Value};

/// A path of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JsonPath {
    text: String,
    keys: Vec<String>,
}

/// An object or a list, in which the last key of a path is looked up.
pub(super) enum Container<'v> {
    Object(&'v Map<String, Value>),
    List(&'v [Value]),
}

/// The same, to be changed.
pub(super) enum ContainerMut<'v> {
    Object(&'v mut Map<String, Value>),
    List(&'v mut Vec<Value>),
}

impl JsonPath {
    pub(super) fn parse(text: &str) -> Self {
        let key = |key: &str| key.replace("~1", "/").replace("~0", "~");
        Self { text: text.to_owned(), keys: text.split('/').skip(1).map(key).collect() }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is that of the whole object.
    pub(super) const fn is_whole(&self) -> bool {
        self.text.is_empty()
    }

    pub(super) const fn depth(&self) -> usize {
        self.keys.len()
    }

    /// What the last key is looked up in, and that key.
    pub(super) fn container<'v>(&self, object: &'v Value) -> Option<(Container<'v>, &str)> {
        let (last, parents) = self.keys.split_last()?;
        let mut value = object;
        for key in parents {
            value = match value {
                Value::Object(fields) => fields.get(key)?,
                Value::Array(items) => items.get(index_in(key, items.len())?)?,
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
            };
        }
        let container = match value {
            Value::Object(fields) => Container::Object(fields),
            Value::Array(items) => Container::List(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
        };
        Some((container, last))
    }

    /// The same, to be changed.
    pub(super) fn container_mut<'v>(
        &self,
        object: &'v mut Value,
    ) -> Option<(ContainerMut<'v>, &str)> {
        let (last, parents) = self.keys.split_last()?;
        let mut value = object;
        for key in parents {
            value = match value {
                Value::Object(fields) => fields.get_mut(key)?,
                Value::Array(items) => {
                    let index = index_in(key, items.len())?;
                    items.get_mut(index)?
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
            };
        }
        let container = match value {
            Value::Object(fields) => ContainerMut::Object(fields),
            Value::Array(items) => ContainerMut::List(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
        };
        Some((container, last))
    }
}

/// The index that a key names among so many places; one below 0 counts from their end.
pub(super) fn index_in(key: &str, places: usize) -> Option<usize> {
    let index: i64 = key.parse().ok()?;
    let index = match usize::try_from(index) {
        Ok(index) => index,
        Err(_) => places.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?,
    };
    Some(index).filter(|index| *index < places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_split_at_slashes_and_its_escapes_are_undone() {
        let keys = |text: &str| JsonPath::parse(text).keys;
        assert_eq!(keys("/a~1b/m~0n/~01"), ["a/b", "m~n", "~1"]);
        assert_eq!(keys("/a~"), ["a~"]);
        assert_eq!(keys("data/a"), ["a"]);
        assert_eq!(keys("/"), [""]);
        assert!(keys("").is_empty());
    }

    #[test]
    fn an_index_may_have_a_sign_and_zeros() {
        let found = ["0", "-0", "01", "+1", "-1", "-2", "2", "-3", "-", "x", ""];
        let found = found.map(|key| index_in(key, 2));
        let expected =
            [Some(0), Some(0), Some(1), Some(1), Some(1), Some(0), None, None, None, None, None];
        assert_eq!(found, expected);
    }
}
