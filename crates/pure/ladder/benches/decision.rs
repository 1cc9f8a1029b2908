//! What one pod event costs with 10,000 ledgers: the change of a ledger is taken in, the
//! surroundings are read, and it is decided. Beside it the same with a walk over all ledgers in
//! place of the register. Run with `cargo bench -p rekindle-ladder`.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    unreachable_pub,
    reason = "a benchmark takes time and prints figures"
)]

#[path = "../tests/decisions/anew.rs"]
mod anew;

use std::hint::black_box;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{
    self, Container, ContainerState, ContainerStateTerminated, ContainerStatus, PodSpec, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use rekindle_ladder::{
    BudgetApplicant, LadderAuthority, LadderPolicy, LadderSubject, LedgerRegister, LimitUsage,
    Occupancy, RestartDecision, RestartLimits, RevisionPeers, Situation, decide,
};
use rekindle_types::held::HeldPod;
use rekindle_types::v1alpha1::{
    LadderRung, PodRestart, RestartLadder, RestartLedger, RestartLedgerStatus, Rung, RungAttempts,
};
use rekindle_types::{Tick, TickDuration};

const LEDGERS: usize = 10_000;
const NAMESPACES: usize = 50;
const PODS_OF_A_CONTROLLER: usize = 10;
/// PodRestarts that are kept, finished or not: as many as the cluster's limit allows in the ten
/// minutes that they stay.
const RESTARTS: usize = 600;
const NOW: Tick = Tick::from_secs(1_800_000_000);
const ROUNDS: usize = 20_000;
const ROUNDS_OF_WALKS: usize = 100;

fn ledger(number: usize) -> RestartLedger {
    let mut ledger = RestartLedger::default();
    ledger.metadata.namespace = Some(format!("ns-{}", number % NAMESPACES));
    ledger.metadata.name = Some(format!("web-{number}"));
    let uid = format!("owner-{}", number / PODS_OF_A_CONTROLLER);
    ledger.metadata.owner_references =
        Some(vec![OwnerReference { uid, ..OwnerReference::default() }]);
    ledger.spec.pod_name = format!("web-{number}");
    ledger.spec.pod_uid = format!("uid-{number}");
    ledger.spec.ladder_name = "web".to_owned();
    let at = |secs: u64| (NOW - TickDuration::from_secs(secs)).to_micro_time();
    let container = RungAttempts { rung: Rung::Container, at: vec![at(300), at(290), at(270)] };
    // sixty of them within the last minute, as the cluster's limit lets it be
    let secs = 60 + u64::try_from(number).expect("small") % 500;
    let lately = if number < 60 { u64::try_from(number).expect("small") } else { secs };
    let pod = RungAttempts { rung: Rung::Pod, at: vec![at(lately)] };
    ledger.status = Some(RestartLedgerStatus {
        attempts: Some(vec![container, pod]),
        failures_total: 4,
        ..RestartLedgerStatus::default()
    });
    ledger
}

fn restart(number: usize) -> PodRestart {
    let mut restart = PodRestart::default();
    restart.metadata.namespace = Some(format!("ns-{}", number % NAMESPACES));
    restart.metadata.name = Some(format!("web-{number}-pod-4"));
    restart.metadata.creation_timestamp = Some(NOW.to_time());
    restart.spec.pod_name = format!("web-{number}");
    restart.spec.ladder_name = Some("web".to_owned());
    restart
}

/// A pod that has just failed.
fn pod() -> HeldPod {
    let ended = ContainerStateTerminated {
        exit_code: 1,
        reason: Some("Error".to_owned()),
        finished_at: Some(NOW.to_time()),
        started_at: Some((NOW - TickDuration::from_secs(2)).to_time()),
        ..ContainerStateTerminated::default()
    };
    let status = ContainerStatus {
        name: "app".to_owned(),
        restart_count: 4,
        state: Some(ContainerState { terminated: Some(ended), ..ContainerState::default() }),
        ..ContainerStatus::default()
    };
    let mut pod = v1::Pod::default();
    pod.metadata.name = Some("web-77".to_owned());
    pod.metadata.namespace = Some("ns-27".to_owned());
    pod.metadata.uid = Some("uid-77".to_owned());
    let container = Container { name: "app".to_owned(), ..Container::default() };
    pod.spec = Some(PodSpec { containers: vec![container], ..PodSpec::default() });
    pod.status = Some(PodStatus { container_statuses: Some(vec![status]), ..PodStatus::default() });
    pod.into()
}

fn policy() -> LadderPolicy {
    let mut ladder = RestartLadder::default();
    ladder.metadata.name = Some("web".to_owned());
    let rung = |rung, attempts| LadderRung {
        rung,
        attempts: Some(attempts),
        empty_dirs: None,
        avoid_node_for: None,
    };
    ladder.spec.selector.match_labels = Some([("app".to_owned(), "web".to_owned())].into());
    ladder.spec.rungs = vec![rung(Rung::Container, 3), rung(Rung::Pod, 2)];
    LadderPolicy::from_ladder(&ladder).expect("a valid ladder")
}

fn decided(
    pod: &HeldPod,
    policy: &LadderPolicy,
    ledger: &RestartLedger,
    others: &Occupancy,
    crowd: &LimitUsage,
) -> RestartDecision {
    decide(&Situation {
        now: NOW,
        policy,
        subject: LadderSubject::Pod(pod),
        ledger: ledger.status.as_ref(),
        restarts: &[],
        others,
        crowd,
        limits: &RestartLimits::default(),
        peers: &RevisionPeers::default(),
        rollback: None,
        authority: LadderAuthority::default(),
    })
}

/// How long each round took, and its parts.
#[derive(Default)]
struct Parts {
    taken_in: Vec<Duration>,
    read: Vec<Duration>,
    decided: Vec<Duration>,
    all: Vec<Duration>,
}

/// Median and 99th percentile, in nanoseconds.
fn figures(mut times: Vec<Duration>) -> (u128, u128) {
    times.sort_unstable();
    (times[times.len() / 2].as_nanos(), times[times.len() * 99 / 100].as_nanos())
}

fn main() {
    let ledgers: Vec<RestartLedger> = (0..LEDGERS).map(ledger).collect();
    let restarts: Vec<PodRestart> = (0..RESTARTS).map(restart).collect();
    let mut register = LedgerRegister::default();
    ledgers.iter().for_each(|ledger| register.put_ledger(ledger));
    restarts.iter().for_each(|restart| register.put_restart(restart));
    let (pod, policy) = (pod(), policy());
    let asker = BudgetApplicant {
        namespace: "ns-27",
        pod_name: "web-77",
        pod_uid: "uid-77",
        controller: Some("owner-7"),
        ladder: "web",
    };
    let own = {
        let mut later = ledgers[77].clone();
        let attempts = later.status.as_mut().and_then(|status| status.attempts.as_mut());
        attempts.expect("it has some")[1]
            .at
            .push((NOW - TickDuration::from_secs(9)).to_micro_time());
        [ledgers[77].clone(), later]
    };
    let mut times = Parts::default();
    for round in 0..ROUNDS {
        // a failure more is noted each time, and every other time a restart of the whole pod
        let own = &own[round % own.len()];
        let begin = Instant::now();
        register.put_ledger(black_box(own));
        let taken_in = Instant::now();
        let (others, crowd) = (register.occupancy(NOW, &asker), register.crowd(NOW, &asker, &[]));
        let read = Instant::now();
        black_box(decided(&pod, &policy, own, &others, &crowd));
        let end = Instant::now();
        times.taken_in.push(taken_in - begin);
        times.read.push(read - taken_in);
        times.decided.push(end - read);
        times.all.push(end - begin);
    }
    let mut walks = Vec::with_capacity(ROUNDS_OF_WALKS);
    for _ in 0..ROUNDS_OF_WALKS {
        let begin = Instant::now();
        let others = anew::occupancy(NOW, &asker, &ledgers, &restarts);
        let crowd = anew::crowd(NOW, &asker, &ledgers, &restarts);
        black_box(decided(&pod, &policy, &own[0], &others, &crowd));
        walks.push(begin.elapsed());
    }
    let anew = anew::crowd(NOW, &asker, &ledgers, &restarts);
    assert_eq!(register.crowd(NOW, &asker, &[]), anew, "both say the same");
    let ((median, p99), (walk, walk_p99)) = (figures(times.all), figures(walks));
    let parts = [times.taken_in, times.read, times.decided].map(|times| figures(times).0);
    println!("a decision for a pod that failed, {LEDGERS} ledgers, {RESTARTS} PodRestarts:");
    println!("  with the register  median {median} ns, p99 {p99} ns");
    println!("    of which taken in, read, decided: {parts:?} ns");
    println!("  with a walk        median {walk} ns, p99 {walk_p99} ns");
}
