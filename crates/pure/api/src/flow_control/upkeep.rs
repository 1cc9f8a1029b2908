//! Writes what lacks: the server's own objects, and whether a FlowSchema has its level.

use std::collections::BTreeSet;

use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use rekindle_flow_control::{MaintainedObject, ObjectUpkeep, dangling_status};
use rekindle_kinds::flow_control::{LEVELS, SCHEMAS};
use rekindle_kinds::registry::{AnyObject, KindEntry};
use rekindle_store::{PendingWrite, StoreError, WritePrecondition};
use rekindle_types::Tick;

use super::{StoredFlowObject, entry, stored};
use crate::call::put;
use crate::shared::ApiShared;
use crate::status::ApiError;
use crate::{keys, object_meta};

/// What has to be written for all objects to be as they should be. When the writes are durable,
/// there may be more to do: a schema that was made has no condition yet.
pub(crate) fn maintain(api: &ApiShared, now: Tick) -> Result<Vec<PendingWrite>, ApiError> {
    let mut pending = Vec::new();
    let (Some(schemas), Some(levels)) = (entry(api, SCHEMAS), entry(api, LEVELS)) else {
        return Ok(pending);
    };
    keep_own::<PriorityLevelConfiguration>(api, levels, now, &mut pending)?;
    keep_own::<FlowSchema>(api, schemas, now, &mut pending)?;
    let there: BTreeSet<String> = stored::<PriorityLevelConfiguration>(api, levels)?
        .iter()
        .filter_map(|read| read.object.metadata.name.clone())
        .collect();
    for StoredFlowObject { stored, object: schema } in stored::<FlowSchema>(api, schemas)? {
        let level = &schema.spec.priority_level_configuration.name;
        let status = dangling_status(&schema, there.contains(level), now);
        if let Some(status) = status {
            let schema = FlowSchema { status: Some(status), ..FlowSchema::clone(&schema) };
            let expect = WritePrecondition::Revision(stored.revision);
            queue(api, stored.key.as_str(), (expect, Box::new(schema)), &mut pending)?;
        }
    }
    Ok(pending)
}

/// The mandatory and the suggested objects of one kind.
fn keep_own<K: MaintainedObject + AnyObject>(
    api: &ApiShared,
    entry: &KindEntry,
    now: Tick,
    pending: &mut Vec<PendingWrite>,
) -> Result<(), ApiError> {
    let stored = stored::<K>(api, entry)?;
    let found: Vec<K> = stored.iter().map(|read| K::clone(&read.object)).collect();
    for upkeep in rekindle_flow_control::maintain(&found) {
        let (expect, object) = match upkeep {
            ObjectUpkeep::Create(mut object) => {
                object_meta::prepare_new(object.meta_mut(), api.new_uid(), now);
                object.meta_mut().generation = Some(1);
                (WritePrecondition::Absent, object)
            }
            ObjectUpkeep::Update(object) => {
                let name = &object.meta().name;
                let Some(read) = stored.iter().find(|read| read.object.meta().name == *name) else {
                    continue;
                };
                (WritePrecondition::Revision(read.stored.revision), object)
            }
        };
        let key = keys::object(entry, "", object_meta::name(&object));
        queue(api, &key, (expect, Box::new(object)), pending)?;
    }
    Ok(())
}

fn queue(
    api: &ApiShared,
    key: &str,
    (expect, object): (WritePrecondition, Box<dyn AnyObject>),
    pending: &mut Vec<PendingWrite>,
) -> Result<(), ApiError> {
    match put(api, key, expect, object) {
        Ok(write) => pending.push(write),
        // another write came first: its change brings us here again
        Err(
            StoreError::AlreadyExists { .. }
            | StoreError::Conflict { .. }
            | StoreError::NotFound { .. },
        ) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
