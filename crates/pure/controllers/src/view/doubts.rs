//! Writes whose answer was lost: nobody knows whether they were done.
//!
//! The view then may be behind in a way that no watch has to make up for soon, and a plan made from
//! it could ask for twice as much. So the controller that planned the write asks the server about
//! the object before it plans anything else.

use std::collections::BTreeMap;

use crate::ObjectId;

/// What is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteDoubt {
    /// Whether the object was created.
    Created,
    /// Whether the object is as the view has it.
    Changed,
}

/// The objects in doubt, and for which objects they were written. Two controllers that wrote to the
/// same one, and heard of neither, both ask: what the one plans must not wait for the other to
/// look.
#[derive(Clone, Debug, Default)]
pub(super) struct DoubtfulWrites {
    by_object: BTreeMap<ObjectId, BTreeMap<ObjectId, WriteDoubt>>,
}

impl DoubtfulWrites {
    pub(super) fn add(&mut self, id: ObjectId, doubt: WriteDoubt, key_object: &ObjectId) {
        self.by_object.entry(id).or_default().insert(key_object.clone(), doubt);
    }

    /// A watch shows the object: it was created. Whether it shows the latest change is not known.
    pub(super) fn shown(&mut self, id: &ObjectId) {
        if let Some(doubts) = self.by_object.get_mut(id) {
            doubts.retain(|_, doubt| *doubt != WriteDoubt::Created);
            if doubts.is_empty() {
                self.by_object.remove(id);
            }
        }
    }

    /// The server has told how the object is.
    pub(super) fn resolved(&mut self, id: &ObjectId) {
        self.by_object.remove(id);
    }

    pub(super) fn of<'a>(
        &'a self,
        key_object: &'a ObjectId,
    ) -> impl Iterator<Item = (&'a ObjectId, WriteDoubt)> {
        self.by_object.iter().filter_map(move |(id, doubts)| Some((id, *doubts.get(key_object)?)))
    }
}
