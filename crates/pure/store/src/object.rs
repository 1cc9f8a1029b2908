//! What the store holds and what it tells watchers.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::key::{ObjectKey, Revision};
use crate::memo::Memo;
use crate::terms::KnownTerms;

/// One version of an object. The store does not look into the value.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredObject {
    /// Its key.
    pub key: ObjectKey,
    /// The revision of the write that made this version.
    pub revision: Revision,
    /// The encoded object, shared by all readers and watchers.
    pub value: Bytes,
    /// What readers found in the value.
    pub terms: KnownTerms,
    /// The value in the other encoding that readers ask for. The store does not look into this one
    /// either.
    pub other_encoding: Memo<Arc<[u8]>>,
}

impl StoredObject {
    /// A version that no reader has looked at.
    pub fn new(key: impl Into<ObjectKey>, revision: Revision, value: impl Into<Bytes>) -> Self {
        let (key, value) = (key.into(), value.into());
        let (terms, other_encoding) = (KnownTerms::default(), Memo::default());
        Self { key, revision, value, terms, other_encoding }
    }

    /// The bytes of its key and its value.
    pub(crate) fn size(&self) -> usize {
        self.key.as_str().len() + self.value.len()
    }
}

impl fmt::Debug for StoredObject {
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
pub enum StoreEvent {
    /// An object was created or replaced.
    Put {
        /// The new version.
        object: Arc<StoredObject>,
        /// The version that it replaced; none when the object was created.
        previous: Option<Arc<StoredObject>>,
    },
    /// An object was deleted.
    Delete {
        /// The revision of the deletion (the last version has an older one).
        revision: Revision,
        /// The last version.
        previous: Arc<StoredObject>,
    },
}

impl StoreEvent {
    /// How many bytes more all objects have after it; less than none when they are fewer.
    pub(crate) fn growth(&self) -> isize {
        let of = |object: Option<&Arc<StoredObject>>| object.map_or(0, |object| object.size());
        let after = match self {
            Self::Put { object, .. } => object.size(),
            Self::Delete { .. } => 0,
        };
        after.cast_signed() - of(self.previous()).cast_signed()
    }

    /// The revision of the write that this event tells of.
    pub fn revision(&self) -> Revision {
        match self {
            Self::Put { object, .. } => object.revision,
            Self::Delete { revision, .. } => *revision,
        }
    }

    /// The key that changed.
    pub fn key(&self) -> &ObjectKey {
        match self {
            Self::Put { object, .. } => &object.key,
            Self::Delete { previous, .. } => &previous.key,
        }
    }

    /// The version before the change; none when the object was created.
    pub fn previous(&self) -> Option<&Arc<StoredObject>> {
        match self {
            Self::Put { previous, .. } => previous.as_ref(),
            Self::Delete { previous, .. } => Some(previous),
        }
    }
}

/// The state of a key after some write.
#[derive(Clone, Debug)]
pub(crate) enum ObjectVersion {
    Live(Arc<StoredObject>),
    Deleted(Revision),
}

impl ObjectVersion {
    pub(crate) fn revision(&self) -> Revision {
        match self {
            Self::Live(object) => object.revision,
            Self::Deleted(revision) => *revision,
        }
    }

    pub(crate) fn live(&self) -> Option<&Arc<StoredObject>> {
        match self {
            Self::Live(object) => Some(object),
            Self::Deleted(_) => None,
        }
    }
}
