//! An API server that is a map: what the controllers' writes mean, no more than they need.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{self, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_controllers::plan::{
    DeleteGrace, DeleteWrite, DependentPolicy, EvictWrite, PatchTarget, ScaleWrite,
};
use rekindle_controllers::{
    NamespacedName, NewObject, ObjectId, ResourceKind, ViewObject, WriteOperation, WriteRefusal,
    WriteResult,
};
use rekindle_types::held::HeldPod;
use rekindle_types::{Tick, TickDuration};
use serde_json::{Value, json};

/// One watch event.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Applied(ViewObject),
    Deleted(ViewObject),
}

/// The server.
#[derive(Default)]
pub(crate) struct FakeApi {
    /// What there is, as controllers hold it.
    pub(crate) objects: BTreeMap<ObjectId, ViewObject>,
    /// The same with all that is said of it.
    pub(crate) values: BTreeMap<ObjectId, Value>,
    /// Everything that ever happened, by kind, as watches show it.
    pub(crate) log: BTreeMap<ResourceKind, Vec<Event>>,
    pub(crate) version: u64,
    pub(crate) uids: u64,
    pub(crate) now: Tick,
    /// Creations of kinds listed here are refused with this message.
    pub(crate) refuse_creation: Option<(ResourceKind, String)>,
    /// Scales are refused with this message.
    pub(crate) refuse_scale: Option<String>,
    /// Evictions are refused with this message, as a disruption budget does.
    pub(crate) refuse_eviction: Option<String>,
}

impl FakeApi {
    pub(crate) fn carry_out(&mut self, write: &WriteOperation) -> WriteResult {
        match write {
            WriteOperation::Create(NewObject::Pod(pod)) => {
                self.create(ResourceKind::Pod, serde_json::to_value(pod).unwrap())
            }
            WriteOperation::Create(NewObject::Object(object)) => {
                self.create(object.kind(), encode(object))
            }
            WriteOperation::TryCreate(manifest) => {
                self.refused_creation(&manifest.id()).unwrap_or(WriteResult::Done)
            }
            WriteOperation::Update(object) => self.update(object, PatchTarget::Whole),
            WriteOperation::UpdateStatus(object) => self.update(object, PatchTarget::Status),
            WriteOperation::Patch { id, part, patch } => self.patch(id, *part, patch),
            WriteOperation::Scale(scale) => self.scale(scale),
            WriteOperation::Delete(delete) => self.delete(delete),
            WriteOperation::DeleteAll { of } => {
                for id in self.ids(of.kind, &of.name.namespace) {
                    let uid = self.objects[&id].uid().to_owned();
                    let (propagation, grace) = (DependentPolicy::Background, DeleteGrace::Own);
                    self.delete(&DeleteWrite { id, uid, propagation, grace });
                }
                WriteResult::Done
            }
            WriteOperation::Bind { pod, uid, node } => self.bind(pod, uid, node),
            WriteOperation::Nominate { pod, uid, node } => {
                let patch =
                    json!({"metadata": {"uid": uid}, "status": {"nominatedNodeName": node}});
                self.patch(pod, PatchTarget::Status, &patch)
            }
            WriteOperation::Finalize(namespace) => self.finalize(namespace),
            WriteOperation::Evict(evict) => self.evict(evict),
            WriteOperation::CheckAbsent { id, uid } => match self.objects.get(id) {
                Some(object) if uid.as_deref().is_none_or(|uid| uid == object.uid()) => {
                    refuse(WriteRefusal::StillThere, "still there")
                }
                _ => WriteResult::Done,
            },
            WriteOperation::CheckEmpty { of } => {
                if self.ids(of.kind, &of.name.namespace).is_empty() {
                    WriteResult::Done
                } else {
                    refuse(WriteRefusal::StillThere, "not empty")
                }
            }
        }
    }

    /// Why an object is not taken, its name aside.
    fn refused_creation(&self, id: &ObjectId) -> Option<WriteResult> {
        if let Some((kind, message)) = &self.refuse_creation
            && *kind == id.kind
        {
            return Some(refuse(WriteRefusal::Other, message));
        }
        let namespace =
            ObjectId::new(ResourceKind::Namespace, NamespacedName::new("", &*id.name.namespace));
        let is_going = |o: &ViewObject| o.meta().deletion_timestamp.is_some();
        self.objects
            .get(&namespace)
            .is_some_and(is_going)
            .then(|| refuse(WriteRefusal::NamespaceTerminating, "namespace is being deleted"))
    }

    /// Creates an object of which the server makes up what servers make up.
    pub(crate) fn create(&mut self, kind: ResourceKind, value: Value) -> WriteResult {
        let id = decode(kind, value.clone()).id();
        if let Some(refused) = self.refused_creation(&id) {
            return refused;
        }
        if self.objects.contains_key(&id) {
            return refuse(WriteRefusal::AlreadyExists, "already exists");
        }
        self.uids += 1;
        let uid = format!("uid-{}", self.uids);
        let created = self.now;
        let mut value = edit(value, |meta| {
            meta.uid = Some(uid);
            meta.generation = Some(1);
            meta.creation_timestamp = Some(seconds(created));
        });
        if kind == ResourceKind::Pod {
            value["status"] = json!({"phase": "Pending"});
        }
        WriteResult::Stored(self.store(kind, value))
    }

    /// Stores under a new version and tells the watches.
    fn store(&mut self, kind: ResourceKind, value: Value) -> ViewObject {
        self.version += 1;
        let version = self.version.to_string();
        let value = edit(value, |meta| meta.resource_version = Some(version));
        let (object, value) = match kind {
            ResourceKind::Pod => {
                let pod: v1::Pod = serde_json::from_value(value).unwrap();
                (ViewObject::from(HeldPod::from(&pod)), serde_json::to_value(pod).unwrap())
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

    fn update(&mut self, object: &ViewObject, part: PatchTarget) -> WriteResult {
        let Some(current) = self.objects.get(&object.id()).cloned() else {
            return WriteResult::Gone;
        };
        let stale = object.meta().resource_version.is_some()
            && object.meta().resource_version != current.meta().resource_version;
        if stale || current.uid() != object.uid() {
            return refuse(WriteRefusal::Conflict, "the object has been modified");
        }
        WriteResult::Stored(self.store_part(&object.id(), encode(object), part))
    }

    pub(crate) fn patch(&mut self, id: &ObjectId, part: PatchTarget, patch: &Value) -> WriteResult {
        let Some(current) = self.objects.get(id).cloned() else { return WriteResult::Gone };
        let meta = current.meta();
        let conflicts = |field: &str, is: &Option<String>| {
            patch["metadata"][field].as_str().is_some_and(|wanted| Some(wanted) != is.as_deref())
        };
        if conflicts("uid", &meta.uid) || conflicts("resourceVersion", &meta.resource_version) {
            return refuse(WriteRefusal::Conflict, "the object has been modified");
        }
        let mut value = self.values[id].clone();
        merge(&mut value, patch);
        WriteResult::Stored(self.store_part(id, value, part))
    }

    /// Stores `value`, with the part that this write does not reach as it was.
    fn store_part(&mut self, id: &ObjectId, mut value: Value, part: PatchTarget) -> ViewObject {
        let mut current = self.values[id].clone();
        match part {
            PatchTarget::Whole => {
                value["status"] = current["status"].take();
                let of_deployment = id.kind == ResourceKind::Deployment;
                let annotations = |of: &Value| of["metadata"]["annotations"].clone();
                let is_annotated = of_deployment && annotations(&value) != annotations(&current);
                if value["spec"] != current["spec"] || is_annotated {
                    let generation = current["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
                    value["metadata"]["generation"] = json!(generation);
                }
            }
            PatchTarget::Status => {
                current["status"] = value["status"].take();
                current["metadata"]["annotations"] = value["metadata"]["annotations"].take();
                value = current;
            }
        }
        self.store(id.kind, value)
    }

    /// The answer is a Scale, of which the view learns nothing.
    fn scale(&mut self, scale: &ScaleWrite) -> WriteResult {
        if let Some(message) = &self.refuse_scale {
            return refuse(WriteRefusal::Other, message);
        }
        let patch = json!({
            "metadata": {"uid": scale.uid, "resourceVersion": scale.resource_version},
            "spec": {"replicas": scale.replicas},
        });
        match self.patch(&scale.target, PatchTarget::Whole, &patch) {
            WriteResult::Stored(_) => WriteResult::Done,
            other => other,
        }
    }

    fn evict(&mut self, evict: &EvictWrite) -> WriteResult {
        if let Some(message) = &self.refuse_eviction {
            return refuse(WriteRefusal::Budget, message);
        }
        let (id, uid) = (evict.pod.clone(), evict.uid.clone());
        let (propagation, grace) = (DependentPolicy::Default, DeleteGrace::Own);
        match self.delete(&DeleteWrite { id, uid, propagation, grace }) {
            WriteResult::Stored(_) | WriteResult::Gone => WriteResult::Done,
            other => other,
        }
    }

    fn delete(&mut self, delete: &DeleteWrite) -> WriteResult {
        let Some(current) = self.objects.get(&delete.id).cloned() else { return WriteResult::Gone };
        if current.uid() != delete.uid {
            return refuse(WriteRefusal::Conflict, "the UID in the precondition does not match");
        }
        let grace = match (&current, delete.grace) {
            (ViewObject::Pod(pod), DeleteGrace::Own) if is_on_node(pod) => 30,
            _ => 0,
        };
        let now = self.now;
        let value = edit(self.values[&delete.id].clone(), |meta| {
            let finalizers = meta.finalizers.get_or_insert_default();
            let wanted = match delete.propagation {
                DependentPolicy::Default | DependentPolicy::Background => None,
                DependentPolicy::Foreground => Some("foregroundDeletion"),
                DependentPolicy::Orphan => Some("orphan"),
            };
            if let Some(wanted) = wanted.filter(|w| !finalizers.iter().any(|f| f == w)) {
                finalizers.push(wanted.to_owned());
            }
            let began = meta.deletion_timestamp.as_ref().map_or(now, |end| {
                Tick::from(end)
                    - TickDuration::of_field(meta.deletion_grace_period_seconds.unwrap())
            });
            let before = meta.deletion_grace_period_seconds.unwrap_or(i64::MAX);
            let grace = grace.min(before);
            meta.deletion_timestamp = Some(seconds(began + TickDuration::of_field(grace)));
            meta.deletion_grace_period_seconds = Some(grace);
        });
        let stored = self.store(delete.id.kind, value);
        if self.objects.contains_key(&stored.id()) {
            WriteResult::Stored(stored)
        } else {
            WriteResult::Gone
        }
    }

    fn bind(&mut self, id: &ObjectId, uid: &str, node: &str) -> WriteResult {
        let Some(ViewObject::Pod(pod)) = self.objects.get(id) else { return WriteResult::Gone };
        if pod.metadata.uid.as_deref() != Some(uid) || is_on_node(pod) {
            return refuse(WriteRefusal::Conflict, "pod is already assigned to a node");
        }
        let mut value = self.values[id].clone();
        value["spec"]["nodeName"] = json!(node);
        value["status"].as_object_mut().unwrap().remove("nominatedNodeName");
        self.store(id.kind, value);
        WriteResult::Done
    }

    fn finalize(&mut self, namespace: &Namespace) -> WriteResult {
        let id = ViewObject::from(namespace.clone()).id();
        let Some(mut value) = self.values.get(&id).cloned() else { return WriteResult::Gone };
        value["spec"] = serde_json::to_value(&namespace.spec).unwrap();
        let stored = self.store(id.kind, value);
        if self.objects.contains_key(&id) { WriteResult::Stored(stored) } else { WriteResult::Gone }
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
    pub(crate) fn user_deletes(&mut self, id: &ObjectId, propagation: DependentPolicy) {
        let uid = self.objects[id].uid().to_owned();
        self.delete(&DeleteWrite { id: id.clone(), uid, propagation, grace: DeleteGrace::Own });
    }

    pub(crate) fn ids(&self, kind: ResourceKind, namespace: &str) -> Vec<ObjectId> {
        let of = |id: &&ObjectId| id.kind == kind && id.name.namespace == namespace;
        self.objects.keys().filter(of).cloned().collect()
    }

    pub(crate) fn pods(&self) -> Vec<&HeldPod> {
        self.objects
            .values()
            .filter_map(|o| match o {
                ViewObject::Pod(pod) => Some(pod.as_ref()),
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
            ResourceKind::Node,
            json!({"metadata": {"name": name}, "status": {"allocatable": room}}),
        );
    }
}

fn is_on_node(pod: &HeldPod) -> bool {
    pod.node_name.is_some()
}

fn refuse(refusal: WriteRefusal, message: &str) -> WriteResult {
    WriteResult::Refused { refusal, message: message.to_owned() }
}

fn seconds(tick: Tick) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::Time {
    tick.to_time()
}

/// True when nothing holds an object that is being deleted.
fn is_done_for(object: &ViewObject) -> bool {
    let meta = object.meta();
    let holds = match object {
        ViewObject::Namespace(ns) => {
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

fn encode(object: &ViewObject) -> Value {
    match object {
        ViewObject::ReplicationController(o) => serde_json::to_value(o.as_ref()),
        ViewObject::Service(o) => serde_json::to_value(o.as_ref()),
        ViewObject::EndpointSlice(o) => serde_json::to_value(o.as_ref()),
        ViewObject::Endpoints(o) => serde_json::to_value(o.as_ref()),
        ViewObject::DaemonSet(o) => serde_json::to_value(o.as_ref()),
        ViewObject::Deployment(o) => serde_json::to_value(o.as_ref()),
        ViewObject::ReplicaSet(o) => serde_json::to_value(o.as_ref()),
        ViewObject::StatefulSet(o) => serde_json::to_value(o.as_ref()),
        ViewObject::ControllerRevision(o) => serde_json::to_value(o.as_ref()),
        ViewObject::HorizontalPodAutoscaler(o) => serde_json::to_value(o.as_ref()),
        ViewObject::CronJob(o) => serde_json::to_value(o.as_ref()),
        ViewObject::Job(o) => serde_json::to_value(o.as_ref()),
        ViewObject::Pod(_) => panic!("less than all of a pod is held"),
        ViewObject::CustomResourceDefinition(o) => {
            let names = o.kind.expect("tests have definitions of kinds that are served").info();
            Ok(json!({
                "metadata": o.metadata,
                "spec": {
                    "group": names.group, "scope": format!("{:?}", names.scope),
                    "names": {"plural": names.plural, "kind": names.kind},
                    "versions": [{"name": names.version, "served": true, "storage": true}],
                },
                "status": {"conditions": [{"type": "Established", "status": "True"}]},
            }))
        }
        ViewObject::RestartLadder(o) => serde_json::to_value(o.as_ref()),
        ViewObject::PodRestart(o) => serde_json::to_value(o.as_ref()),
        ViewObject::RestartLedger(o) => serde_json::to_value(o.as_ref()),
        ViewObject::PodDisruptionBudget(o) => serde_json::to_value(o.as_ref()),
        ViewObject::PersistentVolumeClaim(o) => serde_json::to_value(o.as_ref()),
        ViewObject::Lease(o) => serde_json::to_value(o.as_ref()),
        ViewObject::PersistentVolume(o) => serde_json::to_value(o.as_ref()),
        ViewObject::ResourceQuota(o) => serde_json::to_value(o.as_ref()),
        ViewObject::StorageClass(o) => serde_json::to_value(o.as_ref()),
        ViewObject::Node(o) => serde_json::to_value(o.as_ref()),
        ViewObject::Namespace(o) => serde_json::to_value(o.as_ref()),
        ViewObject::Metadata(_, meta) => Ok(json!({"metadata": meta.as_ref()})),
    }
    .unwrap()
}

fn decode(kind: ResourceKind, mut value: Value) -> ViewObject {
    if value["status"].is_null() {
        value.as_object_mut().unwrap().remove("status");
    }
    fn typed<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }
    match kind {
        ResourceKind::ReplicationController => ViewObject::ReplicationController(typed(value)),
        ResourceKind::Service => ViewObject::Service(typed(value)),
        ResourceKind::EndpointSlice => ViewObject::EndpointSlice(typed(value)),
        ResourceKind::Endpoints => ViewObject::Endpoints(typed(value)),
        ResourceKind::DaemonSet => ViewObject::DaemonSet(typed(value)),
        ResourceKind::Deployment => ViewObject::Deployment(typed(value)),
        ResourceKind::ReplicaSet => ViewObject::ReplicaSet(typed(value)),
        ResourceKind::StatefulSet => ViewObject::StatefulSet(typed(value)),
        ResourceKind::ControllerRevision => ViewObject::ControllerRevision(typed(value)),
        ResourceKind::HorizontalPodAutoscaler => ViewObject::HorizontalPodAutoscaler(typed(value)),
        ResourceKind::CronJob => ViewObject::CronJob(typed(value)),
        ResourceKind::Job => ViewObject::Job(typed(value)),
        ResourceKind::Pod => ViewObject::Pod(typed(value)),
        ResourceKind::RestartLadder => ViewObject::RestartLadder(typed(value)),
        ResourceKind::PodRestart => ViewObject::PodRestart(typed(value)),
        ResourceKind::RestartLedger => ViewObject::RestartLedger(typed(value)),
        ResourceKind::PodDisruptionBudget => ViewObject::PodDisruptionBudget(typed(value)),
        ResourceKind::PersistentVolumeClaim => ViewObject::PersistentVolumeClaim(typed(value)),
        ResourceKind::Lease => ViewObject::Lease(typed(value)),
        ResourceKind::PersistentVolume => ViewObject::PersistentVolume(typed(value)),
        ResourceKind::ResourceQuota => ViewObject::ResourceQuota(typed(value)),
        ResourceKind::StorageClass => ViewObject::StorageClass(typed(value)),
        ResourceKind::Node => ViewObject::Node(typed(value)),
        ResourceKind::Namespace => ViewObject::Namespace(typed(value)),
        ResourceKind::CustomResourceDefinition => {
            ViewObject::from(typed::<CustomResourceDefinition>(value))
        }
        other => ViewObject::Metadata(other, typed(value["metadata"].clone())),
    }
}
