use k8s_openapi::api::core::v1;
use rekindle_types::pods;
use rekindle_types::pods::AnyPod;
use serde_json::{Value, json};

use super::*;

fn pod(affinity: Value) -> v1::Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "app"}], "affinity": affinity},
    }))
    .unwrap()
}

fn nodes(list: &[(&str, u64)]) -> Avoided {
    list.iter().map(|(node, secs)| ((*node).to_owned(), Tick::from_secs(*secs).to_time())).collect()
}

fn terms(pod: &impl AnyPod) -> Value {
    let affinity = &json!(pods::affinity(pod))["nodeAffinity"];
    affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"].clone()
}

#[test]
fn every_alternative_of_the_pods_own_affinity_excludes_the_node() {
    let own = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "disk", "operator": "Exists"}]},
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]},
            {},
        ],
    }}});
    let before = pod(own);
    let mut after = before.clone();
    exclude(&mut after, &nodes(&[("n1", 100)]));
    let not_n1 = json!({"key": "metadata.name", "operator": "NotIn", "values": ["n1"]});
    let n2 = json!({"key": "metadata.name", "operator": "In", "values": ["n2"]});
    assert_eq!(
        terms(&after),
        json!([
            {"matchExpressions": [{"key": "disk", "operator": "Exists"}], "matchFields": [not_n1]},
            {"matchFields": [n2, not_n1]},
        ]),
        "a term that matches nothing does not begin to match"
    );
}

#[test]
fn what_was_excluded_is_taken_out_without_a_trace() {
    for own in [
        Value::Null,
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}],
        }}}),
        json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}),
    ] {
        let before = pod(own);
        let mut after = before.clone();
        exclude(&mut after, &nodes(&[("n1", 100), ("n2", 200)]));
        assert_ne!(after, before);
        let mut lifted = without_exclusions(after);
        lifted.metadata.annotations.take_if(|all| all.is_empty());
        assert_eq!(lifted, before);
    }
}

#[test]
fn an_exclusion_ends_with_its_time() {
    let mut pod = pod(Value::Null);
    exclude(&mut pod, &nodes(&[("n1", 100), ("n2", 200)]));
    let pod = HeldPod::from(pod);
    assert_eq!(*as_of(&pod, Tick::from_secs(99)), pod);
    let not_n2 = json!({"key": "metadata.name", "operator": "NotIn", "values": ["n2"]});
    assert_eq!(terms(&*as_of(&pod, Tick::from_secs(100))), json!([{"matchFields": [not_n2]}]));
    assert_eq!(terms(&*as_of(&pod, Tick::from_secs(200))), Value::Null);
}

#[test]
fn those_that_end_first_are_lifted_first() {
    let mut pod = pod(Value::Null);
    exclude(&mut pod, &nodes(&[("n1", 200), ("n2", 100)]));
    let less: Vec<Value> = ever_less(&HeldPod::from(pod)).map(|pod| terms(&pod)).collect();
    let not_n1 = json!({"key": "metadata.name", "operator": "NotIn", "values": ["n1"]});
    assert_eq!(less, [json!([{"matchFields": [not_n1]}]), Value::Null]);
}

#[test]
fn what_a_pod_says_of_a_node_itself_is_not_lifted() {
    let not_n1 = json!({"key": "metadata.name", "operator": "NotIn", "values": ["n1"]});
    let before = pod(json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchFields": [not_n1]}],
    }}}));
    let mut after = before.clone();
    exclude(&mut after, &nodes(&[("n1", 100)]));
    let lifted = lifted(&HeldPod::from(after)).expect("it has an exclusion");
    assert_eq!(terms(&lifted), terms(&before));
}
