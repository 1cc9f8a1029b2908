//! Where connections go.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::Ipv4Addr;

use rekindle_services::{Refusal, RuleChanges, RuleElement, RuleElements, SourceRange};

use crate::services::support::*;

#[test]
fn connections_to_a_cluster_ip_go_to_all_its_endpoints_at_their_own_port() {
    for filter in [BridgeFilter::Off, BridgeFilter::On] {
        let machine = Machine::with_filter(4, filter);
        machine.serve_tcp();
        machine.host.block_on(|| reach_all(&machine));
    }
}

async fn reach_all(machine: &Machine) {
    let _table = table_with(&service(tcp("10.96.0.1:80"), &[1, 2, 3])).await;
    for (from, name) in [(&machine.pods[0], "pod"), (&machine.host, "host")] {
        let reached: BTreeSet<usize> =
            (0..60).map(|_| connect(from, "10.96.0.1:80").unwrap().pod).collect();
        assert_eq!(reached, BTreeSet::from([1, 2, 3]), "from {name}");
    }
}

/// Pods 0 and 1 are of one node, 2 and 3 of another one; pod 4 is of a third one.
#[test]
fn pods_of_a_node_are_led_to_the_endpoints_for_them() {
    for filter in [BridgeFilter::Off, BridgeFilter::On] {
        let machine = Machine::with_filter(5, filter);
        machine.serve_tcp();
        machine.serve_udp();
        machine.host.block_on(|| lead_by_client(&machine));
    }
}

async fn lead_by_client(machine: &Machine) {
    let (first, second) = ("10.88.0.2/31", "10.88.0.4/31");
    let (web, dns) = (tcp("10.96.0.1:80"), udp("10.96.0.1:53"));
    let near = |frontend, clients, pods: &[usize]| {
        let near: Vec<_> = pods.iter().map(|pod| endpoint(*pod)).collect();
        by_client(frontend, clients, &near)
    };
    let mut elements = service(web, &[0, 1, 2]);
    elements.extend(near(web, first, &[0, 1]));
    elements.extend(near(web, second, &[2]));
    elements.extend(service(dns, &[0, 3]));
    elements.extend(near(dns, second, &[3]));
    let table = table_with(&elements).await;
    let reached = |from| -> BTreeSet<usize> {
        (0..40).map(|_| connect(from, "10.96.0.1:80").unwrap().pod).collect()
    };
    let asked = |from| -> BTreeSet<usize> {
        (0..40).map(|_| ask(&udp_client(from, "10.96.0.1:53")).unwrap()).collect()
    };
    let [of_first, of_second, of_third] = [1, 3, 4].map(|pod| &machine.pods[pod]);
    assert_eq!(reached(of_first), BTreeSet::from([0, 1]));
    assert_eq!(reached(of_second), BTreeSet::from([2]));
    assert_eq!(asked(of_second), BTreeSet::from([3]));
    for from in [of_third, &machine.host] {
        assert_eq!(reached(from), BTreeSet::from([0, 1, 2]));
        assert_eq!(asked(from), BTreeSet::from([0, 3]));
    }
    // no endpoint on their node any more: others have some
    let mut after = elements.clone();
    after.retain(|element| !near(web, second, &[2]).contains(element));
    after.insert(RuleElement::OnOtherNodes(web, SourceRange::parse(second).unwrap()));
    table.apply(&RuleChanges::between(&elements, &after)).await.unwrap();
    let soon = std::time::Duration::from_millis(300);
    let to = "10.96.0.1:80".parse().unwrap();
    let dropped = of_second.inside(|| std::net::TcpStream::connect_timeout(&to, soon).unwrap_err());
    assert_eq!(dropped.kind(), ErrorKind::TimedOut);
    assert_eq!(reached(of_first), BTreeSet::from([0, 1]));
    // a table that is renewed has the same rules
    table.replace(&after).await.unwrap();
    assert_eq!(table.read_back().await.unwrap(), after);
    let dropped = of_second.inside(|| std::net::TcpStream::connect_timeout(&to, soon).unwrap_err());
    assert_eq!(dropped.kind(), ErrorKind::TimedOut);
    assert_eq!(reached(of_first), BTreeSet::from([0, 1]));
}

#[test]
fn a_pod_reaches_itself_through_its_service() {
    for filter in [BridgeFilter::Off, BridgeFilter::On] {
        let machine = Machine::with_filter(1, filter);
        machine.serve_tcp();
        machine.host.block_on(|| async {
            let mut elements = service(tcp("10.96.0.1:80"), &[0]);
            elements.extend(service(tcp("0.0.0.0:30080"), &[0]));
            let _table = table_with(&elements).await;
            for to in ["10.96.0.1:80", "192.0.2.1:30080"] {
                assert_eq!(connect(&machine.pods[0], to).unwrap().pod, 0, "{to}, {filter:?}");
            }
        });
    }
}

#[test]
fn a_node_port_is_served_at_each_address_of_the_node() {
    let machine = Machine::new(2);
    machine.serve_tcp();
    let server = machine.outside.inside(|| std::net::TcpListener::bind("0.0.0.0:30080").unwrap());
    machine.host.block_on(|| async {
        let _table = table_with(&service(tcp("0.0.0.0:30080"), &[1])).await;
        for (from, to) in [
            (&machine.outside, "192.0.2.1:30080"),
            (&machine.pods[0], "192.0.2.1:30080"),
            (&machine.pods[0], "10.88.0.1:30080"),
            (&machine.host, "192.0.2.1:30080"),
            (&machine.host, "10.88.0.1:30080"),
            (&machine.host, "127.0.0.1:30080"),
        ] {
            assert_eq!(connect(from, to).unwrap().pod, 1, "{to}");
        }
        // the same port of another machine is that machine's
        let to_other = machine.pods[0].inside(|| std::net::TcpStream::connect("192.0.2.2:30080"));
        assert_eq!(to_other.unwrap().peer_addr().unwrap().port(), 30080);
        // and pods leave with the host's address
        assert_eq!(server.accept().unwrap().1.ip(), HOST_OUTSIDE);
    });
}

#[test]
fn a_client_from_outside_keeps_its_address() {
    let machine = Machine::new(1);
    let listener = machine.pods[0].inside(|| std::net::TcpListener::bind(endpoint(0)).unwrap());
    machine.host.block_on(|| async {
        let _table = table_with(&service(tcp("0.0.0.0:30080"), &[0])).await;
        let client = machine.outside.inside(|| std::net::TcpStream::connect("192.0.2.1:30080"));
        assert_eq!(listener.accept().unwrap().1, client.unwrap().local_addr().unwrap());
    });
}

#[test]
fn pods_do_not_reach_what_listens_on_the_hosts_loopback() {
    let machine = Machine::new(1);
    let listener = machine.host.inside(|| std::net::TcpListener::bind("127.0.0.1:9000").unwrap());
    listener.set_nonblocking(true).unwrap();
    machine.host.block_on(|| async {
        let _table = table_with(&RuleElements::new()).await;
        // by hand, past the pod's own loopback
        machine.pods[0].ip("link set lo down");
        machine.pods[0].ip("addr flush dev lo");
        machine.pods[0].ip("rule add pref 1 to 127.0.0.0/8 lookup 100");
        machine.pods[0].ip("route add 127.0.0.0/8 via 10.88.0.1 table 100");
        machine.pods[0].ip("rule add pref 2 lookup local");
        machine.pods[0].ip("rule del pref 0");
        machine.pods[0].inside(|| {
            for interface in ["all", "eth0"] {
                let path = format!("/proc/sys/net/ipv4/conf/{interface}/route_localnet");
                std::fs::write(path, "1").unwrap();
            }
            let to = "127.0.0.1:9000".parse().unwrap();
            let soon = std::time::Duration::from_millis(300);
            let refused = std::net::TcpStream::connect_timeout(&to, soon).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::TimedOut);
        });
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn a_service_without_endpoints_refuses_at_once_and_a_local_one_drops() {
    for filter in [BridgeFilter::Off, BridgeFilter::On] {
        let machine = Machine::with_filter(1, filter);
        machine.host.block_on(|| refuse(&machine));
    }
}

async fn refuse(machine: &Machine) {
    let elements = RuleElements::from([
        RuleElement::Refused(tcp("10.96.0.1:80"), Refusal::Reject),
        RuleElement::Refused(udp("10.96.0.1:53"), Refusal::Reject),
        RuleElement::Refused(tcp("0.0.0.0:30080"), Refusal::Reject),
        RuleElement::Refused(tcp("10.96.0.2:80"), Refusal::Drop),
    ]);
    let _table = table_with(&elements).await;
    for (from, to) in [
        (&machine.pods[0], "10.96.0.1:80"),
        (&machine.host, "10.96.0.1:80"),
        (&machine.outside, "192.0.2.1:30080"),
        (&machine.host, "127.0.0.1:30080"),
        // no Service has it, or not this port
        (&machine.pods[0], "10.96.7.7:80"),
        (&machine.host, "10.96.0.2:81"),
    ] {
        let refused = connect(from, to).map(|_| ()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{to}");
    }
    let refused = ask(&udp_client(&machine.pods[0], "10.96.0.1:53")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    // who sends a datagram from the host itself is told by the call that sends it
    let refused = ask(&udp_client(&machine.host, "10.96.0.1:53")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    machine.pods[0].inside(|| {
        let to = "10.96.0.2:80".parse().unwrap();
        let soon = std::time::Duration::from_millis(300);
        let dropped = std::net::TcpStream::connect_timeout(&to, soon).unwrap_err();
        assert_eq!(dropped.kind(), ErrorKind::TimedOut);
    });
}

#[test]
fn datagrams_go_to_the_endpoints_of_a_service() {
    let machine = Machine::new(3);
    machine.serve_udp();
    machine.host.block_on(|| async {
        let mut elements = service(udp("10.96.0.1:53"), &[1, 2]);
        elements.extend(service(udp("0.0.0.0:30053"), &[1]));
        let _table = table_with(&elements).await;
        for from in [&machine.pods[0], &machine.host] {
            let reached: BTreeSet<usize> =
                (0..40).map(|_| ask(&udp_client(from, "10.96.0.1:53")).unwrap()).collect();
            assert_eq!(reached, BTreeSet::from([1, 2]));
        }
        for (from, to) in [(&machine.outside, HOST_OUTSIDE), (&machine.host, Ipv4Addr::LOCALHOST)] {
            assert_eq!(ask(&udp_client(from, &format!("{to}:30053"))).unwrap(), 1, "{to}");
        }
    });
}
