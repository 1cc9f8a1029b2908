//! The events of a watch, encoded for its client.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use rekindle_store::{Revision, StoreError, StoreEvent, StoredObject};
use rekindle_types::Tick;
use serde_json::Value;

use crate::protobuf;
use crate::registry::KindEntry;
use crate::represent::{BookmarkKind, ObjectRenderer};
use crate::request::{AnswerEncoding, Representation};
use crate::selectors::Selection;
use crate::status::ApiError;

/// The events of one watch, each as a line of JSON, or as a frame of protobuf.
pub struct EventStream {
    shown: WatchView,
    source: WatchSource,
    /// The state at the start, still to be sent.
    initial: VecDeque<Arc<StoredObject>>,
    /// The revision of that state, when its end is to be marked.
    end_mark: Option<Revision>,
    wants_bookmarks: bool,
    /// Whether the columns of a table were sent.
    sent_columns: bool,
    /// How far the client knows the watch to be.
    bookmarked: Revision,
    encoded: EncodedEvents,
    encoding: AnswerEncoding,
}

/// What a watch shows, and how.
pub(crate) struct WatchView {
    pub(crate) entry: Arc<KindEntry>,
    pub(crate) form: Representation,
    pub(crate) selection: Selection,
}

/// Where the events come from.
pub(crate) enum WatchSource {
    /// The store.
    Live(rekindle_store::StoreWatch),
    /// The trouble that is still to be told.
    Failed(StoreError),
    /// It is over.
    Ended,
}

/// What an event says of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventType {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

impl EventType {
    const fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Bookmark => "BOOKMARK",
            Self::Error => "ERROR",
        }
    }
}

impl WatchView {
    fn selects(&self, object: &StoredObject) -> bool {
        self.selection.selects(&self.entry, object)
    }
}

impl EventStream {
    /// What comes after a revision.
    pub(crate) fn new(
        shown: WatchView,
        source: WatchSource,
        wants_bookmarks: bool,
        after: Revision,
        encoded: EncodedEvents,
    ) -> Self {
        let (initial, end_mark) = (VecDeque::new(), None);
        Self {
            shown,
            source,
            initial,
            end_mark,
            wants_bookmarks,
            sent_columns: false,
            bookmarked: after,
            encoded,
            encoding: AnswerEncoding::Json,
        }
    }

    /// From now on each event is a frame of protobuf, if the kind has that form.
    pub(crate) fn write_protobuf(&mut self) {
        let entry = &self.shown.entry;
        let is_table = matches!(self.shown.form, Representation::Table(_));
        if !is_table && protobuf::message_of(&entry.api_version, &entry.kind).is_some() {
            self.encoding = AnswerEncoding::Protobuf;
        }
    }

    /// The media type of the events.
    pub fn content_type(&self) -> &'static str {
        match self.encoding {
            AnswerEncoding::Json => "application/json;stream=watch",
            AnswerEncoding::Protobuf => protobuf::WATCH_MEDIA_TYPE,
        }
    }

    /// Shows a state first: those of the objects that are selected, and, when given, a bookmark at
    /// its end.
    pub(crate) fn begin_with(
        &mut self,
        objects: Vec<Arc<StoredObject>>,
        end_mark: Option<Revision>,
    ) {
        let selected = objects.into_iter().filter(|object| self.shown.selects(object));
        self.initial = selected.collect();
        self.end_mark = end_mark;
    }

    /// The next event that is there already. None: nothing now, or the end
    /// ([`EventStream::is_ended`]). `now` is for the ages in tables.
    pub fn try_next(&mut self, now: Tick) -> Option<Bytes> {
        loop {
            if let Some(line) = self.next_of_state(now) {
                return Some(line);
            }
            let item = match &mut self.source {
                WatchSource::Live(watch) => watch.try_next()?,
                WatchSource::Failed(_) | WatchSource::Ended => return self.last_words(),
            };
            if let Some(line) = self.line_of(item, now) {
                return Some(line);
            }
        }
    }

    /// The next event; `None` at the end.
    pub fn poll_next(&mut self, context: &mut Context<'_>, now: Tick) -> Poll<Option<Bytes>> {
        loop {
            if let Some(line) = self.next_of_state(now) {
                return Poll::Ready(Some(line));
            }
            let item = match &mut self.source {
                WatchSource::Live(watch) => match Pin::new(watch).poll_next(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(item) => item,
                },
                WatchSource::Failed(_) | WatchSource::Ended => {
                    return Poll::Ready(self.last_words());
                }
            };
            let Some(item) = item else {
                self.source = WatchSource::Ended;
                return Poll::Ready(None);
            };
            if let Some(line) = self.line_of(item, now) {
                return Poll::Ready(Some(line));
            }
        }
    }

    /// Whether nothing will come any more.
    pub fn is_ended(&self) -> bool {
        match &self.source {
            WatchSource::Live(watch) => {
                watch.is_ended() && self.initial.is_empty() && self.end_mark.is_none()
            }
            WatchSource::Failed(_) => false,
            WatchSource::Ended => true,
        }
    }

    /// A bookmark, if the client wants bookmarks and something has happened since the last one. To
    /// be called now and then, and before the watch is ended, when there is no event to send.
    pub fn bookmark(&mut self) -> Option<Bytes> {
        let WatchSource::Live(watch) = &self.source else { return None };
        let unsent = !self.initial.is_empty() || self.end_mark.is_some();
        if !self.wants_bookmarks || unsent {
            return None;
        }
        let progress = watch.progress();
        if progress <= self.bookmarked {
            return None;
        }
        self.bookmarked = progress;
        Some(self.bookmark_line(progress, BookmarkKind::Progress))
    }

    fn renderer(&self, now: Tick) -> ObjectRenderer<'_> {
        ObjectRenderer { entry: &self.shown.entry, form: self.shown.form, now }
    }

    fn bookmark_line(&self, revision: Revision, kind: BookmarkKind) -> Bytes {
        self.line(EventType::Bookmark, &self.renderer(Tick::ZERO).bookmark(revision, kind))
    }

    fn next_of_state(&mut self, now: Tick) -> Option<Bytes> {
        if let Some(object) = self.initial.pop_front() {
            let line = self.render(EventType::Added, &object.value, now);
            self.sent_columns = true;
            return Some(line);
        }
        let revision = self.end_mark.take()?;
        self.bookmarked = revision;
        Some(self.bookmark_line(revision, BookmarkKind::InitialEventsEnd))
    }

    /// The line for a change; none when it does not concern this watch.
    fn line_of(&mut self, item: Result<StoreEvent, StoreError>, now: Tick) -> Option<Bytes> {
        let event = match item {
            Ok(event) => event,
            Err(error) => {
                self.source = WatchSource::Failed(error);
                return self.last_words();
            }
        };
        let selects = |object: &Arc<StoredObject>| self.shown.selects(object);
        let was = event.previous().is_some_and(selects);
        let revision = event.revision();
        let line = match &event {
            StoreEvent::Put { object, .. } => match (was, selects(object)) {
                (false, false) => None,
                (false, true) => {
                    Some(self.object_line(EventType::Added, revision, &object.value, now))
                }
                (true, true) => {
                    Some(self.object_line(EventType::Modified, revision, &object.value, now))
                }
                // It fell out of the selection: the client knows it as it was.
                (true, false) => {
                    event.previous().map(|previous| self.deleted_line(revision, previous, now))
                }
            },
            StoreEvent::Delete { previous, .. } => {
                was.then(|| self.deleted_line(revision, previous, now))
            }
        };
        if line.is_some() {
            self.sent_columns = true;
            // The event says as much as a bookmark would.
            self.bookmarked = revision;
        }
        line
    }

    fn deleted_line(&self, revision: Revision, previous: &StoredObject, now: Tick) -> Bytes {
        let encode = || {
            let json = with_revision(&previous.value, revision);
            self.render(EventType::Deleted, &json, now)
        };
        match self.is_line_shared() {
            true => self.shared_line(revision, EventType::Deleted, encode),
            false => encode(),
        }
    }

    fn object_line(&self, kind: EventType, revision: Revision, json: &Bytes, now: Tick) -> Bytes {
        match self.is_line_shared() {
            true => self.shared_line(revision, kind, || self.render(kind, json, now)),
            false => self.render(kind, json, now),
        }
    }

    /// Whether every watcher of a change as objects gets the same line: not where versions differ.
    fn is_line_shared(&self) -> bool {
        let entry = &self.shown.entry;
        self.shown.form == Representation::Objects && entry.shows_stored_text()
    }

    fn render(&self, kind: EventType, json: &Bytes, now: Tick) -> Bytes {
        let renderer = self.renderer(now);
        let rendered =
            if self.sent_columns { renderer.later_object(json) } else { renderer.object(json) };
        match rendered {
            Ok(body) => self.line(kind, &body),
            Err(error) => self.line(EventType::Error, &error.status().to_json()),
        }
    }

    /// The line of an event that other watchers may have as well.
    fn shared_line(
        &self,
        revision: Revision,
        kind: EventType,
        encode: impl FnOnce() -> Bytes,
    ) -> Bytes {
        self.encoded.get_or((revision, kind, self.encoding), encode)
    }

    /// An event as it is sent.
    fn line(&self, kind: EventType, object: &[u8]) -> Bytes {
        match self.encoding {
            AnswerEncoding::Json => json_line(kind, object),
            AnswerEncoding::Protobuf => protobuf_frame(kind, object),
        }
    }

    /// Tells the trouble once, then it is over.
    fn last_words(&mut self) -> Option<Bytes> {
        match std::mem::replace(&mut self.source, WatchSource::Ended) {
            WatchSource::Failed(error) => {
                Some(self.line(EventType::Error, &ApiError::from(error).status().to_json()))
            }
            WatchSource::Live(_) | WatchSource::Ended => None,
        }
    }
}

fn json_line(kind: EventType, object: &[u8]) -> Bytes {
    let head = format!("{{\"type\":\"{}\",\"object\":", kind.name());
    [head.as_bytes(), object, b"}\n"].concat().into()
}

fn protobuf_frame(kind: EventType, object: &[u8]) -> Bytes {
    let frame = protobuf::watch_event(kind.name(), object).or_else(|why| {
        let status = ApiError::internal(why);
        protobuf::watch_event(EventType::Error.name(), &status.status().to_json())
    });
    // a Status can always be written: a test does so
    frame.unwrap_or_default().into()
}

/// The object with the revision of its deletion, as upstream shows it.
fn with_revision(json: &Bytes, revision: Revision) -> Bytes {
    let Ok(mut value) = serde_json::from_slice::<Value>(json) else { return json.clone() };
    value["metadata"]["resourceVersion"] = Value::String(revision.to_string());
    value.to_string().into()
}

/// How many lines are kept for other watchers of the same change.
const LINES_KEPT: usize = 32;

/// The lines of the latest changes: a change is encoded once and its bytes shared by all watchers.
#[derive(Clone, Default)]
pub(crate) struct EncodedEvents {
    latest: Arc<Mutex<VecDeque<EncodedEvent>>>,
}

struct EncodedEvent {
    event: (Revision, EventType, AnswerEncoding),
    line: Bytes,
}

impl EncodedEvents {
    fn get_or(
        &self,
        event: (Revision, EventType, AnswerEncoding),
        encode: impl FnOnce() -> Bytes,
    ) -> Bytes {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = latest.iter().find(|known| known.event == event) {
            return known.line.clone();
        }
        let line = encode();
        if latest.len() >= LINES_KEPT {
            latest.pop_front();
        }
        latest.push_back(EncodedEvent { event, line: line.clone() });
        line
    }
}
