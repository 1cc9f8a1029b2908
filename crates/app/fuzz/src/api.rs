//! An API over a disk in memory, the same for each input.

use std::cell::RefCell;

use http::Method;
use rekindle_api::admission_session::AdmissionSession;
use rekindle_api::auth::AuthorizationMode;
use rekindle_api::{Api, ApiAnswer, ApiParts, ApiRequest, Entropy, RequestOutcome};
use rekindle_store::memory::MemoryDisk;
use rekindle_store::{Committer, Store, StoreLimits};
use serde_json::{Value, json};

use crate::requests::{NOW, request};

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// A request that asks webhooks more often has a bug.
const RUNS_MAX: usize = 20;
/// Events of one watch that are looked at.
const EVENTS_MAX: usize = 100;

/// Kinds with bodies that differ much.
const PROTOBUF_KINDS: [(&str, &str, &str); 9] = [
    ("/api/v1/namespaces/default/pods", "v1", "Pod"),
    ("/api/v1/namespaces/default/configmaps", "v1", "ConfigMap"),
    ("/api/v1/namespaces/default/services", "v1", "Service"),
    ("/apis/apps/v1/namespaces/default/deployments", "apps/v1", "Deployment"),
    (
        "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers",
        "autoscaling/v1",
        "HorizontalPodAutoscaler",
    ),
    ("/apis/events.k8s.io/v1/namespaces/default/events", "events.k8s.io/v1", "Event"),
    (
        "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
        "networking.k8s.io/v1",
        "NetworkPolicy",
    ),
    ("/api/v1/namespaces/default/configmaps", "v1", "ConfigMapList"),
    (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
    ),
];

/// Counts up: names and UIDs are the same in every run.
struct Counting(u8);

impl Entropy for Counting {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_add(1);
            *byte = self.0;
        }
    }
}

/// The API. Its user may do everything.
pub(crate) struct FuzzedApi {
    api: Api,
    committer: RefCell<Committer<MemoryDisk>>,
}

impl FuzzedApi {
    pub(crate) fn new() -> Self {
        let (store, committer) =
            Store::open(MemoryDisk::new(), StoreLimits::default()).expect("an empty disk");
        let api = Api::new(ApiParts {
            registry: rekindle_kinds::all(),
            store,
            entropy: Box::new(Counting(0)),
            authorizer: AuthorizationMode::AlwaysAllow,
            ca_bundle: String::new(),
        });
        let fuzzed = Self { api, committer: RefCell::new(committer) };
        for namespace in ["default", "kube-system"] {
            fuzzed.create("/api/v1/namespaces", &json!({"metadata": {"name": namespace}}));
        }
        fuzzed
    }

    fn create(&self, path: &str, object: &Value) {
        self.send(request(Method::POST, (path, ""), JSON, object.to_string().into()));
    }

    /// Sends a request, and looks at the answer.
    pub(crate) fn send(&self, request: ApiRequest) {
        let mut session = AdmissionSession::default();
        for _ in 0..RUNS_MAX {
            match self.api.handle_in(&request, &session) {
                RequestOutcome::Webhooks(questions) => {
                    session.answer(questions.iter().map(|_| Err("refused".to_owned())).collect());
                }
                RequestOutcome::Answer(answer) => return check(&answer),
                RequestOutcome::List(list) => return check(&list.into_answer()),
                RequestOutcome::Write(mut write) => {
                    let committed = self.committer.borrow_mut().commit_pending();
                    assert!(committed.is_ok(), "a disk in memory takes all");
                    return check(&write.try_answer().expect("the commit answers the write"));
                }
                RequestOutcome::Watch(mut watch) => {
                    for _ in 0..EVENTS_MAX {
                        if watch.stream.try_next(NOW).is_none() {
                            break;
                        }
                    }
                    return;
                }
                // what the front does with these has no part in the core
                RequestOutcome::Log(_)
                | RequestOutcome::Stream(_)
                | RequestOutcome::Proxy(_)
                | RequestOutcome::Aggregated(_)
                | RequestOutcome::Node(_)
                | RequestOutcome::ResourceMetrics(_)
                | RequestOutcome::Metrics
                | RequestOutcome::Backup => return,
            }
        }
        panic!("{} {} asks webhooks without end", request.method, request.path);
    }

    /// A message of one of the kinds, in the envelope of its kind.
    pub(crate) fn send_protobuf(&self, kind: u8, message: &[u8]) {
        let (path, api_version, kind) = PROTOBUF_KINDS[usize::from(kind) % PROTOBUF_KINDS.len()];
        let field = |number: u8, bytes: &[u8]| {
            let mut length = bytes.len();
            let mut field = vec![number << 3 | 2];
            while length >= 0x80 {
                field.push((length & 0x7f) as u8 | 0x80);
                length >>= 7;
            }
            field.push(length as u8);
            [&field, bytes].concat()
        };
        let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        let envelope = [b"k8s\0".to_vec(), field(1, &type_meta), field(2, message)].concat();
        let mut request = request(Method::POST, (path, ""), PROTOBUF, envelope.into());
        request.accept = PROTOBUF.to_owned();
        self.send(request);
    }

    /// Has an expression judge a config map and a custom resource.
    pub(crate) fn use_expression(&self, expression: &str) {
        let registration = "/apis/admissionregistration.k8s.io/v1";
        let rule = json!({
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"],
        });
        let variables = json!([{"name": "v", "expression": "object.data.size()"}]);
        self.create(
            &format!("{registration}/validatingadmissionpolicies"),
            &json!({"metadata": {"name": "p"}, "spec": {
                "matchConstraints": {"resourceRules": [rule]}, "variables": variables,
                "validations": [{"expression": expression, "messageExpression": expression}],
            }}),
        );
        self.create(
            &format!("{registration}/validatingadmissionpolicybindings"),
            &json!({"metadata": {"name": "b"}, "spec": {
                "policyName": "p", "validationActions": ["Deny"],
            }}),
        );
        let config_map = json!({
            "metadata": {"name": "a", "labels": {"l": "m"}}, "data": {"k": "v", "n": "12"},
        });
        self.create("/api/v1/namespaces/default/configmaps", &config_map);
        let spec = json!({
            "type": "object", "x-kubernetes-validations": [{"rule": expression}],
            "properties": {
                "name": {"type": "string", "maxLength": 20}, "size": {"type": "integer"},
                "list": {"type": "array", "maxItems": 5, "items": {"type": "string"}},
            },
        });
        self.create(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            &json!({"metadata": {"name": "kites.example.org"}, "spec": {
                "group": "example.org", "scope": "Namespaced",
                "names": {"plural": "kites", "kind": "Kite"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                    "openAPIV3Schema": {"type": "object", "properties": {"spec": spec}},
                }}],
            }}),
        );
        self.create(
            "/apis/example.org/v1/namespaces/default/kites",
            &json!({
                "apiVersion": "example.org/v1", "kind": "Kite", "metadata": {"name": "a"},
                "spec": {"name": "n", "size": 3, "list": ["a", "b"]},
            }),
        );
    }

    /// Everything that is stored can be read, and is what its key says.
    pub(crate) fn check_store(&self) {
        let faults = self.api.stored_faults();
        assert!(faults.is_empty(), "{faults:?}");
    }
}

/// An answer can be read, and says of nothing that it went wrong inside.
fn check(answer: &ApiAnswer) {
    let ApiAnswer { code, content_type, body, .. } = answer;
    let text = String::from_utf8_lossy(body);
    if content_type.starts_with(JSON) && !body.is_empty() {
        assert!(serde_json::from_slice::<Value>(body).is_ok(), "{code}: {text}");
    } else if content_type.starts_with(PROTOBUF) {
        assert!(body.starts_with(b"k8s\0"), "{code}");
    }
    // webhooks are not there, and upstream has answers of 500 without a reason
    let is_own_fault =
        code.as_u16() == 500 && text.contains("InternalError") && !text.contains("webhook");
    assert!(!is_own_fault, "{text}");
}
