//! JSON patch, with the bounds that keep a small patch from making a huge object: operations,
//! copied bytes, depth.

use json_patch::jsonptr::Pointer;
use json_patch::{AddOperation, PatchOperation};
use serde::Deserialize;
use serde_json::Value;

use super::PatchError;
use super::budget::{ValueSize, WorkBudget};
use crate::decode::{BODY_BYTES_MAX, DEPTH_MAX, type_error};
use crate::status::ApiError;

/// The most operations in one patch, as upstream.
const OPERATIONS_MAX: usize = 10_000;

/// The fields that an operation may have.
const FIELDS: [&str; 4] = ["from", "op", "path", "value"];

/// A JSON patch as read.
#[derive(Clone, Debug)]
pub(super) struct JsonPatch {
    operations: Vec<JsonOperation>,
    /// What a strict reader refuses.
    pub(super) unknown_fields: Vec<String>,
}

#[derive(Clone, Debug)]
enum JsonOperation {
    Known(PatchOperation),
    /// It cannot be carried out, for this reason. Upstream finds that when it is its turn.
    Unusable(String),
}

pub(super) fn read(value: &Value) -> Result<JsonPatch, ApiError> {
    let malformed = |found: &Value| {
        let found = type_error::json_type(found);
        ApiError::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {found} into a list of operations"
        ))
    };
    let list = value.as_array().ok_or_else(|| malformed(value))?;
    if list.len() > OPERATIONS_MAX {
        return Err(ApiError::too_large_because(&format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
            list.len()
        )));
    }
    let mut patch = JsonPatch { operations: Vec::new(), unknown_fields: Vec::new() };
    for (index, operation) in list.iter().enumerate() {
        let fields = operation.as_object().ok_or_else(|| malformed(operation))?;
        let unknown = fields.keys().filter(|field| !FIELDS.contains(&field.as_str()));
        let named = unknown.map(|field| format!("json patch unknown field \"[{index}].{field}\""));
        patch.unknown_fields.extend(named);
        patch.operations.push(match PatchOperation::deserialize(operation) {
            Ok(operation) => JsonOperation::Known(operation),
            Err(error) => JsonOperation::Unusable(format!("operation {index}: {error}")),
        });
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
        let operation = match operation {
            JsonOperation::Known(operation) => operation,
            JsonOperation::Unusable(why) => return Err(PatchError::DoesNotFit(why.clone())),
        };
        if finds_null(&object, operation) {
            budget.spend(1, "following paths")?;
            continue;
        }
        let lenient = as_upstream(&object, operation);
        let operation = lenient.as_ref().unwrap_or(operation);
        check_work(&object, operation, budget)
            .and_then(|()| check_growth(&object, operation, &mut copied_bytes, budget))
            .map_err(|error| at_operation(error, index, operation))?;
        json_patch::patch_unsafe(&mut object, std::slice::from_ref(operation)).map_err(
            |error| {
                let what = match operation {
                    PatchOperation::Test(test) => format!("testing path {} failed", test.path),
                    other => {
                        format!("operation {index} at path {:?} failed", other.path().as_str())
                    }
                };
                PatchError::DoesNotFit(format!("{what}: {}", error.kind))
            },
        )?;
    }
    Ok(object)
}

/// Whether an object lacks the field at its end of this path.
fn is_absent(object: &Value, path: &Pointer) -> bool {
    let parent = path.split_back().and_then(|(parent, _)| parent.resolve(object).ok());
    parent.is_some_and(Value::is_object) && path.resolve(object).is_err()
}

/// Whether a test passes because an absent field is null. Source: upstream's library.
fn finds_null(object: &Value, operation: &PatchOperation) -> bool {
    matches!(operation, PatchOperation::Test(test) if test.value.is_null() && is_absent(object, &test.path))
}

/// The operation to carry out instead where upstream's library reads one more kindly than RFC 6902:
/// a replacement of a field that is absent adds it, and a copy of one copies null.
fn as_upstream(object: &Value, operation: &PatchOperation) -> Option<PatchOperation> {
    let is_absent = |path: &Pointer| is_absent(object, path);
    match operation {
        PatchOperation::Replace(replace) if is_absent(&replace.path) => {
            let (path, value) = (replace.path.clone(), replace.value.clone());
            Some(PatchOperation::Add(AddOperation { path, value }))
        }
        PatchOperation::Copy(copy) if is_absent(&copy.from) => {
            let (path, value) = (copy.path.clone(), Value::Null);
            Some(PatchOperation::Add(AddOperation { path, value }))
        }
        PatchOperation::Replace(_)
        | PatchOperation::Copy(_)
        | PatchOperation::Test(_)
        | PatchOperation::Add(_)
        | PatchOperation::Remove(_)
        | PatchOperation::Move(_) => None,
    }
}

/// Says which operation asked too much.
fn at_operation(error: PatchError, index: usize, operation: &PatchOperation) -> PatchError {
    match error {
        PatchError::TooMuch(why) => {
            let path = operation.path().as_str();
            PatchError::TooMuch(format!("operation {index} at path {path:?}: {why}"))
        }
        other @ (PatchError::DoesNotFit(_) | PatchError::Malformed(_)) => other,
    }
}

/// Takes the steps for finding the places that an operation names, for the entries of lists that it
/// moves, and for the values that it compares or puts somewhere.
fn check_work(
    object: &Value,
    operation: &PatchOperation,
    budget: &mut WorkBudget,
) -> Result<(), PatchError> {
    let mut moves = |path: &Pointer| {
        budget.spend_entries(path.as_str().len(), "following paths")?;
        budget.spend_moves(entries_behind(object, path), "moving the entries of a list")
    };
    match operation {
        PatchOperation::Add(add) => {
            moves(&add.path)?;
            budget.measure(&add.value, "copying values").map(drop)
        }
        PatchOperation::Replace(replace) => {
            budget.spend_entries(replace.path.as_str().len(), "following paths")?;
            budget.measure(&replace.value, "copying values").map(drop)
        }
        // What it is compared with is looked at no further than the two are equal.
        PatchOperation::Test(test) => {
            budget.spend_entries(test.path.as_str().len(), "following paths")?;
            budget.measure(&test.value, "comparing values").map(drop)
        }
        PatchOperation::Remove(remove) => moves(&remove.path),
        PatchOperation::Move(moved) => {
            moves(&moved.from)?;
            moves(&moved.path)
        }
        PatchOperation::Copy(copy) => moves(&copy.path),
    }
}

/// How many entries of a list stand at or behind a place: so many move when one comes or goes
/// there.
fn entries_behind(object: &Value, path: &Pointer) -> usize {
    let Some((parent, last)) = path.split_back() else { return 0 };
    match parent.resolve(object) {
        Ok(Value::Array(items)) => {
            let index = last.to_index().ok();
            let index = index.map_or(items.len(), |index| index.for_len_unchecked(items.len()));
            items.len().saturating_sub(index)
        }
        Ok(_) | Err(_) => 0,
    }
}

/// What an operation puts somewhere must not make the object too deep, and copies not too large.
fn check_growth(
    object: &Value,
    operation: &PatchOperation,
    copied_bytes: &mut usize,
    budget: &mut WorkBudget,
) -> Result<(), PatchError> {
    let (path, value) = match operation {
        PatchOperation::Add(add) => (&add.path, Some(&add.value)),
        PatchOperation::Replace(replace) => (&replace.path, Some(&replace.value)),
        PatchOperation::Move(moved) => (&moved.path, moved.from.resolve(object).ok()),
        PatchOperation::Copy(copy) => (&copy.path, copy.from.resolve(object).ok()),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return Ok(()),
    };
    let extent = match value {
        Some(value) => budget.measure(value, "measuring what is moved or copied")?,
        None => ValueSize::default(),
    };
    if matches!(operation, PatchOperation::Copy(_)) {
        budget.spend_copy(extent, "copying values")?;
        *copied_bytes += extent.bytes;
    }
    if *copied_bytes > BODY_BYTES_MAX {
        return Err(PatchError::TooMuch(format!(
            "the copy operations of a JSON patch may copy {BODY_BYTES_MAX} bytes in all"
        )));
    }
    if path.count() + extent.depth > DEPTH_MAX {
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
