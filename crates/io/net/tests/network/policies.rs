//! NetworkPolicies in real network namespaces: two pods on one bridge.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use rekindle_net::rules::{PolicyTable, TableOwnership};
use rekindle_net::{BridgeNetwork, BridgeShare, NetworkConfig, SubnetChoice};
use rekindle_network_policy::{
    AddressRange, ClassNumber, PolicyChanges, PolicyElement, PolicyElements, PortRange,
};
use rekindle_services::TransportProtocol;

use crate::support::Namespace;

const BRIDGE: &str = "rktest0";
const PORT: u16 = 8080;
/// Long enough for a connection that works on a busy machine, and how long a refusal takes.
const REFUSED_AFTER: Duration = Duration::from_secs(2);
const OWN: ClassNumber = ClassNumber::MIN;

fn peer_class() -> ClassNumber {
    ClassNumber::new(2).unwrap()
}

fn connect(from: &Namespace, to: IpAddr) -> Option<TcpStream> {
    from.inside(|| TcpStream::connect_timeout(&SocketAddr::from((to, PORT)), REFUSED_AFTER).ok())
}

fn everyone() -> AddressRange {
    AddressRange { first: Ipv4Addr::UNSPECIFIED.into(), last: Ipv4Addr::BROADCAST.into() }
}

fn port(port: u16) -> PortRange {
    PortRange { first: port, last: port }
}

#[test]
fn policies_rule_pods_of_one_bridge_and_end_connections() {
    let dir = tempfile::tempdir().unwrap();
    let (host, a, b) = (Namespace::new(), Namespace::new(), Namespace::new());
    let (client, server, _network) = host.block_on(|| async {
        let network = BridgeNetwork::open(NetworkConfig {
            bridge: BRIDGE.to_owned(),
            subnet: SubnetChoice::Auto,
            ipv6: None,
            share: BridgeShare::Owner,
            state_dir: dir.path().to_owned(),
            mtu: 1500,
        });
        let network = network.await.unwrap();
        let client = IpAddr::from(network.attach("a/0", &a.path()).await.unwrap().ip);
        let server = IpAddr::from(network.attach("b/0", &b.path()).await.unwrap().ip);
        (client, server, network)
    });
    let listener = b.inside(|| TcpListener::bind((server, PORT)).unwrap());
    let in_table = |work: &(dyn Fn(&PolicyTable) + Sync)| {
        host.block_on(|| async {
            work(
                &PolicyTable::open(BRIDGE, rekindle_types::IpStack::Single, TableOwnership::Shared)
                    .unwrap(),
            );
        });
    };
    let isolated =
        PolicyElements::from([PolicyElement::Ingress(server, OWN), PolicyElement::Itself(server)]);
    let set = |more: &[PolicyElement]| {
        let elements = isolated.iter().chain(more).copied().collect();
        in_table(&|table| table.replace(&elements).unwrap());
    };
    let peer = PolicyElement::Peer(client, peer_class());
    let tcp = TransportProtocol::Tcp;

    in_table(&|table| table.replace(&PolicyElements::new()).unwrap());
    let mut open = connect(&a, server).expect("no policy: open");
    let (mut served, _) = listener.accept().unwrap();
    open.write_all(b"1").unwrap();
    served.read_exact(&mut [0]).unwrap();

    let deny = PolicyChanges { added: isolated.clone(), removed: PolicyElements::new() };
    in_table(&|table| table.apply(&deny).unwrap());
    assert!(connect(&a, server).is_none(), "default deny");
    open.write_all(b"2").unwrap();
    served.set_read_timeout(Some(REFUSED_AFTER)).unwrap();
    let cut = served.read(&mut [0]).unwrap_err().kind();
    assert!(matches!(cut, ErrorKind::WouldBlock | ErrorKind::TimedOut), "an open one ends: {cut}");
    assert!(connect(&host, server).is_some(), "the node reaches its pods");

    set(&[peer, PolicyElement::AllowedPeer(OWN, peer_class())]);
    assert!(connect(&a, server).is_some(), "a peer");
    set(&[peer, PolicyElement::AllowedPeerPorts(OWN, peer_class(), tcp, port(PORT))]);
    assert!(connect(&a, server).is_some(), "a peer at a port");
    set(&[peer, PolicyElement::AllowedPeerPorts(OWN, peer_class(), tcp, port(PORT + 1))]);
    assert!(connect(&a, server).is_none(), "a peer at another port");
    set(&[PolicyElement::AllowedBlock(OWN, everyone())]);
    assert!(connect(&a, server).is_some(), "an address");
    set(&[PolicyElement::AllowedBlock(OWN, AddressRange { first: server, last: server })]);
    assert!(connect(&a, server).is_none(), "other addresses");
    set(&[PolicyElement::AllowedBlockPorts(OWN, everyone(), tcp, port(PORT))]);
    assert!(connect(&a, server).is_some(), "an address at a port");
    let udp = TransportProtocol::Udp;
    set(&[PolicyElement::AllowedBlockPorts(OWN, everyone(), udp, port(PORT))]);
    assert!(connect(&a, server).is_none(), "an address by another protocol");
    let egress = PolicyElement::Egress(client, peer_class());
    set(&[egress, PolicyElement::AllowedBlock(OWN, everyone())]);
    assert!(connect(&a, server).is_none(), "egress of the client");
    let to_server = AddressRange { first: server, last: server };
    let at_port = PolicyElement::AllowedBlockPorts(peer_class(), to_server, tcp, port(PORT));
    set(&[egress, PolicyElement::AllowedBlock(OWN, everyone()), at_port]);
    assert!(connect(&a, server).is_some(), "egress to an address at a port");

    let listed = host.run("nft", "list ruleset");
    assert!(listed.contains("table inet rekindle-rktest0-policies"), "{listed}");
    in_table(&|table| table.remove().unwrap());
    assert!(!host.run("nft", "list ruleset").contains("policies"));
}
