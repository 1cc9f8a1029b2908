//! What of a Service and of an EndpointSlice decides where packets go.

use std::net::IpAddr;
use std::num::NonZeroU32;

use k8s_openapi::api::core::v1::{Node, Service, ServiceSpec};
use k8s_openapi::api::discovery::v1::{self as discovery, Endpoint, EndpointSlice};
use rekindle_types::connection_hold::ConnectionHold;
use rekindle_types::{
    IpFamily, IpStack, NamespacedName, PodUid, labels as well_known, load_balancer,
};

use crate::frontend::{Frontend, TransportProtocol};
use crate::source_range::SourceRange;

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
    pub(crate) uid: String,
    pub(crate) frontends: Vec<RoutedFrontend>,
    /// Seconds for which a client stays with its endpoint.
    pub(crate) sticky_s: Option<NonZeroU32>,
    pub(crate) hold: ConnectionHold,
    /// Of its cluster IPs. The ports of the node are served in them.
    pub(crate) families: Vec<IpFamily>,
    /// Where load balancers ask whether this node has endpoints.
    pub(crate) health_port: Option<u16>,
    /// Where clients of a guarded frontend may be.
    pub(crate) sources: Vec<SourceRange>,
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
    /// Whether only some sources may connect.
    pub(crate) guard: SourceGuard,
    pub(crate) origin: FrontendOrigin,
}

/// What of a Service a frontend's address or port comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrontendOrigin {
    ClusterIp,
    ExternalIp,
    NodePort,
    /// Its port, at the node's addresses: the engine is its load balancer.
    BalancedPort,
    /// An address that a load balancer outside has given it.
    BalancerIp,
}

impl FrontendOrigin {
    pub(crate) const fn field(self) -> &'static str {
        match self {
            Self::ClusterIp => "spec.clusterIPs",
            Self::ExternalIp => "spec.externalIPs",
            Self::NodePort => "spec.ports[*].nodePort",
            Self::BalancedPort => "spec.ports[*].port",
            Self::BalancerIp => "status.loadBalancer.ingress[*].ip",
        }
    }

    /// Whether the port has to be opened on the machine first: any process may have it. The range
    /// of node ports is the engine's own, and so are cluster IPs.
    pub(crate) const fn needs_opening(self) -> bool {
        matches!(self, Self::BalancedPort)
    }
}

/// Which sources may connect to a frontend: `loadBalancerSourceRanges` concern the addresses of
/// load balancers only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceGuard {
    /// All.
    Open,
    /// Those that the Service names.
    Sources,
}

impl RoutedService {
    /// Nothing for one without frontends: headless Services and other names have none, and neither
    /// has one that is not given an address yet. Addresses of families that pods have none of are
    /// left out. The ports of the node are served in the families of its cluster IPs.
    pub(crate) fn new(service: &Service, stack: IpStack) -> Option<Self> {
        let spec = service.spec.as_ref()?;
        let type_ = spec.type_.as_deref().unwrap_or_default();
        let cluster_ips =
            addresses(spec.cluster_ips.iter().flatten(), spec.cluster_ip.as_ref(), stack);
        let has_family = |family: &IpFamily| {
            cluster_ips.iter().any(|address| IpFamily::from_address(*address) == *family)
        };
        let families: Vec<IpFamily> = IpFamily::ALL.into_iter().filter(has_family).collect();
        if type_ == "ExternalName" || cluster_ips.is_empty() {
            return None;
        }
        let internal = policy(spec.internal_traffic_policy.as_deref());
        let external = policy(spec.external_traffic_policy.as_deref());
        let sources = source_ranges(service, type_);
        let guard = match sources {
            None => SourceGuard::Open,
            Some(_) => SourceGuard::Sources,
        };
        let is_served_here = load_balancer::is_served_here(service);
        let has_node_ports = matches!(type_, "NodePort" | "LoadBalancer");
        let mut frontends = Vec::new();
        for port in spec.ports.iter().flatten() {
            let Some(protocol) = TransportProtocol::parse(port.protocol.as_deref()) else {
                continue;
            };
            let mut add = |address: IpAddr, number: i32, origin| {
                let Some(number) = u16::try_from(number).ok().filter(|port| *port > 0) else {
                    return;
                };
                let (policy, guard) = match origin {
                    FrontendOrigin::ClusterIp => (internal, SourceGuard::Open),
                    FrontendOrigin::ExternalIp | FrontendOrigin::NodePort => {
                        (external, SourceGuard::Open)
                    }
                    FrontendOrigin::BalancedPort | FrontendOrigin::BalancerIp => (external, guard),
                };
                let frontend = Frontend { address, protocol, port: number };
                let port_name = port.name.clone().unwrap_or_default();
                frontends.push(RoutedFrontend { frontend, port_name, policy, guard, origin });
            };
            for address in &cluster_ips {
                add(*address, port.port, FrontendOrigin::ClusterIp);
            }
            for address in spec.external_ips.iter().flatten().filter_map(|text| served(text, stack))
            {
                add(address, port.port, FrontendOrigin::ExternalIp);
            }
            let of_node = || families.iter().map(|family| family.unspecified());
            if let Some(number) = port.node_port.filter(|_| has_node_ports) {
                for node in of_node() {
                    add(node, number, FrontendOrigin::NodePort);
                }
            }
            match is_served_here {
                true if balancer_ips(service).next().is_some() => {
                    for node in of_node() {
                        add(node, port.port, FrontendOrigin::BalancedPort);
                    }
                }
                true => {}
                false => {
                    for address in balancer_ips(service).filter_map(|text| served(text, stack)) {
                        add(address, port.port, FrontendOrigin::BalancerIp);
                    }
                }
            }
        }
        let hold = ConnectionHold::from_annotations(service.metadata.annotations.as_ref());
        let publishes_unready = spec.publish_not_ready_addresses == Some(true);
        let sticky_s = sticky_s(spec);
        let sources = sources.unwrap_or_default();
        let health_port = health_port(spec);
        let uid = service.metadata.uid.clone().unwrap_or_default();
        let routed = Self {
            uid,
            health_port,
            families,
            frontends,
            sticky_s,
            hold,
            sources,
            publishes_unready,
        };
        Some(routed).filter(|routed| !routed.frontends.is_empty())
    }
}

/// The addresses in the list, or the single one where the list is empty. `None` is not one.
fn addresses<'a>(
    list: impl Iterator<Item = &'a String>,
    single: Option<&String>,
    stack: IpStack,
) -> Vec<IpAddr> {
    let listed: Vec<IpAddr> = list.filter_map(|text| served(text, stack)).collect();
    match listed.is_empty() {
        true => single.and_then(|text| served(text, stack)).into_iter().collect(),
        false => listed,
    }
}

/// An address that pods can answer at.
fn served(text: &str, stack: IpStack) -> Option<IpAddr> {
    let address = text.parse().ok()?;
    Some(address).filter(|address| stack.has(IpFamily::from_address(*address)))
}

/// Where clients of its load balancer may be; none: anywhere. A range lets addresses of its own
/// family in only.
fn source_ranges(service: &Service, type_: &str) -> Option<Vec<SourceRange>> {
    if type_ != "LoadBalancer" {
        return None;
    }
    let spec = service.spec.as_ref();
    let ranges = spec.and_then(|spec| spec.load_balancer_source_ranges.as_ref());
    let annotations = service.metadata.annotations.as_ref();
    let older = annotations.and_then(|annotations| annotations.get(load_balancer::SOURCE_RANGES));
    let mut sources: Vec<SourceRange> = match (ranges.filter(|ranges| !ranges.is_empty()), older) {
        (Some(ranges), _) => ranges.iter().filter_map(|text| SourceRange::parse(text)).collect(),
        (None, Some(older)) => older.split(',').filter_map(SourceRange::parse).collect(),
        (None, None) => return None,
    };
    sources.sort_unstable();
    sources.dedup();
    Some(sources)
}

/// The addresses that a load balancer has given it, if their packets come here as they are.
fn balancer_ips(service: &Service) -> impl Iterator<Item = &String> {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.and_then(|balancer| balancer.ingress.as_ref());
    let ingress = ingress.into_iter().flatten();
    let comes_as_it_is = ingress.filter(|ingress| ingress.ip_mode.as_deref() != Some("Proxy"));
    comes_as_it_is.filter_map(|ingress| ingress.ip.as_ref())
}

/// Only of load balancers that ask each node for its own endpoints (API reference,
/// `healthCheckNodePort`).
fn health_port(spec: &ServiceSpec) -> Option<u16> {
    let asks_nodes = spec.type_.as_deref() == Some("LoadBalancer")
        && policy(spec.external_traffic_policy.as_deref()) == TrafficPolicy::Local;
    let port = spec.health_check_node_port.filter(|_| asks_nodes)?;
    u16::try_from(port).ok().filter(|port| *port > 0)
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
    /// The node of this engine that has it.
    pub(crate) node: Option<String>,
    pub(crate) zone: Option<String>,
    pub(crate) hints: EndpointHints,
}

/// For which clients an endpoint is meant, where all endpoints of its Service say so (API
/// reference, `EndpointHints`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EndpointHints {
    pub(crate) nodes: Vec<String>,
    pub(crate) zones: Vec<String>,
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
        let hints = endpoint.hints.as_ref().map(EndpointHints::new).unwrap_or_default();
        let (node, zone) = (endpoint.node_name.clone(), endpoint.zone.clone());
        Some(Self { address, pod, use_, node, zone, hints })
    }
}

impl EndpointHints {
    fn new(hints: &discovery::EndpointHints) -> Self {
        let nodes = hints.for_nodes.iter().flatten().map(|node| node.name.clone());
        let zones = hints.for_zones.iter().flatten().map(|zone| zone.name.clone());
        Self { nodes: nodes.collect(), zones: zones.collect() }
    }
}

/// A node of the engine: its pods are clients that are led to endpoints near them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RoutedNode {
    pub(crate) zone: Option<String>,
    /// Where its pods' addresses come from.
    pub(crate) pods: Vec<SourceRange>,
}

impl RoutedNode {
    pub(crate) fn new(node: &Node) -> Self {
        let zone = node.metadata.labels.as_ref().and_then(|labels| labels.get(well_known::ZONE));
        let ranges = node.spec.as_ref().and_then(|spec| spec.pod_cidrs.as_ref());
        let pods = ranges.into_iter().flatten().filter_map(|text| SourceRange::parse(text));
        Self { zone: zone.filter(|zone| !zone.is_empty()).cloned(), pods: pods.collect() }
    }
}
