//! StorageVersionMigrations: all objects of a resource are written again, in the version that is
//! stored today. Then the old version leaves `status.storedVersions` of its definition, and may
//! leave the definition.
//!
//! One migration runs at a time, the oldest first. Each step is said in the status before it is
//! done, and may be done again: an engine that ends in the middle goes on where it was.
//!
//! ```text
//! (new) -> Running -> objects stored in another version get an empty patch -> Succeeded
//!                 `-> no such resource, or a write is refused              -> Failed
//! ```
//! Source of behaviour: KEP-4192 and upstream's `pkg/controller/storageversionmigrator`.

mod statuses;

use std::sync::Arc;

use k8s_openapi::api::storagemigration::v1::StorageVersionMigration;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use rekindle_kinds::registry::{KindEntry, ResourceScope};
use rekindle_kinds::storage_version_migration::{
    GROUP, PLURAL, RUNNING, is_over, is_true, resource,
};
use rekindle_store::{RangeQuery, StoreError, StoreWatch};
use rekindle_types::path_segment;

use crate::custom::{self, CustomKind};
use crate::keys;
use crate::selectors::names_of_key;
use crate::shared::ApiShared;
use crate::status::ApiError;

pub use statuses::{MigrationEnd, definition_migrated, definition_migrating, ended, started};

/// A migration that is the next to be worked on.
#[derive(Debug)]
pub struct NextMigration {
    /// It.
    pub migration: Arc<StorageVersionMigration>,
    /// The definition of its resource; none if that is built in, or not there.
    pub definition: Option<Arc<CustomResourceDefinition>>,
    /// What is to be done with it.
    pub step: MigrationStep,
}

/// The next step of a migration.
#[derive(Debug)]
pub enum MigrationStep {
    /// It is to be said that it runs.
    Start {
        /// The version of the store from which on all objects are stored in today's version.
        revision: String,
    },
    /// These objects are to be written, one after the other; then it has succeeded.
    Rewrite(Vec<StaleObject>),
    /// There is no such resource.
    NoResource,
}

/// An object that is stored in another version than today's.
#[derive(Debug)]
pub struct StaleObject {
    /// The path of the object.
    pub path: String,
    /// The merge patch that changes nothing. It names the version of the object that was seen: one
    /// that has changed since was written in today's version.
    pub patch: Vec<u8>,
}

/// The changes of migrations from now on; none when they are not served.
pub(crate) fn watch(api: &ApiShared) -> Result<Option<StoreWatch>, StoreError> {
    let Some(entry) = entry(api) else { return Ok(None) };
    api.store.watch(&keys::collection(entry, ""), api.store.revision()).map(Some)
}

fn entry(api: &ApiShared) -> Option<&Arc<KindEntry>> {
    api.registry.find(GROUP, "v1", PLURAL)
}

/// The next migration to be worked on, as all is durable: one that runs, else the oldest. None when
/// all are over.
pub(crate) fn next(api: &ApiShared) -> Result<Option<NextMigration>, ApiError> {
    let Some(migration) = oldest(api)? else { return Ok(None) };
    let runs = is_true(&migration, RUNNING);
    let found = find(api, &migration);
    let definition = match &found {
        Some(MigratedResource::Custom(kind)) => definition(api, kind)?,
        Some(MigratedResource::BuiltIn) | None => None,
    };
    let step = match found {
        None => MigrationStep::NoResource,
        Some(_) if !runs => MigrationStep::Start { revision: api.store.revision().0.to_string() },
        // what is built in has one stored version
        Some(MigratedResource::BuiltIn) => MigrationStep::Rewrite(Vec::new()),
        Some(MigratedResource::Custom(kind)) => MigrationStep::Rewrite(stale_objects(api, &kind)),
    };
    Ok(Some(NextMigration { migration, definition, step }))
}

fn oldest(api: &ApiShared) -> Result<Option<Arc<StorageVersionMigration>>, ApiError> {
    let Some(entry) = entry(api) else { return Ok(None) };
    let query = RangeQuery { prefix: keys::collection(entry, ""), ..RangeQuery::default() };
    let mut open = Vec::new();
    for stored in api.store.range(&query)?.objects {
        let migration = api.read_as::<StorageVersionMigration>(entry, &stored)?;
        open.extend(migration.filter(|migration| !is_over(migration)));
    }
    Ok(open.into_iter().min_by_key(|migration| {
        let meta = &migration.metadata;
        let created = meta.creation_timestamp.as_ref().map(|time| time.0);
        (!is_true(migration, RUNNING), created, meta.name.clone())
    }))
}

/// What a migration is about.
enum MigratedResource {
    BuiltIn,
    Custom(Arc<CustomKind>),
}

fn find(api: &ApiShared, migration: &StorageVersionMigration) -> Option<MigratedResource> {
    let wanted = resource(migration)?;
    if api.registry.find_resource(&wanted.group, &wanted.resource).is_some() {
        return Some(MigratedResource::BuiltIn);
    }
    let place = format!("{}.{}", wanted.resource, wanted.group);
    let mut kinds = api.custom.all(api).into_iter();
    let kind = kinds.find(|kind| kind.place_of_objects() == place && !kind.served().is_empty());
    kind.map(MigratedResource::Custom)
}

fn definition(
    api: &ApiShared,
    kind: &CustomKind,
) -> Result<Option<Arc<CustomResourceDefinition>>, ApiError> {
    let Some(entry) = custom::definitions_entry(api) else { return Ok(None) };
    let key = keys::object(entry, "", &kind.place_of_objects());
    let Some(stored) = api.store.get(&key) else { return Ok(None) };
    api.read_as(entry, &stored)
}

/// Those that are stored in another version. They are written through a version that is served:
/// today's need not be.
fn stale_objects(api: &ApiShared, kind: &CustomKind) -> Vec<StaleObject> {
    let Some(entry) = kind.served().into_iter().next() else { return Vec::new() };
    let Some(stored_as) = kind.storage_version() else { return Vec::new() };
    let objects = kind.objects(api).into_iter();
    let stale = objects.filter(|stored| !stored_as.codec.is_stored_form(&stored.value));
    let objects = stale.map(|stored| {
        let (namespace, name) = names_of_key(&entry, stored.key.as_str());
        let patch =
            serde_json::json!({"metadata": {"resourceVersion": stored.revision.0.to_string()}});
        StaleObject { path: path(&entry, namespace, name), patch: patch.to_string().into() }
    });
    objects.collect()
}

fn path(entry: &KindEntry, namespace: &str, name: &str) -> String {
    let [namespace, name] = [namespace, name].map(path_segment::escape);
    let KindEntry { api_version, plural, .. } = entry;
    match entry.scope {
        ResourceScope::Cluster => format!("/apis/{api_version}/{plural}/{name}"),
        ResourceScope::Namespaced => {
            format!("/apis/{api_version}/namespaces/{namespace}/{plural}/{name}")
        }
    }
}
