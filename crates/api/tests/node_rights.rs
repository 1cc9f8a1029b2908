//! What the agent of a further node may do: what is about its own node and the pods on it. Upstream's Node authorizer and the admission
//! plugin NodeRestriction.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests")]

mod harness;

use harness::{Bench, PODS, pod};
use rekindle_api::Outcome;
use rekindle_api::auth::UserInfo;
use serde_json::{Value, json};

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

/// Pod one on node n1 and pod two on node n2, each with a Secret, a ConfigMap and an account of its own.
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

#[test]
fn an_agent_gets_tokens_for_the_accounts_of_its_pods_only() {
    let mut bench = bench();
    let token =
        |target| ("POST", target, json!({"spec": {"audiences": [], "expirationSeconds": 600}}));
    let requests = [
        token("/api/v1/namespaces/default/serviceaccounts/one/token"),
        token("/api/v1/namespaces/default/serviceaccounts/two/token"),
        token("/api/v1/namespaces/default/serviceaccounts/default/token"),
    ];
    assert_eq!(codes(&mut bench, "n1", &requests), [201, 403, 403]);
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
    let Outcome::Write(mut write) = bench.api.handle(&create) else { panic!("it is a write") };
    let delete = ("DELETE", "/api/v1/namespaces/default/pods/young", json!({}));
    assert_eq!(codes(&mut bench, "n1", &[delete]), [403]);
    bench.committer.commit_pending().unwrap();
    assert!(write.try_answer().is_some());
}

#[test]
fn an_agent_makes_mirrors_of_its_own_files_and_no_other_pods() {
    let mut bench = bench();
    let mirror = |name: &str, node: &str| {
        let mut pod = pod(name);
        pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
        pod["spec"]["nodeName"] = node.into();
        pod
    };
    let mut with_secret = mirror("c", "n1");
    with_secret["spec"]["volumes"] = json!([{"name": "s", "secret": {"secretName": "nobodys"}}]);
    let mut with_account = mirror("d", "n1");
    with_account["spec"]["serviceAccountName"] = "two".into();
    let mut plain = pod("e");
    plain["spec"]["nodeName"] = "n1".into();
    let requests = [mirror("a", "n1"), mirror("b", "n2"), with_secret, with_account, plain]
        .map(|pod| ("POST", PODS, pod));
    assert_eq!(codes(&mut bench, "n1", &requests), [201, 403, 403, 403, 403]);
    // and no mirror gives it a token
    let token = json!({"spec": {"audiences": [], "expirationSeconds": 600}});
    let request = ("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", token);
    assert_eq!(codes(&mut bench, "n1", &[request]), [403]);
}
