//! Which endpoint of a Service is asked when the server itself makes the connection.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use rekindle_store::RangeQuery;
use rekindle_types::{Tick, labels};

use crate::keys;
use crate::shared::ApiShared;
use crate::status::ApiError;

/// The Service of this name, if it is there.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn stored_service(
    api: &ApiShared,
    namespace: &str,
    name: &str,
) -> Result<Option<Arc<Service>>, ApiError> {
    let Some(entry) = api.registry.find("", "v1", "services") else { return Ok(None) };
    match api.store.get(&keys::object(entry, namespace, name)) {
        Some(stored) => api.read_as(entry, &stored),
        None => Ok(None),
    }
}

/// The ready endpoints of a port, or why there is none.
pub(crate) enum ReadyEndpoints {
    /// At least one.
    Found(Vec<SocketAddr>),
    /// The Service has no such port.
    NoSuchPort,
    /// It has no EndpointSlice.
    NoSlices,
    /// None of its endpoints is ready at the port of this name.
    NoneReady {
        /// The name.
        port_name: String,
    },
}

/// A ready endpoint of the port that is asked for, by its number or its name.
///
/// # Errors
/// 503 when there is none.
pub(crate) fn any_ready(
    api: &ApiShared,
    service: &Service,
    asked: (&str, &str, &str),
    now: Tick,
) -> Result<SocketAddr, ApiError> {
    let (_, name, port) = asked;
    let addresses = match all_ready(api, service, asked)? {
        ReadyEndpoints::Found(addresses) => addresses,
        ReadyEndpoints::NoSuchPort => {
            let message = format!("no service port {port} found for service {name:?}");
            return Err(ApiError::unavailable(message));
        }
        ReadyEndpoints::NoSlices | ReadyEndpoints::NoneReady { .. } => {
            let message = format!("no endpoints available for service {name:?}");
            return Err(ApiError::unavailable(message));
        }
    };
    // any of them: the time of the request spreads them well enough
    let micros = usize::try_from(now.since(Tick::ZERO).as_micros()).unwrap_or_default();
    Ok(addresses[micros % addresses.len()])
}

/// Every ready endpoint of the port that is asked for, by its number or its name.
///
/// # Errors
/// When the store refuses.
pub(crate) fn all_ready(
    api: &ApiShared,
    service: &Service,
    (namespace, name, port): (&str, &str, &str),
) -> Result<ReadyEndpoints, ApiError> {
    let mut ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    let port_name = match port.parse::<i32>() {
        Ok(number) => match ports.find(|port| port.port == number) {
            Some(port) => port.name.clone().unwrap_or_default(),
            None => return Ok(ReadyEndpoints::NoSuchPort),
        },
        Err(_) => port.to_owned(),
    };
    let slices = slices_of(api, namespace, name)?;
    if slices.is_empty() {
        return Ok(ReadyEndpoints::NoSlices);
    }
    let mut addresses = Vec::new();
    for slice in slices {
        let named = |name: Option<&str>| name.unwrap_or_default() == port_name;
        let port = slice.ports.iter().flatten().find(|port| named(port.name.as_deref()));
        let Some(port) = port.and_then(|port| u16::try_from(port.port?).ok()) else { continue };
        for endpoint in slice.endpoints.iter().flatten() {
            let is_ready = endpoint.conditions.as_ref().and_then(|c| c.ready).unwrap_or(true);
            let address = endpoint.addresses.first().and_then(|text| text.parse::<IpAddr>().ok());
            if let Some(address) = address.filter(|_| is_ready) {
                addresses.push(SocketAddr::new(address, port));
            }
        }
    }
    if addresses.is_empty() {
        return Ok(ReadyEndpoints::NoneReady { port_name });
    }
    Ok(ReadyEndpoints::Found(addresses))
}

fn slices_of(
    api: &ApiShared,
    namespace: &str,
    service: &str,
) -> Result<Vec<Arc<EndpointSlice>>, ApiError> {
    let entry = api.registry.find("discovery.k8s.io", "v1", "endpointslices");
    let Some(entry) = entry else { return Ok(Vec::new()) };
    let prefix = keys::collection(entry, namespace);
    let range = api.store.range(&RangeQuery { prefix, ..RangeQuery::default() })?;
    let mut slices = Vec::new();
    for stored in range.objects {
        let slice = api.read_as::<EndpointSlice>(entry, &stored)?;
        let is_of_service = |slice: &EndpointSlice| {
            let labels = slice.metadata.labels.as_ref();
            labels.and_then(|labels| labels.get(labels::SERVICE_NAME)).map(String::as_str)
                == Some(service)
        };
        slices.extend(slice.filter(|slice| is_of_service(slice)));
    }
    Ok(slices)
}
