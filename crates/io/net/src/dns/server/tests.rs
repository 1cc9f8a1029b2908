//! On the loopback, where each test has addresses of its own.

use domain::base::iana::Rcode;
use domain::base::{Message, MessageBuilder, Name, Rtype};
use domain::rdata::A;
use rekindle_testkit::claims::loopback_address;
use rekindle_types::NamespacedName;

use super::super::view::{DnsEndpoint, DnsService, DnsSlice};
use super::*;

/// A server that knows one Service, at this address, beside a resolv.conf that names these
/// resolvers.
async fn serve(at: Ipv4Addr, subnet: &str, resolvers: &[Ipv4Addr]) -> (SocketAddr, Running) {
    let folder = tempfile::tempdir().unwrap();
    let resolv_conf = folder.path().join("resolv.conf");
    let text: String = resolvers.iter().map(|r| format!("nameserver {r}\n")).collect();
    std::fs::write(&resolv_conf, text).unwrap();
    let zone = DnsZone {
        domain: "cluster.local".to_owned(),
        subnet: subnet.parse().unwrap(),
        ipv6_subnet: None,
        server: at,
    };
    let server = DnsServer::open_at(0, DnsSettings { zone, resolv_conf }).await;
    let server = server.unwrap();
    let udp = server.udp.local_addr().unwrap();
    let mut view = DnsView::default();
    view.set_service(NamespacedName::new("shop", "web"), Some(DnsService::Endpoints));
    let endpoints = (0..100).map(|n| DnsEndpoint { address: [10, 0, 0, n].into(), hostname: None });
    let slice =
        DnsSlice { service: "web".to_owned(), endpoints: endpoints.collect(), ports: Vec::new() };
    view.set_slice(NamespacedName::new("shop", "web-1"), Some(slice));
    // both are served on one port
    let tcp = TcpListener::bind(udp).await.unwrap();
    let server = DnsServer { tcp, ..server };
    let task = tokio::spawn(server.serve(Arc::new(RwLock::new(view))));
    (udp, Running { _folder: folder, task })
}

struct Running {
    _folder: tempfile::TempDir,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn question(id: u16, name: &str) -> Vec<u8> {
    let mut message = MessageBuilder::new_vec();
    message.header_mut().set_id(id);
    message.header_mut().set_rd(true);
    let mut question = message.question();
    question.push((Name::vec_from_str(name).unwrap(), Rtype::A)).unwrap();
    question.finish()
}

async fn over_udp(server: SocketAddr, from: Ipv4Addr, message: &[u8]) -> Vec<u8> {
    let socket = UdpSocket::bind((from, 0)).await.unwrap();
    socket.connect(server).await.unwrap();
    socket.send(message).await.unwrap();
    let mut answer = vec![0; 65_535];
    let len = socket.recv(&mut answer).await.unwrap();
    answer.truncate(len);
    answer
}

async fn over_tcp(stream: &mut TcpStream, message: &[u8]) -> Vec<u8> {
    let len = u16::try_from(message.len()).unwrap().to_be_bytes();
    stream.write_all(&[&len, message].concat()).await.unwrap();
    let len = stream.read_u16().await.unwrap();
    let mut answer = vec![0; len.into()];
    stream.read_exact(&mut answer).await.unwrap();
    answer
}

fn shown(answer: &[u8]) -> (Rcode, bool, u16) {
    let message = Message::from_octets(answer).unwrap();
    let header = message.header();
    (header.rcode(), header.tc(), message.header_counts().ancount())
}

/// A resolver that answers every question with one address, after as many that it refuses.
async fn resolver(at: Ipv4Addr, refusals: usize) -> tokio::task::JoinHandle<usize> {
    let socket = UdpSocket::bind((at, 53)).await.unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 4096];
        let mut seen = 0;
        loop {
            let (len, client) = socket.recv_from(&mut buffer).await.unwrap();
            let asked = Message::from_octets(&buffer[..len]).unwrap();
            let code = if seen < refusals { Rcode::SERVFAIL } else { Rcode::NOERROR };
            seen += 1;
            let mut answer = MessageBuilder::new_vec().start_answer(&asked, code).unwrap();
            if code == Rcode::NOERROR {
                let name = asked.sole_question().unwrap().into_qname();
                answer.push((name, 60, A::from_octets(192, 0, 2, 53))).unwrap();
            }
            socket.send_to(&answer.finish(), client).await.unwrap();
        }
    })
}

#[tokio::test]
async fn a_long_answer_is_had_over_tcp() {
    let at = loopback_address(1);
    let (server, _running) = serve(at, "127.0.0.0/8", &[]).await;
    let asked = question(1, "web.shop.svc.cluster.local");
    let (code, cut, count) = shown(&over_udp(server, at, &asked).await);
    assert!(code == Rcode::NOERROR && cut && count < 100, "{code} {cut} {count}");
    let mut stream = TcpStream::connect(server).await.unwrap();
    for _ in 0..2 {
        let answer = over_tcp(&mut stream, &asked).await;
        assert_eq!(shown(&answer), (Rcode::NOERROR, false, 100), "one question after the other");
    }
}

#[tokio::test]
async fn who_is_not_on_the_subnet_is_not_heard() {
    let (at, inside, outside) =
        (loopback_address(2), loopback_address(3), Ipv4Addr::new(127, 0, 0, 1));
    let (server, _running) = serve(at, &format!("{inside}/32"), &[]).await;
    let asked = question(1, "web.shop.svc.cluster.local");
    let stranger = UdpSocket::bind((outside, 0)).await.unwrap();
    stranger.send_to(&asked, server).await.unwrap();
    // asked later and answered: the stranger's was seen before, and dropped
    for friend in [inside, at] {
        assert_eq!(shown(&over_udp(server, friend, &asked).await).0, Rcode::NOERROR);
    }
    let error = stranger.try_recv_from(&mut [0; 512]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind((outside, 0).into()).unwrap();
    let mut stream = socket.connect(server).await.unwrap();
    assert!(matches!(stream.read(&mut [0]).await, Ok(0) | Err(_)));
}

#[tokio::test]
async fn other_names_are_asked_of_the_nodes_resolvers_one_after_the_other() {
    let (at, first, second) = (loopback_address(4), loopback_address(5), loopback_address(6));
    let (_first, _second) = (resolver(first, usize::MAX).await, resolver(second, 0).await);
    let (server, _running) = serve(at, "127.0.0.0/8", &[at, first, second]).await;
    let asked = question(7, "example.com");
    let answer = over_udp(server, at, &asked).await;
    assert!(
        Message::from_octets(&answer[..])
            .unwrap()
            .is_answer(&Message::from_octets(&asked[..]).unwrap())
    );
    assert_eq!(shown(&answer), (Rcode::NOERROR, false, 1));
}

#[tokio::test]
async fn without_a_resolver_other_names_fail() {
    let at = loopback_address(7);
    let (server, _running) = serve(at, "127.0.0.0/8", &[at]).await;
    let answer = over_udp(server, at, &question(7, "example.com")).await;
    assert_eq!(shown(&answer).0, Rcode::SERVFAIL);
}

#[tokio::test]
async fn a_client_with_too_much_under_way_is_told_at_once_and_others_are_served() {
    let (at, silent, other) = (loopback_address(8), loopback_address(9), loopback_address(10));
    // it hears everything and says nothing
    let resolver = UdpSocket::bind((silent, 53)).await.unwrap();
    let (server, _running) = serve(at, "127.0.0.0/8", &[silent]).await;
    let greedy = UdpSocket::bind((at, 0)).await.unwrap();
    greedy.connect(server).await.unwrap();
    for id in 0..=PLACES_OF_A_CLIENT_MAX {
        greedy.send(&question(u16::try_from(id).unwrap(), "example.com")).await.unwrap();
    }
    let mut answer = [0; 512];
    let len = greedy.recv(&mut answer).await.unwrap();
    assert_eq!(shown(&answer[..len]).0, Rcode::SERVFAIL);
    let asked = question(1, "example.com");
    let client = UdpSocket::bind((other, 0)).await.unwrap();
    client.connect(server).await.unwrap();
    client.send(&asked).await.unwrap();
    let mut bytes = [0; 512];
    for _ in 0..=PLACES_OF_A_CLIENT_MAX {
        resolver.recv_from(&mut bytes).await.unwrap();
    }
    let names = shown(&over_udp(server, at, &question(2, "web.shop.svc.cluster.local")).await);
    assert_eq!(names.0, Rcode::NOERROR, "names of the cluster need no place");
}
