//! Cluster DNS in real namespaces, asked by the C library: the search list, the bridge's address,
//! and whoever else there is.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, RwLock, mpsc};

use domain::base::iana::Rcode;
use domain::base::{Message, MessageBuilder, Name, Rtype};
use domain::rdata::{A, Srv};
use rekindle_net::dns::{
    DnsEndpoint, DnsPort, DnsServer, DnsService, DnsSettings, DnsSlice, DnsView, DnsZone,
};
use rekindle_net::files::{
    ClusterDnsConfig, DnsConfig, DnsPolicy, ResolvConf, pod_resolver, resolv_conf,
};
use rekindle_net::{BridgeNetwork, BridgeShare, NetworkConfig, SubnetChoice};
use rekindle_types::NamespacedName;
use tokio::sync::oneshot;

use crate::support::Namespace;

/// The node's resolver.
const RESOLVER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 53);

fn view() -> DnsView {
    let mut view = DnsView::default();
    view.set_service(NamespacedName::new("shop", "web"), Some(DnsService::Endpoints));
    let outside = DnsService::External("outside.example".to_owned());
    view.set_service(NamespacedName::new("shop", "elsewhere"), Some(outside));
    let endpoint = |number: u8| DnsEndpoint {
        address: IpAddr::from([10, 88, 0, number]),
        hostname: Some(format!("web-{number}")),
    };
    let port = DnsPort { name: "http".to_owned(), protocol: "tcp".to_owned(), number: 8080 };
    let slice = DnsSlice {
        service: "web".to_owned(),
        // more than one datagram takes
        endpoints: (2..=120).map(endpoint).collect(),
        ports: vec![port],
    };
    view.set_slice(NamespacedName::new("shop", "web-1"), Some(slice));
    view
}

/// Knows one name.
async fn resolver(socket: tokio::net::UdpSocket) {
    let mut buffer = [0; 1500];
    loop {
        let (len, client) = socket.recv_from(&mut buffer).await.unwrap();
        let asked = Message::from_octets(&buffer[..len]).unwrap();
        let question = asked.sole_question().unwrap();
        let known = question.qname().to_string() == "outside.example";
        let code = if known { Rcode::NOERROR } else { Rcode::NXDOMAIN };
        let mut answer = MessageBuilder::new_vec().start_answer(&asked, code).unwrap();
        if known && question.qtype() == Rtype::A {
            answer.push((question.qname(), 60, A::from_octets(192, 0, 2, 53))).unwrap();
        }
        socket.send_to(&answer.finish(), client).await.unwrap();
    }
}

/// Bridge, pod, resolver and server, until they are told to stop; tells when they stand.
async fn serve(dir: &Path, pod: &Path, ready: mpsc::Sender<()>, stop: oneshot::Receiver<()>) {
    let network = BridgeNetwork::open(NetworkConfig {
        bridge: "rktest0".to_owned(),
        subnet: SubnetChoice::Auto,
        ipv6: None,
        share: BridgeShare::Owner,
        state_dir: dir.to_owned(),
        mtu: 1500,
    });
    let network = network.await.unwrap();
    network.attach("a/0", pod).await.unwrap();
    let node = dir.join("node.conf");
    std::fs::write(&node, format!("nameserver {RESOLVER}\n")).unwrap();
    let socket = tokio::net::UdpSocket::bind((RESOLVER, 53)).await.unwrap();
    let zone = DnsZone {
        domain: "cluster.local".to_owned(),
        subnet: network.subnet(),
        ipv6_subnet: None,
        server: network.gateway(),
    };
    let server = DnsServer::open(DnsSettings { zone, resolv_conf: node }).await.unwrap();
    ready.send(()).unwrap();
    tokio::select! {
        () = server.serve(Arc::new(RwLock::new(view()))) => {}
        () = resolver(socket) => {}
        _ = stop => {}
    }
}

/// What a command prints in a namespace, with this resolv.conf.
fn says(namespace: &Namespace, conf: &Path, command: &str) -> String {
    let script = format!("mount --bind {} /etc/resolv.conf && {command}", conf.display());
    let output = namespace.inside(|| {
        Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().unwrap()
    });
    assert!(output.stderr.is_empty(), "{command}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The addresses that the C library finds.
fn finds(namespace: &Namespace, conf: &Path, name: &str) -> Vec<Ipv4Addr> {
    let said = says(namespace, conf, &format!("getent ahostsv4 {name}; true"));
    let lines = said.lines().filter_map(|line| line.split_whitespace().next());
    let mut found: Vec<Ipv4Addr> = lines.map(|address| address.parse().unwrap()).collect();
    found.sort();
    found.dedup();
    found
}

/// The hosts of a port, asked from this address.
fn hosts(from: Ipv4Addr, server: Ipv4Addr, name: &str) -> usize {
    let mut question = MessageBuilder::new_vec().question();
    question.push((Name::vec_from_str(name).unwrap(), Rtype::SRV)).unwrap();
    let socket = UdpSocket::bind((from, 0)).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    socket.send_to(&question.finish(), (server, 53)).unwrap();
    let mut answer = [0; 4096];
    let len = socket.recv(&mut answer).unwrap();
    let answer = Message::from_octets(&answer[..len]).unwrap();
    let records = answer.answer().unwrap().limit_to::<Srv<_>>();
    records.filter(|record| record.as_ref().unwrap().data().port() == 8080).count()
}

#[test]
fn a_pod_finds_names_of_the_cluster_and_of_elsewhere_by_the_bridges_address() {
    let dir = tempfile::tempdir().unwrap();
    let (host, pod) = (Namespace::new(), Namespace::new());
    host.ip("link set lo up");
    let gateway = Ipv4Addr::new(10, 88, 0, 1);
    let cluster = ClusterDnsConfig {
        nameservers: vec![gateway.to_string()],
        domain: "cluster.local".to_owned(),
    };
    let (policy, config) = (DnsPolicy::ClusterFirst, DnsConfig::default());
    let of_pod = pod_resolver(policy, "shop", &config, &ResolvConf::default(), Some(&cluster));
    let conf = dir.path().join("pod.conf");
    std::fs::write(&conf, resolv_conf(&of_pod.resolver).unwrap()).unwrap();
    let (ready, stands) = mpsc::channel();
    let (stop, stopped) = oneshot::channel();
    let (folder, netns) = (dir.path(), pod.path());
    std::thread::scope(|scope| {
        scope.spawn(|| host.block_on(|| async { serve(folder, &netns, ready, stopped).await }));
        // dropped when this fails, too
        let _stop = stop;
        stands.recv().unwrap();
        let three = Ipv4Addr::new(10, 88, 0, 3);
        for name in ["web-3.web", "web-3.web.shop", "web-3.web.shop.svc.cluster.local."] {
            assert_eq!(finds(&pod, &conf, name), [three], "{name}");
        }
        assert_eq!(finds(&pod, &conf, "web").len(), 119, "over TCP");
        assert_eq!(finds(&host, &conf, "web-3.web"), [three], "a process of the node");
        let outside = [Ipv4Addr::new(192, 0, 2, 53)];
        assert_eq!(finds(&pod, &conf, "outside.example"), outside);
        assert_eq!(finds(&pod, &conf, "elsewhere"), outside, "another name for it");
        for name in ["web-1.web", "nowhere", "nowhere.example"] {
            assert!(finds(&pod, &conf, name).is_empty(), "{name}");
        }
        let name = says(&pod, &conf, "getent hosts 10.88.0.3");
        assert!(name.contains("web-3.web.shop.svc.cluster.local"), "{name}");
        let port = "_http._tcp.web.shop.svc.cluster.local";
        assert!(host.inside(|| hosts(gateway, gateway, port)) > 0);
        let other = "_http._udp.web.shop.svc.cluster.local";
        assert_eq!(host.inside(|| hosts(gateway, gateway, other)), 0);
    });
    // the bridge stands, as after a kill -9 of the engine: nobody says anything, wrong or right
    let refused = pod.inside(|| {
        let client = UdpSocket::bind("0.0.0.0:0").unwrap();
        client.connect((gateway, 53)).unwrap();
        client.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
        client.send(&[0; 12]).unwrap();
        client.recv(&mut [0; 12]).unwrap_err()
    });
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused, "at once");
}
