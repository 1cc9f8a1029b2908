//! The rules against a model of a packet: what the kernel does with a new connection by these
//! elements is what the documentation of Services says of the objects.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use proptest::prelude::*;
use serde_json::json;

use super::*;

const PORT: u16 = 8080;
/// Nodes, with their zones: one has none.
const NODES: [(&str, Option<&str>); 3] = [("n", Some("east")), ("m", Some("east")), ("w", None)];

/// Where a connection comes from.
#[derive(Clone, Copy, Debug)]
enum Client {
    PodOf(usize),
    /// The machine, or what is beyond it.
    Elsewhere,
}

impl Client {
    fn address(self) -> IpAddr {
        match self {
            Self::PodOf(node) => [10, 88, u8::try_from(node).unwrap(), 7].into(),
            Self::Elsewhere => [192, 0, 2, 7].into(),
        }
    }
}

/// What becomes of a new connection.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    /// It goes to one of these.
    To(BTreeSet<SocketAddr>),
    Rejected,
    Dropped,
    Waits,
    /// No rule is about it.
    Passes,
}

/// As the kernel's rules take the packet: those for its network come first.
fn fate(elements: &RuleElements, client: IpAddr, frontend: Frontend) -> Fate {
    let range_of = |element: &RuleElement| match *element {
        RuleElement::Pick(ClientView { frontend: it, clients: Clients::Within(range) }, _)
        | RuleElement::Held(ClientView { frontend: it, clients: Clients::Within(range) })
        | RuleElement::OnOtherNodes(it, range) => (it == frontend).then_some(range),
        _ => None,
    };
    let mut ranges = elements.iter().filter_map(range_of);
    let range = ranges.find(|range| range.contains(client));
    let clients = range.map_or(Clients::All, Clients::Within);
    let view = ClientView { frontend, clients };
    let refused = |refusal| elements.contains(&RuleElement::Refused(frontend, refusal));
    let is_elsewhere = |range| elements.contains(&RuleElement::OnOtherNodes(frontend, range));
    if elements.contains(&RuleElement::Held(view)) {
        return Fate::Waits;
    }
    if range.is_some_and(is_elsewhere) || refused(Refusal::Drop) {
        return Fate::Dropped;
    }
    if refused(Refusal::Reject) {
        return Fate::Rejected;
    }
    let endpoint = |element: &RuleElement| match *element {
        RuleElement::Endpoint(it, _, endpoint) => (it == view).then_some(endpoint),
        _ => None,
    };
    let endpoints: BTreeSet<SocketAddr> = elements.iter().filter_map(endpoint).collect();
    if endpoints.is_empty() { Fate::Passes } else { Fate::To(endpoints) }
}

/// As the documentation has it: Service, "Virtual IPs and Service Proxies", EndpointSlice, KEP-1669
/// and KEP-4444.
fn documented(
    service: &Service,
    slices: &BTreeMap<NamespacedName, EndpointSlice>,
    client: Client,
    is_external: bool,
) -> Fate {
    let spec = service.spec.as_ref().unwrap();
    let policy = match is_external {
        true => spec.external_traffic_policy.as_deref(),
        false => spec.internal_traffic_policy.as_deref(),
    };
    let node = match client {
        Client::PodOf(number) if !is_external => Some(NODES[number]),
        Client::PodOf(_) | Client::Elsewhere => None,
    };
    let all: Vec<&Endpoint> =
        slices.values().flat_map(|slice| slice.endpoints.iter().flatten()).collect();
    let condition = |endpoint: &Endpoint, name: &str| {
        let conditions = serde_json::to_value(&endpoint.conditions).unwrap();
        conditions[name].as_bool()
    };
    let is_ready = |endpoint: &Endpoint| condition(endpoint, "ready").unwrap_or(true);
    let is_last_resort = |endpoint: &Endpoint| {
        !is_ready(endpoint)
            && condition(endpoint, "serving") == Some(true)
            && condition(endpoint, "terminating") == Some(true)
    };
    let in_reach = |endpoint: &&&Endpoint| match (policy, node) {
        (Some("Local"), Some((name, _))) => endpoint.node_name.as_deref() == Some(name),
        (Some("Local"), None) => endpoint.node_name.is_some(),
        _ => true,
    };
    let hinted = |endpoint: &Endpoint, list: &str, name: &str| {
        let hints = serde_json::to_value(&endpoint.hints).unwrap();
        hints[list].as_array().map(|hints| hints.iter().any(|hint| hint["name"] == name))
    };
    let ready: Vec<&Endpoint> = all.iter().copied().filter(|it| is_ready(it)).collect();
    let counts = |list: &str, name: &str| {
        ready.iter().all(|it| hinted(it, list, name).is_some())
            && ready.iter().any(|it| hinted(it, list, name) == Some(true))
    };
    let mut chosen: Vec<&Endpoint> = ready.iter().filter(in_reach).copied().collect();
    if let (false, Some((name, zone))) = (policy == Some("Local"), node) {
        let zone = zone.filter(|zone| counts("forZones", zone)).map(|zone| ("forZones", zone));
        let nearest = counts("forNodes", name).then_some(("forNodes", name)).or(zone);
        if let Some((list, name)) = nearest {
            chosen.retain(|it| hinted(it, list, name) == Some(true));
        }
    }
    if chosen.is_empty() {
        let last_resorts = all.iter().filter(|it| is_last_resort(it)).filter(in_reach);
        chosen = last_resorts.copied().collect();
    }
    if chosen.is_empty() {
        return match all.iter().any(|it| is_ready(it) || is_last_resort(it)) {
            true => Fate::Dropped,
            false => Fate::Rejected,
        };
    }
    let at = |it: &&Endpoint| SocketAddr::new(it.addresses[0].parse().unwrap(), PORT);
    Fate::To(chosen.iter().map(at).collect())
}

fn any_policy() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["Cluster", "Local"])
}

fn any_service() -> impl Strategy<Value = Service> {
    (any_policy(), any_policy()).prop_map(|(internal, external)| {
        service(json!({ "type": "NodePort", "clusterIP": "10.96.0.10",
            "internalTrafficPolicy": internal, "externalTrafficPolicy": external,
            "ports": [{ "port": 80, "nodePort": 30080 }] }))
    })
}

/// Endpoints at addresses of their own. Of some all are hinted.
fn any_endpoints() -> impl Strategy<Value = Vec<Endpoint>> {
    let condition = || prop::option::of(any::<bool>());
    let conditions = (condition(), condition(), condition());
    let node = prop::option::of(prop::sample::select(NODES.to_vec()));
    let hints = prop::sample::subsequence(vec!["forNodes", "forZones"], 0..=2);
    let all_hinted =
        prop::option::of(prop::sample::subsequence(vec!["forNodes", "forZones"], 1..=2));
    let endpoints = prop::collection::vec((conditions, node, hints), 0..6);
    (endpoints, all_hinted).prop_map(|(endpoints, all_hinted)| {
        let numbered = (2..).zip(endpoints);
        let endpoint = |(last, ((ready, serving, terminating), node, hints)): (u8, _)| {
            let node: Option<(&str, Option<&str>)> = node;
            let mut endpoint = json!({
                "addresses": [format!("10.88.9.{last}")],
                "conditions": { "ready": ready, "serving": serving, "terminating": terminating },
                "nodeName": node.map(|(name, _)| name),
            });
            let (name, zone) = node.unwrap_or(("other", Some("other")));
            for list in all_hinted.as_ref().unwrap_or(&hints) {
                let name = if *list == "forNodes" { name } else { zone.unwrap_or("east") };
                endpoint["hints"][*list] = json!([{ "name": name }]);
            }
            serde_json::from_value(endpoint).unwrap()
        };
        numbered.map(endpoint).collect()
    })
}

fn nodes() -> BTreeMap<NamespacedName, Node> {
    let node = |(number, (name, zone)): (usize, (&str, Option<&str>))| {
        let labels = zone.map(|zone| json!({ "topology.kubernetes.io/zone": zone }));
        let node = json!({ "metadata": { "name": name, "labels": labels },
            "spec": { "podCIDRs": [format!("10.88.{number}.0/24")] } });
        (NamespacedName::new("", name), serde_json::from_value(node).unwrap())
    };
    NODES.into_iter().enumerate().map(node).collect()
}

proptest! {
    #[test]
    fn the_rules_lead_each_packet_where_the_documentation_says(
        service in any_service(),
        endpoints in prop::collection::vec(any_endpoints(), 0..3),
    ) {
        let key = |name: String| NamespacedName { namespace: "shop".to_owned(), name };
        let mut router = ServiceRouter::default();
        router.set_nodes(&nodes());
        router.set_service(key("web".to_owned()), Some(&service));
        let slice = |(number, endpoints): (usize, Vec<Endpoint>)| {
            let slice = json!({ "metadata": { "namespace": "shop",
                "labels": { "kubernetes.io/service-name": "web" } },
                "addressType": "IPv4", "ports": [{ "port": PORT }] });
            let slice: EndpointSlice = serde_json::from_value(slice).unwrap();
            (key(format!("web-{number}")), EndpointSlice { endpoints: Some(endpoints), ..slice })
        };
        // addresses differ between slices
        let apart = |(number, mut endpoints): (usize, Vec<Endpoint>)| {
            for endpoint in &mut endpoints {
                endpoint.addresses[0] = endpoint.addresses[0].replace(".9.", &format!(".{}.", 20 + number));
            }
            (number, endpoints)
        };
        let slices: BTreeMap<_, _> =
            endpoints.into_iter().enumerate().map(apart).map(slice).collect();
        router.set_slices(&slices);
        let elements = router.elements();
        let at = |address: [u8; 4], port| {
            Frontend { address: address.into(), protocol: TransportProtocol::Tcp, port }
        };
        let clients = [Client::PodOf(0), Client::PodOf(1), Client::PodOf(2), Client::Elsewhere];
        for client in clients {
            for (frontend, is_external) in [(at([10, 96, 0, 10], 80), false), (at([0; 4], 30080), true)] {
                let found = fate(&elements, client.address(), frontend);
                let expected = documented(&service, &slices, client, is_external);
                prop_assert_eq!(found, expected, "{:?} to {}", client, frontend);
            }
        }
        let nowhere = fate(&elements, Client::Elsewhere.address(), at([10, 96, 0, 11], 80));
        prop_assert_eq!(nowhere, Fate::Passes);
    }
}
