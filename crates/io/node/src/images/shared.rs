//! What pods and the keeper of a node's images share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rekindle_types::Tick;
use tokio::sync::{Notify, Semaphore, SemaphorePermit, oneshot};

/// Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub(crate) struct NodeImages {
    pulls: Arc<Semaphore>,
    uses: Arc<Mutex<BTreeMap<String, Tick>>>,
    pulled: Arc<Notify>,
    /// Who waits until unused images are removed.
    wanted: Arc<Mutex<Vec<oneshot::Sender<()>>>>,
}

impl NodeImages {
    /// With places for so many pulls at a time.
    pub(crate) fn new(parallel_pulls_max: usize) -> Self {
        let pulls = Arc::new(Semaphore::new(parallel_pulls_max.max(1)));
        Self { pulls, uses: Arc::default(), pulled: Arc::default(), wanted: Arc::default() }
    }

    /// Waits for a place, in the order of asking.
    pub(crate) async fn pull_place(&self) -> SemaphorePermit<'_> {
        self.pulls.acquire().await.expect("the semaphore is never closed")
    }

    /// A pod is about to make a container from the image.
    pub(crate) fn note_use(&self, image_id: &str, now: Tick) {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        uses.insert(image_id.to_owned(), now);
    }

    /// An image was pulled: the list of images is another one.
    pub(crate) fn note_pull(&self) {
        self.pulled.notify_one();
    }

    /// Has every image removed that nobody uses and that is old enough; returns when that is done,
    /// or nobody keeps images any more.
    pub(crate) async fn remove_unused(&self) {
        let (done, waits) = oneshot::channel();
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner).push(done);
        self.pulled.notify_one();
        // an error is as good: whoever was asked has gone
        let _done = waits.await;
    }

    /// Those who wait until unused images are removed; dropping them tells that it is done.
    pub(crate) fn take_wanted(&self) -> Vec<oneshot::Sender<()>> {
        std::mem::take(&mut *self.wanted.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Until an image was pulled, or all are to be removed, since the last call.
    pub(crate) async fn pulled(&self) {
        self.pulled.notified().await;
    }

    /// The uses noted since the last call.
    pub(crate) fn take_uses(&self) -> BTreeMap<String, Tick> {
        std::mem::take(&mut *self.uses.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
