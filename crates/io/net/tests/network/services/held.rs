//! Connections that wait until their frontend leads somewhere.

use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use rekindle_net::rules::{HeldPacket, RuleTable};
use rekindle_services::{Frontend, Refusal, RuleChanges, RuleElement, RuleElements};
use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket};

use super::support::{
    HOST_OUTSIDE, Machine, POD_PORT, by_client, connect, endpoint, pod_ip, service, table_with, tcp,
};
use crate::support::Namespace;

type Client = tokio::task::JoinHandle<std::io::Result<usize>>;

/// Which part of the machine connects.
type From = fn(&Machine) -> &Namespace;

fn held(frontend: Frontend) -> RuleElements {
    [RuleElement::Refused(frontend, Refusal::Reject), RuleElement::Held(frontend.into())].into()
}

/// Begins to connect.
fn client(machine: &Arc<Machine>, from: From, to: &str) -> Client {
    let (machine, to) = (Arc::clone(machine), to.to_owned());
    tokio::task::spawn_blocking(move || connect(from(&machine), &to).map(|found| found.pod))
}

/// What waits when something waits for this frontend.
async fn waiting(table: &RuleTable, frontend: Frontend) -> Vec<HeldPacket> {
    let mut waiting: Vec<HeldPacket> = Vec::new();
    while !waiting.iter().any(|packet| packet.frontends().any(|(of, _)| of == frontend)) {
        waiting.extend(table.held().await.unwrap());
    }
    waiting
}

fn release(table: &RuleTable, packets: Vec<HeldPacket>) {
    for packet in packets {
        table.release(packet).unwrap();
    }
}

/// What comes of a connection. All that waits goes on: a client sends its first packet again after
/// a second.
async fn outcome(table: &RuleTable, mut client: Client) -> std::io::Result<usize> {
    loop {
        tokio::select! {
            ended = &mut client => return ended.unwrap(),
            packets = table.held() => release(table, packets.unwrap()),
        }
    }
}

#[test]
fn connections_wait_and_go_on_to_where_the_rules_lead_then() {
    let machine = Arc::new(Machine::new(2));
    machine.serve_tcp();
    machine.host.block_on(|| async {
        let (service_ip, node_port) = (tcp("10.96.0.1:80"), tcp("0.0.0.0:30080"));
        let before = &held(service_ip) | &held(node_port);
        let after = &service(service_ip, &[1]) | &service(node_port, &[0]);
        let table = table_with(&before).await;
        assert_eq!(table.read_back().await.unwrap(), before);
        let outside = format!("{HOST_OUTSIDE}:30080");
        let cases: [(From, &str, Frontend, usize); 5] = [
            (|machine| &machine.pods[0], "10.96.0.1:80", service_ip, 1),
            (|machine| &machine.pods[1], "10.96.0.1:80", service_ip, 1),
            (|machine| &machine.host, "10.96.0.1:80", service_ip, 1),
            (|machine| &machine.outside, &outside, node_port, 0),
            (|machine| &machine.host, "127.0.0.1:30080", node_port, 0),
        ];
        let mut clients = Vec::new();
        let mut packets = Vec::new();
        for (from, to, frontend, pod) in cases {
            let client = client(&machine, from, to);
            packets.extend(waiting(&table, frontend).await);
            clients.push((client, to, pod));
        }
        table.apply(&RuleChanges::between(&before, &after)).await.unwrap();
        for (client, to, _) in &clients {
            assert!(!client.is_finished(), "{to}");
        }
        release(&table, packets);
        for (client, to, pod) in clients {
            assert_eq!(outcome(&table, client).await.unwrap(), pod, "{to}");
        }
    });
}

#[test]
fn connections_of_the_clients_of_a_node_wait_while_others_go_on() {
    let machine = Arc::new(Machine::new(3));
    machine.serve_tcp();
    machine.host.block_on(|| async {
        let (web, clients) = (tcp("10.96.0.1:80"), "10.88.0.3/32");
        let others = service(web, &[0]);
        let before = &others | &by_client(web, clients, &[]);
        let after = &others | &by_client(web, clients, &[endpoint(2)]);
        let table = table_with(&before).await;
        let client = client(&machine, |machine| &machine.pods[1], "10.96.0.1:80");
        let packets = waiting(&table, web).await;
        let came_from = packets.iter().flat_map(HeldPacket::frontends).map(|(_, from)| from);
        assert!(came_from.eq([std::net::IpAddr::from(pod_ip(1)); 2]), "{packets:?}");
        connect(&machine.pods[0], "10.96.0.1:80").unwrap();
        table.apply(&RuleChanges::between(&before, &after)).await.unwrap();
        assert!(!client.is_finished());
        release(&table, packets);
        assert_eq!(outcome(&table, client).await.unwrap(), 2);
    });
}

#[test]
fn a_connection_that_has_waited_comes_from_its_client() {
    let machine = Arc::new(Machine::new(2));
    machine.host.block_on(|| async {
        let frontend = tcp("10.96.0.1:80");
        let (before, after) = (held(frontend), service(frontend, &[1]));
        let table = table_with(&before).await;
        let server =
            machine.pods[1].inside(|| std::net::TcpListener::bind((pod_ip(1), POD_PORT)).unwrap());
        let client = client(&machine, |machine| &machine.pods[0], "10.96.0.1:80");
        let packets = waiting(&table, frontend).await;
        table.apply(&RuleChanges::between(&before, &after)).await.unwrap();
        release(&table, packets);
        let accepted = tokio::task::spawn_blocking(move || server.accept().unwrap().1);
        assert_eq!(accepted.await.unwrap().ip(), pod_ip(0));
        let ended = outcome(&table, client).await.unwrap_err();
        assert!(matches!(ended.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset));
    });
}

#[test]
fn one_that_has_waited_in_vain_is_refused() {
    let machine = Arc::new(Machine::new(1));
    machine.host.block_on(|| async {
        let frontend = tcp("10.96.0.1:80");
        let table = table_with(&held(frontend)).await;
        let clients: [From; 2] = [|machine| &machine.pods[0], |machine| &machine.host];
        for from in clients {
            let client = client(&machine, from, "10.96.0.1:80");
            let packets = waiting(&table, frontend).await;
            assert!(!client.is_finished());
            release(&table, packets);
            let refused = outcome(&table, client).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        }
    });
}

/// Clients of a pod that does not come back cost so much memory and no more (docs/adr/0060).
#[test]
fn one_more_than_can_wait_is_refused_at_once() {
    const PLACES: u16 = 8192;
    let machine = Arc::new(Machine::new(1));
    machine.host.block_on(|| async {
        let frontend = tcp("10.96.0.1:80");
        let to = SocketAddrV4::new(Ipv4Addr::new(10, 96, 0, 1), 80);
        let table = table_with(&held(frontend)).await;
        send_first_packets(&machine.pods[0], to, PLACES);
        let mut packets = Vec::new();
        while packets.len() < PLACES.into() {
            packets.extend(table.held().await.unwrap());
        }
        let refused = connect(&machine.pods[0], "10.96.0.1:80").map(|_| ()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);

        release(&table, packets);
        let next = client(&machine, |machine| &machine.pods[0], "10.96.0.1:80");
        let packets = waiting(&table, frontend).await;
        assert!(!next.is_finished(), "there is room again");
        release(&table, packets);
        assert!(outcome(&table, next).await.is_err());
    });
}

/// Of so many connections from the first pod. No socket sends them again after a second.
fn send_first_packets(pod: &Namespace, to: SocketAddrV4, count: u16) {
    const FIRST_PORT: u16 = 1024;
    let socket =
        pod.inside(|| socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::TCP))).unwrap();
    for port in FIRST_PORT..FIRST_PORT + count {
        let packet = first_packet(SocketAddrV4::new(pod_ip(0), port), to);
        sendto(&socket, &packet, SendFlags::empty(), &SocketAddrV4::new(*to.ip(), 0)).unwrap();
    }
}

/// A SYN without options (RFC 9293, 3.1).
fn first_packet(from: SocketAddrV4, to: SocketAddrV4) -> [u8; 20] {
    const WORDS_OF_HEADER: u8 = 5;
    const SYN: u8 = 2;
    let mut packet = [0; 20];
    packet[..2].copy_from_slice(&from.port().to_be_bytes());
    packet[2..4].copy_from_slice(&to.port().to_be_bytes());
    packet[12] = WORDS_OF_HEADER << 4;
    packet[13] = SYN;
    packet[14..16].copy_from_slice(&u16::MAX.to_be_bytes());
    let addresses = [from.ip().octets(), to.ip().octets()];
    let pseudo_header = [addresses.as_flattened(), &[0, 6, 0, 20]].concat();
    let words = pseudo_header.chunks_exact(2).chain(packet.chunks_exact(2));
    let sum: u32 = words.map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    packet[16..18].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    packet
}

/// The rules outlive a kill -9, and nothing waits for a process that is gone.
#[test]
fn without_an_engine_no_connection_waits() {
    let machine = Machine::new(1);
    machine.host.block_on(|| async {
        drop(table_with(&held(tcp("10.96.0.1:80"))).await);
        let refused = connect(&machine.pods[0], "10.96.0.1:80").map(|_| ()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn established_connections_and_other_frontends_do_not_wait() {
    let machine = Machine::new(2);
    machine.serve_tcp();
    machine.host.block_on(|| async {
        let (frontend, other) = (tcp("10.96.0.1:80"), tcp("10.96.0.2:80"));
        let before = &service(frontend, &[1]) | &service(other, &[1]);
        let after = &held(frontend) | &service(other, &[1]);
        let table = table_with(&before).await;
        let mut open = connect(&machine.pods[0], "10.96.0.1:80").unwrap();
        table.apply(&RuleChanges::between(&before, &after)).await.unwrap();
        assert!(open.echoes());
        assert_eq!(connect(&machine.pods[0], "10.96.0.2:80").unwrap().pod, 1);
        open.stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(open.stream.read(&mut [0]).unwrap(), 0, "it ends in order");
    });
}
