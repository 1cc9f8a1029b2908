//! Forgetting by age, as kube-apiserver has etcd do it (`--etcd-compaction-interval`). The store
//! knows no clock: whoever has one makes a step each period.

use crate::key::Revision;
use crate::store::Store;

/// After each step the history of the last period stays, within
/// [`StoreLimits`](crate::StoreLimits).
#[derive(Debug)]
pub struct Compaction {
    store: Store,
    /// Where the store was at the step before.
    keep_after: Revision,
}

impl Compaction {
    /// Of this store. A first step forgets nothing: how old its history is nobody knows.
    pub fn new(store: Store) -> Self {
        let keep_after = store.oldest_revision();
        Self { store, keep_after }
    }

    /// A period is over: what was history at the step before is forgotten.
    pub fn step(&mut self) {
        self.store.compact(self.keep_after);
        self.keep_after = self.store.revision();
    }
}
