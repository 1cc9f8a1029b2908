//! What is done to a world that goes wrong: crashes, power, silence, clocks.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::Method;
use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{NamespacedName, ObjectId, ResourceKind, ViewObject};
use rekindle_ladder::RestartLimits;
use rekindle_pod::ContainerStartKey;
use rekindle_reconcile::{NodeLifecycleSettings, Planner, WatchUpdate, kinds};
use rekindle_store::Revision;
use rekindle_types::v1alpha1::Rung;
use rekindle_types::{ExitStatus, Tick, TickDuration, held};
use serde_json::{Value, json};

use super::{BEGIN, ScheduledEvent, World, collection, path};
use crate::error::SimError;
use crate::faults::{DiskSpace, Faults, PowerLossSync, RegistryState, WatchRecovery, WorldEvent};
use crate::known_bugs::KnownBug;
use crate::script::WorldChange;
use crate::server::ReopenedServer;

/// Whether the controllers hear what happens in the API.
#[derive(Debug, Default)]
pub(super) enum WatchDelivery {
    /// At once.
    #[default]
    Well,
    /// Not now.
    Deaf {
        /// What they had heard before.
        heard: Revision,
        /// What they miss meanwhile.
        missed: Vec<WatchUpdate>,
    },
}

impl World {
    /// Lets things go wrong from now on.
    pub fn set_faults(&mut self, faults: Faults) {
        self.server.set_bug(faults.bug);
        self.faults = faults;
        self.watch_closely();
    }

    /// Power is lost in the commit after so many.
    pub fn lose_power_after(&mut self, commits: u64, sync: PowerLossSync) {
        self.server.lose_power(commits, sync);
    }

    /// How many actions agents have begun.
    pub const fn actions(&self) -> u64 {
        self.faults.actions()
    }

    /// Does this so long after the beginning.
    pub fn do_at(&mut self, at: TickDuration, deed: WorldEvent) {
        self.number += 1;
        self.coming.insert((BEGIN + at, self.number), ScheduledEvent::Deed(deed));
    }

    /// Faults stop: everybody is connected and hears everything again.
    ///
    /// # Errors
    /// When something moves in a circle.
    pub fn heal(&mut self) -> Result<(), SimError> {
        self.trace.add(self.now, "faults stop");
        self.faults.stop();
        self.server.heal();
        self.server.set_full(DiskSpace::Enough);
        self.faults.set_room(DiskSpace::Enough);
        self.faults.set_registry(RegistryState::Answers);
        self.hear(WatchRecovery::Relist);
        self.put_nodes_right();
        let nodes = std::mem::take(&mut self.deaf);
        for node in nodes.into_keys() {
            self.resync(&node);
        }
        self.cut_off.values_mut().for_each(|times| *times = 1);
        let lost = self.cut_off.keys().cloned().collect();
        self.mend(&lost);
        self.end_waits_in_vain();
        self.rest()
    }

    /// Agents that wait for an answer which never comes are started again: nothing else helps them.
    fn end_waits_in_vain(&mut self) {
        let stuck = self.pods.values().filter(|pod| pod.is_stuck());
        let nodes: BTreeSet<String> = stuck.map(|pod| pod.node.clone()).collect();
        nodes.iter().for_each(|node| self.crash_agent(node));
    }

    /// The agents of all nodes die and start again; containers go on.
    ///
    /// # Errors
    /// When something moves in a circle.
    pub fn crash_agents(&mut self) -> Result<(), SimError> {
        let nodes: Vec<String> = self.nodes.iter().cloned().collect();
        nodes.iter().for_each(|node| self.crash_agent(node));
        self.rest()
    }

    /// The agent of a node dies and starts again: it reads the objects anew, and its journals and
    /// what runs.
    pub(super) fn crash_agent(&mut self, node: &str) {
        if self.cut_off.contains_key(node) {
            return; // it could not read anything, and would wait until it can
        }
        self.trace.add(self.now, &format!("the agent of {node} dies and starts again"));
        self.deaf.remove(node);
        self.recorders.remove(node);
        if !self.keepers.is_registered(node) {
            self.say_ready(node);
        }
        let clock = self.clocks.agent_starts(node);
        let of_node = self.pods.iter().filter(|(_, pod)| pod.node == node);
        let uids: Vec<String> = of_node.map(|(uid, _)| uid.clone()).collect();
        for uid in &uids {
            let Some(pod) = self.pods.get_mut(uid) else { continue };
            let found = self.server.pod(&super::name_of(&pod.pod));
            let found = found.filter(|found| found.metadata.uid.as_ref() == Some(uid));
            pod.agent_crashes(self.now, clock, found, &mut self.faults);
            self.timers.remove(uid);
        }
        self.restore_restart_owners(node);
        for uid in &uids {
            self.act(uid);
        }
        self.resync(node);
    }

    pub(super) fn do_deed(&mut self, deed: WorldEvent) -> Result<(), SimError> {
        match deed {
            WorldEvent::User(change) => match self.change(change) {
                Err(SimError::Refused { operation, object, message }) => {
                    self.trace.add(self.now, &format!("refused: {operation} {object}: {message}"));
                }
                done => done?,
            },
            WorldEvent::CrashAgent(pick) => {
                if let Some(node) = self.node(pick) {
                    self.crash_agent(&node);
                }
            }
            WorldEvent::Reboot(pick) => self.reboot(pick),
            WorldEvent::CrashAgentBefore(pick, number) => {
                if let Some(node) = self.node(pick) {
                    self.faults.crash_before(&node, number);
                }
            }
            WorldEvent::Invalid(invalid) => self.ask_for_what_is_invalid(&invalid),
            WorldEvent::CrashControllers => self.crash_controllers(),
            WorldEvent::PowerLoss(sync) => {
                self.trace.add(self.now, &format!("power will be lost, {sync:?} the next sync"));
                self.server.lose_power(0, sync);
            }
            WorldEvent::DeafControllers(lasts, relief) => {
                if let WatchDelivery::Well = self.hearing {
                    self.trace.add(self.now, "the controllers' watches stall");
                    let heard = Revision(self.last_revision);
                    self.hearing = WatchDelivery::Deaf { heard, missed: Vec::new() };
                    self.later(lasts, ScheduledEvent::Hear(relief));
                }
            }
            WorldEvent::DeafNode(pick, lasts) => {
                if let Some(node) = self.node(pick) {
                    self.trace.add(self.now, &format!("the watches of {node} stall"));
                    let until = self.deaf.entry(node.clone()).or_default();
                    *until = (*until).max(self.now + lasts);
                    self.later(lasts, ScheduledEvent::NodeHears(node));
                }
            }
            WorldEvent::LoseNode(pick, lasts) => {
                if let Some(node) = self.node(pick) {
                    let nodes = BTreeSet::from([node]);
                    self.cut(&nodes);
                    self.later(
                        lasts,
                        ScheduledEvent::Deed(WorldEvent::User(WorldChange::Mend(nodes))),
                    );
                }
            }
            WorldEvent::Delete(id, propagation) => self.delete(&id, propagation),
            WorldEvent::DeleteMany(kind, app, propagation) => {
                self.delete_many(kind, app.as_deref(), propagation);
            }
            WorldEvent::DeletePod(pick) => self.ask(pick, deletion),
            WorldEvent::ForcePod(pick) => self.force(pick),
            WorldEvent::EvictPod(pick) if self.faults.bug == Some(KnownBug::BudgetIgnored) => {
                self.ask(pick, deletion);
            }
            WorldEvent::EvictPod(pick) => self.ask(pick, eviction),
            WorldEvent::RestartPod(pick, rung) => {
                self.ask(pick, |id, number| restart_by_hand(id, number, rung));
            }
            WorldEvent::RestartContainer(pick) => {
                if let Some(container) = self.container(pick) {
                    self.ask(pick, |id, number| restart_of_container(id, number, &container));
                }
            }
            WorldEvent::EditLedger(pick, status) => self.edit_ledger(pick, &status),
            WorldEvent::ToNode(pick, deed) => self.keep(pick, deed),
            WorldEvent::EndContainer(pick, status) => self.end_container(pick, status),
            WorldEvent::EndSandbox(pick) => self.end_sandbox(pick),
            WorldEvent::Pressure(pick) => self.press(pick),
            WorldEvent::ClockStep(step) => {
                let seconds = step.as_secs();
                self.trace.add(
                    self.now,
                    &format!("everything stands still for {seconds} s, and the clocks go on"),
                );
                self.hold(self.now + step);
                self.now = self.now + step;
                self.faults.hold_up();
                self.note_disturbance();
                self.server.set_time(self.api_now())?;
            }
            WorldEvent::WallClock(seconds) => {
                self.trace.add(self.now, &format!("the wall clock is set by {seconds} s"));
                self.clocks.set_wall(seconds);
            }
            WorldEvent::FullDisk(lasts) => {
                self.trace.add(self.now, "the disk is full");
                self.server.set_full(DiskSpace::None);
                self.faults.set_room(DiskSpace::None);
                self.full_until = self.full_until.max(self.now + lasts);
                self.note_disturbance();
                self.later(lasts, ScheduledEvent::DiskHasRoom);
            }
            WorldEvent::LoseRegistry(lasts) => {
                self.trace.add(
                    self.now,
                    "images that nothing uses are thrown away, and no registry answers",
                );
                self.faults.set_registry(RegistryState::Gone);
                self.no_registry_until = self.no_registry_until.max(self.now + lasts);
                self.later(lasts, ScheduledEvent::RegistryAnswers);
            }
        }
        Ok(())
    }

    /// A user asks something of a pod, and may be refused.
    fn ask(&mut self, pick: u64, request: impl FnOnce(&ObjectId, u64) -> (Method, String, Value)) {
        let pods = self.server.pods();
        let Some(id) = picked(pick, &pods).map(super::id_of_pod) else { return };
        self.number += 1;
        if self.faults.bug == Some(KnownBug::BudgetIgnored) {
            let pod = self.server.pod(&id.name);
            pod.into_iter().for_each(|pod| self.server.note_eviction(pod));
        }
        let (method, path, body) = request(&id, self.number);
        let (code, _) = self.call(method.clone(), &path, "application/json", &body);
        self.trace.add(self.now, &format!("a user asks {method} {path}: {code}"));
        self.check_evictions();
    }

    /// Somebody writes into what a ladder remembers, and may be refused.
    fn edit_ledger(&mut self, pick: u64, status: &Value) {
        let ledgers = self.server.list(ResourceKind::RestartLedger);
        let Some(id) = picked(pick, &ledgers).map(ViewObject::id) else { return };
        let patch = json!({"status": status});
        let path = path(&id, "/status");
        let (code, _) = self.call(Method::PATCH, &path, "application/merge-patch+json", &patch);
        self.trace.add(self.now, &format!("somebody writes {patch} into {id}: {code}"));
    }

    /// Another pod may take its place while it runs: that is what was asked for.
    fn force(&mut self, pick: u64) {
        let pods = self.server.pods();
        let uid = picked(pick, &pods).and_then(|pod| pod.metadata.uid.clone());
        uid.into_iter().for_each(|uid| self.keepers.give_up(uid));
        self.ask(pick, |id, _| (Method::DELETE, path(id, ""), json!({"gracePeriodSeconds": 0})));
    }

    /// The name of a container of the pod that this number picks.
    fn container(&self, pick: u64) -> Option<String> {
        let pods = self.server.pods();
        let spec = picked(pick, &pods)?.spec.as_ref()?;
        let all: Vec<_> = spec.init_containers.iter().flatten().chain(&spec.containers).collect();
        picked(pick / 2, &all).map(|container| container.name.clone())
    }

    /// A user asks for the eviction of this pod, and may be refused.
    pub(super) fn evict(&mut self, id: &ObjectId) {
        let (method, path, body) = eviction(id, 0);
        let (code, _) = self.call(method, &path, "application/json", &body);
        self.trace.add(self.now, &format!("a user evicts {id}: {code}"));
        self.check_evictions();
    }

    /// A user deletes something, and says what becomes of what belongs to it.
    fn delete(&mut self, id: &ObjectId, propagation: DependentPolicy) {
        let options = delete_options(propagation);
        let (code, _) = self.call(Method::DELETE, &path(id, ""), "application/json", &options);
        self.trace.add(self.now, &format!("a user deletes {id}, {propagation:?}: {code}"));
    }

    /// The same with all of a kind that have this label, or all of them.
    fn delete_many(&mut self, kind: ResourceKind, app: Option<&str>, propagation: DependentPolicy) {
        let of = ObjectId::new(kind, NamespacedName::new("default", ""));
        let selector = app.map(|app| format!("?labelSelector=app%3D{app}")).unwrap_or_default();
        let path = format!("{}{selector}", collection(&of));
        let options = delete_options(propagation);
        let (code, _) = self.call(Method::DELETE, &path, "application/json", &options);
        self.trace.add(self.now, &format!("a user deletes {path}, {propagation:?}: {code}"));
    }

    pub(super) fn node(&self, pick: u64) -> Option<String> {
        let count = u64::try_from(self.nodes.len()).unwrap_or(1);
        self.nodes.iter().nth(usize::try_from(pick % count).unwrap_or(0)).cloned()
    }

    /// The machine of a node starts again: nothing runs there any more, and its journals are as
    /// they were synced.
    fn reboot(&mut self, pick: u64) {
        let Some(node) = self.node(pick).filter(|node| !self.cut_off.contains_key(node)) else {
            return;
        };
        self.trace.add(self.now, &format!("the machine of {node} starts again"));
        let now = self.now;
        self.pods.values_mut().filter(|pod| pod.node == node).for_each(|pod| pod.reboot(now));
        self.crash_agent(&node);
    }

    fn end_container(&mut self, pick: u64, status: ExitStatus) {
        let running = self
            .pods
            .iter()
            .flat_map(|(uid, pod)| pod.running().map(move |key| (uid.clone(), key.clone())));
        let running: Vec<(String, ContainerStartKey)> = running.collect();
        let Some(count) = u64::try_from(running.len()).ok().filter(|count| *count > 0) else {
            return;
        };
        let (uid, key) = running[usize::try_from(pick % count).unwrap_or(0)].clone();
        self.later(TickDuration::ZERO, ScheduledEvent::Ends { uid, key, status });
    }

    fn end_sandbox(&mut self, pick: u64) {
        let all = self
            .pods
            .iter()
            .flat_map(|(uid, pod)| pod.sandboxes().map(move |attempt| (uid.clone(), attempt)));
        let all: Vec<_> = all.collect();
        let Some(count) = u64::try_from(all.len()).ok().filter(|count| *count > 0) else { return };
        let (uid, attempt) = all[usize::try_from(pick % count).unwrap_or(0)].clone();
        if let Some(pod) = self.pods.get_mut(&uid) {
            self.trace.add(self.now, &format!("{}: {attempt:?} dies", super::name_of(&pod.pod)));
            pod.sandbox_dies(self.now, attempt);
            self.act(&uid);
        }
    }

    /// A node ends a pod that it cannot keep. The object stays, until somebody who wants it gone
    /// deletes it.
    fn press(&mut self, pick: u64) {
        let all = self.pods.iter().filter(|(_, pod)| !pod.driver.core().is_finished());
        let all: Vec<String> = all.map(|(uid, _)| uid.clone()).collect();
        let Some(uid) = picked(pick, &all) else { return };
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let name = super::name_of(&pod.pod);
        self.trace.add(self.now, &format!("{}: evicted by {}", name, pod.node));
        if self.faults.bug == Some(KnownBug::EvictionDeletes) {
            self.delete_object(&ObjectId::new(ResourceKind::Pod, name), uid);
            return;
        }
        pod.evicted(self.now);
        self.act(uid);
    }

    fn crash_controllers(&mut self) {
        self.trace.add(self.now, "the controllers die and start again");
        self.clocks.controllers_start();
        self.start_controllers();
    }

    fn start_controllers(&mut self) {
        self.note_disturbance();
        self.planner = Planner::new(RestartLimits::default());
        self.planner.set_node_settings(self.patience.clone());
        self.hearing = WatchDelivery::Well;
        self.list();
    }

    /// How long the controllers are patient with nodes from now on.
    pub fn set_patience(&mut self, patience: NodeLifecycleSettings) {
        if self.patience != patience {
            self.patience = patience;
            self.start_controllers();
        }
    }

    /// The controllers list everything.
    fn list(&mut self) {
        for kind in kinds() {
            let objects = self.server.list(kind);
            let objects = objects.into_iter().map(|object| self.as_shown(object)).collect();
            self.show(WatchUpdate::List(kind, objects));
        }
    }

    /// The controllers see this, and list the kinds of the definitions that come with it.
    fn show(&mut self, seen: WatchUpdate) {
        let now = self.desk_now();
        self.server.show(&mut self.planner, now, seen);
    }

    /// What the controllers see of an object.
    fn as_shown(&self, object: ViewObject) -> ViewObject {
        if let (ViewObject::Pod(pod), Some(KnownBug::TolerationUnseen)) = (&object, self.faults.bug)
        {
            return ViewObject::Pod(Arc::new(without_patience(pod)));
        }
        let ViewObject::RestartLadder(ladder) = &object else { return object };
        let mut shown = ladder.as_ref().clone();
        let budget = shown.spec.budget.get_or_insert_default();
        match self.faults.bug {
            Some(KnownBug::LadderConcurrencyUnseen) => budget.max_concurrent = None,
            Some(KnownBug::LadderRateUnseen) => budget.per_minute = None,
            Some(_) | None => return object,
        }
        ViewObject::RestartLadder(Arc::new(shown))
    }

    pub(super) fn tell_desk(&mut self, seen: WatchUpdate) {
        let seen = match seen {
            WatchUpdate::Applied(object) => WatchUpdate::Applied(self.as_shown(object)),
            WatchUpdate::List(..) | WatchUpdate::Deleted(..) => seen,
        };
        match &mut self.hearing {
            WatchDelivery::Well => self.show(seen),
            WatchDelivery::Deaf { missed, .. } => missed.push(seen),
        }
    }

    /// The newest revision that the controllers have heard of, when the watch has nothing more to
    /// show.
    pub(super) const fn heard(&self) -> Revision {
        match &self.hearing {
            WatchDelivery::Well => Revision(self.last_revision),
            WatchDelivery::Deaf { heard, .. } => *heard,
        }
    }

    /// The controllers hear again.
    pub(super) fn hear(&mut self, relief: WatchRecovery) {
        let WatchDelivery::Deaf { mut missed, .. } = std::mem::take(&mut self.hearing) else {
            return;
        };
        self.note_disturbance();
        self.trace.add(self.now, &format!("the controllers hear again: {relief:?}"));
        match (relief, self.faults.bug) {
            (_, Some(KnownBug::LastEventLost)) => {
                missed.pop();
                missed.into_iter().for_each(|seen| self.show(seen));
            }
            (WatchRecovery::Batch, _) => {
                missed.into_iter().for_each(|seen| self.show(seen));
            }
            (WatchRecovery::Relist, _) => self.list(),
        }
    }

    /// A node hears again, unless it was made deaf once more meanwhile.
    pub(super) fn node_hears(&mut self, node: &str) {
        if self.deaf.get(node).is_some_and(|until| *until <= self.now) {
            self.deaf.remove(node);
            if !self.cut_off.contains_key(node) {
                self.resync(node);
            }
        }
    }

    /// The disk has room again, unless it was filled once more meanwhile.
    pub(super) fn disk_has_room(&mut self) {
        if self.full_until <= self.now {
            self.trace.add(self.now, "the disk has room again");
            self.note_disturbance();
            self.server.set_full(DiskSpace::Enough);
            self.faults.set_room(DiskSpace::Enough);
        }
    }

    /// The registries answer again, unless they were lost once more meanwhile.
    pub(super) fn registry_answers(&mut self) {
        if self.no_registry_until <= self.now {
            self.trace.add(self.now, "the registries answer again");
            self.faults.set_registry(RegistryState::Answers);
        }
    }

    /// After power was lost: API, controllers and all agents that can reach them start again from
    /// what was synced.
    pub(super) fn restart_engine(&mut self) -> Result<(), SimError> {
        self.trace.add(self.now, "power was lost; the engine starts again");
        while let Some(Ok(event)) = self.watch.try_next() {
            self.see(&event);
        }
        let unsynced = self.server.shown_unsynced();
        unsynced.iter().for_each(|event| self.see(event));
        self.clocks.api_starts();
        let ReopenedServer { server, watch, newest, wrong } = self.server.reopen(self.api_now())?;
        if let Some(wrong) = wrong {
            self.breaks(&wrong);
        }
        (self.server, self.watch, self.last_revision) = (server, watch, newest);
        self.crash_controllers();
        let nodes: Vec<String> = self.nodes.iter().cloned().collect();
        nodes.iter().for_each(|node| self.crash_agent(node));
        Ok(())
    }

    /// A promise did not hold, the number of which the text begins with. It is told with its time
    /// in the run.
    pub(crate) fn breaks(&mut self, what: &str) {
        if self.broken.is_none() {
            let millis = self.now.since(BEGIN).as_micros() / 1_000;
            let (seconds, millis) = (millis / 1_000, millis % 1_000);
            let what = format!("{what} ({seconds}.{millis:03} s after the run began)");
            self.trace.add_breach(self.now, &what);
            self.broken = Some(what);
        }
    }

    /// The time.
    pub const fn now(&self) -> Tick {
        self.now
    }
}

fn delete_options(propagation: DependentPolicy) -> Value {
    match propagation {
        DependentPolicy::Default => json!({}),
        DependentPolicy::Background => json!({"propagationPolicy": "Background"}),
        DependentPolicy::Foreground => json!({"propagationPolicy": "Foreground"}),
        DependentPolicy::Orphan => json!({"propagationPolicy": "Orphan"}),
    }
}

fn deletion(id: &ObjectId, _number: u64) -> (Method, String, Value) {
    (Method::DELETE, path(id, ""), json!({}))
}

fn eviction(id: &ObjectId, _number: u64) -> (Method, String, Value) {
    let meta = json!({"name": id.name.name, "namespace": id.name.namespace});
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta});
    (Method::POST, path(id, "/eviction"), eviction)
}

/// The number is taken modulo what there is.
fn picked<T>(pick: u64, all: &[T]) -> Option<&T> {
    let count = u64::try_from(all.len()).ok().filter(|count| *count > 0)?;
    all.get(usize::try_from(pick % count).ok()?)
}

fn restart_of_container(id: &ObjectId, number: u64, container: &str) -> (Method, String, Value) {
    let (method, path, mut request) = restart_by_hand(id, number, Rung::Container);
    request["spec"]["containerName"] = json!(container);
    (method, path, request)
}

fn restart_by_hand(id: &ObjectId, number: u64, rung: Rung) -> (Method, String, Value) {
    let request = json!({
        "apiVersion": "rekindle.dev/v1alpha1", "kind": "PodRestart",
        "metadata": {"name": format!("by-hand-{number}"), "namespace": id.name.namespace},
        "spec": {"podName": id.name.name, "rung": rung, "reason": "by hand"},
    });
    let of = ObjectId::new(ResourceKind::PodRestart, id.name.clone());
    (Method::POST, collection(&of), request)
}

/// The same pod, as if it tolerated nothing for a while.
fn without_patience(pod: &held::HeldPod) -> held::HeldPod {
    let mut pod = pod.clone();
    let spec = pod.spec.iter_mut().map(Arc::make_mut);
    let tolerations = spec.flat_map(|spec| Arc::make_mut(&mut spec.tolerations));
    for toleration in tolerations.filter(|toleration| toleration.toleration_seconds.is_some()) {
        toleration.toleration_seconds = Some(0);
    }
    pod
}
