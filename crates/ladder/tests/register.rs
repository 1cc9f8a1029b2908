//! Whatever changes, the register says what a walk over all ledgers and requests would.
#![allow(unreachable_pub, reason = "the walk is shared with the benchmark")]

mod anew;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use proptest::prelude::*;
use rekindle_ladder::{Asker, Granted, Register};
use rekindle_types::v1alpha1::{
    PodReplacement, PodRestart, PodRestartPhase, PodRestartStatus, ReplacementStep, RestartLedger,
    RestartLedgerStatus, Rung, RungAttempts,
};
use rekindle_types::{Tick, TickDuration};

const NOW: Tick = Tick::from_secs(100_000);

fn ago(secs: u64) -> Tick {
    NOW - TickDuration::from_secs(secs)
}

/// A change of one object; few names, so that they meet.
#[derive(Clone, Debug)]
enum Change {
    Ledger(RestartLedger),
    NoLedger { namespace: String, name: String },
    Restart(PodRestart),
    NoRestart { namespace: String, name: String },
}

fn namespace() -> impl Strategy<Value = String> {
    (0..2u8).prop_map(|n| format!("ns{n}"))
}

fn ledger() -> impl Strategy<Value = RestartLedger> {
    let attempts = prop::collection::vec((0..3usize, 0..700u64), 0..4);
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
                let at = of_rung.map(|(_, secs)| ago(*secs).to_micro_time()).collect();
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
    let new_pod = prop::option::of(0..5u8);
    let ladder = prop::option::of(0..2u8);
    (namespace(), 0..5u8, 0..4u8, 0..700u64, phase, new_pod, ladder).prop_map(
        |(namespace, pod, number, secs, phase, new_pod, ladder)| {
            let mut restart = PodRestart::default();
            restart.metadata.namespace = Some(namespace);
            restart.metadata.name = Some(format!("pod-{pod}-{number}"));
            restart.metadata.creation_timestamp = Some(ago(secs).to_time());
            restart.spec.pod_name = format!("pod-{pod}");
            restart.spec.ladder_name = ladder.map(|n| format!("ladder-{n}"));
            let replacement = new_pod.map(|new_pod| PodReplacement {
                step: ReplacementStep::Starting,
                since: NOW.to_time(),
                pod_uid: format!("uid-{pod}"),
                node_name: "n1".to_owned(),
                workload_uid: None,
                avoid_node_until: None,
                pod: None,
                new_pod_name: None,
                new_pod_uid: Some(format!("uid-{new_pod}")),
            });
            restart.status =
                Some(PodRestartStatus { phase, replacement, ..PodRestartStatus::default() });
            restart
        },
    )
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => ledger().prop_map(Change::Ledger),
        4 => restart().prop_map(Change::Restart),
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
    register: Register,
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
                self.ledgers.push(ledger);
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
                self.restarts.push(restart);
            }
            Change::NoRestart { namespace, name } => {
                self.restarts.retain(|r| !is_named(&r.metadata, &namespace, &name));
                self.register.remove_restart(&namespace, &name);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

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
                    Asker { namespace, pod_name: &pod_name, pod_uid, controller, ladder: "ladder-1" };
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
        let mut afresh = Register::default();
        world.ledgers.iter().for_each(|ledger| afresh.put_ledger(ledger));
        world.restarts.iter().for_each(|restart| afresh.put_restart(restart));
        prop_assert_eq!(world.register, afresh, "nothing is left of what is gone");
    }
}

#[test]
fn a_decision_that_no_ledger_shows_yet_is_spent() {
    let mut world = World::default();
    let asker = Asker {
        namespace: "a",
        pod_name: "web",
        pod_uid: "uid-web",
        controller: None,
        ladder: "web",
    };
    let granted = |namespace: &str, pod: &str| Granted {
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
    world.play(Change::Ledger(ledger));
    let crowd = world.register.crowd(NOW, &asker, &all);
    assert_eq!(crowd.cluster, vec![NOW; 2], "what a ledger shows is not counted twice");
}
