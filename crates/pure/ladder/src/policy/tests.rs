use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rekindle_types::v1alpha1::{LadderBudget, RestartLadderSpec};

use super::*;

fn ladder(window: Option<&str>, rungs: &[(Rung, Option<u32>)]) -> RestartLadder {
    let mut ladder = RestartLadder::default();
    ladder.metadata.name = Some("web".to_owned());
    let selector = LabelSelector {
        match_labels: Some([("app".to_owned(), "web".to_owned())].into()),
        match_expressions: None,
    };
    let rung = |(rung, attempts): &(Rung, Option<u32>)| LadderRung {
        rung: *rung,
        attempts: *attempts,
        empty_dirs: None,
        avoid_node_for: None,
    };
    ladder.spec = RestartLadderSpec {
        selector,
        window: window.map(str::to_owned),
        rungs: rungs.iter().map(rung).collect(),
        ..RestartLadderSpec::default()
    };
    ladder
}

#[test]
fn what_is_left_out_has_its_default() {
    let policy =
        LadderPolicy::from_ladder(&ladder(None, &[(Rung::Container, None), (Rung::Pod, Some(2))]))
            .expect("a valid ladder");
    assert_eq!(policy.window, TickDuration::from_secs(600));
    assert_eq!(policy.on_exhausted, OnExhausted::Hold);
    assert_eq!((policy.max_concurrent, policy.per_minute), (None, None));
    assert_eq!(policy.steps[0].attempts, 1);
    assert_eq!(policy.steps[1].empty_dirs, None);
}

#[test]
fn what_is_written_is_kept() {
    let mut ladder = ladder(Some("1h30m"), &[(Rung::Pod, Some(3)), (Rung::Recreate, None)]);
    ladder.spec.rungs[0].empty_dirs = Some(EmptyDirPolicy::Keep);
    ladder.spec.budget = Some(LadderBudget { max_concurrent: Some(1), per_minute: Some(6) });
    ladder.spec.on_exhausted = Some(OnExhausted::Fail);
    let policy = LadderPolicy::from_ladder(&ladder).expect("a valid ladder");
    assert_eq!(policy.window, TickDuration::from_secs(5400));
    assert_eq!(policy.steps[0].empty_dirs, Some(EmptyDirPolicy::Keep));
    assert_eq!((policy.max_concurrent, policy.per_minute), (Some(1), Some(6)));
    assert_eq!(policy.on_exhausted, OnExhausted::Fail);
    assert_eq!(policy.step(Rung::Recreate).map(|step| step.attempts), Some(1));
    assert!(policy.step(Rung::Rollback).is_none());
}

#[test]
fn a_ladder_that_cannot_be_decided_by_is_refused_with_its_field() {
    let one = [(Rung::Pod, None)];
    for (ladder, message) in [
        (
            ladder(Some("ten minutes"), &one),
            "spec.window: Invalid value: \"ten minutes\": \"ten minutes\" is not a duration such as 90s, 10m or 1h30m",
        ),
        (ladder(Some("0s"), &one), "spec.window: Invalid value: \"0s\": must be greater than zero"),
        (ladder(None, &[]), "spec.rungs: Required value: a ladder needs a rung"),
        (
            ladder(None, &[(Rung::Pod, None), (Rung::Pod, Some(0))]),
            "spec.rungs[1].rung: Duplicate value: \"Pod\"; spec.rungs[1].attempts: Invalid value: 0: must be between 1 and 1000, \
             inclusive",
        ),
    ] {
        let told = LadderPolicy::from_ladder(&ladder).map_err(|error| error.to_string());
        assert_eq!(told, Err(format!("RestartLadder \"web\": {message}")));
    }
}
