use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rekindle_types::v1alpha1::{LedgerDecision, RestartLedger, RungAttempts};

use super::*;

fn at(secs: u64) -> Tick {
    Tick::from_secs(1_000 + secs)
}

/// A ledger's story: how it was at each of these times.
struct Story {
    follower: LedgerFollower,
    figures: Arc<LadderFigures>,
    last: Option<ViewObject>,
}

impl Story {
    fn new() -> Self {
        let figures = Arc::new(LadderFigures::default());
        Self { follower: LedgerFollower::new(Arc::clone(&figures)), figures, last: None }
    }

    fn becomes(&mut self, secs: u64, status: &RestartLedgerStatus, age: ChangeAge) {
        let mut ledger = RestartLedger::default();
        ledger.metadata.name = Some("web-0".to_owned());
        ledger.metadata.namespace = Some("shop".to_owned());
        ledger.status = Some(status.clone());
        let after = ViewObject::from(ledger);
        let change =
            ObjectChange { id: after.id(), before: self.last.take(), after: Some(after.clone()) };
        self.follower.follow(&change, age, at(secs));
        self.last = Some(after);
    }

    /// The samples that are not zero, without buckets.
    fn told(&self) -> Vec<String> {
        let mut text = Text::default();
        self.figures.write(&mut text);
        let text = text.into_string();
        let samples = text.lines().filter(|line| !line.starts_with('#') && !line.ends_with(" 0"));
        let told = samples.filter(|line| !line.contains("_bucket"));
        told.map(|line| line.trim_start_matches("rekindle_ladder_").to_owned()).collect()
    }
}

fn attempts(rung: Rung, secs: &[u64]) -> RungAttempts {
    RungAttempts { rung, at: secs.iter().map(|secs| at(*secs).to_micro_time()).collect() }
}

fn decided(rung: Rung, secs: u64, pod_restart: Option<&str>) -> LedgerDecision {
    LedgerDecision {
        at: at(secs).to_micro_time(),
        first_at: None,
        rung: Some(rung),
        reason: String::new(),
        count: 1,
        pod_restart: pod_restart.map(str::to_owned),
        outcome: None,
    }
}

fn recovered() -> Vec<Condition> {
    vec![Condition {
        type_: "Recovered".to_owned(),
        status: "True".to_owned(),
        last_transition_time: at(0).to_time(),
        message: String::new(),
        observed_generation: None,
        reason: "Recovered".to_owned(),
    }]
}

#[test]
fn a_pod_that_climbs_waits_and_recovers_is_counted_step_by_step() {
    let mut story = Story::new();
    let mut ledger = RestartLedgerStatus {
        phase: Some(LedgerPhase::Climbing),
        rung: Some(Rung::Container),
        failures_total: 2,
        attempts: Some(vec![attempts(Rung::Container, &[0, 0])]),
        decisions: Some(vec![decided(Rung::Container, 0, None)]),
        ..RestartLedgerStatus::default()
    };
    story.becomes(0, &ledger, ChangeAge::New);
    story.becomes(1, &ledger, ChangeAge::New);
    ledger.failures_total = 3;
    ledger.phase = Some(LedgerPhase::Holding);
    ledger.held_by = Some(HoldReason::ClusterLimit);
    story.becomes(4, &ledger, ChangeAge::New);
    ledger.phase = Some(LedgerPhase::Climbing);
    ledger.held_by = None;
    ledger.rung = Some(Rung::Pod);
    ledger.attempts = Some(vec![attempts(Rung::Container, &[0, 0]), attempts(Rung::Pod, &[10])]);
    ledger.decisions =
        Some(vec![decided(Rung::Container, 0, None), decided(Rung::Pod, 10, Some("web-0-pod-3"))]);
    story.becomes(10, &ledger, ChangeAge::New);
    ledger.stable_since = Some(at(12).to_micro_time());
    ledger.conditions = Some(recovered());
    story.becomes(22, &ledger, ChangeAge::New);
    let told = story.told();
    ledger.phase = Some(LedgerPhase::Healthy);
    (ledger.attempts, ledger.rung) = (None, None);
    story.becomes(700, &ledger, ChangeAge::New);
    assert_eq!(story.told(), told, "what has recovered does not recover again when it is cleared");
    assert_eq!(
        told,
        [
            "failures_total 3",
            "attempts_total{rung=\"Container\"} 2",
            "attempts_total{rung=\"Pod\"} 1",
            "recovery_seconds_sum{rung=\"Pod\"} 12",
            "recovery_seconds_count{rung=\"Pod\"} 1",
            "holds_total{reason=\"ClusterLimit\"} 1",
            "wait_seconds_sum{reason=\"ClusterLimit\"} 6",
            "wait_seconds_count{reason=\"ClusterLimit\"} 1",
        ]
    );
}

#[test]
fn an_attempt_that_is_dated_anew_because_it_waited_is_counted_once() {
    let mut story = Story::new();
    let mut ledger = RestartLedgerStatus {
        phase: Some(LedgerPhase::Holding),
        held_by: Some(HoldReason::LadderBudget),
        held_rung: Some(Rung::Pod),
        failures_total: 3,
        attempts: Some(vec![attempts(Rung::Container, &[0, 10])]),
        decisions: Some(vec![
            decided(Rung::Container, 0, None),
            decided(Rung::Container, 10, None),
        ]),
        ..RestartLedgerStatus::default()
    };
    story.becomes(10, &ledger, ChangeAge::New);
    (ledger.held_rung, ledger.held_by) = (None, None);
    ledger.attempts =
        Some(vec![attempts(Rung::Container, &[1190, 1200]), attempts(Rung::Pod, &[1200])]);
    ledger.decisions.get_or_insert_default().push(decided(Rung::Pod, 1200, Some("web-0-pod-3")));
    story.becomes(1200, &ledger, ChangeAge::New);
    // its node was silent, and began it later
    ledger.attempts =
        Some(vec![attempts(Rung::Container, &[1490, 1500]), attempts(Rung::Pod, &[1500])]);
    story.becomes(1501, &ledger, ChangeAge::New);
    let told = story.told();
    let told: Vec<&String> = told.iter().filter(|line| line.starts_with("attempts")).collect();
    assert_eq!(told, ["attempts_total{rung=\"Container\"} 2", "attempts_total{rung=\"Pod\"} 1"]);
}

#[test]
fn what_was_before_the_process_began_is_not_counted_but_what_comes_of_it_is() {
    let mut story = Story::new();
    let mut ledger = RestartLedgerStatus {
        phase: Some(LedgerPhase::Holding),
        held_by: Some(HoldReason::Futile),
        failures_total: 7,
        attempts: Some(vec![attempts(Rung::Container, &[0])]),
        ..RestartLedgerStatus::default()
    };
    story.becomes(50, &ledger, ChangeAge::FromBefore);
    assert!(story.told().is_empty(), "{:?}", story.told());
    ledger.phase = Some(LedgerPhase::Exhausted);
    ledger.held_by = None;
    story.becomes(60, &ledger, ChangeAge::New);
    ledger.phase = Some(LedgerPhase::Healthy);
    ledger.stable_since = Some(at(100).to_micro_time());
    ledger.conditions = Some(recovered());
    story.becomes(700, &ledger, ChangeAge::New);
    assert_eq!(
        story.told(),
        [
            "recovery_seconds_sum{rung=\"Container\"} 100",
            "recovery_seconds_count{rung=\"Container\"} 1",
            "exhausted_total 1",
        ]
    );
}

#[test]
fn a_rung_that_was_due_and_never_tried_has_no_success() {
    let mut story = Story::new();
    let mut ledger = RestartLedgerStatus {
        phase: Some(LedgerPhase::Holding),
        rung: Some(Rung::Recreate), // its turn has come, and a budget holds it back
        held_rung: Some(Rung::Recreate),
        held_by: Some(HoldReason::LadderBudget),
        failures_total: 2,
        attempts: Some(vec![attempts(Rung::Container, &[0])]),
        ..RestartLedgerStatus::default()
    };
    story.becomes(0, &ledger, ChangeAge::New);
    ledger.phase = Some(LedgerPhase::Climbing);
    (ledger.held_rung, ledger.held_by) = (None, None);
    ledger.stable_since = Some(at(12).to_micro_time());
    ledger.conditions = Some(recovered());
    story.becomes(22, &ledger, ChangeAge::New);
    let recovered: Vec<String> = story
        .told()
        .into_iter()
        .filter(|line| line.starts_with("recovery_seconds_count"))
        .collect();
    assert_eq!(recovered, ["recovery_seconds_count{rung=\"Container\"} 1"]);
}

#[test]
fn a_pod_that_ran_for_the_window_and_was_never_ready_is_no_success_of_a_rung() {
    for (phase, rung, successes) in [
        (LedgerPhase::Climbing, Rung::Container, 1), // the container's own restart: the ladder did nothing
        (LedgerPhase::Climbing, Rung::Pod, 0),
        (LedgerPhase::Exhausted, Rung::Container, 0),
    ] {
        let mut story = Story::new();
        let mut ledger = RestartLedgerStatus {
            phase: Some(phase),
            failures_total: 2,
            attempts: Some(vec![attempts(rung, &[0])]),
            ..RestartLedgerStatus::default()
        };
        story.becomes(0, &ledger, ChangeAge::New);
        ledger.phase = Some(LedgerPhase::Healthy);
        ledger.attempts = None;
        story.becomes(700, &ledger, ChangeAge::New);
        let told = story.told();
        let told = told.iter().filter(|line| line.starts_with("recovery_seconds_count"));
        assert_eq!(told.count(), successes, "{phase:?} {rung}");
    }
}

/// Nobody is in trouble any more; who comes in its place within the window begins anew.
#[test]
fn the_time_in_which_a_pod_was_gone_is_no_time_to_recovery() {
    let mut story = Story::new();
    let mut ledger = RestartLedgerStatus {
        phase: Some(LedgerPhase::Climbing),
        rung: Some(Rung::Pod),
        failures_total: 2,
        attempts: Some(vec![attempts(Rung::Pod, &[1])]),
        ..RestartLedgerStatus::default()
    };
    story.becomes(0, &ledger, ChangeAge::New);
    (ledger.phase, ledger.rung) = (None, None); // scaled down
    story.becomes(2, &ledger, ChangeAge::New);
    (ledger.phase, ledger.failures_total) = (Some(LedgerPhase::Climbing), 3); // and up again
    story.becomes(500, &ledger, ChangeAge::New);
    ledger.stable_since = Some(at(505).to_micro_time());
    ledger.conditions = Some(recovered());
    story.becomes(515, &ledger, ChangeAge::New);
    let told = story.told();
    assert!(told.contains(&"recovery_seconds_sum{rung=\"Pod\"} 5".to_owned()), "{told:?}");
}
