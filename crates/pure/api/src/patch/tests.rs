//! Lists merge as a plain search of one list for each entry of the other merges them, and their
//! cost stays in proportion.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::budget::{PATCH_STEPS_MAX, WorkBudget};
use super::{Patch, PatchError, json_patch, strategic};

/// Its `metadata` has a list that merges by `uid` and one that is a set.
const SCHEMA: &str = "io.k8s.api.core.v1.ConfigMap";

fn first(list: &[Value], item: &Value, key: Option<&str>) -> Option<usize> {
    list.iter().position(|other| match key {
        Some(key) => other.get(key).is_some() && other.get(key) == item.get(key),
        None => other == item,
    })
}

/// The order of the merged entries, by the definition.
fn ordered(merged: Vec<Value>, key: Option<&str>, wanted: &[Value], old: &[Value]) -> Vec<Value> {
    let (mut known, mut unknown): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| first(wanted, item, key).is_some());
    known.sort_by_key(|item| first(wanted, item, key));
    unknown.sort_by_key(|item| first(old, item, key));
    let mut result = Vec::new();
    for item in known {
        let here = first(old, &item, key);
        while let Some(next) = unknown.first() {
            match (first(old, next, key), here) {
                (Some(before), Some(here)) if before < here => result.push(unknown.remove(0)),
                _ => break,
            }
        }
        result.push(item);
    }
    result.extend(unknown);
    result
}

fn united(old: &[Value], patch: &[Value], wanted: &[Value]) -> Vec<Value> {
    let mut merged = old.to_vec();
    for item in patch {
        if !merged.contains(item) {
            merged.push(item.clone());
        }
    }
    ordered(merged, None, wanted, old)
}

/// Entries have plain fields only. None when the patch does not fit.
fn keyed(old: &[Value], patch: &[Value], given: Option<&[Value]>) -> Option<Vec<Value>> {
    const KEY: &str = "uid";
    let mut merged = old.to_vec();
    let mut entries: Vec<Value> = Vec::new();
    for item in patch {
        if item.get("$patch").is_some() {
            let gone = item.get(KEY)?;
            merged.retain(|item| item.get(KEY) != Some(gone));
        } else {
            entries.push(item.clone());
        }
    }
    for entry in &entries {
        let wanted = entry.get(KEY)?;
        let place = merged.iter().position(|item| item.get(KEY) == Some(wanted));
        let Some(place) = place else {
            merged.push(entry.clone());
            continue;
        };
        let mut fields = merged[place].as_object().cloned().unwrap_or_default();
        for (name, value) in entry.as_object()? {
            fields.remove(name);
            if !value.is_null() {
                fields.insert(name.clone(), value.clone());
            }
        }
        merged[place] = Value::Object(fields);
    }
    let list = ordered(merged, Some(KEY), given.unwrap_or(&entries), old);
    has_order(&entries, Some(KEY), given).then_some(list)
}

/// Whether an order that is given has these entries, in their order.
fn has_order(entries: &[Value], key: Option<&str>, given: Option<&[Value]>) -> bool {
    let same = |one: &Value, other: &Value| match key {
        Some(key) => one.get(key).is_some() && one.get(key) == other.get(key),
        None => one == other,
    };
    let Some(given) = given else { return true };
    let places = entries.iter().map(|entry| given.iter().position(|item| same(item, entry)));
    places.clone().all(|place| place.is_some()) && places.is_sorted()
}

fn merged(field: &str, old: &[Value], patch: &[Value], order: Option<&[Value]>) -> Option<Value> {
    let mut metadata = Map::from_iter([(field.to_owned(), json!(patch))]);
    metadata.extend(order.map(|order| (format!("$setElementOrder/{field}"), json!(order))));
    let object = json!({"metadata": {field: old}});
    let patch = json!({"metadata": metadata});
    let merged = strategic::apply(SCHEMA, object, &patch, &mut WorkBudget::new()).ok()?;
    Some(merged["metadata"][field].clone())
}

fn key() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => "[abc]".prop_map(Value::from),
        1 => Just(Value::Null),
        1 => Just(json!(1)),
        1 => Just(json!(["a"])),
    ]
}

fn entry() -> impl Strategy<Value = Value> {
    (proptest::option::weighted(0.95, key()), proptest::option::of(0..3)).prop_map(|(key, kind)| {
        let mut fields = Map::new();
        fields.extend(key.map(|key| ("uid".to_owned(), key)));
        fields.extend(kind.map(|kind| ("kind".to_owned(), json!(kind))));
        Value::Object(fields)
    })
}

fn patch_entry() -> impl Strategy<Value = Value> {
    (entry(), proptest::bool::weighted(0.2)).prop_map(|(mut entry, is_deleted)| {
        if is_deleted {
            entry["$patch"] = json!("delete");
        }
        entry
    })
}

fn list(item: impl Strategy<Value = Value>) -> impl Strategy<Value = Vec<Value>> {
    proptest::collection::vec(item, 0..8)
}

proptest! {
    #[test]
    fn sets_unite_as_by_plain_search(
        old in list(key()), patch in list(key()), order in proptest::option::of(list(key()))
    ) {
        let expected = has_order(&patch, None, order.as_deref())
            .then(|| json!(united(&old, &patch, order.as_deref().unwrap_or(&patch))));
        prop_assert_eq!(merged("finalizers", &old, &patch, order.as_deref()), expected);
    }

    #[test]
    fn keyed_lists_merge_as_by_plain_search(
        old in list(entry()), patch in list(patch_entry()), order in proptest::option::of(list(entry()))
    ) {
        let expected = keyed(&old, &patch, order.as_deref()).map(|list| json!(list));
        prop_assert_eq!(merged("ownerReferences", &old, &patch, order.as_deref()), expected);
    }
}

fn owner(index: usize) -> Value {
    json!({"uid": format!("{index:06}"), "kind": "ConfigMap"})
}

/// The steps that a strategic merge patch of lists with so many entries takes.
fn steps_of_lists(entries: usize) -> u64 {
    let owners: Vec<Value> = (0..entries).map(owner).collect();
    let reversed: Vec<Value> = owners.iter().rev().cloned().collect();
    let names = |prefix: &str| -> Vec<String> {
        (0..entries).map(|index| format!("example.com/{prefix}{index:06}")).collect()
    };
    let gone: Vec<String> = names("old").into_iter().skip(1).step_by(2).collect();
    let object = json!({"metadata": {"ownerReferences": owners, "finalizers": names("old")}});
    let patch = json!({"metadata": {
        "ownerReferences": reversed,
        "$setElementOrder/ownerReferences": reversed,
        "$deleteFromPrimitiveList/finalizers": gone,
        "finalizers": names("new"),
    }});
    let mut budget = WorkBudget::new();
    strategic::apply(SCHEMA, object, &patch, &mut budget).unwrap();
    budget.spent()
}

#[test]
fn the_work_of_a_strategic_merge_grows_with_its_lists_not_with_their_product() {
    let (one, four) = (steps_of_lists(500), steps_of_lists(2_000));
    assert!(four < one * 5, "{one} steps for 500 entries, {four} for 2000");
    assert!(steps_of_lists(20_000) < PATCH_STEPS_MAX / 2);
}

fn too_much(result: Result<Value, PatchError>) -> String {
    match result {
        Err(PatchError::TooMuch(why)) => why,
        other => panic!("{:?}", other.map(drop)),
    }
}

#[test]
fn entries_that_merge_again_and_again_into_a_large_one_are_refused() {
    let env: Vec<Value> = (0..20_000).map(|n| json!({"name": format!("V{n}")})).collect();
    let object = json!({"spec": {"containers": [{"name": "a", "env": env}]}});
    let again: Vec<Value> =
        (0..20_000).map(|_| json!({"name": "a", "env": [{"name": "V1", "value": "x"}]})).collect();
    let patch = json!({"spec": {"containers": again}});
    let mut budget = WorkBudget::new();
    let why = too_much(strategic::apply("io.k8s.api.core.v1.Pod", object, &patch, &mut budget));
    assert!(
        why.contains("more than the allowed 10000000 steps of work, for merging lists"),
        "{why}"
    );
}

/// The answer to a JSON patch of so many times the same operation.
fn repeated(object: Value, operations: Value, times: usize) -> (Result<Value, PatchError>, u64) {
    let all: Vec<Value> = std::iter::repeat_n(operations, times)
        .flat_map(|operations| operations.as_array().cloned().unwrap_or_default())
        .collect();
    let mut budget = WorkBudget::new();
    let result = json_patch::apply(&json_patch::read(&json!(all)).unwrap(), object, &mut budget);
    (result, budget.spent())
}

#[test]
fn a_json_patch_that_moves_all_of_a_large_list_for_each_operation_is_refused() {
    let large = || json!({"a": vec![1; 150_000], "b": {}, "c": []});
    for (operations, what) in [
        (json!([{"op": "remove", "path": "/a/0"}]), "moving the entries of a list"),
        (json!([{"op": "add", "path": "/a/0", "value": 1}]), "moving the entries of a list"),
        (
            json!([{"op": "move", "from": "/a/0", "path": "/a/149999"}]),
            "moving the entries of a list",
        ),
        (json!([{"op": "copy", "from": "/a/1", "path": "/a/0"}]), "moving the entries of a list"),
        (
            json!([{"op": "move", "from": "/a", "path": "/b/a"}, {"op": "move", "from": "/b/a", "path": "/a"}]),
            "measuring what is moved or copied",
        ),
    ] {
        let (result, _) = repeated(large(), operations, 600);
        let why = too_much(result);
        assert!(why.starts_with("operation ") && why.contains(what), "{why}");
    }
    // the same at the end of the list moves nothing
    let (result, spent) =
        repeated(large(), json!([{"op": "add", "path": "/a/-", "value": 1}]), 9_000);
    assert!(result.is_ok() && spent < 100_000, "{spent}");
}

#[test]
fn a_json_patch_that_tests_or_replaces_a_large_value_once_is_applied() {
    let value = json!(vec![1; 100_000]);
    let operations = json!([
        {"op": "test", "path": "/a", "value": value},
        {"op": "replace", "path": "/a", "value": value},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "remove", "path": "/a"},
    ]);
    let (result, spent) = repeated(json!({"a": value}), operations, 1);
    assert!(result.is_ok() && spent < 2_000_000, "{spent}");
}

#[test]
fn what_exceeds_the_budget_is_answered_with_413_and_named() {
    let all: Vec<Value> = vec![json!({"op": "remove", "path": "/a/0"}); 9_000];
    let patch = Patch::read("application/json-patch+json", json!(all).to_string().as_bytes());
    let error = patch.unwrap().apply(SCHEMA, json!({"a": vec![1; 150_000]})).unwrap_err();
    assert_eq!(error.code().as_u16(), 413);
    let message = error.to_string();
    let expected = "Request entity too large: operation 266 at path \"/a/0\": the patch needs more than the allowed 10000000 \
                    steps of work, for moving the entries of a list; use several smaller patches, or replace the list or the \
                    object as a whole";
    assert_eq!(message, expected);
}
