//! Writes whose answer was lost: nobody knows whether they were done.
//!
//! The view then may be behind in a way that no watch has to make up for soon, and a plan made from it could ask for twice as
//! much. So the controller that planned the write asks the server about the object before it plans anything else.

use std::collections::BTreeMap;

use crate::ObjectId;

/// What is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Whether the object was created.
    Created,
    /// Whether the object is as the view has it.
    Changed,
}

/// The objects in doubt, and for which object they were written.
#[derive(Clone, Debug, Default)]
pub(super) struct Doubts {
    by_object: BTreeMap<ObjectId, (Doubt, ObjectId)>,
}

impl Doubts {
    pub(super) fn add(&mut self, id: ObjectId, doubt: Doubt, key_object: &ObjectId) {
        self.by_object.insert(id, (doubt, key_object.clone()));
    }

    /// A watch shows the object: it was created. Whether it shows the latest change is not known.
    pub(super) fn shown(&mut self, id: &ObjectId) {
        if let Some((Doubt::Created, _)) = self.by_object.get(id) {
            self.by_object.remove(id);
        }
    }

    /// The server has told how the object is.
    pub(super) fn resolved(&mut self, id: &ObjectId) {
        self.by_object.remove(id);
    }

    pub(super) fn of<'a>(
        &'a self,
        key_object: &'a ObjectId,
    ) -> impl Iterator<Item = (&'a ObjectId, Doubt)> {
        self.by_object
            .iter()
            .filter(move |(_, (_, of))| of == key_object)
            .map(|(id, (doubt, _))| (id, *doubt))
    }
}
