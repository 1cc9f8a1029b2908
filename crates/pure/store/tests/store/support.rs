//! What the store's tests share.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use bytes::Bytes;
use futures_core::Stream;
use rekindle_store::{
    Mutation, PendingWrite, Revision, Store, StoreError, StoreEvent, StoreWatch, WritePrecondition,
};

/// Queues a put of this value.
pub(crate) fn put(
    store: &Store,
    key: &str,
    expect: WritePrecondition,
    value: impl Into<Bytes>,
) -> Result<PendingWrite, StoreError> {
    let value = value.into();
    store.write(key, expect, Mutation::Put(&|_| value.clone()))
}

/// Queues a deletion.
pub(crate) fn delete(
    store: &Store,
    key: &str,
    expect: WritePrecondition,
) -> Result<PendingWrite, StoreError> {
    store.write(key, expect, Mutation::Delete)
}

/// An event in short: `put /a 3 = value (was 1)`.
pub(crate) fn line(event: &StoreEvent) -> String {
    let key = event.key();
    let revision = event.revision();
    match event {
        StoreEvent::Put { object, previous } => {
            let value = String::from_utf8_lossy(&object.value);
            let was = previous.as_ref().map_or("new".into(), |o| format!("was {}", o.revision));
            format!("put {key} {revision} = {value} ({was})")
        }
        StoreEvent::Delete { previous, .. } => {
            format!("delete {key} {revision} (was {})", previous.revision)
        }
    }
}

/// Everything that is there now, in short; an error ends it.
pub(crate) fn drain(watch: &mut StoreWatch) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(item) = watch.try_next() {
        lines.push(item.as_ref().map_or_else(ToString::to_string, line));
    }
    lines
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread, asleep in between.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// The next event, waited for; none at the end.
pub(crate) fn next(watch: &mut StoreWatch) -> Option<Result<StoreEvent, StoreError>> {
    block_on(std::future::poll_fn(|context| Pin::new(&mut *watch).poll_next(context)))
}

/// The revision that a finished write got.
pub(crate) fn revision(pending: &PendingWrite) -> Revision {
    pending.try_get().expect("the write is finished").expect("the write succeeded").revision
}
