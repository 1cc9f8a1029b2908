//! What was made of stored objects of one kind, kept by the versions of these objects: policies and
//! webhooks are compiled once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rekindle_kinds::admission_policy::GROUP;
use rekindle_kinds::registry::ApiKind;
use rekindle_store::{RangeQuery, StoredObject};

use crate::keys;
use crate::made_of::MadeOf;
use crate::shared::ApiShared;
use crate::status::ApiError;

/// What was made of stored objects, by their keys.
pub(super) struct CompiledObjects<T> {
    by_key: Mutex<BTreeMap<String, MadeOf<T>>>,
}

impl<T> Default for CompiledObjects<T> {
    fn default() -> Self {
        Self { by_key: Mutex::default() }
    }
}

impl<T> CompiledObjects<T> {
    /// What `make` makes of every durable object of a kind, by name.
    pub(super) fn all<K: ApiKind>(
        &self,
        api: &ApiShared,
        make: impl Fn(K) -> Option<T>,
    ) -> Result<Vec<Arc<T>>, ApiError> {
        let Some(entry) = api.registry.find(GROUP, K::VERSION, K::URL_PATH_SEGMENT) else {
            return Ok(Vec::new());
        };
        let prefix = keys::collection(entry, "");
        let page = api.store.range(&RangeQuery { prefix, ..RangeQuery::default() })?;
        // nothing is compiled under the lock, which every write takes
        let found: Vec<Option<Arc<T>>> = {
            let known = self.lock();
            let of_version = |stored: &Arc<StoredObject>| {
                known.get(stored.key.as_str()).and_then(|known| known.of_version(stored))
            };
            page.objects.iter().map(of_version).collect()
        };
        let mut all = Vec::with_capacity(found.len());
        for (stored, found) in page.objects.iter().zip(found) {
            if let Some(found) = found {
                all.push(found);
            } else if let Some(made) = make(read(stored)?).map(Arc::new) {
                all.push(self.keep(stored, made));
            }
        }
        let mut known = self.lock();
        if known.len() > page.objects.len() {
            let is_there = |key: &str| {
                page.objects.binary_search_by(|stored| stored.key.as_str().cmp(key)).is_ok()
            };
            known.retain(|key, _| is_there(key));
        }
        Ok(all)
    }

    /// Keeps what was made, unless another has made it of the same version. Gives what is kept.
    fn keep(&self, stored: &Arc<StoredObject>, made: Arc<T>) -> Arc<T> {
        let mut known = self.lock();
        let kept = known.get(stored.key.as_str()).and_then(|known| known.of_version(stored));
        kept.unwrap_or_else(|| {
            known.insert(stored.key.as_str().to_owned(), MadeOf::new(stored, &made));
            made
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, MadeOf<T>>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read<K: ApiKind>(stored: &StoredObject) -> Result<K, ApiError> {
    K::from_json(&stored.value).map_err(|error| {
        ApiError::internal(format!("{} cannot be read: {error}", stored.key.as_str()))
    })
}
