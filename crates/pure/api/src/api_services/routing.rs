//! Which requests another server answers.

use std::sync::Arc;

use http::StatusCode;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::{APIService, ServiceReference};
use rekindle_kinds::api_service::{GROUP, HTTPS_PORT, is_available, name_of, service_of};
use rekindle_kinds::validation::text;

use super::local_api_service::{self, is_built_in, is_replaceable};
use crate::aggregated_request::{AggregatedRequest, AggregatedServer, ServerTrust};
use crate::keys;
use crate::outcome::{ApiAnswer, RequestOutcome};
use crate::request::ApiRequest;
use crate::service_endpoints;
use crate::shared::ApiShared;

/// What becomes of a request to a group version that another server serves; none when this server
/// answers. The caller may make the request: that was decided before.
pub(crate) fn route(
    api: &ApiShared,
    request: &ApiRequest,
    (group, version): (&str, &str),
    is_watch: bool,
) -> Option<RequestOutcome> {
    let api_service = served_elsewhere(api, group, version)?;
    Some(match aggregated(api, request, &api_service, is_watch) {
        Some(request) => RequestOutcome::Aggregated(Box::new(request)),
        None => unavailable().into(),
    })
}

/// The same for the paths of discovery and OpenAPI that belong to one group version.
pub(crate) fn route_discovery(
    api: &ApiShared,
    request: &ApiRequest,
    path: &str,
) -> Option<RequestOutcome> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    match parts.as_slice() {
        ["apis", group, version] | ["openapi", "v3", "apis", group, version] => {
            route(api, request, (group, version), false)
        }
        _ => None,
    }
}

/// As upstream says it while the server does not answer.
fn unavailable() -> ApiAnswer {
    ApiAnswer::text(StatusCode::SERVICE_UNAVAILABLE, "service unavailable\n")
}

/// The APIService of a group version that has a server of its own.
fn served_elsewhere(api: &ApiShared, group: &str, version: &str) -> Option<Arc<APIService>> {
    let is_own = group == GROUP || is_built_in(&api.registry, group, version);
    if is_own && !is_replaceable(group, version) {
        return None;
    }
    let entry = local_api_service::entry(api)?;
    let stored = api.store.get(&keys::object(entry, "", &name_of(group, version)))?;
    let found = api.read_as::<APIService>(entry, &stored).ok()??;
    service_of(&found)?;
    Some(found)
}

fn aggregated(
    api: &ApiShared,
    request: &ApiRequest,
    api_service: &APIService,
    is_watch: bool,
) -> Option<AggregatedRequest> {
    let reference = service_of(api_service).filter(|_| is_available(api_service))?;
    let asked = AskedService::of(reference);
    let service = service_endpoints::stored_service(api, asked.namespace, asked.name).ok()??;
    let port = asked.port.to_string();
    let asked_port = (asked.namespace, asked.name, port.as_str());
    let address = service_endpoints::any_ready(api, &service, asked_port, request.now).ok()?;
    Some(AggregatedRequest {
        server: server_of(api_service, &asked),
        address,
        user: request.identity.shown(),
        is_watch,
        body: request.body.clone(),
    })
}

/// The Service that an APIService names.
pub(super) struct AskedService<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) port: i32,
}

impl<'a> AskedService<'a> {
    pub(super) fn of(reference: &'a ServiceReference) -> Self {
        Self {
            namespace: text(reference.namespace.as_ref()),
            name: text(reference.name.as_ref()),
            port: reference.port.unwrap_or(HTTPS_PORT),
        }
    }
}

/// How the server of an APIService is known.
pub(super) fn server_of(api_service: &APIService, asked: &AskedService<'_>) -> AggregatedServer {
    let spec = api_service.spec.as_ref();
    let bundle = spec.and_then(|spec| spec.ca_bundle.as_ref()).filter(|all| !all.0.is_empty());
    let trust = match bundle {
        _ if spec.is_some_and(|spec| spec.insecure_skip_tls_verify == Some(true)) => {
            ServerTrust::Anything
        }
        Some(bundle) => ServerTrust::Bundle(bundle.0.clone().into()),
        None => ServerTrust::Machine,
    };
    AggregatedServer { host: format!("{}.{}.svc", asked.name, asked.namespace), trust }
}
