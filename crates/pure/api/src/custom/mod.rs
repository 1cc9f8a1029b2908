//! Kinds that CustomResourceDefinitions describe.
//!
//! The store has the truth: what is served is what the durable definitions say. What is made of a
//! definition is kept by its revision and text, and made anew when these are others. So there is no
//! moment at which a definition is written and its kind not yet served, and no registry to load at
//! the start.
//!
//! [`kind`] reads a definition, [`version`] compiles one of its versions, [`object`] is an object
//! of such a version. [`conversion`] asks webhooks for objects in other versions. [`names`] decides
//! which names a definition gets, and [`cleanup`] removes the objects of one that goes.

pub(crate) mod cleanup;
mod columns;
mod conversion;
mod kind;
mod merge_types;
pub(crate) mod names;
mod object;
mod version;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rekindle_kinds::registry::{KindEntry, KindOrigin, Registry};
use rekindle_store::{PendingWrite, StoredObject};
use rekindle_types::Tick;

pub(crate) use conversion::{
    ConversionReview, ConvertedTexts, ObjectConversion, StorageForm, with_revision_of,
};
pub(crate) use kind::{CLEANUP_FINALIZER, CustomKind};
pub(crate) use object::CustomObject;
pub(crate) use version::ScalePaths;
pub(crate) use version::VersionCodec;

use crate::call::ApiCall;
use crate::made_of::MadeOf;
use crate::request::ResourcePath;
use crate::shared::ApiShared;
use crate::status::ApiError;

/// What the keys of all definitions begin with.
pub(crate) const DEFINITIONS: &str = "/customresourcedefinitions.apiextensions.k8s.io/";

/// What is known of the definitions, by their keys.
#[derive(Default)]
pub(crate) struct CustomKinds {
    known: Mutex<BTreeMap<String, MadeOf<CustomKind>>>,
    /// What webhooks have converted.
    pub(crate) converted: ConvertedTexts,
    creation: RwLock<()>,
    settling: Mutex<()>,
}

impl CustomKinds {
    /// What a definition, in this version of it, describes. None when it cannot be read.
    pub(crate) fn of(
        &self,
        api: &ApiShared,
        stored: &Arc<StoredObject>,
    ) -> Option<Arc<CustomKind>> {
        let key = stored.key.as_str();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kind) = known.get(key).and_then(|known| known.of_version(stored)) {
            return Some(kind);
        }
        let kind = Arc::new(CustomKind::read(api, stored)?);
        known.insert(key.to_owned(), MadeOf::new(stored, &kind));
        Some(kind)
    }

    /// Held while the objects of a definition that goes are deleted: none is made behind its back.
    fn hold_creations(&self) -> RwLockWriteGuard<'_, ()> {
        self.creation.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Held from the look at the names that are taken to the writes that take others: two requests
    /// at once would give one name to two definitions.
    fn hold_names(&self) -> MutexGuard<'_, ()> {
        self.settling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kind that a path names, if a durable definition serves it.
    pub(crate) fn find(&self, api: &ApiShared, path: &ResourcePath) -> Option<Arc<KindEntry>> {
        let key = key_of_definition(&path.resource, &path.group);
        let stored = api.store.get(&key)?;
        self.of(api, &stored)?.version(&path.version)
    }

    /// The kind in the version that an object of it was stored in, where a webhook converts its
    /// objects: what concerns their metadata alone needs no other version.
    pub(crate) fn stored_version(
        &self,
        api: &ApiShared,
        entry: &KindEntry,
        stored: &StoredObject,
    ) -> Option<Arc<KindEntry>> {
        let version = VersionCodec::of_converted(entry)?.version_name(&stored.value)?;
        let definition = api.store.get(&key_of_definition(&entry.plural, &entry.group))?;
        self.of(api, &definition)?.any_version(version)
    }

    /// A kind as its definition describes it now, if that is what it said before. It does not
    /// change any more when the definition is gone: the end of its objects is still to be shown.
    pub(crate) fn unchanged(
        &self,
        api: &ApiShared,
        entry: &Arc<KindEntry>,
    ) -> Option<Arc<KindEntry>> {
        let Some(stored) = api.store.get(&key_of_definition(&entry.plural, &entry.group)) else {
            return Some(Arc::clone(entry));
        };
        let current = self.of(api, &stored)?.version(&entry.version)?;
        let is_same = Arc::ptr_eq(&current, entry)
            || current.codec.schema_source() == entry.codec.schema_source();
        is_same.then_some(current)
    }

    /// Drops what is known of a definition that goes.
    fn forget(&self, key: &str) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// The kind of a resource in any version that is served.
    pub(crate) fn served_as(
        &self,
        api: &ApiShared,
        group: &str,
        plural: &str,
    ) -> Option<Arc<KindEntry>> {
        let stored = api.store.newest(&key_of_definition(plural, group))?;
        self.of(api, &stored)?.served().first().cloned()
    }

    /// The versions of a resource that its definition serves; none without one.
    pub(crate) fn versions_of(&self, api: &ApiShared, group: &str, plural: &str) -> Vec<String> {
        let stored = api.store.get(&key_of_definition(plural, group));
        let kind = stored.and_then(|stored| self.of(api, &stored));
        let served = kind.iter().flat_map(|kind| kind.served());
        served.map(|entry| entry.version.to_string()).collect()
    }

    /// Every kind of which a durable definition is there.
    pub(crate) fn all(&self, api: &ApiShared) -> Vec<Arc<CustomKind>> {
        let query = rekindle_store::RangeQuery {
            prefix: DEFINITIONS.to_owned(),
            ..rekindle_store::RangeQuery::default()
        };
        let Ok(page) = api.store.range(&query) else { return Vec::new() };
        page.objects.iter().filter_map(|stored| self.of(api, stored)).collect()
    }

    /// The same with definitions that are still on their way to the disk.
    pub(crate) fn newest(&self, api: &ApiShared) -> Vec<(Arc<StoredObject>, Arc<CustomKind>)> {
        let (objects, _) = api.store.newest_below(DEFINITIONS);
        let kind = |stored: Arc<StoredObject>| Some((Arc::clone(&stored), self.of(api, &stored)?));
        objects.into_iter().filter_map(kind).collect()
    }

    /// Lets an object be made, and holds back the end of its kind while the guard lives.
    ///
    /// # Errors
    /// 405 when the definition of the kind is going.
    pub(crate) fn admit_new(
        &self,
        call: &ApiCall<'_>,
    ) -> Result<Option<RwLockReadGuard<'_, ()>>, ApiError> {
        match call.entry.origin {
            KindOrigin::BuiltIn => return Ok(None),
            KindOrigin::Definition => {}
        }
        let guard = self.creation.read().unwrap_or_else(PoisonError::into_inner);
        let key = key_of_definition(&call.entry.plural, &call.entry.group);
        let kind = call.api.store.newest(&key).and_then(|stored| self.of(call.api, &stored));
        match kind {
            Some(kind) if !kind.is_going() => Ok(Some(guard)),
            Some(_) | None => Err(ApiError::method_not_allowed_because(
                "create not allowed while custom resource definition is terminating",
            )),
        }
    }

    /// The built-in kinds with those of definitions.
    pub(crate) fn served(&self, api: &ApiShared) -> Registry {
        let custom = self.all(api).into_iter().flat_map(|kind| kind.served());
        api.registry.with(custom)
    }
}

/// What was gone on with when the engine started.
#[derive(Default)]
pub struct ResumedDefinitions {
    /// The writes that do so.
    pub pending: Vec<PendingWrite>,
    /// What could not be done: the key of the definition, and why. The next deletion of the
    /// definition tries again, and so does the next start.
    pub failures: Vec<(String, ApiError)>,
}

/// Goes on with what was under way when the engine ended: names that were not settled, and
/// definitions that were going.
pub(crate) fn resume(api: &ApiShared, now: Tick) -> ResumedDefinitions {
    let mut resumed = ResumedDefinitions::default();
    match names::settle(api, now) {
        Ok(pending) => resumed.pending.extend(pending),
        Err(error) => resumed.failures.push((DEFINITIONS.to_owned(), error.into())),
    }
    for (stored, _) in api.custom.newest(api) {
        let key = stored.key.as_str();
        match cleanup::go_on(api, key, now) {
            Ok(pending) => resumed.pending.extend(pending),
            Err(error) => resumed.failures.push((key.to_owned(), error)),
        }
    }
    resumed
}

/// The kind of definitions.
pub(crate) fn definitions_entry(api: &ApiShared) -> Option<&Arc<KindEntry>> {
    api.registry.find(GROUP, "v1", PLURAL)
}

/// Whether the objects of a kind are definitions.
pub(crate) fn is_definition(entry: &KindEntry) -> bool {
    entry.group_and_plural() == (GROUP, PLURAL)
}

const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";

/// The key of the definition of a kind.
fn key_of_definition(plural: &str, group: &str) -> String {
    [DEFINITIONS, plural, ".", group].concat()
}

#[cfg(test)]
mod tests;
