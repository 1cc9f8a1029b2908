//! Pods with an address of each family.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;

use rekindle_net::rules::{PolicyTable, TableOwnership};
use rekindle_net::{
    BridgeNetwork, BridgeShare, EmbeddingPrefix, ForwardingUsers, NetworkConfig, SandboxAttachment,
    SubnetChoice,
};
use rekindle_network_policy::{ClassNumber, PolicyElement, PolicyElements};
use rekindle_types::{IpFamily, IpStack};

use crate::support::Namespace;

const BRIDGE: &str = "rktest0";
const PORT: u16 = 8080;
/// How long what is dropped takes.
const PATIENCE: Duration = Duration::from_secs(2);

fn prefix() -> EmbeddingPrefix {
    EmbeddingPrefix::new("fd52:1:2::".parse().unwrap())
}

fn config(dir: &Path, ipv6: Option<EmbeddingPrefix>) -> NetworkConfig {
    NetworkConfig {
        bridge: BRIDGE.to_owned(),
        subnet: SubnetChoice::Fixed("10.88.0.0/16".parse().unwrap()),
        ipv6,
        share: BridgeShare::Owner,
        state_dir: dir.to_owned(),
        mtu: 1500,
    }
}

/// Two pods, as an engine with or without second addresses plugs them in.
struct World {
    dir: tempfile::TempDir,
    host: Namespace,
    pods: [Namespace; 2],
}

impl World {
    fn new() -> Self {
        let (host, pods) = (Namespace::new(), [Namespace::new(), Namespace::new()]);
        Self { dir: tempfile::tempdir().unwrap(), host, pods }
    }

    fn attach(&self, ipv6: Option<EmbeddingPrefix>) -> [SandboxAttachment; 2] {
        self.host.block_on(|| async {
            let network = BridgeNetwork::open(config(self.dir.path(), ipv6)).await.unwrap();
            let first = network.attach("a/0", &self.pods[0].path()).await.unwrap();
            [first, network.attach("b/0", &self.pods[1].path()).await.unwrap()]
        })
    }

    fn forwarding(&self) -> ForwardingUsers {
        ForwardingUsers::new(&self.dir.path().join("forwarding"), BRIDGE, IpFamily::V6)
    }

    fn setting(&self, setting: &str) -> String {
        let path = format!("/proc/sys/net/ipv6/conf/{setting}");
        self.host.inside(|| std::fs::read_to_string(&path).unwrap().trim().to_owned())
    }
}

fn reaches(from: &Namespace, to: &Namespace, address: Ipv6Addr) -> bool {
    let at = SocketAddr::from((address, PORT));
    let _listener = to.inside(|| TcpListener::bind(at).unwrap());
    from.inside(|| TcpStream::connect_timeout(&at, PATIENCE).is_ok())
}

#[test]
fn pods_reach_each_other_and_the_host_by_their_second_addresses() {
    let world = World::new();
    let [a, b] = world.attach(Some(prefix()));
    assert_eq!(a.second_ip, Some(prefix().address(a.ip)));
    world.host.inside(|| world.forwarding().join().unwrap());
    let (first, second) = (a.second_ip.unwrap(), b.second_ip.unwrap());
    let [pod_a, pod_b] = &world.pods;
    assert!(reaches(pod_a, pod_b, second), "pod to pod");
    assert!(reaches(&world.host, pod_a, first), "host to pod");
    let gateway = prefix().address(a.gateway);
    assert!(reaches(pod_b, &world.host, gateway), "pod to host");
    for (namespace, interface) in [(&world.host, BRIDGE), (pod_a, "eth0")] {
        let addresses = namespace.ip(&format!("-6 addr show dev {interface}"));
        assert!(!addresses.contains("fe80") && !addresses.contains("tentative"), "{addresses}");
    }
    let neighbours = world.host.ip(&format!("-6 neigh show dev {BRIDGE}"));
    assert_eq!(neighbours.matches("PERMANENT").count(), 2, "{neighbours}");
    let neighbours = pod_a.ip("-6 neigh show dev eth0");
    assert!(neighbours.contains(&format!("{gateway} ")), "{neighbours}");
    assert!(neighbours.contains("PERMANENT"), "{neighbours}");
}

#[test]
fn a_pod_sends_from_its_own_second_address_only() {
    let world = World::new();
    let [a, b] = world.attach(Some(prefix()));
    world.host.inside(|| world.forwarding().join().unwrap());
    let [attacker, victim] = &world.pods;
    let gateway = prefix().address(a.gateway);
    let heard = world.host.inside(|| UdpSocket::bind((gateway, PORT)).unwrap());
    heard.set_read_timeout(Some(PATIENCE)).unwrap();
    let (own, other) = (a.second_ip.unwrap(), b.second_ip.unwrap());
    attacker.ip(&format!("-6 addr add {other}/128 dev eth0 nodad"));
    for from in [other, own] {
        attacker.inside(|| {
            UdpSocket::bind((from, 0)).unwrap().send_to(b"x", (gateway, PORT)).unwrap();
        });
    }
    let (_, from) = heard.recv_from(&mut [0]).unwrap();
    assert_eq!(from.ip(), IpAddr::from(own), "the forged one came before");
    assert!(reaches(&world.host, victim, other), "the victim is where it was");
}

#[test]
fn a_later_start_takes_second_addresses_away_and_gives_them_back() {
    let world = World::new();
    let with = world.attach(Some(prefix()));
    let without = world.attach(None);
    assert_eq!(without[0].second_ip, None);
    for namespace in [&world.host, &world.pods[0]] {
        assert!(!namespace.ip("-6 addr").contains("fd52:"), "{}", namespace.ip("-6 addr"));
    }
    assert_eq!(world.attach(Some(prefix())), with);
    world.host.inside(|| world.forwarding().join().unwrap());
    assert!(reaches(&world.pods[0], &world.pods[1], with[1].second_ip.unwrap()));
}

#[test]
fn what_forwarding_changes_is_put_back_and_autoconfigured_interfaces_stay_so() {
    let world = World::new();
    world.host.ip("link add uplink type veth peer name far");
    world.host.ip("link set uplink up");
    world.attach(Some(prefix()));
    let users = world.forwarding();
    assert_eq!(
        (world.setting("all/forwarding"), world.setting("uplink/accept_ra")),
        pair("0", "1")
    );
    world.host.inside(|| users.join().unwrap());
    assert_eq!(
        (world.setting("all/forwarding"), world.setting("uplink/accept_ra")),
        pair("1", "2")
    );
    assert_eq!(world.setting(&format!("{BRIDGE}/accept_ra")), "0");
    // joined again, as after a kill
    world.host.inside(|| users.join().unwrap());
    world.host.inside(|| users.leave().unwrap());
    assert_eq!(
        (world.setting("all/forwarding"), world.setting("uplink/accept_ra")),
        pair("0", "1")
    );
}

#[test]
fn a_start_does_without_an_interface_that_was_noted_and_is_gone() {
    let world = World::new();
    world.host.ip("link add uplink type veth peer name far");
    world.attach(Some(prefix()));
    let users = world.forwarding();
    world.host.inside(|| users.join().unwrap());
    world.host.ip("link del uplink");
    let all = "/proc/sys/net/ipv6/conf/all/forwarding";
    world.host.inside(|| std::fs::write(all, "0").unwrap());
    world.host.inside(|| users.join().unwrap());
    assert_eq!(world.setting("all/forwarding"), "1");
    world.host.inside(|| users.leave().unwrap());
    assert_eq!(world.setting("all/forwarding"), "0");
}

#[test]
fn what_is_left_can_be_ended_where_ipv6_was_switched_off_since() {
    let world = World::new();
    world.attach(Some(prefix()));
    let off = "/proc/sys/net/ipv6/conf/all/disable_ipv6";
    world.host.inside(|| std::fs::write(off, "1").unwrap());
    world.host.block_on(|| async {
        let config = config(world.dir.path(), Some(prefix()));
        let network = BridgeNetwork::open_to_end(config).await.unwrap();
        assert_eq!(network.stack(), IpStack::Single);
        network.close().await.unwrap();
    });
    let left = world.host.ip("link");
    assert!(!left.contains(BRIDGE), "{left}");
}

fn pair(one: &str, other: &str) -> (String, String) {
    (one.to_owned(), other.to_owned())
}

#[test]
fn a_machine_on_which_ipv6_is_off_is_refused_with_what_to_do() {
    let world = World::new();
    let off = "/proc/sys/net/ipv6/conf/all/disable_ipv6";
    world.host.inside(|| std::fs::write(off, "1").unwrap());
    let error = world.host.block_on(|| async {
        BridgeNetwork::open(config(world.dir.path(), Some(prefix()))).await.unwrap_err()
    });
    let said = error.to_string();
    assert!(said.contains("net.ipv6.conf.all.disable_ipv6"), "{said}");
    assert!(said.ends_with("switch it on, or start without dual stack"), "{said}");
    world.attach(None);
}

#[test]
fn policies_hold_for_second_addresses() {
    let world = World::new();
    let [a, b] = world.attach(Some(prefix()));
    world.host.inside(|| world.forwarding().join().unwrap());
    let (client, server) = (a.second_ip.unwrap(), b.second_ip.unwrap());
    let (own, peer) = (ClassNumber::MIN, ClassNumber::new(2).unwrap());
    let isolated =
        [PolicyElement::Ingress(server.into(), own), PolicyElement::Itself(server.into())];
    let block = |cidr: &str| {
        let net: ipnet::Ipv6Net = cidr.parse().unwrap();
        let (first, last) = (net.network().into(), net.broadcast().into());
        PolicyElement::AllowedBlock(own, rekindle_network_policy::AddressRange { first, last })
    };
    let allowed_peer =
        [PolicyElement::Peer(client.into(), peer), PolicyElement::AllowedPeer(own, peer)];
    let cases: [(&str, &[PolicyElement], bool); 4] = [
        ("nothing", &[], false),
        ("a peer", &allowed_peer, true),
        ("its address", &[block(&format!("{client}/128"))], true),
        ("another address", &[block("2001:db8::/32")], false),
    ];
    for (case, more, expected) in cases {
        let elements: PolicyElements = isolated.iter().chain(more).copied().collect();
        world.host.block_on(|| async {
            let table = PolicyTable::open(BRIDGE, IpStack::Dual, TableOwnership::Shared).unwrap();
            table.replace(&elements).unwrap();
        });
        assert_eq!(reaches(&world.pods[0], &world.pods[1], server), expected, "{case}");
    }
    let listed = world.host.run("nft", "list ruleset");
    assert!(listed.contains("ingress-v6"), "{listed}");
}
