//! Events: a repeat raises the count of the first one instead of making another.
//!
//! The recorder is pure. The driver hands it what is to be said ([`Note`]) and writes what it answers ([`EventWrite`]). It
//! remembers a bounded number of events; a forgotten one is simply made anew. The same event is written at most once a
//! second; what was not written is in the count of the next.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::{Tick, TickDuration};

use crate::{Object, pods};

/// Events remembered at most.
const REMEMBERED_MAX: usize = 2048;
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
pub struct Note {
    /// About which object.
    pub about: About,
    /// Normal or Warning.
    pub severity: Severity,
    /// In CamelCase, for machines.
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// Which controller says so.
    pub component: &'static str,
    /// Notes of one kind about an object are one event with the newest message; without a kind, those of the same message are.
    pub kind: Option<&'static str>,
}

/// The object of an event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct About {
    /// `apiVersion`.
    pub api_version: String,
    /// `kind`.
    pub kind: &'static str,
    /// The namespace; the event of a cluster-scoped object goes to `default`.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The UID.
    pub uid: String,
}

/// The `type` of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// As it should be.
    Normal,
    /// Somebody may want to look.
    Warning,
}

/// What the driver writes.
#[derive(Clone, Debug, PartialEq)]
pub enum EventWrite {
    /// A new event.
    Create(Box<Event>),
    /// The event of this name happened again: write `count` and `lastTimestamp`. If it is gone meanwhile, create it.
    Repeat(Box<Event>),
}

impl Note {
    /// A note about an object.
    pub fn new(
        about: &Object,
        severity: Severity,
        reason: &'static str,
        message: impl Into<String>,
        component: &'static str,
    ) -> Self {
        Self {
            about: About::of(about),
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

    /// What it is counted by.
    fn key(&self) -> Self {
        let message = match self.kind {
            Some(_) => String::new(),
            None => self.message.clone(),
        };
        Self { message, ..self.clone() }
    }

    /// The same note with more text behind its message.
    #[must_use]
    pub fn with_detail(mut self, detail: &str) -> Self {
        self.message.push_str(detail);
        self
    }
}

impl About {
    /// An object of the view.
    pub fn of(object: &Object) -> Self {
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
pub struct Recorder {
    said: BTreeMap<Note, Said>,
    sequence: u64,
}

/// What is remembered of one event.
#[derive(Clone, Debug)]
struct Said {
    name: String,
    first: Tick,
    last: Tick,
    written: Tick,
    count: i32,
}

impl Recorder {
    /// An empty memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// What to write for this note; nothing when the same event was written less than a second ago.
    pub fn record(&mut self, note: Note, now: Tick) -> Option<EventWrite> {
        let key = note.key();
        if let Some(said) = self.said.get_mut(&key).filter(|s| now.since(s.last) < REPEAT_WITHIN) {
            said.count = said.count.saturating_add(1);
            said.last = now;
            if now.since(said.written) < WRITE_INTERVAL {
                return None;
            }
            said.written = now;
            return Some(EventWrite::Repeat(Box::new(event(&note, said))));
        }
        self.make_room();
        self.sequence += 1;
        let serial = now.as_micros().wrapping_mul(1000).wrapping_add(self.sequence % 1000);
        let name = format!("{}.{serial:x}", cut(&note.about.name, NAME_BYTES_MAX));
        let said = Said { name, first: now, last: now, written: now, count: 1 };
        let event = event(&note, &said);
        self.said.insert(key, said);
        Some(EventWrite::Create(Box::new(event)))
    }

    fn make_room(&mut self) {
        if self.said.len() < REMEMBERED_MAX {
            return;
        }
        let mut ages: Vec<Tick> = self.said.values().map(|said| said.last).collect();
        ages.sort_unstable();
        let newest_forgotten = ages[ages.len() / 4];
        self.said.retain(|_, said| said.last > newest_forgotten);
    }
}

fn event(note: &Note, said: &Said) -> Event {
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
        first_timestamp: Some(pods::whole_seconds(said.first)),
        last_timestamp: Some(pods::whole_seconds(said.last)),
        source: Some(EventSource {
            component: Some(note.component.to_owned()),
            ..Default::default()
        }),
        reporting_component: Some(note.component.to_owned()),
        reporting_instance: Some(String::new()),
        ..Default::default()
    }
}

impl Severity {
    /// As the API spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        }
    }
}

/// The text, cut at a letter's border to at most so many bytes.
fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &str, message: &str) -> Note {
        Note {
            about: About {
                api_version: "v1".to_owned(),
                kind: "Pod",
                namespace: "shop".to_owned(),
                name: name.to_owned(),
                uid: "u".to_owned(),
            },
            severity: Severity::Warning,
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
        let mut recorder = Recorder::new();
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
    fn notes_of_a_kind_are_one_event_with_the_newest_message() {
        let mut recorder = Recorder::new();
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
        let mut recorder = Recorder::new();
        for n in 0..5000u64 {
            let write = recorder.record(note(&format!("pod-{n}"), "m"), Tick::from_secs(n));
            assert!(matches!(write, Some(EventWrite::Create(_))));
            assert!(recorder.said.len() <= REMEMBERED_MAX);
        }
    }

    #[test]
    fn a_message_is_cut_at_a_letter() {
        let long = "é".repeat(2000);
        let mut recorder = Recorder::new();
        let write = recorder.record(note("a", &long), Tick::from_secs(1));
        let Some(EventWrite::Create(event)) = write else { panic!("a new event: {write:?}") };
        assert_eq!(event.message.map(|m| m.len()), Some(1024));
    }
}
