//! managedFields as they are kept, and the owners that they say.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    FieldsV1, ManagedFieldsEntry, ObjectMeta, Time,
};
use rekindle_structured_merge::{
    FieldOperation, FieldOwner, FieldOwners, FieldSet, FieldSetError, OwnedFields,
};
use serde_json::Value;

/// The one form of fields.
const FIELDS_TYPE: &str = "FieldsV1";

/// Why entries are none.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// The operation is neither of the two.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// There is no version.
    #[error("apiVersion must not be empty")]
    ApiVersion,
    /// The fields are of another form.
    #[error("fieldsType must be FieldsV1")]
    FieldsType,
    /// The fields cannot be read.
    #[error(transparent)]
    Fields(#[from] FieldSetError),
}

/// The owners that entries say.
pub fn read(entries: &[ManagedFieldsEntry]) -> Result<FieldOwners, EntryError> {
    let mut owners = FieldOwners::default();
    for entry in entries {
        let operation = match entry.operation.as_deref() {
            Some("Apply") => FieldOperation::Apply,
            Some("Update") => FieldOperation::Update,
            _ => return Err(EntryError::Operation),
        };
        let api_version = entry.api_version.clone().unwrap_or_default();
        if api_version.is_empty() {
            return Err(EntryError::ApiVersion);
        }
        if entry.fields_type.as_deref() != Some(FIELDS_TYPE) {
            return Err(EntryError::FieldsType);
        }
        let fields = match &entry.fields_v1 {
            None => FieldSet::default(),
            Some(FieldsV1(Value::String(text))) => FieldSet::from_json(text)?,
            Some(FieldsV1(tree)) => FieldSet::from_json(&tree.to_string())?,
        };
        let owner = FieldOwner {
            manager: entry.manager.clone().unwrap_or_default(),
            operation,
            api_version: match operation {
                FieldOperation::Apply => String::new(),
                FieldOperation::Update => api_version.clone(),
            },
            subresource: entry.subresource.clone().unwrap_or_default(),
        };
        let time_seconds = entry.time.as_ref().map(|Time(time)| time.as_second());
        owners.insert(owner, OwnedFields { fields, api_version, time_seconds });
    }
    Ok(owners)
}

/// The entries of owners. Each set of fields is one text.
pub fn write(owners: &FieldOwners) -> Option<Vec<ManagedFieldsEntry>> {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let entries = owners.sorted().into_iter().map(|(owner, owned)| ManagedFieldsEntry {
        manager: text(&owner.manager),
        operation: text(owner.operation.name()),
        api_version: text(&owned.api_version),
        fields_type: text(FIELDS_TYPE),
        fields_v1: Some(FieldsV1(Value::String(owned.fields.to_json()))),
        subresource: text(&owner.subresource),
        time: owned
            .time_seconds
            .and_then(|seconds| jiff::Timestamp::from_second(seconds).ok())
            .map(Time),
    });
    Some(entries.collect::<Vec<_>>()).filter(|entries| !entries.is_empty())
}

/// Makes one text of each set of fields, of metadata that was read from JSON.
pub fn compact(meta: &mut ObjectMeta) {
    for entry in meta.managed_fields.iter_mut().flatten() {
        if let Some(FieldsV1(fields)) = &mut entry.fields_v1
            && !fields.is_string()
        {
            *fields = Value::String(fields.to_string());
        }
    }
}

/// Whether entries that this server wrote are the same but for their times.
pub fn same_but_for_times(
    one: &Option<Vec<ManagedFieldsEntry>>,
    other: &Option<Vec<ManagedFieldsEntry>>,
) -> bool {
    /// All but the time, which decides about the order. An object may have ten thousands of them.
    fn keys(entries: &[ManagedFieldsEntry]) -> BTreeSet<impl Ord> {
        let keys = entries.iter().map(|entry| {
            let fields = entry.fields_v1.as_ref().and_then(|fields| fields.0.as_str());
            (&entry.manager, &entry.operation, &entry.subresource, &entry.api_version, fields)
        });
        keys.collect()
    }
    let (one, other) = (one.as_deref().unwrap_or_default(), other.as_deref().unwrap_or_default());
    one.len() == other.len() && keys(one) == keys(other)
}

/// Whether these entries ask to forget all owners: none at all, or one that says nothing.
pub fn are_reset(entries: Option<&Vec<ManagedFieldsEntry>>) -> bool {
    match entries.map(Vec::as_slice) {
        None => false,
        Some([]) => true,
        Some([entry]) => *entry == ManagedFieldsEntry::default(),
        Some(_) => false,
    }
}
