//! Admission policies, where the recorded conversations do not look: what they may not touch, who
//! may write them, what they cost, and what becomes of failures.

use rekindle_kinds::identity::UserInfo;
use serde_json::{Value, json};

use crate::harness::{Bench, CONFIG_MAPS, config_map};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// What a policy looks at: config maps that are made or changed.
fn config_maps() -> Value {
    json!({"resourceRules": [{
        "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
        "operations": ["CREATE", "UPDATE"],
    }]})
}

fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": name}, "spec": spec,
    })
}

/// A policy with these fields in its spec, beside what it looks at.
fn validating(name: &str, more: Value) -> Value {
    let mut spec = json!({"matchConstraints": config_maps()});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object("ValidatingAdmissionPolicy", name, spec)
}

fn mutating(name: &str, again: &str, mutations: Value) -> Value {
    let spec = json!({
        "matchConstraints": config_maps(), "reinvocationPolicy": again, "mutations": mutations,
    });
    object("MutatingAdmissionPolicy", name, spec)
}

impl Bench {
    pub(super) fn validate(&mut self, name: &str, more: Value) {
        self.create(&format!("{GROUP}/validatingadmissionpolicies"), validating(name, more));
        let spec = json!({"policyName": name, "validationActions": ["Deny"]});
        let binding = object("ValidatingAdmissionPolicyBinding", name, spec);
        self.create(&format!("{GROUP}/validatingadmissionpolicybindings"), binding);
    }

    fn mutate(&mut self, name: &str, again: &str, mutations: Value) {
        let policy = mutating(name, again, mutations);
        self.create(&format!("{GROUP}/mutatingadmissionpolicies"), policy);
        let binding = object("MutatingAdmissionPolicyBinding", name, json!({"policyName": name}));
        self.create(&format!("{GROUP}/mutatingadmissionpolicybindings"), binding);
    }
}

fn json_patch(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

fn apply(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

#[test]
fn a_policy_counts_with_its_binding_and_until_it_goes() {
    let mut bench = Bench::new();
    bench.validate("no", json!({"validations": [{"expression": "false"}]}));
    assert_eq!(bench.make("a").0, 422);
    bench.call("DELETE", &format!("{GROUP}/validatingadmissionpolicybindings/no"), "").ok();
    assert_eq!(bench.make("a").0, 201);
    let spec = json!({"policyName": "no", "validationActions": ["Deny"]});
    let binding = object("ValidatingAdmissionPolicyBinding", "again", spec);
    bench.create(&format!("{GROUP}/validatingadmissionpolicybindings"), binding);
    assert_eq!(bench.make("b").0, 422);
    let patch = r#"{"spec":{"validations":[{"expression":"object.metadata.name == 'b'"}]}}"#;
    let path = format!("{GROUP}/validatingadmissionpolicies/no");
    bench.patch("merge-patch+json", &path, patch).ok();
    assert_eq!((bench.make("b").0, bench.make("c").0), (201, 422));
}

#[test]
fn policies_cannot_be_shut_in_by_policies() {
    let mut bench = Bench::new();
    let everything = json!({"resourceRules": [{
        "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"],
    }]});
    let more = json!({
        "matchConstraints": everything, "validations": [{"expression": "false"}],
    });
    bench.validate("no", more);
    assert_eq!(bench.make("a").0, 422);
    let path = format!("{GROUP}/validatingadmissionpolicies/no");
    bench.patch("merge-patch+json", &path, r#"{"metadata":{"labels":{"a":"b"}}}"#).ok();
    bench.call("DELETE", &path, "").ok();
    assert_eq!(bench.make("a").0, 201);
}

#[test]
fn a_failure_counts_as_the_policy_says() {
    for (failure_policy, code) in [("Fail", 422), ("Ignore", 201)] {
        for more in [
            json!({"validations": [{"expression": "object.data.gone == 'x'"}]}),
            json!({
                "validations": [{"expression": "true"}],
                "matchConditions": [{"name": "c", "expression": "object.data.gone == 'x'"}],
            }),
            json!({
                "validations": [{"expression": "variables.v == 'x'"}],
                "variables": [{"name": "v", "expression": "object.data.gone"}],
            }),
        ] {
            let mut bench = Bench::new();
            let mut more = more;
            more["failurePolicy"] = failure_policy.into();
            bench.validate("p", more.clone());
            let (found, text) = bench.make("a");
            assert_eq!(found, code, "{more}: {text}");
            assert!(code == 201 || text.contains("no such key: gone"), "{text}");
        }
    }
}

#[test]
fn a_condition_that_does_not_hold_spares_a_request_whatever_fails_beside_it() {
    let mut bench = Bench::new();
    let more = json!({
        "validations": [{"expression": "false"}],
        "matchConditions": [
            {"name": "fails", "expression": "object.data.gone == 'x'"},
            {"name": "no", "expression": "object.metadata.name == 'other'"},
        ],
    });
    bench.validate("p", more);
    assert_eq!(bench.make("a").0, 201);
}

#[test]
fn what_costs_too_much_fails_and_disturbs_nothing_else() {
    let twelve = "[1,2,3,4,5,6,7,8,9,10,11,12]";
    let nested = ["a", "b", "c", "d", "e", "f", "g"].map(|v| format!("{twelve}.all({v}, "));
    let bomb = format!("{}true{}", nested.concat(), ")".repeat(nested.len()));
    let mut bench = Bench::new();
    bench.validate("p", json!({"validations": [{"expression": bomb}]}));
    let (code, text) = bench.make("a");
    assert_eq!(code, 422, "{text}");
    assert!(text.contains("cost limit exceeded"), "{text}");
    let namespace = json!({"metadata": {"name": "calm"}});
    bench.create("/api/v1/namespaces", namespace);
}

#[test]
fn texts_and_lists_that_share_their_parts_do_not_fill_the_memory() {
    let doubling = |first: &str| {
        let mut variables = vec![json!({"name": "v0", "expression": first})];
        for at in 1..40 {
            let before = format!("variables.v{}", at - 1);
            let expression = format!("[{before}, {before}]");
            variables.push(json!({"name": format!("v{at}"), "expression": expression}));
        }
        json!(variables)
    };
    let mut bench = Bench::new();
    let spec = json!({
        "matchConstraints": config_maps(), "reinvocationPolicy": "Never",
        "variables": doubling("1"),
        "mutations": [json_patch(
            "[JSONPatch{op: 'add', path: '/data', value: {'a': variables.v39}}]"
        )],
    });
    let policy = object("MutatingAdmissionPolicy", "bomb", spec);
    bench.create(&format!("{GROUP}/mutatingadmissionpolicies"), policy);
    let binding = object("MutatingAdmissionPolicyBinding", "bomb", json!({"policyName": "bomb"}));
    bench.create(&format!("{GROUP}/mutatingadmissionpolicybindings"), binding);
    let (code, text) = bench.make("a");
    assert_eq!(code, 403, "{text}");
    assert!(text.contains("too large"), "{text}");
}

#[test]
fn variables_stand_for_what_is_before_them_and_nest_only_so_deep() {
    let mut bench = Bench::new();
    let refusal = |bench: &mut Bench, variables: Value| {
        let more = json!({"validations": [{"expression": "true"}], "variables": variables});
        let path = format!("{GROUP}/validatingadmissionpolicies");
        let reply = bench.call("POST", &path, &validating("p", more).to_string());
        assert_eq!(reply.code(), 422, "{}", reply.text());
        reply.text()
    };
    let itself = json!([
        {"name": "a", "expression": "1"}, {"name": "a", "expression": "variables.a"},
    ]);
    let text = refusal(&mut bench, itself);
    assert!(text.contains("spec.variables[1].name: Duplicate value"), "{text}");
    let mut chain = vec![json!({"name": "v0", "expression": "1"})];
    for at in 1..200 {
        let expression = format!("variables.v{} + 1", at - 1);
        chain.push(json!({"name": format!("v{at}"), "expression": expression}));
    }
    let text = refusal(&mut bench, json!(chain));
    assert!(text.contains("levels with the variables that it uses"), "{text}");
}

#[test]
fn a_policy_ends_when_its_budget_is_spent() {
    let mut bench = Bench::new();
    let hundred = format!("[{}]", vec!["1"; 100].join(","));
    let bomb = format!("{hundred}.all(a, {hundred}.all(b, {hundred}.exists(c, c == a)))");
    let validation = json!({"expression": bomb});
    bench.validate("p", json!({"validations": vec![validation; 200]}));
    let (code, text) = bench.make("a");
    assert_eq!(code, 422, "{text}");
    assert!(text.contains("cost limit exceeded"), "{text}");
    // objects that share their parts are compared part by part
    let doubled = ".map(x, Object{a: x, b: x})".repeat(40);
    let expression = format!("[Object{{}}]{doubled}.map(y, y == y)[0] ? Object{{}} : Object{{}}");
    let mut bench = Bench::new();
    bench.mutate("p", "Never", json!([apply(&expression)]));
    let (code, text) = bench.make("a");
    assert_eq!(code, 403, "{text}");
    assert!(text.contains("cost limit exceeded"), "{text}");
}

#[test]
fn a_macro_that_fails_leaves_nothing_behind() {
    let mut bench = Bench::new();
    let more = json!({
        "variables": [{"name": "bad", "expression": "[1, 0].map(object, 1 / object)"}],
        "validations": [{
            "expression": "[1, 2].filter(c, variables.bad == [] || c > 0).size() == 2",
        }, {
            "expression": "object.metadata.name == 'a'",
        }],
    });
    bench.validate("p", more);
    assert_eq!(bench.make("a").0, 201);
}

#[test]
fn a_parameter_that_fails_keeps_a_policy_from_no_other() {
    let mut bench = Bench::new();
    for (name, max) in [("a-broken", None), ("b-strict", Some("0"))] {
        let mut parameter = config_map(name);
        parameter["metadata"]["labels"] = json!({"limit": "yes"});
        parameter["data"] = max.map_or(json!({}), |max| json!({"max": max}));
        bench.create(CONFIG_MAPS, parameter);
    }
    let more = json!({
        "failurePolicy": "Ignore", "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConditions": [{"name": "set", "expression": "params.data.max != ''"}],
        "validations": [{"expression": "size(object.data) <= int(params.data.max)"}],
    });
    bench.create(&format!("{GROUP}/validatingadmissionpolicies"), validating("p", more));
    let spec = json!({
        "policyName": "p", "validationActions": ["Deny"], "paramRef": {
            "selector": {"matchLabels": {"limit": "yes"}}, "parameterNotFoundAction": "Deny",
        },
    });
    let binding = object("ValidatingAdmissionPolicyBinding", "p", spec);
    bench.create(&format!("{GROUP}/validatingadmissionpolicybindings"), binding);
    let one = json!({"metadata": {"name": "one"}, "data": {"a": "1"}}).to_string();
    assert_eq!(bench.call("POST", CONFIG_MAPS, &one).code(), 422);
}

#[test]
fn a_policy_changes_nothing_that_the_write_may_not() {
    let mut bench = Bench::new();
    bench.mutate(
        "p",
        "Never",
        json!([json_patch(
            "[JSONPatch{op: 'add', path: '/metadata/name', value: 'other'}, \
              JSONPatch{op: 'add', path: '/metadata/namespace', value: 'kube-system'}, \
              JSONPatch{op: 'add', path: '/metadata/uid', value: 'mine'}, \
              JSONPatch{op: 'add', path: '/data', value: {'changed': 'yes'}}]"
        )]),
    );
    bench.make("a");
    let stored = bench.get(&format!("{CONFIG_MAPS}/a"));
    assert_eq!(stored["metadata"]["namespace"], "default");
    assert_ne!(stored["metadata"]["uid"], "mine");
    assert_eq!(stored["data"], json!({"changed": "yes"}));

    let mut bench = Bench::new();
    bench.create("/apis/apps/v1/namespaces/default/deployments", crate::harness::deployment("d"));
    let mut policy = mutating(
        "p",
        "Never",
        json!([json_patch("[JSONPatch{op: 'add', path: '/spec/replicas', value: 7}]")]),
    );
    policy["spec"]["matchConstraints"]["resourceRules"] = json!([{
        "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments/status"],
        "operations": ["UPDATE"],
    }]);
    bench.create(&format!("{GROUP}/mutatingadmissionpolicies"), policy);
    let binding = object("MutatingAdmissionPolicyBinding", "p", json!({"policyName": "p"}));
    bench.create(&format!("{GROUP}/mutatingadmissionpolicybindings"), binding);
    let path = "/apis/apps/v1/namespaces/default/deployments/d";
    let before = bench.get(path)["spec"].clone();
    let status = r#"{"status":{"observedGeneration":1}}"#;
    bench.patch("merge-patch+json", &format!("{path}/status"), status).ok();
    assert_eq!(bench.get(path)["spec"], before, "a write of the status leaves the spec");
}

#[test]
fn mutations_see_each_other_and_run_again_when_others_changed_the_object() {
    let mut bench = Bench::new();
    bench.mutate(
        "a-again",
        "IfNeeded",
        json!([apply("Object{metadata: Object.metadata{labels: {'seen': has(object.metadata.labels) && 'late' in object.metadata.labels ? 'late' : 'no'}}}")]),
    );
    bench.mutate(
        "b-late",
        "Never",
        json!([apply("Object{metadata: Object.metadata{labels: {'late': 'yes'}}}")]),
    );
    bench.make("a");
    let labels = &bench.get(&format!("{CONFIG_MAPS}/a"))["metadata"]["labels"];
    assert_eq!(*labels, json!({"late": "yes", "seen": "late"}));
}

#[test]
fn what_a_policy_changes_is_checked_like_what_a_user_writes() {
    let mut bench = Bench::new();
    bench.mutate(
        "p",
        "Never",
        json!([json_patch(
            "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a b': 'c'}}]"
        )]),
    );
    let (code, text) = bench.make("a");
    assert_eq!(code, 422, "{text}");
    assert!(text.contains("metadata.labels: Invalid value: \"a b\""), "{text}");
}

#[test]
fn an_applied_object_must_fit_and_sets_no_list_as_a_whole() {
    for (expression, problem) in [
        ("Object{colour: 'red'}", ".colour"),
        ("Object{metadata: Object.spec{labels: {'a': 'b'}}}", "unexpected type name"),
        ("Object{binaryData: 3}", "binaryData"),
    ] {
        let mut bench = Bench::new();
        bench.mutate("p", "Never", json!([apply(expression)]));
        let (code, text) = bench.make("a");
        assert_eq!(code, 403, "{expression}: {text}");
        assert!(text.contains(problem), "{expression}: {text}");
    }
    let mut bench = Bench::new();
    let mut policy = mutating(
        "p",
        "Never",
        json!([apply(
            "Object{spec: Object.spec{dnsConfig: Object.spec.dnsConfig{searches: ['a']}}}"
        )]),
    );
    policy["spec"]["matchConstraints"]["resourceRules"][0]["resources"] = json!(["pods"]);
    bench.create(&format!("{GROUP}/mutatingadmissionpolicies"), policy);
    let binding = object("MutatingAdmissionPolicyBinding", "p", json!({"policyName": "p"}));
    bench.create(&format!("{GROUP}/mutatingadmissionpolicybindings"), binding);
    let pod = crate::harness::pod("a").to_string();
    let refused = bench.call("POST", "/api/v1/namespaces/default/pods", &pod);
    assert!(refused.text().contains("may not mutate atomic"), "{}", refused.text());
}

#[test]
fn objects_of_definitions_are_matched_in_all_their_versions() {
    let mut bench = Bench::new();
    let version = |name: &str, is_stored: bool| {
        json!({
            "name": name, "served": true, "storage": is_stored,
            "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }},
        })
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "kites.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced",
            "names": {"plural": "kites", "kind": "Kite"},
            "versions": [version("v1", true), version("v2", false)],
        },
    });
    bench.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition);
    for (name, policy) in [("equivalent", "Equivalent"), ("exact", "Exact")] {
        let constraints = json!({"matchPolicy": policy, "resourceRules": [{
            "apiGroups": ["example.org"], "apiVersions": ["v1"], "resources": ["kites"],
            "operations": ["CREATE"],
        }]});
        let validations = json!([{"expression": format!("object.metadata.name != '{name}'")}]);
        let more = json!({"matchConstraints": constraints, "validations": validations});
        bench.validate(name, more);
    }
    let mut make = |version: &str, name: &str| {
        let kite = json!({
            "apiVersion": format!("example.org/{version}"), "kind": "Kite",
            "metadata": {"name": name},
        });
        let path = format!("/apis/example.org/{version}/namespaces/default/kites");
        bench.call("POST", &path, &kite.to_string()).code()
    };
    assert_eq!((make("v1", "equivalent"), make("v2", "equivalent")), (422, 422));
    assert_eq!((make("v1", "exact"), make("v2", "exact")), (422, 201));
}

#[test]
fn who_lets_a_policy_read_parameters_may_read_them() {
    let mut bench = Bench::new();
    let role = json!({"metadata": {"name": "author"}, "rules": [{
        "apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"],
    }]});
    bench.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", role);
    let binding = json!({
        "metadata": {"name": "author"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "author"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}],
    });
    bench.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding);
    let more = json!({
        "paramKind": {"apiVersion": "v1", "kind": "Secret"},
        "validations": [{
            "expression": "false", "messageExpression": "string(params.data.key)",
        }],
    });
    let policy = validating("peek", more).to_string();
    let path = format!("{GROUP}/validatingadmissionpolicies");
    let early = json!({
        "policyName": "peek", "validationActions": ["Deny"],
        "paramRef": {"name": "key", "parameterNotFoundAction": "Allow"},
    });
    let early = object("ValidatingAdmissionPolicyBinding", "early", early).to_string();
    let bindings = format!("{GROUP}/validatingadmissionpolicybindings");
    let ann = || UserInfo::new("ann", []);
    let refused = bench.as_user(ann(), |bench| bench.call("POST", &bindings, &early));
    assert_eq!(refused.code(), 422, "its policy may get any parameters: {}", refused.text());
    let refused = bench.as_user(ann(), |bench| bench.call("POST", &path, &policy));
    assert_eq!(refused.code(), 422, "{}", refused.text());
    assert!(refused.text().contains("spec.paramKind: Forbidden: user ann must have"));
    bench.call("POST", &path, &policy).ok();
    let spec = json!({
        "policyName": "peek", "validationActions": ["Deny"],
        "paramRef": {"name": "key", "parameterNotFoundAction": "Allow"},
    });
    let binding = object("ValidatingAdmissionPolicyBinding", "peek", spec).to_string();
    let path = format!("{GROUP}/validatingadmissionpolicybindings");
    let refused = bench.as_user(ann(), |bench| bench.call("POST", &path, &binding));
    assert_eq!(refused.code(), 422, "{}", refused.text());
    assert!(refused.text().contains("spec.paramRef: Forbidden"), "{}", refused.text());
    bench.call("POST", &path, &binding).ok();
    assert_eq!(bench.make("a").0, 201, "without the parameter the policy is passed over");
}

#[test]
fn parameters_are_those_of_the_namespace_and_of_now() {
    let mut bench = Bench::new();
    bench.create("/api/v1/namespaces/default/configmaps", {
        let mut limit = config_map("limit");
        limit["data"] = json!({"max": "1"});
        limit
    });
    let more = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "size(object.data) <= int(params.data.max)"}],
    });
    bench.create(&format!("{GROUP}/validatingadmissionpolicies"), validating("p", more));
    let spec = json!({
        "policyName": "p", "validationActions": ["Deny"],
        "paramRef": {"name": "limit", "parameterNotFoundAction": "Deny"},
    });
    let binding = object("ValidatingAdmissionPolicyBinding", "p", spec);
    bench.create(&format!("{GROUP}/validatingadmissionpolicybindings"), binding);
    let two = json!({"metadata": {"name": "two"}, "data": {"a": "1", "b": "2"}}).to_string();
    assert_eq!(bench.call("POST", CONFIG_MAPS, &two).code(), 422);
    let more = r#"{"data":{"max":"2"}}"#;
    bench.patch("merge-patch+json", &format!("{CONFIG_MAPS}/limit"), more).ok();
    assert_eq!(bench.call("POST", CONFIG_MAPS, &two).code(), 201);
    bench.create("/api/v1/namespaces", json!({"metadata": {"name": "other"}}));
    let elsewhere = bench.call("POST", "/api/v1/namespaces/other/configmaps", &two);
    assert_eq!(elsewhere.code(), 422);
    assert!(elsewhere.text().contains("no params found"), "{}", elsewhere.text());
}

#[test]
fn a_deletion_is_judged_by_the_object_as_it_was() {
    let mut bench = Bench::new();
    let mut kept = config_map("kept");
    kept["metadata"]["labels"] = json!({"keep": "yes"});
    bench.create(CONFIG_MAPS, kept);
    bench.create(CONFIG_MAPS, config_map("other"));
    let constraints = json!({"resourceRules": [{
        "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
        "operations": ["DELETE"],
    }]});
    let more = json!({
        "matchConstraints": constraints,
        "validations": [{
            "expression": "object == null && !('keep' in oldObject.metadata.?labels.orValue({}))",
            "message": "it is to be kept", "reason": "Forbidden",
        }],
    });
    bench.validate("keep", more);
    let refused = bench.call("DELETE", &format!("{CONFIG_MAPS}/kept"), "");
    assert_eq!(refused.code(), 403, "{}", refused.text());
    assert!(refused.text().contains("it is to be kept"), "{}", refused.text());
    bench.call("DELETE", &format!("{CONFIG_MAPS}/other"), "").ok();
    let refused = bench.call("DELETE", &format!("{CONFIG_MAPS}?labelSelector=keep"), "");
    assert_eq!(refused.code(), 403, "{}", refused.text());
    bench.get(&format!("{CONFIG_MAPS}/kept"));
}
