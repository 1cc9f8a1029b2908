//! What a hostile pod can make others believe: nothing. In real namespaces, where the attacker may
//! do in its own what root may: change its addresses and send what it likes.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;

use rekindle_net::{BridgeNetwork, BridgeShare, NetworkConfig, SandboxAttachment, SubnetChoice};
use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket, sockopt};

use crate::support::Namespace;

/// Much longer than anything here takes; the kernel gives a neighbour up after three seconds.
const TIME_MAX: Duration = Duration::from_secs(60);
const BRIDGE: &str = "rktest0";

fn config(dir: &Path) -> NetworkConfig {
    NetworkConfig {
        bridge: BRIDGE.to_owned(),
        subnet: SubnetChoice::Auto,
        ipv6: None,
        share: BridgeShare::Owner,
        state_dir: dir.to_owned(),
        mtu: 1500,
    }
}

/// A host with two pods.
struct World {
    dir: tempfile::TempDir,
    host: Namespace,
    victim: Namespace,
    attacker: Namespace,
    at_victim: SandboxAttachment,
    at_attacker: SandboxAttachment,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (host, victim, attacker) = (Namespace::new(), Namespace::new(), Namespace::new());
        let (at_victim, at_attacker) = attach_both(dir.path(), &host, &victim, &attacker);
        Self { dir, host, victim, attacker, at_victim, at_attacker }
    }

    /// The agent starts again, and finds what stands.
    fn restart_agent(&self) {
        attach_both(self.dir.path(), &self.host, &self.victim, &self.attacker);
    }

    /// Takes the filter and all guards away, as if an earlier version had made everything.
    fn age(&self) {
        for port in [&self.at_victim.host_interface, &self.at_attacker.host_interface] {
            self.host.run("tc", &format!("qdisc del dev {port} ingress"));
            self.host
                .ip(&format!("link set {port} type bridge_slave learning on flood on locked off"));
            set(&self.host, port, "disable_ipv6", "0");
        }
        self.host.ip(&format!("neigh flush dev {BRIDGE} nud permanent"));
        enable_ipv6_on(&self.host, BRIDGE);
        for pod in [&self.victim, &self.attacker] {
            pod.ip("neigh flush dev eth0 nud permanent");
            enable_ipv6(pod);
        }
    }
}

fn attach_both(
    dir: &Path,
    host: &Namespace,
    victim: &Namespace,
    attacker: &Namespace,
) -> (SandboxAttachment, SandboxAttachment) {
    host.block_on(|| async {
        let network = BridgeNetwork::open(config(dir)).await.unwrap();
        let at_victim = network.attach("victim/0", &victim.path()).await.unwrap();
        let at_attacker = network.attach("attacker/0", &attacker.path()).await.unwrap();
        (at_victim, at_attacker)
    })
}

/// Writes an IPv6 setting of an interface.
fn set(namespace: &Namespace, interface: &str, setting: &str, value: &str) {
    let path = format!("/proc/sys/net/ipv6/conf/{interface}/{setting}");
    namespace.inside(|| std::fs::write(&path, value).unwrap());
}

fn has_ipv6(namespace: &Namespace, interface: &str) -> bool {
    !namespace.ip(&format!("-6 -o addr show dev {interface}")).is_empty()
}

fn connects(from: &Namespace, to: SocketAddr) -> bool {
    from.inside(|| TcpStream::connect_timeout(&to, TIME_MAX).is_ok())
}

/// A TCP connection from one namespace to an address that another one has.
fn reaches(from: &Namespace, to: &Namespace, address: Ipv4Addr) -> bool {
    let listener = to.inside(|| TcpListener::bind((address, 0)).unwrap());
    connects(from, listener.local_addr().unwrap()) && listener.accept().is_ok()
}

/// The attacker gives itself IPv6 again, which it can with NET_ADMIN and a writable /proc/sys.
fn enable_ipv6(pod: &Namespace) {
    enable_ipv6_on(pod, "eth0");
}

/// Returns when the interface has a link-local address that can be used: the kernel sees to that in
/// the background.
fn enable_ipv6_on(namespace: &Namespace, interface: &str) {
    set(namespace, interface, "accept_dad", "0");
    set(namespace, interface, "disable_ipv6", "0");
    let addresses = || namespace.ip(&format!("-6 addr show dev {interface}"));
    while !addresses().contains("fe80") || addresses().contains("tentative") {
        std::thread::yield_now();
    }
}

fn index_of_eth0(pod: &Namespace) -> u32 {
    pod.ip("-o link show eth0").split(':').next().unwrap().parse().unwrap()
}

/// A router advertisement to all nodes (RFC 4861): default route, and an address from
/// 2001:db8:bad::/64.
fn advertise_router(pod: &Namespace) {
    let eth0 = index_of_eth0(pod);
    let mut packet = vec![134, 0, 0, 0, 64, 0, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 0, 0];
    packet.extend([3, 4, 64, 0xc0, 0, 0, 0x70, 0x80, 0, 0, 0x70, 0x80, 0, 0, 0, 0]);
    packet.extend("2001:db8:bad::".parse::<Ipv6Addr>().unwrap().octets());
    pod.inside(|| {
        let socket = socket(AddressFamily::INET6, SocketType::RAW, Some(ipproto::ICMPV6)).unwrap();
        sockopt::set_ipv6_multicast_hops(&socket, 255).unwrap();
        let all_nodes = SocketAddrV6::new("ff02::1".parse().unwrap(), 0, 0, eth0);
        sendto(&socket, &packet, SendFlags::empty(), &all_nodes).unwrap();
    });
}

#[test]
fn ipv6_is_off_but_for_the_loopback_of_a_pod() {
    let world = World::new();
    assert!(!has_ipv6(&world.host, BRIDGE));
    for (pod, at) in [(&world.victim, &world.at_victim), (&world.attacker, &world.at_attacker)] {
        assert!(!has_ipv6(&world.host, &at.host_interface));
        assert!(!has_ipv6(pod, "eth0"));
        assert!(has_ipv6(pod, "lo"), "apps bind to ::1");
        pod.ip("link add later type bridge");
        pod.ip("link set later up");
        assert!(!has_ipv6(pod, "later"));
    }
}

#[test]
fn a_forged_router_advertisement_configures_neither_host_nor_pod() {
    let world = World::new();
    // the filter alone has to hold it up
    enable_ipv6_on(&world.host, BRIDGE);
    set(&world.host, BRIDGE, "accept_ra", "2");
    enable_ipv6(&world.attacker);
    enable_ipv6(&world.victim);
    advertise_router(&world.attacker);
    // what was sent before has arrived when this has
    assert!(reaches(&world.attacker, &world.host, world.at_attacker.gateway));
    assert!(reaches(&world.attacker, &world.victim, world.at_victim.ip));
    for (namespace, interface) in [(&world.host, BRIDGE), (&world.victim, "eth0")] {
        let addresses = namespace.ip(&format!("-6 addr show dev {interface}"));
        let routes = namespace.ip("-6 route");
        assert!(!addresses.contains("2001:db8:bad") && !routes.contains("default"), "{routes}");
    }
}

#[test]
fn the_hosts_services_are_not_reached_by_link_local_addresses() {
    let world = World::new();
    let World { host, attacker, at_attacker, .. } = &world;
    let listener = host.inside(|| UdpSocket::bind("[::]:0").unwrap());
    listener.set_read_timeout(Some(TIME_MAX)).unwrap();
    let port = listener.local_addr().unwrap().port();
    // the filter alone has to hold it up
    enable_ipv6(attacker);
    enable_ipv6_on(host, BRIDGE);
    // made of the bridge's hardware address
    let bridge: Ipv6Addr = "fe80::858:aff:fe58:1".parse().unwrap();
    assert!(host.ip(&format!("-6 addr show dev {BRIDGE}")).contains(&bridge.to_string()));
    attacker.ip(&format!("-6 neigh add {bridge} lladdr 0a:58:0a:58:00:01 dev eth0"));
    let to = SocketAddrV6::new(bridge, port, 0, index_of_eth0(attacker));
    attacker.inside(|| {
        UdpSocket::bind("[::]:0").unwrap().send_to(b"6", to).unwrap();
        let to = (at_attacker.gateway, port);
        UdpSocket::bind("0.0.0.0:0").unwrap().send_to(b"4", to).unwrap();
    });
    let mut datagram = [0; 1];
    listener.recv_from(&mut datagram).unwrap();
    assert_eq!(&datagram, b"4", "what was sent before has not arrived");
}

#[test]
fn forged_arp_gives_nobody_elses_address_away() {
    let world = World::new();
    let World { host, victim, attacker, at_victim, at_attacker, .. } = &world;
    let third = Namespace::new();
    host.block_on(|| async {
        let network = BridgeNetwork::open(config(world.dir.path())).await.unwrap();
        network.attach("third/0", &third.path()).await.unwrap();
    });
    assert!(reaches(&third, victim, at_victim.ip), "the third pod knows the victim");
    // gratuitous ARP for the victim's address and for the gateway's
    attacker.inside(|| std::fs::write("/proc/sys/net/ipv4/conf/eth0/arp_notify", "1").unwrap());
    attacker.ip(&format!("addr add {}/16 dev eth0", at_victim.ip));
    attacker.ip(&format!("addr add {}/16 dev eth0", at_victim.gateway));
    attacker.ip("link set eth0 down");
    attacker.ip("link set eth0 up");
    let mac = |at: &SandboxAttachment| at.mac.map(|byte| format!("{byte:02x}")).join(":");
    let neighbour = |pod: &Namespace, ip: Ipv4Addr| pod.ip(&format!("neigh show {ip}"));
    assert!(reaches(&third, victim, at_victim.ip) && reaches(host, victim, at_victim.ip));
    assert!(reaches(victim, host, at_victim.gateway));
    assert_eq!(neighbour(&third, at_victim.ip), "", "a pod's only neighbour is the gateway");
    for (namespace, ip) in [(host, at_victim.ip), (victim, at_victim.gateway)] {
        let entry = neighbour(namespace, ip);
        assert!(entry.contains("PERMANENT") && !entry.contains(&mac(at_attacker)), "{entry}");
    }
    // the victim is silent, and the attacker the only one who would answer for it
    victim.ip("link set eth0 down");
    third.ip("neigh flush dev eth0");
    let heard = attacker.inside(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    heard.set_read_timeout(Some(TIME_MAX)).unwrap();
    let port = heard.local_addr().unwrap().port();
    third.inside(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.send_to(b"to the victim", (at_victim.ip, port)).unwrap();
        socket.send_to(b"to the attacker", (at_attacker.ip, port)).unwrap();
    });
    let mut datagram = [0; 32];
    let length = heard.recv(&mut datagram).unwrap();
    assert_eq!(&datagram[..length], b"to the attacker");
}

#[test]
fn frames_of_a_foreign_hardware_address_are_dropped() {
    let world = World::new();
    let World { host, victim, attacker, at_victim, at_attacker, .. } = &world;
    let mac = at_victim.mac.map(|byte| format!("{byte:02x}")).join(":");
    attacker.ip("link set eth0 down");
    attacker.ip(&format!("link set eth0 address {mac}"));
    attacker.ip("link set eth0 up");
    let listener = host.inside(|| TcpListener::bind("0.0.0.0:0").unwrap());
    let to = (at_attacker.gateway, listener.local_addr().unwrap().port()).into();
    assert!(!connects(attacker, to));
    assert!(reaches(host, victim, at_victim.ip), "the bridge has not learned it of the attacker");
    // the locked port alone holds it up as well: where the kernel has no filter
    host.run("tc", &format!("qdisc del dev {} ingress", at_attacker.host_interface));
    assert!(!connects(attacker, to));
    assert!(reaches(host, victim, at_victim.ip));
}

#[test]
fn packets_of_a_foreign_address_are_dropped() {
    let world = World::new();
    let World { host, attacker, at_victim, at_attacker, .. } = &world;
    let listener = host.inside(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    listener.set_read_timeout(Some(TIME_MAX)).unwrap();
    let to = (at_attacker.gateway, listener.local_addr().unwrap().port());
    for foreign in [at_victim.ip, Ipv4Addr::new(192, 0, 2, 1)] {
        attacker.ip(&format!("addr add {foreign}/32 dev lo"));
        let send = |from: Ipv4Addr| {
            attacker.inside(|| {
                UdpSocket::bind((from, 0)).unwrap().send_to(b"x", to).unwrap();
            });
        };
        send(foreign);
        send(at_attacker.ip);
        let (_, from) = listener.recv_from(&mut [0; 1]).unwrap();
        assert_eq!(from.ip(), at_attacker.ip, "what was sent before has not arrived");
    }
}

#[test]
fn what_an_earlier_version_made_is_mended_at_the_start() {
    let world = World::new();
    world.age();
    // so that the test can fail: now it works
    set(&world.host, BRIDGE, "accept_ra", "2");
    advertise_router(&world.attacker);
    assert!(reaches(&world.attacker, &world.host, world.at_attacker.gateway));
    assert!(world.host.ip(&format!("-6 addr show dev {BRIDGE}")).contains("2001:db8:bad"));
    world.restart_agent();
    assert!(!has_ipv6(&world.host, BRIDGE) && !has_ipv6(&world.attacker, "eth0"));
    assert!(!world.host.ip("-6 route").contains("default"));
    let entry = world.victim.ip(&format!("neigh show {}", world.at_victim.gateway));
    assert!(entry.contains("PERMANENT"), "{entry}");
    let filter = format!("filter show dev {} ingress", world.at_attacker.host_interface);
    assert_eq!(world.host.run("tc", &filter).matches("direct-action").count(), 1);
    world.restart_agent();
    assert_eq!(world.host.run("tc", &filter).matches("direct-action").count(), 1);
    let port = world.host.ip(&format!("-d link show {}", world.at_attacker.host_interface));
    assert!(port.contains("locked on") && port.contains("learning off"), "{port}");
    assert!(reaches(&world.attacker, &world.victim, world.at_victim.ip));
}

#[test]
fn the_host_forgets_a_pod_that_is_gone() {
    let world = World::new();
    let known = || world.host.ip(&format!("neigh show {}", world.at_victim.ip));
    assert!(known().contains("PERMANENT"));
    world.host.block_on(|| async {
        let network = BridgeNetwork::open(config(world.dir.path())).await.unwrap();
        network.detach("victim/0");
        network.settle().await;
        assert!(!network.leases().contains_key("victim/0"));
    });
    assert_eq!(known(), "");
}
