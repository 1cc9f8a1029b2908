//! PodRestarts of groups: the members, the stages, and how they end.

use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{ObjectId, ResourceKind, ViewObject};
use rekindle_types::TickDuration;
use rekindle_types::v1alpha1::{GroupRestartStage, PodRestart, PodRestartPhase, PodRestartStatus};
use serde_json::{Value, json};

use crate::build::pod;
use crate::world::{World, id};

fn group(name: &str, spec: Value) -> Value {
    let mut whole = json!({"selector": {"matchLabels": {"job": "train"}}});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"kind": "PodRestart", "metadata": {"name": name}, "spec": whole})
}

fn trainer(world: &mut World, name: &str) -> ObjectId {
    world.create(pod(name, json!({"job": "train"})))
}

/// Two pods on a node, and a group of them whose members all stop.
fn stopping(spec: Value) -> (World, ObjectId) {
    let mut world = World::with_node();
    trainer(&mut world, "a");
    trainer(&mut world, "b");
    world.create(pod("other", json!({})));
    world.converge();
    let request = world.create(group("again", spec));
    world.settle();
    assert_eq!(stage(&world, &request), Some(GroupRestartStage::Stopping));
    (world, request)
}

fn restart(world: &World, id: &ObjectId) -> PodRestart {
    match &world.api.objects[id] {
        ViewObject::PodRestart(restart) => restart.as_ref().clone(),
        other => panic!("{other:?}"),
    }
}

fn status(world: &World, id: &ObjectId) -> PodRestartStatus {
    restart(world, id).status.unwrap_or_default()
}

fn stage(world: &World, id: &ObjectId) -> Option<GroupRestartStage> {
    status(world, id).group.map(|group| group.stage)
}

/// What the group says of each pod.
fn told(world: &World, id: &ObjectId) -> Vec<(String, Option<PodRestartPhase>)> {
    let members = status(world, id).group.into_iter().flat_map(|group| group.members);
    members.map(|member| (member.pod_name, member.phase)).collect()
}

/// The node reports.
fn report(world: &mut World, request: &str, status: Value) {
    world.api.change(&id(ResourceKind::PodRestart, request), |restart| {
        let before = restart["status"].as_object().cloned().unwrap_or_default();
        let mut now = json!(before);
        now.as_object_mut().unwrap().extend(status.as_object().unwrap().clone());
        restart["status"] = now;
    });
    world.settle();
}

fn stopped(world: &mut World, request: &str) {
    report(world, request, json!({"phase": "Running", "stoppedAt": "2026-11-28T12:00:00Z"}));
}

#[test]
fn all_members_stop_before_any_starts_and_the_group_succeeds_with_the_last_of_them() {
    let (mut world, request) = stopping(json!({"gracePeriodSeconds": 7, "rung": "Containers"}));
    let first = restart(&world, &id(ResourceKind::PodRestart, "again-0"));
    assert_eq!(first.spec.pod_name, "a");
    assert_eq!(first.spec.member_of.as_deref(), Some("again"));
    assert_eq!(first.spec.grace_period_seconds, Some(7));
    let deadline = first.spec.deadline_seconds;
    assert_eq!(deadline, Some(667), "the group's, 600 and the grace, and a minute");
    stopped(&mut world, "again-0");
    assert_eq!(stage(&world, &request), Some(GroupRestartStage::Stopping), "b runs still");
    stopped(&mut world, "again-1");
    assert_eq!(stage(&world, &request), Some(GroupRestartStage::Starting));
    report(&mut world, "again-1", json!({"phase": "Succeeded", "message": "runs"}));
    assert_eq!(status(&world, &request).phase, Some(PodRestartPhase::Running));
    report(&mut world, "again-0", json!({"phase": "Succeeded", "message": "runs"}));
    let status = status(&world, &request);
    assert_eq!(status.phase, Some(PodRestartPhase::Succeeded));
    let message = status.message.as_deref();
    assert_eq!(message, Some("2 pods running again, after all had stopped"));
    let done = Some(PodRestartPhase::Succeeded);
    assert_eq!(told(&world, &request), [("a".to_owned(), done), ("b".to_owned(), done)]);
}

#[test]
fn a_group_that_cannot_be_one_is_refused_by_name() {
    let labels = |value: &str| json!({"selector": {"matchLabels": {"job": value}}});
    for (spec, says) in [
        (labels("none"), "no pod has the labels job=none"),
        (labels("waits"), "can be restarted: pod waits: left out: it is not on a node yet"),
        (json!({"rung": "Rollback"}), "no group restarts as one on rung Rollback"),
        (json!({"selector": {}}), "spec.selector is empty"),
    ] {
        let mut world = World::with_node();
        trainer(&mut world, "a");
        world.converge();
        let mut waits = pod("waits", json!({"job": "waits"}));
        waits["spec"]["nodeSelector"] = json!({"kept-for": "nobody"});
        world.create(waits);
        let request = world.create(group("again", spec.clone()));
        world.settle();
        let status = status(&world, &request);
        assert_eq!(status.phase, Some(PodRestartPhase::Refused), "{spec}");
        let told = status.message.unwrap_or_default();
        assert!(told.contains(says), "{spec}: {told}");
        let all = world.api.objects.keys().filter(|id| id.kind == ResourceKind::PodRestart);
        assert_eq!(all.count(), 1, "nobody was asked for anything");
    }
}

#[test]
fn a_second_group_with_a_pod_of_the_first_is_refused_until_the_first_is_over() {
    let (mut world, first) = stopping(json!({}));
    let second = world.create(group("second", json!({})));
    world.settle();
    let refused = status(&world, &second);
    assert_eq!(refused.phase, Some(PodRestartPhase::Refused));
    let message = refused.message.as_deref();
    assert_eq!(message, Some("pod a is a member of group again, which is not over"));
    for request in ["again-0", "again-1"] {
        report(&mut world, request, json!({"phase": "Succeeded"}));
    }
    assert!(status(&world, &first).phase.is_some_and(PodRestartPhase::is_final));
    let third = world.create(group("third", json!({})));
    world.settle();
    assert_eq!(stage(&world, &third), Some(GroupRestartStage::Stopping));
}

/// Their requests are seen at once, before the controller has written to any.
#[test]
fn of_two_groups_that_gather_at_the_same_time_one_goes_on() {
    let mut world = World::with_node();
    trainer(&mut world, "a");
    world.converge();
    let groups = [group("one", json!({})), group("two", json!({}))].map(|g| world.create(g));
    let fixed = json!({"phase": "Running", "group": {"stage": "Gathering", "members": [
        {"podName": "a", "podUID": world.api.objects[&id(ResourceKind::Pod, "a")].uid(),
            "requestName": "x-0"}]}});
    for (group, number) in groups.iter().rev().zip(0..) {
        let mut fixed = fixed.clone();
        fixed["group"]["members"][0]["requestName"] = json!(format!("x-{number}"));
        world.api.change(group, |restart| restart["status"] = fixed);
    }
    world.settle();
    assert_eq!(status(&world, &groups[0]).phase, Some(PodRestartPhase::Refused));
    assert_eq!(stage(&world, &groups[1]), Some(GroupRestartStage::Stopping), "written first");
}

#[test]
fn a_member_that_drops_out_holds_nobody_and_the_group_says_that_it_failed() {
    let (mut world, request) = stopping(json!({}));
    stopped(&mut world, "again-0");
    world.api.user_deletes(&id(ResourceKind::Pod, "b"), DependentPolicy::Default);
    world.converge();
    assert_eq!(stage(&world, &request), Some(GroupRestartStage::Starting), "a starts again");
    report(&mut world, "again-0", json!({"phase": "Succeeded"}));
    let status = status(&world, &request);
    assert_eq!(status.phase, Some(PodRestartPhase::Failed));
    let message = status.message.unwrap_or_default();
    assert!(message.starts_with("1 of 2 pods restarted; pod b: "), "{message}");
}

#[test]
fn a_request_of_a_member_that_somebody_deletes_is_not_made_again() {
    let (mut world, request) = stopping(json!({}));
    stopped(&mut world, "again-0");
    let member = id(ResourceKind::PodRestart, "again-1");
    world.api.user_deletes(&member, DependentPolicy::Default);
    world.settle();
    assert!(!world.api.objects.contains_key(&member), "it may have been carried out");
    assert_eq!(stage(&world, &request), Some(GroupRestartStage::Starting));
    report(&mut world, "again-0", json!({"phase": "Succeeded"}));
    let status = status(&world, &request);
    assert_eq!(status.phase, Some(PodRestartPhase::Failed));
    let message = status.message.as_deref();
    assert_eq!(message, Some("1 of 2 pods restarted; pod b: its request was deleted"));
}

#[test]
fn a_member_that_does_not_stop_in_time_ends_the_group_and_the_others_may_start() {
    let (mut world, request) = stopping(json!({"deadlineSeconds": 60}));
    stopped(&mut world, "again-0");
    world.advance(TickDuration::from_secs(61));
    world.settle();
    let late = status(&world, &request);
    assert_eq!(late.phase, Some(PodRestartPhase::Failed));
    let message = late.message.as_deref();
    assert_eq!(
        message,
        Some("b had not stopped within the deadline of 1m; 1 pod that had stopped started again")
    );
    let b = status(&world, &id(ResourceKind::PodRestart, "again-1"));
    assert_eq!(b.phase, Some(PodRestartPhase::Failed), "no node begins it any more");
    let group = restart(&world, &request);
    let member = restart(&world, &id(ResourceKind::PodRestart, "again-0"));
    let turn = member.member_turn(Some(&group));
    assert_eq!(turn, rekindle_types::v1alpha1::MemberTurn::Start);
}

#[test]
fn a_request_that_no_group_counts_among_its_members_is_refused() {
    let (mut world, _) = stopping(json!({}));
    world.create(
        json!({"kind": "PodRestart", "metadata": {"name": "single"}, "spec": {"podName": "other"}}),
    );
    for (of, says) in [
        ("ghost", "there is no podrestart ghost"),
        ("single", "podrestart single has no selector"),
        ("again", "group again has no such member"),
    ] {
        let spec = json!({"podName": "other", "memberOf": of});
        let object = json!({"kind": "PodRestart", "metadata": {"name": format!("stray-{of}")}, "spec": spec});
        let request = world.create(object);
        world.settle();
        let status = status(&world, &request);
        assert_eq!(status.phase, Some(PodRestartPhase::Refused), "{of}");
        assert_eq!(status.message, Some(format!("spec.memberOf: {says}")), "{of}");
    }
}

#[test]
fn the_requests_of_the_members_go_with_their_group_and_not_before() {
    let (mut world, request) =
        stopping(json!({"ttlSecondsAfterFinished": 0, "deadlineSeconds": 3600}));
    report(
        &mut world,
        "again-0",
        json!({"phase": "Succeeded", "finishedAt": "1970-01-01T00:00:01Z"}),
    );
    world.advance(TickDuration::from_secs(60));
    world.settle();
    assert!(world.api.objects.contains_key(&id(ResourceKind::PodRestart, "again-0")));
    report(&mut world, "again-1", json!({"phase": "Succeeded"}));
    world.converge();
    assert!(!world.api.objects.contains_key(&request));
    let left = world.api.objects.keys().filter(|id| id.kind == ResourceKind::PodRestart);
    assert_eq!(left.count(), 0);
}
