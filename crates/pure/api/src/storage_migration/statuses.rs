//! What is said of a migration, in its status and in that of the definition.

use k8s_openapi::api::storagemigration::v1::StorageVersionMigration;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rekindle_kinds::storage_version_migration::{FAILED, RUNNING, SUCCEEDED};
use rekindle_kinds::validation::text;
use rekindle_types::{Tick, conditions};

use crate::custom::names;

/// The condition of a definition of which objects are written again.
const STORAGE_MIGRATING: &str = "StorageMigrating";
/// As much as is said of a failure, bytes.
const MESSAGE_BYTES_MAX: usize = 1024;

/// How a migration ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MigrationEnd {
    /// All objects are stored in today's version.
    Succeeded,
    /// It has given up, for this reason.
    Failed(String),
}

/// A migration that runs from now on.
pub fn started(
    migration: &StorageVersionMigration,
    revision: String,
    now: Tick,
) -> StorageVersionMigration {
    let mut started = migration.clone();
    let status = started.status.get_or_insert_default();
    status.resource_version.get_or_insert(revision);
    let said = ("True", "MigrationRunning", "The migration is running");
    set(&mut started, RUNNING, said, now);
    started
}

/// A migration that is over.
pub fn ended(
    migration: &StorageVersionMigration,
    end: &MigrationEnd,
    now: Tick,
) -> StorageVersionMigration {
    let mut ended = migration.clone();
    set(&mut ended, RUNNING, ("False", "MigrationCompleted", "Migration completed"), now);
    let (type_, said) = match end {
        MigrationEnd::Succeeded => (SUCCEEDED, ("True", "StorageVersionMigrationSucceeded", "")),
        MigrationEnd::Failed(why) => {
            let why = &why[..why.floor_char_boundary(MESSAGE_BYTES_MAX)];
            (FAILED, ("True", "StorageVersionMigrationFailed", why))
        }
    };
    set(&mut ended, type_, said, now);
    ended
}

/// Sets a condition of the generation that the migration has.
fn set(
    migration: &mut StorageVersionMigration,
    type_: &str,
    (status, reason, message): (&str, &str, &str),
    now: Tick,
) {
    let generation = migration.metadata.generation;
    let known = migration.status.get_or_insert_default().conditions.get_or_insert_default();
    let condition = Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: now.to_time(),
        observed_generation: generation,
    };
    conditions::set(known, condition);
}

/// A definition of which objects are written again from now on.
pub fn definition_migrating(
    definition: &CustomResourceDefinition,
    migration: &StorageVersionMigration,
    now: Tick,
) -> CustomResourceDefinition {
    let name = text(migration.metadata.name.as_ref());
    let message = format!("Migration {name} is running");
    let mut migrating = definition.clone();
    set_migrating(&mut migrating, ("True", "MigrationRunning", &message), now);
    migrating
}

/// A definition of which all objects were written again, or not. Then it is stored in one version
/// only, unless it has changed since: it may have got another version to be stored.
pub fn definition_migrated(
    definition: &CustomResourceDefinition,
    end: &MigrationEnd,
    now: Tick,
) -> CustomResourceDefinition {
    let mut migrated = definition.clone();
    let is_unchanged = migrating_since(definition) == definition.metadata.generation;
    let (reason, message) = match (end, is_unchanged) {
        (MigrationEnd::Failed(_), _) => ("MigrationFailed", "The migration has failed"),
        (MigrationEnd::Succeeded, true) => (
            "MigrationSucceeded",
            "The migration has succeeded and the stored versions have been updated",
        ),
        (MigrationEnd::Succeeded, false) => (
            "MigrationSucceeded",
            "The migration has succeeded but the stored versions have not been updated due to a \
             generation mismatch",
        ),
    };
    set_migrating(&mut migrated, ("False", reason, message), now);
    if is_unchanged && *end == MigrationEnd::Succeeded {
        let stored = migrated.spec.versions.iter().find(|version| version.storage);
        let stored = stored.map(|version| version.name.clone());
        migrated.status.get_or_insert_default().stored_versions = Some(Vec::from_iter(stored));
    }
    migrated
}

/// The generation of the definition when the migration began.
fn migrating_since(definition: &CustomResourceDefinition) -> Option<i64> {
    let conditions = definition.status.as_ref()?.conditions.as_ref()?;
    let known = conditions.iter().find(|condition| condition.type_ == STORAGE_MIGRATING)?;
    known.observed_generation
}

fn set_migrating(definition: &mut CustomResourceDefinition, said: (&str, &str, &str), now: Tick) {
    let generation = definition.metadata.generation;
    let conditions = definition.status.get_or_insert_default().conditions.get_or_insert_default();
    names::set(conditions, STORAGE_MIGRATING, said, now);
    let set = conditions.iter_mut().find(|condition| condition.type_ == STORAGE_MIGRATING);
    if let Some(set) = set {
        set.observed_generation = generation;
    }
}
