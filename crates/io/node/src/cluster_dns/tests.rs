//! Names as the API changes, asked over the loopback.

use std::net::Ipv4Addr;
use std::time::Duration;

use rekindle_net::dns::{DnsProcessClient, DnsProcessIdentity, DnsServer, serve_process};
use rekindle_testkit::claims::loopback_address;
use serde_json::json;
use tokio::net::{UdpSocket, UnixListener};

use super::{ServiceNames, dns_settings, publish_names};
use crate::testing::World;

const PATIENCE: Duration = Duration::from_secs(60);
const NO_NAME: u8 = 3;

fn server() -> Ipv4Addr {
    loopback_address(1)
}

/// How it went, and the addresses: they end records of 16 bytes each behind the question.
async fn ask(name: &str) -> (u8, Vec<Ipv4Addr>) {
    let mut question = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.').chain([""]) {
        question.push(u8::try_from(label.len()).unwrap());
        question.extend(label.as_bytes());
    }
    question.extend([0, 1, 0, 1]);
    let socket = UdpSocket::bind((server(), 0)).await.unwrap();
    socket.send_to(&question, (server(), 53)).await.unwrap();
    let mut answer = [0; 512];
    let len = tokio::time::timeout(PATIENCE, socket.recv(&mut answer)).await.unwrap().unwrap();
    let records = answer[question.len()..len].chunks_exact(16).take(answer[7].into());
    let addresses =
        records.map(|record| Ipv4Addr::new(record[12], record[13], record[14], record[15]));
    (answer[3] & 15, addresses.collect())
}

/// DNS tells nobody of a change, and follows the API a moment behind.
async fn until(name: &str, expected: (u8, &[Ipv4Addr])) {
    let found = async { while ask(name).await != (expected.0, expected.1.to_vec()) {} };
    if tokio::time::timeout(PATIENCE, found).await.is_err() {
        panic!("{name}: {:?} and not {expected:?}", ask(name).await);
    }
}

#[tokio::test]
async fn names_are_what_the_api_says_from_the_first_answer_on() {
    let world = World::new();
    let meta = |name: &str| json!({ "name": name, "namespace": "shop" });
    let web = json!({ "metadata": meta("web"), "spec": { "clusterIP": "None" } });
    world.api.create("services", &web);
    let mut slice_meta = meta("web-1");
    slice_meta["labels"] = json!({ "kubernetes.io/service-name": "web" });
    let endpoints = |ready: bool| json!([{ "addresses": ["10.88.0.2"], "hostname": "web-0", "conditions": { "ready": ready } }]);
    let slice = json!({
        "metadata": slice_meta, "addressType": "IPv4", "endpoints": endpoints(true),
        "ports": [{ "name": "http", "port": 8080 }],
    });
    world.api.create("endpointslices", &slice);

    let resolv_conf = world.folder.join("resolv.conf");
    let subnet = ("10.88.0.0/16".parse().unwrap(), None);
    let settings = dns_settings(server(), subnet, resolv_conf);
    let dns = DnsServer::open(settings.clone()).await.unwrap();
    let again = DnsServer::open(settings.clone()).await.unwrap_err();
    assert_eq!(again.to_string(), format!("serve DNS at {}:53", server()));
    let socket = world.folder.join("dns.sock");
    assert!(DnsProcessClient::connect(&socket).await.unwrap().is_none(), "nothing listens yet");
    let listener = UnixListener::bind(&socket).unwrap();
    let serving = tokio::spawn(serve_process(dns, "1".to_owned(), listener));
    let connect = async || {
        let line = DnsProcessClient::connect(&socket).await.unwrap().unwrap();
        let identity = DnsProcessIdentity { program: "1".to_owned(), settings: settings.clone() };
        assert_eq!(*line.identity(), identity);
        line
    };
    let feed = |mut line: DnsProcessClient| {
        let client = world.api.client();
        tokio::spawn(
            async move { publish_names(&mut line, client, ServiceNames::ClusterIps).await },
        )
    };
    let first = feed(connect().await);
    let (host, service) = ("web-0.web.shop.svc.cluster.local", "web.shop.svc.cluster.local");
    let address = Ipv4Addr::new(10, 88, 0, 2);
    assert_eq!(ask(host).await, (0, vec![address]), "nobody is told before all is known");

    world.api.modify("endpointslices", "web-1", &json!({ "endpoints": endpoints(false) }));
    until(service, (NO_NAME, &[])).await;
    world.api.modify("endpointslices", "web-1", &json!({ "endpoints": endpoints(true) }));
    until(service, (0, &[address])).await;

    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": meta("alone"), "spec": { "containers": [] },
        "status": { "podIP": "10.88.0.9", "phase": "Running" },
    });
    world.api.create("pods", &pod);
    until("10-88-0-9.shop.pod.cluster.local", (0, &[Ipv4Addr::new(10, 88, 0, 9)])).await;
    world.api.modify("pods", "alone", &json!({ "status": { "phase": "Failed" } }));
    until("10-88-0-9.shop.pod.cluster.local", (NO_NAME, &[])).await;

    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    world.api.remove("services", "web");
    assert_eq!(ask(host).await, (0, vec![address]), "what was known last");

    let second = feed(connect().await);
    until(host, (NO_NAME, &[])).await;
    serving.abort();
    second.await.unwrap().unwrap();
}
