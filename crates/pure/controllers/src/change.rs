//! One change of the view: an object before and after.

use rekindle_types::held::HeldPod;

use crate::{ObjectId, ViewObject};

/// What changed. At least one of the two sides is there.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectChange {
    /// Which object.
    pub id: ObjectId,
    /// How it was; absent when it is new.
    pub before: Option<ViewObject>,
    /// How it is; absent when it is gone.
    pub after: Option<ViewObject>,
}

impl ObjectChange {
    /// The object as it is, or as it last was.
    pub fn latest(&self) -> &ViewObject {
        self.after
            .as_ref()
            .or(self.before.as_ref())
            .expect("a change has at least one side: View makes it from an object")
    }

    /// True when it is gone.
    pub fn is_removal(&self) -> bool {
        self.after.is_none()
    }

    /// A pod before and after, when it is there on both sides.
    pub(crate) fn of_pod(&self) -> Option<(&HeldPod, &HeldPod)> {
        match (self.before.as_ref()?, self.after.as_ref()?) {
            (ViewObject::Pod(before), ViewObject::Pod(after)) => Some((before, after)),
            _ => None,
        }
    }

    /// Both sides that are there.
    pub fn sides(&self) -> impl Iterator<Item = &ViewObject> {
        self.before.iter().chain(self.after.iter())
    }
}
