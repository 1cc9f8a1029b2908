//! What holds for every pair of configurations.

use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use rekindle_structured_merge::FieldOperation::{Apply, Update};
use rekindle_structured_merge::FieldSet;
use serde_json::{Map, Value, json};

use crate::TestObject;

fn text() -> impl Strategy<Value = Value> + Clone {
    prop::sample::select(vec!["1", "2"]).prop_map(Value::from)
}

fn named(names: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(names).prop_map(str::to_owned)
}

fn items() -> impl Strategy<Value = Value> {
    let item = (option::of(Just(Value::from(80))), option::of(text()), option::of(text()));
    btree_map(named(&["n", "m", "o"]), item, 0..3).prop_map(|items| {
        let items = items.into_iter().map(|(name, (port, x, y))| {
            let mut item = Map::from_iter([("name".to_owned(), Value::from(name))]);
            let more = [("port", port), ("x", x), ("y", y)];
            item.extend(more.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
            Value::Object(item)
        });
        items.collect()
    })
}

/// Any object of the test's kind.
fn config() -> impl Strategy<Value = Value> {
    let labels = btree_map(named(&["k", "l"]), text(), 1..3);
    let tags = btree_set(named(&["s", "t", "u"]), 1..3);
    let fields = (
        option::of(text()),
        option::of(text()),
        option::of(labels.prop_map(|labels| json!(labels))),
        option::of(tags.prop_map(|tags| json!(tags))),
        option::of(items()),
        option::of(vec(text(), 0..3).prop_map(Value::from)),
        option::of(btree_map(named(&["k", "l"]), text(), 0..2).prop_map(|unit| json!(unit))),
    );
    fields.prop_map(|(a, b, labels, tags, items, whole, unit)| {
        let fields = [
            ("a", a),
            ("b", b),
            ("labels", labels),
            ("tags", tags),
            ("items", items),
            ("whole", whole),
            ("unit", unit),
        ];
        let spec = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        json!({"spec": spec.collect::<Map<_, _>>()})
    })
}

proptest! {
    #[test]
    fn an_apply_is_idempotent(first in config(), second in config()) {
        let mut object = TestObject::new();
        object.apply("ann", &first).unwrap();
        object.force("bob", &second);
        let (once, owners) = (object.object.clone(), object.owners.clone());
        object.force("bob", &second);
        prop_assert_eq!(&object.object, &once);
        prop_assert_eq!(&object.owners, &owners);
    }

    #[test]
    fn an_owner_has_what_it_applied_last_but_for_what_others_took(
        first in config(),
        again in config(),
        other in config(),
    ) {
        let mut object = TestObject::new();
        object.apply("ann", &first).unwrap();
        object.apply("ann", &again).unwrap();
        prop_assert_eq!(object.fields("ann", Apply), object.schema().field_set(&again));
        let before = object.object.clone();
        object.force("bob", &other);
        prop_assert_eq!(object.fields("bob", Apply), object.schema().field_set(&other));
        let changes = object.schema().compare(&before, &object.object);
        let taken = changes.added.union(&changes.modified).union(&changes.removed);
        let kept = object.schema().field_set(&again).difference(&taken);
        prop_assert_eq!(object.fields("ann", Apply), kept);
    }

    #[test]
    fn applies_without_conflict_commute(first in config(), second in config()) {
        let (mut one, mut two) = (TestObject::new(), TestObject::new());
        one.apply("ann", &first).unwrap();
        two.apply("bob", &second).unwrap();
        let (is_free, is_free_again) =
            (one.apply("bob", &second).is_ok(), two.apply("ann", &first).is_ok());
        prop_assert_eq!(is_free, is_free_again);
        if is_free {
            // lists may differ in their order
            prop_assert!(one.schema().compare(&one.object, &two.object).is_empty());
            prop_assert!(one.owners.same_but_for_times(&two.owners));
        }
    }

    #[test]
    fn all_of_an_owner_s_fields_go_with_an_empty_apply(first in config(), update in config()) {
        let mut object = TestObject::new();
        object.apply("ann", &first).unwrap();
        object.apply("ann", &json!({})).unwrap();
        prop_assert!(object.schema().field_set(&object.object).is_empty(), "{}", object.object);
        object.update("editor", update.clone());
        object.apply("ann", &json!({})).unwrap();
        prop_assert_eq!(&object.object, &update, "nothing of an update's goes");
    }

    #[test]
    fn an_update_owns_what_it_changes_and_nothing_else(first in config(), next in config()) {
        let mut object = TestObject::new();
        object.apply("ann", &first).unwrap();
        let changes = object.schema().compare(&object.object, &next);
        object.update("editor", next.clone());
        prop_assert_eq!(object.fields("editor", Update), changes.added.union(&changes.modified));
        let all = object.schema().field_set(&next);
        prop_assert!(object.fields("ann", Apply).difference(&all).paths().len()
            <= object.schema().field_set(&first).paths().len());
    }

    #[test]
    fn a_set_of_fields_is_read_as_it_was_written(one in config(), two in config()) {
        let object = TestObject::new();
        let (one, two) = (object.schema().field_set(&one), object.schema().field_set(&two));
        let union = one.clone().union(&two);
        prop_assert_eq!(&FieldSet::from_json(&union.to_json()).unwrap(), &union);
        prop_assert_eq!(union.clone().difference(&two), one.clone().difference(&two));
        let both = one.clone().intersection(&two);
        prop_assert_eq!(one.intersects(&two), !both.is_empty());
        prop_assert_eq!(both, two.clone().intersection(&one));
        prop_assert!(union.paths().iter().all(|path| one.has(path) || two.has(path)));
    }
}
