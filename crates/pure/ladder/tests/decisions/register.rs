//! Whatever changes, the register says what a walk over all ledgers and requests would.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use proptest::prelude::*;
use rekindle_ladder::{BudgetApplicant, LedgerRegister, PendingDecision};
use rekindle_types::v1alpha1::{
    PodReplacement, PodRestart, PodRestartPhase, PodRestartStatus, ReplacementStep, RestartLedger,
    RestartLedgerStatus, Rung, RungAttempts,
};
use rekindle_types::{Tick, TickDuration};

use crate::anew;

const NOW: Tick = Tick::from_secs(100_000);

fn ago(secs: u64) -> Tick {
    NOW - TickDuration::from_secs(secs)
}

/// In the past mostly, and in the future after a clock was set back.
fn somewhen() -> impl Strategy<Value = Tick> {
    let about = prop_oneof![Just(0), Just(60), Just(600)];
    let near = (about, 0..3u64).prop_map(|(secs, micros)| {
        NOW + TickDuration::from_secs(secs) + TickDuration::from_micros(micros)
            - TickDuration::from_micros(1)
    });
    let ahead = (0..90_000u64).prop_map(|secs| NOW + TickDuration::from_secs(secs));
    prop_oneof![6 => (0..700u64).prop_map(ago), 1 => near, 1 => ahead]
}

/// A change of one object; few names, so that they meet.
#[derive(Clone, Debug)]
enum Change {
    Ledger(Box<RestartLedger>),
    NoLedger { namespace: String, name: String },
    Restart(Box<PodRestart>),
    NoRestart { namespace: String, name: String },
}

fn namespace() -> impl Strategy<Value = String> {
    (0..2u8).prop_map(|n| format!("ns{n}"))
}

fn ledger() -> impl Strategy<Value = RestartLedger> {
    let attempts = prop::collection::vec((0..3usize, somewhen()), 0..4);
    let pending = prop::option::of(0..4u8);
    (namespace(), 0..5u8, 0..2u8, 0..2u8, attempts, pending).prop_map(
        |(namespace, pod, ladder, owner, attempts, pending)| {
            let mut ledger = RestartLedger::default();
            ledger.metadata.namespace = Some(namespace);
            ledger.metadata.name = Some(format!("ledger-{pod}"));
            let owner = OwnerReference { uid: format!("owner-{owner}"), ..Default::default() };
            ledger.metadata.owner_references = Some(vec![owner]);
            ledger.spec.pod_name = format!("pod-{pod}");
            ledger.spec.pod_uid = format!("uid-{pod}");
            ledger.spec.ladder_name = format!("ladder-{ladder}");
            let rungs = [Rung::Container, Rung::Pod, Rung::Recreate];
            let attempts = rungs.iter().enumerate().map(|(place, rung)| {
                let of_rung = attempts.iter().filter(|(of, _)| *of == place);
                let at = of_rung.map(|(_, at)| at.to_micro_time()).collect();
                RungAttempts { rung: *rung, at }
            });
            ledger.status = Some(RestartLedgerStatus {
                attempts: Some(attempts.collect()),
                pending_restart: pending.map(|n| format!("pod-{pod}-{n}")),
                held_rung: pending.map(|_| Rung::Pod),
                ..Default::default()
            });
            ledger
        },
    )
}

fn restart() -> impl Strategy<Value = PodRestart> {
    let phase = prop::option::of(prop_oneof![
        Just(PodRestartPhase::Running),
        Just(PodRestartPhase::Succeeded)
    ]);
    let step = prop::option::of(prop_oneof![
        Just(ReplacementStep::Held),
        Just(ReplacementStep::Evicting),
        Just(ReplacementStep::Starting)
    ]);
    let ladder = prop::option::of(0..2u8);
    let times = (somewhen(), prop_oneof![0..5u64, 0..700u64]);
    (namespace(), 0..5u8, 0..4u8, times, phase, step, 0..5u8, ladder).prop_map(
        |(namespace, pod, number, (created, late), phase, step, new_pod, ladder)| {
            let mut restart = PodRestart::default();
            restart.metadata.namespace = Some(namespace);
            restart.metadata.name = Some(format!("pod-{pod}-{number}"));
            restart.metadata.creation_timestamp = Some(created.to_time());
            restart.spec.pod_name = format!("pod-{pod}");
            restart.spec.ladder_name = ladder.map(|n| format!("ladder-{n}"));
            restart.spec.rung = step.map(|_| Rung::Recreate);
            let started_at = step
                .filter(|step| *step != ReplacementStep::Held)
                .map(|_| (created + TickDuration::from_secs(late)).to_time());
            let replacement = step.map(|step| PodReplacement {
                new_pod_name: (step == ReplacementStep::Starting).then(|| format!("pod-{new_pod}")),
                new_pod_uid: (step == ReplacementStep::Starting).then(|| format!("uid-{new_pod}")),
                ..PodReplacement::new(step, NOW.to_time(), format!("uid-{pod}"), "n1".to_owned())
            });
            restart.status = Some(PodRestartStatus {
                phase,
                replacement,
                started_at,
                ..PodRestartStatus::default()
            });
            restart
        },
    )
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => ledger().prop_map(|ledger| Change::Ledger(Box::new(ledger))),
        4 => restart().prop_map(|restart| Change::Restart(Box::new(restart))),
        1 => (namespace(), 0..5u8).prop_map(|(namespace, n)| Change::NoLedger {
            namespace, name: format!("ledger-{n}"),
        }),
        1 => (namespace(), 0..5u8, 0..4u8).prop_map(|(namespace, n, m)| Change::NoRestart {
            namespace, name: format!("pod-{n}-{m}"),
        }),
    ]
}

fn is_named(
    metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    namespace: &str,
    name: &str,
) -> bool {
    metadata.namespace.as_deref() == Some(namespace) && metadata.name.as_deref() == Some(name)
}

/// The objects as they are after the changes.
#[derive(Default)]
struct World {
    ledgers: Vec<RestartLedger>,
    restarts: Vec<PodRestart>,
    register: LedgerRegister,
}

impl World {
    fn play(&mut self, change: Change) {
        match change {
            Change::Ledger(ledger) => {
                let meta = &ledger.metadata;
                let (namespace, name) = (meta.namespace.clone(), meta.name.clone());
                self.ledgers
                    .retain(|l| l.metadata.namespace != namespace || l.metadata.name != name);
                self.register.put_ledger(&ledger);
                self.ledgers.push(*ledger);
            }
            Change::NoLedger { namespace, name } => {
                self.ledgers.retain(|l| !is_named(&l.metadata, &namespace, &name));
                self.register.remove_ledger(&namespace, &name);
            }
            Change::Restart(restart) => {
                let meta = &restart.metadata;
                let (namespace, name) = (meta.namespace.clone(), meta.name.clone());
                self.restarts
                    .retain(|r| r.metadata.namespace != namespace || r.metadata.name != name);
                self.register.put_restart(&restart);
                self.restarts.push(*restart);
            }
            Change::NoRestart { namespace, name } => {
                self.restarts.retain(|r| !is_named(&r.metadata, &namespace, &name));
                self.register.remove_restart(&namespace, &name);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn the_register_says_what_a_walk_over_everything_would(
        changes in prop::collection::vec(change(), 1..40),
    ) {
        let mut world = World::default();
        for change in changes {
            world.play(change);
        }
        for (namespace, pod) in [("ns0", 0), ("ns0", 3), ("ns1", 1), ("ns2", 2)] {
            let (pod_name, pod_uid) = (format!("pod-{pod}"), format!("uid-{pod}-{namespace}"));
            for (pod_uid, controller) in
                [(pod_uid.as_str(), None), (&*format!("uid-{pod}"), Some("owner-1"))]
            {
                let asker =
                    BudgetApplicant { namespace, pod_name: &pod_name, pod_uid, controller, ladder: "ladder-1" };
                // a UID is in one namespace only
                let elsewhere = |l: &&RestartLedger| {
                    l.spec.pod_uid != pod_uid || l.metadata.namespace.as_deref() == Some(namespace)
                };
                let ledgers: Vec<RestartLedger> =
                    world.ledgers.iter().filter(elsewhere).cloned().collect();
                if ledgers.len() == world.ledgers.len() {
                    let anew = anew::crowd(NOW, &asker, &ledgers, &world.restarts);
                    prop_assert_eq!(world.register.crowd(NOW, &asker, &[]), anew);
                }
                let anew = anew::occupancy(NOW, &asker, &world.ledgers, &world.restarts);
                prop_assert_eq!(world.register.occupancy(NOW, &asker), anew);
            }
            let held = |l: &&RestartLedger| {
                l.metadata.namespace.as_deref() == Some(namespace)
                    && l.status.as_ref().is_some_and(|status| status.held_rung.is_some())
            };
            let mut anew: Vec<&str> =
                world.ledgers.iter().filter(held).map(|l| l.spec.pod_name.as_str()).collect();
            anew.sort_unstable();
            let mut kept: Vec<&str> = world.register.held_back(namespace).collect();
            kept.sort_unstable();
            prop_assert_eq!(kept, anew);
        }
        let mut afresh = LedgerRegister::default();
        world.ledgers.iter().for_each(|ledger| afresh.put_ledger(ledger));
        world.restarts.iter().for_each(|restart| afresh.put_restart(restart));
        prop_assert_eq!(world.register, afresh, "nothing is left of what is gone");
    }
}

#[test]
fn a_decision_that_no_ledger_shows_yet_is_spent() {
    let mut world = World::default();
    let asker = BudgetApplicant {
        namespace: "a",
        pod_name: "web",
        pod_uid: "uid-web",
        controller: None,
        ladder: "web",
    };
    let granted = |namespace: &str, pod: &str| PendingDecision {
        namespace: namespace.to_owned(),
        pod_name: pod.to_owned(),
        at: NOW,
    };
    let all = [granted("b", "pod-1"), granted("a", "web"), granted("a", "other")];
    let crowd = world.register.crowd(NOW, &asker, &all);
    assert_eq!((crowd.cluster, crowd.namespace), (vec![NOW; 2], vec![NOW]), "the own is not");
    let mut ledger = RestartLedger::default();
    ledger.metadata.namespace = Some("b".to_owned());
    ledger.metadata.name = Some("pod-1".to_owned());
    ledger.spec.pod_name = "pod-1".to_owned();
    let attempts = vec![RungAttempts { rung: Rung::Pod, at: vec![NOW.to_micro_time()] }];
    ledger.status = Some(RestartLedgerStatus { attempts: Some(attempts), ..Default::default() });
    world.play(Change::Ledger(Box::new(ledger)));
    let crowd = world.register.crowd(NOW, &asker, &all);
    assert_eq!(crowd.cluster, vec![NOW; 2], "what a ledger shows is not counted twice");
}

/// A request of rung Recreate, made this long ago; it is at this step since then.
fn replacing(name: &str, made_secs_ago: u64, step: ReplacementStep, secs_ago: u64) -> PodRestart {
    let mut restart = PodRestart::default();
    restart.metadata.namespace = Some("shop".to_owned());
    restart.metadata.name = Some(name.to_owned());
    restart.metadata.creation_timestamp = Some(ago(made_secs_ago).to_time());
    restart.spec.pod_name = name.to_owned();
    restart.spec.rung = Some(Rung::Recreate);
    restart.spec.ladder_name = Some("web".to_owned());
    let since = ago(secs_ago).to_time();
    let begun = (step != ReplacementStep::Held).then(|| since.clone());
    restart.status = Some(PodRestartStatus {
        phase: Some(PodRestartPhase::Running),
        started_at: begun,
        replacement: Some(PodReplacement::new(step, since, format!("uid-{name}"), "n1".to_owned())),
        ..PodRestartStatus::default()
    });
    restart
}

#[test]
fn a_request_that_is_held_back_takes_no_room_and_one_that_goes_on_takes_it_anew() {
    use ReplacementStep::{Evicting, Held, Starting};
    let asker = BudgetApplicant {
        namespace: "shop",
        pod_name: "other",
        pod_uid: "uid-other",
        controller: None,
        ladder: "web",
    };
    // made, its step, since when; since when it takes room, and when it spends a token anew
    for (made, step, since, room, spent) in [
        (30, Held, 1, None, None),
        (5_000, Held, 1, None, None),
        (5_000, Evicting, 20, Some(20), Some(20)),
        (5_000, Starting, 90, Some(90), None), // the minute of its token is over
        (30, Evicting, 29, Some(29), None),    // its decision's token is the one
        (5_000, Evicting, 601, None, None),
    ] {
        let mut register = LedgerRegister::default();
        register.put_restart(&replacing("web-1", made, step, since));
        let occupancy = register.occupancy(NOW, &asker);
        let case = format!("made {made} s ago, {step:?} since {since} s");
        assert_eq!(occupancy.under_way, room.map(ago).as_slice(), "{case}");
        assert_eq!(occupancy.decided, spent.map(ago).as_slice(), "{case}");
        let crowd = register.crowd(NOW, &asker, &[]);
        assert_eq!(crowd.cluster, spent.map(ago).as_slice(), "{case}");
    }
}

/// A request that has lost its place to a later one goes on until what it asked for is so.
#[test]
fn a_pod_takes_one_place_of_a_budget_however_many_of_its_requests_are_open() {
    let in_place = |number: &str, secs: u64| {
        let mut restart = replacing("web-1", secs, ReplacementStep::Held, secs);
        restart.metadata.name = Some(format!("web-1-{number}"));
        restart.spec.rung = Some(Rung::Pod);
        restart.status =
            Some(PodRestartStatus { phase: Some(PodRestartPhase::Running), ..Default::default() });
        restart
    };
    let mut successor = replacing("web-0", 70, ReplacementStep::Starting, 60);
    let replacement = successor.status.as_mut().unwrap().replacement.as_mut().unwrap();
    replacement.new_pod_name = Some("web-1".to_owned());
    replacement.new_pod_uid = Some("uid-web-1".to_owned());
    let mut ledger = RestartLedger::default();
    ledger.metadata.namespace = Some("shop".to_owned());
    ledger.metadata.name = Some("web-0".to_owned());
    ledger.metadata.owner_references =
        Some(vec![OwnerReference { uid: "owner-1".to_owned(), ..Default::default() }]);
    ledger.spec.pod_name = "web-1".to_owned();
    ledger.spec.pod_uid = "uid-web-1".to_owned();
    ledger.spec.ladder_name = "web".to_owned();
    let attempts = vec![RungAttempts { rung: Rung::Pod, at: vec![ago(3).to_micro_time()] }];
    ledger.status = Some(RestartLedgerStatus {
        attempts: Some(attempts),
        pending_restart: Some("web-1-unseen".to_owned()),
        ..Default::default()
    });
    let mut register = LedgerRegister::default();
    register.put_restart(&successor);
    register.put_restart(&in_place("a", 40));
    register.put_restart(&in_place("b", 20));
    register.put_ledger(&ledger);
    let asker = BudgetApplicant {
        namespace: "shop",
        pod_name: "other",
        pod_uid: "uid-other",
        controller: Some("owner-1"),
        ladder: "web",
    };
    // until the last of them is over
    assert_eq!(register.occupancy(NOW, &asker).under_way, [ago(3)]);
    assert_eq!(register.crowd(NOW, &asker, &[]).workload, [ago(3)]);
    register.put_restart(&replacing("web-2", 5, ReplacementStep::Evicting, 4));
    assert_eq!(register.occupancy(NOW, &asker).under_way, [ago(4), ago(3)], "another pod");
}
