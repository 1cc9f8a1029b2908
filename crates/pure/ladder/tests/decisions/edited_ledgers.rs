//! Ledgers that somebody has edited by hand, with whatever the API lets through: nothing breaks,
//! what is remembered stays small, what runs is left alone for ever after one stable window, and a
//! pod that fails is restarted again in time.

use proptest::prelude::*;
use rekindle_ladder::{LadderAction, LadderPolicy};
use rekindle_types::v1alpha1::{
    HoldReason, LadderBudget, LadderRung, LedgerDecision, LedgerPhase, ObservedContainer,
    PodRestart, PodRestartPhase, ReplacementStep, RestartLadder, RestartLedgerStatus,
    RestartOutcome, Rung, RungAttempts,
};
use rekindle_types::validation::names;
use rekindle_types::{Tick, TickDuration};

use crate::world::{DAWN, Doing, Role, World};

const HOUR: TickDuration = TickDuration::from_secs(3_600);
const WINDOW: TickDuration = TickDuration::from_secs(300);
/// By then nothing of what was written is left: attempts and decisions leave with the window, a
/// restart that nobody begins is given up after ten minutes and its request outlives it by as much.
const REST_AFTER: TickDuration = HOUR;

fn policy() -> impl Strategy<Value = LadderPolicy> {
    let attempts = || proptest::option::of(1..3u32);
    let budget = (proptest::option::of(1..3u32), proptest::option::of(1..4u32));
    (attempts(), 1..3u32, attempts(), budget).prop_map(
        |(container, pod, recreate, (max_concurrent, per_minute))| {
            let rungs =
                [(Rung::Container, container), (Rung::Pod, Some(pod)), (Rung::Recreate, recreate)];
            let rungs = rungs.into_iter().filter(|(_, attempts)| attempts.is_some());
            let mut ladder = RestartLadder::default();
            ladder.metadata.generation = Some(1);
            ladder.spec.selector.match_labels = Some([("app".to_owned(), "web".to_owned())].into());
            ladder.spec.window = Some(format!("{}s", WINDOW.as_secs()));
            ladder.spec.rungs = rungs
                .map(|(rung, attempts)| LadderRung {
                    rung,
                    attempts,
                    empty_dirs: None,
                    avoid_node_for: None,
                })
                .collect();
            ladder.spec.budget = Some(LadderBudget { max_concurrent, per_minute });
            LadderPolicy::from_ladder(&ladder).expect("a valid ladder")
        },
    )
}

/// Long ago, just now, soon, and when nobody lives any more.
fn time() -> impl Strategy<Value = Tick> {
    let dawn = DAWN.as_micros();
    let around = 2 * HOUR.as_micros();
    prop_oneof![
        Just(Tick::ZERO),
        (dawn - around..dawn + around).prop_map(Tick::from_micros),
        Just(Tick::from_secs(250_000_000_000)),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[ -~]{1,20}",
        Just("Ü".repeat(3_000)),
        Just("uid-1".to_owned()),
        Just("web-0-pod-1".to_owned()),
        Just("No name/..".to_owned()),
    ]
}

fn rung() -> impl Strategy<Value = Rung> {
    proptest::sample::select(Rung::ALL.to_vec())
}

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![0..4u32, Just(u32::MAX)]
}

fn maybe<S: Strategy>(of: S) -> impl Strategy<Value = Option<S::Value>> {
    proptest::option::of(of)
}

fn list<S: Strategy>(of: S) -> impl Strategy<Value = Option<Vec<S::Value>>> {
    maybe(proptest::collection::vec(of, 0..40))
}

fn attempts() -> impl Strategy<Value = RungAttempts> {
    let at = prop_oneof![
        proptest::collection::vec(time(), 0..6),
        time().prop_map(|at| vec![at; 5_000]),
    ];
    (rung(), at).prop_map(|(rung, at)| RungAttempts {
        rung,
        at: at.into_iter().map(Tick::to_micro_time).collect(),
    })
}

fn observed() -> impl Strategy<Value = ObservedContainer> {
    let name = prop_oneof![Just("app".to_owned()), Just("proxy".to_owned()), text()];
    (name, number(), maybe(number())).prop_map(|(name, ended_attempts, excused_attempt)| {
        ObservedContainer { name, ended_attempts, excused_attempt }
    })
}

fn outcome() -> impl Strategy<Value = RestartOutcome> {
    let phases = [
        PodRestartPhase::Running,
        PodRestartPhase::Succeeded,
        PodRestartPhase::Failed,
        PodRestartPhase::Refused,
        PodRestartPhase::Withdrawn,
    ];
    let steps = [ReplacementStep::Held, ReplacementStep::Evicting, ReplacementStep::Starting];
    let states = (
        proptest::sample::select(phases.to_vec()),
        maybe(proptest::sample::select(steps.to_vec())),
    );
    (states, rung(), text(), maybe(text()), maybe(text()), maybe(time()), maybe(time())).prop_map(
        |((phase, step), rung, pod_name, message, new_pod_name, started, finished)| {
            RestartOutcome {
                phase,
                pod_name,
                rung,
                message,
                started_at: started.map(Tick::to_time),
                finished_at: finished.map(Tick::to_time),
                step,
                new_pod_name,
                rollback: None,
            }
        },
    )
}

fn decision() -> impl Strategy<Value = LedgerDecision> {
    (time(), maybe(time()), maybe(rung()), text(), number(), maybe(text()), maybe(outcome()))
        .prop_map(|(at, first_at, rung, reason, count, pod_restart, outcome)| LedgerDecision {
            at: at.to_micro_time(),
            first_at: first_at.map(Tick::to_micro_time),
            rung,
            reason,
            count,
            pod_restart,
            outcome,
        })
}

fn ledger() -> BoxedStrategy<RestartLedgerStatus> {
    let phases = [LedgerPhase::Healthy, LedgerPhase::Climbing, LedgerPhase::Exhausted];
    let phases = [&phases[..], &[LedgerPhase::Holding]].concat();
    let held = [HoldReason::Futile, HoldReason::Revision, HoldReason::Trial, HoldReason::Eviction];
    let names = (maybe(text()), maybe(text()), maybe(text()), maybe(text()), maybe(text()));
    let rungs = (maybe(rung()), maybe(rung()), maybe(rung()));
    let times = (maybe(time()), maybe(time()), maybe(time()));
    let counts =
        (prop_oneof![0..9u64, Just(u64::MAX)], maybe(prop_oneof![0..600i64, Just(i64::MAX)]));
    let lists = (list(attempts().boxed()), list(observed().boxed()), list(decision().boxed()));
    let states =
        (maybe(proptest::sample::select(phases)), maybe(proptest::sample::select(held.to_vec())));
    (names, rungs, times, counts, lists, states, maybe(text()))
        .prop_map(|(names, rungs, times, counts, lists, states, message)| RestartLedgerStatus {
            pod_uid: names.0,
            revision: names.1,
            excused_by: names.2,
            pending_restart: names.3,
            failing_pod_uid: names.4,
            rung: rungs.0,
            held_rung: rungs.1,
            in_vain: rungs.2,
            next_attempt_at: times.0.map(Tick::to_micro_time),
            stable_since: times.1.map(Tick::to_micro_time),
            exhaustion_told_at: times.2.map(Tick::to_time),
            failures_total: counts.0,
            last_run_seconds: counts.1,
            attempts: lists.0,
            observed: lists.1,
            decisions: lists.2,
            phase: states.0,
            held_by: states.1,
            summary: message.clone(),
            message,
            ..RestartLedgerStatus::default()
        })
        .boxed()
}

/// What says at least which pod it is of, and waits for what it asked for last.
fn coherent(mut ledger: RestartLedgerStatus) -> RestartLedgerStatus {
    ledger.pod_uid = Some("uid-1".to_owned());
    let last = ledger.asked().next_back().and_then(|last| last.pod_restart.clone());
    ledger.pending_restart = last;
    ledger
}

fn any_ledger() -> impl Strategy<Value = RestartLedgerStatus> {
    prop_oneof![ledger(), ledger().prop_map(coherent)]
}

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Exit(i32),
    RunAll,
    CarryOut,
    Edit(Box<RestartLedgerStatus>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..120u64).prop_map(Step::Pass),
        3 => (0..3i32).prop_map(Step::Exit),
        2 => Just(Step::RunAll),
        2 => Just(Step::CarryOut),
        1 => any_ledger().prop_map(|ledger| Step::Edit(Box::new(ledger))),
    ]
}

fn play(world: &mut World, step: &Step) -> Result<(), TestCaseError> {
    match step {
        Step::Pass(secs) => world.advance(TickDuration::from_secs(*secs)),
        Step::Exit(code) => {
            if matches!(world.container("app").now, Doing::Running { .. }) {
                world.exit("app", *code, "Error", "");
            }
        }
        Step::RunAll => world.run_all(),
        Step::CarryOut => carry_out(world),
        Step::Edit(ledger) => world.ledger = Some(ledger.as_ref().clone()),
    }
    look(world).map(drop)
}

/// The newest restart, if it is not over.
fn carry_out(world: &mut World) {
    let phase = |restart: &PodRestart| restart.status.as_ref().and_then(|status| status.phase);
    let is_open = world
        .restarts
        .last()
        .is_some_and(|restart| !phase(restart).is_some_and(PodRestartPhase::is_final));
    if is_open {
        world.report(PodRestartPhase::Running);
        world.kill_all();
        world.run_all();
        world.report(PodRestartPhase::Succeeded);
    }
}

/// Decides, and checks the decision. When the ladder wants to be woken.
fn look(world: &mut World) -> Result<Option<Tick>, TestCaseError> {
    let decision = world.decide();
    prop_assert!(decision.again_at.is_none_or(|at| at > world.now), "woken in the past");
    let ledger = &decision.ledger;
    let decisions = ledger.decisions.as_deref().unwrap_or_default();
    prop_assert!(decisions.len() <= 32, "{} decisions", decisions.len());
    let told = decisions.iter().map(|decision| &decision.reason).chain(&ledger.message);
    prop_assert!(told.into_iter().all(|text| text.len() <= 1024), "a text is too long");
    let summary = ledger.summary.as_deref().unwrap_or_default();
    prop_assert!(summary.chars().count() <= 60, "{summary:?}");
    for attempts in ledger.attempts.iter().flatten() {
        let count = attempts.at.len();
        prop_assert!((1..=1_000).contains(&count), "{count} attempts of {}", attempts.rung);
    }
    let size = serde_json::to_string(ledger).expect("it is an object").len();
    prop_assert!(size <= 256 * 1024, "{size} bytes");
    if let LadderAction::Restart(plan) = &decision.action {
        // the API would refuse it each time, and the ladder would ask for ever
        prop_assert_eq!(names::dns_subdomain(&plan.name), Vec::<String>::new());
        world.show(&plan.name, plan.spec());
    }
    Ok(decision.again_at)
}

/// From now on nothing fails: the ladder comes to rest, healthy, and nothing is left of what
/// somebody wrote.
fn rests(world: &mut World) -> Result<(), TestCaseError> {
    world.run_all();
    let begun = world.now;
    for _ in 0..64 {
        carry_out(world);
        let Some(at) = look(world)? else {
            let ledger = world.ledger.clone().unwrap_or_default();
            prop_assert!(matches!(ledger.phase, None | Some(LedgerPhase::Healthy)), "{ledger:?}");
            prop_assert_eq!(ledger.attempts, None);
            prop_assert_eq!(
                (ledger.pending_restart, ledger.held_rung, ledger.held_by),
                (None, None, None)
            );
            return Ok(());
        };
        prop_assert!(at.since(begun) <= REST_AFTER, "it waits until {at:?}: {:?}", world.ledger);
        world.now = at;
    }
    Err(TestCaseError::fail("it does not come to rest"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 2, ..ProptestConfig::default() })]

    #[test]
    fn a_ledger_that_was_edited_by_hand_breaks_nothing_and_is_forgotten(
        policy in policy(),
        first in any_ledger(),
        steps in proptest::collection::vec(step(), 1..12),
    ) {
        let mut world = World::new(policy);
        world.add("app", Role::Regular);
        world.add("proxy", Role::Regular);
        world.run_all();
        world.ledger = Some(first);
        look(&mut world)?;
        for step in &steps {
            play(&mut world, step)?;
        }
        rests(&mut world)?;
    }
}
