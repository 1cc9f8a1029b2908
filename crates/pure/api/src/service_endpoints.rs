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

/// A ready endpoint of the port that is asked for, by its number or its name.
///
/// # Errors
/// 503 when there is none.
pub(crate) fn any_ready(
    api: &ApiShared,
    service: &Service,
    (namespace, name, port): (&str, &str, &str),
    now: Tick,
) -> Result<SocketAddr, ApiError> {
    let none = || {
        let message = format!("no endpoints available for service {name:?}");
        ApiError::unavailable(message)
    };
    let ports: Vec<_> = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten()).collect();
    let port_name = match port.parse::<i32>() {
        Ok(number) => {
            let port = ports.iter().find(|port| port.port == number).ok_or_else(|| {
                let message = format!("no service port {number} found for service {name:?}");
                ApiError::unavailable(message)
            })?;
            port.name.clone().unwrap_or_default()
        }
        Err(_) => port.to_owned(),
    };
    let mut addresses = Vec::new();
    for slice in slices_of(api, namespace, name)? {
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
    // any of them: the time of the request spreads them well enough
    let micros = usize::try_from(now.since(Tick::ZERO).as_micros()).unwrap_or_default();
    let at = micros.checked_rem(addresses.len()).ok_or_else(none)?;
    Ok(addresses[at])
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
