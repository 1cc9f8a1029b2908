//! What has been said, and how often: bounded, and pure.

use std::collections::{BTreeMap, VecDeque};

use k8s_openapi::api::core::v1::ObjectReference;
use rekindle_types::event_bucket::EventBucket;
use rekindle_types::name_stem::name_stem;
use rekindle_types::{EventSeverity, Tick};

use super::EventOccurrence;

/// Different events that are counted; the oldest are forgotten and would be new objects.
pub(super) const RECORDS_MAX: usize = 2048;
/// Different messages of one reason before they are combined.
const SIMILAR_MAX: usize = 10;

/// Bytes of a pod's name in the name of an event: the rest is a serial number, and a name has at
/// most 253.
const STEM_BYTES_MAX: usize = 220;

/// What makes two events the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EventKey {
    pub(super) group: GroupKey,
    pub(super) message: String,
}

/// What makes two events similar.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupKey {
    pub(super) uid: String,
    pub(super) field_path: String,
    pub(super) warning: bool,
    pub(super) reason: String,
}

/// One Event object.
#[derive(Clone, Debug)]
pub(super) struct EventRecord {
    pub(super) about: ObjectReference,
    pub(super) severity: EventSeverity,
    pub(super) message: String,
    pub(super) name: String,
    pub(super) first: Tick,
    pub(super) last: Tick,
    pub(super) count: i32,
    pub(super) stored: EventStorage,
    pub(super) writing: EventWriteState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventStorage {
    Nowhere,
    InApi,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventWriteState {
    Idle,
    InFlight,
    /// It changed while a write was in flight.
    Again,
}

/// All that is counted: bounded, and pure.
#[derive(Debug, Default)]
pub(super) struct EventRecords {
    pub(super) records: BTreeMap<EventKey, EventRecord>,
    pub(super) order: VecDeque<EventKey>,
    pub(super) buckets: BTreeMap<String, EventBucket>,
    pub(super) names: u64,
}

impl EventRecords {
    /// Counts an occurrence; answers which object to write, if any is to be written.
    pub(super) fn count(&mut self, occurrence: EventOccurrence) -> Option<EventKey> {
        let EventOccurrence { about, severity, reason, message, at } = occurrence;
        if !self.allow(about.uid.as_deref().unwrap_or_default(), at) {
            return None;
        }
        let group = GroupKey {
            uid: about.uid.clone().unwrap_or_default(),
            field_path: about.field_path.clone().unwrap_or_default(),
            warning: matches!(severity, EventSeverity::Warning),
            reason,
        };
        let key = self.key_of(group, message.clone());
        let message = if key.message == message {
            message
        } else {
            format!("(combined from similar events): {message}")
        };
        if let Some(record) = self.records.get_mut(&key) {
            record.count = record.count.saturating_add(1);
            record.last = at;
            record.message = message;
        } else {
            self.names += 1;
            let pod = about.name.clone().unwrap_or_default();
            let stem = name_stem(&pod, STEM_BYTES_MAX);
            let name = format!("{stem}.{:x}", at.as_micros() * 1000 + self.names % 1000);
            let (stored, writing) = (EventStorage::Nowhere, EventWriteState::Idle);
            let record = EventRecord {
                about,
                severity,
                message,
                name,
                first: at,
                last: at,
                count: 1,
                stored,
                writing,
            };
            self.order.push_back(key.clone());
            self.records.insert(key.clone(), record);
            self.forget_oldest();
        }
        Some(key)
    }

    /// The key of this message, or that of the combined event once there are too many.
    pub(super) fn key_of(&self, group: GroupKey, message: String) -> EventKey {
        let exact = EventKey { group: group.clone(), message };
        if self.records.contains_key(&exact) {
            return exact;
        }
        let from = EventKey { group: group.clone(), message: String::new() };
        let similar = self.records.range(from..).take_while(|(key, _)| key.group == group).count();
        if similar < SIMILAR_MAX { exact } else { EventKey { group, message: String::new() } }
    }

    pub(super) fn allow(&mut self, uid: &str, at: Tick) -> bool {
        if self.buckets.len() >= RECORDS_MAX && !self.buckets.contains_key(uid) {
            // those that have been silent long enough are as good as new ones
            self.buckets.retain(|_, bucket| !bucket.is_full(at));
        }
        self.buckets.entry(uid.to_owned()).or_insert(EventBucket::full(at)).take(at)
    }

    pub(super) fn forget_oldest(&mut self) {
        while self.records.len() > RECORDS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.records.remove(&oldest);
        }
    }
}
