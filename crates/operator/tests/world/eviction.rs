//! The subresource `pods/eviction`, as Kubernetes answers it, with one budget for all pods.

use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::client::Body;
use kube::{Api, Client};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde_json::json;

/// The body of an answer, whoever gave it.
pub(super) type AnswerBody = UnsyncBoxBody<bytes::Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// How many evictions are allowed; without a number, all are.
#[derive(Clone, Default)]
pub struct Budget(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    allowed: Option<usize>,
    granted: Vec<String>,
    refused: usize,
}

impl Budget {
    /// From now on.
    pub fn allow(&self, evictions: usize) {
        self.0.lock().expect("no test thread panicked").allowed = Some(evictions);
    }

    /// The UIDs of the pods that were evicted, in order.
    pub fn granted(&self) -> Vec<String> {
        self.0.lock().expect("no test thread panicked").granted.clone()
    }

    /// How many evictions were refused.
    pub fn refused(&self) -> usize {
        self.0.lock().expect("no test thread panicked").refused
    }
}

/// A request to evict a pod.
pub(super) struct Eviction {
    namespace: String,
    pod: String,
}

impl Eviction {
    /// If it is one.
    pub(super) fn of(request: &Request<Body>) -> Option<Self> {
        let path = request.uri().path().strip_prefix("/api/v1/namespaces/")?;
        let (namespace, rest) = path.split_once("/pods/")?;
        let pod = rest.strip_suffix("/eviction").filter(|_| request.method() == Method::POST)?;
        Some(Self { namespace: namespace.to_owned(), pod: pod.to_owned() })
    }

    /// Marks and deletes the pod, or says which budget forbids it.
    pub(super) async fn carry_out(
        self,
        budget: &Budget,
        client: Client,
        request: Request<Body>,
    ) -> Response<AnswerBody> {
        let body = request.into_body().collect_bytes().await.expect("a body in memory");
        let eviction: k8s_openapi::api::policy::v1::Eviction =
            serde_json::from_slice(&body).expect("an Eviction");
        let options = eviction.delete_options.unwrap_or_default();
        let uid = options.preconditions.and_then(|p| p.uid);
        let pods: Api<Pod> = Api::namespaced(client, &self.namespace);
        let pod = match pods.get(&self.pod).await {
            Ok(pod) if pod.metadata.uid == uid => pod,
            Ok(_) => return status(409, "Conflict", "the UID in the precondition does not match", json!([])),
            Err(_) => return status(404, "NotFound", "pods \"it\" not found", json!([])),
        };
        if pod.metadata.deletion_timestamp.is_none() && !budget.take(uid.as_deref()) {
            let causes = json!([{
                "reason": "DisruptionBudget",
                "message": "The disruption budget all needs 1 healthy pods and has 1 currently",
            }]);
            let message = "Cannot evict pod as it would violate the pod's disruption budget.";
            return status(429, "TooManyRequests", message, causes);
        }
        let mark = json!({"status": {"conditions": [{
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        }]}});
        pods.patch_status(&self.pod, &PatchParams::default(), &Patch::Strategic(mark))
            .await
            .expect("the pod is there");
        let mut delete = DeleteParams::default()
            .preconditions(Preconditions { uid, resource_version: None });
        delete.grace_period_seconds =
            options.grace_period_seconds.map(|s| u32::try_from(s).expect("a short time"));
        pods.delete(&self.pod, &delete).await.expect("the pod is there");
        status(201, "", "", json!([]))
    }
}

impl Budget {
    fn take(&self, uid: Option<&str>) -> bool {
        let mut state = self.0.lock().expect("no test thread panicked");
        match &mut state.allowed {
            Some(0) => {
                state.refused += 1;
                return false;
            }
            Some(allowed) => *allowed -= 1,
            None => {}
        }
        state.granted.extend(uid.map(str::to_owned));
        true
    }
}

fn status(code: u16, reason: &str, message: &str, causes: serde_json::Value) -> Response<AnswerBody> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {},
        "status": if code < 400 { "Success" } else { "Failure" },
        "reason": reason, "message": message, "details": {"causes": causes}, "code": code,
    });
    let body = Full::from(status.to_string().into_bytes());
    let body = body.map_err(|never| match never {}).boxed_unsync();
    Response::builder().status(code).body(body).expect("a response")
}
