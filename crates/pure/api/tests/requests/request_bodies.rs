//! Policies and webhooks see requests that write no object of their resource: shells, tunnels,
//! proxies, evictions, bindings and tokens.

use expect_test::expect;
use rekindle_api::RequestOutcome;
use serde_json::{Value, json};

use crate::harness::{Bench, PODS, Reply, pod, texts};
use crate::webhooks::{allowed, patched, webhook};

/// A pod on a node, with an address.
fn with_pod() -> Bench {
    let mut bench = Bench::new();
    let mut pod = pod("web");
    pod["metadata"]["labels"] = json!({"app": "web"});
    pod["spec"]["nodeName"] = json!("n1");
    bench.create(PODS, pod);
    let status = r#"{"status":{"phase":"Running","podIP":"10.88.0.2"}}"#;
    bench.patch("merge-patch+json", &format!("{PODS}/web/status"), status).ok();
    bench
}

fn rules(operation: &str, resources: &[&str]) -> Value {
    json!([{"apiGroups": [""], "apiVersions": ["v1"], "resources": resources,
            "operations": [operation]}])
}

/// Sends a request: none when it may open a connection, else the refusal.
fn connect(bench: &mut Bench, method: &str, target: &str) -> Option<Reply> {
    let request = bench.request(method, target, "");
    match bench.handle(&request) {
        RequestOutcome::Stream(_) | RequestOutcome::Proxy(_) | RequestOutcome::Node(_) => None,
        _ => Some(Reply(bench.answer(&request))),
    }
}

/// The connections that may be opened to the pod of [`with_pod`].
fn connections() -> [(&'static str, String); 5] {
    [
        ("POST", format!("{PODS}/web/exec?command=sh&command=-c&stdin=true&tty=true&container=c")),
        ("GET", format!("{PODS}/web/attach?stdout=true&stderr=true")),
        ("POST", format!("{PODS}/web/portforward?ports=80,443")),
        ("PUT", format!("{PODS}/web:8080/proxy/a/b?c=d")),
        ("GET", "/api/v1/nodes/n1/proxy/metrics".to_owned()),
    ]
}

#[test]
fn a_policy_sees_what_is_asked_of_a_connection() {
    let mut bench = with_pod();
    bench.create("/api/v1/nodes", json!({"metadata": {"name": "n1"}}));
    for (method, target) in connections() {
        assert!(connect(&mut bench, method, &target).is_none(), "{target}");
    }
    bench.validate(
        "none",
        json!({
            "matchConstraints": {"resourceRules": rules("CONNECT", &["*/*"])},
            "validations": [{
                "expression": "false",
                "messageExpression": "request.operation + ' ' + request.kind.kind + ' ' + \
                    request.subResource + ' ' + request.name + ' ' + string(request.options == null) + \
                    ' ' + string(oldObject == null) + ' ' + (has(object.command) ? \
                    object.command.join(' ') + ' ' + string(object.stdin) + string(object.tty) + \
                    object.container : has(object.ports) ? string(object.ports.size()) : \
                    has(object.path) ? object.path : string(object.stdout) + \
                    string(has(object.stdin)))",
            }],
        }),
    );
    let refused = connections()
        .map(|(method, target)| connect(&mut bench, method, &target).expect("it is refused"));
    expect![[r#"
        422 Invalid: pods "web" is forbidden: ValidatingAdmissionPolicy 'none' with binding 'none' denied request: CONNECT PodExecOptions exec web true true sh -c truetruec
        422 Invalid: pods "web" is forbidden: ValidatingAdmissionPolicy 'none' with binding 'none' denied request: CONNECT PodAttachOptions attach web true true truefalse
        422 Invalid: pods "web" is forbidden: ValidatingAdmissionPolicy 'none' with binding 'none' denied request: CONNECT PodPortForwardOptions portforward web true true 2
        422 Invalid: pods "web:8080" is forbidden: ValidatingAdmissionPolicy 'none' with binding 'none' denied request: CONNECT PodProxyOptions proxy web:8080 true true /a/b
        422 Invalid: nodes "n1" is forbidden: ValidatingAdmissionPolicy 'none' with binding 'none' denied request: CONNECT NodeProxyOptions proxy n1 true true /metrics"#]].assert_eq(&texts(refused.into()));
}

#[test]
fn a_policy_may_forbid_a_shell_in_some_namespaces_to_some_and_nothing_else() {
    let mut bench = with_pod();
    bench.validate(
        "no-shell",
        json!({
            "matchConstraints": {
                "resourceRules": rules("CONNECT", &["pods/exec"]),
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
            },
            "validations": [{
                "expression": "object.command[0] != 'sh' || 'admins' in request.userInfo.groups",
                "message": "no shells here", "reason": "Forbidden",
            }],
        }),
    );
    let exec = |command: &str| format!("{PODS}/web/exec?stdout=true&command={command}");
    let refused = connect(&mut bench, "POST", &exec("sh")).expect("it is refused");
    expect![[r#"403 Forbidden: pods "web" is forbidden: ValidatingAdmissionPolicy 'no-shell' with binding 'no-shell' denied request: no shells here"#]].assert_eq(&texts(vec![refused]));
    assert!(connect(&mut bench, "POST", &exec("date")).is_none());
    assert!(connect(&mut bench, "POST", &format!("{PODS}/web/portforward?ports=80")).is_none());
    let admin = rekindle_kinds::identity::UserInfo::new(
        "ann",
        ["system:masters".to_owned(), "admins".to_owned()],
    );
    bench.as_user(admin, |bench| assert!(connect(bench, "POST", &exec("sh")).is_none()));
}

/// A client without the right to connect gets that answer: no policy is shown, no webhook asked.
#[test]
fn rights_come_first() {
    let mut bench = with_pod();
    let asked = bench.say(|_, _| allowed());
    bench.validating(json!([webhook("see", json!({"rules": rules("CONNECT", &["pods/exec"])}))]));
    let stranger = rekindle_kinds::identity::UserInfo::new("eve", []);
    bench.as_user(stranger, |bench| {
        let target = format!("{PODS}/web/exec?stdout=true&command=sh");
        assert_eq!(connect(bench, "POST", &target).unwrap().code(), 403);
    });
    assert!(asked.lock().unwrap().is_empty());
}

#[test]
fn a_webhook_sees_them_and_cannot_change_them() {
    let mut bench = with_pod();
    let asked = bench.say(|name, _| match name {
        "see" => allowed(),
        "change" => patched(json!([{"op": "add", "path": "/tty", "value": true}])),
        _ => json!({"allowed": false, "status": {"message": "not now", "code": 403}}),
    });
    bench.validating(json!([webhook("see", json!({"rules": rules("CONNECT", &["pods/exec"])}))]));
    let target = format!("{PODS}/web/exec?stdout=true&command=date");
    assert!(connect(&mut bench, "POST", &target).is_none());
    {
        let asked = asked.lock().unwrap();
        let mut review = asked[0].1.clone();
        review["uid"] = json!("u");
        expect![[r#"
            {
              "dryRun": false,
              "kind": {
                "group": "",
                "kind": "PodExecOptions",
                "version": "v1"
              },
              "name": "web",
              "namespace": "default",
              "object": {
                "apiVersion": "v1",
                "command": [
                  "date"
                ],
                "kind": "PodExecOptions",
                "stdout": true
              },
              "oldObject": null,
              "operation": "CONNECT",
              "options": null,
              "requestKind": {
                "group": "",
                "kind": "PodExecOptions",
                "version": "v1"
              },
              "requestResource": {
                "group": "",
                "resource": "pods",
                "version": "v1"
              },
              "requestSubResource": "exec",
              "resource": {
                "group": "",
                "resource": "pods",
                "version": "v1"
              },
              "subResource": "exec",
              "uid": "u",
              "userInfo": {
                "groups": [
                  "system:masters",
                  "system:authenticated"
                ],
                "username": "tester"
              }
            }"#]]
        .assert_eq(&serde_json::to_string_pretty(&review).unwrap());
    }
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/v";
    bench.call("DELETE", path, "").ok();
    bench.validating(json!([webhook("no", json!({"rules": rules("CONNECT", &["pods/*"])}))]));
    let refused = connect(&mut bench, "POST", &target).unwrap();
    bench.call("DELETE", path, "").ok();
    bench.mutating(json!([webhook("change", json!({"rules": rules("CONNECT", &["pods/exec"])}))]));
    let changed = connect(&mut bench, "POST", &target).unwrap();
    expect![[r#"
        403 : admission webhook "no.example.org" denied the request: not now
        500 InternalError: Internal error occurred: admission webhook "change.example.org" attempted to modify the object, which is not supported for this operation"#]].assert_eq(&texts(vec![refused, changed]));
}

#[test]
fn evictions_bindings_and_tokens_are_seen_with_their_bodies() {
    let mut bench = with_pod();
    bench.create(PODS, pod("free"));
    let seen = ["pods/eviction", "pods/binding", "serviceaccounts/token"];
    bench.validate(
        "none",
        json!({
            "matchConstraints": {"resourceRules": rules("CREATE", &seen)},
            "validations": [{
                "expression": "false",
                "messageExpression": "request.kind.group + '/' + request.kind.kind + ' ' + \
                    request.resource.resource + ' ' + request.name + ' ' + (has(object.target) ? \
                    object.target.name : has(object.spec) ? object.spec.audiences[0] : \
                    string(has(object.deleteOptions))) + ' ' + request.options.kind",
            }],
        }),
    );
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": "web"}, "deleteOptions": {}});
    let binding = json!({"apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": "free"}, "target": {"name": "n1"}});
    let token = json!({"spec": {"audiences": ["vault"]}});
    let requests = [
        (format!("{PODS}/web/eviction"), &eviction),
        (format!("{PODS}/free/binding"), &binding),
        ("/api/v1/namespaces/default/bindings".to_owned(), &binding),
        ("/api/v1/namespaces/default/serviceaccounts/default/token".to_owned(), &token),
    ];
    let replies: Vec<Reply> = requests
        .iter()
        .map(|(target, body)| bench.call("POST", target, &body.to_string()))
        .collect();
    expect![[r#"
        422 Invalid: pods "web" is forbidden: ValidatingAdmissionPolicy 'none' with binding 'none' denied request: policy/Eviction pods web true CreateOptions
        422 Invalid: pods "free" is forbidden: ValidatingAdmissionPolicy 'none' with binding 'none' denied request: /Binding pods free n1 CreateOptions
        422 Invalid: pods "free" is forbidden: ValidatingAdmissionPolicy 'none' with binding 'none' denied request: /Binding pods free n1 CreateOptions
        422 Invalid: serviceaccounts "default" is forbidden: ValidatingAdmissionPolicy 'none' with binding 'none' denied request: authentication.k8s.io/TokenRequest serviceaccounts default vault CreateOptions"#]].assert_eq(&texts(replies));
    assert!(bench.get(&format!("{PODS}/web"))["metadata"]["deletionTimestamp"].is_null());
    assert!(bench.get(&format!("{PODS}/free"))["spec"]["nodeName"].is_null());
    let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/none";
    bench.call("DELETE", path, "").ok();
    for (target, body) in requests.iter().take(2) {
        assert_eq!(bench.call("POST", target, &body.to_string()).code(), 201, "{target}");
    }
}

/// A Warning says which requests are not seen.
#[test]
fn what_is_not_seen_is_warned_of() {
    let mut bench = Bench::new();
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let policy = |resources: &[&str]| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"generateName": "p-"},
            "spec": {"matchConstraints": {"resourceRules": rules("CREATE", resources)},
                     "validations": [{"expression": "true"}]},
        })
    };
    let warned = |reply: &Reply| reply.0.warnings.clone();
    let reply = bench.call("POST", policies, &policy(&["bindings"]).to_string());
    assert_eq!(warned(&reply), ["no policy sees requests to bindings here"]);
    let reply = bench.call("POST", policies, &policy(&["pods/eviction"]).to_string());
    assert_eq!(warned(&reply), Vec::<String>::new());
}
