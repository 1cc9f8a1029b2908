//! What is watched, and what watches show.

use rekindle_controllers::kind::ViewDetail;
use rekindle_controllers::{ObjectId, ResourceKind, ViewObject};

/// What a watch shows.
#[derive(Debug)]
pub enum WatchUpdate {
    /// All objects of a kind; what is not among them is gone.
    List(ResourceKind, Vec<ViewObject>),
    /// An object as it is now.
    Applied(ViewObject),
    /// An object is gone.
    Deleted(ObjectId, String),
}

/// The kinds that are watched.
pub fn kinds() -> impl Iterator<Item = ResourceKind> {
    ResourceKind::ALL.into_iter().filter(|kind| match kind.info().held {
        ViewDetail::Whole | ViewDetail::Metadata => true,
        ViewDetail::Nothing => false,
    })
}
