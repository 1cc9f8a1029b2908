//! Single cases, as kube-apiserver answers them.

use rekindle_structured_merge::FieldOperation::{Apply, Update};
use rekindle_structured_merge::FieldOwners;
use serde_json::{Value, json};

use crate::{TestObject, owner};

fn spec(spec: Value) -> Value {
    json!({"spec": spec})
}

#[test]
fn what_an_owner_no_longer_applies_goes_unless_another_has_it() {
    let mut object = TestObject::new();
    object.apply("ann", &spec(json!({"a": "1", "b": "2", "labels": {"x": "y"}}))).unwrap();
    object.apply("bob", &spec(json!({"b": "2"}))).unwrap();
    object.apply("ann", &spec(json!({"a": "1"}))).unwrap();
    assert_eq!(object.object, spec(json!({"a": "1", "b": "2"})));
    assert_eq!(object.fields("ann", Apply).to_json(), r#"{"f:spec":{"f:a":{}}}"#);
    assert_eq!(object.fields("bob", Apply).to_json(), r#"{"f:spec":{"f:b":{}}}"#);
}

#[test]
fn what_an_update_set_stays_when_its_applier_lets_go() {
    let mut object = TestObject::new();
    object.apply("ann", &spec(json!({"a": "1", "b": "2"}))).unwrap();
    object.update("editor", spec(json!({"a": "1", "b": "3"})));
    assert_eq!(object.fields("editor", Update).to_json(), r#"{"f:spec":{"f:b":{}}}"#);
    object.apply("ann", &spec(json!({"a": "1"}))).unwrap();
    assert_eq!(object.object, spec(json!({"a": "1", "b": "3"})));
}

#[test]
fn conflicts_name_each_owner_and_field() {
    let mut object = TestObject::new();
    object.apply("ann", &spec(json!({"a": "1", "items": [{"name": "n", "x": "1"}]}))).unwrap();
    object.update("editor", spec(json!({"a": "1", "b": "2", "items": [{"name": "n", "x": "1"}]})));
    let wanted = spec(json!({"a": "9", "b": "9", "items": [{"name": "n", "x": "9"}]}));
    let conflicts = object.apply("bob", &wanted).unwrap_err();
    assert_eq!(
        conflicts.to_string(),
        "Apply failed with 3 conflicts: conflicts with \"ann\":\n- .spec.a\n\
         - .spec.items[name=\"n\",port=80].x\nconflicts with \"editor\" using v1:\n- .spec.b"
    );
    object.force("bob", &wanted);
    assert_eq!(object.object, wanted);
    let kept = r#"{"f:spec":{"f:items":{"k:{\"name\":\"n\",\"port\":80}":{".":{},"f:name":{}}}}}"#;
    assert_eq!(object.fields("ann", Apply).to_json(), kept);
}

#[test]
fn an_item_stays_while_another_owner_has_a_field_of_it() {
    let mut object = TestObject::new();
    object.apply("ann", &spec(json!({"items": [{"name": "n"}, {"name": "m"}]}))).unwrap();
    object.apply("bob", &spec(json!({"items": [{"name": "n", "x": "1"}]}))).unwrap();
    object.apply("ann", &spec(json!({"items": []}))).unwrap();
    assert_eq!(object.object, spec(json!({"items": [{"name": "n", "x": "1"}]})));
}

#[test]
fn lists_have_the_applied_order_and_keep_what_others_put_between() {
    let names = |object: &TestObject| {
        let items = object.object["spec"]["tags"].as_array().unwrap().clone();
        items.iter().map(|item| item.as_str().unwrap().to_owned()).collect::<String>()
    };
    for (first, second, expected) in [
        (json!(["a", "b", "c"]), json!(["c", "a"]), "bca"),
        (json!(["a", "b", "c"]), json!(["d", "b"]), "adbc"),
        (json!(["a", "c"]), json!(["b"]), "acb"),
    ] {
        let mut object = TestObject::new();
        object.apply("ann", &spec(json!({"tags": first}))).unwrap();
        object.apply("bob", &spec(json!({"tags": second}))).unwrap();
        assert_eq!(names(&object), expected, "{first} {second}");
    }
}

#[test]
fn the_oldest_updaters_become_one() {
    let mut object = TestObject::new();
    for at in 0..15 {
        object.now_seconds = at;
        let mut next = object.object.clone();
        next["spec"]["labels"][format!("l{at}")] = "x".into();
        object.update(&format!("u{at}"), next);
    }
    let managers: Vec<_> =
        object.owners.sorted().iter().map(|(owner, _)| owner.manager.clone()).collect();
    let expected: Vec<_> = std::iter::once(FieldOwners::ANCIENT.to_owned())
        .chain((6..15).map(|at| format!("u{at}")))
        .collect();
    assert_eq!(managers, expected);
    let ancient = object.owners.get(&owner(FieldOwners::ANCIENT, Update)).unwrap();
    assert!(ancient.fields.to_json().contains("f:l0") && ancient.fields.to_json().contains("f:l5"));
}

#[test]
fn what_does_not_fit_its_type_is_named() {
    let object = TestObject::new();
    let wrong = |value: Value| {
        let mismatches = object.schema().validate(&spec(value));
        mismatches.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    for (value, expected) in [
        (json!({"c": "1"}), ".spec.c: field not declared in schema"),
        (json!({"a": 1}), ".spec.a: expected string, got &{1}"),
        (json!({"labels": ["a"]}), ".spec.labels: expected map, got &{[a]}"),
        (json!({"items": "x"}), ".spec.items: expected list, got &{x}"),
        (json!({"tags": ["a", "a"]}), ".spec.tags: duplicate entries for key [=\"a\"]"),
        (
            json!({"items": [{"name": "n"}, {"name": "n", "port": 80}]}),
            ".spec.items: duplicate entries for key [name=\"n\",port=80]",
        ),
        (
            json!({"items": [{"name": "n", "port": "x"}]}),
            ".spec.items[name=\"n\",port=\"x\"].port: expected numeric (int or float), got string",
        ),
        (
            json!({"items": [null]}),
            ".spec.items: element 0: associative list with keys may not have a null element",
        ),
    ] {
        assert_eq!(wrong(value), expected);
    }
}

#[test]
fn an_apply_without_a_change_has_no_new_time() {
    let mut object = TestObject::new();
    object.apply("ann", &spec(json!({"a": "1"}))).unwrap();
    let before = object.owners.clone();
    object.now_seconds = 9;
    object.apply("ann", &spec(json!({"a": "1"}))).unwrap();
    assert_eq!(object.owners, before);
}
