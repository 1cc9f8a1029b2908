//! What of a Service and of an EndpointSlice decides where packets go.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use rekindle_types::connection_hold::ConnectionHold;
use rekindle_types::{NamespacedName, PodUid, labels as well_known};

use crate::frontend::{Frontend, TransportProtocol};

/// Seconds for which a client stays with its endpoint when the Service does not say (API
/// reference, `ClientIPConfig`).
const STICKY_S: i32 = 10_800;

/// Which endpoints a frontend leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrafficPolicy {
    /// To all.
    Cluster,
    /// To those on the node that the packet came to.
    Local,
}

/// A Service that has addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RoutedService {
    pub(crate) frontends: Vec<RoutedFrontend>,
    /// Seconds for which a client stays with its endpoint.
    pub(crate) sticky_s: Option<NonZeroU32>,
    pub(crate) hold: ConnectionHold,
    /// Whether pods that are not ready are its endpoints, too (`publishNotReadyAddresses`).
    pub(crate) publishes_unready: bool,
}

/// One of its frontends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RoutedFrontend {
    pub(crate) frontend: Frontend,
    /// The name of the Service's port: the slices have the endpoints' ports by it.
    pub(crate) port_name: String,
    pub(crate) policy: TrafficPolicy,
}

impl RoutedService {
    /// Nothing for one without frontends: headless Services and other names have none, and neither
    /// has one that is not given an address yet. Addresses of IPv6 are left out: pods have none.
    pub(crate) fn new(service: &Service) -> Option<Self> {
        let spec = service.spec.as_ref()?;
        let type_ = spec.type_.as_deref().unwrap_or_default();
        let cluster_ips = addresses(spec.cluster_ips.iter().flatten(), spec.cluster_ip.as_ref());
        if type_ == "ExternalName" || cluster_ips.is_empty() {
            return None;
        }
        let internal = policy(spec.internal_traffic_policy.as_deref());
        let external = policy(spec.external_traffic_policy.as_deref());
        let mut addresses: Vec<(IpAddr, TrafficPolicy)> =
            cluster_ips.iter().map(|address| (*address, internal)).collect();
        let outside = spec.external_ips.iter().flatten().chain(balancer_ips(service));
        addresses.extend(outside.filter_map(|text| Some((ipv4(text)?, external))));
        let has_node_ports = matches!(type_, "NodePort" | "LoadBalancer");
        let mut frontends = Vec::new();
        for port in spec.ports.iter().flatten() {
            let Some(protocol) = TransportProtocol::parse(port.protocol.as_deref()) else {
                continue;
            };
            let port_name = port.name.clone().unwrap_or_default();
            let mut add = |address, number: i32, policy| {
                let Some(port) = u16::try_from(number).ok().filter(|port| *port > 0) else {
                    return;
                };
                let frontend = Frontend { address, protocol, port };
                frontends.push(RoutedFrontend { frontend, port_name: port_name.clone(), policy });
            };
            for (address, policy) in &addresses {
                add(*address, port.port, *policy);
            }
            if let Some(number) = port.node_port.filter(|_| has_node_ports) {
                add(Ipv4Addr::UNSPECIFIED.into(), number, external);
            }
        }
        let hold = ConnectionHold::from_annotations(service.metadata.annotations.as_ref());
        let publishes_unready = spec.publish_not_ready_addresses == Some(true);
        let routed = Self { frontends, sticky_s: sticky_s(spec), hold, publishes_unready };
        Some(routed).filter(|routed| !routed.frontends.is_empty())
    }
}

/// The addresses in the list, or the single one where the list is empty. `None` is not one.
fn addresses<'a>(list: impl Iterator<Item = &'a String>, single: Option<&String>) -> Vec<IpAddr> {
    let listed: Vec<IpAddr> = list.filter_map(|text| ipv4(text)).collect();
    match listed.is_empty() {
        true => single.and_then(|text| ipv4(text)).into_iter().collect(),
        false => listed,
    }
}

fn ipv4(text: &str) -> Option<IpAddr> {
    text.parse::<Ipv4Addr>().ok().map(IpAddr::V4)
}

/// The addresses that a load balancer has given it.
fn balancer_ips(service: &Service) -> impl Iterator<Item = &String> {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.and_then(|balancer| balancer.ingress.as_ref());
    ingress.into_iter().flatten().filter_map(|ingress| ingress.ip.as_ref())
}

fn policy(named: Option<&str>) -> TrafficPolicy {
    match named {
        Some("Local") => TrafficPolicy::Local,
        Some(_) | None => TrafficPolicy::Cluster,
    }
}

fn sticky_s(spec: &ServiceSpec) -> Option<NonZeroU32> {
    if spec.session_affinity.as_deref() != Some("ClientIP") {
        return None;
    }
    let config = spec.session_affinity_config.as_ref();
    let seconds = config.and_then(|config| config.client_ip.as_ref()?.timeout_seconds);
    NonZeroU32::new(u32::try_from(seconds.unwrap_or(STICKY_S)).unwrap_or_default())
}

/// An EndpointSlice of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RoutedSlice {
    pub(crate) service: NamespacedName,
    /// Whether it only repeats what its pods say, which the node knows before.
    pub(crate) follows_pods: bool,
    pub(crate) endpoints: Vec<RoutedEndpoint>,
    pub(crate) ports: Vec<EndpointPortNumber>,
}

/// The port of a slice's endpoints that a port of the Service leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndpointPortNumber {
    pub(crate) name: String,
    pub(crate) protocol: TransportProtocol,
    pub(crate) number: u16,
}

/// An endpoint of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RoutedEndpoint {
    pub(crate) address: IpAddr,
    /// The pod that answers there.
    pub(crate) pod: Option<PodUid>,
    pub(crate) use_: EndpointUse,
    /// Whether a node of this engine has it. All of them are this machine.
    pub(crate) is_on_node: bool,
}

/// Whether new connections may go to an endpoint, after the conditions of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndpointUse {
    /// It is ready.
    Ready,
    /// It is being ended and still serves: only where no other is ready (KEP-1669).
    LastResort,
    /// It is not ready.
    None,
}

impl RoutedSlice {
    /// Nothing for a slice that belongs to no Service or holds no addresses.
    pub(crate) fn new(slice: &EndpointSlice) -> Option<Self> {
        let labels = slice.metadata.labels.as_ref()?;
        let name = labels.get(well_known::SERVICE_NAME)?;
        let manager = labels.get(well_known::SLICE_MANAGED_BY).map(String::as_str);
        let namespace = slice.metadata.namespace.clone().unwrap_or_default();
        let ports = slice.ports.iter().flatten().filter_map(|port| {
            Some(EndpointPortNumber {
                name: port.name.clone().unwrap_or_default(),
                protocol: TransportProtocol::parse(port.protocol.as_deref())?,
                number: u16::try_from(port.port?).ok()?,
            })
        });
        Some(Self {
            service: NamespacedName { namespace, name: name.clone() },
            follows_pods: manager == Some(well_known::SLICE_CONTROLLER),
            endpoints: slice.endpoints.iter().flatten().filter_map(RoutedEndpoint::new).collect(),
            ports: ports.collect(),
        })
    }
}

impl RoutedEndpoint {
    /// The first address is the one that counts (API reference, `Endpoint.addresses`).
    fn new(endpoint: &Endpoint) -> Option<Self> {
        let address = endpoint.addresses.first()?.parse().ok()?;
        let conditions = endpoint.conditions.as_ref();
        // what is not said counts as ready, as serving what ready is, and as not terminating
        let is_ready = conditions.and_then(|conditions| conditions.ready).unwrap_or(true);
        let is_serving = conditions.and_then(|conditions| conditions.serving).unwrap_or(is_ready);
        let is_terminating = conditions.and_then(|conditions| conditions.terminating) == Some(true);
        let use_ = match (is_ready, is_serving && is_terminating) {
            (true, _) => EndpointUse::Ready,
            (false, true) => EndpointUse::LastResort,
            (false, false) => EndpointUse::None,
        };
        let target = endpoint.target_ref.as_ref();
        let pod = target.filter(|target| target.kind.as_deref() == Some("Pod"));
        let pod = pod.and_then(|target| target.uid.clone()).map(PodUid);
        Some(Self { address, pod, use_, is_on_node: endpoint.node_name.is_some() })
    }
}
