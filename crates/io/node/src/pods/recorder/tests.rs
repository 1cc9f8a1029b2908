use rekindle_pod::PodEvent;
use rekindle_types::{EventSeverity, PodRef, PodUid, TickDuration};

use super::records::RECORDS_MAX;
use super::*;
use crate::testing::World;

const START: Tick = Tick::from_secs(1_760_000_000);

fn occurrence(uid: &str, reason: &str, message: &str, at: Tick) -> EventOccurrence {
    let about = ObjectReference {
        name: Some("web".into()),
        uid: Some(uid.into()),
        ..ObjectReference::default()
    };
    let (reason, message) = (reason.to_owned(), message.to_owned());
    EventOccurrence { about, severity: EventSeverity::Normal, reason, message, at }
}

fn pod_ref() -> PodRef {
    PodRef { namespace: "default".into(), name: "web".into(), uid: PodUid("u".into()) }
}

fn event(message: &str) -> PodEvent {
    PodEvent {
        severity: EventSeverity::Warning,
        reason: "BackOff",
        message: message.to_owned(),
        field_path: Some("spec.containers{app}".to_owned()),
    }
}

#[tokio::test(start_paused = true)]
async fn repeats_are_counted_in_one_object() {
    let world = World::new();
    let recorder = EventRecorder::start(world.api.client(), "node-a", world.clock);
    for _ in 0..5 {
        recorder.pod_event(&pod_ref(), event("back-off"));
    }
    world
        .api
        .until("counted", |api| api.list("events").iter().any(|event| event["count"] == 5))
        .await;
    let events = world.api.list("events");
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["type"], "Warning");
    assert_eq!(
        events[0]["source"],
        serde_json::json!({ "component": "kubelet", "host": "node-a" })
    );
    assert_eq!(events[0]["involvedObject"]["fieldPath"], "spec.containers{app}");
    assert_eq!(events[0]["involvedObject"]["uid"], "u");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_has_expired_is_made_anew() {
    let world = World::new();
    let recorder = EventRecorder::start(world.api.client(), "node-a", world.clock);
    recorder.pod_event(&pod_ref(), event("back-off"));
    world.api.until("there", |api| api.list("events").len() == 1).await;
    let name = world.api.list("events")[0]["metadata"]["name"].as_str().unwrap().to_owned();
    world.api.remove("events", &name);
    recorder.pod_event(&pod_ref(), event("back-off"));
    world
        .api
        .until("there again", |api| api.list("events").iter().any(|event| event["count"] == 2))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_write_that_fails_is_tried_again() {
    let world = World::new();
    world.api.fail_next("POST events", 2);
    let recorder = EventRecorder::start(world.api.client(), "node-a", world.clock);
    recorder.pod_event(&pod_ref(), event("back-off"));
    world.api.until("there", |api| api.list("events").len() == 1).await;
}

/// client-go's spam filter: a burst of 25, then one every 5 minutes.
#[test]
fn an_object_that_speaks_too_often_is_cut() {
    let mut records = EventRecords::default();
    let at = |secs: u64| START + TickDuration::from_secs(secs);
    let spoken =
        (0..100).filter(|_| records.count(occurrence("a", "R", "m", at(0))).is_some()).count();
    assert_eq!(spoken, 25);
    assert!(records.count(occurrence("b", "R", "m", at(0))).is_some(), "others still speak");
    assert!(records.count(occurrence("a", "R", "m", at(299))).is_none());
    assert!(records.count(occurrence("a", "R", "m", at(300))).is_some());
    assert!(records.count(occurrence("a", "R", "m", at(301))).is_none());
    let later = (0..100)
        .filter(|_| records.count(occurrence("a", "R", "m", at(100_000))).is_some())
        .count();
    assert_eq!(later, 25, "silence earns a burst again, and no more");
}

#[test]
fn many_similar_messages_become_one_event() {
    let mut records = EventRecords::default();
    let keys: std::collections::BTreeSet<EventKey> = (0..20)
        .filter_map(|n| records.count(occurrence("a", "R", &format!("try {n}"), START)))
        .collect();
    assert_eq!(keys.len(), 11);
    let combined =
        records.records.values().find(|record| record.message.contains("combined")).unwrap();
    assert_eq!(combined.message, "(combined from similar events): try 19");
    assert_eq!(combined.count, 10);
}

#[test]
fn memory_is_bounded_however_many_objects_speak() {
    let mut records = EventRecords::default();
    for n in 0..10_000_u64 {
        let at = START + TickDuration::from_secs(n * 10_000);
        records.count(occurrence(&format!("uid-{n}"), "R", "m", at));
    }
    assert!(records.records.len() <= RECORDS_MAX);
    assert!(records.order.len() <= RECORDS_MAX);
    assert!(records.buckets.len() <= RECORDS_MAX);
}
