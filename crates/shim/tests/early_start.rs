//! A start that is asked for together with the creation: the container goes on as soon as it is prepared.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "it drives a real process")]

mod shim;

use rekindle_shim::protocol::{
    Answer, ContainerPlan, ExitCause, FailureKind, Message, Phase, Request,
};
use shim::Shim;

fn create_and_start(plan: ContainerPlan) -> [Request; 2] {
    let slot = plan.slot.clone();
    [Request::Create(Box::new(plan)), Request::Start { slot }]
}

#[test]
fn one_that_is_prepared_goes_on_by_itself_and_both_calls_are_answered_in_order() {
    let mut shim = Shim::new();
    let plan = shim.plan("exit 3");
    let [created, started] = shim.call_all(create_and_start(plan));
    assert!(matches!(created, Ok(Answer::Created(_))), "{created:?}");
    assert!(matches!(started, Ok(Answer::Started { .. })), "{started:?}");
    match shim.next() {
        Message::Exited { exit, .. } => assert_eq!(exit.cause, ExitCause::Code(3)),
        message => panic!("{message:?}"),
    }
}

#[test]
fn one_that_cannot_be_executed_was_created() {
    let mut shim = Shim::new();
    let mut plan = shim.plan("");
    plan.process.argv = vec!["/absent".to_owned()];
    let [created, started] = shim.call_all(create_and_start(plan));
    assert!(matches!(created, Ok(Answer::Created(_))), "{created:?}");
    assert_eq!(started.unwrap_err().kind, FailureKind::Start);
}

/// A shim that is killed meanwhile leaves no start of which nobody knows (P3).
#[test]
fn that_it_runs_stands_on_disk_before_it_is_let_go() {
    let mut shim = Shim::new();
    let mut plan = shim.plan("");
    plan.process.argv = vec!["/absent".to_owned()];
    let state = shim.path("sandbox").join(rekindle_shim::state_file::name(&plan.slot));
    let [_, started] = shim.call_all(create_and_start(plan));
    assert_eq!(started.unwrap_err().kind, FailureKind::Start);
    let state = std::fs::read_to_string(state).unwrap();
    let phases = state.lines().filter(|line| !line.is_empty());
    let phases: Vec<Phase> = phases.map(|line| serde_json::from_str(line).unwrap()).collect();
    // of one whose exec failed nobody could have said so later
    assert!(
        matches!(phases.as_slice(), [Phase::Running { .. }, Phase::Exited { .. }]),
        "{phases:?}"
    );
}

#[test]
fn one_that_cannot_be_prepared_fails_both_calls_and_leaves_nothing_to_start() {
    let mut shim = Shim::new();
    let mut plan = shim.plan("");
    plan.process.user.image_user = "nobody-of-this-name".to_owned();
    let slot = plan.slot.clone();
    let [created, started] = shim.call_all(create_and_start(plan));
    assert_eq!(created.clone().unwrap_err().kind, FailureKind::Config);
    assert_eq!(created, started);
    let again = shim.call(Request::Start { slot }).unwrap_err();
    assert_eq!(again.kind, FailureKind::State);
}

#[test]
fn one_that_is_removed_while_it_is_being_prepared_is_not_started() {
    let mut shim = Shim::new();
    let plan = shim.plan("exit 3");
    let slot = plan.slot.clone();
    let [create, start] = create_and_start(plan);
    let answers = shim.call_all([create, start, Request::Remove { slot }]);
    assert!(answers[0].is_err() || answers[1].is_err(), "{answers:?}");
    assert_eq!(answers[2], Ok(Answer::Done));
}
