//! What is watched, and what watches show.

use rekindle_controllers::kind::Held;
use rekindle_controllers::{Kind, Object, ObjectId};

/// What a watch shows.
#[derive(Debug)]
pub enum Seen {
    /// All objects of a kind; what is not among them is gone.
    List(Kind, Vec<Object>),
    /// An object as it is now.
    Applied(Object),
    /// An object is gone.
    Deleted(ObjectId, String),
}

/// The kinds that are watched.
pub fn kinds() -> impl Iterator<Item = Kind> {
    Kind::ALL.into_iter().filter(|kind| match kind.info().held {
        Held::Whole | Held::Metadata => true,
        Held::Nothing => false,
    })
}
