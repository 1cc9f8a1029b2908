//! A backup of a store that goes on: the bytes are made as they are taken.

use std::sync::Arc;

use bytes::Bytes;

use super::{BackupEncoder, BackupError, BackupHeader};
use crate::disk::ValueSealing;
use crate::error::StoreError;
use crate::object::StoredObject;
use crate::range::RangeQuery;
use crate::store::Store;

/// So many bytes are made at a time; with a large object more.
const CHUNK_BYTES: usize = 64 << 10;

/// The bytes of a backup, without files. It holds the objects as they were, which the store shares
/// with it until it writes others in their place.
pub struct BackupStream {
    /// None after the last bytes, and after an error.
    encoder: Option<BackupEncoder>,
    objects: std::vec::IntoIter<Arc<StoredObject>>,
    sealing: Option<Arc<dyn ValueSealing>>,
}

impl Store {
    /// A backup of all durable objects at the newest revision, with their values as they lie on the
    /// disk. It does not hold up writers.
    ///
    /// # Errors
    /// Those of [`Store::range`].
    pub fn backup(&self, created_at_micros: u64) -> Result<BackupStream, StoreError> {
        let page = self.range(&RangeQuery::default())?;
        let header = BackupHeader {
            revision: page.revision,
            created_at_micros,
            files: 0,
            objects: page.objects.len() as u64,
        };
        let encoder = Some(BackupEncoder::new(&header));
        let sealing = self.shared().sealing.clone();
        Ok(BackupStream { encoder, objects: page.objects.into_iter(), sealing })
    }
}

impl BackupStream {
    fn add(&self, object: &StoredObject, encoder: &mut BackupEncoder) -> Result<(), BackupError> {
        match self.sealing.as_ref().and_then(|sealing| sealing.sealed(object)) {
            None => encoder.object(object),
            Some(value) => encoder.object(&StoredObject { value, ..object.clone() }),
        }
    }
}

impl Iterator for BackupStream {
    type Item = Result<Bytes, BackupError>;

    fn next(&mut self) -> Option<Result<Bytes, BackupError>> {
        let mut encoder = self.encoder.take()?;
        while encoder.untaken_bytes() < CHUNK_BYTES {
            let Some(object) = self.objects.next() else { return Some(Ok(encoder.finish())) };
            if let Err(error) = self.add(&object, &mut encoder) {
                return Some(Err(error));
            }
        }
        let chunk = encoder.take();
        self.encoder = Some(encoder);
        Some(Ok(chunk))
    }
}
