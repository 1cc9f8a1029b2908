use rekindle_types::v1alpha1::RestartLedger;
use serde_json::json;

use super::*;

const NOW: Tick = Tick::from_secs(1_000);

fn after(secs: u64) -> Tick {
    NOW + TickDuration::from_secs(secs)
}

/// The ledger of pod web-0, exhausted since this second; told of that second.
fn ledger(exhausted: Option<&str>, told: Option<&str>) -> RestartLedger {
    let status = if exhausted.is_some() { "True" } else { "False" };
    serde_json::from_value(json!({
        "metadata": {
            "name": "web-0", "namespace": "shop", "uid": "u-1",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "u-2"}],
        },
        "spec": {"ladderName": "web", "podName": "web-0", "podUID": "u-3"},
        "status": {
            "failuresTotal": 3,
            "attempts": [{"rung": "Pod", "at": ["2026-11-21T11:58:00.000000Z"]}],
            "exhaustionToldAt": told,
            "conditions": [{
                "type": "Exhausted", "status": status, "reason": "Exhausted", "message": "every rung was tried",
                "lastTransitionTime": exhausted.unwrap_or("2026-11-21T13:00:00Z"),
            }],
        },
    }))
    .expect("a ledger")
}

const FIRST: Option<&str> = Some("2026-11-21T12:00:00Z");
const SECOND: Option<&str> = Some("2026-11-21T12:30:00Z");

fn one(due: Vec<NoticeDelivery>) -> NoticeDelivery {
    assert_eq!(due.len(), 1, "{due:?}");
    due.into_iter().next().expect("one")
}

#[test]
fn an_exhaustion_is_told_once_however_often_its_ledger_is_seen() {
    let mut outbox = NoticeOutbox::default();
    outbox.see(&ledger(FIRST, None), NOW);
    outbox.see(&ledger(FIRST, None), NOW);
    let delivery = one(outbox.take_due(NOW, 4));
    assert_eq!(delivery.step, DeliveryStep::Post);
    outbox.see(&ledger(FIRST, None), NOW);
    assert!(outbox.take_due(after(999), 4).is_empty(), "it is under way");
    outbox.settle(&delivery, DeliveryResult::Done, NOW);
    outbox.see(&ledger(FIRST, None), NOW); // the watch is behind
    assert!(outbox.take_due(after(999), 4).is_empty());
    outbox.see(&ledger(FIRST, FIRST), NOW);
    assert!(outbox.entries.is_empty(), "nothing is remembered that the ledger remembers");
}

#[test]
fn what_was_told_before_a_restart_is_not_told_again_and_a_new_exhaustion_is() {
    let mut outbox = NoticeOutbox::default();
    outbox.see(&ledger(FIRST, FIRST), NOW);
    assert_eq!(outbox.next_due(), None);
    outbox.see(&ledger(SECOND, FIRST), NOW);
    let delivery = one(outbox.take_due(NOW, 4));
    assert_eq!(delivery.notice.at, Tick::from(&delivery.notice.at).to_time());
    assert!(delivery.notice.id.starts_with("u-1-"));
}

#[test]
fn what_is_not_taken_is_tried_again_later_and_later_while_the_ladder_is_exhausted() {
    let mut outbox = NoticeOutbox::default();
    outbox.see(&ledger(FIRST, None), NOW);
    let mut now = NOW;
    let mut waits = Vec::new();
    for _ in 0..11 {
        let delivery = one(outbox.take_due(now, 4));
        outbox.settle(&delivery, DeliveryResult::Again(DeliveryStep::Post), now);
        let due = outbox.next_due().expect("it is tried again");
        waits.push(due.since(now).as_secs());
        now = due;
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    outbox.see(&ledger(None, None), now);
    assert_eq!(outbox.next_due(), None, "it recovered: there is no news any more");
}

#[test]
fn a_receiver_that_knows_is_not_told_again_when_the_ledger_could_not_be_written() {
    let mut outbox = NoticeOutbox::default();
    outbox.see(&ledger(FIRST, None), NOW);
    let delivery = one(outbox.take_due(NOW, 4));
    outbox.settle(&delivery, DeliveryResult::Again(DeliveryStep::Note), NOW);
    assert_eq!(one(outbox.take_due(after(1), 4)).step, DeliveryStep::Note);
}

#[test]
fn an_answer_to_an_earlier_exhaustion_says_nothing_about_the_next() {
    let mut outbox = NoticeOutbox::default();
    outbox.see(&ledger(FIRST, None), NOW);
    let first = one(outbox.take_due(NOW, 4));
    outbox.see(&ledger(SECOND, None), NOW);
    let second = one(outbox.take_due(NOW, 4));
    outbox.settle(&first, DeliveryResult::Done, NOW);
    outbox.settle(&second, DeliveryResult::Again(DeliveryStep::Post), NOW);
    assert_eq!(outbox.next_due(), Some(after(1)));
}

#[test]
fn what_a_new_list_does_not_hold_is_forgotten_and_room_is_kept_to() {
    let mut outbox = NoticeOutbox::default();
    outbox.see(&ledger(FIRST, None), NOW);
    let mut other = ledger(FIRST, None);
    other.metadata.uid = Some("u-9".to_owned());
    outbox.see(&other, NOW);
    assert_eq!(outbox.take_due(NOW, 1).len(), 1);
    outbox.begin_list();
    outbox.see(&other, NOW);
    outbox.end_list();
    assert_eq!(outbox.entries.keys().collect::<Vec<_>>(), ["u-9"]);
    outbox.gone(&other);
    assert!(outbox.entries.is_empty());
}

#[test]
fn the_notice_has_its_documented_shape() {
    let notice = ExhaustionNotice::new(&ledger(FIRST, None), Tick::from_secs(1_795_608_000));
    let body = serde_json::to_value(&notice).expect("JSON");
    assert_eq!(
        body,
        json!({
            "apiVersion": "rekindle.dev/v1alpha1",
            "kind": "LadderExhausted",
            "id": "u-1-1795608000",
            "at": "2026-11-25T12:00:00Z",
            "namespace": "shop",
            "pod": "web-0",
            "podUID": "u-3",
            "workload": {"kind": "StatefulSet", "name": "web"},
            "ladder": "web",
            "message": "every rung was tried",
            "attempts": [{"rung": "Pod", "count": 1}],
            "failuresTotal": 3,
        })
    );
}
