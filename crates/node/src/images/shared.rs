//! What pods and the keeper of a node's images share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rekindle_types::Tick;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub(crate) struct NodeImages {
    pulls: Arc<Semaphore>,
    uses: Arc<Mutex<BTreeMap<String, Tick>>>,
}

impl NodeImages {
    /// With places for so many pulls at a time.
    pub(crate) fn new(parallel_pulls_max: usize) -> Self {
        Self { pulls: Arc::new(Semaphore::new(parallel_pulls_max.max(1))), uses: Arc::default() }
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

    /// The uses noted since the last call.
    pub(crate) fn take_uses(&self) -> BTreeMap<String, Tick> {
        std::mem::take(&mut *self.uses.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
