//! What happens at the same time: names that two definitions ask for, and the end of a definition
//! that others write.

use std::sync::Barrier;

use rekindle_store::{Mutation, WritePrecondition};
use serde_json::{Value, json};

use super::*;
use crate::shared::testing::api;

const NOW: Tick = Tick::from_secs(1_800_000_000);
/// Enough for the two threads to meet in every place where one can come between.
const TURNS: usize = 500;

/// A definition of the kind Kite, and its key.
fn definition(plural: &str) -> (String, Value) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.org")},
        "spec": {
            "group": "example.org", "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural, "kind": "Kite"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    (key_of_definition(plural, "example.org"), definition)
}

fn write(api: &ApiShared, key: &str, expect: WritePrecondition, object: &Value) -> bool {
    let text = |_| object.to_string().into();
    api.store.write(key, expect, Mutation::Put(&text)).is_ok()
}

fn established(api: &ApiShared) -> usize {
    api.custom.newest(api).iter().filter(|(_, kind)| !kind.served().is_empty()).count()
}

#[test]
fn two_definitions_that_are_settled_at_the_same_time_never_get_one_name_both() {
    for turn in 0..TURNS {
        let (api, _committer) = api();
        let ready = Barrier::new(2);
        std::thread::scope(|threads| {
            for plural in ["kites", "dragons"] {
                let (api, ready) = (&api, &ready);
                threads.spawn(move || {
                    let (key, definition) = definition(plural);
                    ready.wait();
                    assert!(write(api, &key, WritePrecondition::Absent, &definition));
                    drop(names::settle(api, NOW).unwrap());
                });
            }
        });
        assert_eq!(established(&api), 1, "turn {turn}");
    }
}

#[test]
fn a_definition_goes_although_others_write_it_at_the_same_time() {
    for turn in 0..TURNS {
        let (api, _committer) = api();
        let (key, mut definition) = definition("kites");
        definition["metadata"]["deletionTimestamp"] = json!("2026-11-18T11:06:40Z");
        definition["metadata"]["finalizers"] = json!([CLEANUP_FINALIZER]);
        assert!(write(&api, &key, WritePrecondition::Absent, &definition));
        let ready = Barrier::new(2);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                ready.wait();
                drop(cleanup::go_on(&api, &key, NOW).unwrap());
            });
            threads.spawn(|| {
                ready.wait();
                for number in 0..20 {
                    let mut changed = definition.clone();
                    changed["metadata"]["labels"] = json!({"number": number.to_string()});
                    let Some(stored) = api.store.newest(&key) else { return };
                    write(&api, &key, WritePrecondition::Revision(stored.revision), &changed);
                }
            });
        });
        assert!(api.store.newest(&key).is_none(), "turn {turn}");
    }
}
