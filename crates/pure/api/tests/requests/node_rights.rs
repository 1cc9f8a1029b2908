//! What the agent of a further node may do: what is about its own node and the pods on it.
//! Upstream's Node authorizer and the admission plugin NodeRestriction.

use rekindle_api::RequestOutcome;
use rekindle_kinds::identity::UserInfo;
use serde_json::{Value, json};

use crate::harness::{Bench, PODS, pod};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

fn agent(node: &str) -> UserInfo {
    UserInfo::new(format!("system:node:{node}"), ["system:nodes".to_owned()])
}

/// The codes of these requests, asked by the agent of a node.
fn codes(bench: &mut Bench, node: &str, requests: &[(&str, &str, Value)]) -> Vec<u16> {
    bench.as_user(agent(node), |bench| {
        let code = |(method, target, body): &(&str, &str, Value)| {
            bench.call(method, target, &body.to_string()).0.code.as_u16()
        };
        requests.iter().map(code).collect()
    })
}

/// Pod one on node n1 and pod two on node n2, each with a Secret, a ConfigMap and an account of its
/// own.
fn bench() -> Bench {
    let mut bench = Bench::new();
    for (name, node) in [("one", "n1"), ("two", "n2")] {
        bench.create("/api/v1/nodes", json!({"metadata": {"name": node}}));
        bench.create(SECRETS, json!({"metadata": {"name": name}}));
        bench.create(MAPS, json!({"metadata": {"name": name}}));
        bench.create(ACCOUNTS, json!({"metadata": {"name": name}}));
        let mut pod = pod(name);
        pod["spec"]["nodeName"] = node.into();
        pod["spec"]["serviceAccountName"] = name.into();
        pod["spec"]["volumes"] = json!([{"name": "s", "secret": {"secretName": name}}]);
        pod["spec"]["containers"][0]["envFrom"] = json!([{"configMapRef": {"name": name}}]);
        bench.create(PODS, pod);
    }
    bench.create(SECRETS, json!({"metadata": {"name": "nobodys"}}));
    bench
}

#[test]
fn an_agent_reads_what_the_pods_of_its_node_refer_to_and_nothing_else() {
    let mut bench = bench();
    let read = |target: &'static str| ("GET", target, Value::Null);
    let requests = [
        read("/api/v1/namespaces/default/secrets/one"),
        read("/api/v1/namespaces/default/configmaps/one"),
        read("/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Done"),
        read("/api/v1/namespaces/default/secrets/two"),
        read("/api/v1/namespaces/default/configmaps/two"),
        read("/api/v1/namespaces/default/secrets/nobodys"),
        read("/api/v1/namespaces/default/secrets"),
        read("/api/v1/secrets"),
        read("/api/v1/secrets?fieldSelector=metadata.name%3Done"),
    ];
    let answers = codes(&mut bench, "n1", &requests);
    assert_eq!(answers, [200, 200, 200, 403, 403, 403, 403, 403, 403]);
    // with the pod goes the right
    bench.call("DELETE", &format!("{PODS}/one?gracePeriodSeconds=0"), "").ok();
    assert_eq!(codes(&mut bench, "n1", &requests[..2]), [403, 403]);
}

const UID: &str = "the-uid";

/// A request for a token of the account `one`, bound to what `bound` says.
fn token(bench: &mut Bench, bound: &Value) -> String {
    let mut bound = bound.clone();
    if bound["uid"] == UID {
        let target = format!("{PODS}/{}", bound["name"].as_str().unwrap());
        bound["uid"] = bench.get(&target)["metadata"]["uid"].clone();
    }
    let spec =
        json!({"audiences": [], "expirationSeconds": 4_294_967_296_u64, "boundObjectRef": bound});
    let target = format!("{ACCOUNTS}/one/token");
    bench.as_user(agent("n1"), |bench| {
        let answer = bench.call("POST", &target, &json!({"spec": spec}).to_string());
        if answer.code() == 201 { "201".to_owned() } else { answer.text() }
    })
}

#[test]
fn an_agent_gets_tokens_that_end_with_a_pod_of_its_node_and_no_others() {
    let mut bench = bench();
    let mut other = pod("other");
    other["spec"]["nodeName"] = "n2".into();
    other["spec"]["serviceAccountName"] = "one".into();
    bench.create(PODS, other);
    let mut neighbour = pod("neighbour");
    neighbour["spec"]["nodeName"] = "n1".into();
    neighbour["spec"]["serviceAccountName"] = "two".into();
    bench.create(PODS, neighbour);
    let to = |kind: &str, name: &str, uid: &str| json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": uid});
    let forbidden = "403 Forbidden: serviceaccounts \"one\" is forbidden: ";
    for (bound, expected) in [
        (to("Pod", "one", UID), "201"),
        (Value::Null, "node requested token not bound to a pod"),
        (to("Secret", "one", ""), "node requested token not bound to a pod"),
        (to("Node", "n1", ""), "node requested token not bound to a pod"),
        (to("Pod", "", ""), "node requested token not bound to a pod"),
        (
            json!({"kind": "Pod", "name": "one", "uid": UID}),
            "node requested token not bound to a pod",
        ),
        (to("Pod", "one", ""), "node requested token with a pod binding without a uid"),
        (
            to("Pod", "one", "another"),
            "the UID in the bound object reference (another) does not match",
        ),
        (
            to("Pod", "other", UID),
            "node requested token bound to a pod scheduled on a different node",
        ),
    ] {
        let answer = token(&mut bench, &bound);
        let refused = answer.strip_prefix(forbidden).unwrap_or(&answer);
        assert!(refused.starts_with(expected), "{bound}: {answer}");
        assert_eq!(answer.starts_with("403"), expected != "201", "{bound}: {answer}");
    }
    // and for anybody the pod must have the account
    let answer = token(&mut bench, &to("Pod", "neighbour", UID));
    assert!(answer.starts_with("400 BadRequest: cannot bind token for serviceaccount"), "{answer}");
    assert!(token(&mut bench, &to("Pod", "gone", "x")).starts_with("404"));
    // those of accounts that no pod of the node has are nobody's there
    let two = bench.get(&format!("{PODS}/one"))["metadata"]["uid"].clone();
    let spec = json!({"spec": {"audiences": [], "boundObjectRef": to("Pod", "one", two.as_str().unwrap())}});
    let target = "/api/v1/namespaces/default/serviceaccounts/default/token";
    assert_eq!(codes(&mut bench, "n1", &[("POST", target, spec)]), [403]);
}

#[test]
fn an_agent_writes_about_its_own_node_and_pods() {
    let mut bench = bench();
    let status = json!({"status": {"message": "m"}});
    let requests = [
        ("PATCH", "/api/v1/namespaces/default/pods/one/status", status.clone()),
        ("PATCH", "/api/v1/namespaces/default/pods/two/status", status.clone()),
        ("DELETE", "/api/v1/namespaces/default/pods/two", json!({})),
        ("PATCH", "/api/v1/nodes/n1/status", json!({"status": {"phase": ""}})),
        ("PATCH", "/api/v1/nodes/n2/status", json!({"status": {"phase": ""}})),
        ("PATCH", "/api/v1/nodes/n2", json!({"metadata": {"labels": {"x": "y"}}})),
        ("GET", "/api/v1/nodes/n2", Value::Null),
        ("GET", "/api/v1/namespaces/default/pods", Value::Null),
        ("DELETE", "/api/v1/namespaces/default/pods/one", json!({"gracePeriodSeconds": 0})),
    ];
    let answers = codes(&mut bench, "n1", &requests);
    assert_eq!(answers, [200, 403, 403, 200, 403, 403, 200, 200, 200]);
}

#[test]
fn an_agent_makes_the_node_and_the_lease_of_its_own_name() {
    let mut bench = bench();
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let named = |name: &str| json!({"metadata": {"name": name}});
    let requests = [
        ("POST", "/api/v1/nodes", named("n3")),
        ("POST", "/api/v1/nodes", named("n4")),
        ("POST", "/api/v1/nodes", json!({"metadata": {"generateName": "n3"}})),
        ("POST", leases, named("n3")),
        ("POST", leases, named("n4")),
        ("POST", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", named("n3")),
    ];
    let answers = codes(&mut bench, "n3", &requests);
    assert_eq!(answers, [201, 403, 403, 201, 403, 403]);
}

#[test]
fn an_agent_writes_nothing_to_a_pod_whose_creation_is_not_durable_yet() {
    let mut bench = bench();
    let mut young = pod("young");
    young["spec"]["nodeName"] = "n2".into();
    let create = bench.request("POST", PODS, &young.to_string());
    let RequestOutcome::Write(mut write) = bench.api.handle(&create) else {
        panic!("it is a write")
    };
    let delete = ("DELETE", "/api/v1/namespaces/default/pods/young", json!({}));
    assert_eq!(codes(&mut bench, "n1", &[delete]), [403]);
    bench.committer.commit_pending().unwrap();
    assert!(write.try_answer().is_some());
}

/// Upstream: `admitPodCreate`.
#[test]
fn an_agent_makes_mirrors_of_its_own_files_and_no_other_pods() {
    let mut bench = bench();
    let uid = bench.get("/api/v1/nodes/n1")["metadata"]["uid"].clone();
    let owner =
        json!({"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid, "controller": true});
    let with = |field: &str, value: Value| {
        let mut owner = owner.clone();
        owner[field] = value;
        json!([owner])
    };
    let volume = |source: Value| {
        let mut volume = source;
        volume["name"] = "v".into();
        json!([volume])
    };
    let bundle =
        json!({"projected": {"sources": [{"clusterTrustBundle": {"name": "b", "path": "p"}}]}});
    let ephemeral = json!({"ephemeral": {"volumeClaimTemplate": {"spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}}}});
    let claims = json!([{"name": "gpu", "resourceClaimName": "gpu"}]);
    let mirror = json!({"kubernetes.io/config.mirror": "x"});
    for (number, (field, value, expected)) in [
        ("/metadata/annotations", json!(mirror), "201"),
        ("/metadata/annotations", json!({}), "may only create mirror pods"),
        ("/spec/nodeName", json!("n2"), "spec.nodeName set to itself"),
        ("/metadata/ownerReferences", json!([]), "a single owner reference"),
        ("/metadata/ownerReferences", json!([owner, owner]), "a single owner reference"),
        (
            "/metadata/ownerReferences",
            with("name", json!("n2")),
            "an owner reference set to itself",
        ),
        (
            "/metadata/ownerReferences",
            with("kind", json!("Pod")),
            "an owner reference set to itself",
        ),
        ("/metadata/ownerReferences", with("uid", json!("x")), "UID mismatch"),
        ("/metadata/ownerReferences", with("controller", json!(false)), "a controller owner"),
        (
            "/metadata/ownerReferences",
            with("blockOwnerDeletion", json!(true)),
            "blockOwnerDeletion",
        ),
        ("/spec/serviceAccountName", json!("two"), "reference a service account"),
        (
            "/spec/volumes",
            volume(json!({"secret": {"secretName": "nobodys"}})),
            "secrets or configmaps",
        ),
        ("/spec/volumes", volume(json!({"configMap": {"name": "two"}})), "secrets or configmaps"),
        (
            "/spec/volumes",
            volume(json!({"persistentVolumeClaim": {"claimName": "c"}})),
            "persistentvolumeclaims",
        ),
        ("/spec/volumes", volume(ephemeral), "persistentvolumeclaims"),
        ("/spec/volumes", volume(bundle), "clustertrustbundles"),
        ("/spec/resourceClaims", claims, "resourceclaims"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut pod = pod(&format!("p{number}"));
        pod["metadata"]["annotations"] = mirror.clone();
        pod["metadata"]["ownerReferences"] = json!([owner]);
        pod["spec"]["nodeName"] = "n1".into();
        let (part, name) = field[1..].split_once('/').unwrap();
        pod[part][name] = value;
        let answer = bench.as_user(agent("n1"), |bench| {
            let answer = bench.call("POST", PODS, &pod.to_string());
            if answer.code() == 201 { "201".to_owned() } else { answer.text() }
        });
        assert!(answer.contains(expected), "{pod}: {answer}");
        assert_eq!(answer.starts_with("403"), expected != "201", "{pod}: {answer}");
    }
    // and no mirror gives it a token
    let token = json!({"spec": {"audiences": [], "expirationSeconds": 600}});
    let request = ("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", token);
    assert_eq!(codes(&mut bench, "n1", &[request]), [403]);
}

/// Upstream: `admitNode`. By its labels and taints a node would bring pods to itself.
#[test]
fn an_agent_sets_neither_taints_nor_all_labels_of_its_node() {
    let mut bench = bench();
    let taints = json!([{"key": "example.com/x", "effect": "NoSchedule"}]);
    bench
        .patch("merge-patch+json", "/api/v1/nodes/n1", &json!({"spec": {"taints": taints}, "metadata": {"labels": {"node-restriction.kubernetes.io/trusted": "no"}}}).to_string())
        .ok();
    let label = |key: &str, value: Value| json!({"metadata": {"labels": {key: value}}});
    for (patch, code) in [
        (json!({"spec": {"taints": null}}), 403),
        (json!({"spec": {"taints": []}}), 403),
        (json!({"spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}}), 403),
        (json!({"spec": {"taints": taints}}), 200),
        (json!({"spec": {"unschedulable": true}}), 200),
        (label("node-restriction.kubernetes.io/trusted", json!("yes")), 403),
        (label("node-restriction.kubernetes.io/trusted", json!(null)), 403),
        (label("node-role.kubernetes.io/control-plane", json!("")), 403),
        (label("kubernetes.io/hostname", json!("n1")), 200),
        (label("example.com/disk", json!("fast")), 200),
    ] {
        for target in ["/api/v1/nodes/n1", "/api/v1/nodes/n1/status"] {
            // spec does not change through the status
            let is_spec = !patch["spec"].is_null();
            let expected = if is_spec && target.ends_with("/status") { 200 } else { code };
            let request = ("PATCH", target, patch.clone());
            assert_eq!(codes(&mut bench, "n1", &[request]), [expected], "{target} {patch}");
        }
    }
    let node = |labels: Value| json!({"metadata": {"name": "n3", "labels": labels}, "spec": {"taints": taints}});
    let requests = [
        ("POST", "/api/v1/nodes", node(json!({"node-restriction.kubernetes.io/trusted": "yes"}))),
        ("POST", "/api/v1/nodes", node(json!({"kubernetes.io/os": "linux", "disk": "fast"}))),
    ];
    assert_eq!(codes(&mut bench, "n3", &requests), [403, 201]);
}

/// Upstream: `admitPodStatus`. A pod with other labels would be another's endpoint.
#[test]
fn an_agent_does_not_label_its_pods() {
    let mut bench = bench();
    let target = "/api/v1/namespaces/default/pods/one/status";
    let requests = [
        json!({"metadata": {"labels": {"app": "bank"}}, "status": {"message": "m"}}),
        json!({"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "x"}]}}),
        json!({"metadata": {"labels": {}}, "status": {"message": "m"}}),
    ]
    .map(|patch| ("PATCH", target, patch));
    assert_eq!(codes(&mut bench, "n1", &requests), [403, 403, 200]);
}

/// What stands in `status.replacement.pod` is created with the controller's rights.
#[test]
fn an_agent_reports_on_restarts_in_place_of_its_pods_and_on_nothing_else() {
    const RESTARTS: &str = "/apis/rekindle.dev/v1alpha1/namespaces/default/podrestarts";
    let mut bench = bench();
    for (name, pod, rung) in
        [("here", "one", "Pod"), ("there", "two", "Pod"), ("anew", "one", "Recreate")]
    {
        let spec = json!({"podName": pod, "rung": rung});
        bench.create(RESTARTS, json!({"metadata": {"name": name}, "spec": spec}));
    }
    let labels = json!({"matchLabels": {"app": "bank"}});
    bench.create(RESTARTS, json!({"metadata": {"name": "all"}, "spec": {"selector": labels}}));
    let status = |name: &str| format!("{RESTARTS}/{name}/status");
    let grouped = json!({"status": {"group": {"stage": "Starting", "members": []}}});
    let report = json!({"status": {"phase": "Running", "message": "stopping"}});
    let copy = json!({"metadata": {"name": "one"}, "spec": {"serviceAccountName": "boss"}});
    let mut replaced = json!({"status": {"phase": "Running", "replacement": {"pod": copy}}});
    let fields = [
        ("step", "Evicting"),
        ("since", "2026-11-26T12:00:00Z"),
        ("podUID", "u"),
        ("nodeName", "n1"),
    ];
    for (field, value) in fields {
        replaced["status"]["replacement"][field] = value.into();
    }
    let kept = json!({"metadata": {"finalizers": ["a.b/c"]}});
    let owned = json!({"metadata": {"labels": {"a": "b"}}});
    let cases = [
        ("here", &report, 200),
        ("here", &replaced, 403),
        ("here", &grouped, 403),
        ("all", &report, 403),
        ("all", &grouped, 403),
        ("here", &owned, 403),
        ("there", &report, 403),
        ("anew", &report, 403),
        ("anew", &replaced, 403),
    ];
    for (name, patch, code) in cases {
        let answer = bench.as_user(agent("n1"), |bench| {
            bench.patch("merge-patch+json", &status(name), &patch.to_string())
        });
        assert_eq!(answer.code(), code, "{name}: {patch}: {}", answer.text());
    }
    // a status says nothing of when the object goes, whoever writes it
    bench.patch("merge-patch+json", &status("here"), &kept.to_string()).ok();
    let object = bench.call("GET", &format!("{RESTARTS}/here"), "").ok();
    assert!(object["metadata"]["finalizers"].is_null(), "{object}");
}

/// CVE-2025-5187, its other half: a node creates its Node again with fewer taints only if it can
/// have it deleted first.
#[test]
fn an_agent_cannot_have_its_node_deleted_to_create_it_with_fewer_taints() {
    let mut bench = bench();
    let requests = [
        ("DELETE", "/api/v1/nodes/n1", json!({})),
        ("DELETE", "/api/v1/nodes", json!({})),
        ("POST", "/api/v1/nodes", json!({"metadata": {"name": "n1"}})),
    ];
    assert_eq!(codes(&mut bench, "n1", &requests), [403, 403, 409]);
}

/// CVE-2025-5187: by an owner that is not there a node had its Node deleted, and made it again
/// without its taints.
#[test]
fn an_agent_gives_its_node_neither_owners_nor_finalizers() {
    let mut bench = bench();
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "x"}]);
    let finalizers = json!(["example.com/hold"]);
    let source = json!({"configMap": {"name": "one", "namespace": "default", "kubeletConfigKey": "kubelet"}});
    let set = |name: &str, field: &str, value: &Value| {
        let mut node = json!({"metadata": {"name": name}, "spec": {}});
        let (part, field) = field[1..].split_once('/').unwrap();
        node[part][field] = value.clone();
        node
    };
    let forbidden = "is not allowed to";
    for (field, value, on_create, on_update) in [
        ("/metadata/ownerReferences", &owner, "set ownerReferences", "modify ownerReferences"),
        ("/metadata/finalizers", &finalizers, "set finalizers", "modify finalizers"),
        (
            "/spec/configSource",
            &source,
            "create pods with a non-nil configSource",
            "update configSource to a new non-nil configSource",
        ),
    ] {
        let made = set("n3", field, value);
        let answer = bench
            .as_user(agent("n3"), |bench| bench.call("POST", "/api/v1/nodes", &made.to_string()))
            .text();
        let expected = format!(
            "403 Forbidden: nodes \"n3\" is forbidden: node \"n3\" {forbidden} {on_create}"
        );
        assert_eq!(answer, expected);
        let patch = set("n1", field, value).to_string();
        for target in ["/api/v1/nodes/n1", "/api/v1/nodes/n1/status"] {
            // spec does not change through the status
            if field.starts_with("/spec") && target.ends_with("/status") {
                continue;
            }
            let answer =
                bench.as_user(agent("n1"), |bench| bench.call("PATCH", target, &patch)).text();
            let expected = format!(
                "403 Forbidden: nodes \"n1\" is forbidden: node \"n1\" {forbidden} {on_update}"
            );
            assert_eq!(answer, expected, "{target}");
        }
    }
    // nor does it take away what others have set
    let held = json!({"metadata": {"finalizers": finalizers, "ownerReferences": owner}});
    bench.patch("merge-patch+json", "/api/v1/nodes/n1", &held.to_string()).ok();
    let requests = [
        json!({"metadata": {"finalizers": null}}),
        json!({"metadata": {"ownerReferences": null}}),
        json!({"metadata": {"labels": {"disk": "fast"}}}),
    ]
    .map(|patch| ("PATCH", "/api/v1/nodes/n1", patch));
    assert_eq!(codes(&mut bench, "n1", &requests), [403, 403, 200]);
}

/// Upstream: `admitPod`. A role that gives nodes more than theirs does not help them.
#[test]
fn an_agent_changes_of_a_pod_nothing_but_its_status() {
    let mut bench = bench();
    let rules = json!([{"apiGroups": [""], "resources": ["pods", "pods/resize", "pods/ephemeralcontainers"], "verbs": ["*"]}]);
    bench.create(
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        json!({"metadata": {"name": "generous"}, "rules": rules}),
    );
    bench.create(
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        json!({"metadata": {"name": "generous"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "generous"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}]}),
    );
    let target = format!("{PODS}/one");
    for (sub, expected) in [
        ("", "unexpected operation \"UPDATE\", node \"n1\" can only create and delete mirror pods"),
        (
            "/resize",
            "unexpected pod subresource \"resize\", only 'status' and 'eviction' are allowed",
        ),
        (
            "/ephemeralcontainers",
            "unexpected pod subresource \"ephemeralcontainers\", only 'status' and 'eviction' are allowed",
        ),
    ] {
        let target = format!("{target}{sub}");
        let answer = bench
            .as_user(agent("n1"), |bench| {
                bench.call(
                    "PATCH",
                    &target,
                    &json!({"metadata": {"annotations": {"a": "b"}}}).to_string(),
                )
            })
            .text();
        assert_eq!(answer, format!("403 Forbidden: pods \"one\" is forbidden: {expected}"));
    }
}

/// A volume of another node could show what pods there are given, or take a folder from under them.
#[test]
fn an_agent_writes_no_volumes_but_those_of_its_own_node() {
    let mut bench = bench();
    let volume = |name: &str, node: &str, source: Value| {
        let term = json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]});
        let mut spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}});
        spec.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
        json!({"metadata": {"name": name, "finalizers": ["rekindle.dev/local-path-folder"],
            "annotations": {"pv.kubernetes.io/provisioned-by": "rekindle.dev/local-path"}}, "spec": spec})
    };
    let local = json!({"local": {"path": "/data/x"}});
    let mut both = volume("both", "n1", local.clone());
    both["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] =
        json!(["n1", "n2"]);
    let mut of_nobody = volume("nobody", "n1", local.clone());
    of_nobody["metadata"]["annotations"] = json!({});
    let target = "/api/v1/persistentvolumes";
    let requests = [
        ("POST", target, volume("ours", "n1", local.clone())),
        ("POST", target, volume("theirs", "n2", local.clone())),
        ("POST", target, volume("host", "n1", json!({"hostPath": {"path": "/"}}))),
        ("POST", target, both),
        ("POST", target, of_nobody),
    ];
    assert_eq!(codes(&mut bench, "n1", &requests), [201, 403, 403, 403, 403]);
    bench.create(target, volume("theirs", "n2", local));
    let freed = json!({"metadata": {"finalizers": null}});
    let moved = json!({"spec": {"claimRef": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "victim"}}});
    let requests = [
        ("PATCH", "/api/v1/persistentvolumes/theirs", freed.clone()),
        ("DELETE", "/api/v1/persistentvolumes/theirs", json!({})),
        ("DELETE", "/api/v1/persistentvolumes", json!({})),
        ("PATCH", "/api/v1/persistentvolumes/ours", moved),
        ("PATCH", "/api/v1/persistentvolumes/ours", json!({"metadata": {"labels": {"a": "b"}}})),
        ("PATCH", "/api/v1/persistentvolumes/ours", freed),
        ("DELETE", "/api/v1/persistentvolumes/ours", json!({})),
        ("GET", "/api/v1/persistentvolumes/theirs", Value::Null),
    ];
    assert_eq!(codes(&mut bench, "n1", &requests), [403, 403, 403, 403, 403, 200, 200, 200]);
}
