//! An API server that is a map: what the controllers' writes mean, no more than they need.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{self, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_controllers::plan::{Delete, Evict, Grace, Part, Propagation};
use rekindle_controllers::{
    Kind, Manifest, NamespacedName, Object, ObjectId, Outcome, Refusal, Write,
};
use rekindle_types::Tick;
use rekindle_types::held::Pod;
use serde_json::{Value, json};

/// One watch event.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Applied(Object),
    Deleted(Object),
}

/// The server.
#[derive(Default)]
pub(crate) struct FakeApi {
    /// What there is, as controllers hold it.
    pub(crate) objects: BTreeMap<ObjectId, Object>,
    /// The same with all that is said of it.
    pub(crate) values: BTreeMap<ObjectId, Value>,
    /// Everything that ever happened, by kind, as watches show it.
    pub(crate) log: BTreeMap<Kind, Vec<Event>>,
    pub(crate) version: u64,
    pub(crate) uids: u64,
    pub(crate) now: Tick,
    /// Creations of kinds listed here are refused with this message.
    pub(crate) refuse_creation: Option<(Kind, String)>,
    /// Evictions are refused with this message, as a disruption budget does.
    pub(crate) refuse_eviction: Option<String>,
}

impl FakeApi {
    pub(crate) fn carry_out(&mut self, write: &Write) -> Outcome {
        match write {
            Write::Create(Manifest::Pod(pod)) => {
                self.create(Kind::Pod, serde_json::to_value(pod).unwrap())
            }
            Write::Create(Manifest::Object(object)) => self.create(object.kind(), encode(object)),
            Write::TryCreate(manifest) => {
                self.refused_creation(&manifest.id()).unwrap_or(Outcome::Done)
            }
            Write::Update(object) => self.update(object, Part::Whole),
            Write::UpdateStatus(object) => self.update(object, Part::Status),
            Write::Patch { id, part, patch } => self.patch(id, *part, patch),
            Write::Delete(delete) => self.delete(delete),
            Write::DeleteAll { of } => {
                for id in self.ids(of.kind, &of.name.namespace) {
                    let uid = self.objects[&id].uid().to_owned();
                    let (propagation, grace) = (Propagation::Background, Grace::Own);
                    self.delete(&Delete { id, uid, propagation, grace });
                }
                Outcome::Done
            }
            Write::Bind { pod, uid, node } => self.bind(pod, uid, node),
            Write::Nominate { pod, uid, node } => {
                let patch =
                    json!({"metadata": {"uid": uid}, "status": {"nominatedNodeName": node}});
                self.patch(pod, Part::Status, &patch)
            }
            Write::Finalize(namespace) => self.finalize(namespace),
            Write::Evict(evict) => self.evict(evict),
            Write::CheckAbsent { id, uid } => match self.objects.get(id) {
                Some(object) if uid.as_deref().is_none_or(|uid| uid == object.uid()) => {
                    refuse(Refusal::StillThere, "still there")
                }
                _ => Outcome::Done,
            },
            Write::CheckEmpty { of } => {
                if self.ids(of.kind, &of.name.namespace).is_empty() {
                    Outcome::Done
                } else {
                    refuse(Refusal::StillThere, "not empty")
                }
            }
        }
    }

    /// Why an object is not taken, its name aside.
    fn refused_creation(&self, id: &ObjectId) -> Option<Outcome> {
        if let Some((kind, message)) = &self.refuse_creation
            && *kind == id.kind
        {
            return Some(refuse(Refusal::Other, message));
        }
        let namespace =
            ObjectId::new(Kind::Namespace, NamespacedName::new("", &*id.name.namespace));
        let is_going = |o: &Object| o.meta().deletion_timestamp.is_some();
        self.objects
            .get(&namespace)
            .is_some_and(is_going)
            .then(|| refuse(Refusal::NamespaceTerminating, "namespace is being deleted"))
    }

    /// Creates an object of which the server makes up what servers make up.
    pub(crate) fn create(&mut self, kind: Kind, value: Value) -> Outcome {
        let id = decode(kind, value.clone()).id();
        if let Some(refused) = self.refused_creation(&id) {
            return refused;
        }
        if self.objects.contains_key(&id) {
            return refuse(Refusal::AlreadyExists, "already exists");
        }
        self.uids += 1;
        let uid = format!("uid-{}", self.uids);
        let created = self.now;
        let mut value = edit(value, |meta| {
            meta.uid = Some(uid);
            meta.generation = Some(1);
            meta.creation_timestamp = Some(seconds(created));
        });
        if kind == Kind::Pod {
            value["status"] = json!({"phase": "Pending"});
        }
        Outcome::Stored(self.store(kind, value))
    }

    /// Stores under a new version and tells the watches.
    fn store(&mut self, kind: Kind, value: Value) -> Object {
        self.version += 1;
        let version = self.version.to_string();
        let value = edit(value, |meta| meta.resource_version = Some(version));
        let (object, value) = match kind {
            Kind::Pod => {
                let pod: v1::Pod = serde_json::from_value(value).unwrap();
                (Object::from(Pod::from(&pod)), serde_json::to_value(pod).unwrap())
            }
            other => {
                let object = decode(other, value);
                let value = encode(&object);
                (object, value)
            }
        };
        let id = object.id();
        let log = self.log.entry(kind).or_default();
        if is_done_for(&object) {
            self.objects.remove(&id);
            self.values.remove(&id);
            log.push(Event::Deleted(object.clone()));
        } else {
            self.objects.insert(id.clone(), object.clone());
            self.values.insert(id, value);
            log.push(Event::Applied(object.clone()));
        }
        object
    }

    fn update(&mut self, object: &Object, part: Part) -> Outcome {
        let Some(current) = self.objects.get(&object.id()).cloned() else { return Outcome::Gone };
        let stale = object.meta().resource_version.is_some()
            && object.meta().resource_version != current.meta().resource_version;
        if stale || current.uid() != object.uid() {
            return refuse(Refusal::Conflict, "the object has been modified");
        }
        Outcome::Stored(self.store_part(&object.id(), encode(object), part))
    }

    pub(crate) fn patch(&mut self, id: &ObjectId, part: Part, patch: &Value) -> Outcome {
        let Some(current) = self.objects.get(id).cloned() else { return Outcome::Gone };
        let meta = current.meta();
        let conflicts = |field: &str, is: &Option<String>| {
            patch["metadata"][field].as_str().is_some_and(|wanted| Some(wanted) != is.as_deref())
        };
        if conflicts("uid", &meta.uid) || conflicts("resourceVersion", &meta.resource_version) {
            return refuse(Refusal::Conflict, "the object has been modified");
        }
        let mut value = self.values[id].clone();
        merge(&mut value, patch);
        Outcome::Stored(self.store_part(id, value, part))
    }

    /// Stores `value`, with the part that this write does not reach as it was.
    fn store_part(&mut self, id: &ObjectId, mut value: Value, part: Part) -> Object {
        let mut current = self.values[id].clone();
        match part {
            Part::Whole => {
                value["status"] = current["status"].take();
                let of_deployment = id.kind == Kind::Deployment;
                let annotations = |of: &Value| of["metadata"]["annotations"].clone();
                let is_annotated = of_deployment && annotations(&value) != annotations(&current);
                if value["spec"] != current["spec"] || is_annotated {
                    let generation = current["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
                    value["metadata"]["generation"] = json!(generation);
                }
            }
            Part::Status => {
                current["status"] = value["status"].take();
                current["metadata"]["annotations"] = value["metadata"]["annotations"].take();
                value = current;
            }
        }
        self.store(id.kind, value)
    }

    fn evict(&mut self, evict: &Evict) -> Outcome {
        if let Some(message) = &self.refuse_eviction {
            return refuse(Refusal::Budget, message);
        }
        let (id, uid) = (evict.pod.clone(), evict.uid.clone());
        let (propagation, grace) = (Propagation::Default, Grace::Own);
        match self.delete(&Delete { id, uid, propagation, grace }) {
            Outcome::Stored(_) | Outcome::Gone => Outcome::Done,
            other => other,
        }
    }

    fn delete(&mut self, delete: &Delete) -> Outcome {
        let Some(current) = self.objects.get(&delete.id).cloned() else { return Outcome::Gone };
        if current.uid() != delete.uid {
            return refuse(Refusal::Conflict, "the UID in the precondition does not match");
        }
        let grace = match (&current, delete.grace) {
            (Object::Pod(pod), Grace::Own) if is_on_node(pod) => 30,
            _ => 0,
        };
        let now = self.now;
        let value = edit(self.values[&delete.id].clone(), |meta| {
            let finalizers = meta.finalizers.get_or_insert_default();
            let wanted = match delete.propagation {
                Propagation::Default | Propagation::Background => None,
                Propagation::Foreground => Some("foregroundDeletion"),
                Propagation::Orphan => Some("orphan"),
            };
            if let Some(wanted) = wanted.filter(|w| !finalizers.iter().any(|f| f == w)) {
                finalizers.push(wanted.to_owned());
            }
            meta.deletion_timestamp.get_or_insert_with(|| seconds(now));
            let before = meta.deletion_grace_period_seconds.unwrap_or(i64::MAX);
            meta.deletion_grace_period_seconds = Some(grace.min(before));
        });
        let stored = self.store(delete.id.kind, value);
        if self.objects.contains_key(&stored.id()) {
            Outcome::Stored(stored)
        } else {
            Outcome::Gone
        }
    }

    fn bind(&mut self, id: &ObjectId, uid: &str, node: &str) -> Outcome {
        let Some(Object::Pod(pod)) = self.objects.get(id) else { return Outcome::Gone };
        if pod.metadata.uid.as_deref() != Some(uid) || is_on_node(pod) {
            return refuse(Refusal::Conflict, "pod is already assigned to a node");
        }
        let mut value = self.values[id].clone();
        value["spec"]["nodeName"] = json!(node);
        value["status"].as_object_mut().unwrap().remove("nominatedNodeName");
        self.store(id.kind, value);
        Outcome::Done
    }

    fn finalize(&mut self, namespace: &Namespace) -> Outcome {
        let id = Object::from(namespace.clone()).id();
        let Some(mut value) = self.values.get(&id).cloned() else { return Outcome::Gone };
        value["spec"] = serde_json::to_value(&namespace.spec).unwrap();
        let stored = self.store(id.kind, value);
        if self.objects.contains_key(&id) { Outcome::Stored(stored) } else { Outcome::Gone }
    }

    /// Changes an object as some other client would.
    pub(crate) fn change(&mut self, id: &ObjectId, change: impl FnOnce(&mut Value)) {
        let mut value = self.values[id].clone();
        let before = value["spec"].clone();
        change(&mut value);
        if value["spec"] != before {
            let generation = value["metadata"]["generation"].as_i64().unwrap_or(0);
            value["metadata"]["generation"] = json!(generation + 1);
        }
        self.store(id.kind, value);
    }

    /// A user deletes an object.
    pub(crate) fn user_deletes(&mut self, id: &ObjectId, propagation: Propagation) {
        let uid = self.objects[id].uid().to_owned();
        self.delete(&Delete { id: id.clone(), uid, propagation, grace: Grace::Own });
    }

    pub(crate) fn ids(&self, kind: Kind, namespace: &str) -> Vec<ObjectId> {
        let of = |id: &&ObjectId| id.kind == kind && id.name.namespace == namespace;
        self.objects.keys().filter(of).cloned().collect()
    }

    pub(crate) fn pods(&self) -> Vec<&Pod> {
        self.objects
            .values()
            .filter_map(|o| match o {
                Object::Pod(pod) => Some(pod.as_ref()),
                _ => None,
            })
            .collect()
    }

    /// The kubelet removes a pod that has ended.
    pub(crate) fn pod_ended(&mut self, id: &ObjectId) {
        self.change(id, |pod| pod["metadata"]["deletionGracePeriodSeconds"] = json!(0));
    }

    /// Adds a node with so much of everything.
    pub(crate) fn add_node(&mut self, name: &str, cpu: &str, memory: &str, pods: &str) {
        let room = json!({"cpu": cpu, "memory": memory, "pods": pods});
        self.create(
            Kind::Node,
            json!({"metadata": {"name": name}, "status": {"allocatable": room}}),
        );
    }
}

fn is_on_node(pod: &Pod) -> bool {
    pod.node_name.is_some()
}

fn refuse(refusal: Refusal, message: &str) -> Outcome {
    Outcome::Refused { refusal, message: message.to_owned() }
}

fn seconds(tick: Tick) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::Time {
    tick.to_time()
}

/// True when nothing holds an object that is being deleted.
fn is_done_for(object: &Object) -> bool {
    let meta = object.meta();
    let holds = match object {
        Object::Namespace(ns) => {
            ns.spec.iter().any(|spec| spec.finalizers.iter().flatten().next().is_some())
        }
        _ => false,
    };
    meta.deletion_timestamp.is_some()
        && meta.finalizers.as_ref().is_none_or(Vec::is_empty)
        && meta.deletion_grace_period_seconds.unwrap_or(0) == 0
        && !holds
}

/// RFC 7386.
fn merge(value: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *value = patch.clone();
        return;
    };
    if !value.is_object() {
        *value = json!({});
    }
    for (key, change) in patch {
        if change.is_null() {
            value.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut value[key], change);
        }
    }
}

fn edit(mut value: Value, change: impl FnOnce(&mut ObjectMeta)) -> Value {
    let mut meta: ObjectMeta = serde_json::from_value(value["metadata"].take()).unwrap();
    change(&mut meta);
    value["metadata"] = serde_json::to_value(meta).unwrap();
    value
}

fn encode(object: &Object) -> Value {
    match object {
        Object::ReplicationController(o) => serde_json::to_value(o.as_ref()),
        Object::Service(o) => serde_json::to_value(o.as_ref()),
        Object::EndpointSlice(o) => serde_json::to_value(o.as_ref()),
        Object::Endpoints(o) => serde_json::to_value(o.as_ref()),
        Object::DaemonSet(o) => serde_json::to_value(o.as_ref()),
        Object::Deployment(o) => serde_json::to_value(o.as_ref()),
        Object::ReplicaSet(o) => serde_json::to_value(o.as_ref()),
        Object::StatefulSet(o) => serde_json::to_value(o.as_ref()),
        Object::ControllerRevision(o) => serde_json::to_value(o.as_ref()),
        Object::CronJob(o) => serde_json::to_value(o.as_ref()),
        Object::Job(o) => serde_json::to_value(o.as_ref()),
        Object::Pod(_) => panic!("less than all of a pod is held"),
        Object::RestartLadder(o) => serde_json::to_value(o.as_ref()),
        Object::PodRestart(o) => serde_json::to_value(o.as_ref()),
        Object::RestartLedger(o) => serde_json::to_value(o.as_ref()),
        Object::PodDisruptionBudget(o) => serde_json::to_value(o.as_ref()),
        Object::PersistentVolumeClaim(o) => serde_json::to_value(o.as_ref()),
        Object::Lease(o) => serde_json::to_value(o.as_ref()),
        Object::PersistentVolume(o) => serde_json::to_value(o.as_ref()),
        Object::StorageClass(o) => serde_json::to_value(o.as_ref()),
        Object::Node(o) => serde_json::to_value(o.as_ref()),
        Object::Namespace(o) => serde_json::to_value(o.as_ref()),
        Object::Metadata(_, meta) => Ok(json!({"metadata": meta.as_ref()})),
    }
    .unwrap()
}

fn decode(kind: Kind, mut value: Value) -> Object {
    if value["status"].is_null() {
        value.as_object_mut().unwrap().remove("status");
    }
    fn typed<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }
    match kind {
        Kind::ReplicationController => Object::ReplicationController(typed(value)),
        Kind::Service => Object::Service(typed(value)),
        Kind::EndpointSlice => Object::EndpointSlice(typed(value)),
        Kind::Endpoints => Object::Endpoints(typed(value)),
        Kind::DaemonSet => Object::DaemonSet(typed(value)),
        Kind::Deployment => Object::Deployment(typed(value)),
        Kind::ReplicaSet => Object::ReplicaSet(typed(value)),
        Kind::StatefulSet => Object::StatefulSet(typed(value)),
        Kind::ControllerRevision => Object::ControllerRevision(typed(value)),
        Kind::CronJob => Object::CronJob(typed(value)),
        Kind::Job => Object::Job(typed(value)),
        Kind::Pod => Object::Pod(typed(value)),
        Kind::RestartLadder => Object::RestartLadder(typed(value)),
        Kind::PodRestart => Object::PodRestart(typed(value)),
        Kind::RestartLedger => Object::RestartLedger(typed(value)),
        Kind::PodDisruptionBudget => Object::PodDisruptionBudget(typed(value)),
        Kind::PersistentVolumeClaim => Object::PersistentVolumeClaim(typed(value)),
        Kind::Lease => Object::Lease(typed(value)),
        Kind::PersistentVolume => Object::PersistentVolume(typed(value)),
        Kind::StorageClass => Object::StorageClass(typed(value)),
        Kind::Node => Object::Node(typed(value)),
        Kind::Namespace => Object::Namespace(typed(value)),
        other => Object::Metadata(other, typed(value["metadata"].clone())),
    }
}
