//! A disk on which values are encrypted.

use std::sync::Arc;

use rekindle_store::{Batch, BatchRow, Disk, DiskContent, DiskError, StoredObject, ValueSealing};

use crate::{Encryption, ValueStanding};

/// Encrypts what goes to the disk, and decrypts what comes from it.
pub struct EncryptedDisk<D> {
    disk: D,
    encryption: Arc<Encryption>,
}

impl<D: Disk> EncryptedDisk<D> {
    /// Encrypts the values on this disk in this way.
    pub fn new(disk: D, encryption: Encryption) -> Self {
        Self { disk, encryption: Arc::new(encryption) }
    }

    fn on_disk(&self, object: &Arc<StoredObject>) -> Arc<StoredObject> {
        match self.encryption.sealed(object) {
            None => Arc::clone(object),
            Some(value) => Arc::new(StoredObject::new(object.key.clone(), object.revision, value)),
        }
    }
}

impl<D: Disk> Disk for EncryptedDisk<D> {
    /// What is encrypted with another key than the first is encrypted anew, as one step, at the
    /// same revisions: to rotate a key, or to begin or end encryption, is to start with another
    /// configuration.
    fn load(&mut self) -> Result<DiskContent, DiskError> {
        let mut content = self.disk.load()?;
        let mut outdated = Vec::new();
        for object in &mut content.objects {
            let opened = self.encryption.open(&object.key, &object.value).map_err(|why| {
                DiskError::Encrypted { key: object.key.clone(), what: why.to_string() }
            })?;
            let stored = std::mem::replace(&mut object.value, opened.value);
            match opened.standing {
                ValueStanding::Current => {}
                ValueStanding::Outdated => outdated.push(BatchRow {
                    key: object.key.clone(),
                    before: Some(Arc::new(StoredObject { value: stored, ..object.clone() })),
                    after: Some(self.on_disk(&Arc::new(object.clone()))),
                }),
            }
        }
        if !outdated.is_empty() {
            outdated.sort_by(|a, b| a.key.cmp(&b.key));
            self.disk.commit(&Batch { revision: content.revision, rows: outdated })?;
        }
        Ok(content)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), DiskError> {
        let row = |row: &BatchRow| BatchRow {
            key: row.key.clone(),
            // may be written, too: after a commit that failed
            before: row.before.as_ref().map(|object| self.on_disk(object)),
            after: row.after.as_ref().map(|object| self.on_disk(object)),
        };
        let rows = batch.rows.iter().map(row).collect();
        self.disk.commit(&Batch { revision: batch.revision, rows })
    }

    fn sealing(&self) -> Option<Arc<dyn ValueSealing>> {
        Some(Arc::clone(&self.encryption) as Arc<dyn ValueSealing>)
    }
}
