//! Merge patch (RFC 7386). `json_patch::merge` leaves the patch as it is and copies all of it into
//! the object; here it is taken apart, as a patch is applied once.

use serde_json::{Map, Value};

use super::PatchError;
use super::budget::WorkBudget;

/// The object after the patch.
pub(super) fn apply(
    object: Value,
    patch: Value,
    budget: &mut WorkBudget,
) -> Result<Value, PatchError> {
    budget.measure(&patch, "merging objects")?;
    Ok(merged(object, patch))
}

fn merged(object: Value, patch: Value) -> Value {
    let Value::Object(patch) = patch else { return patch };
    let mut object = match object {
        Value::Object(fields) => fields,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::new()
        }
    };
    for (name, value) in patch {
        if value.is_null() {
            object.remove(&name);
        } else {
            let old = object.entry(name).or_insert(Value::Null);
            *old = merged(old.take(), value);
        }
    }
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from)];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                proptest::collection::btree_map("[a-d]", inner, 0..4)
                    .prop_map(|fields| json!(fields)),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_makes_what_the_crate_makes(object in tree(), patch in tree()) {
            let mut expected = object.clone();
            json_patch::merge(&mut expected, &patch);
            prop_assert_eq!(apply(object, patch, &mut WorkBudget::new()), Ok(expected));
        }
    }
}
