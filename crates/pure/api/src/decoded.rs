//! Objects as they are behind their text, of the versions that were written or read last: a writer
//! that changes an object again and again, and whoever reads it in this process, need not read its
//! text each time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use rekindle_kinds::registry::AnyObject;
use rekindle_store::{ObjectKey, Revision, StoredObject};

/// So many objects are remembered at least, and twice as many at most, unless told.
const REMEMBERED: usize = 64;

/// The memory. An entry counts only for the very bytes that it was made with: the store may have
/// given a revision again after a write that failed.
#[derive(Default)]
pub(crate) struct DecodeCache {
    generations: Mutex<Generations>,
}

/// What was used since the last change of generations, and what was used in the generation before.
struct Generations {
    young: BTreeMap<ObjectKey, DecodedEntry>,
    old: BTreeMap<ObjectKey, DecodedEntry>,
    remembered: usize,
}

impl Default for Generations {
    fn default() -> Self {
        Self { young: BTreeMap::new(), old: BTreeMap::new(), remembered: REMEMBERED }
    }
}

#[derive(Clone)]
struct DecodedEntry {
    revision: Revision,
    text: Bytes,
    object: Arc<dyn AnyObject>,
}

impl DecodeCache {
    /// The object behind this version, if it is remembered.
    pub(crate) fn get(&self, stored: &StoredObject) -> Option<Arc<dyn AnyObject>> {
        let mut generations = self.lock();
        let key = stored.key.as_str();
        if let Some(entry) = generations.young.get(key) {
            return entry.is_of(stored).then(|| entry.object.clone());
        }
        let (key, entry) = generations.old.remove_entry(key)?;
        let found = entry.is_of(stored).then(|| entry.object.clone());
        generations.add(key, entry);
        found
    }

    /// Remembers what is behind a text, unless a newer version is remembered: who reads what was
    /// before does so once, and who changes what is does so again and again.
    pub(crate) fn put(&self, stored: &StoredObject, object: Arc<dyn AnyObject>) {
        let StoredObject { key, revision, value, .. } = stored;
        let mut generations = self.lock();
        let known = generations.young.get(key).or_else(|| generations.old.get(key));
        if known.is_some_and(|known| known.revision > *revision) {
            return;
        }
        generations.old.remove(key);
        let entry = DecodedEntry { revision: *revision, text: value.clone(), object };
        generations.add(key.clone(), entry);
    }

    /// The object is gone.
    pub(crate) fn forget(&self, key: &str) {
        let mut generations = self.lock();
        generations.young.remove(key);
        generations.old.remove(key);
    }

    /// Remembers at least so many from now on.
    pub(crate) fn set_remembered(&self, remembered: usize) {
        self.lock().remembered = remembered;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Generations> {
        // nothing in here can be half done: each step leaves a memory that is right
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    fn add(&mut self, key: ObjectKey, entry: DecodedEntry) {
        self.young.insert(key, entry);
        if self.young.len() >= self.remembered {
            self.old = std::mem::take(&mut self.young);
        }
    }
}

impl DecodedEntry {
    /// Bytes that are still held are at an address of their own.
    fn is_of(&self, stored: &StoredObject) -> bool {
        std::ptr::eq(self.text.as_ptr(), stored.value.as_ptr())
            && self.text.len() == stored.value.len()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn object(key: &str, text: &str) -> StoredObject {
        StoredObject::new(key, Revision(1), text.to_owned())
    }

    fn remember(decoded: &DecodeCache, stored: &StoredObject) {
        let object: Arc<dyn AnyObject> = Arc::new(ConfigMap::default());
        decoded.put(stored, object);
    }

    #[test]
    fn what_is_read_of_an_older_version_does_not_displace_the_newest() {
        let decoded = DecodeCache::default();
        let [first, second] = [1, 2].map(|revision| StoredObject {
            revision: Revision(revision),
            ..object("/a", &revision.to_string())
        });
        remember(&decoded, &second);
        remember(&decoded, &first);
        assert!(decoded.get(&second).is_some());
        assert!(decoded.get(&first).is_none());
        // a write that failed was remembered, and the store gave its revision again
        let again = StoredObject { revision: Revision(2), ..object("/a", "again") };
        remember(&decoded, &again);
        assert!(decoded.get(&again).is_some());
    }

    #[test]
    fn what_was_written_anew_or_is_gone_is_not_known_by_its_old_text() {
        let decoded = DecodeCache::default();
        let (first, second) = (object("/a", "same"), object("/a", "same"));
        remember(&decoded, &first);
        assert!(decoded.get(&first).is_some());
        assert!(decoded.get(&second).is_none(), "other bytes, though they say the same");
        remember(&decoded, &second);
        assert!(decoded.get(&first).is_none());
        decoded.forget("/a");
        assert!(decoded.get(&second).is_none());
    }

    #[test]
    fn what_is_used_stays_and_what_is_not_goes() {
        let decoded = DecodeCache::default();
        decoded.set_remembered(4);
        let used = object("/used", "x");
        let unused = object("/unused", "x");
        [&used, &unused].into_iter().for_each(|stored| remember(&decoded, stored));
        for index in 0..20 {
            remember(&decoded, &object(&format!("/{index}"), "x"));
            assert!(decoded.get(&used).is_some(), "after {index}");
            let generations = decoded.lock();
            assert!(generations.young.len() + generations.old.len() <= 8);
        }
        assert!(decoded.get(&unused).is_none());
    }
}
