//! The world: one thread, one virtual clock. API, controllers, ladder and pod cores are the real ones; what stands between them in
//! production (watches, tasks, timers) is this loop.
//!
//! ```text
//!   queue of what will happen ─► time goes on ─► API ─► watch ─► desk (controllers, ladder) ─► writes ─► API …
//!                                                        └─► pod cores on their nodes ─► effects ─► queue
//! ```

use std::collections::{BTreeMap, BTreeSet};

use futures::FutureExt;
use http::Method;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rekindle_controllers::events::{Note, Recorder, Severity};
use rekindle_controllers::{Kind, NamespacedName, Object, ObjectId};
use rekindle_ladder::Limits;
use rekindle_operator::{Desk, Seen, Task, Writer, kinds, object_of, path};
use rekindle_pod::{ActionId, Config, ContainerKey, Outcome, PodEvent, RestartRequest, Series};
use rekindle_store::{Event as Stored, Watch};
use rekindle_types::v1alpha1::{CarriedOutBy, PodRestart, PodRestartPhase, Refresh, Rung};
use rekindle_types::{ExitStatus, Tick, TickDuration};
use serde_json::{Value, json};

use crate::agent::{Effect, PodOnNode};
use crate::behaviour::Behaviour;
use crate::error::SimError;
use crate::server::{Figures, Server};
use crate::trace::Trace;

/// When every run begins: 2026-01-01 00:00 UTC.
pub const BEGIN: Tick = Tick::from_secs(1_767_225_600);
/// More rounds than anything needs at one moment.
const ROUNDS_MAX: usize = 20_000;
const MERGE_PATCH: &str = "application/merge-patch+json";

/// Something that will happen.
#[derive(Clone, Debug)]
enum Happening {
    Answer { uid: String, incarnation: u32, id: ActionId, outcome: Outcome },
    Ends { uid: String, key: ContainerKey, status: ExitStatus },
    Timer { uid: String },
}

/// A cluster in virtual time.
pub struct World {
    now: Tick,
    number: u64,
    coming: BTreeMap<(Tick, u64), Happening>,
    timers: BTreeMap<String, Tick>,
    server: Server,
    watch: Watch,
    desk: Desk,
    behaviours: Vec<Behaviour>,
    config: Config,
    nodes: BTreeSet<String>,
    pods: BTreeMap<String, PodOnNode>,
    recorder: Recorder,
    addresses: u32,
    restarts: BTreeMap<String, u64>,
    rungs: BTreeMap<String, u64>,
    trace: Trace,
    broken: Option<String>,
}

impl World {
    /// A new cluster of so many nodes.
    ///
    /// # Errors
    /// When the API core refuses what every cluster has.
    pub fn new(
        seed: u64,
        nodes: usize,
        behaviours: Vec<Behaviour>,
        config: Config,
    ) -> Result<Self, SimError> {
        let (server, watch) = Server::new(seed, BEGIN)?;
        let mut desk = Desk::new(Limits::default());
        for kind in kinds() {
            desk.see(BEGIN, Seen::List(kind, Vec::new()));
        }
        let mut world = Self {
            now: BEGIN,
            number: 0,
            coming: BTreeMap::new(),
            timers: BTreeMap::new(),
            server,
            watch,
            desk,
            behaviours,
            config,
            nodes: BTreeSet::new(),
            pods: BTreeMap::new(),
            recorder: Recorder::new(),
            addresses: u32::from_be_bytes([10, 0, 0, 1]),
            restarts: BTreeMap::new(),
            rungs: BTreeMap::new(),
            trace: Trace::default(),
            broken: None,
        };
        for index in 0..nodes {
            world.add_node(&format!("node-{index}"))?;
        }
        world.rest()?;
        Ok(world)
    }

    fn add_node(&mut self, name: &str) -> Result<(), SimError> {
        let time = BEGIN.to_time();
        let amounts =
            json!({"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "500Gi"});
        let status = json!({
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "KubeletReady",
                "message": "kubelet is posting ready status",
                "lastHeartbeatTime": time, "lastTransitionTime": time,
            }],
        });
        let labels = json!({"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"});
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": status,
        });
        self.apply(&node)?;
        let path = format!("/api/v1/nodes/{name}/status");
        self.call(Method::PATCH, &path, MERGE_PATCH, &json!({"status": status}));
        self.nodes.insert(name.to_owned());
        Ok(())
    }

    /// Creates an object, or changes the one that is there to what this says.
    ///
    /// # Errors
    /// When the API refuses it, in its words.
    pub fn apply(&mut self, object: &Value) -> Result<(), SimError> {
        let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let (namespace, name) =
            (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
        let refused =
            |message: String| SimError::Refused { object: format!("{kind} {name}"), message };
        let known = Kind::of_reference(&api_version, &kind)
            .ok_or_else(|| refused(format!("there is no kind {kind} in {api_version:?} here")))?;
        let namespace = match known.info().scope {
            rekindle_controllers::kind::Scope::Cluster => String::new(),
            rekindle_controllers::kind::Scope::Namespaced if namespace.is_empty() => {
                "default".to_owned()
            }
            rekindle_controllers::kind::Scope::Namespaced => namespace,
        };
        let id = ObjectId::new(known, NamespacedName::new(namespace, name.as_str()));
        let (mut code, mut answer) = self.call(
            Method::POST,
            &rekindle_operator::collection(&id),
            "application/json",
            object,
        );
        if code == 409 {
            (code, answer) = self.call(Method::PATCH, &path(&id, ""), MERGE_PATCH, object);
        }
        if code >= 300 {
            return Err(refused(text(&answer["message"])));
        }
        self.trace.add(self.now, &format!("apply {id}"));
        Ok(())
    }

    /// Lets time go on until so long after the beginning.
    ///
    /// # Errors
    /// When something moves in a circle, or the store fails.
    pub fn run_until(&mut self, end: TickDuration) -> Result<(), SimError> {
        let end = BEGIN + end;
        self.rest()?;
        while let Some(next) = self.next_moment().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self.server.set_time(self.now)?;
            while let Some(entry) = self.coming.first_entry()
                && entry.key().0 <= self.now
            {
                let happening = entry.remove();
                self.happen(happening);
            }
            self.rest()?;
        }
        self.now = end;
        self.server.set_time(end)
    }

    /// The agents of all nodes die and start again; containers go on.
    ///
    /// # Errors
    /// When something moves in a circle.
    pub fn crash_agents(&mut self) -> Result<(), SimError> {
        self.trace.add(self.now, "every agent crashes");
        let uids: Vec<String> = self.pods.keys().cloned().collect();
        for uid in uids {
            if let Some(pod) = self.pods.get_mut(&uid) {
                pod.agent_crashes(self.now);
            }
            self.act(&uid);
        }
        self.rest()
    }

    /// How many times containers were started again.
    pub fn restarts(&self) -> u64 {
        self.restarts.values().sum()
    }

    /// The same by pod, as namespace/name.
    pub const fn restarts_by_pod(&self) -> &BTreeMap<String, u64> {
        &self.restarts
    }

    /// Restart requests that succeeded, by rung.
    pub const fn rungs(&self) -> &BTreeMap<String, u64> {
        &self.rungs
    }

    /// What was asked of the API.
    pub fn figures(&self) -> Figures {
        self.server.figures()
    }

    /// What happened.
    pub const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The first promise that did not hold.
    pub fn broken_promise(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// All pods, and those of them that are Ready.
    pub fn readiness(&self) -> (usize, usize) {
        let pods = self.desk.view().of_kind(Kind::Pod).map(|(_, object)| object);
        pods.fold((0, 0), |(all, ready), object| match object {
            Object::Pod(pod) => (all + 1, ready + usize::from(is_ready(pod))),
            _ => (all, ready),
        })
    }

    fn next_moment(&self) -> Option<Tick> {
        let coming = self.coming.keys().next().map(|(at, _)| *at);
        [coming, self.desk.next_due(), self.server.next_expiry()].into_iter().flatten().min()
    }

    fn happen(&mut self, happening: Happening) {
        let uid = match happening {
            Happening::Answer { uid, incarnation, id, outcome } => {
                let pod = self.pods.get_mut(&uid);
                let Some(pod) = pod.filter(|pod| pod.incarnation == incarnation) else { return };
                pod.answered(self.now, id, outcome);
                uid
            }
            Happening::Ends { uid, key, status } => {
                let Some(pod) = self.pods.get_mut(&uid) else { return };
                self.trace
                    .add(self.now, &format!("{}: {key:?} ends {status:?}", name_of(&pod.pod)));
                pod.exits(self.now, key, status);
                uid
            }
            Happening::Timer { uid } => {
                let Some(pod) = self.pods.get_mut(&uid) else { return };
                self.timers.remove(&uid);
                pod.core.handle_timeout(self.now);
                uid
            }
        };
        self.act(&uid);
    }

    /// Until nothing more happens at this moment.
    fn rest(&mut self) -> Result<(), SimError> {
        for _ in 0..ROUNDS_MAX {
            let mut moved = false;
            while let Some(event) = self.watch.try_next() {
                moved = true;
                self.see(&event?);
            }
            self.desk.begin_due(self.now);
            while let Some(task) = self.desk.poll_task() {
                moved = true;
                self.carry_out(task);
            }
            if !moved {
                return Ok(());
            }
        }
        let last = self.trace.last_lines().last().unwrap_or_default().to_owned();
        Err(SimError::Circle { steps: ROUNDS_MAX, last })
    }

    fn carry_out(&mut self, task: Task) {
        let writer = Writer::new(self.server.clone());
        match task {
            Task::Write(work, step) => {
                let outcome = writer.carry_out(&step.write).now_or_never();
                let outcome = outcome.expect("the server answers at once");
                self.trace.add(self.now, &format!("{work}: {}", outcome_name(&outcome)));
                self.desk.settle(self.now, &work, &step, outcome);
            }
            Task::Record(event) => {
                writer.record(event).now_or_never().expect("the server answers at once");
            }
        }
    }

    /// What the watch shows goes to the desk and to the nodes.
    fn see(&mut self, event: &Stored) {
        let (stored, revision) = match event {
            Stored::Put { object, .. } => (object, object.revision),
            Stored::Delete { previous, revision } => (previous, *revision),
        };
        let Some(kind) = kind_of_key(stored.key.as_str()) else { return };
        let Ok(mut value) = serde_json::from_slice::<Value>(&stored.value) else { return };
        value["metadata"]["resourceVersion"] = revision.0.to_string().into();
        let Ok(object) = object_of(kind, value) else { return };
        match event {
            Stored::Put { .. } => {
                self.tell_nodes(&object);
                self.desk.see(self.now, Seen::Applied(object));
            }
            Stored::Delete { .. } => {
                if let Some(pod) = self.pods.get_mut(object.uid()) {
                    pod.vanished(self.now);
                    self.act(object.uid());
                }
                let uid = object.uid().to_owned();
                self.desk.see(self.now, Seen::Deleted(object.id(), uid));
            }
        }
    }

    fn tell_nodes(&mut self, object: &Object) {
        if let Object::PodRestart(restart) = object {
            self.tell_restart(restart);
        }
        let Object::Pod(pod) = object else { return };
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let Some(node) = node.filter(|node| self.nodes.contains(*node)) else { return };
        let uid = object.uid().to_owned();
        match self.pods.get_mut(&uid) {
            Some(known) => known.updated(self.now, pod.clone()),
            None => {
                self.addresses += 1;
                let config = self.config.clone();
                let made = PodOnNode::new(self.now, pod.clone(), node, config, self.addresses);
                self.trace.add(self.now, &format!("{}: taken up by {node}", name_of(pod)));
                self.pods.insert(uid.clone(), made);
            }
        }
        self.act(&uid);
    }

    fn tell_restart(&mut self, restart: &PodRestart) {
        let rung = restart.spec.rung.unwrap_or(Rung::Pod);
        let phase = restart.status.as_ref().and_then(|status| status.phase);
        if rung.carried_out_by() != CarriedOutBy::Node
            || phase.is_some_and(PodRestartPhase::is_final)
        {
            return;
        }
        let Some(id) = restart.metadata.uid.clone() else { return };
        let object = NamespacedName::of(&restart.metadata);
        let found = self.pods.iter_mut().find(|(_, pod)| {
            let name = NamespacedName::of(&pod.pod.metadata);
            name.namespace == object.namespace && name.name == restart.spec.pod_name
        });
        let Some((uid, pod)) = found else { return };
        let grace = restart.spec.grace_period_seconds;
        let request = RestartRequest {
            id,
            name: object.name.clone(),
            rung,
            refresh: restart.spec.refresh.clone().unwrap_or_else(|| Refresh::ALL.to_vec()),
            grace: grace.map(|s| TickDuration::from_secs(u64::try_from(s).unwrap_or(0))),
            reason: restart.spec.reason.clone().unwrap_or_default(),
            series: match restart.spec.ladder_name {
                Some(_) => Series::GoesOn,
                None => Series::Anew,
            },
        };
        pod.restart(self.now, request, (object.namespace, object.name));
        let uid = uid.clone();
        self.act(&uid);
    }

    /// Carries out what a pod's core asks for, and sets its timer.
    fn act(&mut self, uid: &str) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let effects = pod.act(self.now, &self.behaviours, BEGIN);
        if self.broken.is_none() {
            self.broken = pod.broken_promise();
        }
        let incarnation = pod.incarnation;
        for effect in effects {
            let uid = uid.to_owned();
            match effect {
                Effect::Answer(after, id, outcome) => {
                    self.later(after, Happening::Answer { uid, incarnation, id, outcome });
                }
                Effect::Ends(after, key, status) => {
                    self.later(after, Happening::Ends { uid, key, status });
                }
                Effect::Status(status) => self.write_status(&uid, &status),
                Effect::Event(event) => self.record(&uid, event),
                Effect::Report(id, phase, message, at) => {
                    self.report(&uid, &id, phase, &message, at)
                }
                Effect::Finished => self.finish(&uid),
            }
        }
        self.set_timer(uid);
    }

    fn later(&mut self, after: TickDuration, happening: Happening) {
        self.number += 1;
        self.coming.insert((self.now + after, self.number), happening);
    }

    fn set_timer(&mut self, uid: &str) {
        let Some(due) = self.pods.get(uid).and_then(|pod| pod.core.poll_timeout()) else { return };
        // a deadline that has passed already must not stop the clock
        let due = due.max(self.now + TickDuration::from_micros(1));
        if self.timers.get(uid).is_none_or(|set| *set > due || *set <= self.now) {
            self.timers.insert(uid.to_owned(), due);
            self.number += 1;
            self.coming.insert((due, self.number), Happening::Timer { uid: uid.to_owned() });
        }
    }

    fn write_status(&mut self, uid: &str, status: &PodStatus) {
        let Some(pod) = self.pods.get(uid) else { return };
        let id = Object::Pod(pod.pod.clone()).id();
        let patch = json!({"metadata": {"uid": uid}, "status": status});
        let counts =
            status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
        let restarts: u64 = counts.map(|c| u64::try_from(c.restart_count).unwrap_or(0)).sum();
        let known = self.restarts.entry(format!("{} {uid}", id.name)).or_default();
        if restarts < *known && self.broken.is_none() {
            self.broken = Some(format!("P3: restartCount of {id} fell from {known} to {restarts}"));
        }
        *known = restarts;
        self.trace.add(self.now, &format!("{id}: {:?}, {restarts} restarts", status.phase));
        self.call(Method::PATCH, &path(&id, "/status"), MERGE_PATCH, &patch);
    }

    fn record(&mut self, uid: &str, event: PodEvent) {
        let Some(pod) = self.pods.get(uid) else { return };
        let severity = match event.severity {
            rekindle_pod::Severity::Normal => Severity::Normal,
            rekindle_pod::Severity::Warning => Severity::Warning,
        };
        let about = Object::Pod(pod.pod.clone());
        let note = Note::new(&about, severity, event.reason, event.message, "kubelet");
        let Some(write) = self.recorder.record(note, self.now) else { return };
        self.carry_out(Task::Record(write));
    }

    fn report(&mut self, uid: &str, id: &str, phase: PodRestartPhase, message: &str, at: Tick) {
        let object = self.pods.get(uid).and_then(|pod| pod.requests.get(id)).cloned();
        let Some((namespace, name)) = object else { return };
        let id_of = ObjectId::new(Kind::PodRestart, NamespacedName::new(namespace, name));
        let mut status = json!({"phase": phase, "message": message});
        let reached = if phase.is_final() { "finishedAt" } else { "startedAt" };
        status[reached] = json!(at.to_time());
        if phase == PodRestartPhase::Succeeded {
            *self.rungs.entry("in place".to_owned()).or_default() += 1;
        }
        self.trace.add(self.now, &format!("{id_of}: {phase:?} {message}"));
        let patch = json!({"metadata": {"uid": id}, "status": status});
        self.call(Method::PATCH, &path(&id_of, "/status"), MERGE_PATCH, &patch);
    }

    /// The pod is over. Its object goes if it is being deleted.
    fn finish(&mut self, uid: &str) {
        let Some(pod) = self.pods.get(uid) else { return };
        let id = Object::Pod(pod.pod.clone()).id();
        if pod.pod.metadata.deletion_timestamp.is_some() {
            let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
            self.call(Method::DELETE, &path(&id, ""), "application/json", &options);
            self.pods.remove(uid);
            self.trace.add(self.now, &format!("{id}: gone"));
        }
    }

    fn call(&self, method: Method, path: &str, kind: &str, body: &Value) -> (u16, Value) {
        self.server.call(method, path, kind, body.to_string().into_bytes())
    }
}

fn kind_of_key(key: &str) -> Option<Kind> {
    let resource = key.split('/').nth(1)?;
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    kinds().find(|kind| kind.info().plural == plural && kind.info().group == group)
}

fn name_of(pod: &Pod) -> NamespacedName {
    NamespacedName::of(&pod.metadata)
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn outcome_name(outcome: &rekindle_controllers::Outcome) -> String {
    use rekindle_controllers::Outcome as Went;
    match outcome {
        Went::Stored(object) => format!("wrote {}", object.id()),
        Went::Gone => "gone".to_owned(),
        Went::Done => "done".to_owned(),
        Went::Refused { message, .. } => format!("refused: {message}"),
        Went::Unknown { message } => format!("unknown: {message}"),
    }
}
