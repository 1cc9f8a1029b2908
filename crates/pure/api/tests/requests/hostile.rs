//! P9: whatever a client sends, it gets an answer that is its own fault, and nothing else is
//! affected.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::harness::{Bench, CONFIG_MAPS, DEPLOYMENTS, PODS, config_map, deployment, pod};

/// A value of any shape, with texts that mean something somewhere.
fn any_value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        Just("".to_owned()),
        Just("-1".to_owned()),
        Just("10Gi".to_owned()),
        Just("Always".to_owned()),
        Just("a".repeat(300)),
        Just("\u{0}\u{7f}ü☃".to_owned()),
        Just("2026-01-01T00:00:00Z".to_owned()),
        "[ -~]{0,12}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec(("[a-zA-Z./-]{0,12}", inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Every place in a value.
fn places(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            places(value, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), all)
        }),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(index, value)| places(value, &format!("{at}/{index}"), all)),
        _ => {}
    }
}

fn mutated(mut object: Value, changes: &[(prop::sample::Index, Value)]) -> Value {
    for (place, value) in changes {
        let mut all = Vec::new();
        places(&object, "", &mut all);
        let at = all[place.index(all.len())].clone();
        *object.pointer_mut(&at).unwrap() = value.clone();
    }
    object
}

/// A pod that uses many fields.
fn rich_pod(name: &str) -> Value {
    let mut rich = pod(name);
    rich["metadata"]["labels"] = json!({"app": "x"});
    rich["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]);
    rich["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}, {"name": "c", "configMap": {"name": "x", "items": [{"key": "a", "path": "b"}]}}]);
    rich["spec"]["initContainers"] =
        json!([{"name": "i", "image": "x", "restartPolicy": "Always"}]);
    rich["spec"]["tolerations"] =
        json!([{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]);
    rich["spec"]["containers"][0] = json!({
        "name": "c", "image": "x", "command": ["a"], "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "ports": [{"containerPort": 80, "name": "http"}], "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "s"}],
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m"}},
        "livenessProbe": {"httpGet": {"port": "http"}}, "lifecycle": {"preStop": {"exec": {"command": ["x"]}}},
        "securityContext": {"runAsUser": 1, "capabilities": {"add": ["NET_ADMIN"]}},
    });
    rich
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn mutated_objects_are_taken_or_refused_and_what_is_taken_can_be_read(
        kind in 0usize..3,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any_value()), 1..3),
        patch in any_value(),
    ) {
        let mut bench = Bench::new();
        let (target, object) = match kind {
            0 => (PODS, rich_pod("x")),
            1 => (DEPLOYMENTS, deployment("x")),
            _ => (CONFIG_MAPS, config_map("x")),
        };
        let made = bench.call("POST", target, &object.to_string());
        prop_assert_eq!(made.code(), 201, "{}", made.text());
        let object = mutated(object, &changes);
        let put = bench.call("PUT", &format!("{target}/x"), &object.to_string());
        prop_assert!(put.code() < 500, "{}", put.text());
        for format in ["strategic-merge-patch+json", "merge-patch+json", "json-patch+json"] {
            let patched = bench.patch(format, &format!("{target}/x"), &patch.to_string());
            prop_assert!(patched.code() < 500, "{}", patched.text());
        }
        bench.call("DELETE", &format!("{target}/x"), r#"{"gracePeriodSeconds":0}"#);
        let post = bench.call("POST", target, &object.to_string());
        prop_assert!(post.code() < 500, "{}", post.text());
        let mut list = bench.request("GET", target, "");
        list.accept = "application/json;as=Table;v=v1;g=meta.k8s.io".to_owned();
        let listed = bench.answer(&list);
        prop_assert_eq!(listed.code.as_u16(), 200);
        // nothing else was touched
        let bundle = bench.get(&format!("{CONFIG_MAPS}/kube-root-ca.crt"));
        prop_assert_eq!(bundle["data"]["ca.crt"].as_str(), Some("CA\n"));
    }

    #[test]
    fn any_target_gets_an_answer(
        method in prop_oneof![Just("GET"), Just("POST"), Just("PUT"), Just("PATCH"), Just("DELETE"), Just("HEAD"), Just("OPTIONS")],
        path in "(/(api|apis|v1|apps|namespaces|default|pods|configmaps|status|scale|log|binding|openapi|v3|version|%2e%2e|\\.\\.|[a-z%/]{0,6})){0,7}",
        query in "((watch|limit|continue|labelSelector|fieldSelector|resourceVersion|dryRun|timeoutSeconds)(=[0-9a-z%=,!]{0,8})?&?){0,3}",
        body in prop_oneof![Just(String::new()), any_value().prop_map(|value| value.to_string())],
    ) {
        let bench = Bench::new();
        let request = bench.request(method, &format!("{path}?{query}"), &body);
        let answer = match bench.api.handle(&request) {
            rekindle_api::RequestOutcome::Answer(answer) => Some(answer),
            rekindle_api::RequestOutcome::List(list) => Some(list.into_answer()),
            _ => None,
        };
        if let Some(answer) = answer {
            prop_assert!(answer.code.as_u16() < 500 || answer.code.as_u16() == 504, "{:?}", answer);
        }
    }
}

#[test]
fn a_yaml_bomb_and_deep_nesting_are_refused_quickly() {
    let mut bench = Bench::new();
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..20 {
        bomb +=
            &format!("a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 10].join(", "));
    }
    for (content_type, body) in [
        ("application/yaml", bomb),
        ("application/yaml", "[".repeat(100_000)),
        ("application/json", "[".repeat(100_000)),
        (
            "application/json",
            format!("{{\"data\":{}1{}}}", "{\"a\":".repeat(5_000), "}".repeat(5_000)),
        ),
    ] {
        let mut request = bench.request("POST", CONFIG_MAPS, &body);
        request.content_type = content_type.to_owned();
        let answer = bench.answer(&request);
        assert_eq!(answer.code.as_u16(), 400, "{content_type}");
        assert!(answer.body.len() < 2_000, "the answer is short");
    }
}

/// Each metric looks at every pod of the target, every 15 s.
#[test]
fn an_autoscaler_has_a_bounded_number_of_metrics() {
    let mut bench = Bench::new();
    let mut post = |name: &str, metrics: usize| {
        let metric = json!({"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": 50}}});
        let object = json!({"metadata": {"name": name}, "spec": {"maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "metrics": vec![metric; metrics]}});
        let target = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
        bench.call("POST", target, &object.to_string())
    };
    assert_eq!(post("a", 64).code(), 201);
    let refused = post("b", 10_000).text();
    assert!(
        refused.ends_with("spec.metrics: Too many: 10000: must have at most 64 items"),
        "{refused}"
    );
}

#[test]
fn a_refusal_of_the_largest_body_is_short() {
    let long = format!("/{}", "x".repeat(1 << 20));
    let finalizers = vec![""; 100_000];
    let body = json!({"metadata": {"name": long, "finalizers": finalizers}}).to_string();
    let reply = Bench::new().call("POST", CONFIG_MAPS, &body);
    assert_eq!(reply.code(), 422, "{}", reply.text().len());
    assert!(reply.text().len() <= 2 << 20, "{}", reply.text().len());
}
