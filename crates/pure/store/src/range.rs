//! Range reads: a page of the objects below a prefix, at one revision.

use std::sync::Arc;

use crate::key::{ObjectKey, Revision};
use crate::object::StoredObject;
use crate::terms::TermFilter;

/// What to read. `RangeQuery { prefix: "/pods/".into(), ..Default::default() }` reads everything
/// below `/pods/` at the newest revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeQuery {
    /// Keys that begin with this; empty is every key.
    pub prefix: String,
    /// Only keys after this one: the last key of the page before.
    pub start_after: Option<ObjectKey>,
    /// Only objects that may have these terms. Others can be among them, too: a reader still has
    /// to look.
    pub terms: TermFilter,
    /// The most objects to return; none is no limit.
    pub limit: Option<usize>,
    /// The revision to read at; none is the newest.
    pub at: Option<Revision>,
}

/// A page of objects, in the order of their keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangePage {
    /// The objects.
    pub objects: Vec<Arc<StoredObject>>,
    /// The revision at which they were read: watch from it to miss nothing.
    pub revision: Revision,
    /// How many more there are behind the limit, whatever their terms.
    pub remaining: usize,
}
