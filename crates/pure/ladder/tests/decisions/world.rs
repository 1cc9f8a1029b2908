//! A pod, its node and its PodRestarts, as far as the ladder sees them. Times in statuses are whole
//! seconds, as in the API.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    self, Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, PodCondition, PodSpec, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use rekindle_ladder::{
    LadderAction, LadderAuthority, LadderPolicy, LadderSubject, LimitUsage, Occupancy,
    RestartDecision, RestartLimits, RevisionPeers, RollbackTarget, Situation, decide,
};
use rekindle_types::held::HeldPod;
use rekindle_types::v1alpha1::{
    PodReplacement, PodRestart, PodRestartPhase, PodRestartStatus, ReplacementHold,
    ReplacementStep, RestartLedgerStatus,
};
use rekindle_types::{Tick, TickDuration};

/// As the API has it: whole seconds.
pub(crate) fn stamp(at: Tick) -> Time {
    at.to_time()
}

/// When every world begins.
pub(crate) const DAWN: Tick = Tick::from_secs(1_800_000_000);

/// Everything around one pod.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) now: Tick,
    pub(crate) policy: LadderPolicy,
    pub(crate) restart_policy: String,
    pub(crate) owner_kind: Option<&'static str>,
    pub(crate) created: Tick,
    pub(crate) uid: String,
    pub(crate) containers: Vec<FakeContainer>,
    pub(crate) sandbox: &'static str,
    pub(crate) sandbox_since: Tick,
    pub(crate) deleted: bool,
    pub(crate) phase: &'static str,
    pub(crate) restarts: Vec<PodRestart>,
    pub(crate) ledger: Option<RestartLedgerStatus>,
    pub(crate) others: Occupancy,
    pub(crate) crowd: LimitUsage,
    pub(crate) peers: RevisionPeers,
    pub(crate) rollback: Option<RollbackTarget>,
    pub(crate) authority: LadderAuthority,
    /// The API's definitions are older, and it drops fields that they do not have.
    pub(crate) has_old_definitions: bool,
    /// Restarts that decisions asked for, by name: how often.
    pub(crate) asked: BTreeMap<String, u32>,
}

/// What a container is to its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Init,
    Sidecar,
    Regular,
}

/// One container: its ends, and what it does now.
#[derive(Clone, Debug)]
pub(crate) struct FakeContainer {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) restart_policy: Option<String>,
    pub(crate) ends: Vec<FakeEnd>,
    pub(crate) now: Doing,
}

/// What a container does now.
#[derive(Clone, Debug)]
pub(crate) enum Doing {
    Waiting { reason: String, message: String },
    Running { since: Tick },
    Ended,
}

/// How an attempt ended.
#[derive(Clone, Debug)]
pub(crate) struct FakeEnd {
    pub(crate) code: i32,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) started: Tick,
    pub(crate) finished: Tick,
}

impl World {
    pub(crate) fn new(policy: LadderPolicy) -> Self {
        Self {
            now: DAWN,
            policy,
            restart_policy: "Always".to_owned(),
            owner_kind: None,
            created: DAWN,
            uid: "uid-1".to_owned(),
            containers: Vec::new(),
            sandbox: "True",
            sandbox_since: DAWN,
            deleted: false,
            phase: "Running",
            restarts: Vec::new(),
            ledger: None,
            others: Occupancy::default(),
            crowd: LimitUsage::default(),
            peers: RevisionPeers::default(),
            rollback: None,
            authority: LadderAuthority::default(),
            has_old_definitions: false,
            asked: BTreeMap::new(),
        }
    }

    pub(crate) fn add(&mut self, name: &str, role: Role) {
        let now = Doing::Waiting { reason: "ContainerCreating".to_owned(), message: String::new() };
        self.containers.push(FakeContainer {
            name: name.to_owned(),
            role,
            restart_policy: None,
            ends: Vec::new(),
            now,
        });
    }

    pub(crate) fn container(&mut self, name: &str) -> &mut FakeContainer {
        self.containers.iter_mut().find(|c| c.name == name).expect("the container is in the pod")
    }

    pub(crate) fn advance(&mut self, span: TickDuration) {
        self.now = self.now + span;
    }

    pub(crate) fn set_clock_back(&mut self, span: TickDuration) {
        self.now = self.now - span;
    }

    pub(crate) fn run(&mut self, name: &str) {
        let since = self.now;
        self.container(name).now = Doing::Running { since };
    }

    pub(crate) fn exit(&mut self, name: &str, code: i32, reason: &str, message: &str) {
        let finished = self.now;
        let container = self.container(name);
        let started = match container.now {
            Doing::Running { since } => since,
            Doing::Waiting { .. } | Doing::Ended => finished,
        };
        let (reason, message) = (reason.to_owned(), message.to_owned());
        container.ends.push(FakeEnd { code, reason, message, started, finished });
        container.now = Doing::Ended;
    }

    pub(crate) fn wait(&mut self, name: &str, reason: &str, message: &str) {
        self.container(name).now =
            Doing::Waiting { reason: reason.to_owned(), message: message.to_owned() };
    }

    /// Everything that is not running runs; init containers run to their end.
    pub(crate) fn run_all(&mut self) {
        let names: Vec<(String, Role)> =
            self.containers.iter().map(|c| (c.name.clone(), c.role)).collect();
        for (name, role) in names {
            match role {
                Role::Init => {
                    self.run(&name);
                    self.exit(&name, 0, "Completed", "");
                }
                Role::Sidecar | Role::Regular => self.run(&name),
            }
        }
    }

    /// What runs is ended by a restart.
    pub(crate) fn kill_all(&mut self) {
        let running: Vec<String> = self
            .containers
            .iter()
            .filter(|c| matches!(c.now, Doing::Running { .. }))
            .map(|c| c.name.clone())
            .collect();
        for name in running {
            self.exit(&name, 143, "Error", "");
        }
    }

    /// The pod is another one of the same name, and nothing runs yet.
    pub(crate) fn replace(&mut self) {
        let number: u32 = self.uid["uid-".len()..].parse().expect("a number");
        self.uid = format!("uid-{}", number + 1);
        self.created = self.now;
        self.sandbox_since = self.now;
        for container in &mut self.containers {
            container.ends.clear();
            container.now =
                Doing::Waiting { reason: "ContainerCreating".to_owned(), message: String::new() };
        }
    }

    /// Sets the status of the restart that was asked for last.
    pub(crate) fn report(&mut self, phase: PodRestartPhase) {
        let now = stamp(self.now);
        let restart = self.restarts.last_mut().expect("there is a restart");
        let status = restart.status.get_or_insert_with(PodRestartStatus::default);
        status.phase = Some(phase);
        match phase {
            PodRestartPhase::Running => {
                status.started_at = Some(now);
                if let Some(replacement) = &mut status.replacement {
                    replacement.step = ReplacementStep::Evicting;
                }
            }
            PodRestartPhase::Withdrawn => {
                status.finished_at = Some(now);
                status.message = Some("pod shop/web-0 is ready again".to_owned());
            }
            PodRestartPhase::Succeeded => status.finished_at = Some(now),
            PodRestartPhase::Failed => {
                status.finished_at = Some(now);
                status.message.get_or_insert_with(|| {
                    "its deadline of 10m30s passed before it was begun".to_owned()
                });
            }
            PodRestartPhase::Refused => {
                status.finished_at = Some(now);
                status.message.get_or_insert_with(|| "it cannot be done".to_owned());
            }
        }
    }

    /// The restart that was asked for last is withdrawn, in these words.
    pub(crate) fn withdraw(&mut self, why: &str) {
        self.report(PodRestartPhase::Withdrawn);
        let status = self.restarts.last_mut().and_then(|restart| restart.status.as_mut());
        status.expect("it was reported").message = Some(why.to_owned());
    }

    /// The operator holds the restart that was asked for last back, in these words.
    pub(crate) fn hold(&mut self, why: &str) {
        self.report(PodRestartPhase::Running);
        let (since, pod_uid) = (stamp(self.now), self.uid.clone());
        let status = self.restarts.last_mut().and_then(|restart| restart.status.as_mut());
        let status = status.expect("it was taken up");
        status.message = Some(why.to_owned());
        status.started_at = None;
        let mut replacement =
            PodReplacement::new(ReplacementStep::Held, since, pod_uid, "n1".to_owned());
        replacement.held_by = Some(if why.contains("node") {
            ReplacementHold::NoOtherNode
        } else {
            ReplacementHold::DisruptionBudget
        });
        status.replacement = Some(replacement);
    }

    /// The API shows this PodRestart.
    pub(crate) fn show(&mut self, name: &str, spec: rekindle_types::v1alpha1::PodRestartSpec) {
        if self.restarts.iter().any(|r| r.metadata.name.as_deref() == Some(name)) {
            return;
        }
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            creation_timestamp: Some(stamp(self.now)),
            ..Default::default()
        };
        self.restarts.push(PodRestart { metadata, spec, ..Default::default() });
    }

    /// Decides, keeps the ledger, and counts what was asked for. The PodRestart does not show up by
    /// itself.
    pub(crate) fn decide(&mut self) -> RestartDecision {
        let pod = self.pod();
        let restarts: Vec<&PodRestart> = self.restarts.iter().collect();
        let decision = decide(&Situation {
            now: self.now,
            policy: &self.policy,
            subject: LadderSubject::Pod(&pod),
            ledger: self.ledger.as_ref(),
            restarts: &restarts,
            others: &self.others,
            crowd: &self.crowd,
            limits: &RestartLimits::default(),
            peers: &self.peers,
            rollback: self.rollback.as_ref(),
            authority: self.authority,
        });
        if self.ledger.is_some() || decision.ledger != RestartLedgerStatus::default() {
            let mut stored = decision.ledger.clone();
            stored.dry_run_since.take_if(|_| self.has_old_definitions);
            self.ledger = Some(stored);
        }
        if let LadderAction::Restart(plan) = &decision.action {
            *self.asked.entry(plan.name.clone()).or_default() += 1;
        }
        decision
    }

    pub(crate) fn pod(&self) -> HeldPod {
        let of_role =
            |init: bool| self.containers.iter().filter(move |c| (c.role != Role::Regular) == init);
        let condition = PodCondition {
            type_: "PodReadyToStartContainers".to_owned(),
            status: self.sandbox.to_owned(),
            last_transition_time: Some(stamp(self.sandbox_since)),
            ..Default::default()
        };
        let pod = v1::Pod {
            metadata: ObjectMeta {
                name: Some("web-0".to_owned()),
                namespace: Some("shop".to_owned()),
                uid: Some(self.uid.clone()),
                creation_timestamp: Some(stamp(self.created)),
                owner_references: self.owner_kind.map(|kind| vec![controller(kind)]),
                annotations: (self.owner_kind == Some("Node")).then(mirrored),
                deletion_timestamp: self.deleted.then(|| stamp(self.now)),
                ..Default::default()
            },
            spec: Some(PodSpec {
                node_name: Some("n1".to_owned()),
                containers: of_role(false).map(FakeContainer::spec).collect(),
                init_containers: Some(of_role(true).map(FakeContainer::spec).collect()),
                restart_policy: Some(self.restart_policy.clone()),
                ..Default::default()
            }),
            status: Some(PodStatus {
                phase: Some(self.phase.to_owned()),
                start_time: Some(stamp(self.created)),
                conditions: Some(vec![condition]),
                container_statuses: Some(of_role(false).map(FakeContainer::status).collect()),
                init_container_statuses: Some(of_role(true).map(FakeContainer::status).collect()),
                ..Default::default()
            }),
        };
        pod.into()
    }
}

/// What a node writes to the mirror of a static pod.
fn mirrored() -> BTreeMap<String, String> {
    BTreeMap::from([("kubernetes.io/config.mirror".to_owned(), "hash".to_owned())])
}

fn controller(kind: &str) -> OwnerReference {
    OwnerReference {
        api_version: "apps/v1".to_owned(),
        kind: kind.to_owned(),
        name: "web".to_owned(),
        uid: "owner".to_owned(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

impl FakeContainer {
    fn spec(&self) -> Container {
        let always = (self.role == Role::Sidecar).then(|| "Always".to_owned());
        Container {
            name: self.name.clone(),
            image: Some("localhost/demo".to_owned()),
            restart_policy: self.restart_policy.clone().or(always),
            ..Default::default()
        }
    }

    fn terminated(&self, index: usize) -> ContainerState {
        let end = &self.ends[index];
        ContainerState {
            terminated: Some(ContainerStateTerminated {
                container_id: Some(format!("rekindle://{}-{index}", self.name)),
                exit_code: end.code,
                reason: Some(end.reason.clone()),
                message: Some(end.message.clone()).filter(|m| !m.is_empty()),
                started_at: Some(stamp(end.started)),
                finished_at: Some(stamp(end.finished)),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    /// As the pod core writes it: restartCount is the attempt that runs, or the last that ended.
    pub(crate) fn status(&self) -> ContainerStatus {
        let ended = self.ends.len();
        let (state, last, newest) = match &self.now {
            Doing::Running { since } => (
                ContainerState {
                    running: Some(ContainerStateRunning { started_at: Some(stamp(*since)) }),
                    ..Default::default()
                },
                ended.checked_sub(1),
                ended,
            ),
            Doing::Ended => (self.terminated(ended - 1), ended.checked_sub(2), ended - 1),
            Doing::Waiting { reason, message } => (
                ContainerState {
                    waiting: Some(ContainerStateWaiting {
                        reason: Some(reason.clone()),
                        message: Some(message.clone()).filter(|m| !m.is_empty()),
                    }),
                    ..Default::default()
                },
                ended.checked_sub(1),
                ended.saturating_sub(1),
            ),
        };
        ContainerStatus {
            name: self.name.clone(),
            container_id: Some(format!("rekindle://{}-{newest}", self.name)),
            restart_count: i32::try_from(newest).expect("few restarts"),
            ready: matches!(self.now, Doing::Running { .. }),
            state: Some(state),
            last_state: Some(last.map(|index| self.terminated(index)).unwrap_or_default()),
            ..Default::default()
        }
    }
}
