use rekindle_types::v1alpha1::{LadderRung, Rung};

use super::*;

fn ladder(rungs: &[Rung]) -> RestartLadder {
    let mut ladder = RestartLadder::default();
    ladder.metadata.name = Some("web".to_owned());
    ladder.metadata.generation = Some(3);
    let rung = |rung: &Rung| LadderRung {
        rung: *rung,
        attempts: None,
        refresh: None,
        avoid_node_for: None,
    };
    ladder.spec.rungs = rungs.iter().map(rung).collect();
    ladder
}

fn accepted(ladder: &RestartLadder) -> (String, String, String) {
    let status = ladder_status(ladder, Tick::from_secs(1));
    let condition = status.conditions.expect("a condition").remove(0);
    assert_eq!(condition.type_, "Accepted");
    (condition.status, condition.reason, condition.message)
}

#[test]
fn a_ladder_that_cannot_be_decided_by_is_not_accepted() {
    use rekindle_types::v1alpha1::OnExhausted;
    let mut every = ladder(&[
        Rung::Container,
        Rung::Containers,
        Rung::Pod,
        Rung::Recreate,
        Rung::Reschedule,
        Rung::Rollback,
    ]);
    every.spec.on_exhausted = Some(OnExhausted::Fail);
    let mut invalid = ladder(&[Rung::Pod]);
    invalid.spec.window = Some("soon".to_owned());
    for (ladder, status, reason, message) in [
        (every, "True", "Accepted", "every rung is carried out"),
        (
            invalid,
            "False",
            "Invalid",
            "RestartLadder \"web\": spec.window: \"soon\" is not a duration such as 90s, 10m or 1h30m",
        ),
    ] {
        let expected = (status.to_owned(), reason.to_owned(), message.to_owned());
        assert_eq!(accepted(&ladder), expected);
    }
}

#[test]
fn a_verdict_that_stays_keeps_its_time_and_is_written_once() {
    let mut ladder = ladder(&[Rung::Pod]);
    let first = ladder_status(&ladder, Tick::from_secs(1));
    assert_eq!(first.observed_generation, Some(3));
    ladder.status = Some(first.clone());
    assert_eq!(ladder_status(&ladder, Tick::from_secs(2)), first);
    ladder.spec.rungs.clear();
    let refused = ladder_status(&ladder, Tick::from_secs(3));
    let since = &refused.conditions.expect("a condition")[0].last_transition_time;
    assert_eq!(*since, Tick::from_secs(3).to_time());
}
