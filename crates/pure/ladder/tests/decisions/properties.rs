//! Whatever happens to a pod, the ladder keeps its promises: each failure is counted once, no rung
//! is tried more often than the policy allows, no budget is overdrawn, what runs is left alone, an
//! exhausted ladder rests, and what is remembered stays small.

use proptest::prelude::*;
use rekindle_ladder::{
    InPlaceSupport, LadderAction, LadderAuthority, LadderMode, LadderPolicy, NodeTrouble,
    Occupancy, RestartDecision, RevisionPeers, RollbackTarget, Trial, needs_agent,
};
use rekindle_types::v1alpha1::{
    CarriedOutBy, LadderBudget, LadderRung, LedgerPhase, PodRestart, PodRestartPhase,
    RESTART_GIVEN_UP_AFTER, ReplacementStep, RestartLadder, Rung,
};
use rekindle_types::{Tick, TickDuration};

use crate::world::{Doing, Role, World};

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    Pass {
        millis: u64,
    },
    Exit {
        container: usize,
        code: i32,
    },
    Run {
        container: usize,
    },
    CrashUnseen {
        container: usize,
        times: u8,
    },
    CarryOut,
    /// A disruption budget holds back what replaces the pod, for as long as it likes.
    Hold,
    Refuse,
    Withdraw,
    RunAll,
    Peers(Peer),
    /// The revision before is known to have been healthy, or no more.
    Healthy(Before),
    /// A restart of another pod of the ladder is decided and begins.
    OtherBegins,
    /// The one of them that began first is over.
    OtherEnds,
}

/// What there is to go back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Nothing,
    HealthyRevision,
}

const MINUTE: TickDuration = TickDuration::from_secs(60);

/// What the two other pods of the revision do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    /// They run.
    Runs,
    /// They fail in the same way.
    Fails,
    /// … and the rung Pod is being tried on one of them.
    OnTrial,
    /// … and was tried on one of them in vain.
    InVain,
    /// One fails in the same way, and the other is well since the rung Pod.
    Helped,
    /// They run on other nodes, and all that is on this one's fails.
    OfNode,
}

impl Peer {
    fn seen(self, now: Tick) -> RevisionPeers {
        let over_at = now + TickDuration::from_secs(600);
        let trial = Trial { pod: "web-1".to_owned(), rung: Rung::Pod, over_at };
        let failing_alike = match self {
            Peer::Runs | Peer::OfNode => 1,
            Peer::Helped => 2,
            Peer::Fails | Peer::OnTrial | Peer::InVain => 3,
        };
        RevisionPeers {
            revision: "ReplicaSet web".to_owned(),
            replicas: 3,
            failing_alike,
            tried: (self == Peer::InVain).then_some(Rung::Pod),
            trial: (self == Peer::OnTrial).then_some(trial),
            helped: (self == Peer::Helped).then_some(Rung::Pod),
            outage: None,
            node: (self == Peer::OfNode).then(|| NodeTrouble {
                name: "n1".to_owned(),
                pods: 4,
                failing: 4,
            }),
            node_says: None,
        }
    }
}

/// When a PodRestart that was asked for is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    AtOnce,
    WhenItPleases,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop_oneof![1..2_000u64, 2_000..700_000u64].prop_map(|millis| Step::Pass { millis }),
        4 => (0..2usize, prop_oneof![Just(1), Just(0), Just(137)])
            .prop_map(|(container, code)| Step::Exit { container, code }),
        3 => (0..2usize).prop_map(|container| Step::Run { container }),
        1 => (0..2usize, 1..4u8)
            .prop_map(|(container, times)| Step::CrashUnseen { container, times }),
        2 => Just(Step::CarryOut),
        2 => Just(Step::Hold),
        1 => Just(Step::Refuse),
        1 => Just(Step::Withdraw),
        2 => Just(Step::RunAll),
        1 => prop_oneof![
            Just(Peer::Runs), Just(Peer::Fails), Just(Peer::OnTrial), Just(Peer::InVain), Just(Peer::Helped),
            Just(Peer::OfNode),
        ].prop_map(Step::Peers),
        1 => prop_oneof![Just(Before::Nothing), Just(Before::HealthyRevision)].prop_map(Step::Healthy),
        1 => Just(Step::OtherBegins),
        1 => Just(Step::OtherEnds),
    ]
}

/// A ladder: each rung once or not at all, in its order, and a budget.
fn policy() -> impl Strategy<Value = LadderPolicy> {
    let attempts = || proptest::option::of(1..4u32);
    let above = (attempts(), 1..4u32, attempts(), attempts(), attempts());
    let budget = (proptest::option::of(1..3u32), proptest::option::of(1..4u32));
    (attempts(), above, budget, 20..1200u64).prop_map(
        |(container, (containers, pod, recreate, reschedule, rollback), budget, window)| {
            let counts = [container, containers, Some(pod), recreate, reschedule, rollback];
            let rungs =
                Rung::ALL.into_iter().zip(counts).filter(|(_, attempts)| attempts.is_some());
            let rungs = rungs.map(|(rung, attempts)| LadderRung {
                rung,
                attempts,
                empty_dirs: None,
                avoid_node_for: None,
            });
            let mut ladder = RestartLadder::default();
            ladder.metadata.generation = Some(1);
            ladder.spec.selector.match_labels = Some([("app".to_owned(), "web".to_owned())].into());
            ladder.spec.window = Some(format!("{window}s"));
            ladder.spec.rungs = rungs.collect();
            let (max_concurrent, per_minute) = budget;
            ladder.spec.budget = Some(LadderBudget { max_concurrent, per_minute });
            LadderPolicy::from_ladder(&ladder).expect("a valid ladder")
        },
    )
}

/// A world and what is known of it without the ladder.
struct Play {
    world: World,
    peer: Peer,
    node: Node,
    names: [&'static str; 2],
    /// Ends that are failures.
    failed: u64,
    /// Ends that a restart brought about.
    killed: u64,
    /// Restarts that were asked for: rung and time of the first request, in order.
    asked: Vec<(String, Rung, Tick)>,
    /// Restarts that were carried out: which rung, and when that began.
    begun: Vec<(Rung, Tick)>,
    /// Restarts of other pods of the ladder that are under way, since when.
    others: Vec<Tick>,
    /// When restarts of other pods were decided.
    others_decided: Vec<Tick>,
}

impl Play {
    fn new(policy: LadderPolicy, node: Node) -> Self {
        let mut world = World::new(policy);
        let names = ["app", "proxy"];
        for name in names {
            world.add(name, Role::Regular);
        }
        world.run_all();
        Self {
            world,
            peer: Peer::Runs,
            node,
            names,
            failed: 0,
            killed: 0,
            asked: Vec::new(),
            begun: Vec::new(),
            others: Vec::new(),
            others_decided: Vec::new(),
        }
    }

    fn runs(&mut self, container: usize) -> bool {
        matches!(self.world.container(self.names[container]).now, Doing::Running { .. })
    }

    fn play(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Pass { millis } => self.world.advance(TickDuration::from_millis(*millis)),
            Step::Exit { container, code } => {
                if self.runs(*container) {
                    self.world.exit(self.names[*container], *code, "Error", "");
                    self.failed += 1;
                }
            }
            Step::Run { container } => {
                if !self.runs(*container) {
                    self.world.run(self.names[*container]);
                }
            }
            Step::CrashUnseen { container, times } => {
                for _ in 0..*times {
                    if !self.runs(*container) {
                        self.world.run(self.names[*container]);
                    }
                    self.world.exit(self.names[*container], 1, "Error", "");
                    self.failed += 1;
                }
            }
            Step::CarryOut => self.carry_out()?,
            Step::Hold => {
                if self.world.restarts.last().is_some_and(|r| {
                    r.status.is_none() && r.spec.rung().carried_out_by() == CarriedOutBy::Operator
                }) {
                    self.world.hold("it would violate the pod's disruption budget");
                }
            }
            Step::Refuse => {
                let open = self.world.restarts.last().is_some_and(|r| r.status.is_none());
                if open && self.node == Node::WhenItPleases {
                    self.world.report(PodRestartPhase::Refused);
                }
            }
            Step::Withdraw => self.withdraw(),
            Step::RunAll => {
                for name in self.names {
                    if !matches!(self.world.container(name).now, Doing::Running { .. }) {
                        self.world.run(name);
                    }
                }
            }
            Step::Peers(peer) => {
                self.peer = *peer;
                self.world.peers = peer.seen(self.world.now);
            }
            Step::Healthy(before) => {
                self.world.rollback = match before {
                    Before::Nothing => None,
                    Before::HealthyRevision => {
                        Some(RollbackTarget { deployment: "web".to_owned(), revision: 1 })
                    }
                };
            }
            Step::OtherBegins => self.other_begins(),
            Step::OtherEnds => {
                if !self.others.is_empty() {
                    self.others.remove(0);
                }
            }
        }
        self.look()
    }

    /// The pod is well again before it was evicted: what was asked for counts as if it had not
    /// been.
    fn withdraw(&mut self) {
        let open = self.world.restarts.last().filter(|restart| {
            restart.status.is_none()
                && restart.spec.rung().carried_out_by() == CarriedOutBy::Operator
        });
        let Some(name) = open.and_then(|restart| restart.metadata.name.clone()) else { return };
        self.world.run_all();
        self.world.report(PodRestartPhase::Withdrawn);
        self.asked.retain(|(asked, ..)| *asked != name);
    }

    /// Another pod's ladder asks for a restart, as far as the budget allows it.
    fn other_begins(&mut self) {
        let (under_way, decided) = self.taken();
        let policy = &self.world.policy;
        let is_free = policy.max_concurrent.is_none_or(|limit| under_way < limit as usize)
            && policy.per_minute.is_none_or(|limit| decided < limit as usize);
        if is_free {
            self.others.push(self.world.now);
            self.others_decided.push(self.world.now);
        }
    }

    /// What is taken of the budget by now: restarts under way, and those decided within a minute.
    fn taken(&self) -> (usize, usize) {
        let now = self.world.now;
        let is_open = self.world.restarts.last().is_some_and(|restart| {
            let phase = restart.status.as_ref().and_then(|status| status.phase);
            !phase.is_some_and(PodRestartPhase::is_final)
        });
        let waited_for = |at: &&Tick| now.since(**at) < RESTART_GIVEN_UP_AFTER;
        let own = self.asked.iter().map(|(_, _, at)| at);
        let decided = own.chain(&self.others_decided).filter(|at| now.since(**at) < MINUTE);
        (self.others.iter().filter(waited_for).count() + usize::from(is_open), decided.count())
    }

    /// What the ladder is told of the other pods.
    fn show_others(&mut self) {
        let now = self.world.now;
        let waited_for = |at: &&Tick| now.since(**at) < RESTART_GIVEN_UP_AFTER;
        let decided = self.others_decided.iter().filter(|at| now.since(**at) < MINUTE);
        self.world.others = Occupancy {
            under_way: self.others.iter().filter(waited_for).copied().collect(),
            decided: decided.copied().collect(),
        };
    }

    /// The node carries out the restart that was asked for last, if it has not yet.
    fn carry_out(&mut self) -> Result<(), TestCaseError> {
        let Some(restart) = self.world.restarts.last().filter(|r| is_to_be_begun(r)) else {
            return Ok(());
        };
        let (rung, asked) = (restart.spec.rung(), restart.metadata.creation_timestamp.as_ref());
        let age = asked.map_or(TickDuration::ZERO, |at| self.world.now.since(Tick::from(at)));
        // what a node does not begin in time has failed, and does not begin any more
        if rung.carried_out_by() == CarriedOutBy::Operator || age < RESTART_GIVEN_UP_AFTER {
            self.begun.push((rung, self.world.now));
            self.check_begun(rung)?;
        }
        if restart.spec.rung().carried_out_by() == CarriedOutBy::Operator {
            if restart.spec.rung() == Rung::Rollback {
                self.world.rollback = None;
            }
            self.world.report(PodRestartPhase::Running);
            self.world.replace();
            self.world.run_all();
            self.world.report(PodRestartPhase::Succeeded);
        } else {
            self.world.report(PodRestartPhase::Running);
            self.killed += (0..2).filter(|container| self.runs(*container)).count() as u64;
            self.world.kill_all();
            self.world.run_all();
            self.world.report(PodRestartPhase::Succeeded);
        }
        Ok(())
    }

    /// However long a restart was held back: no more of a rung are carried out within the window
    /// than the ladder allows. A status tells whole seconds.
    fn check_begun(&self, rung: Rung) -> Result<(), TestCaseError> {
        let policy = &self.world.policy;
        let step = policy.steps.iter().find(|step| step.rung == rung);
        let second = TickDuration::from_secs(1);
        let inside = |at: Tick| self.world.now.since(at) + second < policy.window;
        let begun = self.begun.iter().filter(|(of, at)| *of == rung && inside(*at)).count();
        let allowed = usize::try_from(step.map_or(0, |step| step.attempts)).expect("small");
        prop_assert!(begun <= allowed, "{rung} is carried out {begun} times within the window");
        Ok(())
    }

    /// Decides, and checks the decision.
    fn look(&mut self) -> Result<(), TestCaseError> {
        self.show_others();
        let before = self.world.ledger.clone().unwrap_or_default();
        let up_since = self.up_since();
        let mut twin = self.world.clone();
        let decision = self.world.decide();
        prop_assert_eq!(&twin.decide(), &decision, "the same situation, the same decision");
        let again = self.world.clone().decide();
        prop_assert_eq!(&again.ledger, &decision.ledger, "deciding again changes nothing");
        prop_assert!(again.events.is_empty(), "and says nothing: {:?}", again.events);

        let ledger = &decision.ledger;
        prop_assert!(ledger.failures_total >= before.failures_total, "never falls");
        match self.node {
            Node::AtOnce => prop_assert_eq!(ledger.failures_total, self.failed, "counted once"),
            // An attempt that began and was ended by a late restart within one second may be taken
            // for a failure.
            Node::WhenItPleases => {
                prop_assert!(ledger.failures_total <= self.failed + self.killed, "counted twice");
            }
        }
        self.check_bounds()?;
        self.check_authority(&decision)?;
        if let LadderAction::Restart(plan) = &decision.action {
            let is_new = self.asked.iter().all(|(name, ..)| *name != plan.name);
            if is_new {
                let open = self.world.restarts.iter().any(|restart| {
                    let created = restart.metadata.creation_timestamp.as_ref().expect("shown");
                    let age = self.world.now.since(Tick::from(created));
                    // a node that says nothing for ten minutes is not waited for
                    let is_waited_for = restart.spec.rung().carried_out_by()
                        == CarriedOutBy::Operator
                        || age.as_secs() < 599;
                    is_to_be_begun(restart)
                        && is_waited_for
                        && restart.spec.pod_uid == plan.spec().pod_uid
                });
                prop_assert!(!open, "two restarts of a pod at once");
                let failed_anew = ledger.failures_total > before.failures_total;
                prop_assert!(
                    failed_anew || before.held_rung.is_some(),
                    "a healthy pod is left alone"
                );
                let settled = up_since.is_some_and(|at| {
                    self.world.now.since(at)
                        >= TickDuration::from_secs(12).min(self.world.policy.window)
                });
                prop_assert!(!settled, "what has been running for a while is left alone");
                prop_assert_ne!(before.phase, Some(LedgerPhase::Exhausted), "exhausted rests");
                match self.peer {
                    Peer::Runs | Peer::OfNode => {}
                    _ if plan.rung == Rung::Rollback => {}
                    Peer::OnTrial | Peer::InVain => {
                        return Err(TestCaseError::fail(format!("{} in an outage", plan.rung)));
                    }
                    Peer::Fails | Peer::Helped => {
                        prop_assert!(plan.rung < Rung::Recreate, "a new pod would be the same");
                    }
                }
                self.check_budget()?;
                let can_go_back = plan.rung != Rung::Rollback || self.world.rollback.is_some();
                prop_assert!(can_go_back, "there is no revision to go back to");
                self.asked.push((plan.name.clone(), plan.rung, self.world.now));
                self.check_attempts(plan.rung)?;
            }
            self.world.show(&plan.name, plan.spec());
            if self.node == Node::AtOnce {
                self.carry_out()?;
                return self.look();
            }
        }
        if before.phase == Some(LedgerPhase::Exhausted) && ledger.phase != before.phase {
            let stable = up_since.map(|at| self.world.now.since(at));
            let enough = stable.is_some_and(|span| span >= self.world.policy.window);
            prop_assert!(enough, "exhausted until a stable run as long as the window");
        }
        Ok(())
    }

    /// Nothing is asked for that cannot be carried out, or is not to be.
    fn check_authority(&self, decision: &RestartDecision) -> Result<(), TestCaseError> {
        let LadderAuthority { mode, in_place } = self.world.authority;
        match (mode, in_place, &decision.action) {
            (LadderMode::Observe, _, action) => prop_assert_eq!(action, &LadderAction::None),
            (LadderMode::Act, InPlaceSupport::NoAgent, LadderAction::Restart(plan)) => {
                prop_assert!(!needs_agent(plan.rung), "{} has no agent", plan.rung);
            }
            (LadderMode::Act, InPlaceSupport::WholePods, LadderAction::Restart(plan)) => {
                prop_assert!(plan.rung != Rung::Containers, "the sandbox would stay");
            }
            (LadderMode::Act, _, _) => {}
        }
        let noted = decision.ledger.decisions.iter().flatten().any(|d| d.is_dry_run());
        prop_assert!(!noted || mode == LadderMode::Observe, "what is done is no dry run");
        Ok(())
    }

    /// Since when everything runs, in whole seconds as the API tells it.
    fn up_since(&mut self) -> Option<Tick> {
        let mut latest = Tick::ZERO;
        for name in self.names {
            let Doing::Running { since } = self.world.container(name).now else { return None };
            latest = latest.max(Tick::from_secs(since.as_micros() / 1_000_000));
        }
        Some(latest)
    }

    fn check_attempts(&self, rung: Rung) -> Result<(), TestCaseError> {
        let policy = &self.world.policy;
        let step = policy.steps.iter().find(|step| step.rung == rung);
        let allowed = step.map_or(0, |step| step.attempts);
        let inside = self
            .asked
            .iter()
            .filter(|(_, of, at)| *of == rung && self.world.now.since(*at) < policy.window);
        prop_assert!(
            inside.count() <= usize::try_from(allowed).expect("small"),
            "{rung} too often"
        );
        Ok(())
    }

    /// One more is about to be asked for.
    fn check_budget(&self) -> Result<(), TestCaseError> {
        let policy = &self.world.policy;
        let (_, decided) = self.taken();
        for (what, taken, limit) in [
            ("maxConcurrent", self.world.others.under_way.len(), policy.max_concurrent),
            ("perMinute", decided, policy.per_minute),
        ] {
            let has_room = limit.is_none_or(|limit| taken < limit as usize);
            prop_assert!(has_room, "{what} of {limit:?} is overdrawn: {taken} are taken");
        }
        Ok(())
    }

    fn check_bounds(&self) -> Result<(), TestCaseError> {
        let Some(ledger) = &self.world.ledger else { return Ok(()) };
        let decisions = ledger.decisions.as_deref().unwrap_or_default();
        prop_assert!(decisions.len() <= 32);
        prop_assert!(decisions.iter().all(|d| d.reason.len() <= 1024 && d.count > 0));
        prop_assert!(
            decisions.iter().all(|d| d.first_at.as_ref().is_none_or(|first| *first <= d.at))
        );
        prop_assert!(ledger.message.as_deref().unwrap_or_default().len() <= 1024);
        let summary = ledger.summary.as_deref();
        prop_assert!(summary.is_none_or(|summary| summary.chars().count() <= 60), "{summary:?}");
        prop_assert_eq!(summary.is_some(), ledger.message.is_some());
        prop_assert!(ledger.observed.as_deref().unwrap_or_default().len() <= self.names.len());
        for attempts in ledger.attempts.iter().flatten() {
            let step = self.world.policy.steps.iter().find(|step| step.rung == attempts.rung);
            let allowed = usize::try_from(step.map_or(0, |step| step.attempts)).expect("small");
            prop_assert!(attempts.at.len() <= allowed, "{} too often", attempts.rung);
            prop_assert!(!attempts.at.is_empty());
        }
        Ok(())
    }

    /// From now on nothing fails: the ladder comes to rest, healthy.
    fn recovers(&mut self) -> Result<(), TestCaseError> {
        self.play(&Step::Peers(Peer::Runs))?;
        self.others.clear();
        self.show_others();
        self.play(&Step::CarryOut)?;
        self.play(&Step::RunAll)?;
        for _ in 0..8 {
            self.carry_out()?;
            let decision = self.world.decide();
            if let LadderAction::Restart(plan) = &decision.action {
                self.world.show(&plan.name, plan.spec());
                continue;
            }
            let Some(at) = decision.again_at else {
                let phase = decision.ledger.phase;
                prop_assert!(matches!(phase, None | Some(LedgerPhase::Healthy)), "{phase:?}");
                prop_assert_eq!(decision.ledger.attempts, None);
                return Ok(());
            };
            prop_assert!(at > self.world.now, "it never asks to be woken in the past");
            self.world.now = at;
        }
        Err(TestCaseError::fail("it does not come to rest"))
    }
}

/// Nobody has begun it: it waits to be seen, or is held back.
fn is_to_be_begun(restart: &PodRestart) -> bool {
    let Some(status) = &restart.status else { return true };
    let step = status.replacement.as_ref().map(|replacement| replacement.step);
    step == Some(ReplacementStep::Held) && !status.phase.is_some_and(PodRestartPhase::is_final)
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn every_failure_is_counted_once_when_restarts_are_carried_out_at_once(
        policy in policy(),
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let mut play = Play::new(policy, Node::AtOnce);
        // Before there is a ledger, an old pod's status does not prove when all of its ends were:
        // see `05_counting.txt`.
        play.play(&Step::Exit { container: 0, code: 1 })?;
        for step in &steps {
            play.play(step)?;
        }
        play.recovers()?;
    }

    #[test]
    fn the_ladder_keeps_its_promises_without_an_agent_and_while_it_only_observes(
        policy in policy(),
        steps in proptest::collection::vec(step(), 1..60),
        mode in prop_oneof![Just(LadderMode::Act), Just(LadderMode::Observe)],
        in_place in prop_oneof![Just(InPlaceSupport::NoAgent), Just(InPlaceSupport::WholePods)],
    ) {
        let mut play = Play::new(policy, Node::WhenItPleases);
        play.world.authority = LadderAuthority { mode, in_place };
        for step in &steps {
            play.play(step)?;
        }
        play.recovers()?;
    }

    #[test]
    fn the_ladder_keeps_its_promises_when_restarts_are_late_refused_or_never_come(
        policy in policy(),
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let mut play = Play::new(policy, Node::WhenItPleases);
        for step in &steps {
            play.play(step)?;
        }
        play.recovers()?;
    }
}
