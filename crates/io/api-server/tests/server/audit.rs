//! The audit log, as a front writes it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use rekindle_api::auth::token::TokenKeys;
use rekindle_api::{Api, ApiParts, Entropy};
use rekindle_api_server::pki::TokenKey;
use rekindle_api_server::{
    AuditCarriers, AuditLog, AuditMode, AuditSink, AuditTargets, Front, FrontBody,
    InProcessService, OsEntropy, RotationLimits, SystemClock,
};
use rekindle_audit::AuditPolicy;
use rekindle_kinds::identity::{ClientIdentity, UserInfo};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::memory_front;
use crate::objects::{CONFIG_MAPS, PODS, config_map, pod};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1";

/// Random, or a bug that panics.
struct BreakableEntropy(OsEntropy, Arc<AtomicBool>);

impl Entropy for BreakableEntropy {
    fn fill(&mut self, bytes: &mut [u8]) {
        assert!(!self.1.load(Ordering::Relaxed), "this bug is wanted");
        self.0.fill(bytes);
    }
}

/// A front with an audit log.
struct AuditedFront {
    front: Front,
    writer: AuditCarriers,
    path: PathBuf,
    is_broken: Arc<AtomicBool>,
    _dir: tempfile::TempDir,
}

fn audited(policy: Value) -> AuditedFront {
    let clock = SystemClock::start();
    let is_broken = Arc::new(AtomicBool::new(false));
    let entropy = Box::new(BreakableEntropy(OsEntropy::default(), Arc::clone(&is_broken)));
    let parts = ApiParts { entropy, ..memory_front::api_parts() };
    let api = Api::new(parts);
    api.set_token_keys(TokenKeys::new(TokenKey::ephemeral().unwrap()));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    let limits = RotationLimits { file_bytes_max: 1 << 20, files_max: None, days_max: None };
    let sink = AuditSink::File { path: path.clone(), limits };
    let mut policy = policy;
    policy["apiVersion"] = "audit.k8s.io/v1".into();
    policy["kind"] = "Policy".into();
    let policy = AuditPolicy::from_value(policy).unwrap();
    let (log, writer) = AuditLog::start(
        policy,
        AuditTargets { log: Some((sink, AuditMode::Blocking)), webhook: None },
        clock.shared(),
    )
    .unwrap();
    let front = memory_front::front(api, &clock);
    AuditedFront { front: front.with_audit_log(log), writer, path, is_broken, _dir: dir }
}

/// One rule for everything.
fn level(level: &str) -> Value {
    json!({"rules": [{"level": level, "omitStages": ["RequestReceived"]}]})
}

impl AuditedFront {
    fn admin(&self) -> InProcessService {
        self.front.in_process_service(UserInfo::internal("admin"))
    }

    async fn send(
        &self,
        service: &InProcessService,
        (method, target): (&str, &str),
        headers: &[(&str, &str)],
        body: impl ToString,
    ) -> Response<FrontBody> {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
        service.clone().oneshot(request).await.unwrap()
    }

    async fn admin_sends(&self, request: (&str, &str), body: Value) -> u16 {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let response = self.send(&self.admin(), request, &[], body).await;
        response.status().as_u16()
    }

    /// All events, once nothing more comes.
    async fn events(self) -> Vec<Value> {
        let Self { front, writer, path, .. } = self;
        drop(front);
        writer.close().await;
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn stages(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["stage"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn each_stage_of_a_request_is_an_event_with_the_clients_id() {
    let audited = audited(json!({"rules": [{"level": "Metadata"}]}));
    let secret = json!({"metadata": {"name": "key"}, "stringData": {"a": "hidden-from-all"}});
    let headers = [
        ("audit-id", "mine-1"),
        ("user-agent", "test/1"),
        ("x-forwarded-for", "1.2.3.4"),
        ("content-type", "application/json"),
    ];
    let target = ("POST", "/api/v1/namespaces/default/secrets?fieldManager=x");
    let made = audited.send(&audited.admin(), target, &headers, &secret).await;
    assert_eq!(
        (made.status().as_u16(), made.headers()["audit-id"].as_bytes()),
        (201, &b"mine-1"[..])
    );
    let events = audited.events().await;
    assert!(!json!(events).to_string().contains("hidden-from-all"));
    assert_eq!(stages(&events), ["RequestReceived", "ResponseComplete"]);
    for event in &events {
        assert_eq!(event["auditID"], "mine-1");
        assert_eq!(event["level"], "Metadata");
        assert_eq!(event["verb"], "create");
        assert_eq!(event["requestURI"], target.1);
        assert_eq!(event["userAgent"], "test/1");
        assert_eq!(event["sourceIPs"], json!(["1.2.3.4"]));
        let user =
            json!({"username": "admin", "groups": ["system:masters", "system:authenticated"]});
        assert_eq!(event["user"], user);
    }
    let (received, complete) = (&events[0], &events[1]);
    assert_eq!(received["stageTimestamp"], received["requestReceivedTimestamp"]);
    assert_eq!(
        received["objectRef"],
        json!({"resource": "secrets", "namespace": "default", "apiVersion": "v1"})
    );
    assert_eq!(received.get("responseStatus"), None);
    assert_eq!(received.get("annotations"), None);
    assert_eq!(complete["objectRef"]["name"], "key", "the body names it");
    assert_eq!(complete["responseStatus"], json!({"metadata": {}, "code": 201}));
    assert_eq!(
        complete["annotations"],
        json!({"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""})
    );
    for body in ["requestObject", "responseObject"] {
        assert_eq!(complete.get(body), None);
    }
}

#[tokio::test]
async fn the_level_decides_which_bodies_are_recorded() {
    let audited =
        audited(json!({"omitManagedFields": true, "omitStages": ["RequestReceived"], "rules": [
            {"level": "None", "nonResourceURLs": ["/healthz*"]},
            {"level": "Request", "verbs": ["create", "patch"]},
            {"level": "RequestResponse"},
        ]}));
    assert_eq!(audited.admin_sends(("POST", CONFIG_MAPS), config_map("a")).await, 201);
    let one = format!("{CONFIG_MAPS}/a");
    let patch = [("content-type", "application/merge-patch+json")];
    let patched =
        audited.send(&audited.admin(), ("PATCH", &one), &patch, r#"{"data":{"b":"2"}}"#).await;
    assert_eq!(patched.status(), 200);
    assert_eq!(audited.admin_sends(("GET", &one), Value::Null).await, 200);
    assert_eq!(audited.admin_sends(("GET", CONFIG_MAPS), Value::Null).await, 200);
    assert_eq!(audited.admin_sends(("GET", "/version"), Value::Null).await, 200);
    let options =
        json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
    assert_eq!(audited.admin_sends(("DELETE", &one), options.clone()).await, 200);
    assert_eq!(audited.admin_sends(("GET", &one), Value::Null).await, 404);
    let quiet = audited.send(&audited.admin(), ("GET", "/healthz"), &[], "").await;
    assert!(quiet.headers().contains_key("audit-id"), "each answer has an ID");
    let events = audited.events().await;
    let [created, patched, got, listed, version, deleted, missing] = events.as_slice() else {
        panic!("{events:#?}")
    };
    assert_eq!(created["requestObject"], config_map("a"));
    assert_eq!(created.get("responseObject"), None);
    assert_eq!(patched["requestObject"], json!({"data": {"b": "2"}}));
    assert_eq!(got["responseObject"]["data"], json!({"a": "1", "b": "2"}));
    assert_eq!(got["responseObject"]["metadata"].get("managedFields"), None);
    assert_eq!(got.get("requestObject"), None);
    assert_eq!(listed["verb"], "list");
    let items = listed["responseObject"]["items"].as_array().unwrap();
    assert!(!items.is_empty());
    assert!(items.iter().all(|item| item["metadata"].get("managedFields").is_none()));
    assert_eq!(version.get("responseObject"), None, "it is no resource");
    assert_eq!(version.get("objectRef"), None);
    assert_eq!(deleted["requestObject"], options);
    assert_eq!(deleted["responseStatus"]["status"], "Success");
    assert_eq!(deleted["responseStatus"]["details"]["name"], "a");
    assert_eq!(deleted["responseStatus"]["code"], 200);
    assert_eq!(missing["responseStatus"]["reason"], "NotFound");
    assert_eq!(missing["responseStatus"]["code"], 404);
    assert_eq!(missing["responseObject"]["kind"], "Status");
}

#[tokio::test]
async fn a_refused_request_is_recorded_without_its_body() {
    let audited = audited(level("RequestResponse"));
    let bob = audited.front.in_process_service(UserInfo::new("bob", []));
    let refused = audited.send(&bob, ("POST", SECRETS), &[], config_map("a")).await;
    assert_eq!(refused.status(), 403);
    let refused = audited.send(&bob, ("GET", SECRETS), &[], "").await;
    assert_eq!(refused.status(), 403);
    let events = audited.events().await;
    assert_eq!(stages(&events), ["ResponseComplete", "ResponseComplete"]);
    for event in events {
        assert_eq!(event["user"]["username"], "bob");
        assert_eq!(event["annotations"]["authorization.k8s.io/decision"], "forbid");
        assert_eq!(event["responseStatus"]["status"], "Failure");
        assert_eq!(event["responseStatus"]["reason"], "Forbidden");
        assert_eq!(event["responseStatus"]["code"], 403);
        assert_eq!(event.get("requestObject"), None);
    }
}

#[tokio::test]
async fn an_impersonated_user_is_recorded_beside_the_one_who_asks() {
    // the policy looks at the one who asks
    let audited = audited(json!({"rules": [{"level": "Metadata", "users": ["admin"]}]}));
    let headers = [("impersonate-user", "bob"), ("impersonate-group", "dev")];
    let refused = audited.send(&audited.admin(), ("GET", SECRETS), &headers, "").await;
    assert_eq!(refused.status(), 403);
    let events = audited.events().await;
    assert_eq!(events[0].get("impersonatedUser"), None, "it is not known yet");
    assert_eq!(events[1]["user"]["username"], "admin");
    let bob = json!({"username": "bob", "groups": ["dev", "system:authenticated"]});
    assert_eq!(events[1]["impersonatedUser"], bob);
    assert_eq!(events[1]["annotations"]["authorization.k8s.io/decision"], "forbid");
}

#[tokio::test]
async fn a_token_that_is_none_is_one_event_without_a_user() {
    let audited = audited(json!({"rules": [
        {"level": "None", "userGroups": ["system:unauthenticated"]},
        {"level": "Metadata"},
    ]}));
    let stranger = InProcessService::new(audited.front.clone(), ClientIdentity::Anonymous);
    let wrong = [("authorization", "Bearer x")];
    let refused = audited.send(&stranger, ("GET", SECRETS), &wrong, "").await;
    assert_eq!(refused.status(), 401);
    audited.send(&stranger, ("GET", "/healthz"), &[], "").await;
    drop(stranger);
    let events = audited.events().await;
    assert_eq!(stages(&events), ["ResponseStarted"], "{events:#?}");
    assert_eq!(events[0]["user"], json!({}));
    assert_eq!(events[0]["responseStatus"]["reason"], "Unauthorized");
}

#[tokio::test]
async fn a_watch_is_recorded_when_it_starts_and_when_it_ends() {
    let audited = audited(level("RequestResponse"));
    let target = format!("{CONFIG_MAPS}?watch=1");
    let watch = audited.send(&audited.admin(), ("GET", &target), &[], "").await;
    audited.admin_sends(("GET", "/version"), Value::Null).await;
    drop(watch);
    let events = audited.events().await;
    assert_eq!(stages(&events), ["ResponseStarted", "ResponseComplete", "ResponseComplete"]);
    let (started, ended) = (&events[0], &events[2]);
    assert_eq!((&started["verb"], &ended["verb"]), (&json!("watch"), &json!("watch")));
    assert_eq!(started["auditID"], ended["auditID"]);
    assert_eq!(ended["responseStatus"]["code"], 200);
    assert_eq!(ended.get("responseObject"), None);
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_request_in_the_log() {
    let audited = audited(json!({"rules": [{"level": "Metadata"}]}));
    let (sender, body) =
        futures::channel::mpsc::unbounded::<Result<http_body::Frame<Bytes>, std::io::Error>>();
    let request = Request::builder()
        .method("POST")
        .uri(CONFIG_MAPS)
        .body(http_body_util::StreamBody::new(body))
        .unwrap();
    let mut asked = Box::pin(audited.admin().oneshot(request));
    assert!(futures::FutureExt::now_or_never(&mut asked).is_none(), "it waits for the body");
    drop((asked, sender));
    let events = audited.events().await;
    assert_eq!(stages(&events), ["RequestReceived", "ResponseComplete"]);
    assert_eq!(events[1]["responseStatus"]["message"], "Connection closed early");
}

#[tokio::test]
async fn a_panic_is_a_stage_of_its_own() {
    let audited = audited(level("Metadata"));
    audited.is_broken.store(true, Ordering::Relaxed);
    assert_eq!(audited.admin_sends(("POST", CONFIG_MAPS), config_map("a")).await, 500);
    let events = audited.events().await;
    assert_eq!(stages(&events), ["Panic"]);
    assert_eq!(events[0]["responseStatus"]["reason"], "InternalError");
}

#[tokio::test]
async fn admission_adds_its_annotations() {
    let audited = audited(json!({"rules": [
        {"level": "Metadata", "resources": [{"resources": ["configmaps", "pods"]}], "omitStages": ["RequestReceived"]},
    ]}));
    let policy = json!({"metadata": {"name": "names.example.com"}, "spec": {
        "matchConstraints": {"resourceRules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"],
        }]},
        "validations": [
            {"expression": "true"},
            {"expression": "object.metadata.name != 'a'", "message": "not a"},
        ],
        "auditAnnotations": [
            {"key": "name", "valueExpression": "'is ' + object.metadata.name"},
            {"key": "none", "valueExpression": "null"},
        ],
    }});
    let policies = format!("{POLICIES}/validatingadmissionpolicies");
    assert_eq!(audited.admin_sends(("POST", &policies), policy).await, 201);
    let bindings = format!("{POLICIES}/validatingadmissionpolicybindings");
    for name in ["one", "two"] {
        let binding = json!({"metadata": {"name": name}, "spec": {
            "policyName": "names.example.com", "validationActions": ["Audit"],
        }});
        assert_eq!(audited.admin_sends(("POST", &bindings), binding).await, 201);
    }
    assert_eq!(audited.admin_sends(("POST", CONFIG_MAPS), config_map("a")).await, 201);
    let namespace = "/api/v1/namespaces/default";
    let label = json!({"metadata": {"labels": {"pod-security.kubernetes.io/audit": "restricted"}}});
    let patch = [("content-type", "application/merge-patch+json")];
    audited.send(&audited.admin(), ("PATCH", namespace), &patch, label).await;
    assert_eq!(audited.admin_sends(("POST", PODS), pod("p")).await, 201);
    let events = audited.events().await;
    assert_eq!(events.len(), 2, "{events:#?}");
    let of_policy = &events[0]["annotations"];
    assert_eq!(of_policy["names.example.com/name"], "is a", "once for both bindings");
    assert_eq!(of_policy.get("names.example.com/none"), None);
    let failure = of_policy["validation.policy.admission.k8s.io/validation_failure"].as_str();
    assert_eq!(
        failure.unwrap(),
        r#"[{"message":"not a","policy":"names.example.com","binding":"one","expressionIndex":1,"validationActions":["Audit"]}]"#
    );
    let of_pod = &events[1]["annotations"];
    assert_eq!(of_pod["pod-security.kubernetes.io/enforce-policy"], "privileged:latest");
    let violations = of_pod["pod-security.kubernetes.io/audit-violations"].as_str().unwrap();
    assert!(
        violations.starts_with("would violate PodSecurity \"restricted:latest\": "),
        "{violations}"
    );
}
