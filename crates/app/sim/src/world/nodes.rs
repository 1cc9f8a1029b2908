//! The nodes of a world: what they see, what their pods' cores ask for, and what they write. A node
//! costs nothing while nothing happens on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use http::Method;
use k8s_openapi::api::core::v1::Pod;
use rekindle_controllers::events::EventNote;
use rekindle_controllers::{NamespacedName, ObjectId, ResourceKind, ViewObject};
use rekindle_pod::{Loss, PodEvent};
use rekindle_pod_driver::{StatusAnswer, StatusToWrite};
use rekindle_reconcile::PlannerTask;
use rekindle_types::TickDuration;
use rekindle_types::labels::default_node_labels;
use rekindle_types::pods::AnyPod;
use serde_json::{Value, json};

use super::{BEGIN, MERGE_PATCH, ScheduledEvent, World, collection, name_of, path};
use crate::agent::{SimulatedPod, TimedEffect, WriteBacklog};
use crate::error::SimError;
use crate::faults::WriteFate;
use crate::known_bugs::KnownBug;

/// That of every simulated machine, whatever this one is: the same file gives the same run
/// everywhere.
const ARCHITECTURE: &str = "amd64";
/// What a node hears of a write that does not reach the API.
pub(super) const UNAVAILABLE: u16 = 503;
/// After this a write that failed is tried again.
const RETRY: TickDuration = TickDuration::from_secs(1);
/// After which a node says again how it stands, as the agent does.
const STATUS_PERIOD: TickDuration = TickDuration::from_secs(300);

impl World {
    pub(super) fn add_node(&mut self, name: &str) -> Result<(), SimError> {
        let node = self.node_object(name);
        self.apply(&node)?;
        self.call(
            Method::PATCH,
            &node_status(name),
            MERGE_PATCH,
            &json!({"status": node["status"]}),
        );
        self.nodes.insert(name.to_owned());
        Ok(())
    }

    /// A node as its agent registers it.
    fn node_object(&self, name: &str) -> Value {
        let amounts =
            json!({"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "500Gi"});
        let mut status = self.node_ready();
        status["allocatable"] = amounts.clone();
        status["capacity"] = amounts;
        let labels = default_node_labels(name, ARCHITECTURE);
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": status,
        })
    }

    /// The agent of a node whose Node was deleted makes it again. The code of the last write.
    pub(super) fn register(&mut self, name: &str) -> u16 {
        let node = self.node_object(name);
        let (code, _) = self.call(Method::POST, "/api/v1/nodes", "application/json", &node);
        self.trace.add(self.now, &format!("{name} registers: {code}"));
        if code >= 500 {
            return code;
        }
        self.keepers.registered(name);
        self.call(
            Method::PATCH,
            &node_status(name),
            MERGE_PATCH,
            &json!({"status": node["status"]}),
        )
        .0
    }

    /// The conditions of a node whose agent is well.
    fn node_ready(&self) -> Value {
        let time = self.now.to_time();
        json!({"conditions": [{
            "type": "Ready", "status": "True", "reason": "KubeletReady",
            "message": "kubelet is posting ready status",
            "lastHeartbeatTime": time, "lastTransitionTime": time,
        }]})
    }

    /// These nodes lose their network. Their Leases are written this once: of a node that is not
    /// waited for nobody would notice that it is silent, and renewals of all others every ten
    /// seconds would tell nobody anything.
    pub(super) fn cut(&mut self, nodes: &BTreeSet<String>) {
        for name in nodes {
            let times = self.cut_off.entry(name.clone()).or_default();
            *times += 1;
            if *times > 1 {
                continue;
            }
            self.trace.add(self.now, &format!("{name} loses its network"));
            let id = lease_of(name);
            let lease = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": name, "namespace": id.name.namespace},
                "spec": {
                    "holderIdentity": name, "leaseDurationSeconds": 40,
                    "renewTime": self.now.to_micro_time(),
                },
            });
            self.server.uncounted(|| {
                let (code, _) =
                    self.call(Method::POST, &collection(&id), "application/json", &lease);
                if code == 409 {
                    self.call(Method::PATCH, &path(&id, ""), MERGE_PATCH, &lease);
                }
            });
        }
        self.count_reachable();
    }

    pub(super) fn count_reachable(&mut self) {
        let lost: BTreeSet<String> = self.cut_off.keys().cloned().collect();
        self.availability.cut_off(&lost);
        self.faults.spare(lost);
    }

    /// One loss of these nodes' network is over. Those that had no other have it again: they see
    /// what they missed, and write what they could not.
    pub(super) fn mend(&mut self, nodes: &BTreeSet<String>) {
        let mut back = BTreeSet::new();
        for name in nodes {
            let Some(times) = self.cut_off.get_mut(name) else { continue };
            *times -= 1;
            if *times == 0 {
                self.cut_off.remove(name);
                back.insert(name.clone());
            }
        }
        let pods = self.pods_by_node();
        for name in &back {
            self.check_overdue(name, pods.get(name).map_or(&[], Vec::as_slice));
            self.trace.add(self.now, &format!("{name} has its network again"));
            self.say_ready(name);
            // controllers that heard nothing meanwhile may say after that that it is not heard of
            self.later(STATUS_PERIOD, ScheduledEvent::NodeSpeaks(name.clone()));
        }
        self.resync_all(&back);
        self.count_reachable();
    }

    /// All pods as they are stored, by their nodes.
    fn pods_by_node(&self) -> BTreeMap<String, Vec<Arc<Pod>>> {
        let mut by_node: BTreeMap<String, Vec<Arc<Pod>>> = BTreeMap::new();
        for pod in self.server.pods() {
            let Some(node) = pod.node_name().map(str::to_owned) else { continue };
            by_node.entry(node).or_default().push(pod);
        }
        by_node
    }

    /// A node says that it is ready, until it is heard: the API's disk may be full.
    pub(super) fn say_ready(&mut self, name: &str) {
        if self.cut_off.contains_key(name) || !self.nodes.contains(name) {
            return; // lost once more meanwhile, or gone for good
        }
        let status = match self.keepers.is_registered(name) {
            true => {
                let patch = json!({"status": self.node_ready()});
                let path = node_status(name);
                let patch = || self.call(Method::PATCH, &path, MERGE_PATCH, &patch);
                self.server.uncounted(patch).0
            }
            false => self.register(name),
        };
        let lease = super::path(&lease_of(name), "");
        let delete = || self.call(Method::DELETE, &lease, "application/json", &json!({}));
        let (lease, _) = self.server.uncounted(delete);
        if status.max(lease) >= 500 {
            self.later(RETRY, ScheduledEvent::NodeSpeaks(name.to_owned()));
        }
    }

    /// A node looks at everything anew, as after a list.
    pub(super) fn resync(&mut self, node: &str) {
        self.resync_all(&BTreeSet::from([node.to_owned()]));
    }

    /// The same for many: everything is read once.
    fn resync_all(&mut self, nodes: &BTreeSet<String>) {
        let all = self.server.pods();
        let there: Vec<&Arc<Pod>> = all
            .iter()
            .filter(|pod| pod.node_name().is_some_and(|node| nodes.contains(node)))
            .collect();
        let present: BTreeSet<&str> =
            there.iter().filter_map(|pod| pod.metadata.uid.as_deref()).collect();
        let known = self.pods.iter().filter(|(_, pod)| nodes.contains(&pod.node));
        let known: Vec<String> = known.map(|(uid, _)| uid.clone()).collect();
        for uid in known {
            if !present.contains(uid.as_str()) {
                self.vanish(&uid, Loss::Missing);
            }
            self.catch_up(&uid);
        }
        for pod in there {
            self.tell_pod(pod);
        }
        self.resync_restarts(nodes);
        self.resync_volumes();
    }

    /// Writes what a pod's node could not write before.
    pub(super) fn catch_up(&mut self, uid: &str) {
        let answer = self.unwritten();
        let Some(pod) = self.pods.get_mut(uid) else { return };
        pod.backlog.is_retried = false;
        if self.cut_off.contains_key(&pod.node) {
            return;
        }
        let reports = std::mem::take(&mut pod.backlog.reports);
        let is_finished = pod.backlog.finished;
        if std::mem::take(&mut pod.backlog.is_status_sent) {
            pod.status_answered(self.now, answer);
        }
        for report in reports {
            self.report(uid, report);
        }
        if is_finished {
            self.finish(uid);
        }
        self.set_timer(uid);
    }

    /// The object of a pod is gone.
    pub(super) fn vanish(&mut self, uid: &str, loss: Loss) {
        if !self.pods.get(uid).is_some_and(|pod| self.hears(&pod.node)) {
            return;
        }
        let Some(pod) = self.pods.get_mut(uid) else { return };
        pod.vanished(self.now, loss);
        self.act(uid);
    }

    pub(super) fn tell_nodes(&mut self, object: &ViewObject) {
        match object {
            ViewObject::PodRestart(restart) => self.tell_restart(restart),
            ViewObject::PersistentVolumeClaim(claim) => self.tell_claim(claim),
            ViewObject::PersistentVolume(volume) => self.tell_volume(volume),
            _ => {}
        }
    }

    /// Whether a node sees what happens in the API.
    pub(super) fn hears(&self, node: &str) -> bool {
        !self.cut_off.contains_key(node) && !self.deaf.contains_key(node)
    }

    /// What happens to a pod, its node sees.
    pub(super) fn tell_pod(&mut self, pod: &Arc<Pod>) {
        let node = pod.node_name().filter(|node| self.nodes.contains(*node));
        let Some(node) = node.filter(|node| self.hears(node)) else { return };
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        match self.pods.get_mut(uid) {
            Some(known) => known.updated(self.now, pod.clone()),
            None => {
                self.addresses += 1;
                let config = self.config.clone();
                let clock = self.clocks.of_agent(node);
                let at = (self.now, clock);
                let mut made = SimulatedPod::new(at, pod.clone(), node, config, self.addresses);
                made.origin = self.replaced.origin_of(pod);
                match (self.namesake(pod), self.faults.bug) {
                    (Some(before), Some(KnownBug::BackoffOfNamesake)) => {
                        made.inherit_backoff(self.now, &before);
                    }
                    (Some(before), Some(_) | None) => made.inherit(*before),
                    (None, Some(_) | None) => {}
                }
                self.trace.add(self.now, &format!("{}: taken up by {node}", name_of(pod)));
                self.note_place(uid, node);
                self.pods.insert(uid.to_owned(), Box::new(made));
                self.pods_by_name.insert(name_of(pod), uid.to_owned());
            }
        }
        self.act(uid);
    }

    /// What is left of an earlier pod of that name: taken over by mistake, when that bug is
    /// switched on.
    fn namesake(&mut self, pod: &Pod) -> Option<Box<SimulatedPod>> {
        self.leftovers.remove(&name_of(pod))
    }

    /// Carries out what a pod's core asks for, and sets its timer.
    pub(super) fn act(&mut self, uid: &str) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let effects = pod.act(self.now, &self.behaviours, BEGIN, &mut self.faults);
        let (broken, incarnation) = (pod.broken_promise(), pod.incarnation);
        self.behaviours_used.extend(std::mem::take(&mut pod.behaviours_used));
        self.behaviours_probed.extend(std::mem::take(&mut pod.behaviours_probed));
        let dead = std::mem::take(&mut pod.died).then(|| pod.node.clone());
        if let Some(broken) = broken {
            self.breaks(&broken);
        }
        self.check_names(uid);
        self.check_barrier(uid);
        self.take_effects(uid, incarnation, effects);
        match dead {
            Some(node) => self.crash_agent(&node),
            None => self.set_timer(uid),
        }
    }

    /// The time of a behaviour begins or is over.
    pub(super) fn behaviours_turn(&mut self) {
        let uids: Vec<String> = self.pods.keys().cloned().collect();
        for uid in uids {
            let Some(pod) = self.pods.get_mut(&uid) else { continue };
            let effects = pod.decide_anew(&self.behaviours, self.now.since(BEGIN));
            let incarnation = pod.incarnation;
            self.behaviours_used.extend(std::mem::take(&mut pod.behaviours_used));
            self.behaviours_probed.extend(std::mem::take(&mut pod.behaviours_probed));
            self.take_effects(&uid, incarnation, effects);
        }
    }

    fn take_effects(&mut self, uid: &str, incarnation: u32, effects: Vec<TimedEffect>) {
        for effect in effects {
            match effect {
                TimedEffect::Answer(after, id, result) => {
                    let uid = uid.to_owned();
                    self.later(after, ScheduledEvent::Answer { uid, incarnation, id, result });
                }
                TimedEffect::Ends(after, key, status) => {
                    self.later(after, ScheduledEvent::Ends { uid: uid.to_owned(), key, status });
                }
                TimedEffect::Status(status) => self.write_status(uid, status),
                TimedEffect::Event(event) => self.record(uid, event),
                TimedEffect::Report(report) => self.report(uid, report),
                TimedEffect::Finished => self.finish(uid),
            }
        }
    }

    fn set_timer(&mut self, uid: &str) {
        let Some(due) = self.pods.get(uid).and_then(|pod| pod.next_due()) else { return };
        // a deadline that has passed already must not stop the clock
        let due = due.max(self.now + TickDuration::from_micros(1));
        if self.timers.get(uid).is_none_or(|set| *set > due || *set <= self.now) {
            self.timers.insert(uid.to_owned(), due);
            self.number += 1;
            self.coming
                .insert((due, self.number), ScheduledEvent::Timer { uid: uid.to_owned(), due });
        }
    }

    /// Writes a status as its driver wants it. A pod that is over goes when the last one is
    /// written.
    fn write_status(&mut self, uid: &str, write: StatusToWrite) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        if self.cut_off.contains_key(&pod.node) {
            pod.backlog.is_status_sent = true;
            return;
        }
        let answer = self.patch_status(uid, write);
        let Some(pod) = self.pods.get_mut(uid) else { return };
        pod.status_answered(self.now, answer);
        if pod.backlog.finished {
            self.finish(uid);
        }
    }

    /// What becomes of a status that did not reach the API.
    fn unwritten(&self) -> StatusAnswer {
        match self.faults.bug {
            Some(KnownBug::StatusClaimed) => StatusAnswer::Written(None),
            Some(_) | None => StatusAnswer::Retry(None),
        }
    }

    /// What the API answers, or what the node reads when it has no answer.
    fn patch_status(&mut self, uid: &str, write: StatusToWrite) -> StatusAnswer {
        let StatusToWrite { mut status, base } = write;
        let Some(pod) = self.pods.get_mut(uid) else { return StatusAnswer::Gone };
        if self.faults.bug == Some(KnownBug::CountFrozen) {
            let counts = Arc::make_mut(&mut status).container_statuses.iter_mut().flatten();
            counts.for_each(|container| container.restart_count = 0);
        }
        let id = ObjectId::new(ResourceKind::Pod, name_of(&pod.pod));
        let counts =
            status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
        let restarts: u64 = counts.map(|c| u64::try_from(c.restart_count).unwrap_or(0)).sum();
        let known = std::mem::replace(&mut pod.restarts, restarts);
        self.restarts_total += restarts.saturating_sub(known);
        if restarts < known {
            self.breaks(&format!("P3: restartCount of {id} fell from {known} to {restarts}"));
        }
        self.restarts.insert((id.name.clone(), uid.to_owned()), restarts);
        self.trace.add(self.now, &format!("{id}: {:?}, {restarts} restarts", status.phase));
        let fate = self.faults.write_fate();
        if fate == WriteFate::Lost {
            return self.unwritten();
        }
        let patch = base.patch(uid, &status);
        let (code, _) = self.call(Method::PATCH, &path(&id, "/status"), MERGE_PATCH, &patch);
        if code >= 500 {
            return StatusAnswer::Retry(None);
        }
        let newest = self.server.written_pod(&id.name);
        let newest = newest.filter(|newest| newest.metadata.uid.as_deref() == Some(uid));
        match (newest, code) {
            (None, _) => StatusAnswer::Gone,
            (newest, 409) => StatusAnswer::Retry(newest),
            (newest, _) if fate == WriteFate::DoneUnsaid => StatusAnswer::Retry(newest),
            (newest, _) => StatusAnswer::Written(newest),
        }
    }

    /// What could not be written is tried again after a while.
    pub(super) fn write_later(&mut self, uid: &str, keep: impl FnOnce(&mut WriteBacklog)) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        keep(&mut pod.backlog);
        // one for each write that failed would have each of them tried by all, twice as often each
        // time
        if !std::mem::replace(&mut pod.backlog.is_retried, true) {
            self.later(RETRY, ScheduledEvent::CatchUp { uid: uid.to_owned() });
        }
    }

    fn record(&mut self, uid: &str, event: PodEvent) {
        let Some(pod) = self.pods.get(uid) else { return };
        if self.cut_off.contains_key(&pod.node) {
            return; // an event that cannot be written is lost
        }
        let about = ViewObject::Metadata(ResourceKind::Pod, Arc::new(pod.pod.metadata.clone()));
        let note = EventNote::new(&about, event.severity, event.reason, event.message, "kubelet");
        let node = pod.node.clone();
        self.say(&node, note);
    }

    /// The agent of a node writes an event.
    pub(super) fn say(&mut self, node: &str, note: EventNote) {
        let recorder = self.recorders.entry(node.to_owned()).or_default();
        let Some(write) = recorder.record(note, self.now) else { return };
        self.carry_out(PlannerTask::Record(write));
    }

    /// The pod is over. Its object goes if it is being deleted, and when all is written.
    fn finish(&mut self, uid: &str) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let is_told = pod.driver.is_status_settled() && pod.backlog.reports.is_empty();
        pod.backlog.finished = !is_told || self.cut_off.contains_key(&pod.node);
        if pod.backlog.finished {
            return;
        }
        let id = ObjectId::new(ResourceKind::Pod, name_of(&pod.pod));
        let pod_runs = pod.running().next().is_some();
        let pod_stands = pod.sandboxes().next().is_some();
        if pod.pod.metadata.deletion_timestamp.is_some() {
            let code = match self.faults.write_fate() {
                WriteFate::Lost => UNAVAILABLE,
                WriteFate::Well | WriteFate::DoneUnsaid | WriteFate::Conflict => {
                    self.delete_object(&id, uid)
                }
            };
            if code >= 500 {
                return self.write_later(uid, |backlog| backlog.finished = true);
            }
        } else if !pod.has_vanished() {
            return;
        }
        if pod_runs {
            self.breaks(&format!("P1: {id} is gone, and a container of it runs"));
        }
        if pod_stands {
            self.breaks(&format!("P1: {id} is gone, and its sandbox stands"));
        }
        let gone = self.pods.remove(uid);
        gone.iter().for_each(|gone| self.tally_gone += gone.tally);
        if let Some(KnownBug::SandboxOfNamesake | KnownBug::BackoffOfNamesake) = self.faults.bug {
            self.leftovers.extend(gone.map(|gone| (id.name.clone(), gone)));
        }
        if self.pods_by_name.get(&id.name).is_some_and(|of| of == uid) {
            self.pods_by_name.remove(&id.name);
        }
        self.trace.add(self.now, &format!("{id}: gone"));
    }

    /// A node's agent has the object of a pod go, which somebody must have asked for. The code.
    pub(super) fn delete_object(&mut self, id: &ObjectId, uid: &str) -> u16 {
        let object = self.server.pod(&id.name);
        let object = object.filter(|pod| pod.metadata.uid.as_deref() == Some(uid));
        if object.is_some_and(|pod| pod.metadata.deletion_timestamp.is_none()) {
            self.breaks(&format!("P5: a node deletes {id}, and nobody has asked for that"));
        }
        let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
        self.call(Method::DELETE, &path(id, ""), "application/json", &options).0
    }

    /// A machine is gone with all that ran on it.
    pub(super) fn lose_machine(&mut self, name: &str) {
        self.trace.add(self.now, &format!("the machine of {name} is gone"));
        self.nodes.remove(name);
        self.cut_off.remove(name);
        self.deaf.remove(name);
        self.recorders.remove(name);
        self.restart_owners.remove(name);
        self.call(Method::DELETE, &path(&lease_of(name), ""), "application/json", &json!({}));
        let there = self.pods.extract_if(.., |_, pod| pod.node == name);
        let gone: BTreeMap<String, Box<SimulatedPod>> = there.collect();
        gone.values().for_each(|pod| self.tally_gone += pod.tally);
        self.pods_by_name.retain(|_, uid| !gone.contains_key(uid));
        self.count_reachable();
    }
}

fn node_status(name: &str) -> String {
    format!("/api/v1/nodes/{name}/status")
}

pub(super) fn lease_of(node: &str) -> ObjectId {
    ObjectId::new(ResourceKind::Lease, NamespacedName::new("kube-node-lease", node))
}
