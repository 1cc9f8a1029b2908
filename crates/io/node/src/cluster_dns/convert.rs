//! The API's objects as DNS needs them: pure.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{PodIP, Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use kube::core::{NotUsed, Object};
use rekindle_net::dns;
use rekindle_types::labels::SERVICE_NAME;
use rekindle_types::pods::is_final;
use serde::Deserialize;

/// What a Service is called, if it is called anything.
pub(super) fn service(service: &Service) -> Option<dns::DnsService> {
    let spec = service.spec.as_ref()?;
    match (spec.type_.as_deref(), &spec.external_name) {
        (Some("ExternalName"), Some(name)) => Some(dns::DnsService::External(name.clone())),
        (Some("ExternalName"), None) => None,
        (Some(_) | None, _) => {
            let single = spec.cluster_ips.is_none().then_some(spec.cluster_ip.as_ref());
            let texts = spec.cluster_ips.iter().flatten().chain(single.flatten());
            // `None` is no address
            let addresses: Vec<_> = texts.filter_map(|text| text.parse().ok()).collect();
            Some(match addresses.is_empty() {
                true => dns::DnsService::Endpoints,
                false => {
                    let ports = spec.ports.iter().flatten().filter_map(service_port);
                    dns::DnsService::Addresses(addresses, ports.collect())
                }
            })
        }
    }
}

/// The same where nothing leads from cluster IPs to pods: names lead to the pods themselves.
pub(super) fn service_without_routes(of: &Service) -> Option<dns::DnsService> {
    service(of).map(|service| match service {
        dns::DnsService::Addresses(..) => dns::DnsService::Endpoints,
        other @ (dns::DnsService::Endpoints | dns::DnsService::External(_)) => other,
    })
}

fn service_port(port: &ServicePort) -> Option<dns::DnsPort> {
    Some(dns::DnsPort {
        name: port.name.clone().unwrap_or_default(),
        protocol: port.protocol.as_deref().unwrap_or("TCP").to_ascii_lowercase(),
        number: u16::try_from(port.port).ok()?,
    })
}

/// The endpoints of a slice that are ready. One that says nothing of it is (API reference of
/// EndpointConditions), and the controller that writes slices sees to `publishNotReadyAddresses`.
pub(super) fn slice(slice: &EndpointSlice) -> Option<dns::DnsSlice> {
    let service = slice.metadata.labels.as_ref()?.get(SERVICE_NAME)?.clone();
    let ready = |endpoint: &&Endpoint| {
        endpoint.conditions.as_ref().is_none_or(|conditions| conditions.ready != Some(false))
    };
    let endpoints = slice.endpoints.iter().flatten().filter(ready);
    let endpoints = endpoints.flat_map(|endpoint| {
        let hostname = endpoint.hostname.as_ref().map(|name| name.to_ascii_lowercase());
        // names (address type FQDN) are no addresses
        let addresses = endpoint.addresses.iter().filter_map(|address| address.parse().ok());
        addresses.map(move |address| dns::DnsEndpoint { address, hostname: hostname.clone() })
    });
    Some(dns::DnsSlice {
        service,
        endpoints: endpoints.collect(),
        ports: slice.ports.iter().flatten().filter_map(port).collect(),
    })
}

fn port(port: &EndpointPort) -> Option<dns::DnsPort> {
    Some(dns::DnsPort {
        name: port.name.clone().unwrap_or_default(),
        protocol: port.protocol.as_deref().unwrap_or("TCP").to_ascii_lowercase(),
        number: u16::try_from(port.port?).ok()?,
    })
}

/// What is read of a pod. Pods change more often than anything else, and most of one is nothing to
/// DNS.
pub(super) type PodStatus = Object<NotUsed, PodAddressStatus>;

/// A part of a pod's status.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct PodAddressStatus {
    phase: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    #[serde(rename = "podIPs", default)]
    pod_ips: Option<Vec<PodIP>>,
}

/// The addresses of a pod that has not ended.
pub(super) fn pod(pod: &PodStatus) -> Option<dns::DnsPod> {
    let status = pod.status.as_ref()?;
    if status.phase.as_deref().is_some_and(is_final) {
        return None;
    }
    let listed = status.pod_ips.iter().flatten().map(|listed| listed.ip.as_str());
    let mut addresses: Vec<IpAddr> =
        listed.chain(status.pod_ip.as_deref()).filter_map(|text| text.parse().ok()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    (!addresses.is_empty()).then_some(dns::DnsPod { addresses })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_service_is_its_addresses_its_endpoints_or_another_name() {
        let of = |spec: Value| {
            service(&serde_json::from_value(json!({ "spec": spec })).expect("a Service"))
        };
        let external = json!({ "type": "ExternalName", "externalName": "db.example.com" });
        assert_eq!(of(external), Some(dns::DnsService::External("db.example.com".to_owned())));
        assert_eq!(of(json!({ "type": "ExternalName" })), None);
        for clusterip in [json!("None"), Value::Null] {
            let spec = json!({ "type": "ClusterIP", "clusterIP": clusterip });
            assert_eq!(of(spec), Some(dns::DnsService::Endpoints));
        }
        let port = json!([{ "name": "http", "port": 80, "targetPort": 8080 }]);
        for spec in [
            json!({ "clusterIP": "10.96.0.1", "ports": port }),
            json!({ "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"], "ports": port }),
        ] {
            let address = "10.96.0.1".parse().expect("an address");
            let http =
                dns::DnsPort { name: "http".to_owned(), protocol: "tcp".to_owned(), number: 80 };
            assert_eq!(of(spec), Some(dns::DnsService::Addresses(vec![address], vec![http])));
        }
    }

    #[test]
    fn where_no_rules_lead_on_a_service_is_its_endpoints_or_another_name() {
        let of = |spec: Value| {
            service_without_routes(
                &serde_json::from_value(json!({ "spec": spec })).expect("a Service"),
            )
        };
        let external = json!({ "type": "ExternalName", "externalName": "db.example.com" });
        assert_eq!(of(external), Some(dns::DnsService::External("db.example.com".to_owned())));
        for spec in [json!({ "clusterIP": "10.96.0.1" }), json!({ "clusterIP": "None" })] {
            assert_eq!(of(spec), Some(dns::DnsService::Endpoints));
        }
    }

    #[test]
    fn only_ready_endpoints_of_a_services_slice_have_names() {
        let endpoint = |address: &str, conditions: Value| json!({ "addresses": [address], "hostname": "Web-0", "conditions": conditions });
        let object = |labels: Value| -> EndpointSlice {
            let slice = json!({
                "metadata": { "labels": labels },
                "addressType": "IPv4",
                "endpoints": [
                    endpoint("10.0.0.1", json!({ "ready": true })),
                    endpoint("10.0.0.2", json!({ "ready": false, "serving": true })),
                    endpoint("10.0.0.3", json!({})),
                    endpoint("web.example.com", json!({ "ready": true })),
                ],
                "ports": [{ "name": "http", "port": 8080 }, { "protocol": "UDP", "port": 53 }, { "name": "none" }],
            });
            serde_json::from_value(slice).expect("a slice")
        };
        assert_eq!(slice(&object(json!({}))), None, "nobody's");
        let found = slice(&object(json!({ "kubernetes.io/service-name": "web" }))).expect("web's");
        assert_eq!(found.service, "web");
        let endpoints: Vec<String> =
            found.endpoints.iter().map(|e| e.address.to_string()).collect();
        assert_eq!(endpoints, ["10.0.0.1", "10.0.0.3"]);
        assert_eq!(found.endpoints[0].hostname.as_deref(), Some("web-0"), "in small letters");
        let ports: Vec<_> =
            found.ports.iter().map(|p| (p.name.as_str(), p.protocol.as_str(), p.number)).collect();
        assert_eq!(ports, [("http", "tcp", 8080), ("", "udp", 53)]);
    }

    #[test]
    fn a_pod_that_has_ended_has_no_name() {
        let of = |status: Value| {
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web" },
                "spec": { "containers": [] }, "status": status,
            });
            super::pod(&serde_json::from_value(pod).expect("a pod"))
        };
        let address = "10.0.0.1".parse().expect("an address");
        assert_eq!(
            of(json!({ "podIP": "10.0.0.1", "phase": "Running" })),
            Some(dns::DnsPod { addresses: vec![address] })
        );
        let second = "fd00::1".parse().expect("an address");
        let both = json!([{ "ip": "10.0.0.1" }, { "ip": "fd00::1" }]);
        assert_eq!(
            of(json!({ "podIP": "10.0.0.1", "podIPs": both, "phase": "Running" })),
            Some(dns::DnsPod { addresses: vec![address, second] })
        );
        assert_eq!(of(json!({ "podIP": "10.0.0.1", "phase": "Failed" })), None);
        assert_eq!(of(json!({ "phase": "Pending" })), None);
    }
}
