//! An API over a disk in memory whose commits happen when the test says so: no threads, no clock,
//! the same every time.
#![allow(unreachable_pub, reason = "a module of a test")]

mod any_signature;
pub mod digest_key;

use any_signature::AnySignature;
use bytes::Bytes;
use rekindle_api::admission_session::{AdmissionSession, WebhookQuestion};
use rekindle_api::auth::AuthorizationMode;
use rekindle_api::auth::token::TokenKeys;
use rekindle_api::{Api, ApiAnswer, ApiParts, ApiRequest, Entropy, EventStream, RequestOutcome};
use rekindle_kinds::identity::{ClientIdentity, UserInfo};
use rekindle_store::memory::MemoryDisk;
use rekindle_store::{Committer, Revision, Store, StoreLimits};
use rekindle_types::{Tick, TickDuration};
use serde_json::Value;

/// Counts up: names and UIDs are the same in every run.
pub struct Counting(u64);

impl Counting {
    pub fn new() -> Self {
        Self(1)
    }
}

impl Entropy for Counting {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            *byte = self.0.to_le_bytes()[7];
        }
    }
}

/// The API under test. Its key for tokens is a [`DigestKey`].
pub struct Bench {
    pub api: Api,
    pub committer: Committer<MemoryDisk>,
    pub disk: MemoryDisk,
    pub now: Tick,
    pub identity: ClientIdentity,
    pub webhooks: Webhooks,
}

/// What webhooks say.
pub type Webhooks = Box<dyn FnMut(&WebhookQuestion) -> Result<Bytes, String> + Send + Sync>;

/// 2026-11-18T11:06:40Z.
pub const START: Tick = Tick::from_secs(1_795_000_000);

impl Bench {
    /// With the initial namespaces made.
    pub fn new() -> Self {
        Self::with_limits(StoreLimits::default())
    }

    pub fn with_limits(limits: StoreLimits) -> Self {
        let disk = MemoryDisk::new();
        let (store, mut committer) = Store::open(disk.clone(), limits).unwrap();
        let parts = ApiParts {
            registry: rekindle_kinds::all(),
            store,
            entropy: Box::new(Counting::new()),
            authorizer: AuthorizationMode::Rbac,
            ca_bundle: "CA\n".to_owned(),
        };
        let api = Api::new(parts);
        api.set_token_keys(TokenKeys::new(digest_key::DigestKey::default()));
        api.verify_signatures_with(AnySignature);
        api.configure_front_proxy("FRONT PROXY CA\n");
        let pending = api.bootstrap(START).unwrap();
        committer.commit_pending().unwrap();
        for write in pending {
            write.try_get().unwrap().unwrap();
        }
        let identity = ClientIdentity::User(UserInfo::internal("tester"));
        let webhooks: Webhooks = Box::new(|_| Err("connection refused".to_owned()));
        Self { api, committer, disk, now: START, identity, webhooks }
    }

    /// The same API for somebody else.
    pub fn as_user<T>(&mut self, user: UserInfo, work: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.identity, ClientIdentity::User(user));
        let result = work(self);
        self.identity = before;
        result
    }

    pub fn pass(&mut self, seconds: u64) {
        self.now = self.now + TickDuration::from_secs(seconds);
    }

    pub fn request(&self, method: &str, target: &str, body: &str) -> ApiRequest {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        ApiRequest {
            method: method.parse().unwrap(),
            path: path.to_owned(),
            query: query.to_owned(),
            accept: String::new(),
            user_agent: String::new(),
            content_type: if method == "PATCH" {
                "application/merge-patch+json"
            } else {
                "application/json"
            }
            .to_owned(),
            body: Bytes::copy_from_slice(body.as_bytes()),
            identity: self.identity.clone(),
            now: self.now,
            notes: None,
        }
    }

    /// What becomes of a request, after webhooks were asked, as the front does it.
    pub fn handle(&mut self, request: &ApiRequest) -> RequestOutcome {
        /// More than any test needs: a request never ends if its questions change each time.
        const RUNS_MAX: usize = 20;
        let mut session = AdmissionSession::default();
        for _ in 0..RUNS_MAX {
            match self.api.handle_in(request, &session) {
                RequestOutcome::Webhooks(questions) => {
                    session.answer(questions.iter().map(&mut self.webhooks).collect());
                }
                outcome => return outcome,
            }
        }
        panic!("{} {} asks without end", request.method, request.path)
    }

    /// The answer, after a commit if it is a write.
    pub fn answer(&mut self, request: &ApiRequest) -> ApiAnswer {
        match self.handle(request) {
            RequestOutcome::Answer(answer) => answer,
            RequestOutcome::List(list) => list.into_answer(),
            RequestOutcome::Write(mut write) => {
                assert!(write.try_answer().is_none(), "no write is answered before it is durable");
                let before = self.api.store().revision();
                // A failed commit is the write's business.
                let _ = self.committer.commit_pending();
                self.check_what_is_remembered(before);
                write.try_answer().expect("the commit answers the write")
            }
            RequestOutcome::Watch(_)
            | RequestOutcome::Log(_)
            | RequestOutcome::Stream(_)
            | RequestOutcome::Proxy(_)
            | RequestOutcome::Aggregated(_)
            | RequestOutcome::Node(_)
            | RequestOutcome::ResourceMetrics(_)
            | RequestOutcome::Metrics
            | RequestOutcome::Webhooks(_)
            | RequestOutcome::Backup => {
                panic!("not an answer: {} {}", request.method, request.path)
            }
        }
    }

    /// What the API remembers of a write must be what a reader of its text finds (docs/adr/0032).
    fn check_what_is_remembered(&self, since: Revision) {
        let (store, registry) = (self.api.store(), self.api.registry());
        let mut events = store.watch("/", since).unwrap();
        while let Some(event) = events.try_next() {
            let event = event.unwrap();
            let Some(stored) = store.get(event.key().as_str()) else { continue };
            let resource = stored.key.as_str().split('/').nth(1).unwrap();
            // objects of kinds that definitions describe are not remembered
            let entry = registry.kinds().find(|entry| entry.resource() == resource);
            let Some(entry) = entry else { continue };
            let remembered = self.api.read(entry, &stored).unwrap();
            let read = entry.codec.decode_stored(&stored.value).unwrap();
            let text = String::from_utf8_lossy(&stored.value);
            assert!(remembered.same_as(read.as_ref()), "{}: {text}", stored.key.as_str());
        }
    }

    pub fn call(&mut self, method: &str, target: &str, body: &str) -> Reply {
        let request = self.request(method, target, body);
        Reply(self.answer(&request))
    }

    /// Code and message of the answer to a new config map.
    pub fn make(&mut self, name: &str) -> (u16, String) {
        let reply = self.call("POST", CONFIG_MAPS, &config_map(name).to_string());
        (reply.code(), reply.text())
    }

    pub fn get(&mut self, target: &str) -> Value {
        self.call("GET", target, "").ok()
    }

    pub fn create(&mut self, target: &str, body: Value) -> Value {
        self.call("POST", target, &body.to_string()).ok()
    }

    pub fn patch(&mut self, kind: &str, target: &str, body: &str) -> Reply {
        let mut request = self.request("PATCH", target, body);
        request.content_type = format!("application/{kind}");
        Reply(self.answer(&request))
    }

    pub fn watch(&self, target: &str) -> EventStream {
        match self.api.handle(&self.request("GET", target, "")) {
            RequestOutcome::Watch(watch) => watch.stream,
            RequestOutcome::Answer(answer) => panic!("{}", Reply(answer).text()),
            RequestOutcome::List(_)
            | RequestOutcome::Write(_)
            | RequestOutcome::Log(_)
            | RequestOutcome::Stream(_)
            | RequestOutcome::Proxy(_)
            | RequestOutcome::Aggregated(_)
            | RequestOutcome::Node(_)
            | RequestOutcome::ResourceMetrics(_)
            | RequestOutcome::Metrics
            | RequestOutcome::Webhooks(_)
            | RequestOutcome::Backup => {
                panic!("not a watch: {target}")
            }
        }
    }
}

/// An answer, easy to look at.
pub struct Reply(pub ApiAnswer);

/// Those of several, one below the other.
pub fn texts(replies: Vec<Reply>) -> String {
    replies.iter().map(Reply::text).collect::<Vec<_>>().join("\n")
}

impl Reply {
    pub fn code(&self) -> u16 {
        self.0.code.as_u16()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.0.body).unwrap_or(Value::Null)
    }

    pub fn ok(&self) -> Value {
        assert!(self.0.code.is_success(), "{}", self.text());
        self.json()
    }

    /// Code, reason and message of a Status; for snapshots.
    pub fn text(&self) -> String {
        let status = self.json();
        let part = |name: &str| status[name].as_str().unwrap_or_default().to_owned();
        let mut text = format!("{} {}: {}", self.code(), part("reason"), part("message"));
        for warning in &self.0.warnings {
            text.push_str(&format!("\n  warning: {warning}"));
        }
        text
    }
}

/// The events that are there, as `TYPE name`.
pub fn drain(stream: &mut EventStream) -> Vec<String> {
    events(stream)
        .into_iter()
        .map(|event| {
            let kind = event["type"].as_str().unwrap();
            let name = event["object"]["metadata"]["name"].as_str().unwrap_or("-");
            format!("{kind} {name}")
        })
        .collect()
}

/// The events that are there.
pub fn events(stream: &mut EventStream) -> Vec<Value> {
    let mut all = Vec::new();
    while let Some(line) = stream.try_next(START) {
        assert_eq!(line.last(), Some(&b'\n'));
        all.push(serde_json::from_slice(&line).unwrap());
    }
    all
}

pub const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub const PODS: &str = "/api/v1/namespaces/default/pods";
pub const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

pub fn config_map(name: &str) -> Value {
    serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

pub fn pod(name: &str) -> Value {
    serde_json::json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "localhost/demo"}]},
    })
}

pub fn deployment(name: &str) -> Value {
    serde_json::json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "localhost/demo"}]},
            },
        },
    })
}
