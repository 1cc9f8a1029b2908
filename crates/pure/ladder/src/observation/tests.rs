use k8s_openapi::api::core::v1::{
    self, Container, ContainerState, ContainerStateRunning, ContainerStateWaiting, ContainerStatus,
    PodCondition, PodSpec, PodStatus,
};

use super::*;

fn ended(id: Option<&str>) -> ContainerState {
    let terminated = ContainerStateTerminated {
        container_id: id.map(str::to_owned),
        finished_at: Some(Tick::from_secs(100).to_time()),
        exit_code: 1,
        ..Default::default()
    };
    ContainerState { terminated: Some(terminated), ..Default::default() }
}

fn waiting(reason: &str, message: &str) -> ContainerState {
    let waiting = ContainerStateWaiting {
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
    };
    ContainerState { waiting: Some(waiting), ..Default::default() }
}

fn running() -> ContainerState {
    let running = ContainerStateRunning { started_at: Some(Tick::from_secs(90).to_time()) };
    ContainerState { running: Some(running), ..Default::default() }
}

fn pod(state: ContainerState, last: ContainerState, count: i32, id: Option<&str>) -> HeldPod {
    let container = Container { name: "app".to_owned(), ..Default::default() };
    let status = ContainerStatus {
        name: "app".to_owned(),
        restart_count: count,
        container_id: id.map(str::to_owned),
        state: Some(state),
        last_state: Some(last),
        ..Default::default()
    };
    let spec = PodSpec { containers: vec![container], ..Default::default() };
    let status = PodStatus { container_statuses: Some(vec![status]), ..Default::default() };
    v1::Pod { spec: Some(spec), status: Some(status), ..Default::default() }.into()
}

#[test]
fn ended_attempts_follow_from_count_and_states() {
    let none = ContainerState::default;
    let crash_loop = || waiting("CrashLoopBackOff", "back-off 10s restarting failed container=app");
    for (what, pod, expected) in [
        ("not started yet", pod(waiting("ContainerCreating", ""), none(), 0, None), 0),
        ("the first runs", pod(running(), none(), 0, Some("a")), 0),
        ("the first ended", pod(ended(Some("a")), none(), 0, Some("a")), 1),
        ("it waits", pod(crash_loop(), ended(Some("a")), 0, Some("a")), 1),
        ("it waits, no ids", pod(crash_loop(), ended(None), 0, None), 1),
        ("the second is made", pod(waiting("x", ""), ended(Some("a")), 1, Some("b")), 1),
        ("the second runs", pod(running(), ended(Some("a")), 1, Some("b")), 1),
        ("the second ended", pod(ended(Some("b")), ended(Some("a")), 1, Some("b")), 2),
        ("no state at all", pod(none(), none(), 0, None), 0),
        ("a count below zero", pod(running(), none(), -1, None), 0),
    ] {
        assert_eq!(ObservedPod::from_pod(&pod).containers[0].ended, expected, "{what}");
    }
    assert_eq!(ObservedPod::from_pod(&HeldPod::default()).containers.len(), 0);
}

/// Evicted, ended by a shutdown or refused: the object stays, and nothing is to be done for it.
/// What its containers did on the way out is no failure.
#[test]
fn a_pod_that_its_node_gave_up_is_over_whatever_its_containers_did() {
    for reason in ["Evicted", "Terminated", "NodeShutdown"] {
        let mut given_up = pod(ended(Some("a")), ContainerState::default(), 0, Some("a"));
        let status = given_up.status.as_mut().unwrap();
        status.phase = Some("Failed".to_owned());
        status.reason = Some(reason.to_owned());
        let course = ObservedPod::from_pod(&given_up).course;
        assert_eq!(course, PodCourse::Finished(FinalPhase::Failed), "{reason}");
    }
    let mut ending = pod(ended(Some("a")), ContainerState::default(), 0, Some("a"));
    let status = ending.status.as_mut().unwrap();
    status.phase = Some("Running".to_owned());
    let ready = PodCondition {
        type_: "Ready".to_owned(),
        status: "False".to_owned(),
        reason: Some("ContainersNotReady".to_owned()),
        ..PodCondition::default()
    };
    status.conditions = Some(vec![ready]);
    assert_eq!(ObservedPod::from_pod(&ending).course, PodCourse::Open);
    let conditions = ending.status.as_mut().unwrap().conditions.as_mut().unwrap();
    conditions[0].reason = Some("PodFailed".to_owned());
    assert_eq!(ObservedPod::from_pod(&ending).course, PodCourse::Over, "the others still run");
}

#[test]
fn the_nodes_next_start_is_read_from_its_back_off_text() {
    let text = "back-off 2m40s restarting failed container=app pod=p_ns(uid)";
    let held = pod(waiting("CrashLoopBackOff", text), ended(None), 5, None);
    assert_eq!(ObservedPod::from_pod(&held).next_own_restart(), Some(Tick::from_secs(260)));
    let other = pod(waiting("CrashLoopBackOff", "some text"), ended(None), 5, None);
    assert_eq!(ObservedPod::from_pod(&other).next_own_restart(), None);
}
