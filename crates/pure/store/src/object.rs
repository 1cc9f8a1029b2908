//! What the store holds and what it tells watchers.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::key::{Key, Revision};

/// One version of an object. The store does not look into the value.
#[derive(Clone, PartialEq, Eq)]
pub struct Object {
    /// Its key.
    pub key: Key,
    /// The revision of the write that made this version.
    pub revision: Revision,
    /// The encoded object, shared by all readers and watchers.
    pub value: Bytes,
}

impl fmt::Debug for Object {
    /// Without the value, which may be a Secret and must not reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object")
            .field("key", &self.key)
            .field("revision", &self.revision)
            .field("value_bytes", &self.value.len())
            .finish()
    }
}

/// One change: each write of the store is exactly one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An object was created or replaced.
    Put {
        /// The new version.
        object: Arc<Object>,
        /// The version that it replaced; none when the object was created.
        previous: Option<Arc<Object>>,
    },
    /// An object was deleted.
    Delete {
        /// The revision of the deletion (the last version has an older one).
        revision: Revision,
        /// The last version.
        previous: Arc<Object>,
    },
}

impl Event {
    /// The revision of the write that this event tells of.
    pub fn revision(&self) -> Revision {
        match self {
            Self::Put { object, .. } => object.revision,
            Self::Delete { revision, .. } => *revision,
        }
    }

    /// The key that changed.
    pub fn key(&self) -> &Key {
        match self {
            Self::Put { object, .. } => &object.key,
            Self::Delete { previous, .. } => &previous.key,
        }
    }

    /// The version before the change; none when the object was created.
    pub fn previous(&self) -> Option<&Arc<Object>> {
        match self {
            Self::Put { previous, .. } => previous.as_ref(),
            Self::Delete { previous, .. } => Some(previous),
        }
    }
}

/// The state of a key after some write.
#[derive(Clone, Debug)]
pub(crate) enum Version {
    Live(Arc<Object>),
    Deleted(Revision),
}

impl Version {
    pub(crate) fn revision(&self) -> Revision {
        match self {
            Self::Live(object) => object.revision,
            Self::Deleted(revision) => *revision,
        }
    }

    pub(crate) fn live(&self) -> Option<&Arc<Object>> {
        match self {
            Self::Live(object) => Some(object),
            Self::Deleted(_) => None,
        }
    }
}
