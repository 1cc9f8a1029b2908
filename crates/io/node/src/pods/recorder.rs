//! Events: repeats are counted in one object, and neither memory nor the API is flooded.
//!
//! - The same event again raises `count` and `lastTimestamp` of the object that stands.
//! - An object that speaks too often is cut: 25 at once, then one more every 5 minutes, as
//!   client-go does it.
//! - From the 11th different message of one reason on, they are one event, `(combined from similar
//!   events): …`.
//! - An event is written a moment after it happened: what a pod's status tells at the same time
//!   goes first.

mod records;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use rekindle_pod::PodEvent;
use rekindle_types::{EventSeverity, PodRef, Tick};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use self::records::{EventKey, EventRecord, EventRecords, EventStorage, EventWriteState};
use crate::clock::Clock;

/// Events that wait for the recorder; more are dropped, and said so in the log.
const QUEUE_MAX: usize = 1024;
/// Writes in flight.
const WRITES_MAX: usize = 8;
/// Failed writes of one event before it is given up.
const ATTEMPTS_MAX: u32 = 5;
/// How long an event waits. The store writes one batch after the other, and a status that is not in
/// the batch of the events before it waits for their fsync.
const HOLD_BACK: Duration = Duration::from_millis(20);
/// Who is said to report; the name that people and tools look for.
const COMPONENT: &str = "kubelet";

/// Records Events without waiting for the API. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct EventRecorder {
    queue: mpsc::Sender<EventOccurrence>,
    clock: Clock,
}

#[derive(Debug)]
struct EventOccurrence {
    about: ObjectReference,
    severity: EventSeverity,
    reason: String,
    message: String,
    at: Tick,
}

impl EventRecorder {
    /// Starts the task that writes what the agent of a node says; it ends with the last clone.
    pub(crate) fn start(client: Client, node: &str, clock: Clock) -> Self {
        let host = Some(node.to_owned());
        Self::start_for(client, EventSource { component: Some(COMPONENT.to_owned()), host }, clock)
    }

    /// The same for what another component says.
    pub(crate) fn start_for(client: Client, source: EventSource, clock: Clock) -> Self {
        let (queue, receiver) = mpsc::channel(QUEUE_MAX);
        let records = EventRecords::default();
        tokio::spawn(
            EventWriter {
                client,
                source,
                records,
                held: VecDeque::new(),
                writes: FuturesUnordered::new(),
            }
            .run(receiver),
        );
        Self { queue, clock }
    }

    /// Records an event of a pod.
    pub(crate) fn pod_event(&self, pod: &PodRef, event: PodEvent) {
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(pod.namespace.clone()),
            name: Some(pod.name.clone()),
            uid: Some(pod.uid.0.clone()),
            field_path: event.field_path,
            ..ObjectReference::default()
        };
        self.record(about, event.severity, event.reason, event.message);
    }

    /// Records an event of any object.
    pub(crate) fn record(
        &self,
        about: ObjectReference,
        severity: EventSeverity,
        reason: &str,
        message: String,
    ) {
        let at = self.clock.now();
        let occurrence =
            EventOccurrence { about, severity, reason: reason.to_owned(), message, at };
        if let Err(error) = self.queue.try_send(occurrence) {
            tracing::warn!(reason, %error, "dropped an event: the recorder is behind");
        }
    }
}

/// A Node object, for events about it; as upstream, its name stands for its UID.
pub(crate) fn node_reference(name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(name.to_owned()),
        uid: Some(name.to_owned()),
        ..ObjectReference::default()
    }
}

type Write = Pin<Box<dyn Future<Output = (EventKey, EventWriteResult)> + Send>>;

/// What became of writing one Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventWriteResult {
    Stored,
    GaveUp,
}

struct EventWriter {
    client: Client,
    source: EventSource,
    records: EventRecords,
    /// What happened lately, oldest first, and when it is written.
    held: VecDeque<(Instant, EventOccurrence)>,
    writes: FuturesUnordered<Write>,
}

impl EventWriter {
    async fn run(mut self, mut queue: mpsc::Receiver<EventOccurrence>) {
        loop {
            let due = self.held.front().map(|(due, _)| *due);
            tokio::select! {
                Some((key, wrote)) = self.writes.next(), if !self.writes.is_empty() => self.written(key, wrote),
                () = until(due), if due.is_some() && self.writes.len() < WRITES_MAX => self.write_first(),
                occurrence = queue.recv(), if self.held.len() < QUEUE_MAX => match occurrence {
                    Some(occurrence) => self.held.push_back((Instant::now() + HOLD_BACK, occurrence)),
                    None => break,
                },
            }
        }
        // the last words of a node that stops
        while !self.held.is_empty() {
            self.write_first();
        }
        while let Some((key, wrote)) = self.writes.next().await {
            self.written(key, wrote);
        }
    }

    /// Begins to write what has waited longest.
    fn write_first(&mut self) {
        let Some((_, occurrence)) = self.held.pop_front() else { return };
        if let Some(key) = self.records.count(occurrence) {
            self.write(key);
        }
    }

    fn write(&mut self, key: EventKey) {
        let Some(record) = self.records.records.get_mut(&key) else { return };
        match record.writing {
            EventWriteState::Idle => record.writing = EventWriteState::InFlight,
            EventWriteState::InFlight | EventWriteState::Again => {
                record.writing = EventWriteState::Again;
                return;
            }
        }
        let write = write_event(
            self.client.clone(),
            self.source.clone(),
            record.clone(),
            key.group.reason.clone(),
        );
        self.writes.push(Box::pin(async move { (key, write.await) }));
    }

    fn written(&mut self, key: EventKey, wrote: EventWriteResult) {
        let Some(record) = self.records.records.get_mut(&key) else { return };
        let again =
            std::mem::replace(&mut record.writing, EventWriteState::Idle) == EventWriteState::Again;
        record.stored = match wrote {
            EventWriteResult::Stored => EventStorage::InApi,
            EventWriteResult::GaveUp => EventStorage::Nowhere,
        };
        if again {
            self.write(key);
        }
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

async fn write_event(
    client: Client,
    source: EventSource,
    record: EventRecord,
    reason: String,
) -> EventWriteResult {
    // an event of an object without namespace lives in "default", as upstream
    let namespace = record.about.namespace.clone().unwrap_or_else(|| "default".to_owned());
    let api: Api<Event> = Api::namespaced(client, &namespace);
    let mut stored = record.stored;
    let mut wait = Duration::from_millis(100);
    for _ in 0..ATTEMPTS_MAX {
        let answer = match stored {
            EventStorage::Nowhere => {
                let event = new_event(&namespace, &source, &record, &reason);
                api.create(&PostParams::default(), &event).await.map(|_| ())
            }
            EventStorage::InApi => {
                let patch = json!({
                    "count": record.count,
                    "lastTimestamp": record.last.to_time(),
                    "message": record.message,
                });
                let params = PatchParams::default();
                api.patch(&record.name, &params, &Patch::Merge(patch)).await.map(|_| ())
            }
        };
        match answer {
            Ok(()) => return EventWriteResult::Stored,
            // it has expired: the next attempt makes a new one
            Err(kube::Error::Api(answer))
                if answer.code == 404 && stored == EventStorage::InApi =>
            {
                stored = EventStorage::Nowhere;
                continue;
            }
            // the namespace is gone or going: nobody will read it
            Err(kube::Error::Api(answer)) if matches!(answer.code, 403 | 404 | 409) => {
                tracing::debug!(event = record.name, error = %answer, "event not recorded");
                return EventWriteResult::GaveUp;
            }
            Err(error) => tracing::debug!(event = record.name, %error, "event not recorded yet"),
        }
        tokio::time::sleep(wait).await;
        wait *= 4;
    }
    tracing::warn!(event = record.name, "failed to record an event");
    EventWriteResult::GaveUp
}

fn new_event(namespace: &str, source: &EventSource, record: &EventRecord, reason: &str) -> Event {
    Event {
        metadata: ObjectMeta {
            name: Some(record.name.clone()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: record.about.clone(),
        reason: Some(reason.to_owned()),
        message: Some(record.message.clone()),
        type_: Some(record.severity.name().to_owned()),
        source: Some(source.clone()),
        reporting_component: source.component.clone(),
        reporting_instance: source.host.clone(),
        first_timestamp: Some(record.first.to_time()),
        last_timestamp: Some(record.last.to_time()),
        count: Some(record.count),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests;
