//! API priority and fairness, as far as objects have a part in it: what is stored of FlowSchemas
//! and levels, and what the server has to keep of its own. [`rekindle_flow_control`] decides which
//! requests run; the front asks it.

mod classification;
mod feed;
mod upkeep;

pub use classification::ClassifiedRequest;
pub use feed::FlowControlFeed;
pub(crate) use feed::{configuration, follow};
pub(crate) use upkeep::maintain;

use std::any::Any;
use std::sync::Arc;

use rekindle_kinds::registry::KindEntry;
use rekindle_store::{RangeQuery, StoredObject};

use crate::keys;
use crate::shared::ApiShared;
use crate::status::ApiError;

/// The kind, where it is served.
fn entry<'a>(api: &'a ApiShared, plural: &str) -> Option<&'a Arc<KindEntry>> {
    api.registry.find(rekindle_kinds::flow_control::GROUP, "v1", plural)
}

/// An object, with what it was read from.
struct StoredFlowObject<K> {
    stored: Arc<StoredObject>,
    object: Arc<K>,
}

/// All objects of the kind, as they are durable.
fn stored<K: Any + Send + Sync>(
    api: &ApiShared,
    entry: &KindEntry,
) -> Result<Vec<StoredFlowObject<K>>, ApiError> {
    let query = RangeQuery { prefix: keys::collection(entry, ""), ..RangeQuery::default() };
    let mut found = Vec::new();
    for stored in api.store.range(&query)?.objects {
        if let Some(object) = api.read_as::<K>(entry, &stored)? {
            found.push(StoredFlowObject { stored, object });
        }
    }
    Ok(found)
}
