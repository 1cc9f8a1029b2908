//! Whether stored objects are what their keys say, and can be read.

use std::collections::BTreeMap;
use std::sync::Arc;

use rekindle_kinds::registry::{KindEntry, ResourceScope};
use rekindle_store::{ObjectFault, StoredObject};
use serde::Deserialize;

use crate::api::Api;

/// What each stored text says of itself.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredHead {
    api_version: String,
    kind: String,
    metadata: StoredMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredMetadata {
    name: String,
    #[serde(default)]
    namespace: String,
    resource_version: String,
}

/// The kinds of stored objects, by what their keys begin with: `pods`, `deployments.apps`.
type StoredKinds = BTreeMap<String, Arc<KindEntry>>;

impl Api {
    /// What is wrong with the objects of the store: one line for each object that is not what its
    /// key says, or cannot be read.
    pub fn stored_faults(&self) -> Vec<ObjectFault> {
        let kinds = self.stored_kinds();
        let fault = |object: &Arc<StoredObject>| {
            let problem = problem_of(&kinds, object)?;
            Some(ObjectFault { key: object.key.clone(), problem })
        };
        self.store().newest_below("").0.iter().filter_map(fault).collect()
    }

    fn stored_kinds(&self) -> StoredKinds {
        let built_in = self.registry().shared_kinds().filter(|entry| entry.home.is_none());
        let mut kinds: StoredKinds =
            built_in.map(|entry| (entry.resource(), Arc::clone(entry))).collect();
        for (place, entry) in self.kinds_of_definitions() {
            kinds.entry(place).or_insert(entry);
        }
        kinds
    }
}

/// What is wrong with an object; none when it is as it should be.
fn problem_of(kinds: &StoredKinds, object: &StoredObject) -> Option<String> {
    let key = object.key.as_str();
    let place = key.strip_prefix('/').and_then(|rest| rest.split_once('/'));
    let Some((entry, rest)) = place.and_then(|(place, rest)| Some((kinds.get(place)?, rest)))
    else {
        return Some("no kind has objects there".to_owned());
    };
    let head: StoredHead = match serde_json::from_slice(&object.value) {
        Ok(head) => head,
        Err(error) => return Some(format!("cannot be read: {error}")),
    };
    let group = head.api_version.rsplit_once('/').map_or("", |(group, _)| group);
    if (group, &*head.kind) != (&*entry.group, &*entry.kind) {
        let (version, kind) = (&head.api_version, &head.kind);
        return Some(format!("is of kind {kind} in {version}, not {}", entry.group_kind()));
    }
    let StoredMetadata { name, namespace, resource_version } = &head.metadata;
    let named = match entry.scope {
        ResourceScope::Namespaced => format!("{namespace}/{name}"),
        ResourceScope::Cluster => name.clone(),
    };
    if named != rest {
        return Some(format!("is named {named:?}"));
    }
    if *resource_version != object.revision.to_string() {
        let revision = object.revision;
        return Some(format!("has resourceVersion {resource_version}, stored at {revision}"));
    }
    let unreadable = entry.codec.decode_stored(&object.value).err()?;
    Some(format!("cannot be read as {}: {unreadable}", entry.kind))
}
