//! JSON patch, with the bounds that keep a small patch from making a huge object: operations,
//! copied bytes, depth. It is read as upstream's library reads it, which is kinder than RFC 6902: a
//! field that is absent is null, so that `test`, `copy` and `replace` find it; a missing `value` is
//! null; indexes may count from the end of a list.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::PatchError;
use super::budget::{ValueSize, WorkBudget};
use super::json_path::{Container, ContainerMut, JsonPath, index_in};
use crate::decode::{BODY_BYTES_MAX, DEPTH_MAX, type_error};
use crate::status::ApiError;

/// The most operations in one patch, as upstream.
const OPERATIONS_MAX: usize = 10_000;

/// The fields that an operation may have.
const FIELDS: [&str; 4] = ["from", "op", "path", "value"];

/// Those of them that are texts.
const TEXTS: [&str; 3] = ["from", "op", "path"];

/// Why an operation does not fit, where it names a place that is not there.
const NO_PLACE: &str = "path is invalid";
const NO_SOURCE: &str = "\"from\" path is invalid";

/// A JSON patch as read.
#[derive(Clone, Debug)]
pub(super) struct JsonPatch {
    operations: Vec<JsonOperation>,
    /// What a strict reader refuses.
    pub(super) unknown_fields: Vec<String>,
}

#[derive(Clone, Debug)]
enum JsonOperation {
    Add {
        path: JsonPath,
        value: Value,
    },
    Replace {
        path: JsonPath,
        value: Value,
    },
    Test {
        path: JsonPath,
        value: Value,
    },
    Remove {
        path: JsonPath,
    },
    Move {
        from: JsonPath,
        path: JsonPath,
    },
    Copy {
        from: JsonPath,
        path: JsonPath,
    },
    /// It cannot be carried out, for this reason. Upstream finds that when it is its turn.
    Unusable(String),
}

impl JsonOperation {
    fn read(fields: &Map<String, Value>) -> Result<Self, String> {
        let text = |name: &str| fields.get(name).and_then(Value::as_str);
        let path = |name: &str| {
            text(name).map(JsonPath::parse).ok_or_else(|| format!("missing field `{name}`"))
        };
        let value = || fields.get("value").cloned().unwrap_or_default();
        Ok(match text("op").ok_or("missing field `op`")? {
            "add" => Self::Add { path: path("path")?, value: value() },
            "replace" => Self::Replace { path: path("path")?, value: value() },
            "test" => Self::Test { path: path("path")?, value: value() },
            "remove" => Self::Remove { path: path("path")? },
            "move" => Self::Move { from: path("from")?, path: path("path")? },
            "copy" => Self::Copy { from: path("from")?, path: path("path")? },
            other => {
                return Err(format!(
                    "unknown variant `{other}`, expected one of `add`, `remove`, `replace`, \
                     `move`, `copy`, `test`"
                ));
            }
        })
    }

    /// The place that it is about, as text.
    fn path(&self) -> &str {
        match self {
            Self::Add { path, .. }
            | Self::Replace { path, .. }
            | Self::Test { path, .. }
            | Self::Remove { path }
            | Self::Move { path, .. }
            | Self::Copy { path, .. } => path.text(),
            Self::Unusable(_) => "",
        }
    }

    /// Why it does not fit, with what it is about.
    fn failure(&self, index: usize, why: &str) -> PatchError {
        PatchError::DoesNotFit(match self {
            Self::Unusable(_) => format!("operation {index}: {why}"),
            Self::Test { path, .. } => format!("testing path {} failed: {why}", path.text()),
            Self::Add { .. }
            | Self::Replace { .. }
            | Self::Remove { .. }
            | Self::Move { .. }
            | Self::Copy { .. } => {
                format!("operation {index} at path {:?} failed: {why}", self.path())
            }
        })
    }
}

pub(super) fn read(value: &Value) -> Result<JsonPatch, ApiError> {
    let malformed = |found: &Value, into: &str| {
        let found = type_error::json_type(found);
        ApiError::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {found} into {into}"
        ))
    };
    let list = value.as_array().ok_or_else(|| malformed(value, "a list of operations"))?;
    if list.len() > OPERATIONS_MAX {
        return Err(ApiError::too_large_because(&format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
            list.len()
        )));
    }
    let mut patch = JsonPatch { operations: Vec::new(), unknown_fields: Vec::new() };
    for (index, operation) in list.iter().enumerate() {
        let fields = match operation {
            Value::Object(fields) => Cow::Borrowed(fields),
            Value::Null => Cow::Owned(Map::new()),
            other => return Err(malformed(other, "a list of operations")),
        };
        for name in TEXTS {
            match fields.get(name) {
                None | Some(Value::Null | Value::String(_)) => {}
                Some(other) => {
                    return Err(malformed(other, &format!("field {name} of an operation")));
                }
            }
        }
        let unknown = fields.keys().filter(|field| !FIELDS.contains(&field.as_str()));
        let named = unknown.map(|field| format!("json patch unknown field \"[{index}].{field}\""));
        patch.unknown_fields.extend(named);
        let operation = JsonOperation::read(&fields);
        patch.operations.push(operation.unwrap_or_else(JsonOperation::Unusable));
    }
    Ok(patch)
}

pub(super) fn apply(
    patch: &JsonPatch,
    mut object: Value,
    budget: &mut WorkBudget,
) -> Result<Value, PatchError> {
    let mut copied_bytes = 0;
    for (index, operation) in patch.operations.iter().enumerate() {
        check_work(&object, operation, budget)
            .and_then(|()| check_growth(&object, operation, &mut copied_bytes, budget))
            .map_err(|error| at_operation(error, index, operation))?;
        carry_out(&mut object, operation).map_err(|why| operation.failure(index, &why))?;
    }
    Ok(object)
}

fn carry_out(object: &mut Value, operation: &JsonOperation) -> Result<(), String> {
    match operation {
        JsonOperation::Add { path, value } => add(object, path, value.clone()),
        JsonOperation::Replace { path, value } => replace(object, path, value),
        JsonOperation::Test { path, value } => {
            let found = match path.is_whole() {
                true => Some(&*object),
                false => found_at(object, path),
            };
            match found.ok_or(NO_PLACE)? == value {
                true => Ok(()),
                false => Err("value did not match".to_owned()),
            }
        }
        JsonOperation::Remove { path } => {
            remove(object, path).map(drop).ok_or_else(|| NO_PLACE.to_owned())
        }
        JsonOperation::Move { from, path } => {
            let moved = remove(object, from).ok_or(NO_SOURCE)?;
            add(object, path, moved)
        }
        JsonOperation::Copy { from, path } => {
            let copied = found_at(object, from).ok_or(NO_SOURCE)?.clone();
            add(object, path, copied)
        }
        JsonOperation::Unusable(why) => Err(why.clone()),
    }
}

/// The value at a path: null, if an object has no such field.
fn found_at<'v>(object: &'v Value, path: &JsonPath) -> Option<&'v Value> {
    match path.container(object)? {
        (Container::Object(fields), name) => Some(fields.get(name).unwrap_or(&Value::Null)),
        (Container::List(items), index) => items.get(index_in(index, items.len())?),
    }
}

fn add(object: &mut Value, path: &JsonPath, value: Value) -> Result<(), String> {
    match path.container_mut(object).ok_or(NO_PLACE)? {
        (ContainerMut::Object(fields), name) => {
            fields.insert(name.to_owned(), value);
        }
        (ContainerMut::List(items), "-") => items.push(value),
        (ContainerMut::List(items), index) => {
            let index = index_in(index, items.len() + 1).ok_or(NO_PLACE)?;
            items.insert(index, value);
        }
    }
    Ok(())
}

fn replace(object: &mut Value, path: &JsonPath, value: &Value) -> Result<(), String> {
    if path.is_whole() {
        if !value.is_object() && !value.is_array() {
            return Err("an object cannot become a plain value".to_owned());
        }
        *object = value.clone();
        return Ok(());
    }
    match path.container_mut(object).ok_or(NO_PLACE)? {
        (ContainerMut::Object(fields), name) => {
            fields.insert(name.to_owned(), value.clone());
        }
        (ContainerMut::List(items), index) => {
            let index = index_in(index, items.len()).ok_or(NO_PLACE)?;
            items[index] = value.clone();
        }
    }
    Ok(())
}

fn remove(object: &mut Value, path: &JsonPath) -> Option<Value> {
    match path.container_mut(object)? {
        (ContainerMut::Object(fields), name) => fields.remove(name),
        (ContainerMut::List(items), index) => {
            let index = index_in(index, items.len())?;
            Some(items.remove(index))
        }
    }
}

/// Says which operation asked too much.
fn at_operation(error: PatchError, index: usize, operation: &JsonOperation) -> PatchError {
    match error {
        PatchError::TooMuch(why) => {
            let path = operation.path();
            PatchError::TooMuch(format!("operation {index} at path {path:?}: {why}"))
        }
        other @ (PatchError::DoesNotFit(_) | PatchError::Malformed(_)) => other,
    }
}

/// Takes the steps for finding the places that an operation names, for the entries of lists that it
/// moves, and for the values that it compares or puts somewhere.
fn check_work(
    object: &Value,
    operation: &JsonOperation,
    budget: &mut WorkBudget,
) -> Result<(), PatchError> {
    let mut moves = |path: &JsonPath| {
        budget.spend_entries(path.text().len(), "following paths")?;
        budget.spend_moves(entries_behind(object, path), "moving the entries of a list")
    };
    match operation {
        JsonOperation::Add { path, value } => {
            moves(path)?;
            budget.measure(value, "copying values").map(drop)
        }
        JsonOperation::Replace { path, value } => {
            budget.spend_entries(path.text().len(), "following paths")?;
            budget.measure(value, "copying values").map(drop)
        }
        // What it is compared with is looked at no further than the two are equal.
        JsonOperation::Test { path, value } => {
            budget.spend_entries(path.text().len(), "following paths")?;
            budget.measure(value, "comparing values").map(drop)
        }
        JsonOperation::Remove { path } => moves(path),
        JsonOperation::Move { from, path } => {
            moves(from)?;
            moves(path)
        }
        JsonOperation::Copy { path, .. } => moves(path),
        JsonOperation::Unusable(_) => budget.spend(1, "following paths"),
    }
}

/// How many entries of a list stand at or behind a place: so many move when one comes or goes
/// there.
fn entries_behind(object: &Value, path: &JsonPath) -> usize {
    match path.container(object) {
        Some((Container::List(items), index)) => {
            let index = index_in(index, items.len() + 1).unwrap_or(items.len());
            items.len() - index
        }
        Some((Container::Object(_), _)) | None => 0,
    }
}

/// What an operation puts somewhere must not make the object too deep, and copies not too large.
fn check_growth(
    object: &Value,
    operation: &JsonOperation,
    copied_bytes: &mut usize,
    budget: &mut WorkBudget,
) -> Result<(), PatchError> {
    let (path, value) = match operation {
        JsonOperation::Add { path, value } | JsonOperation::Replace { path, value } => {
            (path, Some(value))
        }
        JsonOperation::Move { from, path } | JsonOperation::Copy { from, path } => {
            (path, found_at(object, from))
        }
        JsonOperation::Remove { .. } | JsonOperation::Test { .. } | JsonOperation::Unusable(_) => {
            return Ok(());
        }
    };
    let extent = match value {
        Some(value) => budget.measure(value, "measuring what is moved or copied")?,
        None => ValueSize::default(),
    };
    if matches!(operation, JsonOperation::Copy { .. }) {
        budget.spend_copy(extent, "copying values")?;
        *copied_bytes += extent.bytes;
    }
    if *copied_bytes > BODY_BYTES_MAX {
        return Err(PatchError::TooMuch(format!(
            "the copy operations of a JSON patch may copy {BODY_BYTES_MAX} bytes in all"
        )));
    }
    if path.depth() + extent.depth > DEPTH_MAX {
        return Err(PatchError::TooMuch(format!(
            "the patched object exceeds the max depth of {DEPTH_MAX}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(object: Value, patch: Value) -> Result<Value, PatchError> {
        apply(&read(&patch).unwrap(), object, &mut WorkBudget::new())
    }

    #[test]
    fn operations_apply_in_order_and_a_failed_test_says_where() {
        let object = json!({"a": {"b": [1, 2]}});
        let patch = json!([
            {"op": "test", "path": "/a/b/0", "value": 1},
            {"op": "add", "path": "/a/b/-", "value": 3},
            {"op": "remove", "path": "/a/b/0"},
            {"op": "copy", "from": "/a/b", "path": "/c"},
        ]);
        assert_eq!(
            patched(object.clone(), patch).unwrap(),
            json!({"a": {"b": [2, 3]}, "c": [2, 3]})
        );
        let patch = json!([{"op": "test", "path": "/a/b/0", "value": 2}]);
        assert_eq!(
            patched(object.clone(), patch).unwrap_err().to_string(),
            "testing path /a/b/0 failed: value did not match"
        );
        let patch = json!([{"op": "remove", "path": "/x"}]);
        assert_eq!(
            patched(object, patch).unwrap_err().to_string(),
            "operation 0 at path \"/x\" failed: path is invalid"
        );
    }

    #[test]
    fn a_patch_cannot_blow_up() {
        let doubling: Vec<Value> =
            (0..40).map(|_| json!({"op": "copy", "from": "/a", "path": "/a/-"})).collect();
        let error = patched(json!({"a": ["x".repeat(1000)]}), json!(doubling)).unwrap_err();
        assert!(matches!(error, PatchError::TooMuch(_)), "{error}");
        let nesting: Vec<Value> =
            (0..40).map(|_| json!({"op": "copy", "from": "/a", "path": "/a/a"})).collect();
        let error = patched(json!({"a": {}}), json!(nesting));
        assert!(error.is_ok() || matches!(error, Err(PatchError::TooMuch(_))));
        let many: Vec<Value> = (0..10_001).map(|_| json!({"op": "remove", "path": "/a"})).collect();
        assert_eq!(read(&json!(many)).unwrap_err().code().as_u16(), 413);
    }
}
