//! Runs StorageVersionMigrations, one after the other. The core decides; this follows the store and
//! acts through the API.

use std::future::Future;

use futures::StreamExt;
use http::{Method, StatusCode};
use k8s_openapi::api::storagemigration::v1::StorageVersionMigration;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_api::status::ApiError;
use rekindle_api::storage_migration::{
    MigrationEnd, MigrationStep, NextMigration, StaleObject, definition_migrated,
    definition_migrating, ended, started,
};
use rekindle_store::StoreWatch;
use rekindle_types::{ObjectJson, path_segment};

use super::front::Front;
use super::own_requests::{self, OwnRequestError};
use super::store_feed::{self, FeedEnd};

/// The user that these requests come from.
const USER: &str = "system:rekindle-storage-migrator";
const MIGRATIONS: &str = "/apis/storagemigration.k8s.io/v1/storageversionmigrations";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Why a migration did not get on.
#[derive(Debug, thiserror::Error)]
enum MigrationError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Request(#[from] OwnRequestError),
}

/// Runs until `stop` resolves, or the store ends.
pub async fn migrate_storage(front: Front, stop: impl Future<Output = ()>) {
    let begin = || front.api().watch_migrations().map_err(ApiError::from);
    let run = |changes| follow(&front, changes);
    store_feed::follow(stop, "storage migrations", begin, run).await;
}

async fn follow(front: &Front, mut changes: StoreWatch) -> FeedEnd {
    loop {
        // one look at what stands covers every change that is there
        while let Some(change) = changes.try_next() {
            if change.is_err() {
                return FeedEnd::Behind;
            }
        }
        match take_step(front).await {
            Ok(MigrationProgress::Made) => continue,
            Ok(MigrationProgress::NoneLeft) => {}
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "failed to migrate stored objects");
                return FeedEnd::Failed;
            }
        }
        match changes.next().await {
            Some(Ok(_)) => {}
            Some(Err(_)) => return FeedEnd::Behind,
            None => return FeedEnd::StoreClosed,
        }
    }
}

/// Whether there was something to do.
enum MigrationProgress {
    Made,
    NoneLeft,
}

async fn take_step(front: &Front) -> Result<MigrationProgress, MigrationError> {
    let Some(NextMigration { migration, definition, step }) = front.api().next_migration()? else {
        return Ok(MigrationProgress::NoneLeft);
    };
    let definition = definition.as_deref();
    match step {
        MigrationStep::Start { revision } => {
            let now = front.now();
            let said = definition.map(|known| definition_migrating(known, &migration, now));
            if write_definition(front, said).await? == StatusWrite::Done {
                write(front, &started(&migration, revision, now)).await?;
            }
        }
        MigrationStep::Rewrite(objects) => {
            let end = rewrite(front, objects).await?;
            finish(front, &migration, definition, end).await?;
        }
        MigrationStep::NoResource => {
            let end = MigrationEnd::Failed("resource not found".to_owned());
            finish(front, &migration, definition, end).await?;
        }
    }
    Ok(MigrationProgress::Made)
}

async fn rewrite(
    front: &Front,
    objects: Vec<StaleObject>,
) -> Result<MigrationEnd, OwnRequestError> {
    for StaleObject { path, patch } in objects {
        match own_requests::send(front, USER, Method::PATCH, path, patch).await {
            // who has changed it has written it in today's version
            Ok(()) | Err(OwnRequestError::Refused { status: StatusCode::CONFLICT, .. }) => {}
            // it may be written later
            Err(
                error @ OwnRequestError::Refused {
                    status:
                        StatusCode::TOO_MANY_REQUESTS
                        | StatusCode::SERVICE_UNAVAILABLE
                        | StatusCode::INSUFFICIENT_STORAGE,
                    ..
                },
            ) => return Err(error),
            Err(error) => return Ok(MigrationEnd::Failed(error.to_string())),
        }
    }
    Ok(MigrationEnd::Succeeded)
}

/// The definition comes first: a migration that is over is not looked at again.
async fn finish(
    front: &Front,
    migration: &StorageVersionMigration,
    definition: Option<&CustomResourceDefinition>,
    end: MigrationEnd,
) -> Result<(), OwnRequestError> {
    let now = front.now();
    let said = definition.map(|known| definition_migrated(known, &end, now));
    if write_definition(front, said).await? == StatusWrite::Done {
        write(front, &ended(migration, &end, now)).await?;
    }
    Ok(())
}

/// What became of the write of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StatusWrite {
    Done,
    /// The object has changed in between, and is to be looked at again.
    Overtaken,
}

async fn write(front: &Front, migration: &StorageVersionMigration) -> Result<(), OwnRequestError> {
    let path = status_path(MIGRATIONS, &migration.metadata);
    put_status(front, path, migration.to_json()).await.map(drop)
}

async fn write_definition(
    front: &Front,
    definition: Option<CustomResourceDefinition>,
) -> Result<StatusWrite, OwnRequestError> {
    let Some(definition) = definition else { return Ok(StatusWrite::Done) };
    let path = status_path(DEFINITIONS, &definition.metadata);
    put_status(front, path, definition.to_json()).await
}

async fn put_status(
    front: &Front,
    path: String,
    body: Vec<u8>,
) -> Result<StatusWrite, OwnRequestError> {
    match own_requests::send(front, USER, Method::PUT, path, body).await {
        Ok(()) => Ok(StatusWrite::Done),
        Err(OwnRequestError::Refused { status: StatusCode::CONFLICT, .. }) => {
            Ok(StatusWrite::Overtaken)
        }
        Err(error) => Err(error),
    }
}

fn status_path(collection: &str, meta: &ObjectMeta) -> String {
    let name = path_segment::escape(meta.name.as_deref().unwrap_or_default());
    format!("{collection}/{name}/status")
}
