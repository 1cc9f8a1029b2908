//! Who may write to a namespace while its quotas are counted, and at which time that is counted.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rekindle_types::Tick;

/// Namespaces share a lock by their names: enough of them that two busy ones seldom do.
const LOCKS: usize = 64;

/// A lock for each namespace. It is held from the look at the quotas until the write is queued.
/// Each has the latest time at which something was counted under it. A request knows the time at
/// which it came, and it may wait here longer than a later one. Counted at its own time, a pod that
/// a later request found to be over would be given back a second time.
pub(crate) struct NamespaceLocks([RwLock<Tick>; LOCKS]);

/// A lock as it is held.
pub(super) enum NamespaceGuard<'a> {
    /// By a write of a kind that no quota counts, beside others of them.
    Shared { _held: RwLockReadGuard<'a, Tick> },
    /// By a write that changes a quota.
    Alone { _held: RwLockWriteGuard<'a, Tick> },
}

impl Default for NamespaceLocks {
    fn default() -> Self {
        Self(std::array::from_fn(|_| RwLock::new(Tick::ZERO)))
    }
}

impl NamespaceLocks {
    pub(super) fn shared(&self, namespace: &str) -> NamespaceGuard<'_> {
        // nothing is kept behind it that could be half done
        let held = self.of(namespace).read().unwrap_or_else(PoisonError::into_inner);
        NamespaceGuard::Shared { _held: held }
    }

    /// The lock for a request of this time, and the time at which it counts: this one, or the
    /// latest before it.
    pub(super) fn alone(&self, namespace: &str, now: Tick) -> (NamespaceGuard<'_>, Tick) {
        let mut held = self.of(namespace).write().unwrap_or_else(PoisonError::into_inner);
        let latest = now.max(*held);
        *held = latest;
        (NamespaceGuard::Alone { _held: held }, latest)
    }

    fn of(&self, namespace: &str) -> &RwLock<Tick> {
        let fold = |sum: usize, byte: u8| sum.wrapping_mul(31).wrapping_add(usize::from(byte));
        &self.0[namespace.bytes().fold(0, fold) % LOCKS]
    }
}
