//! Events: a repeat raises the count of the first one instead of making another.
//!
//! The recorder is pure. The driver hands it what is to be said ([`EventNote`]) and writes what it
//! answers ([`EventWrite`]). It remembers a bounded number of events; a forgotten one is simply
//! made anew. The same event is written at most once a second; what was not written is in the count
//! of the next. Similar events are combined, and what is written about one object is limited
//! (`limits`), as by client-go; of what is kept back only writes are counted here, not what they
//! count.

mod limits;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::name_stem::name_stem;
use rekindle_types::{EventSeverity, Tick, TickDuration};

use crate::ViewObject;
use limits::{BoundedMemory, CombinedEvent, EventAggregator, EventQuota};

/// After this the server has dropped the event (its TTL is an hour): a repeat is a new event.
const REPEAT_WITHIN: TickDuration = TickDuration::from_secs(50 * 60);
/// The same event is written at most this often.
const WRITE_INTERVAL: TickDuration = TickDuration::from_secs(1);
/// Bytes of an object's name that go into the event's name, which may have 253.
const NAME_BYTES_MAX: usize = 220;
/// Bytes of a message (API reference: 1024).
const MESSAGE_BYTES_MAX: usize = 1024;

/// Something to be said about an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventNote {
    /// About which object.
    pub about: EventSubject,
    /// Normal or Warning.
    pub severity: EventSeverity,
    /// In CamelCase, for machines.
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// Which controller says so.
    pub component: &'static str,
    /// Notes of one kind about an object are one event with the newest message; without a kind,
    /// those of the same message are.
    pub kind: Option<&'static str>,
}

/// The object of an event. Its UID stands first, by which two are told apart at once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventSubject {
    /// The UID.
    pub uid: String,
    /// `apiVersion`.
    pub api_version: String,
    /// `kind`.
    pub kind: &'static str,
    /// The namespace; the event of a cluster-scoped object goes to `default`.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// What the driver writes.
#[derive(Clone, Debug, PartialEq)]
pub enum EventWrite {
    /// A new event.
    Create(Box<Event>),
    /// The event of this name happened again: write `count`, `lastTimestamp` and `message` (that of
    /// an event which stands for several is the latest one's). If it is gone meanwhile, create it.
    Repeat(Box<Event>),
}

impl EventNote {
    /// A note about an object.
    pub fn new(
        about: &ViewObject,
        severity: EventSeverity,
        reason: &'static str,
        message: impl Into<String>,
        component: &'static str,
    ) -> Self {
        Self {
            about: EventSubject::from_object(about),
            severity,
            reason,
            message: message.into(),
            component,
            kind: None,
        }
    }

    /// The same note, counted with others of this kind whatever they say.
    #[must_use]
    pub fn of_kind(mut self, kind: &'static str) -> Self {
        self.kind = Some(kind);
        self
    }

    /// What all notes of its kind have in common.
    fn of_its_kind(&self) -> Self {
        Self { message: String::new(), ..self.clone() }
    }

    /// The same note with more text behind its message.
    #[must_use]
    pub fn with_detail(mut self, detail: &str) -> Self {
        self.message.push_str(detail);
        self
    }
}

impl EventSubject {
    /// An object of the view.
    pub fn from_object(object: &ViewObject) -> Self {
        let meta = object.meta();
        Self {
            api_version: object.kind().api_version(),
            kind: object.kind().info().kind,
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: object.uid().to_owned(),
        }
    }
}

/// Remembers what was said, to count repeats.
#[derive(Clone, Debug, Default)]
pub struct EventCorrelator {
    said: BoundedMemory<EventNote, RecordedEvent>,
    similar: EventAggregator,
    quota: EventQuota,
    sequence: u64,
}

/// What is remembered of one event.
#[derive(Clone, Debug)]
struct RecordedEvent {
    name: String,
    first: Tick,
    last: Tick,
    written: Option<Tick>,
    count: i32,
}

impl EventCorrelator {
    /// An empty memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// What to write for this note; nothing when the same event was written less than a second ago,
    /// or too much about the object.
    pub fn record(&mut self, note: EventNote, now: Tick) -> Option<EventWrite> {
        let folded = match note.kind {
            Some(_) => CombinedEvent::Combined { known_by: note.of_its_kind(), shown: note },
            None => self.similar.fold(note, now),
        };
        let (known_by, shown) = match &folded {
            CombinedEvent::Alone(note) => (note, note),
            CombinedEvent::Combined { known_by, shown } => (known_by, shown),
        };
        self.sequence += 1;
        let sequence = self.sequence;
        let begin = || RecordedEvent::new(known_by, sequence, now);
        let said = self.said.recall(known_by, now, begin);
        if now.since(said.last) >= REPEAT_WITHIN {
            *said = RecordedEvent::new(known_by, sequence, now);
        }
        said.count = said.count.saturating_add(1);
        said.last = now;
        let is_due = said.written.is_none_or(|at| now.since(at) >= WRITE_INTERVAL);
        if !is_due || !self.quota.take(known_by, now) {
            return None;
        }
        let event = Box::new(event(shown, said));
        match said.written.replace(now) {
            Some(_) => Some(EventWrite::Repeat(event)),
            None => Some(EventWrite::Create(event)),
        }
    }
}

impl RecordedEvent {
    /// Nothing said yet, under a name that no other event has.
    fn new(note: &EventNote, sequence: u64, now: Tick) -> Self {
        let serial = now.as_micros().wrapping_mul(1000).wrapping_add(sequence % 1000);
        let name = format!("{}.{serial:x}", name_stem(&note.about.name, NAME_BYTES_MAX));
        RecordedEvent { name, first: now, last: now, written: None, count: 0 }
    }
}

fn event(note: &EventNote, said: &RecordedEvent) -> Event {
    let about = &note.about;
    let namespace = if about.namespace.is_empty() { "default" } else { &about.namespace };
    Event {
        metadata: ObjectMeta {
            name: Some(said.name.clone()),
            namespace: Some(namespace.to_owned()),
            ..Default::default()
        },
        involved_object: ObjectReference {
            api_version: Some(about.api_version.clone()),
            kind: Some(about.kind.to_owned()),
            namespace: Some(about.namespace.clone()).filter(|n| !n.is_empty()),
            name: Some(about.name.clone()),
            uid: Some(about.uid.clone()).filter(|uid| !uid.is_empty()),
            ..Default::default()
        },
        type_: Some(note.severity.name().to_owned()),
        reason: Some(note.reason.to_owned()),
        message: Some(cut(&note.message, MESSAGE_BYTES_MAX).to_owned()),
        count: Some(said.count),
        first_timestamp: Some(said.first.to_time()),
        last_timestamp: Some(said.last.to_time()),
        source: Some(EventSource {
            component: Some(note.component.to_owned()),
            ..Default::default()
        }),
        reporting_component: Some(note.component.to_owned()),
        reporting_instance: Some(String::new()),
        ..Default::default()
    }
}

/// The text, cut at a letter's border to at most so many bytes.
pub(crate) fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &str, message: &str) -> EventNote {
        EventNote {
            about: EventSubject {
                api_version: "v1".to_owned(),
                kind: "Pod",
                namespace: "shop".to_owned(),
                name: name.to_owned(),
                uid: "u".to_owned(),
            },
            severity: EventSeverity::Warning,
            reason: "FailedScheduling",
            message: message.to_owned(),
            component: "default-scheduler",
            kind: None,
        }
    }

    fn count(write: Option<EventWrite>) -> Option<(i32, bool)> {
        write.map(|write| match write {
            EventWrite::Create(event) => (event.count.unwrap_or_default(), true),
            EventWrite::Repeat(event) => (event.count.unwrap_or_default(), false),
        })
    }

    #[test]
    fn a_repeat_raises_the_count_and_is_written_at_most_once_a_second() {
        let mut recorder = EventCorrelator::new();
        let at = |millis| Tick::from_secs(1000) + TickDuration::from_millis(millis);
        assert_eq!(count(recorder.record(note("a", "m"), at(0))), Some((1, true)));
        assert_eq!(count(recorder.record(note("a", "m"), at(10))), None);
        assert_eq!(count(recorder.record(note("a", "m"), at(20))), None);
        assert_eq!(count(recorder.record(note("a", "m"), at(1500))), Some((4, false)));
        assert_eq!(count(recorder.record(note("a", "other"), at(1600))), Some((1, true)));
        let much_later = at(60 * 60 * 1000);
        assert_eq!(count(recorder.record(note("a", "m"), much_later)), Some((1, true)));
    }

    #[test]
    fn from_the_tenth_message_on_similar_events_are_one() {
        let mut recorder = EventCorrelator::new();
        let mut names = std::collections::BTreeSet::new();
        let mut last = None;
        for n in 0..20u64 {
            let at = Tick::from_secs(1000 + n * 2);
            last = recorder.record(note("a", &format!("message {n}")), at);
            let (Some(EventWrite::Create(event)) | Some(EventWrite::Repeat(event))) = &last else {
                panic!("{n}: {last:?}")
            };
            names.insert(event.metadata.name.clone());
        }
        assert_eq!(names.len(), 10, "nine of their own, and one for the rest");
        let Some(EventWrite::Repeat(event)) = last else { panic!("{last:?}") };
        assert_eq!(event.message.as_deref(), Some("(combined from similar events): message 19"));
        assert_eq!(event.count, Some(11));
        let much_later = recorder.record(note("a", "new"), Tick::from_secs(1000 + 38 + 601));
        assert!(
            matches!(&much_later, Some(EventWrite::Create(event)) if event.message.as_deref() == Some("new"))
        );
    }

    #[test]
    fn after_25_events_about_an_object_one_is_written_in_five_minutes() {
        let mut recorder = EventCorrelator::new();
        let mut written = |from: u64, seconds: u64| {
            let at = |n| Tick::from_secs(from + n);
            (0..seconds).filter(|n| recorder.record(note("a", "m"), at(*n)).is_some()).count()
        };
        assert_eq!(written(1000, 100), 25);
        assert_eq!(written(1100, 600), 2);
        assert_eq!(written(20_000, 100), 25, "after hours of silence");
        let other = recorder.record(note("b", "m"), Tick::from_secs(20_100));
        assert!(other.is_some(), "another object is another matter");
    }

    #[test]
    fn an_event_that_was_kept_back_is_created_when_it_may_be_written() {
        let mut recorder = EventCorrelator::new();
        for n in 0..25 {
            assert!(recorder.record(note("a", "m"), Tick::from_secs(1000 + n)).is_some());
        }
        let mut other = note("a", "m");
        other.reason = "Other";
        assert_eq!(recorder.record(other.clone(), Tick::from_secs(1030)), None);
        let later = recorder.record(other, Tick::from_secs(1330));
        assert_eq!(count(later), Some((2, true)));
    }

    #[test]
    fn notes_of_a_kind_are_one_event_with_the_newest_message() {
        let mut recorder = EventCorrelator::new();
        let at = |secs: u64| Tick::from_secs(1000 + secs);
        let of_kind = |message, kind| note("a", message).of_kind(kind);
        assert_eq!(count(recorder.record(of_kind("after 1s", "Pod"), at(0))), Some((1, true)));
        let Some(EventWrite::Repeat(event)) = recorder.record(of_kind("after 5s", "Pod"), at(5))
        else {
            panic!("a repeat")
        };
        assert_eq!((event.count, event.message.as_deref()), (Some(2), Some("after 5s")));
        let other = recorder.record(of_kind("after 5s", "Recreate"), at(6));
        assert_eq!(count(other), Some((1, true)));
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut recorder = EventCorrelator::new();
        for n in 0..5000u64 {
            let write = recorder.record(note(&format!("pod-{n}"), "m"), Tick::from_secs(n));
            assert!(matches!(write, Some(EventWrite::Create(_))));
            assert!(recorder.said.len() <= limits::REMEMBERED_MAX);
        }
    }

    #[test]
    fn a_message_is_cut_at_a_letter() {
        let long = "é".repeat(2000);
        let mut recorder = EventCorrelator::new();
        let write = recorder.record(note("a", &long), Tick::from_secs(1));
        let Some(EventWrite::Create(event)) = write else { panic!("a new event: {write:?}") };
        assert_eq!(event.message.map(|m| m.len()), Some(1024));
    }
}
