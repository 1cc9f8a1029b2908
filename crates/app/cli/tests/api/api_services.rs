//! API servers behind the API of the engine, with the real kubectl: an aggregated server of the
//! test's own, which goes and comes, is slow, lies, and answers 100 MiB.

use std::process::Stdio;

use rekindle_testkit::Engine;
use serde_json::{Value, json};

use crate::aggregated_server::{AggregatedServer, BOATS, HUGE_BYTES, SERVICE};

const AVAILABLE: &str = "apiservice/v1.boats.example";

fn condition(api_service: &Value) -> (&str, &str) {
    let condition = &api_service["status"]["conditions"][0];
    let text = |field: &str| condition[field].as_str().unwrap_or_default();
    (text("status"), text("reason"))
}

fn until_condition(engine: &Engine, what: &str, wanted: (&str, &str)) -> Value {
    engine.until_one(what, |found| condition(found) == wanted)
}

fn sail(name: &str) -> String {
    json!({
        "apiVersion": "boats.example/v1", "kind": "Sail", "metadata": {"name": name},
        "spec": {"square_metres": 20},
    })
    .to_string()
}

/// A user who may do something with sails, and nothing else.
fn sailor(engine: &Engine) {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "sailor"},
        "rules": [{"apiGroups": ["boats.example"], "resources": ["sails"], "verbs": ["get", "list"]}],
    });
    engine.apply(&role.to_string());
    engine.kubectl(&[
        "create",
        "clusterrolebinding",
        "sailor",
        "--clusterrole=sailor",
        "--user=ann",
    ]);
}

#[test]
fn kubectl_works_with_the_kinds_of_another_api_server() {
    let mut engine = Engine::start();
    let server = AggregatedServer::start(&engine);
    engine.apply(&server.api_service("v1"));
    until_condition(&engine, AVAILABLE, ("True", "Passed"));

    let resources = engine.kubectl(&["api-resources", "--api-group=boats.example"]);
    assert!(resources.contains("sails"), "{resources}");
    engine.kubectl_with(&["create", "-f", "-"], &sail("jib"));
    let listed = engine.kubectl(&["get", "sl", "-o", "name"]);
    assert_eq!(listed.trim(), "sail.boats.example/jib");
    engine.until(&["sails"], |sails| sails.contains_key("jib"));
    assert_eq!(engine.get("sail/jib")["spec"]["square_metres"], 20);
    let missing = engine.kubectl_fails(&["get", "sail", "main"], "");
    assert!(missing.contains("from the boats"), "the server's own words: {missing}");
    let explained = engine.kubectl(&["get", "--raw", &format!("/openapi/v3{BOATS}")]);
    assert!(explained.contains("A sail of a boat."), "{explained}");
    let index = engine.kubectl(&["get", "--raw", "/openapi/v3"]);
    assert!(index.contains("/openapi/v3/apis/boats.example/v1?hash=ABCD"), "{index}");

    // who asks is decided here, and the server hears it
    sailor(&engine);
    let as_ann = ["get", "sails", "--as=ann", "--as-group=crew", "--as-user-extra=ship=Beagle"];
    engine.kubectl(&as_ann);
    let headers = server.last_headers();
    for header in ["x-remote-user: ann", "x-remote-group: crew", "x-remote-extra-ship: Beagle"] {
        assert!(headers.iter().any(|sent| sent == header), "{header} in {headers:?}");
    }
    for secret in ["authorization: ", "impersonate-user: "] {
        assert!(!headers.iter().any(|sent| sent.starts_with(secret)), "{secret} in {headers:?}");
    }
    let refused = engine.kubectl_fails(&["delete", "sail", "jib", "--as=ann"], "");
    assert!(refused.contains("cannot delete resource \"sails\""), "{refused}");

    let rows = engine.kubectl(&["get", "apiservices"]);
    let row = |name: &str| -> Vec<String> {
        let row = rows.lines().find(|line| line.starts_with(&format!("{name} ")));
        row.unwrap().split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(row("v1.boats.example")[1..3], ["default/boats", "True"]);
    assert_eq!(row("v1.apps")[1..3], ["Local", "True"]);

    // the proxy is still the same after a crash
    engine.kill();
    engine.launch(&[]);
    until_condition(&engine, AVAILABLE, ("True", "Passed"));
    assert_eq!(engine.get("sail/jib")["spec"]["square_metres"], 20);
    engine.kubectl(&["delete", "sail", "jib"]);
    assert_eq!(engine.kubectl(&["get", "sails", "-o", "name"]), "");
}

#[test]
fn an_api_server_that_goes_is_unavailable_until_it_comes_back() {
    let engine = Engine::start();
    let server = AggregatedServer::start(&engine);
    engine.apply(&server.api_service("v1"));
    until_condition(&engine, AVAILABLE, ("True", "Passed"));
    let raw = format!("{BOATS}/namespaces/default/sails");
    let get = ["get", "--raw", raw.as_str()];

    // without an endpoint, at once
    engine.kubectl(&["delete", "endpointslice", SERVICE]);
    until_condition(&engine, AVAILABLE, ("False", "EndpointsNotFound"));
    let unavailable = engine.kubectl_fails(&get, "");
    assert!(unavailable.contains("currently unable to handle the request"), "{unavailable}");
    let others = engine.kubectl(&["api-resources", "--api-group=apps"]);
    assert!(others.contains("deployments"), "{others}");
    server.tls.add_endpoint(&engine, SERVICE);
    until_condition(&engine, AVAILABLE, ("True", "Passed"));
    engine.kubectl(&get);

    // an endpoint that does not answer: the next request says so, then a probe finds out
    server.set_down(true);
    engine.kubectl_fails(&get, "");
    let down = until_condition(&engine, AVAILABLE, ("False", "FailedDiscoveryCheck"));
    let message = down["status"]["conditions"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("failing or missing response from https://"), "{message}");
    // nothing else is disturbed
    engine.kubectl(&["get", "pods", "-A"]);
    server.set_down(false);
    until_condition(&engine, AVAILABLE, ("True", "Passed"));
    engine.kubectl(&get);

    engine.kubectl(&["delete", "apiservice", "v1.boats.example"]);
    let gone = engine.kubectl_fails(&get, "");
    assert!(gone.contains("NotFound"), "{gone}");
}

#[test]
fn an_api_server_that_is_slow_lies_or_talks_too_much_disturbs_nothing_else() {
    let engine = Engine::start();
    let server = AggregatedServer::start(&engine);
    engine.apply(&server.api_service("v1"));
    engine.apply(&server.api_service("v2"));
    until_condition(&engine, AVAILABLE, ("True", "Passed"));

    let liar =
        until_condition(&engine, "apiservice/v2.boats.example", ("False", "FailedDiscoveryCheck"));
    let message = liar["status"]["conditions"][0]["message"].as_str().unwrap();
    assert!(message.contains("is about \"boats.example/v1\""), "{message}");

    let slow = format!("{BOATS}/namespaces/default/sails/slow");
    let mut command = engine.kubectl_command(&["get", "--raw", &slow]);
    let mut waiting = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    engine.kubectl(&["get", "sails"]);
    let before = peak_kib(engine.pid());
    let huge = format!("{BOATS}/namespaces/default/sails/huge");
    let answer = engine.kubectl(&["get", "--raw", &huge]);
    assert_eq!(answer.trim_end().len(), HUGE_BYTES);
    let grown = peak_kib(engine.pid()) - before;
    assert!(grown < 48 << 10, "the answer was kept: {grown} KiB more");
    assert!(waiting.try_wait().unwrap().is_none(), "the slow one still waits");
    waiting.kill().unwrap();
    waiting.wait().unwrap();
}

/// The most memory that a process has had.
fn peak_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Such servers ask the API itself who a client is, and what it may do.
#[test]
fn the_account_of_an_api_server_may_ask_who_may_what() {
    let engine = Engine::start();
    engine.kubectl(&["create", "serviceaccount", "boats"]);
    let account = "--serviceaccount=default:boats";
    let role = "--clusterrole=system:auth-delegator";
    engine.kubectl(&["create", "clusterrolebinding", "boats", role, account]);
    let role = "--role=extension-apiserver-authentication-reader";
    engine.kubectl(&["create", "rolebinding", "boats", "-n", "kube-system", role, account]);
    sailor(&engine);
    let as_server = "--as=system:serviceaccount:default:boats";
    let review = |verb: &str| {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {
                "user": "ann",
                "resourceAttributes": {"group": "boats.example", "resource": "sails", "verb": verb},
            },
        });
        let answer = "jsonpath={.status.allowed}";
        engine.kubectl_with(&["create", "-f", "-", as_server, "-o", answer], &review.to_string())
    };
    assert_eq!((review("get").as_str(), review("delete").as_str()), ("true", "false"));
    let token = engine.kubectl(&["create", "token", "boats"]);
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": token.trim()},
    });
    let user = "jsonpath={.status.user.username}";
    let who =
        engine.kubectl_with(&["create", "-f", "-", as_server, "-o", user], &review.to_string());
    assert_eq!(who, "system:serviceaccount:default:boats");
    let map = ["get", "configmap", "extension-apiserver-authentication", "-n", "kube-system"];
    engine.kubectl(&[&map[..], &[as_server]].concat());
    engine.kubectl_fails(
        &["get", "configmap", "kube-root-ca.crt", "-n", "kube-system", as_server],
        "",
    );
}
