//! A watch whose objects a webhook converts: its state and its changes wait in order until the
//! webhook has answered. See [`crate::custom`].
//!
//! ```text
//!   state, changes --> waiting --> questions --> the front asks --> answers --> ready --> lines
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use rekindle_store::{StoreError, StoreEvent, StoredObject};
use rekindle_types::Tick;

use crate::admission_session::{AdmissionSession, WebhookQuestion};
use crate::custom::ObjectConversion;
use crate::event_stream::WatchView;
use crate::shared::ApiShared;
use crate::status::ApiError;

/// How many objects of the state, or changes, are converted together at most.
const ITEMS_MAX: usize = 250;
/// The size of their texts from which on no further one is taken.
const ITEMS_BYTES_MAX: usize = 2 << 20;

/// What a watch shows.
#[derive(Clone)]
pub(crate) enum WatchItem {
    /// An object of the state at its start.
    State(Arc<StoredObject>),
    /// A change.
    Event(StoreEvent),
}

/// What is to be converted together, in order.
#[derive(Default)]
struct WaitingItems {
    items: Vec<WatchItem>,
    bytes: usize,
}

impl WaitingItems {
    fn push(&mut self, item: WatchItem) {
        self.bytes += match &item {
            WatchItem::State(object) => object.value.len(),
            WatchItem::Event(StoreEvent::Put { object, previous }) => {
                object.value.len() + previous.as_ref().map_or(0, |previous| previous.value.len())
            }
            WatchItem::Event(StoreEvent::Delete { previous, .. }) => previous.value.len(),
        };
        self.items.push(item);
    }

    fn is_full(&self) -> bool {
        self.items.len() >= ITEMS_MAX || self.bytes >= ITEMS_BYTES_MAX
    }
}

/// What a conversion has next.
pub(crate) enum ConvertedItem {
    /// This.
    Of(WatchItem),
    /// Something was done: look again.
    Again,
    /// Webhooks have to be asked.
    Waits,
    /// Nothing.
    None,
}

/// Converts what a watch shows.
pub(crate) struct WatchConversion {
    api: Arc<ApiShared>,
    session: AdmissionSession,
    waiting: WaitingItems,
    ready: VecDeque<WatchItem>,
    /// What the source has said after the last change that waits.
    trouble: Option<StoreError>,
}

impl WatchConversion {
    pub(crate) fn new(api: Arc<ApiShared>) -> Self {
        Self {
            api,
            session: AdmissionSession::default(),
            waiting: WaitingItems::default(),
            ready: VecDeque::new(),
            trouble: None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.items.is_empty() && self.ready.is_empty() && self.trouble.is_none()
    }

    /// Whether the next step reads or converts objects.
    pub(crate) fn is_gathered(&self) -> bool {
        !self.waiting.items.is_empty() && self.ready.is_empty()
    }

    pub(crate) fn questions(&self) -> Vec<WebhookQuestion> {
        self.session.questions()
    }

    pub(crate) fn answer(&mut self, answers: Vec<Result<Bytes, String>>) {
        self.session.answer(answers);
    }

    /// Takes a change, and those after it that are there already.
    pub(crate) fn gather(
        &mut self,
        event: StoreEvent,
        mut pull: impl FnMut() -> Poll<Option<Result<StoreEvent, StoreError>>>,
    ) {
        self.waiting.push(WatchItem::Event(event));
        while !self.waiting.is_full() {
            match pull() {
                Poll::Ready(Some(Ok(event))) => self.waiting.push(WatchItem::Event(event)),
                Poll::Ready(Some(Err(error))) => {
                    self.trouble = Some(error);
                    return;
                }
                // its end is found again
                Poll::Ready(None) | Poll::Pending => return,
            }
        }
    }

    /// The next item as clients see it. The state comes first.
    ///
    /// # Errors
    /// Why something cannot be converted, or read from the store: the watch is over.
    pub(crate) fn next(
        &mut self,
        view: &WatchView,
        (state, now): (&mut VecDeque<Arc<StoredObject>>, Tick),
    ) -> Result<ConvertedItem, ApiError> {
        if let Some(item) = self.ready.pop_front() {
            return Ok(ConvertedItem::Of(item));
        }
        if !self.session.questions().is_empty() {
            return Ok(ConvertedItem::Waits);
        }
        if self.waiting.items.is_empty() {
            if let Some(error) = self.trouble.take() {
                return Err(error.into());
            }
            while !self.waiting.is_full()
                && let Some(object) = state.pop_front()
            {
                self.waiting.push(WatchItem::State(object));
            }
        }
        if self.waiting.items.is_empty() {
            return Ok(ConvertedItem::None);
        }
        match self.convert(view, now) {
            Ok(converted) => {
                self.ready.extend(converted);
                self.waiting = WaitingItems::default();
                self.session = AdmissionSession::default();
                Ok(ConvertedItem::Again)
            }
            Err(_) if self.session.waits() => Ok(ConvertedItem::Waits),
            Err(error) => Err(error),
        }
    }

    /// What waits, as clients see it.
    fn convert(&self, view: &WatchView, now: Tick) -> Result<Vec<WatchItem>, ApiError> {
        let mut items = self.waiting.items.clone();
        let mut shown: Vec<&mut Arc<StoredObject>> = Vec::new();
        for item in &mut items {
            match item {
                WatchItem::State(object) => shown.push(object),
                WatchItem::Event(StoreEvent::Put { object, previous }) => {
                    shown.push(object);
                    // what it was matters only where something is selected
                    shown.extend(previous.as_mut().filter(|_| !view.is_everything()));
                }
                WatchItem::Event(StoreEvent::Delete { previous, .. }) => shown.push(previous),
            }
        }
        let conversion = ObjectConversion { api: &self.api, session: &self.session, now };
        let stored = shown.iter().map(|object| Arc::clone(object)).collect();
        let converted = conversion.objects(&view.entry, stored)?;
        for (object, converted) in shown.into_iter().zip(converted) {
            *object = converted;
        }
        Ok(items)
    }
}
