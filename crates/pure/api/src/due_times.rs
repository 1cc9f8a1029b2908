//! What is due when.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rekindle_types::Tick;

/// Names, or keys, by the time at which each is due.
#[derive(Debug, Default)]
pub(crate) struct DueTimes {
    in_order: BTreeSet<(Tick, Arc<str>)>,
    /// The same, to look them up: a name is due once.
    by_name: BTreeMap<Arc<str>, Tick>,
}

impl DueTimes {
    /// It is due then, whatever was said before.
    pub(crate) fn set(&mut self, name: &str, due: Tick) {
        self.forget(name);
        let name: Arc<str> = name.into();
        self.in_order.insert((due, name.clone()));
        self.by_name.insert(name, due);
    }

    /// It is no longer due.
    pub(crate) fn forget(&mut self, name: &str) {
        if let Some((name, due)) = self.by_name.remove_entry(name) {
            self.in_order.remove(&(due, name));
        }
    }

    /// When the first one is due.
    pub(crate) fn next(&self) -> Option<Tick> {
        self.in_order.first().map(|(due, _)| *due)
    }

    /// The first one, if it is due by now.
    pub(crate) fn first_due(&self, now: Tick) -> Option<Arc<str>> {
        let (due, name) = self.in_order.first()?;
        (*due <= now).then(|| name.clone())
    }
}
