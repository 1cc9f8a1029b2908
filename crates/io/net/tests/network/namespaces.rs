//! The network in real namespaces. The "host" is a network namespace made by the test, so nothing
//! meets the machine's own network; all namespaces end with the processes that hold them, also when
//! a test fails.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};

use rekindle_net::{
    BridgeNetwork, ForwardingUsers, NetError, NetworkConfig, SandboxAttachment, SubnetChoice,
    routed_ipv6_subnets, routed_subnets,
};
use rekindle_types::IpFamily;

use crate::support::Namespace;

fn has_eth0(namespace: &Namespace) -> bool {
    namespace.ip("-o link").contains(" eth0")
}

fn config(dir: &Path) -> NetworkConfig {
    NetworkConfig {
        bridge: "rktest0".to_owned(),
        subnet: SubnetChoice::Auto,
        ipv6: None,
        share: rekindle_net::BridgeShare::Owner,
        state_dir: dir.to_owned(),
        mtu: 1500,
    }
}

/// Agents run these calls on any thread.
fn is_send<T: Send>(future: T) -> T {
    future
}

/// A TCP connection from one namespace to an address that another one has.
fn reaches(from: &Namespace, to: &Namespace, address: Ipv4Addr) -> bool {
    let listener = to.inside(|| TcpListener::bind((address, 0)).unwrap());
    let port = listener.local_addr().unwrap().port();
    let connected = from.inside(|| {
        let to = SocketAddr::from((address, port));
        TcpStream::connect_timeout(&to, std::time::Duration::from_secs(60)).is_ok()
    });
    connected && listener.accept().is_ok()
}

#[test]
fn pods_reach_each_other_and_the_host_reaches_them() {
    let dir = tempfile::tempdir().unwrap();
    let (host, a, b) = (Namespace::new(), Namespace::new(), Namespace::new());
    let (at_a, at_b) = host.block_on(|| async {
        let network = is_send(BridgeNetwork::open(config(dir.path()))).await.unwrap();
        assert_eq!(network.subnet().to_string(), "10.88.0.0/16");
        let at_a = is_send(network.attach("a/0", &a.path())).await.unwrap();
        let at_b = network.attach("b/0", &b.path()).await.unwrap();
        (at_a, at_b)
    });
    assert_eq!(
        (at_a.ip.to_string().as_str(), at_b.ip.to_string().as_str()),
        ("10.88.0.2", "10.88.0.3")
    );
    assert!(reaches(&a, &b, at_b.ip), "pod to pod");
    assert!(reaches(&b, &a, at_a.ip), "and back");
    assert!(reaches(&host, &a, at_a.ip), "host to pod");
    assert!(reaches(&a, &host, at_a.gateway), "pod to host");
    assert!(reaches(&a, &a, at_a.ip) && reaches(&a, &a, Ipv4Addr::LOCALHOST), "pod to itself");
    let mac = at_a.mac.map(|byte| format!("{byte:02x}")).join(":");
    assert!(a.ip("link show eth0").contains(&format!("link/ether {mac}")));
    assert!(a.ip("route").contains("default via 10.88.0.1 dev eth0"));
}

#[test]
fn a_repeated_attach_answers_the_same_and_repairs_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let (host, pod, successor) = (Namespace::new(), Namespace::new(), Namespace::new());
    host.block_on(|| async {
        let network = BridgeNetwork::open(config(dir.path())).await.unwrap();
        let first = network.attach("a/0", &pod.path()).await.unwrap();
        assert_eq!(network.attach("a/0", &pod.path()).await.unwrap(), first);
        // as if an agent had died in the middle of its call, after the interfaces were made
        drop(network);
        pod.ip("addr flush dev eth0");
        pod.ip("link set eth0 down");
        let network = BridgeNetwork::open(config(dir.path())).await.unwrap();
        assert_eq!(network.attach("a/0", &pod.path()).await.unwrap(), first);
        assert!(pod.ip("route").contains("default via"));
        // the same id with another namespace: the interface moves
        assert_eq!(network.attach("a/0", &successor.path()).await.unwrap(), first);
        assert!(successor.ip("addr show eth0").contains("10.88.0.2/32"));
        assert!(!has_eth0(&pod));
    });
}

#[test]
fn what_was_prepared_is_taken_as_it_is_once_and_only_for_its_own_namespace() {
    let dir = tempfile::tempdir().unwrap();
    let (host, pod, other) = (Namespace::new(), Namespace::new(), Namespace::new());
    host.block_on(|| async {
        let network = BridgeNetwork::open(config(dir.path())).await.unwrap();
        network.prepare("a", &pod.path()).await.unwrap();
        assert!(pod.ip("addr show eth0").contains("10.88.0.2/32"));
        assert!(pod.ip("route").contains("default via"));
        let first = network.attach("a", &pod.path()).await.unwrap();
        assert_eq!(first.ip.to_string(), "10.88.0.2");
        // from now on it is like any other: repairs what is missing
        pod.ip("addr flush dev eth0");
        assert_eq!(network.attach("a", &pod.path()).await.unwrap(), first);
        assert!(pod.ip("route").contains("default via"));
        // another namespace under the id that was prepared is plugged in all the same
        network.prepare("a", &pod.path()).await.unwrap();
        assert_eq!(network.attach("a", &other.path()).await.unwrap(), first);
        assert!(other.ip("addr show eth0").contains("10.88.0.2/32"));
    });
}

#[test]
fn an_agent_that_starts_again_adopts_what_stands_and_releases_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let (host, kept, gone, next) =
        (Namespace::new(), Namespace::new(), Namespace::new(), Namespace::new());
    let (at_kept, at_gone): (SandboxAttachment, SandboxAttachment) = host.block_on(|| async {
        let network = BridgeNetwork::open(config(dir.path())).await.unwrap();
        let kept = network.attach("kept/0", &kept.path()).await.unwrap();
        let gone = network.attach("gone/0", &gone.path()).await.unwrap();
        (kept, gone)
        // the agent ends here without a word
    });
    assert!(reaches(&host, &kept, at_kept.ip), "the network does not need the agent");
    host.ip("link add rk0123456789ab type veth peer name stray");
    host.ip("link set rk0123456789ab master rktest0");
    host.block_on(|| async {
        let network = BridgeNetwork::open(config(dir.path())).await.unwrap();
        network.release_all_except(&BTreeSet::from(["kept/0".to_owned()])).await.unwrap();
        network.settle().await;
        assert_eq!(network.leases().into_keys().collect::<Vec<_>>(), ["kept/0"]);
        assert_eq!(network.attach("kept/0", &kept.path()).await.unwrap(), at_kept);
        let at_next = network.attach("next/0", &next.path()).await.unwrap();
        assert_ne!(at_next.ip, at_gone.ip, "a released address is not given again soon");
        let links = host.ip("-o link");
        assert!(links.contains(&at_kept.host_interface) && links.contains(&at_next.host_interface));
        assert!(
            !links.contains(&at_gone.host_interface) && !links.contains("rk0123456789ab"),
            "{links}"
        );
    });
}

#[test]
fn detach_frees_the_address_once_the_interface_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let (host, a, b) = (Namespace::new(), Namespace::new(), Namespace::new());
    host.block_on(|| async {
        let subnet = SubnetChoice::Fixed("10.1.2.0/30".parse().unwrap());
        let network =
            BridgeNetwork::open(NetworkConfig { subnet, ..config(dir.path()) }).await.unwrap();
        let first = network.attach("a/0", &a.path()).await.unwrap();
        let full = network.attach("b/0", &b.path()).await.unwrap_err();
        assert_eq!(full.to_string(), "no free address in 10.1.2.0/30: 1 are in use");
        network.detach("a/0");
        network.detach("a/0");
        network.detach("never there");
        assert!(network.leases().contains_key("a/0"), "still held while the interface is there");
        network.settle().await;
        assert!(network.leases().is_empty());
        assert!(!has_eth0(&a));
        assert_eq!(network.attach("b/0", &b.path()).await.unwrap().ip, first.ip);
        // many at once go in one step of the kernel
        network.detach("b/0");
        network.settle().await;
        assert!(!has_eth0(&b));
        network.attach("b/0", &b.path()).await.unwrap();
        // an attach that meets its own detach waits for it
        network.detach("b/0");
        assert_eq!(network.attach("b/0", &b.path()).await.unwrap().ip, first.ip);
    });
}

#[test]
fn close_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (host, pod) = (Namespace::new(), Namespace::new());
    host.block_on(|| async {
        let network = BridgeNetwork::open(config(dir.path())).await.unwrap();
        network.attach("a/0", &pod.path()).await.unwrap();
        network.close().await.unwrap();
        let links = host.ip("-o link");
        assert!(!links.contains("rk"), "{links}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    });
}

#[test]
fn the_hosts_own_namespace_is_never_given_a_pods_address() {
    let dir = tempfile::tempdir().unwrap();
    let host = Namespace::new();
    host.block_on(|| async {
        let network = BridgeNetwork::open(config(dir.path())).await.unwrap();
        let error = network.attach("a/0", &host.path()).await.unwrap_err();
        assert!(matches!(error, NetError::HostNamespace { .. }), "{error}");
        let error = network.attach("a/0", Path::new("/proc/1/no/net")).await.unwrap_err();
        assert_eq!(error.to_string(), "open network namespace /proc/1/no/net");
        assert!(network.leases().is_empty());
    });
}

#[test]
fn subnets_in_use_are_avoided_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let host = Namespace::new();
    host.ip("link add other type bridge");
    host.ip("addr add 10.88.7.1/24 dev other");
    host.ip("link set other up");
    host.block_on(|| async {
        let fixed = SubnetChoice::Fixed("10.88.0.0/16".parse().unwrap());
        let error = BridgeNetwork::open(NetworkConfig { subnet: fixed, ..config(dir.path()) })
            .await
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "subnet 10.88.0.0/16 overlaps with 10.88.7.0/24 on this machine"
        );
        let network = BridgeNetwork::open(config(dir.path())).await.unwrap();
        assert_eq!(network.subnet().to_string(), "10.89.0.0/16");
        drop(network);
        host.ip("link del other");
        let again = BridgeNetwork::open(config(dir.path())).await.unwrap();
        assert_eq!(again.subnet().to_string(), "10.89.0.0/16", "the choice stays");
    });
}

#[test]
fn routes_are_told_without_the_default_and_those_of_the_own_bridge() {
    let dir = tempfile::tempdir().unwrap();
    let host = Namespace::new();
    host.ip("link add other type veth peer name far");
    host.ip("addr add 192.168.7.1/24 dev other");
    host.ip("link set other up");
    host.ip("route add default via 192.168.7.2");
    // as a VPN has it
    for half in ["0.0.0.0/1", "128.0.0.0/1"] {
        host.ip(&format!("route add {half} via 192.168.7.2"));
    }
    for half in ["::/1", "8000::/1"] {
        host.ip(&format!("-6 route add {half} dev other"));
    }
    let (own, of_another) = host.block_on(|| async {
        let _network = BridgeNetwork::open(config(dir.path())).await.unwrap();
        (routed_subnets("rktest0").await.unwrap(), routed_subnets("rktest1").await.unwrap())
    });
    let (machine, pods) = ("192.168.7.0/24".parse().unwrap(), "10.88.0.0/16".parse().unwrap());
    assert!(own.contains(&machine) && !own.contains(&pods), "{own:?}");
    assert!(of_another.contains(&machine) && of_another.contains(&pods), "{of_another:?}");
    assert!(of_another.iter().all(|subnet| subnet.prefix_len() > 1), "{of_another:?}");
    let second = host.block_on(|| async { routed_ipv6_subnets("rktest0").await.unwrap() });
    assert!(second.iter().all(|subnet| subnet.prefix_len() > 1), "{second:?}");
}

#[test]
fn routes_to_services_are_known_to_the_next_agent_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let host = Namespace::new();
    let range = |text: &str| text.parse().unwrap();
    host.block_on(|| async {
        let network = BridgeNetwork::open(config(dir.path())).await.unwrap();
        assert_eq!(network.routed_services().await.unwrap(), BTreeSet::new());
        for text in ["10.96.0.0/16", "10.77.3.0/24"] {
            network.route_services(range(text)).await.unwrap();
        }
        drop(network);
        host.ip("route add 10.78.0.0/24 dev rktest0"); // a user's
        let network = BridgeNetwork::open(config(dir.path())).await.unwrap();
        let expected = BTreeSet::from([range("10.77.3.0/24"), range("10.96.0.0/16")]);
        assert_eq!(network.routed_services().await.unwrap(), expected);
        network.unroute_services(range("10.77.3.0/24")).await.unwrap();
        let expected = BTreeSet::from([range("10.96.0.0/16")]);
        assert_eq!(network.routed_services().await.unwrap(), expected);
        assert!(host.ip("route").contains("10.78.0.0/24"));
    });
}

#[test]
fn bad_configurations_are_refused_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let host = Namespace::new();
    host.ip("link add taken type veth peer name other");
    let bad_bridge = |name: &str| NetworkConfig { bridge: name.to_owned(), ..config(dir.path()) };
    let narrow = SubnetChoice::Fixed("10.1.2.0/31".parse().unwrap());
    let cases = [
        (bad_bridge("a-name-too-long-for-an-interface"), "1 to 15 characters"),
        (bad_bridge(""), "1 to 15 characters"),
        (bad_bridge("a/b"), "1 to 15 characters"),
        (bad_bridge("taken"), "is an interface, but no bridge"),
        (NetworkConfig { subnet: narrow, ..config(dir.path()) }, "from /8 to /30"),
    ];
    host.block_on(|| async {
        for (config, reason) in cases {
            let error = BridgeNetwork::open(config).await.unwrap_err().to_string();
            assert!(error.contains(reason), "{reason}: {error}");
        }
    });
}

#[test]
fn a_damaged_lease_file_stops_the_agent_only_while_sandboxes_depend_on_it() {
    let dir = tempfile::tempdir().unwrap();
    let (host, pod) = (Namespace::new(), Namespace::new());
    host.block_on(|| async {
        let file = dir.path().join("network.json");
        let network = BridgeNetwork::open(config(dir.path())).await.unwrap();
        network.attach("a/0", &pod.path()).await.unwrap();
        drop(network);
        std::fs::write(&file, "{").unwrap();
        let error = BridgeNetwork::open(config(dir.path())).await.unwrap_err().to_string();
        assert!(
            error.contains("network.json: damaged") && error.contains("1 interfaces"),
            "{error}"
        );
        host.ip("link del rktest0");
        for link in host.ip("-o link").lines().filter(|line| line.contains(": rk")) {
            let name = link.split([' ', '@']).nth(1).unwrap();
            host.ip(&format!("link del {name}"));
        }
        BridgeNetwork::open(config(dir.path())).await.unwrap();
    });
}

#[test]
fn many_pods_at_once_get_different_addresses() {
    let dir = tempfile::tempdir().unwrap();
    let host = Namespace::new();
    let pods: Vec<Namespace> = (0..12).map(|_| Namespace::new()).collect();
    let addresses: BTreeSet<Ipv4Addr> = host.block_on(|| async {
        let network = BridgeNetwork::open(config(dir.path())).await.unwrap();
        let ids: Vec<String> = (0..pods.len()).map(|i| format!("pod{i}/0")).collect();
        let paths: Vec<PathBuf> = pods.iter().map(Namespace::path).collect();
        let attach = ids.iter().zip(&paths).map(|(id, path)| network.attach(id, path));
        futures::future::join_all(attach).await.into_iter().map(|at| at.unwrap().ip).collect()
    });
    assert_eq!(addresses.len(), pods.len());
    // an unused address is nobody's: no pod answers for another
    let unused = Ipv4Addr::new(10, 88, 0, 200);
    assert!(!addresses.contains(&unused));
    let sent =
        pods[0].inside(|| UdpSocket::bind("0.0.0.0:0").unwrap().send_to(b"x", (unused, 9)).is_ok());
    assert!(sent, "the route covers the whole subnet");
}

#[test]
fn a_pod_that_gives_itself_a_route_past_the_node_reaches_nobody_by_it() {
    let dir = tempfile::tempdir().unwrap();
    let (host, a, b) = (Namespace::new(), Namespace::new(), Namespace::new());
    let (at_a, at_b) = host.block_on(|| async {
        let network = BridgeNetwork::open(config(dir.path())).await.unwrap();
        let at_a = network.attach("a/0", &a.path()).await.unwrap();
        (at_a, network.attach("b/0", &b.path()).await.unwrap())
    });
    assert!(reaches(&a, &b, at_b.ip), "through the node");
    let mac = at_b.mac.map(|byte| format!("{byte:02x}")).join(":");
    a.ip(&format!("neigh replace {} lladdr {mac} dev eth0", at_b.ip));
    a.ip(&format!("route replace {}/32 dev eth0 scope link", at_b.ip));
    let heard = b.inside(|| UdpSocket::bind((at_b.ip, 0)).unwrap());
    heard.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    let port = heard.local_addr().unwrap().port();
    let send = |text: &[u8]| {
        a.inside(|| UdpSocket::bind((at_a.ip, 0)).unwrap().send_to(text, (at_b.ip, port)).unwrap())
    };
    send(b"past the node");
    a.ip(&format!("route del {}/32", at_b.ip));
    send(b"through the node");
    let mut datagram = [0; 32];
    let length = heard.recv(&mut datagram).unwrap();
    assert_eq!(&datagram[..length], b"through the node");
}

#[test]
fn the_machine_forwards_while_a_network_needs_it_and_then_as_before() {
    let dir = tempfile::tempdir().unwrap();
    let host = Namespace::new();
    for bridge in ["br-a", "br-b", "br-c"] {
        host.ip(&format!("link add {bridge} type bridge"));
    }
    host.inside(|| {
        let setting = "/proc/sys/net/ipv4/ip_forward";
        let forwarding = || std::fs::read_to_string(setting).unwrap();
        for before in ["0\n", "1\n"] {
            std::fs::write(setting, before).unwrap();
            let user = |bridge| {
                ForwardingUsers::new(
                    &dir.path().join("users"),
                    bridge,
                    rekindle_types::IpFamily::V4,
                )
            };
            user("br-a").join().unwrap();
            user("br-b").join().unwrap();
            // an engine that starts again
            user("br-a").join().unwrap();
            assert_eq!(forwarding(), "1\n");
            user("br-a").leave().unwrap();
            user("br-a").leave().unwrap();
            user("br-c").leave().unwrap();
            assert_eq!(forwarding(), "1\n", "the other one needs it");
            user("br-b").leave().unwrap();
            assert_eq!(forwarding(), before);
        }
    });
}

const IP_FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";

fn ip_forward(host: &Namespace) -> String {
    host.inside(|| std::fs::read_to_string(IP_FORWARD).unwrap().trim().to_owned())
}

#[test]
fn what_a_dead_engine_switched_on_is_put_back_by_the_next_one_that_goes() {
    let dir = tempfile::tempdir().unwrap();
    let host = Namespace::new();
    host.inside(|| std::fs::write(IP_FORWARD, "0").unwrap());
    let user = |bridge| ForwardingUsers::new(dir.path(), bridge, rekindle_types::IpFamily::V4);
    for bridge in ["br-dead", "br-live"] {
        host.ip(&format!("link add {bridge} type bridge"));
    }
    host.inside(|| user("br-dead").join().unwrap());
    // killed, and its bridge taken away by hand
    host.ip("link del br-dead");
    host.inside(|| user("br-live").join().unwrap());
    assert_eq!(ip_forward(&host), "1");
    host.inside(|| user("br-live").leave().unwrap());
    assert_eq!(ip_forward(&host), "0");
    assert!(!dir.path().join("br-dead").exists(), "its note is read no more");
}

#[test]
fn forwarding_stays_on_while_another_process_masquerades() {
    let dir = tempfile::tempdir().unwrap();
    let host = Namespace::new();
    host.ip("link add br-a type bridge");
    let left = |family, rules: &[&str]| {
        let setting = match family {
            IpFamily::V4 => IP_FORWARD,
            IpFamily::V6 => "/proc/sys/net/ipv6/conf/all/forwarding",
        };
        host.inside(|| std::fs::write(setting, "0").unwrap());
        host.run("nft", "flush ruleset");
        let user = ForwardingUsers::new(dir.path(), "br-a", family);
        host.inside(|| user.join().unwrap());
        for rule in rules {
            let (program, arguments) = rule.split_once(' ').unwrap();
            host.run(program, arguments);
        }
        host.inside(|| user.leave().unwrap());
        assert!(!dir.path().join("br-a").exists(), "its note is read no more");
        host.inside(|| std::fs::read_to_string(setting).unwrap().trim().to_owned())
    };
    let docker = "iptables -t nat -A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE";
    let docker_ipv6 = "ip6tables -t nat -A POSTROUTING -s fd00:d0c::/64 -j MASQUERADE";
    let nat = "nft add chain inet theirs out { type nat hook postrouting priority 100 ; }";
    let (v4, v6) = (IpFamily::V4, IpFamily::V6);
    for (family, rules, expected) in [
        (v4, &[][..], "0"),
        (v4, &[docker], "1"),
        (v6, &[docker_ipv6], "1"),
        // each family for itself
        (v6, &[docker], "0"),
        (v4, &[docker_ipv6], "0"),
        // in a chain that the base chain jumps to
        (
            v4,
            &[
                "iptables -t nat -N OUT",
                "iptables -t nat -A POSTROUTING -j OUT",
                "iptables -t nat -A OUT -j SNAT --to-source 192.0.2.1",
            ],
            "1",
        ),
        (v6, &["nft add table inet theirs", nat, "nft add rule inet theirs out masquerade"], "1"),
        // gives packets another destination, or none at all
        (v4, &["iptables -t nat -A PREROUTING -p tcp -j DNAT --to-destination 192.0.2.1"], "0"),
        (v4, &["iptables -t nat -A POSTROUTING -j ACCEPT"], "0"),
        // of an engine that was killed
        (
            v4,
            &[
                "nft add table inet rekindle-br-dead",
                "nft add chain inet rekindle-br-dead out { type nat hook postrouting priority 100 ; }",
                "nft add rule inet rekindle-br-dead out masquerade",
            ],
            "0",
        ),
    ] {
        assert_eq!(left(family, rules), expected, "{rules:?}");
    }
}

/// A note that cannot be removed: something is mounted on it.
struct HeldNote(std::path::PathBuf);

impl HeldNote {
    fn new(note: std::path::PathBuf) -> Self {
        let mut mount = std::process::Command::new("mount");
        assert!(mount.arg("--bind").args([&note, &note]).status().unwrap().success());
        Self(note)
    }
}

impl Drop for HeldNote {
    fn drop(&mut self) {
        std::process::Command::new("umount").arg(&self.0).status().unwrap();
    }
}

#[test]
fn an_engine_that_is_killed_while_it_leaves_has_put_forwarding_back_or_does_so_later() {
    let dir = tempfile::tempdir().unwrap();
    let host = Namespace::new();
    host.ip("link add br-a type bridge");
    host.inside(|| std::fs::write(IP_FORWARD, "0").unwrap());
    let user = ForwardingUsers::new(dir.path(), "br-a", rekindle_types::IpFamily::V4);
    host.inside(|| user.join().unwrap());
    let held = HeldNote::new(dir.path().join("br-a"));
    host.inside(|| user.leave().unwrap_err());
    assert_eq!(ip_forward(&host), "0", "first the setting, then the note");
    drop(held);
    host.inside(|| user.leave().unwrap());
    assert_eq!(ip_forward(&host), "0");
    assert!(!dir.path().join("br-a").exists());
}
