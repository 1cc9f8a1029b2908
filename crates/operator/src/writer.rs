//! Carries out one write at a time through the API and says how it went, in the words of the plan.

use http::{Method, Request};
use k8s_openapi::api::apps::v1::{
    ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet,
};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    Endpoints, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
    ReplicationController, Service,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::core::Status;
use rekindle_controllers::events::EventWrite;
use rekindle_controllers::kind::Scope;
use rekindle_controllers::plan::{Delete, Evict, Grace, Part, Propagation};
use rekindle_controllers::{
    Kind, Manifest, NamespacedName, Object, ObjectId, Outcome, Refusal, Write,
};
use rekindle_types::reasons::DEADLOCKED_BUDGET;
use rekindle_types::term::TERM_OVER;
use rekindle_types::v1alpha1::{PodRestart, RestartLadder, RestartLedger};
use rekindle_types::validation::names;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use crate::in_term::InTerm;

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";

/// Writes through a transport.
#[derive(Clone)]
pub struct Writer<T> {
    transport: T,
    in_term: Option<InTerm>,
}

/// What the server answered, before it is put into the words of the plan.
#[derive(Debug)]
pub enum Answer {
    /// An object, a list or a `Status` of success.
    Object(Value),
    /// It said no.
    Refused(Box<Status>),
    /// Nobody knows whether it was done.
    Unknown(String),
    /// It was not asked: the term of who writes may be over.
    TermOver,
}

/// Takes a request to the API and brings the answer.
pub trait Transport: Sync {
    /// Sends one request.
    fn send(&self, request: Request<Vec<u8>>) -> impl Future<Output = Answer> + Send;

    /// Sends a request that is answered with an object of this kind as it was written.
    fn store(&self, kind: Kind, request: Request<Vec<u8>>) -> impl Future<Output = Outcome> + Send {
        async move { stored(kind, self.send(request).await) }
    }
}

impl Transport for Client {
    async fn send(&self, request: Request<Vec<u8>>) -> Answer {
        match self.request::<Value>(request).await {
            Ok(object) => Answer::Object(object),
            Err(kube::Error::Api(status)) => Answer::Refused(status),
            Err(error) => Answer::Unknown(error.to_string()),
        }
    }

    // without a tree of it in between
    async fn store(&self, kind: Kind, request: Request<Vec<u8>>) -> Outcome {
        match self.request_text(request).await {
            Ok(text) => stored_from_json(kind, text.as_bytes()),
            Err(kube::Error::Api(status)) => refused(*status),
            Err(error) => Outcome::Unknown { message: error.to_string() },
        }
    }
}

impl<T: Transport> Writer<T> {
    /// A writer through this transport.
    pub fn new(transport: T) -> Self {
        Self { transport, in_term: None }
    }

    /// The same, which writes as long as this term lasts and says so in each write.
    #[must_use]
    pub fn in_term(mut self, in_term: InTerm) -> Self {
        self.in_term = Some(in_term);
        self
    }

    /// Carries the write out.
    pub async fn carry_out(&self, write: &Write) -> Outcome {
        self.ask_for(write).await.unwrap_or_else(|no_path| Outcome::Refused {
            refusal: Refusal::Other,
            message: no_path.to_string(),
        })
    }

    async fn ask_for(&self, write: &Write) -> Result<Outcome, NoPath> {
        let outcome = match write {
            Write::Create(manifest) => {
                let id = manifest.id();
                self.store(id.kind, Method::POST, &collection(&id)?, JSON, &New(manifest)).await
            }
            Write::TryCreate(manifest) => self.try_create(manifest).await?,
            Write::Update(object) => {
                let path = path(&object.id(), "")?;
                self.store(object.kind(), Method::PUT, &path, JSON, &Sent(object)).await
            }
            Write::UpdateStatus(object) => {
                let path = path(&object.id(), "/status")?;
                self.store(object.kind(), Method::PUT, &path, JSON, &Sent(object)).await
            }
            Write::Patch { id, part, patch } => {
                let path = match part {
                    Part::Whole => path(id, "")?,
                    Part::Status => path(id, "/status")?,
                };
                self.store(id.kind, Method::PATCH, &path, MERGE_PATCH, patch).await
            }
            Write::Delete(delete) => self.delete(delete).await?,
            Write::DeleteAll { of } => {
                let options = json!({"propagationPolicy": "Background"});
                done(self.send(Method::DELETE, &collection(of)?, JSON, &options).await)
            }
            Write::Bind { pod, uid, node } => self.bind(pod, uid, node).await?,
            Write::Nominate { pod, uid, node } => {
                let patch =
                    json!({"metadata": {"uid": uid}, "status": {"nominatedNodeName": node}});
                let path = path(pod, "/status")?;
                self.store(pod.kind, Method::PATCH, &path, MERGE_PATCH, &patch).await
            }
            Write::Evict(evict) => self.evict(evict).await?,
            Write::Finalize(namespace) => self.finalize(namespace).await?,
            Write::CheckAbsent { id, uid } => self.check_absent(id, uid.as_deref()).await?,
            Write::CheckEmpty { of } => self.check_empty(of).await?,
        };
        Ok(outcome)
    }

    /// Writes an event; one that cannot be written is lost, and said in the log.
    pub async fn record(&self, write: EventWrite) {
        let sent = self.send_event(&write).await;
        let answer = sent.unwrap_or_else(|no_path| Answer::Unknown(no_path.to_string()));
        let (EventWrite::Create(event) | EventWrite::Repeat(event)) = write;
        match answer {
            Answer::Object(_) => {}
            // its namespace is gone or going: nobody will look for it
            Answer::Refused(status) if status.code == 404 || status.code == 403 => {}
            // another one leads, or is about to: it says what there is to say
            Answer::TermOver => {}
            Answer::Refused(status) if is_of_old_term(&status) => {}
            Answer::Refused(status) => {
                tracing::warn!(reason = ?event.reason, message = status.message, "failed to write an event: the API refused it");
            }
            Answer::Unknown(message) => {
                tracing::warn!(reason = ?event.reason, message, "failed to write an event")
            }
        }
    }

    async fn send_event(&self, write: &EventWrite) -> Result<Answer, NoPath> {
        let (EventWrite::Create(event) | EventWrite::Repeat(event)) = write;
        let id = event_id(&event.metadata);
        let events = collection(&id)?;
        if let EventWrite::Repeat(event) = write {
            let repeat = json!({
                "count": event.count,
                "lastTimestamp": event.last_timestamp,
                "message": event.message,
            });
            match self.send(Method::PATCH, &path(&id, "")?, MERGE_PATCH, &repeat).await {
                Answer::Refused(status) if status.code == 404 => {}
                answer => return Ok(answer),
            }
        }
        Ok(self.send(Method::POST, &events, JSON, &**event).await)
    }

    async fn delete(&self, delete: &Delete) -> Result<Outcome, NoPath> {
        let mut options = json!({"preconditions": {"uid": delete.uid}});
        let policy = match delete.propagation {
            Propagation::Default => None,
            Propagation::Background => Some("Background"),
            Propagation::Foreground => Some("Foreground"),
            Propagation::Orphan => Some("Orphan"),
        };
        if let Some(policy) = policy {
            options["propagationPolicy"] = policy.into();
        }
        match delete.grace {
            Grace::Own => {}
            Grace::Now => options["gracePeriodSeconds"] = 0.into(),
        }
        let answer = self.send(Method::DELETE, &path(&delete.id, "")?, JSON, &options).await;
        Ok(match answer {
            // A Status, or an object that nothing holds any more, is the last that is heard of it.
            Answer::Object(object) if is_last_word(&object) => Outcome::Gone,
            answer => stored(delete.id.kind, answer),
        })
    }

    async fn bind(&self, pod: &ObjectId, uid: &str, node: &str) -> Result<Outcome, NoPath> {
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name.name, "namespace": pod.name.namespace, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        Ok(done(self.send(Method::POST, &path(pod, "/binding")?, JSON, &binding).await))
    }

    async fn evict(&self, evict: &Evict) -> Result<Outcome, NoPath> {
        let mut options = json!({"preconditions": {"uid": evict.uid}});
        if let Some(seconds) = evict.grace_seconds {
            options["gracePeriodSeconds"] = seconds.into();
        }
        let eviction = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": evict.pod.name.name, "namespace": evict.pod.name.namespace},
            "deleteOptions": options,
        });
        Ok(done(self.send(Method::POST, &path(&evict.pod, "/eviction")?, JSON, &eviction).await))
    }

    async fn finalize(&self, namespace: &Namespace) -> Result<Outcome, NoPath> {
        let object = Object::from(namespace.clone());
        let path = path(&object.id(), "/finalize")?;
        let answer = self.send(Method::PUT, &path, JSON, &Sent(&object)).await;
        let holds = |object: &Value| {
            let finalizers = [&object["spec"]["finalizers"], &object["metadata"]["finalizers"]];
            finalizers.iter().any(|list| list.as_array().is_some_and(|list| !list.is_empty()))
        };
        Ok(match answer {
            Answer::Object(left) if !holds(&left) && is_being_deleted(&left) => Outcome::Gone,
            answer => stored(Kind::Namespace, answer),
        })
    }

    async fn try_create(&self, manifest: &Manifest) -> Result<Outcome, NoPath> {
        let path = format!("{}?dryRun=All", collection(&manifest.id())?);
        // what would be stored is not: the view must not learn of it
        Ok(match done(self.send(Method::POST, &path, JSON, &New(manifest)).await) {
            Outcome::Refused { refusal: Refusal::AlreadyExists, .. } => Outcome::Done,
            outcome => outcome,
        })
    }

    async fn check_absent(&self, id: &ObjectId, uid: Option<&str>) -> Result<Outcome, NoPath> {
        let still_there = || Outcome::Refused {
            refusal: Refusal::StillThere,
            message: format!("{id} is still there"),
        };
        Ok(match self.read(&path(id, "")?).await {
            Answer::Object(found) => match uid {
                Some(uid) if found["metadata"]["uid"] != uid => Outcome::Done,
                Some(_) | None => still_there(),
            },
            Answer::Refused(status) if status.code == 404 => Outcome::Done,
            answer => done(answer),
        })
    }

    async fn check_empty(&self, of: &ObjectId) -> Result<Outcome, NoPath> {
        Ok(match self.read(&format!("{}?limit=1", collection(of)?)).await {
            Answer::Object(list)
                if list["items"].as_array().is_some_and(|items| !items.is_empty()) =>
            {
                Outcome::Refused {
                    refusal: Refusal::StillThere,
                    message: format!(
                        "{} of namespace {} are left",
                        of.kind.info().plural,
                        of.name.namespace
                    ),
                }
            }
            answer => done(answer),
        })
    }

    async fn read(&self, path: &str) -> Answer {
        match Request::get(path).body(Vec::new()) {
            Ok(request) => self.transport.send(request).await,
            Err(error) => Answer::Unknown(format!("build a request: {error}")),
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content: &str,
        body: &impl Serialize,
    ) -> Answer {
        match self.with_body(method, path, content, body) {
            Ok(request) => self.transport.send(request).await,
            Err(answer) => answer,
        }
    }

    /// The same where the answer is the object as it was written.
    async fn store(
        &self,
        kind: Kind,
        method: Method,
        path: &str,
        content: &str,
        body: &impl Serialize,
    ) -> Outcome {
        match self.with_body(method, path, content, body) {
            Ok(request) => self.transport.store(kind, request).await,
            Err(answer) => done(answer),
        }
    }

    /// The request, in the term of who writes, or the answer when there can be none.
    fn with_body(
        &self,
        method: Method,
        path: &str,
        content: &str,
        body: &impl Serialize,
    ) -> Result<Request<Vec<u8>>, Answer> {
        let bytes = serde_json::to_vec(body)
            .map_err(|error| Answer::Unknown(format!("encode a request: {error}")))?;
        let named = self.in_term.as_ref().map(|in_term| in_term.named_in(path));
        let path = match named {
            None => path,
            Some(Some(ref path)) => path,
            Some(None) => return Err(Answer::TermOver),
        };
        let request = Request::builder().method(method).uri(path).header("content-type", content);
        let request = request.body(bytes);
        request.map_err(|error| Answer::Unknown(format!("build a request: {error}")))
    }
}

fn event_id(meta: &ObjectMeta) -> ObjectId {
    ObjectId::new(Kind::Event, NamespacedName::of(meta))
}

/// Where objects of the kind of `id` are created and listed.
///
/// # Errors
/// When the kind lives in namespaces and `id` names none, or the other way round.
pub fn collection(id: &ObjectId) -> Result<String, NoPath> {
    let info = id.kind.info();
    let root = if info.group.is_empty() {
        format!("/api/{}", info.version)
    } else {
        format!("/apis/{}/{}", info.group, info.version)
    };
    let namespace = id.name.namespace.as_str();
    match info.scope {
        Scope::Namespaced if is_segment(namespace) => {
            Ok(format!("{root}/namespaces/{namespace}/{}", info.plural))
        }
        Scope::Cluster if namespace.is_empty() => Ok(format!("{root}/{}", info.plural)),
        Scope::Namespaced | Scope::Cluster => {
            Err(NoPath::Namespace { kind: id.kind, name: id.name.clone() })
        }
    }
}

/// An object that cannot be asked for. A request for it would be one for something else: without a
/// name, for all objects of the kind; without a namespace, for one that no namespace has, which is
/// always found to be absent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPath {
    /// Its name cannot stand in a path.
    #[error("ask for {kind} {:?}: that is no name of an object", name.to_string())]
    Name {
        /// The kind.
        kind: Kind,
        /// What it is called.
        name: NamespacedName,
    },
    /// It has no namespace and its kind lives in one, or the other way round.
    #[error("ask for {kind} {:?}: that is no namespace for an object of its kind", name.to_string())]
    Namespace {
        /// The kind.
        kind: Kind,
        /// What it is called.
        name: NamespacedName,
    },
}

/// The path of an object, followed by that of a subresource (`/status`).
///
/// # Errors
/// When the object has no name, or one that is more or less than a segment of a path, or a
/// namespace that is not one for its kind.
pub fn path(id: &ObjectId, subresource: &str) -> Result<String, NoPath> {
    let name = id.name.name.as_str();
    if !is_segment(name) {
        return Err(NoPath::Name { kind: id.kind, name: id.name.clone() });
    }
    Ok(format!("{}/{name}{subresource}", collection(id)?))
}

/// True for a text that is one segment of a path, no more and no less.
fn is_segment(text: &str) -> bool {
    !text.is_empty() && !text.contains(['?', '#']) && names::path_segment(text).is_empty()
}

/// What is created, as it is sent.
struct New<'a>(&'a Manifest);

impl Serialize for New<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Manifest::Pod(pod) => pod.serialize(to),
            Manifest::Object(object) => Sent(object).serialize(to),
        }
    }
}

/// The object with its apiVersion and kind, as it is sent.
struct Sent<'a>(&'a Object);

impl Serialize for Sent<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Object::DaemonSet(o) => o.serialize(to),
            Object::Deployment(o) => o.serialize(to),
            Object::ReplicaSet(o) => o.serialize(to),
            Object::ReplicationController(o) => o.serialize(to),
            Object::StatefulSet(o) => o.serialize(to),
            Object::ControllerRevision(o) => o.serialize(to),
            Object::CronJob(o) => o.serialize(to),
            Object::Job(o) => o.serialize(to),
            Object::Pod(_) => Err(S::Error::custom(
                "less than all of a pod is held: one is changed by patches, and created from a manifest",
            )),
            Object::RestartLadder(o) => o.serialize(to),
            Object::PodRestart(o) => o.serialize(to),
            Object::RestartLedger(o) => o.serialize(to),
            Object::PodDisruptionBudget(o) => o.serialize(to),
            Object::PersistentVolumeClaim(o) => o.serialize(to),
            Object::Service(o) => o.serialize(to),
            Object::EndpointSlice(o) => o.serialize(to),
            Object::Endpoints(o) => o.serialize(to),
            Object::Lease(o) => o.serialize(to),
            Object::PersistentVolume(o) => o.serialize(to),
            Object::StorageClass(o) => o.serialize(to),
            Object::Node(o) => o.serialize(to),
            Object::Namespace(o) => o.serialize(to),
            Object::Metadata(kind, meta) => json!({
                "apiVersion": kind.api_version(), "kind": kind.info().kind, "metadata": meta,
            })
            .serialize(to),
        }
    }
}

/// What is read of an object of which nothing else is held.
#[derive(Deserialize)]
struct PartialObject {
    #[serde(default)]
    metadata: ObjectMeta,
}

/// Reads an object of a kind as the view holds it: whole, or its metadata.
///
/// # Errors
/// When it is not one of that kind.
pub fn object_of(kind: Kind, value: Value) -> Result<Object, serde_json::Error> {
    read(kind, value)
}

/// The same from its text.
///
/// # Errors
/// When it is not JSON, or not an object of that kind.
pub fn object_from_json(kind: Kind, json: &[u8]) -> Result<Object, serde_json::Error> {
    read(kind, &mut serde_json::Deserializer::from_slice(json))
}

/// What came of a write that was answered with this text: the object as it is stored.
pub fn stored_from_json(kind: Kind, json: &[u8]) -> Outcome {
    match object_from_json(kind, json) {
        Ok(object) => Outcome::Stored(object),
        Err(error) => unreadable(&error),
    }
}

fn read<'de, D: Deserializer<'de>>(kind: Kind, from: D) -> Result<Object, D::Error> {
    fn typed<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Object, D::Error>
    where
        Object: From<T>,
    {
        T::deserialize(from).map(Object::from)
    }
    match kind {
        Kind::DaemonSet => typed::<DaemonSet, _>(from),
        Kind::Deployment => typed::<Deployment, _>(from),
        Kind::ReplicaSet => typed::<ReplicaSet, _>(from),
        Kind::ReplicationController => typed::<ReplicationController, _>(from),
        Kind::StatefulSet => typed::<StatefulSet, _>(from),
        Kind::ControllerRevision => typed::<ControllerRevision, _>(from),
        Kind::CronJob => typed::<CronJob, _>(from),
        Kind::Job => typed::<Job, _>(from),
        Kind::Pod => typed::<Pod, _>(from),
        Kind::RestartLadder => typed::<RestartLadder, _>(from),
        Kind::PodRestart => typed::<PodRestart, _>(from),
        Kind::RestartLedger => typed::<RestartLedger, _>(from),
        Kind::PodDisruptionBudget => typed::<PodDisruptionBudget, _>(from),
        Kind::PersistentVolumeClaim => typed::<PersistentVolumeClaim, _>(from),
        Kind::Service => typed::<Service, _>(from),
        Kind::EndpointSlice => typed::<EndpointSlice, _>(from),
        Kind::Endpoints => typed::<Endpoints, _>(from),
        Kind::Lease => typed::<Lease, _>(from),
        Kind::PersistentVolume => typed::<PersistentVolume, _>(from),
        Kind::StorageClass => typed::<StorageClass, _>(from),
        Kind::Node => typed::<Node, _>(from),
        Kind::Namespace => typed::<Namespace, _>(from),
        Kind::ConfigMap
        | Kind::Secret
        | Kind::ServiceAccount
        | Kind::RoleBinding
        | Kind::Role
        | Kind::PriorityClass
        | Kind::ClusterRoleBinding
        | Kind::ClusterRole
        | Kind::Event => {
            let PartialObject { metadata } = PartialObject::deserialize(from)?;
            Ok(Object::Metadata(kind, metadata.into()))
        }
    }
}

fn is_being_deleted(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// True when the answer to a delete says that the object is gone already.
fn is_last_word(answer: &Value) -> bool {
    let meta = &answer["metadata"];
    let held = meta["finalizers"].as_array().is_some_and(|list| !list.is_empty());
    let in_grace = meta["deletionGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds > 0);
    answer["kind"] == "Status" || (!held && !in_grace)
}

fn stored(kind: Kind, answer: Answer) -> Outcome {
    match answer {
        Answer::Object(value) => match object_of(kind, value) {
            Ok(object) => Outcome::Stored(object),
            Err(error) => unreadable(&error),
        },
        answer => done(answer),
    }
}

fn unreadable(error: &serde_json::Error) -> Outcome {
    Outcome::Unknown { message: format!("read the answer: {error}") }
}

fn done(answer: Answer) -> Outcome {
    match answer {
        Answer::Object(_) => Outcome::Done,
        Answer::Refused(status) => refused(*status),
        Answer::Unknown(message) => Outcome::Unknown { message },
        Answer::TermOver => Outcome::Unknown { message: "the term may be over".to_owned() },
    }
}

/// True when the API took the write for one of a leader that was deposed.
fn is_of_old_term(status: &Status) -> bool {
    let causes = status.details.as_ref().map(|details| details.causes.as_slice());
    causes.unwrap_or_default().iter().any(|cause| cause.reason == TERM_OVER)
}

/// A refusal of the server in the words of the plan.
pub fn refused(status: Status) -> Outcome {
    let causes =
        status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    let refusal = match (status.code, status.reason.as_str()) {
        _ if causes.iter().any(|cause| cause.reason == "NamespaceTerminating") => {
            Refusal::NamespaceTerminating
        }
        (404, _) => return Outcome::Gone,
        (_, "AlreadyExists") => Refusal::AlreadyExists,
        (409, _) => Refusal::Conflict,
        (429, _) if causes.iter().any(|cause| cause.reason == DEADLOCKED_BUDGET) => {
            Refusal::DeadlockedBudget
        }
        (429, _) => Refusal::Budget,
        _ => Refusal::Other,
    };
    let message = match refusal {
        Refusal::Budget | Refusal::DeadlockedBudget => budget_words(&status),
        Refusal::Conflict
        | Refusal::AlreadyExists
        | Refusal::StillThere
        | Refusal::NamespaceTerminating
        | Refusal::Other => status.message,
    };
    Outcome::Refused { refusal, message }
}

/// A budget's refusal with those of its causes that its message leaves out: upstream names the
/// budget in them alone.
pub(crate) fn budget_words(status: &Status) -> String {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let untold: Vec<&str> = causes
        .map(|cause| cause.message.as_str())
        .filter(|cause| !status.message.contains(cause))
        .collect();
    match untold.as_slice() {
        [] => status.message.clone(),
        untold => {
            let end = if status.message.ends_with('.') { "" } else { ";" };
            format!("{}{end} {}", status.message, untold.join("; "))
        }
    }
}

#[cfg(test)]
mod tests;
