//! The cluster: its API, its ReplicaSet controller and its kubelets, as far as ladders see them.
//!
//! The API drops the status of a custom resource that is created, and takes it by the subresource
//! only. A kubelet writes the status of its pods and nothing of ours.

use std::collections::{BTreeMap, VecDeque};

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use rekindle_controllers::{
    ClusterView, NamespacedName, NewObject, ObjectId, ResourceKind, ViewObject, WriteOperation,
    WriteRefusal, WriteResult,
};
use rekindle_reconcile::{
    ClusterLadders, ClusterReport, LadderMode, Planner, PlannerRole, PlannerTask, REPORT_KINDS,
    RestartLimits, WatchUpdate, cluster_report,
};
use rekindle_types::v1alpha1::{PodRestart, RestartLadder, RestartLedger, RestartLedgerStatus};
use rekindle_types::{Tick, TickDuration};
use serde_json::{Value, json};

pub(crate) const BEGIN: Tick = Tick::from_secs(1_800_000_000);
/// The namespace that is enabled.
pub(crate) const SHOP: &str = "shop";
/// The operator's own.
pub(crate) const OWN: &str = "rekindle-system";

/// The operator is at rest after so many steps of one moment.
const SETTLE_STEPS_MAX: usize = 10_000;

/// The object behind a literal.
pub(crate) fn typed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object of the kind")
}

/// A cluster with an operator.
pub(crate) struct World {
    pub(crate) now: Tick,
    mode: LadderMode,
    taints_nodes: bool,
    /// The API's clock is ahead of the operator's.
    api_ahead: TickDuration,
    /// The API does not let the operator change nodes.
    pub(crate) forbids_taints: bool,
    /// The definitions are older than the operator: a field that they do not have is dropped.
    pub(crate) has_old_definitions: bool,
    planner: Planner,
    revision: u64,
    objects: BTreeMap<ObjectId, ViewObject>,
    /// The pods whole: the view holds a part of them.
    pods: BTreeMap<ObjectId, Pod>,
    seen: VecDeque<WatchUpdate>,
    /// Every write in order: `verb Kind namespace/name`.
    pub(crate) writes: Vec<String>,
    /// How many events were written.
    pub(crate) events: usize,
    /// The operator is killed before the answer to this write arrives, counted from now.
    pub(crate) killed_after: Option<usize>,
}

impl World {
    /// Two nodes, and a namespace that is enabled.
    pub(crate) fn new(mode: LadderMode) -> Self {
        let mut world = Self {
            now: BEGIN,
            mode,
            taints_nodes: false,
            api_ahead: TickDuration::ZERO,
            forbids_taints: false,
            has_old_definitions: false,
            planner: Planner::new(RestartLimits::default()),
            revision: 1,
            objects: BTreeMap::new(),
            pods: BTreeMap::new(),
            seen: VecDeque::new(),
            writes: Vec::new(),
            events: 0,
            killed_after: None,
        };
        for name in ["n1", "n2"] {
            world.put(typed::<Node>(json!({
                "metadata": {"name": name},
                "status": {
                    "allocatable": {"cpu": "64", "memory": "64Gi", "pods": "110"},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            })));
        }
        world.namespace(SHOP, json!({"rekindle.dev/ladder": "enabled"}));
        world.restart_operator(mode);
        world
    }

    /// Another operator begins with what the API shows.
    pub(crate) fn restart_operator(&mut self, mode: LadderMode) {
        self.mode = mode;
        let role = PlannerRole::Cluster(ClusterLadders {
            mode,
            own_namespace: OWN.to_owned(),
            taints_nodes: self.taints_nodes,
        });
        let kinds = role.kinds();
        self.planner = Planner::new(RestartLimits::default()).with_role(role);
        self.seen.clear();
        for kind in kinds {
            let of_kind =
                |(id, object): (&ObjectId, &ViewObject)| (id.kind == kind).then(|| object.clone());
            let listed = self.objects.iter().filter_map(of_kind).collect();
            self.planner.see(self.now, WatchUpdate::List(kind, listed));
        }
    }

    /// The operator has the right to taint nodes.
    pub(crate) fn let_it_taint(&mut self) {
        self.taints_nodes = true;
        self.restart_operator(self.mode);
    }

    pub(crate) fn api_is_ahead_by(&mut self, secs: u64) {
        self.api_ahead = TickDuration::from_secs(secs);
    }

    /// The keys of a node's taints.
    pub(crate) fn taints(&self, node: &str) -> Vec<String> {
        let id = ObjectId::new(ResourceKind::Node, NamespacedName::new("", node));
        let Some(ViewObject::Node(node)) = self.objects.get(&id) else { panic!("no node") };
        let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        taints.map(|taint| taint.key.clone()).collect()
    }

    pub(crate) fn namespace(&mut self, name: &str, labels: Value) {
        self.put(typed::<Namespace>(json!({"metadata": {"name": name, "labels": labels}})));
    }

    pub(crate) fn ladder(&mut self, namespace: &str, rungs: Value, annotations: Value) {
        self.put(typed::<RestartLadder>(json!({
            "metadata": {
                "name": "web", "namespace": namespace, "generation": 1, "annotations": annotations,
            },
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "rungs": rungs},
        })));
    }

    /// The only ladder has another name.
    pub(crate) fn rename_ladder(&mut self, name: &str) {
        let ladder = self.objects.values().find_map(|object| match object {
            ViewObject::RestartLadder(ladder) => Some(ladder.as_ref().clone()),
            _ => None,
        });
        let mut ladder = ladder.expect("there is one");
        self.remove(&ViewObject::from(ladder.clone()).id());
        ladder.metadata.name = Some(name.to_owned());
        ladder.metadata.uid = None;
        self.put(ladder);
    }

    pub(crate) fn relabel(&mut self, namespace: &str, pod: &str, labels: Value) {
        let mut pod = self.get_pod(namespace, pod);
        pod["metadata"]["labels"] = labels;
        self.put_pod(typed(pod));
    }

    pub(crate) fn annotate(&mut self, namespace: &str, pod: &str, annotations: Value) {
        let mut pod = self.get_pod(namespace, pod);
        pod["metadata"]["annotations"] = annotations;
        self.put_pod(typed(pod));
    }

    /// A pod that runs on n1; `of` is its ReplicaSet.
    pub(crate) fn pod(&mut self, namespace: &str, name: &str, of: Option<&str>, spec: Value) {
        let owner = of.map(|set| OwnerReference {
            api_version: "apps/v1".to_owned(),
            kind: "ReplicaSet".to_owned(),
            name: set.to_owned(),
            uid: self.uid_of(ResourceKind::ReplicaSet, namespace, set),
            controller: Some(true),
            block_owner_deletion: None,
        });
        let mut pod: Pod = typed(json!({
            "metadata": {"name": name, "namespace": namespace, "labels": {"app": "web"}},
            "spec": {"nodeName": "n1", "containers": [{"name": "app", "image": "app"}]},
        }));
        pod.metadata.owner_references = owner.map(|owner| vec![owner]);
        pod.metadata.creation_timestamp = Some(self.now.to_time());
        let spec = merged(serde_json::to_value(&pod.spec).unwrap(), spec);
        pod.spec = Some(typed(spec));
        pod.status = Some(typed(running(0, &Value::Null, self.now)));
        self.put_pod(pod);
    }

    pub(crate) fn replica_set(&mut self, namespace: &str, name: &str) {
        self.put(typed::<ReplicaSet>(json!({
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}},
        })));
    }

    /// What the kubelet writes when the container ends and is to wait.
    pub(crate) fn crash(&mut self, namespace: &str, name: &str) {
        self.end(namespace, name);
        self.settle();
    }

    /// The same, before watches show it.
    pub(crate) fn end(&mut self, namespace: &str, name: &str) {
        let pod = self.get_pod(namespace, name);
        let before = &pod["status"]["containerStatuses"][0];
        let (count, started) =
            (before["restartCount"].as_i64().unwrap(), &before["state"]["running"]["startedAt"]);
        let uid = pod["metadata"]["uid"].as_str().unwrap();
        let message =
            format!("back-off 10s restarting failed container=app pod={name}_{namespace}({uid})");
        let status = json!({
            "phase": "Running", "startTime": started,
            "conditions": [{"type": "Ready", "status": "False"}],
            "containerStatuses": [{
                "name": "app", "image": "app", "imageID": "", "ready": false,
                "restartCount": count, "containerID": format!("containerd://{count}"),
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": message}},
                "lastState": {"terminated": {
                    "exitCode": 1, "reason": "Error", "startedAt": started,
                    "finishedAt": self.now.to_time(), "containerID": format!("containerd://{count}"),
                }},
            }],
        });
        self.set_status(pod, status);
    }

    /// Some seconds later the kubelet starts it again, and it fails a second after that.
    pub(crate) fn crash_again(&mut self, namespace: &str, name: &str) {
        self.advance(20);
        let pod = self.get_pod(namespace, name);
        let before = &pod["status"]["containerStatuses"][0];
        let count = before["restartCount"].as_i64().unwrap() + 1;
        let status = running(count, &before["lastState"], self.now);
        self.set_status(pod, status);
        self.settle();
        self.advance(1);
        self.crash(namespace, name);
    }

    /// A new pod is scheduled and runs.
    pub(crate) fn run(&mut self, namespace: &str, name: &str) {
        let mut pod = self.get_pod(namespace, name);
        if pod["spec"]["nodeName"].is_null() {
            pod["spec"]["nodeName"] = "n2".into();
        }
        let status = running(0, &Value::Null, self.now);
        self.set_status(pod, status);
        self.settle();
    }

    /// The pods of a node, as the API has them.
    pub(crate) fn pods_of_node(&self, node: &str) -> Vec<Pod> {
        let all = self.objects.keys().filter(|id| id.kind == ResourceKind::Pod);
        let all = all.map(|id| self.get_pod(&id.name.namespace, &id.name.name));
        all.filter(|pod| pod["spec"]["nodeName"] == node).map(typed).collect()
    }

    /// A kubelet writes the status of a pod.
    pub(crate) fn report_pod(&mut self, pod: &Pod, status: Value) {
        self.set_status(serde_json::to_value(pod).unwrap(), status);
    }

    /// The scheduler binds what has no node.
    pub(crate) fn bind_pods(&mut self, node: &str) {
        let all: Vec<ObjectId> =
            self.objects.keys().filter(|id| id.kind == ResourceKind::Pod).cloned().collect();
        for id in all {
            let mut pod = self.get_pod(&id.name.namespace, &id.name.name);
            if pod["spec"]["nodeName"].is_null() {
                pod["spec"]["nodeName"] = node.into();
                self.put_pod(typed(pod));
            }
        }
    }

    fn get_pod(&self, namespace: &str, name: &str) -> Value {
        let id = ObjectId::new(ResourceKind::Pod, NamespacedName::new(namespace, name));
        let mut pod = serde_json::to_value(&self.pods[&id]).unwrap();
        pod["metadata"]["uid"] = self.objects[&id].uid().into();
        pod
    }

    fn set_status(&mut self, mut pod: Value, status: Value) {
        pod["status"] = status;
        self.put_pod(typed(pod));
    }

    fn put_pod(&mut self, pod: Pod) {
        let object = ViewObject::from(pod.clone());
        self.pods.insert(object.id(), pod);
        self.put(object);
    }

    /// The API stores this, and watches show it.
    pub(crate) fn put(&mut self, object: impl Into<ViewObject>) {
        let stored = self.store(object.into());
        self.seen.push_back(WatchUpdate::Applied(stored));
    }

    fn store(&mut self, object: ViewObject) -> ViewObject {
        self.revision += 1;
        let (version, now) = (self.revision.to_string(), self.now + self.api_ahead);
        let stored = with_meta(&object, |meta| {
            meta.uid.get_or_insert_with(|| format!("uid-{version}"));
            meta.resource_version = Some(version.clone());
            meta.creation_timestamp.get_or_insert_with(|| now.to_time());
        });
        self.objects.insert(stored.id(), stored.clone());
        stored
    }

    pub(crate) fn advance(&mut self, secs: u64) {
        let end = self.now + TickDuration::from_secs(secs);
        self.settle();
        while let Some(due) = self.planner.next_due().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.settle();
        }
        self.now = end;
        self.settle();
    }

    pub(crate) fn settle(&mut self) {
        for _ in 0..SETTLE_STEPS_MAX {
            while let Some(seen) = self.seen.pop_front() {
                self.planner.see(self.now, seen);
            }
            self.planner.begin_due(self.now);
            let Some(task) = self.planner.poll_task() else {
                if self.seen.is_empty() {
                    return;
                }
                continue;
            };
            match task {
                PlannerTask::Record(_) => self.events += 1,
                PlannerTask::Read(request) => panic!("ladders read no usage: {request:?}"),
                PlannerTask::Write(work, step) => {
                    let outcome = self.carry_out(&step.write);
                    if self.killed_after.is_some_and(|left| left == 0) {
                        self.killed_after = None;
                        self.restart_operator(self.mode);
                        continue;
                    }
                    self.killed_after = self.killed_after.map(|left| left - 1);
                    self.planner.settle(self.now, &work, &step, outcome);
                }
            }
        }
        let last = self.writes.iter().rev().take(12).collect::<Vec<_>>();
        panic!("the operator comes to no rest: {last:#?}");
    }

    fn carry_out(&mut self, write: &WriteOperation) -> WriteResult {
        let (verb, id) = named(write);
        assert!(is_granted(self.mode, verb, id.kind), "the chart gives no right to {write:?}");
        self.writes.push(format!("{verb} {} {}", id.kind, id.name));
        match write {
            WriteOperation::Create(new) if self.objects.contains_key(&new.id()) => {
                let message = "it is there already".to_owned();
                WriteResult::Refused { refusal: WriteRefusal::AlreadyExists, message }
            }
            WriteOperation::Create(new) => {
                let object = match new {
                    NewObject::Pod(pod) => {
                        self.pods.insert(id, pod.as_ref().clone());
                        ViewObject::from(pod.as_ref().clone())
                    }
                    NewObject::Object(object) => without_status(object),
                };
                let stored = self.store(object);
                self.seen.push_back(WatchUpdate::Applied(stored.clone()));
                WriteResult::Stored(stored)
            }
            WriteOperation::UpdateStatus(object) => {
                let Some(before) = self.objects.get(&id) else { return WriteResult::Gone };
                let meta = before.meta().clone();
                let mut object = object.clone();
                if let (ViewObject::RestartLedger(ledger), true) =
                    (&object, self.has_old_definitions)
                {
                    let mut ledger = ledger.as_ref().clone();
                    ledger.status.iter_mut().for_each(|status| status.dry_run_since = None);
                    object = ledger.into();
                }
                self.answer(with_meta(&object, |of_object| *of_object = meta))
            }
            WriteOperation::Patch { id, .. }
                if id.kind == ResourceKind::Node && self.forbids_taints =>
            {
                let message = "nodes is forbidden".to_owned();
                WriteResult::Refused { refusal: WriteRefusal::Other, message }
            }
            WriteOperation::Patch { patch, .. } => {
                let Some(before) = self.objects.get(&id).cloned() else {
                    return WriteResult::Gone;
                };
                let finalizers: Option<Vec<String>> =
                    typed(patch["metadata"]["finalizers"].clone());
                let patched = with_meta(&before, |meta| {
                    if patch["metadata"].get("finalizers").is_some() {
                        meta.finalizers = finalizers;
                    }
                });
                self.answer(with_spec(patched, &patch["spec"]))
            }
            WriteOperation::Evict(_) => {
                self.evict(&id);
                WriteResult::Done
            }
            WriteOperation::Delete(_) => {
                self.remove(&id);
                WriteResult::Gone
            }
            WriteOperation::CheckAbsent { .. } => match self.objects.get(&id) {
                Some(object) => WriteResult::Stored(object.clone()),
                None => WriteResult::Gone,
            },
            WriteOperation::TryCreate(_) => WriteResult::Done,
            other => panic!("an operator on a cluster does not write this: {other:?}"),
        }
    }

    fn answer(&mut self, object: ViewObject) -> WriteResult {
        let stored = self.store(object);
        self.seen.push_back(WatchUpdate::Applied(stored.clone()));
        WriteResult::Stored(stored)
    }

    /// The kubelet ends the pod, and its ReplicaSet's controller makes another one.
    fn evict(&mut self, id: &ObjectId) {
        let owner = self.objects[id].meta().owner_references.iter().flatten().next().cloned();
        self.remove(id);
        if let Some(owner) = owner {
            self.revision += 1;
            let name = format!("{}-{}", owner.name, self.revision);
            self.pod(&id.name.namespace, &name, Some(&owner.name), json!({}));
        }
    }

    pub(crate) fn remove(&mut self, id: &ObjectId) {
        if let Some(gone) = self.objects.remove(id) {
            self.seen.push_back(WatchUpdate::Deleted(id.clone(), gone.uid().to_owned()));
        }
    }

    /// It is being deleted, and something holds it.
    pub(crate) fn start_deletion(&mut self, id: &ObjectId) {
        let at = self.now.to_time();
        self.put(with_meta(&self.objects[id], |meta| meta.deletion_timestamp = Some(at)));
    }

    pub(crate) fn uid_of(&self, kind: ResourceKind, namespace: &str, name: &str) -> String {
        self.objects[&ObjectId::new(kind, NamespacedName::new(namespace, name))].uid().to_owned()
    }

    /// The ledgers' statuses.
    pub(crate) fn ledgers(&self) -> Vec<(RestartLedger, RestartLedgerStatus)> {
        let all = self.objects.values().filter_map(|object| match object {
            ViewObject::RestartLedger(ledger) => Some(ledger.as_ref().clone()),
            _ => None,
        });
        all.map(|ledger| (ledger.clone(), ledger.status.unwrap_or_default())).collect()
    }

    /// What the only ledger says.
    pub(crate) fn said(&self) -> String {
        let ledgers = self.ledgers();
        assert_eq!(ledgers.len(), 1, "{ledgers:?}");
        ledgers[0].1.message.clone().unwrap_or_default()
    }

    pub(crate) fn requests(&self) -> Vec<PodRestart> {
        let all = self.objects.values().filter_map(|object| match object {
            ViewObject::PodRestart(restart) => Some(restart.as_ref().clone()),
            _ => None,
        });
        all.collect()
    }

    /// What `rekindle report` would show.
    pub(crate) fn report(&self, namespace: Option<&str>) -> ClusterReport {
        let mut view = ClusterView::new();
        for (_, object) in self.objects.iter().filter(|(id, _)| REPORT_KINDS.contains(&id.kind)) {
            view.apply(object.clone());
        }
        cluster_report(&view, namespace)
    }

    /// The condition Accepted of the only ladder: reason and message.
    pub(crate) fn accepted(&self) -> (String, String) {
        let mut ladders = self.objects.values().filter_map(|object| match object {
            ViewObject::RestartLadder(ladder) => ladder.status.clone(),
            _ => None,
        });
        let conditions = ladders.next().and_then(|status| status.conditions).unwrap_or_default();
        let accepted = conditions.into_iter().find(|c| c.type_ == "Accepted").expect("a verdict");
        (accepted.reason, accepted.message)
    }

    pub(crate) fn pod_names(&self) -> Vec<String> {
        let pods = self.objects.keys().filter(|id| id.kind == ResourceKind::Pod);
        pods.map(|id| id.name.to_string()).collect()
    }

    /// Writes of these verbs and kinds, `evict Pod`.
    pub(crate) fn count(&self, what: &str) -> usize {
        self.writes.iter().filter(|write| write.starts_with(what)).count()
    }
}

fn running(count: i64, last: &Value, at: Tick) -> Value {
    json!({
        "phase": "Running", "startTime": at.to_time(),
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at.to_time()}],
        "containerStatuses": [{
            "name": "app", "image": "app", "imageID": "", "ready": true, "restartCount": count,
            "containerID": format!("containerd://{count}"),
            "state": {"running": {"startedAt": at.to_time()}}, "lastState": last,
        }],
    })
}

fn merged(mut base: Value, more: Value) -> Value {
    let more = more.as_object().cloned().unwrap_or_default();
    base.as_object_mut().unwrap().extend(more);
    base
}

/// The object of a write, and what is done to it.
fn named(write: &WriteOperation) -> (&'static str, ObjectId) {
    match write {
        WriteOperation::Create(new) => ("create", new.id()),
        WriteOperation::TryCreate(new) => ("try", new.id()),
        WriteOperation::UpdateStatus(object) => ("status", object.id()),
        WriteOperation::Patch { id, .. } => ("patch", id.clone()),
        WriteOperation::Evict(evict) => ("evict", evict.pod.clone()),
        WriteOperation::Delete(delete) => ("delete", delete.id.clone()),
        WriteOperation::CheckAbsent { id, .. } => ("get", id.clone()),
        other => panic!("an operator on a cluster does not write this: {other:?}"),
    }
}

/// Whether the chart gives the right to a write: in mode act with all of its `rights`. A read
/// changes nothing.
fn is_granted(mode: LadderMode, verb: &str, kind: ResourceKind) -> bool {
    let in_both = match kind {
        ResourceKind::RestartLedger => ["create", "patch", "status", "delete"].contains(&verb),
        ResourceKind::PodRestart => ["get", "patch", "status", "delete"].contains(&verb),
        _ => verb == "get",
    };
    let in_act = match kind {
        ResourceKind::Pod => ["create", "try", "evict"].contains(&verb),
        ResourceKind::PodRestart => verb == "create",
        ResourceKind::RestartLadder => verb == "status",
        ResourceKind::Node => verb == "patch",
        _ => false,
    };
    in_both || (mode == LadderMode::Act && in_act)
}

fn without_status(object: &ViewObject) -> ViewObject {
    match object {
        ViewObject::RestartLedger(ledger) => {
            RestartLedger { status: None, ..ledger.as_ref().clone() }.into()
        }
        ViewObject::PodRestart(restart) => {
            PodRestart { status: None, ..restart.as_ref().clone() }.into()
        }
        other => other.clone(),
    }
}

fn with_spec(object: ViewObject, spec: &Value) -> ViewObject {
    match object {
        ViewObject::RestartLedger(ledger) if !spec.is_null() => {
            RestartLedger { spec: typed(spec.clone()), ..ledger.as_ref().clone() }.into()
        }
        ViewObject::Node(node) => {
            Node { spec: Some(typed(spec.clone())), ..node.as_ref().clone() }.into()
        }
        other => other,
    }
}

fn with_meta(object: &ViewObject, change: impl FnOnce(&mut ObjectMeta)) -> ViewObject {
    macro_rules! changed {
        ($($kind:ident),*) => {
            match object {
                $(ViewObject::$kind(inner) => {
                    let mut inner = inner.as_ref().clone();
                    change(&mut inner.metadata);
                    ViewObject::from(inner)
                })*
                other => panic!("not played here: {other:?}"),
            }
        };
    }
    changed!(Pod, Node, Namespace, ReplicaSet, RestartLadder, RestartLedger, PodRestart)
}
