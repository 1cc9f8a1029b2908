//! Whether the servers of APIServices can be asked, and what they said.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use rekindle_kinds::api_service::{ServerAvailability, service_of, set_available};
use rekindle_kinds::validation::text;
use rekindle_store::{PendingWrite, StoreError, StoreWatch, StoredObject, WritePrecondition};
use rekindle_types::Tick;

use super::routing::{AskedService, server_of};
use super::server_discovery::ServerDiscovery;
use super::{listed_api_service, local_api_service};
use crate::aggregated_request::AggregatedServer;
use crate::call::{ApiWriteFailure, put, with_retries};
use crate::keys;
use crate::service_endpoints::{self, ReadyEndpoints};
use crate::shared::ApiShared;
use crate::status::ApiError;

/// The kinds that decide whether a server can be asked.
const DECIDING_KINDS: [(&str, &str); 3] = [
    ("apiregistration.k8s.io", "apiservices"),
    ("", "services"),
    ("discovery.k8s.io", "endpointslices"),
];

/// A server that answers for a group version. Two that are equal need be asked once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedServer {
    /// The name of its APIService.
    pub name: String,
    /// The UID of that.
    pub uid: String,
    /// `GROUP/VERSION`.
    pub group_version: String,
    /// How it is known.
    pub server: AggregatedServer,
    /// Where it is, if it can be asked.
    pub endpoints: Result<Vec<SocketAddr>, ServerAvailability>,
}

impl FollowedServer {
    /// The path that it must answer, as upstream asks.
    pub fn discovery_path(&self) -> String {
        format!("/apis/{}", self.group_version)
    }
}

/// The changes from now on that may be of a server.
///
/// # Errors
/// When the store refuses.
pub(crate) fn watch(api: &ApiShared) -> Result<Vec<StoreWatch>, StoreError> {
    let revision = api.store.revision();
    let kinds = DECIDING_KINDS.iter();
    let entries = kinds.filter_map(|(group, plural)| api.registry.find(group, "v1", plural));
    entries.map(|entry| api.store.watch(&keys::collection(entry, ""), revision)).collect()
}

/// The servers of all APIServices that have one, by name. What is known of others is forgotten.
///
/// # Errors
/// When the store refuses.
pub(crate) fn followed(api: &ApiShared) -> Result<Vec<FollowedServer>, ApiError> {
    let mut servers = Vec::new();
    for found in listed_api_service::matching(api, may_have_server) {
        let Some(reference) = service_of(&found) else { continue };
        let asked = AskedService::of(reference);
        let spec = found.spec.as_ref();
        let group = text(spec.and_then(|spec| spec.group.as_ref()));
        let version = text(spec.and_then(|spec| spec.version.as_ref()));
        servers.push(FollowedServer {
            name: text(found.metadata.name.as_ref()).to_owned(),
            uid: text(found.metadata.uid.as_ref()).to_owned(),
            group_version: format!("{group}/{version}"),
            server: server_of(&found, &asked),
            endpoints: endpoints(api, &asked)?,
        });
    }
    let names: BTreeSet<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    api.api_services.keep_discoveries(&names);
    Ok(servers)
}

/// Whether a stored text may be that of an APIService with a Service. Few are, and the others need
/// not be read.
fn may_have_server(stored: &StoredObject) -> bool {
    std::str::from_utf8(&stored.value).is_ok_and(|text| text.contains("\"service\":"))
}

/// Where a Service leads to, or why no server can be asked there. The words are upstream's.
fn endpoints(
    api: &ApiShared,
    asked: &AskedService<'_>,
) -> Result<Result<Vec<SocketAddr>, ServerAvailability>, ApiError> {
    let AskedService { namespace, name, port } = asked;
    let refused = |reason, message| Ok(Err(ServerAvailability::unavailable(reason, message)));
    let Some(service) = service_endpoints::stored_service(api, namespace, name)? else {
        let message = format!("service/{name} in {namespace:?} is not present");
        return refused("ServiceNotFound", message);
    };
    let type_ = service.spec.as_ref().and_then(|spec| spec.type_.as_deref());
    if type_ == Some("ExternalName") {
        let message = format!(
            "service/{name} in {namespace:?} is of type ExternalName, which has no endpoints: use a Service of type ClusterIP"
        );
        return refused("ServiceAccessError", message);
    }
    let asked_port = (*namespace, *name, &*port.to_string());
    Ok(match service_endpoints::all_ready(api, &service, asked_port)? {
        ReadyEndpoints::Found(addresses) => Ok(addresses),
        ReadyEndpoints::NoSuchPort => {
            let message =
                format!("service/{name} in {namespace:?} is not listening on port {port}");
            Err(ServerAvailability::unavailable("ServicePortError", message))
        }
        ReadyEndpoints::NoSlices => {
            let message = format!("cannot find endpointslices for service/{name} in {namespace:?}");
            Err(ServerAvailability::unavailable("EndpointsNotFound", message))
        }
        ReadyEndpoints::NoneReady { port_name } => {
            let message = format!(
                "endpointslices for service/{name} in {namespace:?} have no addresses with port name {port_name:?}"
            );
            Err(ServerAvailability::unavailable("MissingEndpoints", message))
        }
    })
}

/// Notes what a server said, or why it could not be asked. Gives the write of its status, if that
/// changes.
///
/// # Errors
/// When the store refuses.
pub(crate) fn record(
    api: &ApiShared,
    server: &FollowedServer,
    said: Result<ServerDiscovery, ServerAvailability>,
    now: Tick,
) -> Result<Option<PendingWrite>, ApiError> {
    let Some(entry) = local_api_service::entry(api) else { return Ok(None) };
    let availability = match said {
        Ok(discovery) => {
            api.api_services.discovered(&server.name, discovery);
            ServerAvailability::passed()
        }
        Err(availability) => availability,
    };
    let key = keys::object(entry, "", &server.name);
    with_retries(entry, &server.name, || {
        let Some(stored) = api.store.newest(&key) else { return Ok(None) };
        let Some(found) = api.read_as::<APIService>(entry, &stored)? else { return Ok(None) };
        let is_same = found.metadata.uid.as_deref() == Some(server.uid.as_str());
        if !is_same || service_of(&found).is_none() {
            return Ok(None);
        }
        let mut noted = APIService::clone(&found);
        set_available(&mut noted, &availability, now);
        if noted == *found {
            return Ok(None);
        }
        let expect = WritePrecondition::Revision(stored.revision);
        Ok::<_, ApiWriteFailure>(Some(put(api, &key, expect, Box::new(noted))?))
    })
}
