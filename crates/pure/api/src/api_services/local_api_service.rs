//! The APIServices of group versions that this server answers for itself: stored as all objects,
//! and kept by the server.
//!
//! Upstream's `autoregister` and `crdregistration` controllers do this a moment after the cause.
//! Here it comes with the write that is the cause.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::{APIService, APIServiceSpec};
use rekindle_kinds::api_service::{self, name_of, service_of};
use rekindle_kinds::identity::ClientIdentity;
use rekindle_kinds::registry::{AnyObject, ApiKind, KindEntry, Registry, RequestContext};
use rekindle_store::{PendingWrite, StoreError, StoredObject, WritePrecondition};
use rekindle_types::Tick;

use super::priorities::{self, ApiPriority};
use crate::call::{ApiCall, put, remove};
use crate::custom;
use crate::keys;
use crate::object_meta;
use crate::resource_metrics;
use crate::reviews;
use crate::shared::ApiShared;
use crate::status::ApiError;

/// The label of what the server keeps.
const AUTO_MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
/// Its value for built-in group versions: put right when the engine starts.
const ON_START: &str = "onstart";
/// Its value for those of definitions: put right at once.
const ALWAYS: &str = "true";

/// A group and a version.
type OwnedGroupVersion = (String, String);

/// An APIService that the server keeps.
struct LocalApiService {
    group_version: OwnedGroupVersion,
    priority: ApiPriority,
    managed: &'static str,
}

/// The kind itself; none when it is not served.
pub(super) fn entry(api: &ApiShared) -> Option<&Arc<KindEntry>> {
    api.registry.find(api_service::GROUP, "v1", api_service::PLURAL)
}

/// Whether the objects of a kind are APIServices.
pub(super) fn is_api_service(entry: &KindEntry) -> bool {
    entry.group_and_plural() == (api_service::GROUP, api_service::PLURAL)
}

/// Whether this program answers for a group version, whatever definitions say.
pub(super) fn is_built_in(registry: &Registry, group: &str, version: &str) -> bool {
    let found = registry.in_group(group).any(|entry| entry.version == version);
    let is_review = || reviews::REVIEWS.iter().any(|review| review.group == group);
    found || version == reviews::VERSION && is_review() || is_replaceable(group, version)
}

/// Whether a user may have another server answer for a group version of this program. Most clusters
/// run a metrics-server; all else is needed by the engine itself.
pub(super) fn is_replaceable(group: &str, version: &str) -> bool {
    (group, version) == (resource_metrics::GROUP, resource_metrics::VERSION)
}

/// Every group version of this program that has an APIService, but that of APIServices itself: as
/// upstream, it is always there.
pub(super) fn built_in_group_versions(registry: &Registry) -> BTreeSet<OwnedGroupVersion> {
    let owned = |group: &str, version: &str| (group.to_owned(), version.to_owned());
    let stored = registry.group_versions().into_iter();
    let mut all: BTreeSet<_> = stored
        .filter(|(group, _)| *group != api_service::GROUP)
        .map(|(group, version)| owned(group, version))
        .collect();
    all.extend(reviews::REVIEWS.iter().map(|review| owned(review.group, reviews::VERSION)));
    all.insert(owned(resource_metrics::GROUP, resource_metrics::VERSION));
    all
}

/// Those that should be there, by their names.
fn wanted(api: &ApiShared) -> BTreeMap<String, LocalApiService> {
    let mut wanted = BTreeMap::new();
    let mut add = |(group, version): OwnedGroupVersion, priority, managed| {
        let name = name_of(&group, &version);
        let group_version = (group, version);
        wanted.entry(name).or_insert(LocalApiService { group_version, priority, managed });
    };
    for (group, version) in built_in_group_versions(&api.registry) {
        let priority = priorities::of_built_in(&group, &version);
        add((group, version), priority.unwrap_or(priorities::OF_DEFINITIONS), ON_START);
    }
    for (_, kind) in api.custom.newest(api) {
        for entry in kind.served() {
            let group_version = (entry.group.to_string(), entry.version.to_string());
            add(group_version, priorities::OF_DEFINITIONS, ALWAYS);
        }
    }
    wanted
}

impl LocalApiService {
    fn spec(&self) -> APIServiceSpec {
        let (group, version) = &self.group_version;
        APIServiceSpec {
            group: Some(group.clone()).filter(|group| !group.is_empty()),
            version: Some(version.clone()),
            group_priority_minimum: self.priority.group,
            version_priority: self.priority.version,
            ..APIServiceSpec::default()
        }
    }

    fn object(&self, api: &ApiShared, name: &str, now: Tick) -> APIService {
        let labels = [(AUTO_MANAGED.to_owned(), self.managed.to_owned())];
        let mut object = APIService {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                labels: Some(labels.into()),
                ..ObjectMeta::default()
            },
            spec: Some(self.spec()),
            status: None,
        };
        object_meta::prepare_new(&mut object.metadata, api.new_uid(), now);
        let identity = ClientIdentity::server();
        ApiKind::prepare_for_create(&mut object, &RequestContext { now, identity: &identity });
        object
    }

    /// The one that is there as it should be; none when it is right, or belongs to a user.
    fn put_right(&self, found: &APIService, now: Tick) -> Option<APIService> {
        let (group, version) = &self.group_version;
        let is_taken_over = service_of(found).is_some() && is_replaceable(group, version);
        if !is_managed(found) || is_taken_over || found.spec.as_ref() == Some(&self.spec()) {
            return None;
        }
        let mut right = found.clone();
        right.spec = Some(self.spec());
        api_service::set_local(&mut right, now);
        Some(right)
    }
}

fn is_managed(api_service: &APIService) -> bool {
    let label = api_service.metadata.labels.as_ref().and_then(|labels| labels.get(AUTO_MANAGED));
    label.is_some_and(|value| value == ON_START || value == ALWAYS)
}

/// Refuses a Service that shall answer for what this program serves, but that of metrics.
pub(crate) fn check_server(call: &ApiCall<'_>, new: &dyn AnyObject) -> Result<(), ApiError> {
    let Some(found) = new.as_any().downcast_ref::<APIService>() else { return Ok(()) };
    let spec = found.spec.as_ref();
    let part = |part: Option<&String>| part.cloned().unwrap_or_default();
    let group = part(spec.and_then(|spec| spec.group.as_ref()));
    let version = part(spec.and_then(|spec| spec.version.as_ref()));
    let is_own = group == api_service::GROUP || is_built_in(&call.api.registry, &group, &version);
    if service_of(found).is_none() || !is_own || is_replaceable(&group, &version) {
        return Ok(());
    }
    let why = format!(
        "spec.service: the engine serves {} itself and needs it; of its own group versions only {}/{} can be served by another server",
        if group.is_empty() { version.clone() } else { format!("{group}/{version}") },
        resource_metrics::GROUP,
        resource_metrics::VERSION,
    );
    Err(ApiError::forbidden(call.entry, object_meta::name(new), &why))
}

/// Which of those that are there are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SettledOnes {
    /// All of them.
    All,
    /// Those of definitions.
    OfDefinitions,
}

/// Makes what is missing, removes what is there without a reason, and puts the others right.
///
/// # Errors
/// When the store refuses. The caller waits for what is returned.
pub(crate) fn bootstrap(api: &ApiShared, now: Tick) -> Result<Vec<PendingWrite>, StoreError> {
    settle(api, SettledOnes::All, now)
}

/// The same once a definition or an APIService was written or removed.
pub(crate) fn settle_written(
    call: &ApiCall<'_>,
    _namespace: &str,
    _name: &str,
) -> Result<Vec<PendingWrite>, ApiError> {
    if custom::is_definition(call.entry) || is_api_service(call.entry) {
        return Ok(settle_definitions(call.api, call.request.now)?);
    }
    Ok(Vec::new())
}

/// The same once a definition has gone.
pub(crate) fn settle_definitions(
    api: &ApiShared,
    now: Tick,
) -> Result<Vec<PendingWrite>, StoreError> {
    settle(api, SettledOnes::OfDefinitions, now)
}

fn settle(api: &ApiShared, ones: SettledOnes, now: Tick) -> Result<Vec<PendingWrite>, StoreError> {
    let Some(entry) = entry(api) else { return Ok(Vec::new()) };
    let _one_at_a_time = api.api_services.hold_settling();
    let prefix = keys::collection(entry, "");
    let (stored, _) = api.store.newest_below(&prefix);
    let mut missing = wanted(api);
    let mut pending = Vec::new();
    for stored in &stored {
        let name = stored.key.as_str().strip_prefix(&prefix).unwrap_or_default();
        let wanted = missing.remove(name);
        let is_skipped = wanted.as_ref().is_some_and(|wanted| wanted.managed == ON_START);
        if is_skipped && ones == SettledOnes::OfDefinitions {
            continue;
        }
        pending.extend(settle_one((api, entry), stored, wanted, now)?);
    }
    for (name, wanted) in missing {
        let object = Box::new(wanted.object(api, &name, now));
        let key = keys::object(entry, "", &name);
        match put(api, &key, WritePrecondition::Absent, object) {
            Ok(write) => pending.push(write),
            // a user was faster
            Err(StoreError::AlreadyExists { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(pending)
}

fn settle_one(
    (api, entry): (&ApiShared, &Arc<KindEntry>),
    stored: &Arc<StoredObject>,
    wanted: Option<LocalApiService>,
    now: Tick,
) -> Result<Vec<PendingWrite>, StoreError> {
    // one that cannot be read is not overwritten: whoever put it there may want it back
    let Ok(Some(found)) = api.read_as::<APIService>(entry, stored) else { return Ok(Vec::new()) };
    let written = match wanted {
        Some(wanted) => match wanted.put_right(&found, now) {
            Some(right) => {
                let expect = WritePrecondition::Revision(stored.revision);
                put(api, stored.key.as_str(), expect, Box::new(right)).map(|write| vec![write])
            }
            None => return Ok(Vec::new()),
        },
        None if is_managed(&found) => remove(api, entry, stored, now),
        None => return Ok(Vec::new()),
    };
    match written {
        // who has written it in between settles it
        Err(StoreError::Conflict { .. } | StoreError::NotFound { .. }) => Ok(Vec::new()),
        written => written,
    }
}
