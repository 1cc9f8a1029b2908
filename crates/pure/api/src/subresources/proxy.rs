//! `pods/proxy` and `services/proxy`: which address a request is handed on to. The front carries
//! it there.
//!
//! Source of behaviour: the API reference of both; upstream's `ResourceLocation` of pods and of
//! services for names, ports and errors; `proxyutil.IsProxyableIP` for addresses.

use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::{Pod, Service};

use crate::admission::request_bodies::{self, RequestBody};
use crate::call::ApiCall;
use crate::keys;
use crate::outcome::RequestOutcome;
use crate::proxy_request::{ProxyRequest, ProxyScheme};
use crate::service_endpoints;
use crate::status::ApiError;

/// Segments of a path before what follows `proxy`: api, version, namespaces, namespace, resource,
/// name, proxy.
const OWN_SEGMENTS: usize = 7;

/// `[scheme:]name[:port]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProxyName<'n> {
    scheme: ProxyScheme,
    name: &'n str,
    /// Empty: the target's own.
    port: &'n str,
}

/// Any method, to anything that the target serves.
pub(crate) fn connect(call: &ApiCall<'_>) -> Result<RequestOutcome, ApiError> {
    let invalid = || {
        let kind = &call.entry.singular;
        ApiError::bad_request(format!("invalid {kind} request {:?}", call.path.name))
    };
    let (own_path, path) = split_path(&call.request.path);
    let kind = match &*call.entry.kind {
        "Pod" => "PodProxyOptions",
        _ => "ServiceProxyOptions",
    };
    request_bodies::check(call, &proxied(kind, path))?;
    let asked = ProxyName::parse(&call.path.name).ok_or_else(invalid)?;
    let key = keys::object(call.entry, &call.path.namespace, asked.name);
    let stored = call.api.store.get(&key);
    let stored = stored.ok_or_else(|| ApiError::not_found(call.entry, asked.name))?;
    let object = call.read(&stored)?;
    let address = match object.as_any().downcast_ref::<Pod>() {
        Some(pod) => address_of_pod(pod, asked)?,
        None => {
            let service = object.as_any().downcast_ref::<Service>();
            let service = service.ok_or_else(ApiError::method_not_allowed)?;
            let asked = (call.path.namespace.as_str(), asked.name, asked.port);
            service_endpoints::any_ready(call.api, service, asked, call.request.now)?
        }
    };
    if !is_reachable(address.ip()) {
        return Err(ApiError::bad_request("address not allowed"));
    }
    Ok(RequestOutcome::Proxy(Box::new(ProxyRequest {
        scheme: asked.scheme,
        address,
        own_path: own_path.to_owned(),
        path: path.to_owned(),
        body: call.request.body.clone(),
    })))
}

/// What a request to a proxy asks for, as policies and webhooks see it.
pub(super) fn proxied(kind: &'static str, path: &str) -> RequestBody {
    let path = match path {
        "" => None,
        path => Some(format!("/{}", path.trim_start_matches('/'))),
    };
    let path = path.map(|path| ("path".to_owned(), path.into()));
    RequestBody::connected(kind, path.into_iter().collect())
}

impl<'n> ProxyName<'n> {
    fn parse(text: &'n str) -> Option<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let (scheme, name, port) = match parts.as_slice() {
            [name] => (ProxyScheme::Http, *name, ""),
            [name, port] => (ProxyScheme::Http, *name, *port),
            [scheme, name, port] => (ProxyScheme::parse(scheme)?, *name, *port),
            _ => return None,
        };
        (!name.is_empty()).then_some(Self { scheme, name, port })
    }
}

/// The port that is asked for, by its number or its name; else the first that a container has.
fn address_of_pod(pod: &Pod, asked: ProxyName<'_>) -> Result<SocketAddr, ApiError> {
    /// Of a pod whose containers name none.
    const ANY_PORT: u16 = 80;
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
    let named = |port: i32| u16::try_from(port).ok().filter(|port| *port > 0);
    let port = match asked.port {
        "" => ports.find_map(|port| named(port.container_port)).unwrap_or(ANY_PORT),
        text => match text.parse().ok().filter(|port: &u16| *port > 0) {
            Some(port) => port,
            None => {
                let of_name = ports.find(|port| port.name.as_deref() == Some(text));
                of_name.and_then(|port| named(port.container_port)).ok_or_else(|| {
                    let name = asked.name;
                    ApiError::bad_request(format!("pod {name:?} has no port {text:?}"))
                })?
            }
        },
    };
    let ip = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref()).unwrap_or_default();
    let ip = ip.parse().map_err(|_| ApiError::bad_request("address not allowed"))?;
    Ok(SocketAddr::new(ip, port))
}

/// What only this machine can reach is not handed out through the API.
fn is_reachable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let link_local = address.is_link_local()
                || address.is_multicast() && address.octets()[..3] == [224, 0, 0];
            !(address.is_loopback() || address.is_unspecified() || link_local)
        }
        IpAddr::V6(address) => {
            let link_local = address.is_unicast_link_local() || address.is_multicast();
            !(address.is_loopback() || address.is_unspecified() || link_local)
        }
    }
}

/// The path of the subresource, and what follows it, both as the client wrote them.
fn split_path(path: &str) -> (&str, &str) {
    let mut segments = 0;
    let mut in_segment = false;
    for (at, byte) in path.bytes().enumerate() {
        match (byte, in_segment) {
            (b'/', true) => {
                if segments == OWN_SEGMENTS {
                    return path.split_at(at);
                }
                in_segment = false;
            }
            (b'/', false) | (_, true) => {}
            (_, false) => {
                segments += 1;
                in_segment = true;
            }
        }
    }
    (path, "")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_may_have_a_scheme_and_a_port() {
        let name = |scheme, name, port| Some(ProxyName { scheme, name, port });
        for (text, expected) in [
            ("web", name(ProxyScheme::Http, "web", "")),
            ("web:80", name(ProxyScheme::Http, "web", "80")),
            ("web:http", name(ProxyScheme::Http, "web", "http")),
            ("http:web:80", name(ProxyScheme::Http, "web", "80")),
            ("https:web:", name(ProxyScheme::Https, "web", "")),
            (":web:", name(ProxyScheme::Http, "web", "")),
            ("ftp:web:80", None),
            ("https::80", None),
            ("a:b:c:d", None),
            ("", None),
        ] {
            assert_eq!(ProxyName::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn a_pod_is_asked_at_the_port_of_the_request_or_its_first_one() {
        let pod: Pod = serde_json::from_value(json!({
            "spec": { "containers": [{ "name": "a" },
                { "name": "b", "ports": [{ "containerPort": 8080, "name": "http" }, { "containerPort": 9 }] }] },
            "status": { "podIP": "10.88.0.2" },
        }))
        .unwrap();
        for (name, expected) in [
            ("web", Some("10.88.0.2:8080")),
            ("web:81", Some("10.88.0.2:81")),
            ("web:http", Some("10.88.0.2:8080")),
            ("web:grpc", None),
            ("web:0", None),
        ] {
            let asked = ProxyName::parse(name).unwrap();
            let address = address_of_pod(&pod, asked).ok().map(|address| address.to_string());
            assert_eq!(address.as_deref(), expected, "{name}");
        }
        let asked = ProxyName::parse("web").unwrap();
        let waiting = address_of_pod(&Pod::default(), asked).unwrap_err();
        assert_eq!(waiting.code(), 400);
    }

    #[test]
    fn what_only_this_machine_reaches_is_not_asked() {
        for address in ["127.0.0.1", "169.254.169.254", "224.0.0.1", "0.0.0.0", "::1", "fe80::1"] {
            assert!(!is_reachable(address.parse().unwrap()), "{address}");
        }
        for address in ["10.88.0.2", "192.0.2.1", "239.1.1.1", "fd00::2"] {
            assert!(is_reachable(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn what_follows_the_subresource_is_kept_as_it_was_written() {
        let own = "/api/v1/namespaces/shop/pods/web:80/proxy";
        for rest in ["", "/", "/a/b", "/a//b/", "/a%2Fb"] {
            assert_eq!(split_path(&format!("{own}{rest}")), (own, rest));
        }
    }
}
