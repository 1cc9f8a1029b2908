//! A machine with pods, made of network namespaces: the host with a bridge, pods with addresses of
//! their own (/32) that send everything to the bridge, and a client outside.
#![allow(unreachable_pub, reason = "a module of a test")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use rekindle_net::rules::{
    LoopbackNodePorts, PodEgress, RuleTable, RuleTableConfig, TableOwnership,
};
use rekindle_services::{
    ClientView, Clients, EndpointPick, Frontend, RuleElement, RuleElements, SourceRange,
    TransportProtocol,
};

use crate::support::Namespace;

pub const BRIDGE: &str = "rktest0";
/// Where the pods' servers listen.
pub const POD_PORT: u16 = 8080;
/// The host's address for a client outside.
pub const HOST_OUTSIDE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub const OUTSIDE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);
/// Something is wrong if it takes as long.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Machine {
    pub host: Namespace,
    pub pods: Vec<Namespace>,
    pub outside: Namespace,
}

fn pid(namespace: &Namespace) -> String {
    namespace.path().iter().nth(2).unwrap().to_str().unwrap().to_owned()
}

fn set(namespace: &Namespace, setting: &str, value: &str) {
    let path = format!("/proc/sys/net/ipv4/{setting}");
    namespace.inside(|| std::fs::write(&path, value).unwrap_or_else(|e| panic!("{path}: {e}")));
}

/// Whether the kernel takes frames that only cross the bridge through the rules for IP, as it does
/// where Docker runs.
#[derive(Clone, Copy, Debug)]
pub enum BridgeFilter {
    On,
    Off,
}

impl Machine {
    pub fn new(pods: usize) -> Self {
        Self::with_filter(pods, BridgeFilter::Off)
    }

    pub fn with_filter(pods: usize, filter: BridgeFilter) -> Self {
        let (host, outside) = (Namespace::new(), Namespace::new());
        let pods: Vec<Namespace> = (0..pods).map(|_| Namespace::new()).collect();
        host.ip("link set lo up");
        host.ip(&format!("link add {BRIDGE} type bridge"));
        host.ip(&format!("addr add {GATEWAY}/16 dev {BRIDGE}"));
        host.ip(&format!("link set {BRIDGE} up"));
        let value = match filter {
            BridgeFilter::On => "1",
            BridgeFilter::Off => "0",
        };
        host.inside(|| {
            // absent: the kernel cannot
            drop(std::fs::write("/proc/sys/net/bridge/bridge-nf-call-iptables", value));
        });
        set(&host, "ip_forward", "1");
        set(&host, "conf/all/send_redirects", "0");
        set(&host, &format!("conf/{BRIDGE}/send_redirects"), "0");
        for (number, pod) in pods.iter().enumerate() {
            let peer = format!("peer name eth0 netns {}", pid(pod));
            host.ip(&format!("link add v{number} type veth {peer}"));
            host.ip(&format!("link set v{number} master {BRIDGE} up"));
            // a connection to itself comes in and leaves by one port
            host.ip(&format!("link set v{number} type bridge_slave hairpin on"));
            pod.ip("link set lo up");
            pod.ip(&format!("addr add {}/32 dev eth0", pod_ip(number)));
            pod.ip("link set eth0 up");
            pod.ip(&format!("route add {GATEWAY} dev eth0 scope link"));
            pod.ip(&format!("route add default via {GATEWAY}"));
        }
        let peer = format!("peer name eth0 netns {}", pid(&outside));
        host.ip(&format!("link add up0 type veth {peer}"));
        host.ip(&format!("addr add {HOST_OUTSIDE}/24 dev up0"));
        host.ip("link set up0 up");
        outside.ip("link set lo up");
        outside.ip(&format!("addr add {OUTSIDE}/24 dev eth0"));
        outside.ip("link set eth0 up");
        host.ip(&format!("route add default via {OUTSIDE}"));
        Self { host, pods, outside }
    }

    /// A server in each pod that sends the pod's number over each connection, then echoes.
    pub fn serve_tcp(&self) {
        for (number, pod) in self.pods.iter().enumerate() {
            serve_tcp(pod, SocketAddr::from((pod_ip(number), POD_PORT)), number);
        }
    }

    /// A server in each pod that answers each datagram with the pod's number.
    pub fn serve_udp(&self) {
        for (number, pod) in self.pods.iter().enumerate() {
            let socket = pod.inside(|| UdpSocket::bind((pod_ip(number), POD_PORT)).unwrap());
            std::thread::spawn(move || {
                let mut buffer = [0; 64];
                while let Ok((_, client)) = socket.recv_from(&mut buffer) {
                    drop(socket.send_to(&[number as u8], client));
                }
            });
        }
    }
}

pub fn serve_tcp(namespace: &Namespace, at: SocketAddr, says: usize) {
    let listener = namespace.inside(|| TcpListener::bind(at).unwrap());
    std::thread::spawn(move || {
        while let Ok((mut client, _)) = listener.accept() {
            std::thread::spawn(move || {
                let mut byte = [says as u8];
                while client.write_all(&byte).is_ok() && client.read_exact(&mut byte).is_ok() {}
            });
        }
    });
}

pub fn pod_ip(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 88, 0, 2 + number as u8)
}

pub fn endpoint(number: usize) -> SocketAddr {
    SocketAddr::from((pod_ip(number), POD_PORT))
}

pub fn config() -> RuleTableConfig {
    RuleTableConfig {
        bridge: BRIDGE.to_owned(),
        pods: "10.88.0.0/16".parse().unwrap(),
        services: Some("10.96.0.0/16".parse().unwrap()),
        ipv6: None,
        egress: PodEgress::Masquerade,
        loopback_node_ports: LoopbackNodePorts::Serve,
        ownership: TableOwnership::Exclusive,
    }
}

/// A table with these elements in the namespace of the calling thread.
pub async fn table_with(elements: &RuleElements) -> RuleTable {
    let table = RuleTable::open(config()).unwrap();
    table.replace(elements).await.unwrap();
    table
}

pub fn tcp(address: &str) -> Frontend {
    frontend(address, TransportProtocol::Tcp)
}

pub fn udp(address: &str) -> Frontend {
    frontend(address, TransportProtocol::Udp)
}

pub fn sctp(address: &str) -> Frontend {
    frontend(address, TransportProtocol::Sctp)
}

fn frontend(address: &str, protocol: TransportProtocol) -> Frontend {
    let address: SocketAddr = address.parse().unwrap();
    Frontend { address: address.ip(), protocol, port: address.port() }
}

pub fn pick(endpoints: usize, sticky_s: Option<u32>) -> EndpointPick {
    EndpointPick {
        endpoints: NonZeroU16::new(endpoints as u16).unwrap(),
        sticky_s: sticky_s.map(|time| NonZeroU32::new(time).unwrap()),
    }
}

/// What the rules say of a frontend that leads to these pods.
pub fn service(frontend: Frontend, pods: &[usize]) -> RuleElements {
    let endpoints = pods.iter().zip(0..).flat_map(|(pod, number)| {
        [
            RuleElement::Endpoint(frontend.into(), number, endpoint(*pod)),
            RuleElement::Hairpin(pod_ip(*pod).into()),
        ]
    });
    let pick = RuleElement::Pick(frontend.into(), pick(pods.len(), None));
    endpoints.chain([pick]).collect()
}

/// What clients of one network get of a frontend that others get more of: these endpoints; or none,
/// and they wait.
pub fn by_client(frontend: Frontend, clients: &str, near: &[SocketAddr]) -> RuleElements {
    let range = SourceRange::parse(clients).unwrap();
    let view = ClientView { frontend, clients: Clients::Within(range) };
    if near.is_empty() {
        return [RuleElement::OnOtherNodes(frontend, range), RuleElement::Held(view)].into();
    }
    let endpoints = (0..).zip(near);
    let endpoints = endpoints.map(|(number, at)| RuleElement::Endpoint(view, number, *at));
    endpoints.chain([RuleElement::Pick(view, pick(near.len(), None))]).collect()
}

/// [`service`] with affinity.
pub fn sticky_service(frontend: Frontend, pods: &[usize], sticky_s: u32) -> RuleElements {
    let mut elements = service(frontend, pods);
    elements.retain(|element| !matches!(element, RuleElement::Pick(..)));
    elements.insert(RuleElement::Pick(frontend.into(), pick(pods.len(), Some(sticky_s))));
    elements.extend(pods.iter().map(|pod| RuleElement::Member(frontend, endpoint(*pod))));
    elements
}

/// An open connection, and the number of the pod that it leads to.
pub struct Connection {
    pub stream: TcpStream,
    pub pod: usize,
}

impl Connection {
    /// Whether the other end still answers.
    pub fn echoes(&mut self) -> bool {
        let mut byte = [7];
        self.stream.write_all(&byte).is_ok()
            && self.stream.read_exact(&mut byte).is_ok()
            && byte == [7]
    }
}

pub fn connect(from: &Namespace, to: &str) -> std::io::Result<Connection> {
    from.inside(|| connect_here(to))
}

/// From the namespace of the calling thread.
pub fn connect_here(to: &str) -> std::io::Result<Connection> {
    let mut stream = TcpStream::connect_timeout(&to.parse().unwrap(), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut pod = [0];
    stream.read_exact(&mut pod)?;
    Ok(Connection { stream, pod: pod[0].into() })
}

/// A socket for datagrams to one address.
pub fn udp_client(from: &Namespace, to: &str) -> UdpSocket {
    from.inside(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.connect(to).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    })
}

/// The pod that answers.
pub fn ask(socket: &UdpSocket) -> std::io::Result<usize> {
    socket.send(b"who?")?;
    let mut answer = [0];
    socket.recv(&mut answer)?;
    Ok(answer[0].into())
}
