//! Who may write to a namespace while its quotas are counted.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Namespaces share a lock by their names: enough of them that two busy ones seldom do.
const LOCKS: usize = 64;

/// A lock for each namespace. It is held from the look at the quotas until the write is queued.
pub(crate) struct NamespaceLocks([RwLock<()>; LOCKS]);

/// A lock as it is held.
pub(super) enum NamespaceGuard<'a> {
    /// By a write that no quota covers, beside others of them.
    Shared { _held: RwLockReadGuard<'a, ()> },
    /// By a write that changes a quota.
    Alone { _held: RwLockWriteGuard<'a, ()> },
}

impl Default for NamespaceLocks {
    fn default() -> Self {
        Self(std::array::from_fn(|_| RwLock::default()))
    }
}

impl NamespaceLocks {
    pub(super) fn shared(&self, namespace: &str) -> NamespaceGuard<'_> {
        // nothing is kept behind it that could be half done
        let held = self.of(namespace).read().unwrap_or_else(PoisonError::into_inner);
        NamespaceGuard::Shared { _held: held }
    }

    pub(super) fn alone(&self, namespace: &str) -> NamespaceGuard<'_> {
        let held = self.of(namespace).write().unwrap_or_else(PoisonError::into_inner);
        NamespaceGuard::Alone { _held: held }
    }

    fn of(&self, namespace: &str) -> &RwLock<()> {
        let fold = |sum: usize, byte: u8| sum.wrapping_mul(31).wrapping_add(usize::from(byte));
        &self.0[namespace.bytes().fold(0, fold) % LOCKS]
    }
}
