//! What was made of a version of a stored object, and is kept with it.

use std::sync::Arc;

use rekindle_store::StoredObject;

/// What was made of an object. It counts only for the very text that it was made of: the store may
/// have given a revision again after a write that failed.
pub(crate) struct MadeOf<T> {
    stored: Arc<StoredObject>,
    made: Arc<T>,
}

impl<T> MadeOf<T> {
    pub(crate) fn new(stored: &Arc<StoredObject>, made: &Arc<T>) -> Self {
        Self { stored: Arc::clone(stored), made: Arc::clone(made) }
    }

    /// What was made, if it was made of this version.
    pub(crate) fn of_version(&self, stored: &Arc<StoredObject>) -> Option<Arc<T>> {
        let known = &self.stored;
        let is_same = Arc::ptr_eq(known, stored)
            || known.revision == stored.revision && known.value == stored.value;
        is_same.then(|| Arc::clone(&self.made))
    }
}
