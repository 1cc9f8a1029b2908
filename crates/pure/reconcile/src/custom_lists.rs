//! The first lists of kinds that definitions describe. Such a kind may come at any time. Only what
//! depends on its objects waits for its first list: the collection of what they own, and every
//! deletion in the foreground or with orphaning, as an object may have dependents of any kind. So a
//! kind that cannot be listed holds up all such deletions.

use std::collections::BTreeSet;

use rekindle_controllers::{ClusterView, ResourceKind, depends_on_unlisted};

use crate::work::WorkItem;

/// Which of these kinds have been listed, and the work that waits for the others.
#[derive(Default)]
pub(crate) struct CustomLists {
    described: BTreeSet<ResourceKind>,
    unlisted: BTreeSet<ResourceKind>,
    waiting: BTreeSet<WorkItem>,
}

impl CustomLists {
    /// Definitions describe these kinds now. A kind that comes, or comes again, is to be listed.
    pub(crate) fn described(&mut self, kinds: BTreeSet<ResourceKind>) {
        self.unlisted.retain(|kind| kinds.contains(kind));
        self.unlisted.extend(kinds.difference(&self.described));
        self.described = kinds;
    }

    /// A kind was listed. True when it is one that was waited for.
    pub(crate) fn listed(&mut self, kind: ResourceKind) -> bool {
        self.unlisted.remove(&kind)
    }

    /// The kinds that are to be listed.
    pub(crate) fn unlisted(&self) -> impl Iterator<Item = ResourceKind> {
        self.unlisted.iter().copied()
    }

    /// This work, if it depends on no kind that is to be listed; otherwise it waits.
    pub(crate) fn ready(&mut self, view: &ClusterView, work: WorkItem) -> Option<WorkItem> {
        if is_early(view, &work) {
            self.waiting.insert(work);
            return None;
        }
        Some(work)
    }

    /// The work that waits no longer.
    pub(crate) fn take_ready(&mut self, view: &ClusterView) -> BTreeSet<WorkItem> {
        let waiting = std::mem::take(&mut self.waiting);
        let (early, ready) = waiting.into_iter().partition(|work| is_early(view, work));
        self.waiting = early;
        ready
    }
}

fn is_early(view: &ClusterView, work: &WorkItem) -> bool {
    let WorkItem::Controller(key) = work else { return false };
    depends_on_unlisted(view, key)
}
