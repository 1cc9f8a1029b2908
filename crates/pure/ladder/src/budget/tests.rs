use rekindle_types::v1alpha1::{
    LadderScope, LedgerDecision, OnExhausted, PodRestartPhase, PodRestartStatus, RungAttempts,
};

use super::*;

const NOW: Tick = Tick::from_secs(10_000);

fn ago(secs: u64) -> Tick {
    NOW - TickDuration::from_secs(secs)
}

fn policy(max_concurrent: Option<u32>, per_minute: Option<u32>) -> LadderPolicy {
    LadderPolicy {
        name: "web".to_owned(),
        generation: None,
        uid: None,
        scope: LadderScope::Pod,
        window: TickDuration::from_secs(600),
        steps: Vec::new(),
        max_concurrent,
        per_minute,
        on_exhausted: OnExhausted::Hold,
    }
}

fn ledger(rung: Rung, at: &[Tick], pending: Option<&str>) -> RestartLedgerStatus {
    let at = at.iter().map(|at| at.to_micro_time()).collect();
    RestartLedgerStatus {
        attempts: Some(vec![RungAttempts { rung, at }]),
        pending_restart: pending.map(str::to_owned),
        ..RestartLedgerStatus::default()
    }
}

/// The same of this pod.
fn of_pod(pod: &str, status: RestartLedgerStatus) -> RestartLedger {
    let mut ledger = RestartLedger { status: Some(status), ..RestartLedger::default() };
    ledger.spec.pod_name = pod.to_owned();
    ledger
}

/// Each of another pod.
fn restart(created: Tick, phase: Option<PodRestartPhase>) -> PodRestart {
    let mut restart = PodRestart::default();
    restart.spec.pod_name = format!("asked-{}", NOW.since(created).as_secs());
    restart.metadata.creation_timestamp = Some(created.to_time());
    restart.status = Some(PodRestartStatus { phase, ..PodRestartStatus::default() });
    restart
}

/// The node began it then: an agent that was away for a while, or had others to restart before.
fn begun(mut restart: PodRestart, at: Tick) -> PodRestart {
    restart.status.get_or_insert_default().started_at = Some(at.to_time());
    restart
}

#[test]
fn restarts_take_room_until_they_finish_or_are_given_up() {
    let restarts = [
        restart(ago(1), None),
        restart(ago(2), Some(PodRestartPhase::Running)),
        restart(ago(3), Some(PodRestartPhase::Succeeded)),
        restart(ago(4), Some(PodRestartPhase::Failed)),
        restart(ago(5), Some(PodRestartPhase::Refused)),
        restart(ago(600), Some(PodRestartPhase::Running)),
        begun(restart(ago(605), Some(PodRestartPhase::Running)), ago(6)),
    ];
    let ledgers = [
        of_pod("a", ledger(Rung::Pod, &[ago(7)], Some("decided-and-not-made-yet"))),
        of_pod("b", ledger(Rung::Pod, &[ago(61), ago(8)], None)),
        of_pod("c", ledger(Rung::Container, &[ago(9)], None)),
    ];
    let occupancy = Occupancy::new(NOW, restarts.iter(), ledgers.iter());
    assert_eq!(occupancy.under_way, [ago(7), ago(6), ago(2), ago(1)]);
    assert_eq!(occupancy.decided, [ago(8), ago(7)]);
}

#[test]
fn a_restart_that_is_seen_while_its_ledger_still_asks_for_it_counts_once() {
    let mut seen = restart(ago(1), None);
    seen.metadata.name = Some("web-0-pod-1".to_owned());
    let ledgers = [of_pod("web-0", ledger(Rung::Pod, &[ago(2)], Some("web-0-pod-1")))];
    let occupancy = Occupancy::new(NOW, [seen].iter(), ledgers.iter());
    assert_eq!(occupancy.under_way, [ago(1)]);
}

#[test]
fn there_is_room_when_enough_have_finished() {
    let others = Occupancy { under_way: vec![ago(9), ago(5)], decided: Vec::new() };
    let own = RestartLedgerStatus::default();
    let room = |limit| others.room(NOW, &policy(Some(limit), None), &own);
    let minutes = TickDuration::from_secs(600);
    assert_eq!(room(3), BudgetState::Free);
    assert_eq!(room(2), BudgetState::Concurrent { limit: 2, at_the_latest: ago(9) + minutes });
    // Both must be over before a single one may run.
    assert_eq!(room(1), BudgetState::Concurrent { limit: 1, at_the_latest: ago(5) + minutes });
    assert_eq!(others.room(NOW, &policy(None, None), &own), BudgetState::Free);
}

#[test]
fn the_rate_counts_the_pods_own_restarts_too() {
    let others = Occupancy { under_way: Vec::new(), decided: vec![ago(50), ago(20)] };
    let own = ledger(Rung::Pod, &[ago(30)], None);
    let room = |limit| others.room(NOW, &policy(None, Some(limit)), &own);
    assert_eq!(room(4), BudgetState::Free);
    assert_eq!(room(3), BudgetState::Rate { limit: 3, free_at: ago(50) + MINUTE });
    assert_eq!(room(1), BudgetState::Rate { limit: 1, free_at: ago(20) + MINUTE });
}

#[test]
fn a_restart_that_has_left_a_short_window_counts_until_its_minute_is_over() {
    let decision = |at: Tick, rung, pod_restart: Option<&str>| LedgerDecision {
        at: at.to_micro_time(),
        first_at: None,
        rung,
        reason: "it failed".to_owned(),
        count: 1,
        pod_restart: pod_restart.map(str::to_owned),
        outcome: None,
    };
    let mut told = ledger(Rung::Pod, &[ago(10)], None);
    told.decisions = Some(vec![
        decision(ago(61), Some(Rung::Pod), Some("too-long-ago")),
        decision(ago(50), Some(Rung::Containers), Some("left-the-window")),
        decision(ago(40), None, Some("was-withdrawn")),
        decision(ago(30), Some(Rung::Container), None),
        decision(ago(10), Some(Rung::Pod), Some("is-an-attempt")),
        decision(ago(10), Some(Rung::Recreate), Some("in-the-same-moment")),
    ]);
    assert_eq!(decided_lately(NOW, &told), [ago(50), ago(10), ago(10)]);
    let others = Occupancy::default();
    let rate = BudgetState::Rate { limit: 3, free_at: ago(50) + MINUTE };
    assert_eq!(others.room(NOW, &policy(None, Some(3)), &told), rate);
    assert_eq!(others.room(NOW, &policy(None, Some(4)), &told), BudgetState::Free);
}

/// The clock was a day ahead, and was set back.
#[test]
fn what_a_clock_that_was_ahead_has_decided_leaves_room_before_that_has_caught_up() {
    let day = TickDuration::from_secs(86_400);
    let ahead = ledger(Rung::Pod, &[NOW + day], Some("decided-and-not-made-yet"));
    let asked = [restart(NOW + day, None)];
    let ledgers = [of_pod("web-1", ahead.clone())];
    let others = Occupancy::new(NOW, asked.iter(), ledgers.iter());
    assert_eq!(others, Occupancy::default());
    let strict = policy(Some(1), Some(1));
    assert_eq!(others.room(NOW, &strict, &ahead), BudgetState::Free);
    let limits = RestartLimits { namespace: TokenBucket::new(1, 1), ..RestartLimits::default() };
    assert_eq!(room_in(NOW, &limits, &LimitUsage::default(), &ahead), BudgetState::Free);
    // the clocks of two machines differ by a little: what one of them has decided just now counts
    // for the other
    let soon = NOW + TickDuration::from_secs(2);
    let other = [of_pod("web-1", ledger(Rung::Pod, &[soon], None))];
    let others = Occupancy::new(NOW, [].iter(), other.iter());
    assert_eq!(others.decided, [NOW]);
}
