//! The request of each write, and those of an event.

use http::header::ACCEPT;
use http::{HeaderValue, Method, Request};
use k8s_openapi::api::core::v1::Namespace;
use rekindle_controllers::events::EventWrite;
use rekindle_controllers::plan::{
    DeleteGrace, DeleteWrite, DependentPolicy, EvictWrite, PatchTarget, ScaleWrite,
};
use rekindle_controllers::{
    NamespacedName, ObjectId, ResourceKind, ViewObject, WriteOperation, WriteRefusal, WriteResult,
};
use rekindle_types::term::LEADER_TERM;
use rekindle_types::{ObjectJson, Term};
use serde_json::{Value, json};

use super::objects::{json_of_new, json_of_object};
use super::paths::{PathError, collection, path};

const JSON: &str = "application/json";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const MERGE_PATCH: &str = "application/merge-patch+json";

/// A write of which no request can be made.
#[derive(Debug, thiserror::Error)]
pub enum WriteRequestError {
    /// Its object has no place in the API.
    #[error(transparent)]
    NoPath(#[from] PathError),
    /// Its object has no text.
    #[error("encode a request")]
    Encode(#[from] serde_json::Error),
    /// Its parts make no request.
    #[error("build a request")]
    Build(#[from] http::Error),
}

impl WriteRequestError {
    /// What has become of the write.
    pub fn outcome(&self) -> WriteResult {
        match self {
            Self::NoPath(no_path) => {
                WriteResult::Refused { refusal: WriteRefusal::Other, message: no_path.to_string() }
            }
            Self::Encode(source) => WriteResult::Unknown { message: format!("{self}: {source}") },
            Self::Build(source) => WriteResult::Unknown { message: format!("{self}: {source}") },
        }
    }
}

/// The request of a write. With a term each request that changes something names it, so that the
/// API can refuse the writes of a leader that was deposed.
///
/// # Errors
/// When the object has no place in the API, or no text.
pub fn request_for(
    write: &WriteOperation,
    term: Option<&Term>,
) -> Result<Request<Vec<u8>>, WriteRequestError> {
    let mut request = whole_request(write, term)?;
    // controllers know no more of custom objects: no webhook that converts them holds up any
    if let Some(form) = metadata_form(write) {
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(form));
    }
    Ok(request)
}

/// The form of an answer that has metadata alone, for objects of custom kinds.
fn metadata_form(write: &WriteOperation) -> Option<&'static str> {
    let (id, form) = match write {
        WriteOperation::Patch { id, .. } | WriteOperation::CheckAbsent { id, .. } => (id, METADATA),
        WriteOperation::Delete(delete) => (&delete.id, METADATA),
        WriteOperation::DeleteAll { of } | WriteOperation::CheckEmpty { of } => (of, METADATA_LIST),
        WriteOperation::Create(_)
        | WriteOperation::TryCreate(_)
        | WriteOperation::Update(_)
        | WriteOperation::UpdateStatus(_)
        | WriteOperation::Scale(_)
        | WriteOperation::Bind { .. }
        | WriteOperation::Nominate { .. }
        | WriteOperation::Evict(_)
        | WriteOperation::Finalize(_) => return None,
    };
    matches!(id.kind, ResourceKind::Custom(_)).then_some(form)
}

fn whole_request(
    write: &WriteOperation,
    term: Option<&Term>,
) -> Result<Request<Vec<u8>>, WriteRequestError> {
    let sender = RequestBuilder { term };
    match write {
        WriteOperation::Create(manifest) => {
            sender.post(&collection(&manifest.id())?, json_of_new(manifest)?)
        }
        WriteOperation::TryCreate(manifest) => {
            let path = format!("{}?dryRun=All", collection(&manifest.id())?);
            sender.post(&path, json_of_new(manifest)?)
        }
        WriteOperation::Update(object) => sender.put(&path(&object.id(), "")?, object),
        WriteOperation::UpdateStatus(object) => sender.put(&path(&object.id(), "/status")?, object),
        WriteOperation::Patch { id, part, patch } => {
            let subresource = match part {
                PatchTarget::Whole => "",
                PatchTarget::Status => "/status",
            };
            sender.patch(&path(id, subresource)?, patch)
        }
        WriteOperation::Scale(scale) => {
            sender.patch(&path(&scale.target, "/scale")?, &scale_patch(scale))
        }
        WriteOperation::Delete(delete) => {
            sender.delete(&path(&delete.id, "")?, &delete_options(delete))
        }
        WriteOperation::DeleteAll { of } => {
            sender.delete(&collection(of)?, &json!({"propagationPolicy": "Background"}))
        }
        WriteOperation::Bind { pod, uid, node } => {
            sender.post(&path(pod, "/binding")?, serde_json::to_vec(&binding(pod, uid, node))?)
        }
        WriteOperation::Nominate { pod, uid, node } => {
            let patch = json!({"metadata": {"uid": uid}, "status": {"nominatedNodeName": node}});
            sender.patch(&path(pod, "/status")?, &patch)
        }
        WriteOperation::Evict(evict) => {
            sender.post(&path(&evict.pod, "/eviction")?, serde_json::to_vec(&eviction(evict))?)
        }
        WriteOperation::Finalize(namespace) => finalize(sender, namespace),
        WriteOperation::CheckAbsent { id, uid: _ } => get(&path(id, "")?),
        WriteOperation::CheckEmpty { of } => get(&format!("{}?limit=1", collection(of)?)),
    }
}

/// The requests of an event, in their order: each is for an answer of 404 to the one before. A
/// repeat changes an event that the API may have dropped, and is then created.
///
/// # Errors
/// When the event has no place in the API, or no text.
pub fn event_requests(
    write: &EventWrite,
    term: Option<&Term>,
) -> Result<Vec<Request<Vec<u8>>>, WriteRequestError> {
    let sender = RequestBuilder { term };
    let (EventWrite::Create(event) | EventWrite::Repeat(event)) = write;
    let id = ObjectId::new(ResourceKind::Event, NamespacedName::from_meta(&event.metadata));
    let create = sender.post(&collection(&id)?, event.to_json())?;
    match write {
        EventWrite::Create(_) => Ok(vec![create]),
        EventWrite::Repeat(event) => {
            let repeat = json!({
                "count": event.count,
                "lastTimestamp": event.last_timestamp,
                "message": event.message,
            });
            Ok(vec![sender.patch(&path(&id, "")?, &repeat)?, create])
        }
    }
}

/// Of a workload that is the one that it was decided on, and has not changed since.
fn scale_patch(scale: &ScaleWrite) -> Value {
    json!({
        "metadata": {"uid": scale.uid, "resourceVersion": scale.resource_version},
        "spec": {"replicas": scale.replicas},
    })
}

fn delete_options(delete: &DeleteWrite) -> Value {
    let mut options = json!({"preconditions": {"uid": delete.uid}});
    let policy = match delete.propagation {
        DependentPolicy::Default => None,
        DependentPolicy::Background => Some("Background"),
        DependentPolicy::Foreground => Some("Foreground"),
        DependentPolicy::Orphan => Some("Orphan"),
    };
    if let Some(policy) = policy {
        options["propagationPolicy"] = policy.into();
    }
    match delete.grace {
        DeleteGrace::Own => {}
        DeleteGrace::Now => options["gracePeriodSeconds"] = 0.into(),
    }
    options
}

fn binding(pod: &ObjectId, uid: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.name.name, "namespace": pod.name.namespace, "uid": uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    })
}

fn eviction(evict: &EvictWrite) -> Value {
    let mut options = json!({"preconditions": {"uid": evict.uid}});
    if let Some(seconds) = evict.grace_seconds {
        options["gracePeriodSeconds"] = seconds.into();
    }
    json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": evict.pod.name.name, "namespace": evict.pod.name.namespace},
        "deleteOptions": options,
    })
}

fn finalize(
    sender: RequestBuilder<'_>,
    namespace: &Namespace,
) -> Result<Request<Vec<u8>>, WriteRequestError> {
    let object = ViewObject::from(namespace.clone());
    sender.put(&path(&object.id(), "/finalize")?, &object)
}

fn get(path: &str) -> Result<Request<Vec<u8>>, WriteRequestError> {
    Ok(Request::get(path).body(Vec::new())?)
}

/// Makes requests that change something, in the term of the leader that sends them.
#[derive(Clone, Copy)]
struct RequestBuilder<'a> {
    term: Option<&'a Term>,
}

impl RequestBuilder<'_> {
    fn post(self, path: &str, body: Vec<u8>) -> Result<Request<Vec<u8>>, WriteRequestError> {
        self.request(Method::POST, path, JSON, body)
    }

    fn put(self, path: &str, object: &ViewObject) -> Result<Request<Vec<u8>>, WriteRequestError> {
        self.request(Method::PUT, path, JSON, json_of_object(object)?)
    }

    fn patch(self, path: &str, patch: &Value) -> Result<Request<Vec<u8>>, WriteRequestError> {
        self.request(Method::PATCH, path, MERGE_PATCH, serde_json::to_vec(patch)?)
    }

    fn delete(self, path: &str, options: &Value) -> Result<Request<Vec<u8>>, WriteRequestError> {
        self.request(Method::DELETE, path, JSON, serde_json::to_vec(options)?)
    }

    fn request(
        self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Vec<u8>,
    ) -> Result<Request<Vec<u8>>, WriteRequestError> {
        let request = Request::builder().method(method).header("content-type", content_type);
        let request = match self.term {
            None => request.uri(path),
            Some(term) => request.uri(with_term(path, term)),
        };
        Ok(request.body(body)?)
    }
}

/// The path with the term named in it.
fn with_term(path: &str, term: &Term) -> String {
    let joint = if path.contains('?') { '&' } else { '?' };
    format!("{path}{joint}{LEADER_TERM}={term}")
}
