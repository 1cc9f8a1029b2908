//! The router against examples, and against a model that knows no numbers and no order.

mod packets;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use proptest::prelude::*;
use rekindle_types::connection_hold::ANNOTATION;
use serde_json::{Value, json};

use super::*;
use crate::{Refusal, SourceRange};

pub(super) fn service(spec: Value) -> Service {
    serde_json::from_value(json!({ "metadata": { "name": "web" }, "spec": spec })).unwrap()
}

fn web(ports: Value) -> Service {
    service(json!({ "type": "ClusterIP", "clusterIP": "10.96.0.10", "ports": ports }))
}

pub(super) fn plain() -> Service {
    web(json!([{ "port": 80, "targetPort": 8080 }]))
}

fn slice_of(service: &str, ports: Value, endpoints: Value) -> EndpointSlice {
    serde_json::from_value(json!({
        "metadata": { "name": "a", "namespace": "shop",
            "labels": { "kubernetes.io/service-name": service,
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io" } },
        "addressType": "IPv4",
        "ports": ports,
        "endpoints": endpoints,
    }))
    .unwrap()
}

pub(super) fn slice(endpoints: Value) -> EndpointSlice {
    slice_of("web", json!([{ "port": 8080 }]), endpoints)
}

pub(super) fn ready(last: u8) -> Value {
    json!({ "addresses": [format!("10.88.0.{last}")], "nodeName": "n", "targetRef": target(last) })
}

fn terminating(last: u8, serving: bool) -> Value {
    let conditions = json!({ "ready": false, "serving": serving, "terminating": true });
    json!({ "addresses": [format!("10.88.0.{last}")], "nodeName": "n", "conditions": conditions })
}

fn target(last: u8) -> Value {
    json!({ "kind": "Pod", "uid": format!("u{last}") })
}

pub(super) fn pod(last: u8) -> PodUid {
    PodUid(format!("u{last}"))
}

pub(super) fn key(name: &str) -> NamespacedName {
    NamespacedName { namespace: "shop".to_owned(), name: name.to_owned() }
}

fn at(last: u8) -> IpAddr {
    [10, 88, 0, last].into()
}

fn both_at(last: u8) -> [IpAddr; 2] {
    [at(last), [0xfd00, 0x88, 0, 0, 0, 0, 0, last.into()].into()]
}

pub(super) fn router(service: &Service, slice: &EndpointSlice) -> ServiceRouter {
    let mut router = ServiceRouter::default();
    router.set_service(key("web"), Some(service));
    router.set_slice(key("web-a"), Some(slice));
    router
}

/// The elements in short: a line each.
pub(super) fn shown(elements: impl IntoIterator<Item = RuleElement>) -> Vec<String> {
    let line = |element| match element {
        RuleElement::Pick(frontend, pick) => match pick.sticky_s {
            None => format!("{frontend} one of {}", pick.endpoints),
            Some(sticky) => format!("{frontend} one of {} for {sticky}s", pick.endpoints),
        },
        RuleElement::Endpoint(frontend, n, endpoint) => format!("{frontend} {n} {endpoint}"),
        RuleElement::Member(frontend, endpoint) => format!("{frontend} has {endpoint}"),
        RuleElement::Refused(frontend, refusal) => format!("{frontend} {refusal:?}"),
        RuleElement::OnOtherNodes(frontend, clients) => format!("{frontend} of {clients} Drop"),
        RuleElement::Held(frontend) => format!("{frontend} waits"),
        RuleElement::Guarded(frontend) => format!("{frontend} is guarded"),
        RuleElement::Source(frontend, SourceRange { network, prefix }) => {
            format!("{frontend} from {network}/{prefix}")
        }
        RuleElement::HostPort(frontend) => format!("{frontend} is a host port"),
        RuleElement::Hairpin(address) => format!("hairpin {address}"),
    };
    elements.into_iter().map(line).collect()
}

#[test]
fn a_service_leads_to_the_target_ports_of_its_ready_endpoints() {
    let not_ready = json!({ "addresses": ["10.88.0.4"], "conditions": { "ready": false } });
    let router = router(&plain(), &slice(json!([ready(2), ready(3), not_ready])));
    let expected = [
        "10.96.0.10:80/TCP one of 2",
        "10.96.0.10:80/TCP 0 10.88.0.2:8080",
        "10.96.0.10:80/TCP 1 10.88.0.3:8080",
        "hairpin 10.88.0.2",
        "hairpin 10.88.0.3",
    ];
    assert_eq!(shown(router.elements()), expected);
}

#[test]
fn a_service_without_an_address_has_no_rules() {
    for spec in [
        json!({ "type": "ClusterIP", "clusterIP": "None", "ports": [{ "port": 80 }] }),
        json!({ "type": "ExternalName", "externalName": "db.example.com" }),
        json!({ "type": "ClusterIP", "ports": [{ "port": 80 }] }),
    ] {
        let router = router(&service(spec.clone()), &slice(json!([ready(2)])));
        assert_eq!(router.elements(), RuleElements::new(), "{spec}");
    }
}

#[test]
fn each_port_leads_to_the_endpoints_port_of_its_name_and_protocol() {
    let ports = json!([
        { "name": "http", "port": 80 },
        { "name": "dns", "port": 53, "protocol": "UDP" },
        { "name": "gone", "port": 7 },
    ]);
    let endpoints = json!([
        { "name": "http", "port": 8080, "protocol": "TCP" },
        { "name": "dns", "port": 5353, "protocol": "UDP" },
    ]);
    let router = router(&web(ports), &slice_of("web", endpoints, json!([ready(2)])));
    let expected = [
        "10.96.0.10:80/TCP one of 1",
        "10.96.0.10:53/UDP one of 1",
        "10.96.0.10:80/TCP 0 10.88.0.2:8080",
        "10.96.0.10:53/UDP 0 10.88.0.2:5353",
        "10.96.0.10:7/TCP Reject",
        "hairpin 10.88.0.2",
    ];
    assert_eq!(shown(router.elements()), expected);
}

#[test]
fn node_ports_external_addresses_and_a_balancers_address_lead_there_too() {
    let mut service = service(json!({
        "type": "LoadBalancer", "clusterIP": "10.96.0.10", "externalIPs": ["192.0.2.7"],
        "loadBalancerClass": "example.com/other", "ports": [{ "port": 80, "nodePort": 30080 }],
    }));
    service.status = serde_json::from_value(json!({
        "loadBalancer": { "ingress": [{ "ip": "192.0.2.9" }, { "hostname": "elsewhere" },
            { "ip": "192.0.2.8", "ipMode": "Proxy" }] },
    }))
    .unwrap();
    let router = router(&service, &slice(json!([ready(2)])));
    let picks: Vec<String> =
        shown(router.elements()).into_iter().filter(|line| line.contains("one of")).collect();
    let expected = [
        "0.0.0.0:30080/TCP one of 1",
        "10.96.0.10:80/TCP one of 1",
        "192.0.2.7:80/TCP one of 1",
        "192.0.2.9:80/TCP one of 1",
    ];
    assert_eq!(picks, expected);
    let node_ports: Vec<String> = router.node_ports().map(|port| port.to_string()).collect();
    assert_eq!(node_ports, ["0.0.0.0:30080/TCP"]);
}

/// One that the engine serves, and that has its address.
fn balanced(sources: Value) -> Service {
    let mut service = service(json!({
        "type": "LoadBalancer", "clusterIP": "10.96.0.10", "ports": [{ "port": 80 }],
        "loadBalancerSourceRanges": sources,
    }));
    let status = json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.9" }] } });
    service.status = serde_json::from_value(status).unwrap();
    service
}

#[test]
fn a_balancers_port_leads_to_pods_while_it_is_open() {
    let mut router = router(&balanced(json!([])), &slice(json!([ready(2)])));
    let before = router.elements();
    assert!(shown(before.clone()).iter().all(|line| !line.contains("0.0.0.0")), "{before:?}");
    let port: Vec<Frontend> = router.wanted_ports().collect();
    let [port] = port[..] else { panic!("{port:?}") };
    assert_eq!(port.to_string(), "0.0.0.0:80/TCP");
    assert_eq!(router.service_of(port).map(|service| service.name), Some(key("web")));
    let added = shown(router.port_opened(port).added);
    assert_eq!(added, ["0.0.0.0:80/TCP one of 1", "0.0.0.0:80/TCP 0 10.88.0.2:8080"]);
    assert!(router.port_opened(port).is_empty());
    router.port_closed(port);
    assert_eq!(router.elements(), before);
    let mut without_address = balanced(json!([]));
    without_address.status = None;
    router.set_service(key("web"), Some(&without_address));
    assert_eq!(router.wanted_ports().next(), None);
}

#[test]
fn only_the_balancers_port_asks_where_clients_come_from() {
    for (sources, expected) in [
        (json!(["192.0.2.77/24", "198.51.100.7/32"]), vec!["192.0.2.0/24", "198.51.100.7/32"]),
        (json!(["2001:db8::/64"]), vec![]),
    ] {
        let mut router = router(&balanced(sources), &slice(json!([ready(2)])));
        let port = router.wanted_ports().next().unwrap();
        router.port_opened(port);
        let lines = shown(router.elements());
        let guarded: Vec<&String> = lines.iter().filter(|line| line.contains("guarded")).collect();
        assert_eq!(guarded, ["0.0.0.0:80/TCP is guarded"]);
        let from: Vec<&str> =
            lines.iter().filter_map(|line| line.split_once(" from ")?.1.into()).collect();
        assert_eq!(from, expected);
    }
}

/// The same slice of the pods' second addresses.
fn second(mut slice: EndpointSlice) -> EndpointSlice {
    slice.address_type = "IPv6".to_owned();
    let addresses = slice.endpoints.iter_mut().flatten().flat_map(|it| &mut it.addresses);
    for address in addresses {
        *address = address.replace("10.88.0.", "fd00:88::");
    }
    slice
}

#[test]
fn each_family_of_a_service_leads_to_the_pods_addresses_of_that_family() {
    let service = service(json!({
        "type": "NodePort", "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10", "fd00::10"],
        "externalIPs": ["2001:db8::7"], "ports": [{ "port": 80, "nodePort": 30080 }],
    }));
    let mut router = ServiceRouter::new(IpStack::Dual);
    router.set_service(key("web"), Some(&service));
    router.set_slice(key("web-a"), Some(&slice(json!([ready(2)]))));
    router.set_slice(key("web-b"), Some(&second(slice(json!([ready(2), ready(3)])))));
    let lines = shown(router.elements()).into_iter();
    let (picks, others): (Vec<String>, Vec<String>) = lines.partition(|it| it.contains("one of"));
    let expected = [
        "0.0.0.0:30080/TCP one of 1",
        "10.96.0.10:80/TCP one of 1",
        "[::]:30080/TCP one of 2",
        "[2001:db8::7]:80/TCP one of 2",
        "[fd00::10]:80/TCP one of 2",
    ];
    assert_eq!(picks, expected);
    assert!(others.contains(&"[fd00::10]:80/TCP 1 [fd00:88::3]:8080".to_owned()), "{others:?}");
    assert!(others.contains(&"hairpin fd00:88::2".to_owned()), "{others:?}");
    // what the node says of a pod concerns both of its addresses
    let changes = router.withdraw(&pod(2), WithdrawalCause::Restarting);
    let gone = shown(changes.removed);
    assert!(gone.contains(&"10.96.0.10:80/TCP 0 10.88.0.2:8080".to_owned()), "{gone:?}");
    assert!(gone.contains(&"[fd00::10]:80/TCP 0 [fd00:88::2]:8080".to_owned()), "{gone:?}");
    let v6_only = slice(json!([ready(2)]));
    router.set_slice(key("web-b"), None);
    router.set_slice(key("web-a"), Some(&v6_only));
    let lines = shown(router.elements());
    assert!(lines.contains(&"[fd00::10]:80/TCP Reject".to_owned()), "{lines:?}");
}

#[test]
fn a_range_of_sources_lets_in_clients_of_its_own_family() {
    let mut service = balanced(json!(["192.0.2.0/24", "2001:db8::1/64"]));
    let spec = service.spec.as_mut().unwrap();
    spec.cluster_ips = Some(vec!["10.96.0.10".to_owned(), "fd00::10".to_owned()]);
    let mut router = ServiceRouter::new(IpStack::Dual);
    router.set_service(key("web"), Some(&service));
    opened(&mut router, ServiceRouter::port_opened);
    let from = |line: &String| line.contains(" from ");
    let lines: Vec<String> = shown(router.elements()).into_iter().filter(from).collect();
    let expected = ["0.0.0.0:80/TCP from 192.0.2.0/24", "[::]:80/TCP from 2001:db8::/64"];
    assert_eq!(lines, expected);
}

#[test]
fn an_engine_without_ipv6_leaves_its_addresses_out() {
    let service = service(json!({
        "type": "NodePort", "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10", "fd00::10"],
        "externalIPs": ["2001:db8::7", "192.0.2.7"], "ports": [{ "port": 80, "nodePort": 30080 }],
    }));
    let lines = shown(router(&service, &slice(json!([ready(2)]))).elements());
    assert!(!lines.is_empty() && lines.iter().all(|line| !line.contains("::")), "{lines:?}");
}

#[test]
fn a_node_port_of_a_cluster_ip_service_is_not_served() {
    let ports = json!([{ "port": 80, "nodePort": 30080 }]);
    let router = router(&web(ports), &slice(json!([ready(2)])));
    assert!(!shown(router.elements()).iter().any(|line| line.contains("30080")));
}

#[test]
fn a_policy_that_says_local_leaves_out_what_no_node_here_has() {
    let outside = json!({ "addresses": ["198.51.100.1"] });
    let spec = json!({
        "type": "NodePort", "clusterIP": "10.96.0.10", "externalTrafficPolicy": "Local",
        "ports": [{ "port": 80, "nodePort": 30080 }],
    });
    let only_outside = router(&service(spec.clone()), &slice(json!([outside])));
    let lines = shown(only_outside.elements());
    assert!(lines.contains(&"0.0.0.0:30080/TCP Drop".to_owned()), "{lines:?}");
    assert!(lines.contains(&"10.96.0.10:80/TCP 0 198.51.100.1:8080".to_owned()), "{lines:?}");
    let both = router(&service(spec), &slice(json!([outside, ready(2)])));
    let lines = shown(both.elements());
    assert!(lines.contains(&"0.0.0.0:30080/TCP one of 1".to_owned()), "{lines:?}");
    assert!(lines.contains(&"10.96.0.10:80/TCP one of 2".to_owned()), "{lines:?}");
}

/// A node with its pods in 10.88.`third`.0/24.
fn node((name, zone): (&str, &str), third: u8) -> Node {
    serde_json::from_value(json!({
        "metadata": { "name": name, "labels": { "topology.kubernetes.io/zone": zone } },
        "spec": { "podCIDRs": [format!("10.88.{third}.0/24"), format!("fd00:88::{third}00/120")] },
    }))
    .unwrap()
}

/// A ready endpoint on a node, and the zone it is hinted for.
fn placed(last: u8, node: &str, zone: &str) -> Value {
    let mut endpoint = ready(last);
    endpoint["nodeName"] = json!(node);
    endpoint["zone"] = json!(zone);
    endpoint["hints"] = json!({ "forZones": [{ "name": zone }] });
    endpoint
}

/// Nodes n and m in zone east, and w in zone west.
fn router_on_nodes(service: &Service, slice: &EndpointSlice) -> ServiceRouter {
    let mut router = router(service, slice);
    for (third, (name, zone)) in (1..).zip([("n", "east"), ("m", "east"), ("w", "west")]) {
        router.set_node(NamespacedName::new("", name), Some(&node((name, zone), third)));
    }
    router
}

fn of_nodes(router: &ServiceRouter) -> Vec<String> {
    shown(router.elements()).into_iter().filter(|line| line.contains(" of 10.88.")).collect()
}

fn local() -> Service {
    service(
        json!({ "clusterIP": "10.96.0.10", "internalTrafficPolicy": "Local", "ports": [{ "port": 80 }] }),
    )
}

#[test]
fn pods_of_a_node_are_led_to_its_own_endpoints_where_the_policy_is_local() {
    let endpoints = [placed(2, "n", "east"), placed(3, "n", "east"), placed(4, "m", "east")];
    let mut router = router_on_nodes(&local(), &slice(json!(endpoints)));
    let lines = shown(router.elements());
    assert!(lines.contains(&"10.96.0.10:80/TCP one of 3".to_owned()), "the machine's: {lines:?}");
    let expected = [
        "10.96.0.10:80/TCP of 10.88.1.0/24 one of 2",
        "10.96.0.10:80/TCP of 10.88.2.0/24 one of 1",
        "10.96.0.10:80/TCP of 10.88.1.0/24 0 10.88.0.2:8080",
        "10.96.0.10:80/TCP of 10.88.1.0/24 1 10.88.0.3:8080",
        "10.96.0.10:80/TCP of 10.88.2.0/24 0 10.88.0.4:8080",
        "10.96.0.10:80/TCP of 10.88.3.0/24 Drop",
    ];
    assert_eq!(of_nodes(&router), expected);
    // what is external does not ask where it comes from
    router.set_service(key("web"), Some(&plain()));
    assert_eq!(of_nodes(&router), Vec::<String>::new());
    // a node that has all endpoints needs no rules of its own
    router.set_service(key("web"), Some(&local()));
    let on_one = [placed(2, "n", "east"), placed(3, "n", "east")];
    router.set_slice(key("web-a"), Some(&slice(json!(on_one))));
    let others =
        ["10.96.0.10:80/TCP of 10.88.2.0/24 Drop", "10.96.0.10:80/TCP of 10.88.3.0/24 Drop"];
    assert_eq!(of_nodes(&router), others);
    router.set_node(NamespacedName::new("", "w"), None);
    assert_eq!(of_nodes(&router), others[..1]);
}

#[test]
fn of_nodes_whose_ranges_meet_the_first_by_name_has_them() {
    let mut router = router_on_nodes(&local(), &slice(json!([placed(2, "n", "east")])));
    let before = router.elements();
    let mut same: Node = node(("z", "east"), 1);
    same.spec.as_mut().unwrap().pod_cidrs = Some(vec!["10.88.1.128/25".to_owned()]);
    router.set_node(NamespacedName::new("", "z"), Some(&same));
    assert_eq!(router.elements(), before);
    router.set_node(NamespacedName::new("", "n"), None);
    let of_other = "10.96.0.10:80/TCP of 10.88.1.128/25 Drop".to_owned();
    assert!(of_nodes(&router).contains(&of_other));
}

#[test]
fn pods_of_a_zone_are_led_to_its_endpoints_while_all_are_hinted_and_one_is_for_it() {
    let endpoints = [placed(2, "n", "east"), placed(3, "m", "east"), placed(4, "w", "west")];
    let mut router = router_on_nodes(&plain(), &slice(json!(endpoints)));
    let (east, west) = ([1, 2].map(|third| format!("10.88.{third}.0/24")), "10.88.3.0/24");
    let to = |clients: &str, count| format!("10.96.0.10:80/TCP of {clients} one of {count}");
    let picks = |router: &ServiceRouter| {
        let lines = of_nodes(router).into_iter();
        lines.filter(|line| line.contains(" one of ")).collect::<Vec<_>>()
    };
    assert_eq!(picks(&router), [to(&east[0], 2), to(&east[1], 2), to(west, 1)]);
    // the only one of its zone is restarted: better far than not at all
    router.withdraw(&pod(4), WithdrawalCause::Restarting);
    assert_eq!(picks(&router), Vec::<String>::new(), "all that are left are in east");
    router.admit(&pod(4), &[at(4)]);
    // ready before its slice says so, and has a hint
    let mut early = placed(5, "w", "west");
    early["conditions"] = json!({ "ready": false });
    early["hints"] = Value::Null;
    let endpoints = [endpoints[0].clone(), endpoints[2].clone(), early];
    router.set_slice(key("web-a"), Some(&slice(json!(endpoints))));
    router.admit(&pod(5), &[at(5)]);
    assert_eq!(picks(&router), [to(&east[0], 1), to(&east[1], 1), to(west, 2)]);
    // one without a hint: hints do not count
    let endpoints = [placed(2, "n", "east"), placed(4, "w", "west"), ready(6)];
    router.set_slice(key("web-a"), Some(&slice(json!(endpoints))));
    assert_eq!(picks(&router), Vec::<String>::new());
}

#[test]
fn hints_for_nodes_come_before_those_for_zones() {
    let endpoints = [("n", 2), ("m", 3)].map(|(node, last)| {
        let mut endpoint = placed(last, node, "east");
        endpoint["hints"]["forNodes"] = json!([{ "name": node }]);
        endpoint
    });
    let router = router_on_nodes(&plain(), &slice(json!(endpoints)));
    let expected = [
        "10.96.0.10:80/TCP of 10.88.1.0/24 one of 1",
        "10.96.0.10:80/TCP of 10.88.2.0/24 one of 1",
        "10.96.0.10:80/TCP of 10.88.1.0/24 0 10.88.0.2:8080",
        "10.96.0.10:80/TCP of 10.88.2.0/24 0 10.88.0.3:8080",
    ];
    assert_eq!(of_nodes(&router), expected, "node w has neither, and zone west none: all");
}

#[test]
fn pods_of_a_node_wait_while_its_only_endpoint_is_restarted_and_other_nodes_have_some() {
    let endpoints = [placed(2, "n", "east"), placed(3, "m", "east")];
    let mut router = router_on_nodes(&local(), &slice(json!(endpoints)));
    let changes = router.withdraw(&pod(2), WithdrawalCause::Restarting);
    let waits = "10.96.0.10:80/TCP of 10.88.1.0/24 waits".to_owned();
    assert!(shown(changes.added).contains(&waits));
    let range = SourceRange::parse("10.88.1.0/24").unwrap();
    let frontend = web_frontend();
    let client = |third| IpAddr::from([10, 88, third, 9]);
    let who = |router: &ServiceRouter| [1, 2, 3].map(|third| router.waits(frontend, client(third)));
    assert_eq!(who(&router), [true, false, false]);
    let view = ClientView { frontend, clients: Clients::Within(range) };
    assert_eq!(router.hold(view), Some(TickDuration::from_secs(2)));
    assert_eq!(shown(router.end_hold(view).removed), [waits]);
    assert_eq!(who(&router), [false; 3]);
    assert!(of_nodes(&router).contains(&"10.96.0.10:80/TCP of 10.88.1.0/24 Drop".to_owned()));
    router.admit(&pod(2), &[at(2)]);
    assert!(of_nodes(&router).contains(&"10.96.0.10:80/TCP of 10.88.1.0/24 one of 1".to_owned()));
    // and where no node has any, all clients wait
    for last in [2, 3] {
        router.withdraw(&pod(last), WithdrawalCause::Restarting);
    }
    assert_eq!((who(&router), of_nodes(&router).len()), ([true; 3], 0));
}

#[test]
fn sticky_clients_may_stay_with_the_endpoints_that_there_are() {
    let service = service(json!({
        "clusterIP": "10.96.0.10", "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 60 } },
        "ports": [{ "port": 80 }],
    }));
    let mut router = router(&service, &slice(json!([ready(2), ready(3)])));
    let lines = shown(router.elements());
    assert!(lines.contains(&"10.96.0.10:80/TCP one of 2 for 60s".to_owned()), "{lines:?}");
    assert!(lines.contains(&"10.96.0.10:80/TCP has 10.88.0.3:8080".to_owned()), "{lines:?}");
    let changes = router.set_slice(key("web-a"), Some(&slice(json!([ready(2)]))));
    let gone = shown(changes.removed);
    assert!(gone.contains(&"10.96.0.10:80/TCP has 10.88.0.3:8080".to_owned()), "{gone:?}");
}

#[test]
fn what_ends_is_the_last_resort_only_while_it_serves() {
    let cases = [
        (json!([ready(2), terminating(3, true)]), "10.96.0.10:80/TCP 0 10.88.0.2:8080"),
        (json!([terminating(3, true)]), "10.96.0.10:80/TCP 0 10.88.0.3:8080"),
        (json!([terminating(3, false)]), "10.96.0.10:80/TCP Reject"),
        (json!([]), "10.96.0.10:80/TCP Reject"),
    ];
    for (endpoints, expected) in cases {
        let lines = shown(router(&plain(), &slice(endpoints.clone())).elements());
        assert!(lines.contains(&expected.to_owned()), "{endpoints}: {lines:?}");
        let leads = lines.iter().filter(|line| line.ends_with(":8080")).count();
        assert!(leads <= 1, "{endpoints}: {lines:?}");
    }
}

#[test]
fn an_endpoint_that_comes_or_goes_is_a_few_elements() {
    let mut router = router(&plain(), &slice(json!([ready(2), ready(3), ready(4)])));
    let changes = router.set_slice(key("web-a"), Some(&slice(json!([ready(3), ready(4)]))));
    assert_eq!(
        shown(changes.removed),
        [
            "10.96.0.10:80/TCP one of 3",
            "10.96.0.10:80/TCP 0 10.88.0.2:8080",
            "10.96.0.10:80/TCP 2 10.88.0.4:8080",
            "hairpin 10.88.0.2",
        ]
    );
    // the last one took the number of the one that went
    assert_eq!(
        shown(changes.added),
        ["10.96.0.10:80/TCP one of 2", "10.96.0.10:80/TCP 0 10.88.0.4:8080"]
    );
    let changes =
        router.set_slice(key("web-a"), Some(&slice(json!([ready(3), ready(4), ready(5)]))));
    assert_eq!(shown(changes.removed), ["10.96.0.10:80/TCP one of 2"]);
    assert_eq!(changes.added.len(), 3);
}

#[test]
fn what_the_node_withdraws_is_gone_until_it_is_admitted_whatever_slices_say() {
    let all = slice(json!([ready(2), ready(3)]));
    let mut router = router(&plain(), &all);
    let before = router.elements();
    let changes = router.withdraw(&pod(3), WithdrawalCause::Terminating);
    assert!(shown(changes.removed).contains(&"10.96.0.10:80/TCP 1 10.88.0.3:8080".to_owned()));
    assert!(router.withdraw(&pod(3), WithdrawalCause::Terminating).is_empty());
    assert!(!router.has_hairpin(at(3)) && router.has_hairpin(at(2)));
    // a slice that lags behind does not bring it back
    router.set_slice(key("web-a"), Some(&slice(json!([ready(2)]))));
    router.set_slice(key("web-a"), Some(&all));
    assert!(!router.has_hairpin(at(3)));
    router.admit(&pod(3), &[at(3)]);
    assert_eq!(router.elements(), before);
    assert!(router.admit(&pod(3), &[at(3)]).is_empty());
}

#[test]
fn a_pod_that_is_ready_again_gets_connections_whatever_its_slice_still_says() {
    let mut router = router(&plain(), &slice(json!([ready(2), ready(3)])));
    router.withdraw(&pod(3), WithdrawalCause::Restarting);
    router.admit(&pod(3), &[at(9)]);
    let mut not_ready = ready(3);
    not_ready["conditions"] = json!({ "ready": false });
    let mut moved = ready(9);
    moved["targetRef"] = target(3);
    for says in [ready(3), not_ready, moved] {
        router.set_slice(key("web-a"), Some(&slice(json!([ready(2), says.clone()]))));
        assert!(router.has_hairpin(at(9)) && !router.has_hairpin(at(3)), "{says}");
    }
    assert!(router.leave_to_slices(&pod(3)).is_empty());
    router.admit(&pod(3), &[at(9)]);
    router.set_slice(key("web-a"), Some(&slice(json!([ready(2)]))));
    assert!(!router.has_hairpin(at(9)), "the Service does not select it any more");
}

#[test]
fn what_a_user_writes_into_a_slice_counts_more_than_that_the_pod_is_ready() {
    let by_hand = |endpoints: Value| {
        let mut slice = slice(endpoints);
        slice.metadata.labels.as_mut().unwrap().remove("endpointslice.kubernetes.io/managed-by");
        slice
    };
    let mut not_ready = ready(3);
    not_ready["conditions"] = json!({ "ready": false });
    let mut router = router(&plain(), &by_hand(json!([ready(2), not_ready])));
    router.admit(&pod(2), &[at(9)]);
    router.admit(&pod(3), &[at(3)]);
    for address in [2, 3, 9] {
        assert!(!router.has_hairpin(at(address)), "{address}");
    }
}

#[test]
fn the_only_endpoint_serves_on_while_its_pod_ends_but_not_while_it_is_restarted() {
    let mut router = router(&plain(), &slice(json!([ready(2)])));
    assert!(router.withdraw(&pod(2), WithdrawalCause::Terminating).is_empty());
    let changes = router.withdraw(&pod(2), WithdrawalCause::Restarting);
    assert_eq!(shown(changes.added), ["10.96.0.10:80/TCP Reject", "10.96.0.10:80/TCP waits"]);
}

#[test]
fn a_pod_that_is_not_ready_gets_nothing_unless_its_service_wants_such_pods() {
    let both = slice(json!([ready(2), ready(3)]));
    for cause in [WithdrawalCause::Unready, WithdrawalCause::ContainerDown] {
        let mut router = router(&plain(), &both);
        router.withdraw(&pod(3), cause);
        assert!(!router.has_hairpin(at(3)) && router.has_hairpin(at(2)), "{cause:?}");
        let mut wants = plain();
        wants.spec.as_mut().unwrap().publish_not_ready_addresses = Some(true);
        router.set_service(key("web"), Some(&wants));
        assert!(router.has_hairpin(at(3)), "{cause:?}");
        router.withdraw(&pod(3), WithdrawalCause::Restarting);
        assert!(!router.has_hairpin(at(3)), "its containers get a stop signal");
    }
}

#[test]
fn connections_wait_when_the_last_container_dies_but_not_when_its_probe_fails() {
    for (cause, wait) in [(WithdrawalCause::ContainerDown, true), (WithdrawalCause::Unready, false)]
    {
        let mut router = router(&plain(), &slice(json!([ready(2)])));
        router.withdraw(&pod(2), cause);
        assert_eq!(waits(&router), wait, "{cause:?}");
    }
}

#[test]
fn of_two_services_with_one_frontend_the_first_by_name_has_it() {
    let spec = |ip: &str| {
        service(json!({ "clusterIP": ip, "externalIPs": ["192.0.2.7"], "ports": [{ "port": 80 }] }))
    };
    let mut router = ServiceRouter::default();
    router.set_service(key("b"), Some(&spec("10.96.0.11")));
    let of = |service, last| slice_of(service, json!([{ "port": 8080 }]), json!([ready(last)]));
    router.set_slice(key("b-1"), Some(&of("b", 3)));
    let outside = |router: &ServiceRouter| {
        let lines = shown(router.elements()).into_iter();
        lines.filter(|line| line.starts_with("192.0.2.7:80/TCP 0")).collect::<Vec<_>>()
    };
    assert_eq!(outside(&router), ["192.0.2.7:80/TCP 0 10.88.0.3:8080"]);
    router.set_service(key("a"), Some(&spec("10.96.0.12")));
    router.set_slice(key("a-1"), Some(&of("a", 4)));
    assert_eq!(outside(&router), ["192.0.2.7:80/TCP 0 10.88.0.4:8080"]);
    router.set_service(key("a"), None);
    assert_eq!(outside(&router), ["192.0.2.7:80/TCP 0 10.88.0.3:8080"]);
}

#[test]
fn only_udp_flows_to_what_is_gone_are_to_be_forgotten() {
    let ports = json!([
        { "name": "u", "port": 53, "protocol": "UDP" }, { "name": "t", "port": 53 },
    ]);
    let numbers =
        json!([{ "name": "u", "port": 5353, "protocol": "UDP" }, { "name": "t", "port": 5353 }]);
    let of = |endpoints| slice_of("web", numbers.clone(), endpoints);
    let mut router = router(&web(ports), &of(json!([ready(2), ready(3)])));
    let changes = router.set_slice(key("web-a"), Some(&of(json!([ready(3)]))));
    let stale: Vec<String> = changes
        .stale_flows()
        .into_iter()
        .map(|flow| format!("{} {}", flow.frontend, flow.endpoint))
        .collect();
    assert_eq!(stale, ["10.96.0.10:53/UDP 10.88.0.2:5353"]);
    let changes = router.set_service(key("web"), None);
    assert_eq!(changes.stale_flows().len(), 1);
    assert_eq!(router.elements(), RuleElements::new());
}

/// Something that happens to two Services with two slices each, and four addresses.
const HOST_ADDRESSES: [IpAddr; 4] = [
    IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];

#[derive(Clone, Debug)]
enum Step {
    Service(u8, Box<Option<Service>>),
    Slice(u8, u8, Box<Option<EndpointSlice>>),
    Withdraw(u8, WithdrawalCause),
    Admit(u8, u8),
    Leave(u8),
    Gone(u8),
    EndHolds,
    Ports(bool),
    AllServices(BTreeMap<NamespacedName, Service>),
    Node(&'static str, Option<&'static str>),
    AllNodes(BTreeMap<NamespacedName, Node>),
    HostPort(IpAddr, u16, Option<u8>),
    /// The kernel refuses the element with this number.
    LeaveOut(prop::sample::Index),
    TakeBackLeftOut,
}

fn any_service() -> impl Strategy<Value = Service> {
    let type_ = prop::sample::select(vec!["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]);
    let flags = [any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()];
    (type_, 1_u8..3, flags).prop_map(|(type_, ip, [sticky, local, is_dual, is_near])| {
        let mut addresses = vec![format!("10.96.0.{ip}")];
        addresses.extend(is_dual.then(|| format!("fd00:96::{ip}")));
        let mut service = service(json!({
            "type": type_,
            "loadBalancerSourceRanges": sticky.then_some(["192.0.2.0/24", "2001:db8::/64"]),
            "clusterIP": addresses[0],
            "clusterIPs": addresses,
            "externalIPs": ["192.0.2.7", "2001:db8::7"],
            "sessionAffinity": if sticky { "ClientIP" } else { "None" },
            "internalTrafficPolicy": if is_near { "Local" } else { "Cluster" },
            "externalTrafficPolicy": if local { "Local" } else { "Cluster" },
            "publishNotReadyAddresses": sticky,
            "ports": [{ "name": "t", "port": 80, "nodePort": 30080 },
                { "name": "u", "port": 80, "protocol": "UDP" }],
        }));
        let ingress = local.then_some([json!({ "ip": "192.0.2.9" })]);
        service.status =
            serde_json::from_value(json!({ "loadBalancer": { "ingress": ingress } })).unwrap();
        service
    })
}

fn any_slice(service: u8) -> impl Strategy<Value = EndpointSlice> {
    let condition = || prop::option::of(any::<bool>());
    let nodes = prop::sample::select(vec![None, Some("n"), Some("m")]);
    let hinted = prop::sample::select(vec![None, Some("forNodes"), Some("forZones")]);
    let conditions = (condition(), condition(), condition());
    let endpoint = (2_u8..6, conditions, nodes, hinted);
    let endpoints = prop::collection::vec(endpoint, 0..5);
    (endpoints, any::<bool>()).prop_map(move |(endpoints, is_second)| {
        let endpoints: Vec<Value> = endpoints
            .into_iter()
            .map(|(last, (ready, serving, terminating), node, hinted)| {
                let mut endpoint = json!({
                    "addresses": [format!("10.88.0.{last}")],
                    "conditions": { "ready": ready, "serving": serving, "terminating": terminating },
                    "nodeName": node,
                    "zone": node,
                    "targetRef": node.map(|_| target(last)),
                });
                if let Some(list) = hinted {
                    endpoint["hints"] = json!({ list: [{ "name": node.unwrap_or("other") }] });
                }
                endpoint
            })
            .collect();
        let ports = json!([{ "name": "t", "port": 8080 },
            { "name": "u", "port": 8081, "protocol": "UDP" }]);
        let slice = slice_of(&format!("s{service}"), ports, json!(endpoints));
        if is_second { second(slice) } else { slice }
    })
}

/// Node n has 10.88.1.0/24, m has 10.88.2.0/24.
fn any_node(name: &str, zone: &str) -> Node {
    node((name, zone), if name == "n" { 1 } else { 2 })
}

fn any_step() -> impl Strategy<Value = Step> {
    let cause = prop::sample::select(vec![
        WithdrawalCause::Terminating,
        WithdrawalCause::Restarting,
        WithdrawalCause::ContainerDown,
        WithdrawalCause::Unready,
    ]);
    let names = || prop::sample::select(vec!["n", "m"]);
    let zones = || prop::sample::select(vec!["n", "m", ""]);
    let nodes = prop::collection::btree_map(names(), zones(), 0..3).prop_map(|nodes| {
        let nodes = nodes.into_iter();
        nodes.map(|(name, zone)| (NamespacedName::new("", name), any_node(name, zone))).collect()
    });
    let listed = prop::collection::btree_map(
        (0_u8..2).prop_map(|n| key(&format!("s{n}"))),
        any_service(),
        0..3,
    );
    prop_oneof![
        2 => (0_u8..2, prop::option::of(any_service())).prop_map(|(n, s)| Step::Service(n, s.into())),
        4 => (0_u8..2, 0_u8..2).prop_flat_map(|(service, n)| {
            prop::option::of(any_slice(service)).prop_map(move |s| Step::Slice(service, n, s.into()))
        }),
        1 => (2_u8..6, cause).prop_map(|(last, cause)| Step::Withdraw(last, cause)),
        1 => (2_u8..6, 2_u8..6).prop_map(|(pod, at)| Step::Admit(pod, at)),
        1 => (2_u8..6).prop_map(Step::Leave),
        1 => (2_u8..6).prop_map(Step::Gone),
        1 => Just(Step::EndHolds),
        2 => any::<bool>().prop_map(Step::Ports),
        1 => listed.prop_map(Step::AllServices),
        2 => (names(), prop::option::of(zones())).prop_map(|(name, zone)| Step::Node(name, zone)),
        1 => nodes.prop_map(Step::AllNodes),
        // one that Services want, too
        1 => (
            prop::sample::select(HOST_ADDRESSES.to_vec()),
            prop::sample::select(vec![30080, 8000]),
            prop::option::of(2_u8..6),
        )
            .prop_map(|(address, port, last)| Step::HostPort(address, port, last)),
        1 => any::<prop::sample::Index>().prop_map(Step::LeaveOut),
        1 => Just(Step::TakeBackLeftOut),
    ]
}

#[test]
fn a_pod_that_is_gone_gets_nothing_however_long_slices_have_it() {
    let mut router = router(&plain(), &slice(json!([ready(2), ready(3)])));
    router.withdraw(&pod(3), WithdrawalCause::Terminating);
    router.gone(&pod(3));
    router.withdraw(&pod(2), WithdrawalCause::Restarting);
    assert!(!router.has_hairpin(at(3)), "not even as the last resort");
    let mut ending = terminating(3, true);
    ending["targetRef"] = target(3);
    router.set_slice(key("web-a"), Some(&slice(json!([ready(2), ending]))));
    assert!(!router.has_hairpin(at(3)));
    router.set_slice(key("web-a"), Some(&slice(json!([ready(2)]))));
    assert!(router.pods.keys().eq([&pod(2)]), "nothing is kept of it");
    router.gone(&pod(4));
    assert!(router.pods.keys().eq([&pod(2)]), "no slice has it");
}

fn web_frontend() -> Frontend {
    Frontend { address: [10, 96, 0, 10].into(), protocol: TransportProtocol::Tcp, port: 80 }
}

/// Whether new connections to it wait.
fn waits(router: &ServiceRouter) -> bool {
    let held = router.elements().contains(&RuleElement::Held(web_frontend().into()));
    assert_eq!(router.hold(web_frontend()).is_some(), held);
    held
}

#[test]
fn connections_wait_while_the_last_endpoint_is_restarted_in_place() {
    let mut router = router(&plain(), &slice(json!([ready(2), ready(3)])));
    router.withdraw(&pod(2), WithdrawalCause::Restarting);
    assert!(!waits(&router), "there is another one");
    let changes = router.withdraw(&pod(3), WithdrawalCause::Restarting);
    assert_eq!(
        shown(changes.added),
        ["10.96.0.10:80/TCP Reject", "10.96.0.10:80/TCP waits"],
        "both: they are refused when they have waited long enough"
    );
    router.set_slice(key("web-a"), Some(&slice(json!([]))));
    assert!(waits(&router), "slices leave out pods without an address");
    router.admit(&pod(3), &[at(4)]);
    let moved = json!([{ "addresses": ["10.88.0.4"], "targetRef": target(3) }]);
    let changes = router.set_slice(key("web-a"), Some(&slice(moved)));
    assert_eq!(shown(changes.removed), ["10.96.0.10:80/TCP Reject", "10.96.0.10:80/TCP waits"],);
    assert!(!waits(&router));
}

#[test]
fn connections_that_waited_in_vain_are_refused_until_there_was_an_endpoint_again() {
    let mut router = router(&plain(), &slice(json!([ready(2)])));
    router.withdraw(&pod(2), WithdrawalCause::Restarting);
    assert_eq!(router.hold(web_frontend()), Some(TickDuration::from_secs(2)));
    assert_eq!(shown(router.end_hold(web_frontend()).removed), ["10.96.0.10:80/TCP waits"]);
    assert_eq!(shown(router.elements()), ["10.96.0.10:80/TCP Reject"]);
    assert!(router.end_hold(web_frontend()).is_empty());
    router.set_slice(key("web-a"), Some(&slice(json!([]))));
    router.set_slice(key("web-a"), Some(&slice(json!([ready(2)]))));
    assert!(!waits(&router));
    router.admit(&pod(2), &[at(2)]);
    router.withdraw(&pod(2), WithdrawalCause::Restarting);
    assert!(waits(&router));
}

#[test]
fn a_service_that_says_nothing_waits_for_restarts_only() {
    let mut router = router(&plain(), &slice(json!([ready(2)])));
    router.set_slice(key("web-a"), Some(&slice(json!([]))));
    assert!(!waits(&router), "it was scaled to zero");
    router.set_slice(key("web-a"), Some(&slice(json!([ready(2)]))));
    router.withdraw(&pod(2), WithdrawalCause::Terminating);
    router.set_slice(key("web-a"), Some(&slice(json!([]))));
    assert!(!waits(&router), "its pod was deleted");
}

#[test]
fn a_service_says_for_how_long_connections_wait_whatever_the_reason() {
    let with = |time: &str| {
        let mut service = plain();
        let annotation = (ANNOTATION.to_owned(), time.to_owned());
        service.metadata.annotations = Some([annotation].into());
        service
    };
    let nothing = slice(json!([]));
    let mut router = router(&with("5s"), &nothing);
    assert!(waits(&router), "it never had one");
    router.set_slice(key("web-a"), Some(&slice(json!([ready(2)]))));
    assert!(!waits(&router));
    router.set_slice(key("web-a"), Some(&nothing));
    assert!(waits(&router));
    router.set_service(key("web"), None);
    assert!(router.elements().is_empty());
    router.set_service(key("web"), Some(&with("0s")));
    router.set_slice(key("web-a"), Some(&slice(json!([ready(2)]))));
    router.withdraw(&pod(2), WithdrawalCause::Restarting);
    assert!(!waits(&router), "never");
}

/// A pod that is being ended may close its listener at any moment.
#[test]
fn connections_wait_for_a_restart_rather_than_go_to_a_pod_that_ends() {
    let both = slice(json!([ready(2), ready(3)]));
    let mut router = router(&plain(), &both);
    router.withdraw(&pod(3), WithdrawalCause::Terminating);
    router.withdraw(&pod(2), WithdrawalCause::Restarting);
    assert!(waits(&router) && !router.has_hairpin(at(3)));
    let changes = router.end_hold(web_frontend());
    assert_eq!(shown(changes.removed), ["10.96.0.10:80/TCP Reject", "10.96.0.10:80/TCP waits"]);
    assert!(router.has_hairpin(at(3)), "better than nothing");
    router.set_slice(key("web-a"), Some(&both));
    assert!(router.has_hairpin(at(3)));
}

#[test]
fn connections_of_a_service_that_says_so_wait_for_the_next_pod_when_the_only_one_is_deleted() {
    let mut service = plain();
    service.metadata.annotations = Some([(ANNOTATION.to_owned(), "10s".to_owned())].into());
    let mut router = router(&service, &slice(json!([ready(2)])));
    router.withdraw(&pod(2), WithdrawalCause::Terminating);
    assert!(waits(&router) && !router.has_hairpin(at(2)));
    router.set_slice(key("web-a"), Some(&slice(json!([ready(2), ready(3)]))));
    assert!(!waits(&router) && router.has_hairpin(at(3)));
}

#[test]
fn packets_of_protocols_without_connections_do_not_wait() {
    let ports = json!([{ "port": 53, "protocol": "UDP" }]);
    let endpoints = json!([{ "port": 5353, "protocol": "UDP" }]);
    let mut router = router(&web(ports), &slice_of("web", endpoints, json!([ready(2)])));
    let changes = router.withdraw(&pod(2), WithdrawalCause::Restarting);
    assert_eq!(shown(changes.added), ["10.96.0.10:53/UDP Reject"]);
}

proptest! {
    /// Whatever happened, the elements are those of a router that is told the last state only, but
    /// for the numbers of endpoints; the changes lead from one state to the next; and each frontend
    /// that picks has exactly as many endpoints, numbered from 0.
    #[test]
    fn the_way_to_a_state_does_not_matter(steps in prop::collection::vec(any_step(), 0..30)) {
        let mut router = ServiceRouter::new(IpStack::Dual);
        let mut services = BTreeMap::new();
        let mut slices = BTreeMap::new();
        let mut nodes = BTreeMap::new();
        let mut pods = BTreeMap::new();
        let mut kernel = RuleElements::new();
        for step in steps {
            let changes = match step {
                Step::Service(n, service) => {
                    let key = key(&format!("s{n}"));
                    let changes = router.set_service(key.clone(), (*service).as_ref());
                    put(&mut services, key, *service);
                    changes
                }
                Step::Slice(service, n, slice) => {
                    let key = key(&format!("s{service}-{n}"));
                    let changes = router.set_slice(key.clone(), (*slice).as_ref());
                    put(&mut slices, key, *slice);
                    changes
                }
                Step::Withdraw(last, cause) => {
                    pods.insert(pod(last), PodRouting::Withdrawn(cause));
                    router.withdraw(&pod(last), cause)
                }
                Step::Admit(last, address) => {
                    let addresses = both_at(address);
                    pods.insert(pod(last), PodRouting::Admitted(addresses.to_vec()));
                    router.admit(&pod(last), &addresses)
                }
                Step::Leave(last) => {
                    pods.remove(&pod(last));
                    router.leave_to_slices(&pod(last))
                }
                Step::Gone(last) => {
                    pods.insert(pod(last), PodRouting::Gone);
                    router.gone(&pod(last))
                }
                Step::EndHolds => {
                    end_holds(&mut router);
                    RuleChanges::between(&kernel, &router.elements())
                }
                Step::Ports(true) => opened(&mut router, ServiceRouter::port_opened),
                Step::Ports(false) => opened(&mut router, ServiceRouter::port_closed),
                Step::AllServices(listed) => {
                    services = listed;
                    router.set_services(&services)
                }
                Step::Node(name, zone) => {
                    let node = zone.map(|zone| any_node(name, zone));
                    let key = NamespacedName::new("", name);
                    let changes = router.set_node(key.clone(), node.as_ref());
                    put(&mut nodes, key, node);
                    changes
                }
                Step::AllNodes(listed) => {
                    nodes = listed;
                    router.set_nodes(&nodes)
                }
                Step::HostPort(address, port, last) => {
                    let protocol = TransportProtocol::Tcp;
                    let port = Frontend { address, protocol, port };
                    let at = |last| both_at(last)[usize::from(address.is_ipv6())];
                    let endpoint = last.map(|last| SocketAddr::new(at(last), 9090));
                    router.set_host_port(port, endpoint)
                }
                Step::LeaveOut(_) if kernel.is_empty() => RuleChanges::default(),
                Step::LeaveOut(index) => {
                    let elements: Vec<RuleElement> = kernel.iter().copied().collect();
                    let changes = router.leave_out(index.get(&elements)).unwrap();
                    prop_assert!(changes.removed.contains(index.get(&elements)));
                    changes
                }
                Step::TakeBackLeftOut => router.take_back_left_out(),
            };
            for element in &changes.removed {
                prop_assert!(kernel.remove(element), "{element:?} was not there");
            }
            for element in &changes.added {
                prop_assert!(kernel.insert(*element), "{element:?} was there");
            }
            prop_assert_eq!(&kernel, &router.elements());
            let mut anew = ServiceRouter::new(IpStack::Dual);
            anew.set_slices(&slices);
            // a pod that is gone is so until no slice has it
            pods.retain(|pod, said| *said != PodRouting::Gone || has(&slices, pod));
            for (pod, said) in &pods {
                match said {
                    PodRouting::Withdrawn(cause) => anew.withdraw(pod, *cause),
                    PodRouting::Admitted(addresses) => anew.admit(pod, addresses),
                    PodRouting::Gone => anew.gone(pod),
                };
            }
            anew.open_ports = router.open_ports.clone();
            for (port, endpoint) in &router.host_ports {
                anew.set_host_port(*port, Some(*endpoint));
            }
            anew.set_services(&services);
            anew.set_nodes(&nodes);
            // whether connections wait depends on what has passed
            let mut settled = router.clone();
            settled.take_back_left_out();
            end_holds(&mut settled);
            end_holds(&mut anew);
            let (settled, anew) = (settled.elements(), anew.elements());
            prop_assert_eq!(without_numbers(&settled), without_numbers(&anew));
            check_numbers(&kernel)?;
        }
    }
}

/// All ports that are wanted come or go.
fn opened(
    router: &mut ServiceRouter,
    change: fn(&mut ServiceRouter, Frontend) -> RuleChanges,
) -> RuleChanges {
    let before = router.elements();
    for port in router.wanted_ports().collect::<Vec<_>>() {
        change(router, port);
    }
    RuleChanges::between(&before, &router.elements())
}

fn has(slices: &BTreeMap<NamespacedName, EndpointSlice>, pod: &PodUid) -> bool {
    let slices = slices.values().filter_map(RoutedSlice::new);
    slices.flat_map(|slice| slice.endpoints).any(|endpoint| endpoint.pod.as_ref() == Some(pod))
}

fn put<T>(map: &mut BTreeMap<NamespacedName, T>, key: NamespacedName, value: Option<T>) {
    match value {
        Some(value) => drop(map.insert(key, value)),
        None => drop(map.remove(&key)),
    }
}

/// No connection waits any longer.
fn end_holds(router: &mut ServiceRouter) {
    for element in router.elements() {
        if let RuleElement::Held(view) = element {
            let before = router.elements();
            let changes = router.end_hold(view);
            assert!(changes.removed.contains(&element));
            let mut after = before;
            after.retain(|element| !changes.removed.contains(element));
            after.extend(changes.added);
            assert_eq!(after, router.elements());
        }
    }
}

fn without_numbers(elements: &RuleElements) -> BTreeSet<RuleElement> {
    let plain = |element: &RuleElement| match *element {
        RuleElement::Endpoint(view, _, endpoint) => RuleElement::Endpoint(view, 0, endpoint),
        other => other,
    };
    elements.iter().map(plain).collect()
}

fn check_numbers(elements: &RuleElements) -> Result<(), TestCaseError> {
    let mut numbers: BTreeMap<ClientView, Vec<u16>> = BTreeMap::new();
    let mut endpoints: BTreeSet<(ClientView, SocketAddr)> = BTreeSet::new();
    let mut picked: BTreeSet<ClientView> = BTreeSet::new();
    for element in elements {
        match element {
            RuleElement::Endpoint(view, number, endpoint) => {
                numbers.entry(*view).or_default().push(*number);
                prop_assert!(endpoints.insert((*view, *endpoint)), "{endpoint} twice");
            }
            RuleElement::Pick(view, _) => drop(picked.insert(*view)),
            _ => {}
        }
    }
    for element in elements {
        match element {
            RuleElement::Pick(view, pick) => {
                let found = numbers.remove(view).unwrap_or_default();
                let expected: Vec<u16> = (0..pick.endpoints.get()).collect();
                prop_assert_eq!(found, expected);
            }
            RuleElement::Refused(frontend, _) => {
                prop_assert!(!picked.iter().any(|view| view.frontend == *frontend));
            }
            RuleElement::OnOtherNodes(frontend, clients) => {
                let here = ClientView { frontend: *frontend, clients: Clients::Within(*clients) };
                prop_assert!(!picked.contains(&here) && picked.contains(&(*frontend).into()));
            }
            RuleElement::Member(frontend, endpoint) => {
                prop_assert!(endpoints.contains(&((*frontend).into(), *endpoint)));
            }
            RuleElement::Held(view) => {
                let ClientView { frontend, clients } = *view;
                let refused = match clients {
                    Clients::All => [Refusal::Reject, Refusal::Drop]
                        .map(|refusal| RuleElement::Refused(frontend, refusal)),
                    Clients::Within(range) => [RuleElement::OnOtherNodes(frontend, range); 2],
                };
                let is_refused = refused.iter().any(|refused| elements.contains(refused));
                prop_assert!(is_refused, "{view} waits for nothing");
                prop_assert_eq!(frontend.protocol, TransportProtocol::Tcp);
            }
            RuleElement::Source(frontend, _) => {
                prop_assert!(elements.contains(&RuleElement::Guarded(*frontend)));
            }
            RuleElement::Endpoint(..)
            | RuleElement::Guarded(_)
            | RuleElement::HostPort(_)
            | RuleElement::Hairpin(_) => {}
        }
    }
    prop_assert!(numbers.is_empty(), "endpoints that nothing picks: {numbers:?}");
    Ok(())
}
