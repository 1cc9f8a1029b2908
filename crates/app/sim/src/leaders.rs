//! Several operators on one API, of which one is to act: each with a clock of its own, a connection
//! that is cut and comes back, watches that lag, and pauses between the look whether it leads and
//! the write that follows. A user changes a Deployment meanwhile.
//!
//! What is looked at: no write of an old term is done after a write of a newer one (docs/adr/0030),
//! and once faults stop one of them leads and the Deployment has its pods.

use std::collections::VecDeque;

use http::Method;
use rekindle_controllers::leader_election::{
    Candidacy, ElectionCandidate, ElectionTask, ElectionTiming, UnansweredRequest,
};
use rekindle_controllers::{
    NamespacedName, ObjectId, PlannedWrite, ResourceKind, ViewObject, WriteResult,
};
use rekindle_ladder::RestartLimits;
use rekindle_reconcile::wire::object_from_json;
use rekindle_reconcile::{Planner, PlannerTask, WatchUpdate, WorkItem, kinds};
use rekindle_store::{StoreEvent, StoreWatch};
use rekindle_types::pods::AnyPod;
use rekindle_types::{Term, Tick, TickDuration};
use serde_json::{Value, json};

use crate::entropy::Seeded;
use crate::error::SimError;
use crate::server::SimServer;
use crate::world::{BEGIN, path};

const STEP: TickDuration = TickDuration::from_millis(200);
/// More rounds than anything needs at one moment.
const ROUNDS_MAX: usize = 1_000;

/// Whether writes name the term they are made in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fencing {
    /// They do, and the API refuses those of old terms.
    On,
    /// They do not: what client-go and Kubernetes have.
    Off,
}

/// Operators on one API.
pub struct LeaderWorld {
    now: Tick,
    server: SimServer,
    watch: StoreWatch,
    operators: Vec<SimulatedOperator>,
    entropy: Seeded,
    fencing: Fencing,
    faults: FaultPhase,
    /// The newest term in which something was written.
    newest_term: Option<i32>,
    /// Writes of an old term that were not done.
    refused: u64,
    broken: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FaultPhase {
    Happen,
    Over,
}

/// One operator, as its driver would run it.
struct SimulatedOperator {
    candidate: ElectionCandidate,
    /// How far its clock is ahead.
    offset: TickDuration,
    /// It stands still until then: nothing in it runs.
    paused_until: Tick,
    /// Its requests are lost until then, and it hears nothing.
    cut_until: Tick,
    /// What its watches will show, and when.
    inbox: VecDeque<(Tick, WatchUpdate)>,
    /// Writes that were begun and have not reached the API yet.
    on_their_way: Vec<(Tick, Term, WorkItem, Box<PlannedWrite>)>,
    acts: Option<(Term, Planner)>,
}

impl LeaderWorld {
    /// An API with one node, a Deployment without pods, and so many operators.
    ///
    /// # Errors
    /// When the API core refuses what every cluster has.
    pub fn new(seed: u64, operators: usize, fencing: Fencing) -> Result<Self, SimError> {
        let (server, watch) = SimServer::new(seed, BEGIN)?;
        let mut entropy = Seeded::new(seed);
        let operators = (0..operators).map(|number| SimulatedOperator {
            candidate: ElectionCandidate::new(Candidacy {
                lease: NamespacedName::new("kube-system", "leader"),
                identity: format!("operator-{number}"),
                timing: ElectionTiming::default(),
            }),
            offset: TickDuration::from_secs(entropy.below(3_600)),
            paused_until: Tick::ZERO,
            cut_until: Tick::ZERO,
            inbox: VecDeque::new(),
            on_their_way: Vec::new(),
            acts: None,
        });
        let operators = operators.collect();
        let mut leaders = Self {
            now: BEGIN,
            server,
            watch,
            operators,
            entropy,
            fencing,
            faults: FaultPhase::Happen,
            newest_term: None,
            refused: 0,
            broken: None,
        };
        leaders.user("/api/v1/nodes", Method::POST, &node())?;
        leaders.user("/api/v1/nodes/n1/status", Method::PATCH, &node())?;
        leaders.user("/apis/apps/v1/namespaces/default/deployments", Method::POST, &web())?;
        Ok(leaders)
    }

    /// Lets so many seconds go by with faults, in which the user scales, and then so many without.
    ///
    /// # Errors
    /// When the user is refused, or something moves in a circle.
    pub fn run(&mut self, faulty_secs: u64, sound_secs: u64) -> Result<(), SimError> {
        let steps_a_second = 1_000_000 / STEP.as_micros();
        for step in 0..(faulty_secs + sound_secs) * steps_a_second {
            self.now = self.now + STEP;
            self.server.set_time(self.now)?;
            if step == faulty_secs * steps_a_second {
                self.faults = FaultPhase::Over;
            }
            match self.faults {
                FaultPhase::Happen => {
                    self.go_wrong();
                    if self.entropy.below(40) == 0 {
                        let replicas = self.entropy.below(6);
                        self.scale(replicas)?;
                    }
                }
                FaultPhase::Over => {}
            }
            for number in 0..self.operators.len() {
                self.turn(number)?;
            }
        }
        Ok(())
    }

    /// The user wants so many pods.
    ///
    /// # Errors
    /// When the API refuses it.
    pub fn scale(&mut self, replicas: u64) -> Result<(), SimError> {
        let wanted = json!({"spec": {"replicas": replicas}});
        self.user("/apis/apps/v1/namespaces/default/deployments/web", Method::PATCH, &wanted)
    }

    /// The first promise that did not hold.
    pub fn broken_promise(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Writes of an old term that were not done.
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// The newest term in which something was written.
    pub const fn newest_term(&self) -> Option<i32> {
        self.newest_term
    }

    /// How many operators take themselves for the leader.
    pub fn leading(&self) -> usize {
        let leads = |operator: &&SimulatedOperator| {
            operator.candidate.leads(self.now + operator.offset).is_some()
        };
        self.operators.iter().filter(leads).count()
    }

    /// How many pods have a node.
    pub fn pods_placed(&self) -> usize {
        self.server.pods().iter().filter(|pod| pod.node_name().is_some()).count()
    }

    fn user(&mut self, path: &str, method: Method, body: &Value) -> Result<(), SimError> {
        let kind = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let (code, answer) = self.server.call(method, path, kind, body.to_string().into_bytes());
        match code {
            0..300 => Ok(()),
            _ => Err(SimError::Refused {
                operation: "write",
                object: path.to_owned(),
                message: String::from_utf8_lossy(&answer).into_owned(),
            }),
        }
    }

    /// Somebody stands still, or is cut off.
    fn go_wrong(&mut self) {
        let count = u64::try_from(self.operators.len()).unwrap_or(1);
        let drawn = self.entropy.below(100);
        let picked = usize::try_from(self.entropy.below(count)).unwrap_or(0);
        let until = self.now + TickDuration::from_secs(self.entropy.below(40));
        match drawn {
            0 => self.operators[picked].paused_until = until,
            1 => self.operators[picked].cut_until = until,
            _ => {}
        }
    }

    /// What the watches show goes into everybody's inbox; it arrives at once, or later.
    fn hand_out(&mut self) -> Result<(), SimError> {
        while let Some(event) = self.watch.try_next() {
            let event = event?;
            let (stored, gone) = match &event {
                StoreEvent::Put { object, .. } => (object, false),
                StoreEvent::Delete { previous, .. } => (previous, true),
            };
            let Some(object) = self.server.read(stored) else { continue };
            for operator in &mut self.operators {
                let seen = match gone {
                    true => WatchUpdate::Deleted(object.id(), object.uid().to_owned()),
                    false => WatchUpdate::Applied(object.clone()),
                };
                let late = match self.faults {
                    FaultPhase::Happen if self.entropy.below(20) == 0 => self.entropy.below(5_000),
                    FaultPhase::Happen | FaultPhase::Over => 0,
                };
                let last = operator.inbox.back().map_or(Tick::ZERO, |(at, _)| *at);
                let at = (self.now + TickDuration::from_millis(late)).max(last);
                operator.inbox.push_back((at, seen));
            }
        }
        Ok(())
    }

    /// One operator does all that it can do now.
    fn turn(&mut self, number: usize) -> Result<(), SimError> {
        self.arrive(number);
        if self.faults == FaultPhase::Over {
            let operator = &mut self.operators[number];
            (operator.paused_until, operator.cut_until) = (Tick::ZERO, Tick::ZERO);
        }
        if self.operators[number].paused_until > self.now {
            return Ok(());
        }
        for _ in 0..ROUNDS_MAX {
            self.hand_out()?;
            self.listen(number);
            let asked = self.ask(number);
            self.follow(number);
            if !self.act(number) && !asked {
                return Ok(());
            }
        }
        Err(SimError::Circle { steps: ROUNDS_MAX, last: format!("operator-{number}") })
    }

    /// What its watches show by now.
    fn listen(&mut self, number: usize) {
        let operator = &mut self.operators[number];
        let now = self.now + operator.offset;
        if operator.cut_until > self.now {
            return;
        }
        while let Some((_, seen)) = operator.inbox.pop_front_if(|(at, _)| *at <= self.now) {
            match &seen {
                WatchUpdate::Applied(ViewObject::Lease(lease)) => {
                    operator.candidate.sees(Some(lease), now)
                }
                WatchUpdate::Deleted(id, _) if id.kind == ResourceKind::Lease => {
                    operator.candidate.sees(None, now)
                }
                WatchUpdate::Applied(_) | WatchUpdate::Deleted(..) | WatchUpdate::List(..) => {}
            }
            if let Some((_, planner)) = &mut operator.acts {
                self.server.show(planner, now, seen);
            }
        }
    }

    /// The candidate's own requests; true when it made one.
    fn ask(&mut self, number: usize) -> bool {
        let operator = &mut self.operators[number];
        let now = self.now + operator.offset;
        let is_cut = operator.cut_until > self.now;
        match operator.candidate.poll(now) {
            ElectionTask::Wait(_) => false,
            ElectionTask::Read => {
                let id = ObjectId::new(
                    ResourceKind::Lease,
                    NamespacedName::new("kube-system", "leader"),
                );
                let read = match is_cut {
                    true => Err(UnansweredRequest),
                    false => Ok(read_lease(&self.server, &id)),
                };
                let lease = read.as_ref().map(Option::as_deref).map_err(|unanswered| *unanswered);
                operator.candidate.has_read(lease, now);
                true
            }
            ElectionTask::Write(write) => {
                // sometimes it is done, and the answer is lost
                let is_unsaid = self.faults == FaultPhase::Happen && self.entropy.below(20) == 0;
                let outcome = match is_cut {
                    true => None,
                    false => Some(self.server.carry_out(&write, None)),
                };
                let outcome = outcome.filter(|_| !is_unsaid).unwrap_or_else(unknown);
                operator.candidate.has_written(&outcome, now);
                true
            }
        }
    }

    /// It begins and ends to act as it leads or not.
    fn follow(&mut self, number: usize) {
        let operator = &mut self.operators[number];
        let now = self.now + operator.offset;
        let leads = operator.candidate.leads(now);
        if leads == operator.acts.as_ref().map(|(term, _)| term) {
            return;
        }
        operator.acts = None;
        let Some(term) = leads else { return };
        let mut planner = Planner::new(RestartLimits::default());
        for kind in kinds() {
            let list = WatchUpdate::List(kind, self.server.list(kind));
            self.server.show(&mut planner, now, list);
        }
        operator.acts = Some((term.clone(), planner));
        operator.inbox.clear();
    }

    /// The planner's next writes; true when there was one.
    fn act(&mut self, number: usize) -> bool {
        let operator = &mut self.operators[number];
        let now = self.now + operator.offset;
        let Some((term, planner)) = &mut operator.acts else { return false };
        planner.begin_due(now);
        let Some(task) = planner.poll_task() else { return false };
        let term = term.clone();
        match task {
            PlannerTask::Write(work, step) => {
                // the look is behind it, and whatever holds the write up comes now
                let late = match self.faults {
                    FaultPhase::Happen if self.entropy.below(8) == 0 => self.entropy.below(40_000),
                    FaultPhase::Happen | FaultPhase::Over => 0,
                };
                let at = self.now + TickDuration::from_millis(late);
                operator.on_their_way.push((at, term, work, step));
                self.arrive(number);
            }
            // what is elected here scales nothing
            PlannerTask::Record(_) | PlannerTask::Read(_) => {}
        }
        true
    }

    /// Writes that reach the API now, whatever has become of the operator.
    fn arrive(&mut self, number: usize) {
        let operator = &mut self.operators[number];
        let sent = std::mem::take(&mut operator.on_their_way);
        let (due, later) = sent.into_iter().partition(|(at, ..)| *at <= self.now);
        operator.on_their_way = later;
        for (_, term, work, step) in due {
            let outcome = match self.operators[number].cut_until > self.now {
                true => unknown(),
                false => self.write(&term, &step),
            };
            let operator = &mut self.operators[number];
            let now = self.now + operator.offset;
            if let Some((acts_in, planner)) = &mut operator.acts
                && *acts_in == term
            {
                planner.settle(now, &work, &step, outcome);
            }
        }
    }

    /// A write at the API, and what it tells about terms.
    fn write(&mut self, term: &Term, step: &PlannedWrite) -> WriteResult {
        let named = match self.fencing {
            Fencing::On => Some(term),
            Fencing::Off => None,
        };
        let before = self.server.figures().writes;
        let outcome = self.server.carry_out(&step.write, named);
        let was_done = self.server.figures().writes > before;
        let number = term.transitions;
        match self.newest_term {
            Some(newest) if newest > number && was_done => {
                self.broken.get_or_insert_with(|| {
                    format!(
                        "{:?} was done in term {number} after a write of term {newest}",
                        step.write
                    )
                });
            }
            Some(newest) if newest > number => self.refused += 1,
            Some(_) | None if was_done => self.newest_term = Some(number),
            Some(_) | None => {}
        }
        outcome
    }
}

fn read_lease(
    server: &SimServer,
    id: &ObjectId,
) -> Option<std::sync::Arc<k8s_openapi::api::coordination::v1::Lease>> {
    let (code, body) = server.call(Method::GET, &path(id, ""), "", Vec::new());
    if code >= 300 {
        return None;
    }
    match object_from_json(id.kind, &body) {
        Ok(ViewObject::Lease(lease)) => Some(lease),
        Ok(_) | Err(_) => None,
    }
}

fn unknown() -> WriteResult {
    WriteResult::Unknown { message: "injected fault".to_owned() }
}

fn node() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

fn web() -> Value {
    let labels = json!({"app": "web"});
    let spec = json!({
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "app", "image": "web:1"}],
    });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    })
}
