//! Strategic merge patch: known cases from the community document on strategic merge patch, and the
//! property that matters to `kubectl apply`: the patch that leads from one object to another leads
//! there.

use proptest::prelude::*;
use rekindle_api::patch::Patch;
use serde_json::{Map, Value, json};

const POD_SPEC: &str = "io.k8s.api.core.v1.PodSpec";

fn strategic(schema: &str, object: Value, patch: Value) -> Value {
    let patch = Patch::read("application/strategic-merge-patch+json", patch.to_string().as_bytes())
        .unwrap();
    patch.apply(schema, object).unwrap()
}

#[test]
fn lists_and_maps_merge_as_the_document_says() {
    let cases = [
        (
            "a list with a merge key merges by it",
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}),
            json!({"containers": [{"name": "b", "image": "2"}]}),
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}),
        ),
        (
            "an entry that is not there is added in front, as in the task \"Update API Objects in Place Using kubectl patch\"",
            json!({"containers": [{"name": "a"}]}),
            json!({"containers": [{"name": "b"}]}),
            json!({"containers": [{"name": "b"}, {"name": "a"}]}),
        ),
        (
            "$patch: delete removes an entry, also one that is not there",
            json!({"containers": [{"name": "a"}, {"name": "b"}]}),
            json!({"containers": [{"name": "a", "$patch": "delete"}, {"name": "x", "$patch": "delete"}]}),
            json!({"containers": [{"name": "b"}]}),
        ),
        (
            "$patch: replace replaces a list",
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b"}]}),
            json!({"containers": [{"name": "a"}, {"$patch": "replace"}]}),
            json!({"containers": [{"name": "a"}]}),
        ),
        (
            "$patch: replace replaces a map",
            json!({"securityContext": {"runAsUser": 1, "fsGroup": 2}}),
            json!({"securityContext": {"$patch": "replace", "runAsUser": 3}}),
            json!({"securityContext": {"runAsUser": 3}}),
        ),
        (
            "null removes a field, and is no field where there was none",
            json!({"hostname": "x", "nodeName": "n"}),
            json!({"hostname": null, "subdomain": null, "securityContext": {"runAsUser": null}}),
            json!({"nodeName": "n", "securityContext": {}}),
        ),
        (
            "a list without a merge key is replaced",
            json!({"tolerations": [{"key": "a"}, {"key": "b"}]}),
            json!({"tolerations": [{"key": "c"}]}),
            json!({"tolerations": [{"key": "c"}]}),
        ),
        (
            "$setElementOrder orders what the client knows and keeps what only the server knows in place",
            json!({"containers": [{"name": "a"}, {"name": "server"}, {"name": "b"}]}),
            json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}], "containers": [{"name": "c"}]}),
            json!({"containers": [{"name": "server"}, {"name": "b"}, {"name": "c"}, {"name": "a"}]}),
        ),
        (
            "$setElementOrder alone only orders",
            json!({"containers": [{"name": "a"}, {"name": "b"}]}),
            json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
            json!({"containers": [{"name": "b"}, {"name": "a"}]}),
        ),
        (
            "$retainKeys drops the fields that it does not name",
            json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
            json!({"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}),
            json!({"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}),
        ),
        (
            "nested lists merge by their own keys",
            json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "1"}]}]}),
            json!({"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}, {"name": "X", "$patch": "delete"}]}]}),
            json!({"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}]}]}),
        ),
        (
            "a new entry with $patch is none, and other directives of one are its fields, as upstream",
            json!({}),
            json!({"containers": [{"name": "a", "$retainKeys": ["name"]}, {"name": "b", "$patch": "delete"}]}),
            json!({"containers": [{"name": "a", "$retainKeys": ["name"]}]}),
        ),
    ];
    for (what, object, patch, expected) in cases {
        assert_eq!(strategic(POD_SPEC, object, patch), expected, "{what}");
    }
}

#[test]
fn the_selector_of_a_disruption_budget_is_replaced_as_a_whole() {
    let old = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    let patch = json!({"selector": {"matchLabels": {"tier": "back"}}});
    let new = strategic("io.k8s.api.policy.v1.PodDisruptionBudgetSpec", old, patch);
    assert_eq!(new, json!({"minAvailable": 1, "selector": {"matchLabels": {"tier": "back"}}}));
}

#[test]
fn sets_of_plain_values_unite_and_lose_what_is_deleted() {
    let meta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    let object = json!({"finalizers": ["a/x", "b/x"]});
    assert_eq!(
        strategic(meta, object.clone(), json!({"finalizers": ["c/x", "a/x"]})),
        json!({"finalizers": ["c/x", "a/x", "b/x"]})
    );
    assert_eq!(
        strategic(meta, object, json!({"$deleteFromPrimitiveList/finalizers": ["a/x"]})),
        json!({"finalizers": ["b/x"]})
    );
}

#[test]
fn patches_that_cannot_be_are_refused() {
    for (object, patch, message) in [
        (
            json!({"containers": [{"name": "a"}]}),
            json!({"containers": [{"image": "x"}]}),
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (
            json!({"containers": [{"name": "a"}]}),
            json!({"containers": ["x"]}),
            "the entries of a list that merges by \"name\" must be objects",
        ),
        (
            json!({}),
            json!({"$patch": "explode"}),
            "unknown patch type: explode in map: map[$patch:explode]",
        ),
        (
            json!({"containers": []}),
            json!({"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]}),
            "The order in patch list:\n[map[name:b]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n",
        ),
        (json!({}), json!({"$retainKeys": ["a"], "b": 1}), "invalid patch format of retainKeys"),
        (
            json!({}),
            json!({"$setElementOrder/containers": 1, "containers": []}),
            "$setElementOrder/containers must be a list",
        ),
    ] {
        let patch =
            Patch::read("application/strategic-merge-patch+json", patch.to_string().as_bytes())
                .unwrap();
        assert_eq!(patch.apply(POD_SPEC, object).unwrap_err().to_string(), message);
    }
}

/// Containers with env, as both a client's last applied and its new manifest may have them.
fn spec() -> impl Strategy<Value = Value> {
    let env = proptest::collection::btree_map("[A-C]", "[x-z]", 0..3).prop_map(|env| {
        env.into_iter()
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect::<Vec<_>>()
    });
    let container = (env, proptest::option::of("[p-q]")).prop_map(|(env, dir)| {
        let mut container = json!({"image": "i", "env": env});
        if let Some(dir) = dir {
            container["workingDir"] = dir.into();
        }
        container
    });
    let containers =
        proptest::collection::btree_map("[a-d]", container, 0..4).prop_shuffle_entries();
    (containers, proptest::option::of("[h-i]"), proptest::collection::vec("[t-v]", 0..3)).prop_map(|(containers, hostname, tolerations)| {
        let mut spec = json!({
            "containers": containers,
            "tolerations": tolerations.into_iter().map(|key| json!({"key": key})).collect::<Vec<_>>(),
        });
        if let Some(hostname) = hostname {
            spec["hostname"] = hostname.into();
        }
        spec
    })
}

trait Shuffled {
    fn prop_shuffle_entries(self) -> BoxedStrategy<Vec<Value>>;
}

impl<S: Strategy<Value = std::collections::BTreeMap<String, Value>> + 'static> Shuffled for S {
    fn prop_shuffle_entries(self) -> BoxedStrategy<Vec<Value>> {
        self.prop_map(|map| {
            map.into_iter()
                .map(|(name, mut value)| {
                    value["name"] = name.into();
                    value
                })
                .collect::<Vec<_>>()
        })
        .prop_shuffle()
        .boxed()
    }
}

/// The patch that a client makes of two versions: what `kubectl apply` sends.
fn diff(from: &Value, to: &Value) -> Value {
    let (from, to) = (from.as_object().unwrap(), to.as_object().unwrap());
    let mut patch = Map::new();
    for (name, old) in from {
        if !to.contains_key(name) {
            patch.insert(name.clone(), Value::Null);
        } else if old.is_array() && matches!(name.as_str(), "containers" | "env") {
            let list = diff_by_name(old.as_array().unwrap(), to[name].as_array().unwrap());
            let order: Vec<Value> = to[name]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| json!({"name": item["name"]}))
                .collect();
            patch.insert(format!("$setElementOrder/{name}"), order.into());
            if !list.is_empty() {
                patch.insert(name.clone(), list.into());
            }
        } else if *old != to[name] {
            patch.insert(name.clone(), to[name].clone());
        }
    }
    for (name, new) in to.iter().filter(|(name, _)| !from.contains_key(*name)) {
        patch.insert(name.clone(), new.clone());
    }
    Value::Object(patch)
}

fn diff_by_name(from: &[Value], to: &[Value]) -> Vec<Value> {
    let find =
        |list: &[Value], name: &Value| list.iter().find(|item| item["name"] == *name).cloned();
    let mut patch = Vec::new();
    for new in to {
        match find(from, &new["name"]) {
            Some(old) if old == *new => {}
            Some(old) => {
                let mut change = diff(&old, new);
                change["name"] = new["name"].clone();
                patch.push(change);
            }
            None => patch.push(new.clone()),
        }
    }
    for old in from.iter().filter(|old| find(to, &old["name"]).is_none()) {
        patch.push(json!({"name": old["name"], "$patch": "delete"}));
    }
    patch
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..5i64).prop_map(Value::from),
        "[a-c]".prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let key = prop_oneof![4 => "[a-c]", 1 => Just("$patch".to_owned()), 1 => Just("$retainKeys".to_owned()), 1 => Just("containers".to_owned()), 1 => Just("$setElementOrder/containers".to_owned()), 1 => Just("name".to_owned())];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((key, inner), 0..4).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn the_patch_from_one_version_to_another_leads_there(from in spec(), to in spec()) {
        prop_assert_eq!(strategic(POD_SPEC, from.clone(), diff(&from, &to)), to);
    }

    #[test]
    fn applying_a_patch_twice_changes_nothing_more(from in spec(), to in spec()) {
        let patch = diff(&from, &to);
        let once = strategic(POD_SPEC, from, patch.clone());
        prop_assert_eq!(strategic(POD_SPEC, once.clone(), patch), once);
    }

    #[test]
    fn no_patch_panics(object in json_value(), patch in json_value()) {
        for kind in ["strategic-merge-patch+json", "merge-patch+json", "json-patch+json"] {
            let Ok(patch) = Patch::read(&format!("application/{kind}"), patch.to_string().as_bytes()) else { continue };
            let _ = patch.apply(POD_SPEC, object.clone());
        }
    }

    #[test]
    fn a_merge_patch_of_the_difference_leads_there(from in spec(), to in spec()) {
        // RFC 7386: lists are replaced.
        let mut patch = to.clone();
        for name in from.as_object().unwrap().keys() {
            if to.get(name).is_none() { patch[name] = Value::Null; }
        }
        let merge = Patch::read("application/merge-patch+json", patch.to_string().as_bytes()).unwrap();
        prop_assert_eq!(merge.apply("", from).unwrap(), to);
    }
}
