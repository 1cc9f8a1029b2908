//! The events of a watch, encoded for its client.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use rekindle_kinds::registry::{KindEntry, KindOrigin};
use rekindle_store::{Revision, StoreError, StoreEvent, StoreWatch, StoredObject};
use rekindle_types::Tick;
use serde_json::Value;

use crate::admission_session::WebhookQuestion;
use crate::custom::VersionCodec;
use crate::protobuf;
use crate::represent::{BookmarkKind, ObjectRenderer};
use crate::request::{AnswerEncoding, Representation};
use crate::selectors::Selection;
use crate::shared::ApiShared;
use crate::status::ApiError;
use crate::watch_conversion::{ConvertedItem, WatchConversion, WatchItem};

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
    encoding: EventEncoding,
    /// What converts the objects, where a webhook does.
    conversion: Option<WatchConversion>,
    /// Where the definition of the kind is looked up, if it has one.
    definitions: Option<Arc<ApiShared>>,
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
    Live(StoreWatch),
    /// The trouble that is still to be told.
    Failed(ApiError),
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

/// What the conversion of a watch has next.
enum ConvertedLine {
    Line(Bytes),
    /// Something was done: look again.
    Again,
    /// Webhooks have to be asked.
    Waits,
    /// Nothing: what is next comes from elsewhere.
    None,
}

impl WatchView {
    pub(crate) fn is_everything(&self) -> bool {
        self.selection.is_everything()
    }

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
            encoding: EventEncoding::Json,
            conversion: None,
            definitions: None,
        }
    }

    /// Shows objects as the definition of their kind says, if it has one: converts them if
    /// webhooks do that, and ends when the definition changes, as upstream. To be called before the
    /// first event. Metadata alone is shown as it is stored.
    pub(crate) fn follow_definition(&mut self, api: &Arc<ApiShared>) {
        let is_whole = !matches!(self.shown.form, Representation::Metadata(..));
        match self.shown.entry.origin {
            KindOrigin::Definition if is_whole => self.definitions = Some(Arc::clone(api)),
            KindOrigin::Definition | KindOrigin::BuiltIn => return,
        }
        if VersionCodec::of_converted(&self.shown.entry).is_some() {
            self.conversion = Some(WatchConversion::new(Arc::clone(api)));
        }
    }

    /// Ends the watch if the definition of its kind says something else now. What the next events
    /// show may be in a version that the old one does not know. The client watches again, from the
    /// last revision that it has seen.
    fn end_if_outdated(&mut self) -> bool {
        let Some(api) = &self.definitions else { return false };
        if let Some(current) = api.custom.unchanged(api, &self.shown.entry) {
            self.shown.entry = current;
            return false;
        }
        self.end_with(WatchSource::Ended);
        true
    }

    /// Forgets what was not sent yet.
    fn end_with(&mut self, source: WatchSource) {
        self.initial.clear();
        self.end_mark = None;
        self.conversion = None;
        self.source = source;
    }

    /// What webhooks have to be asked before there is a next event: none, most of the time.
    pub fn questions(&self) -> Vec<WebhookQuestion> {
        self.conversion.as_ref().map_or_else(Vec::new, WatchConversion::questions)
    }

    /// Says what webhooks have answered to [`Self::questions`], in their order.
    pub fn answer(&mut self, answers: Vec<Result<Bytes, String>>) {
        if let Some(conversion) = &mut self.conversion {
            conversion.answer(answers);
        }
    }

    /// From now on each event is a frame of protobuf, if the kind has that form.
    pub(crate) fn write_protobuf(&mut self) {
        let entry = &self.shown.entry;
        let is_table = matches!(self.shown.form, Representation::Table(..));
        if !is_table && protobuf::message_of(&entry.api_version, &entry.kind).is_some() {
            self.encoding = EventEncoding::Protobuf;
        }
    }

    /// The media type of the events. That of JSON says nothing of a stream, as upstream's.
    pub fn content_type(&self) -> &'static str {
        match self.encoding {
            EventEncoding::Json => AnswerEncoding::JSON,
            EventEncoding::Protobuf => protobuf::WATCH_MEDIA_TYPE,
        }
    }

    /// Shows a state first: those of the objects that are selected, and, when given, a bookmark at
    /// its end.
    pub(crate) fn begin_with(
        &mut self,
        objects: Vec<Arc<StoredObject>>,
        end_mark: Option<Revision>,
    ) {
        // what is selected is decided by what clients see
        let is_converted = VersionCodec::of_converted(&self.shown.entry).is_some();
        let is_shown = |object: &Arc<StoredObject>| is_converted || self.shown.selects(object);
        self.initial = objects.into_iter().filter(is_shown).collect();
        self.end_mark = end_mark;
    }

    /// The next event that is there already. None: nothing now, or the end
    /// ([`EventStream::is_ended`]), or webhooks have to be asked first
    /// ([`EventStream::questions`]). `now` is for the ages in tables.
    pub fn try_next(&mut self, now: Tick) -> Option<Bytes> {
        let next = self.next_line(now, |watch| match watch.try_next() {
            Some(item) => Poll::Ready(Some(item)),
            None => Poll::Pending,
        });
        match next {
            Poll::Ready(line) => line,
            Poll::Pending => None,
        }
    }

    /// The next event; `None` at the end. It may be pending as webhooks have to be asked first
    /// ([`EventStream::questions`]).
    pub fn poll_next(&mut self, context: &mut Context<'_>, now: Tick) -> Poll<Option<Bytes>> {
        self.next_line(now, |watch| Pin::new(watch).poll_next(context))
    }

    fn next_line(
        &mut self,
        now: Tick,
        mut pull: impl FnMut(&mut StoreWatch) -> Poll<Option<Result<StoreEvent, StoreError>>>,
    ) -> Poll<Option<Bytes>> {
        loop {
            match self.next_converted(now) {
                ConvertedLine::Line(line) => return Poll::Ready(Some(line)),
                ConvertedLine::Again => continue,
                ConvertedLine::Waits => return Poll::Pending,
                ConvertedLine::None => {}
            }
            if let Some(line) = self.next_of_state(now) {
                return Poll::Ready(Some(line));
            }
            let item = match &mut self.source {
                WatchSource::Live(watch) => match pull(watch) {
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
            let event = match item {
                Ok(event) => event,
                Err(error) => {
                    self.source = WatchSource::Failed(error.into());
                    return Poll::Ready(self.last_words());
                }
            };
            if let (Some(conversion), WatchSource::Live(watch)) =
                (&mut self.conversion, &mut self.source)
            {
                conversion.gather(event, || pull(watch));
                continue;
            }
            if self.end_if_outdated() {
                return Poll::Ready(None);
            }
            if let Some(line) = self.line_of(event, now) {
                return Poll::Ready(Some(line));
            }
        }
    }

    /// The next line of what is converted, or the next step towards it.
    fn next_converted(&mut self, now: Tick) -> ConvertedLine {
        if self.conversion.as_ref().is_some_and(WatchConversion::is_gathered)
            && self.end_if_outdated()
        {
            return ConvertedLine::Again;
        }
        let Some(conversion) = &mut self.conversion else { return ConvertedLine::None };
        match conversion.next(&self.shown, (&mut self.initial, now)) {
            Ok(ConvertedItem::Of(WatchItem::State(object))) => match self.shown.selects(&object) {
                true => ConvertedLine::Line(self.state_line(&object, now)),
                false => ConvertedLine::Again,
            },
            Ok(ConvertedItem::Of(WatchItem::Event(event))) => match self.line_of(event, now) {
                Some(line) => ConvertedLine::Line(line),
                None => ConvertedLine::Again,
            },
            Ok(ConvertedItem::Again) => ConvertedLine::Again,
            Ok(ConvertedItem::Waits) => ConvertedLine::Waits,
            Ok(ConvertedItem::None) => ConvertedLine::None,
            Err(error) => {
                self.end_with(WatchSource::Failed(error));
                ConvertedLine::Again
            }
        }
    }

    /// Whether nothing will come any more.
    pub fn is_ended(&self) -> bool {
        match &self.source {
            WatchSource::Live(watch) => watch.is_ended() && !self.has_unsent(),
            WatchSource::Failed(_) => false,
            WatchSource::Ended => true,
        }
    }

    /// A bookmark, if the client wants bookmarks and something has happened since the last one. To
    /// be called now and then, and before the watch is ended, when there is no event to send.
    pub fn bookmark(&mut self) -> Option<Bytes> {
        let WatchSource::Live(watch) = &self.source else { return None };
        if !self.wants_bookmarks || self.has_unsent() {
            return None;
        }
        let progress = watch.progress();
        if progress <= self.bookmarked {
            return None;
        }
        self.bookmarked = progress;
        Some(self.bookmark_line(progress, BookmarkKind::Progress))
    }

    /// Whether something of the state, or that was taken from the store, is still to be sent.
    fn has_unsent(&self) -> bool {
        let converting = self.conversion.as_ref().is_some_and(|one| !one.is_empty());
        converting || !self.initial.is_empty() || self.end_mark.is_some()
    }

    fn renderer(&self, now: Tick) -> ObjectRenderer<'_> {
        ObjectRenderer { entry: &self.shown.entry, form: self.shown.form, now }
    }

    fn bookmark_line(&self, revision: Revision, kind: BookmarkKind) -> Bytes {
        self.line(EventType::Bookmark, &self.renderer(Tick::ZERO).bookmark(revision, kind))
    }

    fn next_of_state(&mut self, now: Tick) -> Option<Bytes> {
        if let Some(object) = self.initial.pop_front() {
            return Some(self.state_line(&object, now));
        }
        let revision = self.end_mark.take()?;
        self.bookmarked = revision;
        Some(self.bookmark_line(revision, BookmarkKind::InitialEventsEnd))
    }

    fn state_line(&mut self, object: &StoredObject, now: Tick) -> Bytes {
        let line = self.render(EventType::Added, &object.value, now);
        self.sent_columns = true;
        line
    }

    /// The line for a change; none when it does not concern this watch.
    fn line_of(&mut self, event: StoreEvent, now: Tick) -> Option<Bytes> {
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
            EventEncoding::Json => json_line(kind, object),
            EventEncoding::Protobuf => protobuf_frame(kind, object),
        }
    }

    /// Tells the trouble once, then it is over.
    fn last_words(&mut self) -> Option<Bytes> {
        match std::mem::replace(&mut self.source, WatchSource::Ended) {
            WatchSource::Failed(error) => {
                Some(self.line(EventType::Error, &error.status().to_json()))
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

/// How the events of a watch are written. YAML has no streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventEncoding {
    /// A line of JSON each.
    Json,
    /// A frame of Kubernetes' protobuf each.
    Protobuf,
}

/// How many lines are kept for other watchers of the same change.
const LINES_KEPT: usize = 32;

/// The lines of the latest changes: a change is encoded once and its bytes shared by all watchers.
#[derive(Clone, Default)]
pub(crate) struct EncodedEvents {
    latest: Arc<Mutex<VecDeque<EncodedEvent>>>,
}

struct EncodedEvent {
    event: (Revision, EventType, EventEncoding),
    line: Bytes,
}

impl EncodedEvents {
    fn get_or(
        &self,
        event: (Revision, EventType, EventEncoding),
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
