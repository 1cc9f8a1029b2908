//! A start that is asked for together with the creation: the container goes on as soon as it is
//! prepared.

use std::os::fd::OwnedFd;

use rekindle_shim::protocol::{
    ContainerPhase, ContainerPlan, ContainerReport, ExitCause, FailureKind, ShimAnswer,
    ShimMessage, ShimRequest,
};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::shim::{Group, Shim};

fn create_and_start(plan: ContainerPlan) -> [ShimRequest; 2] {
    let slot = plan.slot.clone();
    [ShimRequest::Create(Box::new(plan)), ShimRequest::Start { slot }]
}

#[test]
fn one_that_is_prepared_goes_on_by_itself_and_both_calls_are_answered_in_order() {
    let mut shim = Shim::new();
    let plan = shim.plan("exit 3");
    let [created, started] = shim.call_all(create_and_start(plan));
    assert!(matches!(created, Ok(ShimAnswer::Created(_))), "{created:?}");
    assert!(matches!(started, Ok(ShimAnswer::Started { .. })), "{started:?}");
    match shim.next() {
        ShimMessage::Exited { exit, .. } => assert_eq!(exit.cause, ExitCause::Code(3)),
        message => panic!("{message:?}"),
    }
}

#[test]
fn one_that_cannot_be_executed_was_created() {
    let mut shim = Shim::new();
    let mut plan = shim.plan("");
    plan.process.argv = vec!["/absent".to_owned()];
    let [created, started] = shim.call_all(create_and_start(plan));
    assert!(matches!(created, Ok(ShimAnswer::Created(_))), "{created:?}");
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
    let phases: Vec<ContainerPhase> =
        phases.map(|line| serde_json::from_str(line).unwrap()).collect();
    // of one whose exec failed nobody could have said so later
    assert!(
        matches!(
            phases.as_slice(),
            [ContainerPhase::Running { .. }, ContainerPhase::Exited { .. }]
        ),
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
    let again = shim.call(ShimRequest::Start { slot }).unwrap_err();
    assert_eq!(again.kind, FailureKind::State);
}

#[test]
fn one_that_is_removed_while_it_is_being_prepared_is_not_started() {
    let (mut shim, group) = (Shim::new(), Group::frozen("removed"));
    let plan = writing(&shim, &group);
    let slot = plan.slot.clone();
    held(&mut shim, &group, plan);
    shim.send([ShimRequest::Remove { slot }]);
    for _ in 0..2 {
        let ShimMessage::Answer { result, .. } = shim.next() else { panic!("an exit") };
        assert_eq!(result.unwrap_err().kind, FailureKind::Setup);
    }
    assert!(matches!(shim.next(), ShimMessage::Answer { result: Ok(ShimAnswer::Done), .. }));
    assert!(!shim.path("volume/ran").exists());
}

#[test]
fn one_whose_agent_goes_meanwhile_waits_for_the_word_of_the_next() {
    let (mut shim, group) = (Shim::new(), Group::frozen("taken-over"));
    let plan = writing(&shim, &group);
    let slot = plan.slot.clone();
    held(&mut shim, &group, plan.clone());
    shim.connect_again();
    let Ok(ShimAnswer::State(state)) = shim.call(ShimRequest::State) else { panic!("no state") };
    assert_eq!(state.containers, []);
    group.thaw();
    assert!(matches!(shim.create(plan), Ok(ShimAnswer::Created(_))));
    let Ok(ShimAnswer::State(state)) = shim.call(ShimRequest::State) else { panic!("no state") };
    assert_eq!(
        state.containers,
        [ContainerReport { slot: slot.clone(), phase: ContainerPhase::Created }]
    );
    assert!(!shim.path("volume/ran").exists());
    assert!(matches!(shim.call(ShimRequest::Start { slot }), Ok(ShimAnswer::Started { .. })));
    let ShimMessage::Exited { exit, .. } = shim.next() else { panic!("no exit") };
    assert_eq!(exit.cause, ExitCause::Code(3));
    assert!(shim.path("volume/ran").exists());
}

/// No parent-death signal comes to who has not asked for it yet.
#[test]
fn one_whose_shim_is_gone_before_its_first_step_does_not_start() {
    let (mut shim, group) = (Shim::new(), Group::frozen("orphaned"));
    let plan = writing(&shim, &group);
    let process = held(&mut shim, &group, plan);
    shim.kill();
    group.thaw();
    let ended = rustix::event::poll(&mut [PollFd::new(&process, PollFlags::IN)], None);
    assert_eq!(ended, Ok(1));
    assert!(!shim.path("volume/ran").exists());
}

/// It leaves a file behind, and ends with 3.
fn writing(shim: &Shim, group: &Group) -> ContainerPlan {
    let mut plan = shim.plan("echo > /volume/ran; exit 3");
    plan.mounts = vec![shim.volume(None, "/volume")];
    plan.cgroup.unified = Some(group.text());
    plan
}

/// Has it stand still before its first step, while it is to be created and started; answers its
/// process.
fn held(shim: &mut Shim, group: &Group, plan: ContainerPlan) -> OwnedFd {
    shim.send(create_and_start(plan));
    assert!(matches!(shim.call(ShimRequest::State), Ok(ShimAnswer::State(_))));
    let pid = std::fs::read_to_string(group.0.join("cgroup.procs")).unwrap();
    let pid = Pid::from_raw(pid.trim_end().parse().unwrap()).unwrap();
    pidfd_open(pid, PidfdFlags::empty()).unwrap()
}
