//! Ports of the machine that lead to one pod each.

use std::io::{ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::time::Duration;

use rekindle_services::{Frontend, RuleChanges, RuleElement, RuleElements};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, sockopt};

use super::support::*;
use crate::support::Namespace;

fn host_port(frontend: Frontend, pod: usize) -> RuleElements {
    let mut elements = service(frontend, &[pod]);
    elements.insert(RuleElement::HostPort(frontend));
    elements
}

#[test]
fn a_host_port_leads_to_its_pod_from_everywhere() {
    for filter in [BridgeFilter::Off, BridgeFilter::On] {
        let machine = Machine::with_filter(2, filter);
        machine.serve_tcp();
        machine.host.block_on(|| async {
            let _table = table_with(&host_port(tcp("0.0.0.0:8000"), 1)).await;
            for (from, to) in [
                (&machine.outside, "192.0.2.1:8000"),
                (&machine.host, "192.0.2.1:8000"),
                (&machine.host, "10.88.0.1:8000"),
                (&machine.host, "127.0.0.1:8000"),
                // another pod, and the pod itself
                (&machine.pods[0], "192.0.2.1:8000"),
                (&machine.pods[1], "192.0.2.1:8000"),
            ] {
                assert_eq!(connect(from, to).unwrap().pod, 1, "{to}, {filter:?}");
            }
        });
    }
}

#[test]
fn the_pod_behind_a_host_port_sees_its_client() {
    let machine = Machine::new(1);
    let listener = machine.pods[0].inside(|| TcpListener::bind(endpoint(0)).unwrap());
    machine.host.block_on(|| async {
        let _table = table_with(&host_port(tcp("192.0.2.1:8000"), 0)).await;
        let client = machine.outside.inside(|| TcpStream::connect("192.0.2.1:8000").unwrap());
        assert_eq!(listener.accept().unwrap().1, client.local_addr().unwrap());
    });
}

#[test]
fn a_host_port_with_a_host_ip_is_served_there_only() {
    let machine = Machine::new(1);
    machine.serve_tcp();
    machine.host.block_on(|| async {
        let mut elements = host_port(tcp("127.0.0.1:8000"), 0);
        elements.extend(host_port(tcp("192.0.2.1:8001"), 0));
        let table = table_with(&elements).await;
        assert_eq!(table.read_back().await.unwrap(), elements);
        for to in ["127.0.0.1:8000", "192.0.2.1:8001"] {
            assert_eq!(connect(&machine.host, to).unwrap().pod, 0, "{to}");
        }
        for to in ["192.0.2.1:8000", "10.88.0.1:8001", "127.0.0.1:8001"] {
            let refused = connect(&machine.host, to).map(|_| ()).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{to}");
        }
    });
}

/// Its rules come before the check of the kernel that such a packet fails.
#[test]
fn another_machine_does_not_reach_a_host_port_at_the_loopback() {
    let machine = Machine::new(1);
    machine.serve_tcp();
    machine.host.block_on(|| async {
        let _table = table_with(&host_port(tcp("127.0.0.1:8000"), 0)).await;
        let outside = &machine.outside;
        outside.ip("link set lo down");
        outside.ip("addr flush dev lo");
        outside.ip("rule add pref 1 to 127.0.0.0/8 lookup 100");
        outside.ip("route add 127.0.0.0/8 via 192.0.2.1 table 100");
        outside.ip("rule add pref 2 lookup local");
        outside.ip("rule del pref 0");
        outside.inside(|| {
            for interface in ["all", "eth0"] {
                let path = format!("/proc/sys/net/ipv4/conf/{interface}/route_localnet");
                std::fs::write(path, "1").unwrap();
            }
            let to = "127.0.0.1:8000".parse().unwrap();
            let dropped = TcpStream::connect_timeout(&to, Duration::from_millis(300)).unwrap_err();
            assert_eq!(dropped.kind(), ErrorKind::TimedOut);
        });
    });
}

#[test]
fn a_connection_goes_through_with_each_end_of_it_by_itself() {
    let machine = Machine::new(1);
    let listener = machine.pods[0].inside(|| TcpListener::bind(endpoint(0)).unwrap());
    machine.host.block_on(|| async {
        let _table = table_with(&host_port(tcp("0.0.0.0:8000"), 0)).await;
        let mut client = machine.outside.inside(|| TcpStream::connect("192.0.2.1:8000").unwrap());
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(b"hello").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut said = String::new();
        server.read_to_string(&mut said).unwrap();
        server.write_all(said.as_bytes()).unwrap();
        drop(server);
        let mut rest = String::new();
        client.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "hello", "what was sent comes back although nothing more is sent");
    });
}

#[test]
fn a_port_follows_its_pod_into_the_next_sandbox() {
    let machine = Machine::new(2);
    machine.serve_tcp();
    machine.host.block_on(|| async {
        let port = tcp("0.0.0.0:8000");
        let (before, after) = (host_port(port, 0), host_port(port, 1));
        let table = table_with(&before).await;
        let mut old = connect(&machine.outside, "192.0.2.1:8000").unwrap();
        assert_eq!(old.pod, 0);
        table.apply(&RuleChanges::between(&before, &after)).await.unwrap();
        assert_eq!(connect(&machine.outside, "192.0.2.1:8000").unwrap().pod, 1);
        assert!(old.echoes(), "an open connection ends with its pod, and not with the rules");
        table.apply(&RuleChanges::between(&after, &RuleElements::new())).await.unwrap();
        let refused = connect(&machine.outside, "192.0.2.1:8000").map(|_| ()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn a_connection_to_a_pod_in_which_nobody_listens_is_refused() {
    let machine = Machine::new(1);
    machine.host.block_on(|| async {
        let _table = table_with(&host_port(tcp("0.0.0.0:8000"), 0)).await;
        for from in [&machine.outside, &machine.host] {
            let refused = connect(from, "192.0.2.1:8000").map(|_| ()).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        }
    });
}

#[test]
fn each_client_gets_the_answers_to_its_own_datagrams() {
    let machine = Machine::new(2);
    machine.serve_udp();
    machine.host.block_on(|| async {
        let port = udp("0.0.0.0:5300");
        let (before, after) = (host_port(port, 0), host_port(port, 1));
        let table = table_with(&before).await;
        let clients = [
            udp_client(&machine.outside, "192.0.2.1:5300"),
            udp_client(&machine.outside, "192.0.2.1:5300"),
            udp_client(&machine.host, "127.0.0.1:5300"),
        ];
        for client in &clients {
            assert_eq!(ask(client).unwrap(), 0);
        }
        let changes = RuleChanges::between(&before, &after);
        table.apply(&changes).await.unwrap();
        table.forget_udp_flows(&changes.stale_flows()).await.unwrap();
        for client in &clients {
            assert_eq!(ask(client).unwrap(), 1);
        }
    });
}

/// A client that does not stop asking would have its packets go on to the machine itself.
#[test]
fn datagrams_of_before_the_port_was_open_do_not_keep_the_next_ones_from_the_pod() {
    let machine = Machine::new(1);
    machine.serve_udp();
    machine.host.block_on(|| async {
        let table = table_with(&RuleElements::new()).await;
        let client = udp_client(&machine.outside, "192.0.2.1:5300");
        let refused = ask(&client).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        // a program of the machine asks another machine at the same port
        let stranger = udp_client(&machine.host, &format!("{OUTSIDE}:5300"));
        ask(&stranger).unwrap_err();
        let added = host_port(udp("0.0.0.0:5300"), 0);
        let changes = RuleChanges::between(&RuleElements::new(), &added);
        table.apply(&changes).await.unwrap();
        assert_eq!(table.forget_udp_flows(&changes.stale_flows()).await.unwrap(), 1);
        assert_eq!(ask(&client).unwrap(), 0);
    });
}

/// By hand, as not every kernel has sockets of SCTP: the first packet of an association.
#[test]
fn a_host_port_and_a_service_of_sctp_lead_to_their_pod() {
    let machine = Machine::new(2);
    machine.host.block_on(|| async {
        let mut elements = host_port(sctp("0.0.0.0:8000"), 0);
        elements.extend(service(sctp("10.96.0.1:8000"), &[0]));
        elements.extend(service(sctp("0.0.0.0:30000"), &[0]));
        let _table = table_with(&elements).await;
        let cluster_ip = Ipv4Addr::new(10, 96, 0, 1);
        for (from, source, to) in [
            (&machine.outside, (OUTSIDE, 40_000), (HOST_OUTSIDE, 8000)),
            (&machine.outside, (OUTSIDE, 40_001), (HOST_OUTSIDE, 30_000)),
            (&machine.pods[1], (pod_ip(1), 40_002), (cluster_ip, 8000)),
        ] {
            first_packet_arrives((from, source), to, &machine.pods[0]);
        }
    });
}

/// At the first pod, from the address that it was sent from.
fn first_packet_arrives(
    (from, (address, from_port)): (&Namespace, (Ipv4Addr, u16)),
    (to, port): (Ipv4Addr, u16),
    pod: &Namespace,
) {
    let server = raw_sctp(pod);
    let client = raw_sctp(from);
    let to = SocketAddrV4::new(to, 0);
    let sent = init_packet(from_port, port);
    rustix::net::sendto(&client, &sent, SendFlags::empty(), &to).unwrap();
    let mut buffer = [MaybeUninit::<u8>::uninit(); 256];
    let ((received, _), _) = rustix::net::recv(&server, &mut buffer, RecvFlags::empty()).unwrap();
    const IP_HEADER: usize = 20;
    let (ip, sctp) = received.split_at(IP_HEADER);
    assert_eq!((&ip[12..16], &ip[16..20]), (&address.octets()[..], &pod_ip(0).octets()[..]));
    let ports = [&from_port.to_be_bytes()[..], &POD_PORT.to_be_bytes()].concat();
    assert_eq!(sctp[..4], ports);
}

fn raw_sctp(namespace: &Namespace) -> rustix::fd::OwnedFd {
    namespace.inside(|| {
        let socket =
            rustix::net::socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::SCTP)).unwrap();
        let patience = Some(Duration::from_secs(60));
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, patience).unwrap();
        socket
    })
}

/// A packet with the chunk INIT (RFC 9260, 3.3.2).
fn init_packet(from: u16, to: u16) -> Vec<u8> {
    let chunk = [
        [1, 0, 0, 20],
        0x1234_5678_u32.to_be_bytes(),
        65_536_u32.to_be_bytes(),
        [0, 1, 0, 1],
        1_u32.to_be_bytes(),
    ];
    let ports = [from.to_be_bytes(), to.to_be_bytes()].concat();
    let mut packet = [&ports[..], &[0; 8], chunk.as_flattened()].concat();
    let checksum = crc32c(&packet);
    packet[8..12].copy_from_slice(&checksum.to_le_bytes());
    packet
}

fn crc32c(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
        }
    }
    !crc
}
