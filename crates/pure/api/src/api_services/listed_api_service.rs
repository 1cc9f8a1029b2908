//! The APIServices as discovery lists them.

use std::sync::Arc;

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use rekindle_kinds::api_service::{is_available, service_of};
use rekindle_kinds::validation::text;
use rekindle_store::{RangeQuery, StoredObject};

use super::local_api_service;
use super::priorities::{self, ApiPriority};
use super::server_discovery::ServerDiscovery;
use crate::keys;
use crate::shared::ApiShared;

/// A group version that has an APIService.
pub(crate) struct ListedApiService {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) priority: ApiPriority,
    /// What another server serves of it; none when this one does.
    pub(crate) served_elsewhere: Option<ServedElsewhere>,
}

/// What another server serves.
pub(crate) struct ServedElsewhere {
    /// As it said last; none before it has.
    pub(crate) discovery: Option<Arc<ServerDiscovery>>,
    /// Whether it may serve something else by now.
    pub(crate) is_stale: bool,
}

/// All of them, as they are durable.
pub(crate) fn listed(api: &ApiShared) -> Vec<ListedApiService> {
    matching(api, |_| true).iter().map(|found| describe(api, found)).collect()
}

/// The APIServices that can be read, of those that are wanted.
pub(super) fn matching(
    api: &ApiShared,
    is_wanted: impl Fn(&StoredObject) -> bool,
) -> Vec<Arc<APIService>> {
    let Some(entry) = local_api_service::entry(api) else { return Vec::new() };
    let query = RangeQuery { prefix: keys::collection(entry, ""), ..RangeQuery::default() };
    let Ok(page) = api.store.range(&query) else { return Vec::new() };
    let wanted = page.objects.iter().filter(|stored| is_wanted(stored));
    wanted.filter_map(|stored| api.read_as(entry, stored).ok()?).collect()
}

/// That of a group version which this program itself serves.
pub(crate) fn local_priority(group: &str, version: &str) -> ApiPriority {
    priorities::of_built_in(group, version).unwrap_or(priorities::OF_DEFINITIONS)
}

fn describe(api: &ApiShared, found: &APIService) -> ListedApiService {
    let spec = found.spec.clone().unwrap_or_default();
    let name = text(found.metadata.name.as_ref());
    let served_elsewhere = service_of(found).map(|_| {
        let discovery = api.api_services.discovery_of(name);
        let is_stale = discovery.is_none() || !is_available(found);
        ServedElsewhere { discovery, is_stale }
    });
    ListedApiService {
        group: spec.group.unwrap_or_default(),
        version: spec.version.unwrap_or_default(),
        priority: ApiPriority {
            group: spec.group_priority_minimum,
            version: spec.version_priority,
        },
        served_elsewhere,
    }
}
