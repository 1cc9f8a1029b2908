//! A loop around a driver that keeps every answer back until a test gives it, and checks each
//! effect.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rekindle_pod::{
    ActionError, ActionErrorKind, ActionId, ContainerStartKey, CoreAction, CoreEvent, HookKind,
    Journal, PodConfig, ResourceDecision,
};
use rekindle_pod_driver::{JournalFailure, PodDriver, PodEffect, StatusAnswer, StatusToWrite};
use rekindle_types::{ExitStatus, Tick, TickDuration};

use crate::runtime::{Runtime, made};

pub(crate) const START: Tick = Tick::from_secs(1_000_000);

/// Whether the journal on the disk is the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskState {
    Newest,
    /// The newest could not be written.
    Behind,
}

/// Whether rules lead new connections to the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Routed {
    Admitted,
    /// They do not, as the pod is not ready. It may not be in the kernel yet.
    Excluded,
    /// They are asked to end, since then.
    Asked(Tick),
    Withdrawn,
}

/// Nothing waits longer for the rules.
const WITHDRAWAL_MAX: TickDuration = PodConfig::ENDPOINT_WITHDRAWAL_TIMEOUT;

/// What the API says to a write of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApiSays {
    Written,
    Unavailable,
    /// Another writer has changed the object.
    Conflict,
}

pub(crate) struct World {
    pub(crate) now: Tick,
    pub(crate) driver: PodDriver,
    pub(crate) runtime: Runtime,
    pub(crate) pod: Arc<Pod>,
    version: u64,
    /// Given out and not answered.
    pub(crate) under_way: Vec<(ActionId, CoreAction)>,
    performed: BTreeSet<ActionId>,
    pub(crate) routed: Routed,
    /// Asked to end by this agent.
    ending: BTreeSet<ContainerStartKey>,
    pub(crate) journal_in_flight: Option<Arc<Journal>>,
    on_disk: Option<Arc<Journal>>,
    disk: DiskState,
    pub(crate) status_in_flight: Option<StatusToWrite>,
    pub(crate) shown: Vec<Arc<PodStatus>>,
    /// In the API, oldest first.
    pub(crate) written: Vec<Arc<PodStatus>>,
    /// What was given out, one word each.
    pub(crate) log: Vec<&'static str>,
    pub(crate) finishes: usize,
    /// Actions come to their end when the driver lets them.
    pub(crate) answers_at_once: bool,
}

impl World {
    pub(crate) fn new(pod: Pod) -> Self {
        let pod = Arc::new(pod);
        let mut runtime = Runtime::default();
        runtime.obeys_signals = true;
        let mut world = Self {
            now: START,
            driver: PodDriver::new(START, pod.clone(), None, PodConfig::default()),
            runtime,
            pod,
            version: 1,
            under_way: Vec::new(),
            performed: BTreeSet::new(),
            routed: Routed::Admitted,
            ending: BTreeSet::new(),
            journal_in_flight: None,
            on_disk: None,
            disk: DiskState::Newest,
            status_in_flight: None,
            shown: Vec::new(),
            written: Vec::new(),
            log: Vec::new(),
            finishes: 0,
            answers_at_once: false,
        };
        world.tell_snapshot();
        world
    }

    fn tell_snapshot(&mut self) {
        let snapshot = self.runtime.snapshot();
        self.driver.handle(self.now, CoreEvent::RuntimeSnapshot(snapshot));
        self.drive();
    }

    /// The agent dies, and the next one takes the pod up.
    pub(crate) fn crash(&mut self) {
        let journal = self.on_disk.as_deref().cloned();
        self.disk = DiskState::Newest;
        self.driver = PodDriver::new(self.now, self.pod.clone(), journal, PodConfig::default());
        self.under_way.clear();
        self.performed.clear();
        self.routed = Routed::Admitted;
        self.ending.clear();
        self.shown.clear();
        (self.journal_in_flight, self.status_in_flight) = (None, None);
        self.tell_snapshot();
    }

    /// Takes all effects, and checks each.
    pub(crate) fn drive(&mut self) {
        while let Some(effect) = self.driver.poll_effect(self.now) {
            assert!(self.journal_in_flight.is_none(), "{effect:?} follows a journal in flight");
            self.log.push(word(&effect));
            match effect {
                PodEffect::Persist(journal) => self.journal_in_flight = Some(journal),
                PodEffect::Perform(id, action) => {
                    assert!(self.performed.insert(id), "{action:?} is given out twice");
                    self.check_journal(&action);
                    self.check_routes(&action);
                    self.under_way.push((id, action));
                }
                PodEffect::Advance if self.answers_at_once => {
                    while !self.under_way.is_empty() {
                        self.carry_out(0);
                    }
                }
                PodEffect::Advance | PodEffect::Record(_) | PodEffect::ReportRestart(_) => {}
                PodEffect::RequestResources(request) => {
                    let (ticket, decision) = (request.ticket, ResourceDecision::Granted);
                    self.driver.handle(self.now, CoreEvent::ResourcesDecided { ticket, decision });
                }
                PodEffect::WithdrawEndpoints => {
                    assert!(matches!(self.routed, Routed::Admitted | Routed::Excluded));
                    self.routed = Routed::Asked(self.now);
                }
                PodEffect::AdmitEndpoints => {
                    assert!(!self.driver.core().is_ending());
                    let ends = self.runtime.running().find(|key| self.ending.contains(key));
                    assert_eq!(ends, None, "rules lead to what was asked to end");
                    self.routed = Routed::Admitted;
                }
                PodEffect::ExcludeEndpoints(_) => {
                    assert!(matches!(self.routed, Routed::Admitted | Routed::Excluded));
                    self.routed = Routed::Excluded;
                }
                PodEffect::Show(status) => self.shown.push(status),
                PodEffect::WriteStatus(write) => {
                    assert!(self.status_in_flight.is_none(), "two statuses are in flight");
                    if let Some(newest) = self.shown.last() {
                        assert_eq!(&write.status, newest, "an older status is written");
                    }
                    self.status_in_flight = Some(write);
                }
                PodEffect::Finish => {
                    assert!(self.runtime.is_empty(), "finished, and something stands");
                    assert!(self.driver.core().is_finished());
                    self.finishes += 1;
                }
            }
        }
    }

    /// Nothing ends a container that rules lead to, unless they take too long.
    fn check_routes(&mut self, action: &CoreAction) {
        let may_end = match self.routed {
            Routed::Admitted | Routed::Excluded => false,
            Routed::Asked(since) => self.now.since(since) >= WITHDRAWAL_MAX,
            Routed::Withdrawn => true,
        };
        assert!(may_end || !action.ends_container(), "{action:?} while {:?}", self.routed);
        match action {
            CoreAction::SignalContainer { key } | CoreAction::KillContainer { key } => {
                self.ending.insert(key.clone());
            }
            _ => {}
        }
    }

    /// The rules that lead to the pod are gone, if that was asked for.
    pub(crate) fn routes_end(&mut self) {
        if let Routed::Asked(_) = self.routed {
            self.routed = Routed::Withdrawn;
            self.driver.endpoints_withdrawn();
            self.drive();
        }
    }

    /// What an action depends on is on the disk.
    fn check_journal(&self, action: &CoreAction) {
        if self.disk == DiskState::Behind {
            let ends = matches!(
                action,
                CoreAction::SignalContainer { .. }
                    | CoreAction::KillContainer { .. }
                    | CoreAction::RunHook { hook: HookKind::PreStop, .. }
            );
            assert!(ends, "{action:?} is given out without its journal");
            return;
        }
        let journal = self.on_disk.as_ref().expect("nothing is asked for before a journal");
        match action {
            CoreAction::StartContainer { key, .. } => {
                assert_eq!(journal.sandbox, key.sandbox, "{key:?} is not in the journal");
                let kept = journal.containers.get(&key.name).map(|record| record.number);
                assert_eq!(kept, Some(key.attempt), "{key:?} is not in the journal");
            }
            CoreAction::SetUpSandbox { attempt, .. } => assert_eq!(journal.sandbox, *attempt),
            _ => {}
        }
    }

    /// The disk takes the journal in flight, or has no room.
    pub(crate) fn journal_ends(&mut self, is_written: bool) {
        let Some(journal) = self.journal_in_flight.take() else { return };
        if is_written {
            (self.on_disk, self.disk) = (Some(journal), DiskState::Newest);
            self.driver.journal_written();
        } else {
            self.disk = DiskState::Behind;
            self.driver.journal_failed(self.now);
        }
        self.drive();
    }

    /// The disk of a node that stops has no room.
    pub(crate) fn journal_ends_of_stopping_node(&mut self) {
        let Some(journal) = self.journal_in_flight.take() else { return };
        assert_eq!(self.driver.journal_failed(self.now), JournalFailure::GoesOn);
        // what follows may rely on it
        self.on_disk = Some(journal);
        self.drive();
    }

    /// The action at this place is carried out and answered.
    pub(crate) fn answer(&mut self, place: usize) {
        self.carry_out(place);
        self.drive();
    }

    fn carry_out(&mut self, place: usize) {
        let (id, action) = self.under_way.remove(place);
        let result = self.runtime.carry_out(self.now, &action).map_err(error);
        self.driver.handle(self.now, CoreEvent::ActionResult { id, result });
        self.tell_exits();
    }

    /// The action at this place fails, and nothing is done.
    pub(crate) fn fail(&mut self, place: usize) {
        let (id, action) = self.under_way.remove(place);
        let kind = match action {
            CoreAction::FindImage { .. } | CoreAction::PullImage { .. } => {
                ActionErrorKind::ImagePull
            }
            CoreAction::StartContainer { .. } => ActionErrorKind::ContainerCreate,
            _ => ActionErrorKind::Other,
        };
        let result = Err(error(kind));
        self.driver.handle(self.now, CoreEvent::ActionResult { id, result });
        self.drive();
    }

    fn tell_exits(&mut self) {
        for (key, exit) in self.runtime.tell_exits() {
            let made = made(&key);
            self.driver.handle(self.now, CoreEvent::ContainerExited { key, made, exit });
        }
    }

    pub(crate) fn exit(&mut self, name: &str, code: i32) {
        self.runtime.exit(self.now, name, ExitStatus::Code { code });
        self.tell_exits();
        self.drive();
    }

    /// The API answers the write in flight.
    pub(crate) fn status_ends(&mut self, says: ApiSays) {
        let Some(write) = self.status_in_flight.take() else { return };
        let version = write.base.resource_version.clone();
        let says = match says {
            ApiSays::Written if version != self.pod.metadata.resource_version => ApiSays::Conflict,
            says => says,
        };
        let answer = match says {
            ApiSays::Written => {
                self.written.push(write.status.clone());
                let mut pod = Pod::clone(&self.pod);
                pod.status = Some(write.status.as_ref().clone());
                self.pod = self.stored(pod);
                StatusAnswer::Written(Some(self.pod.clone()))
            }
            ApiSays::Unavailable => StatusAnswer::Retry(None),
            ApiSays::Conflict => StatusAnswer::Retry(Some(self.pod.clone())),
        };
        self.driver.status_answered(self.now, answer);
        self.drive();
    }

    fn stored(&mut self, mut pod: Pod) -> Arc<Pod> {
        self.version += 1;
        pod.metadata.resource_version = Some(self.version.to_string());
        Arc::new(pod)
    }

    /// Another writer changes the object, and the agent sees it.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Pod)) {
        let mut pod = Pod::clone(&self.pod);
        change(&mut pod);
        self.pod = self.stored(pod);
        self.see();
    }

    /// The agent sees the object as it is.
    pub(crate) fn see(&mut self) {
        self.driver.object_changed(self.now, self.pod.clone());
        self.drive();
    }

    pub(crate) fn delete(&mut self, grace: i64) {
        let at: Time = self.now.to_time();
        self.change(|pod| {
            pod.metadata.deletion_timestamp = Some(at);
            pod.metadata.deletion_grace_period_seconds = Some(grace);
        });
    }

    pub(crate) fn pass(&mut self, span: TickDuration) {
        self.now = self.now + span;
        self.driver.handle_timeout(self.now);
        self.drive();
    }

    /// Everything works until nothing is left to do at this time.
    pub(crate) fn settle(&mut self) {
        for _ in 0..10_000 {
            if self.journal_in_flight.is_some() {
                self.journal_ends(true);
            } else if let Routed::Asked(_) = self.routed {
                self.routes_end();
            } else if !self.under_way.is_empty() {
                self.answer(0);
            } else if self.status_in_flight.is_some() {
                self.status_ends(ApiSays::Written);
            } else {
                return;
            }
        }
        panic!("the driver asks without end: {:?}", &self.log[self.log.len() - 50..]);
    }

    /// Everything works for a while.
    pub(crate) fn settle_for(&mut self, span: TickDuration) {
        let until = self.now + span;
        self.settle();
        while let Some(due) = self.driver.poll_timeout().filter(|due| *due <= until) {
            let due = due.max(self.now);
            self.pass(due.since(self.now));
            self.settle();
        }
        self.pass(until.since(self.now));
        self.settle();
    }

    /// The newest status in the API, and whether it is the newest that there is.
    pub(crate) fn phase(&self) -> Option<&str> {
        self.pod.status.as_ref()?.phase.as_deref()
    }
}

pub(crate) fn pod(spec: serde_json::Value) -> Pod {
    let metadata = serde_json::json!({
        "name": "web-0", "namespace": "default", "uid": "u1", "generation": 1, "resourceVersion": "1",
    });
    serde_json::from_value(serde_json::json!({"metadata": metadata, "spec": spec})).unwrap()
}

fn error(kind: ActionErrorKind) -> ActionError {
    ActionError { kind, message: "injected".to_owned() }
}

fn word(effect: &PodEffect) -> &'static str {
    match effect {
        PodEffect::Persist(_) => "persist",
        PodEffect::Perform(_, action) => match action {
            CoreAction::MountVolumes => "mount",
            CoreAction::SetUpSandbox { .. } => "sandbox",
            CoreAction::FindImage { .. } => "pull",
            CoreAction::StartContainer { .. } => "start",
            CoreAction::SignalContainer { .. } => "signal",
            CoreAction::KillContainer { .. } => "kill",
            _ => "other",
        },
        PodEffect::WithdrawEndpoints => "withdraw",
        PodEffect::AdmitEndpoints => "admit",
        PodEffect::ExcludeEndpoints(_) => "exclude",
        PodEffect::Advance => "advance",
        PodEffect::RequestResources(_) => "resources",
        PodEffect::Show(_) => "show",
        PodEffect::WriteStatus(_) => "write",
        PodEffect::Record(_) => "event",
        PodEffect::ReportRestart(_) => "report",
        PodEffect::Finish => "finish",
    }
}
