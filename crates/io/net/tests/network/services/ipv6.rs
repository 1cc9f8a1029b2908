//! The same rules for addresses of IPv6, in a table for both families.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;

use rekindle_net::rules::{Ipv6Ranges, RuleTable, RuleTableConfig};
use rekindle_services::{Frontend, Refusal, RuleChanges, RuleElement, RuleElements, SourceRange};

use crate::services::support::*;
use crate::support::Namespace;

const CLUSTER_IP: &str = "[fd00:96::1]:80";
const NODE_PORT: &str = "[::]:30080";

fn second_ip(number: usize) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0x88, 0, 0, 0, 0, 0, 2 + number as u16)
}

fn second_endpoint(number: usize) -> SocketAddr {
    SocketAddr::from((second_ip(number), POD_PORT))
}

/// Gives everything its second address.
fn add_ipv6(machine: &Machine) {
    let Machine { host, pods, outside } = machine;
    let set = |namespace: &Namespace, interface: &str, setting: &str, value: &str| {
        let path = format!("/proc/sys/net/ipv6/conf/{interface}/{setting}");
        namespace.inside(|| std::fs::write(&path, value).unwrap_or_else(|e| panic!("{path}: {e}")));
    };
    set(host, "all", "forwarding", "1");
    host.ip(&format!("-6 addr add fd00:88::1/112 dev {BRIDGE} nodad"));
    host.ip(&format!("-6 route add fd00:96::/112 dev {BRIDGE}"));
    for (number, pod) in pods.iter().enumerate() {
        pod.ip(&format!("-6 addr add {}/128 dev eth0 nodad", second_ip(number)));
        pod.ip("-6 route add fd00:88::1 dev eth0");
        pod.ip("-6 route add default via fd00:88::1 dev eth0");
    }
    outside.ip("-6 addr add fd00:99::2/64 dev eth0 nodad");
    outside.ip("-6 route add default via fd00:99::1 dev eth0");
    host.ip("-6 addr add fd00:99::1/64 dev up0 nodad");
}

fn machine(pods: usize) -> Machine {
    let machine = Machine::new(pods);
    add_ipv6(&machine);
    for (number, pod) in machine.pods.iter().enumerate() {
        serve_tcp(pod, second_endpoint(number), number);
    }
    machine
}

fn dual() -> RuleTableConfig {
    let pods = "fd00:88::/112".parse().unwrap();
    let services = Some("fd00:96::/112".parse().unwrap());
    RuleTableConfig { ipv6: Some(Ipv6Ranges { pods, services }), ..config() }
}

async fn dual_table(elements: &RuleElements) -> RuleTable {
    let table = RuleTable::open(dual()).unwrap();
    table.replace(elements).await.unwrap();
    assert_eq!(table.read_back().await.unwrap(), *elements);
    table
}

/// What the rules say of a frontend that leads to the second addresses of these pods.
fn second_service(frontend: Frontend, pods: &[usize]) -> RuleElements {
    let of_second = |element: RuleElement| match element {
        RuleElement::Endpoint(frontend, n, _) => {
            RuleElement::Endpoint(frontend, n, second_endpoint(pods[usize::from(n)]))
        }
        RuleElement::Hairpin(_) => RuleElement::Hairpin(second_ip(pods[0]).into()),
        other => other,
    };
    let mut elements: RuleElements = service(frontend, pods).into_iter().map(of_second).collect();
    elements.extend(pods.iter().map(|pod| RuleElement::Hairpin(second_ip(*pod).into())));
    elements
}

#[test]
fn cluster_ips_and_node_ports_lead_to_pods_beside_those_of_ipv4() {
    let machine = machine(3);
    machine.serve_tcp();
    machine.host.block_on(|| async {
        let mut elements = second_service(tcp(CLUSTER_IP), &[1, 2]);
        elements.extend(second_service(tcp(NODE_PORT), &[0]));
        elements.extend(service(tcp("10.96.0.1:80"), &[2]));
        let _table = dual_table(&elements).await;
        for (from, name) in [(&machine.pods[0], "pod"), (&machine.host, "host")] {
            let reached: BTreeSet<usize> =
                (0..60).map(|_| connect(from, CLUSTER_IP).unwrap().pod).collect();
            assert_eq!(reached, BTreeSet::from([1, 2]), "from {name}");
            assert_eq!(connect(from, "10.96.0.1:80").unwrap().pod, 2, "from {name}");
        }
        for (from, to) in [
            (&machine.outside, "[fd00:99::1]:30080"),
            (&machine.pods[1], "[fd00:88::1]:30080"),
            (&machine.host, "[fd00:99::1]:30080"),
            // a pod reaches itself
            (&machine.pods[0], "[fd00:99::1]:30080"),
        ] {
            assert_eq!(connect(from, to).unwrap().pod, 0, "{to}");
        }
        // no way back from another interface
        let at_loopback = connect(&machine.host, "[::1]:30080").map(drop).unwrap_err();
        assert_eq!(at_loopback.kind(), ErrorKind::ConnectionRefused);
    });
}

/// Pods 2 and 3 have addresses `::4` and `::5`, and are of one node.
#[test]
fn pods_of_a_node_are_led_to_the_endpoints_for_them() {
    let machine = machine(5);
    machine.host.block_on(|| async {
        let (web, sticky, other) =
            (tcp(CLUSTER_IP), tcp("[fd00:96::2]:80"), tcp("[fd00:96::3]:80"));
        let (clients, pods) = ("fd00:88::4/127", [0, 1, 3]);
        let mut elements = second_service(web, &pods);
        elements.extend(by_client(web, clients, &[second_endpoint(3)]));
        elements.extend(second_service(other, &pods));
        elements.extend(by_client(other, clients, &[]));
        // with affinity
        for element in second_service(sticky, &pods) {
            elements.insert(match element {
                RuleElement::Pick(view, _) => RuleElement::Pick(view, pick(pods.len(), Some(60))),
                other => other,
            });
        }
        let member = |pod: &usize| RuleElement::Member(sticky, second_endpoint(*pod));
        elements.extend(pods.iter().map(member));
        let near = by_client(sticky, clients, &[second_endpoint(0), second_endpoint(3)]);
        elements.extend(near.into_iter().map(|element| match element {
            RuleElement::Pick(view, _) => RuleElement::Pick(view, pick(2, Some(60))),
            other => other,
        }));
        let _table = dual_table(&elements).await;
        let reached = |from, to| -> BTreeSet<usize> {
            (0..40).map(|_| connect(from, to).unwrap().pod).collect()
        };
        for pod in [2, 3] {
            assert_eq!(reached(&machine.pods[pod], CLUSTER_IP), BTreeSet::from([3]));
            let stays = reached(&machine.pods[pod], "[fd00:96::2]:80");
            assert!(stays.len() == 1 && !stays.contains(&1), "{stays:?}");
        }
        for from in [&machine.pods[4], &machine.host] {
            assert_eq!(reached(from, CLUSTER_IP), BTreeSet::from([0, 1, 3]));
        }
        let rules = machine.host.run("nft", "list ruleset");
        for expected in [
            "fd00:96::1 . tcp . 80 . fd00:88::4 : 0x00000000 . 0x00000001 . 0x000000fe",
            "fd00:96::3 . tcp . 80 . fd00:88::4 . ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe",
            "goto pick-2-sticky-by-client-127-v6",
        ] {
            assert!(rules.contains(expected), "{expected} in\n{rules}");
        }
    });
}

#[test]
fn pods_leave_with_the_hosts_address_and_clients_from_outside_keep_theirs() {
    let machine = machine(1);
    let server = machine.outside.inside(|| TcpListener::bind("[fd00:99::2]:7000").unwrap());
    let inside = machine.pods[0].inside(|| TcpListener::bind((second_ip(0), 9090)).unwrap());
    machine.host.block_on(|| async {
        let frontend = tcp(NODE_PORT);
        let to = SocketAddr::from((second_ip(0), 9090));
        let elements = RuleElements::from([
            RuleElement::Pick(frontend.into(), pick(1, None)),
            RuleElement::Endpoint(frontend.into(), 0, to),
        ]);
        let _table = dual_table(&elements).await;
        let away = machine.pods[0].inside(|| std::net::TcpStream::connect("[fd00:99::2]:7000"));
        assert_eq!(server.accept().unwrap().1.ip().to_string(), "fd00:99::1");
        drop(away);
        let client =
            machine.outside.inside(|| std::net::TcpStream::connect("[fd00:99::1]:30080")).unwrap();
        assert_eq!(inside.accept().unwrap().1, client.local_addr().unwrap());
    });
}

#[test]
fn what_has_no_endpoint_refuses_at_once_and_what_no_service_has_too() {
    let machine = machine(1);
    machine.host.block_on(|| async {
        let refused = RuleElement::Refused(tcp(CLUSTER_IP), Refusal::Reject);
        let _table = dual_table(&[refused].into()).await;
        for from in [&machine.pods[0], &machine.host] {
            for to in [CLUSTER_IP, "[fd00:96::7]:80"] {
                let error = connect(from, to).map(drop).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{to}");
            }
        }
        // of UDP the kernel says it by ICMPv6
        let socket = machine.pods[0].inside(|| UdpSocket::bind("[::]:0").unwrap());
        socket.connect("[fd00:96::7]:53").unwrap();
        socket.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
        let error = ask(&socket).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn clients_with_affinity_stay_and_go_elsewhere_when_their_endpoint_is_gone() {
    let machine = machine(3);
    machine.host.block_on(|| async {
        let frontend = tcp(CLUSTER_IP);
        let sticky = |pods: &[usize]| {
            let mut elements = second_service(frontend, pods);
            elements.retain(|element| !matches!(element, RuleElement::Pick(..)));
            elements.insert(RuleElement::Pick(frontend.into(), pick(pods.len(), Some(600))));
            let member = |pod: &usize| RuleElement::Member(frontend, second_endpoint(*pod));
            elements.extend(pods.iter().map(member));
            elements
        };
        let before = sticky(&[1, 2]);
        let table = dual_table(&before).await;
        let first = connect(&machine.pods[0], CLUSTER_IP).unwrap().pod;
        for _again in 0..20 {
            assert_eq!(connect(&machine.pods[0], CLUSTER_IP).unwrap().pod, first);
        }
        let listed = machine.host.run("nft", "list ruleset");
        assert!(listed.contains("affinity-v6") && listed.contains("affinity "), "{listed}");
        // they are remembered over a renewal
        table.replace(&before).await.unwrap();
        assert_eq!(connect(&machine.pods[0], CLUSTER_IP).unwrap().pod, first);
        let other = 3 - first;
        let after = sticky(&[other]);
        table.apply(&RuleChanges::between(&before, &after)).await.unwrap();
        for _again in 0..5 {
            assert_eq!(connect(&machine.pods[0], CLUSTER_IP).unwrap().pod, other);
        }
    });
}

#[test]
fn a_guarded_frontend_lets_in_the_ranges_of_its_sources() {
    let machine = machine(1);
    machine.host.block_on(|| async {
        let frontend = tcp(NODE_PORT);
        let mut elements = second_service(frontend, &[0]);
        elements.insert(RuleElement::Guarded(frontend));
        let range = SourceRange::parse("fd00:99::/63").unwrap();
        elements.insert(RuleElement::Source(frontend, range));
        let _table = dual_table(&elements).await;
        assert_eq!(connect(&machine.outside, "[fd00:99::1]:30080").unwrap().pod, 0);
        let to = "[fd00:88::1]:30080".parse().unwrap();
        let patience = std::time::Duration::from_millis(1500);
        let dropped =
            machine.pods[0].inside(|| std::net::TcpStream::connect_timeout(&to, patience));
        assert_eq!(dropped.unwrap_err().kind(), ErrorKind::TimedOut);
    });
}

#[test]
fn a_connection_that_is_held_goes_on_when_there_is_an_endpoint() {
    let machine = Arc::new(machine(1));
    machine.host.block_on(|| async {
        let frontend = tcp(CLUSTER_IP);
        let held = RuleElements::from([
            RuleElement::Held(frontend.into()),
            RuleElement::Refused(frontend, Refusal::Reject),
        ]);
        let table = dual_table(&held).await;
        let from = Arc::clone(&machine);
        let client = tokio::task::spawn_blocking(move || {
            connect(&from.pods[0], CLUSTER_IP).map(|found| found.pod)
        });
        let packets = table.held().await.unwrap();
        assert!(packets[0].frontends().any(|(of, _)| of == frontend), "{packets:?}");
        let after = second_service(frontend, &[0]);
        table.apply(&RuleChanges::between(&held, &after)).await.unwrap();
        for packet in packets {
            table.release(packet).unwrap();
        }
        assert_eq!(client.await.unwrap().unwrap(), 0);
    });
}

#[test]
fn flows_of_udp_to_an_endpoint_that_is_gone_are_forgotten() {
    let machine = machine(2);
    for (number, pod) in machine.pods.iter().enumerate() {
        let socket = pod.inside(|| UdpSocket::bind(second_endpoint(number)).unwrap());
        std::thread::spawn(move || {
            let mut buffer = [0; 64];
            while let Ok((_, client)) = socket.recv_from(&mut buffer) {
                drop(socket.send_to(&[number as u8], client));
            }
        });
    }
    machine.host.block_on(|| async {
        let frontend = udp("[fd00:96::1]:53");
        let before = second_service(frontend, &[0]);
        let table = dual_table(&before).await;
        let client = machine.outside.inside(|| UdpSocket::bind("[::]:0").unwrap());
        client.connect("[fd00:96::1]:53").unwrap();
        client.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
        assert_eq!(ask(&client).unwrap(), 0);
        let changes = RuleChanges::between(&before, &second_service(frontend, &[1]));
        table.apply(&changes).await.unwrap();
        assert_eq!(table.forget_udp_flows(&changes.stale_flows()).await.unwrap(), 1);
        assert_eq!(ask(&client).unwrap(), 1);
    });
}

#[test]
fn host_ports_lead_to_their_pod_in_both_families_and_are_found_again() {
    let machine = machine(2);
    machine.serve_tcp();
    machine.host.block_on(|| async {
        let host_port = |mut elements: RuleElements, frontend| {
            elements.insert(RuleElement::HostPort(frontend));
            elements
        };
        let (everywhere, first) = (tcp("[::]:8000"), tcp("0.0.0.0:8000"));
        let one = tcp("[fd00:99::1]:8001");
        let mut elements = host_port(second_service(everywhere, &[1]), everywhere);
        elements.extend(host_port(service(first, &[1]), first));
        elements.extend(host_port(second_service(one, &[0]), one));
        let table = dual_table(&elements).await;
        for (from, to, pod) in [
            (&machine.outside, "[fd00:99::1]:8000", 1),
            (&machine.host, "[fd00:99::1]:8000", 1),
            (&machine.host, "192.0.2.1:8000", 1),
            (&machine.pods[0], "[fd00:88::1]:8000", 1),
            // a pod reaches itself
            (&machine.pods[1], "[fd00:99::1]:8000", 1),
            (&machine.outside, "[fd00:99::1]:8001", 0),
        ] {
            assert_eq!(connect(from, to).unwrap().pod, pod, "{to}");
        }
        for to in ["[fd00:88::1]:8001", "192.0.2.1:8001", "[::1]:8000"] {
            let refused = connect(&machine.host, to).map(drop).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{to}");
        }
        let mut found = table.host_ports().await.unwrap();
        found.sort();
        let mut expected =
            vec![(everywhere, second_endpoint(1)), (first, endpoint(1)), (one, second_endpoint(0))];
        expected.sort();
        assert_eq!(found, expected);
    });
}
