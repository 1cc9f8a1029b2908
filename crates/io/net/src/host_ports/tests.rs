//! On the loopback, where each test has an address of its own.

use rekindle_testkit::claims::loopback_address;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use super::*;

/// Somewhere in 127.0.0.0/8 that no other test and no other process of tests uses.
fn address(test: u8) -> IpAddr {
    loopback_address(test).into()
}

fn port(protocol: PortProtocol, listen: IpAddr) -> HostPort {
    HostPort { protocol, listen: (listen, 8080).into(), pod_port: 80 }
}

/// A server that answers each connection with its name and then with what it was sent, until that
/// ends.
async fn server(pod: IpAddr, name: &'static str) -> JoinHandle<()> {
    let listener = TcpListener::bind((pod, 80)).await.unwrap();
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                client.write_all(name.as_bytes()).await.unwrap();
                let (mut from, mut to) = client.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    })
}

async fn read(client: &mut TcpStream, len: usize) -> String {
    let mut bytes = vec![0; len];
    client.read_exact(&mut bytes).await.unwrap();
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn a_connection_goes_through_with_each_end_of_it_by_itself() {
    let (node, pod) = (address(1), address(2));
    let _server = server(pod, "a").await;
    let ports = HostPorts::new();
    ports.open("p", "p-0", pod, &[port(PortProtocol::Tcp, node)]).await.unwrap();
    let mut client = TcpStream::connect((node, 8080)).await.unwrap();
    assert_eq!(read(&mut client, 1).await, "a");
    client.write_all(b"hello").await.unwrap();
    client.shutdown().await.unwrap();
    let mut rest = String::new();
    client.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "hello", "what was sent comes back although nothing more is sent");
}

#[tokio::test]
async fn a_port_follows_its_pod_into_the_next_sandbox() {
    let (node, old, new) = (address(3), address(4), address(5));
    let _servers = (server(old, "old").await, server(new, "new").await);
    let ports = HostPorts::new();
    let wanted = [port(PortProtocol::Tcp, node)];
    ports.open("p", "p-0", old, &wanted).await.unwrap();
    let mut before = TcpStream::connect((node, 8080)).await.unwrap();
    assert_eq!(read(&mut before, 3).await, "old");
    ports.open("p", "p-1", new, &wanted).await.unwrap();
    let mut rest = Vec::new();
    // cut off, with a reset or without
    let _ = before.read_to_end(&mut rest).await;
    assert!(rest.is_empty());
    ports.close("p-0").await; // it leads elsewhere by now
    let mut after = TcpStream::connect((node, 8080)).await.unwrap();
    assert_eq!(read(&mut after, 3).await, "new");
    ports.close("p-1").await;
    assert!(TcpStream::connect((node, 8080)).await.is_err());
}

#[tokio::test]
async fn a_port_that_somebody_has_is_named_and_then_none_is_open() {
    let (node, pod) = (address(6), address(7));
    let taken = TcpListener::bind((node, 9090)).await.unwrap();
    let ports = HostPorts::new();
    let other = HostPort { listen: (node, 9090).into(), ..port(PortProtocol::Tcp, node) };
    let wanted = [port(PortProtocol::Tcp, node), other];
    let error = ports.open("p", "p-0", pod, &wanted).await.unwrap_err();
    assert_eq!(error.to_string(), format!("open port 9090 of the node for TCP at {node}"));
    assert!(TcpStream::connect((node, 8080)).await.is_err());
    drop(taken);
    ports.open("p", "p-0", pod, &wanted).await.unwrap();
    // free at once for the next pod
    ports.close("p-0").await;
    ports.open("q", "q-0", pod, &wanted).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_runs_gets_a_port_that_was_taken_as_soon_as_it_is_free() {
    let (node, pod) = (address(15), address(16));
    let taken = std::net::TcpListener::bind((node, 9090)).unwrap();
    let ports = HostPorts::new();
    let other = HostPort { listen: (node, 9090).into(), ..port(PortProtocol::Tcp, node) };
    let wanted = [port(PortProtocol::Tcp, node), other];
    let refused = ports.reopen("p", "p-0", pod, &wanted).await;
    let told: Vec<String> = refused.iter().map(ToString::to_string).collect();
    assert_eq!(told, [format!("open port 9090 of the node for TCP at {node}")]);
    TcpStream::connect((node, 8080)).await.expect("the other one is open");
    assert!(ports.reopen("p", "p-1", pod, &wanted).await.is_empty(), "it is told once");
    drop(taken);
    while TcpStream::connect((node, 9090)).await.is_err() {
        tokio::time::advance(AGAIN_AFTER_MAX).await;
    }
    ports.close("p-1").await;
    assert!(TcpStream::connect((node, 9090)).await.is_err());
}

#[tokio::test]
async fn a_connection_to_a_pod_in_which_nobody_listens_ends() {
    let (node, pod) = (address(8), address(9));
    let ports = HostPorts::new();
    ports.open("p", "p-0", pod, &[port(PortProtocol::Tcp, node)]).await.unwrap();
    let mut client = TcpStream::connect((node, 8080)).await.unwrap();
    assert!(matches!(client.read(&mut [0]).await, Ok(0) | Err(_)));
}

#[tokio::test]
async fn who_comes_when_all_places_are_taken_waits_for_one() {
    let (node, pod) = (address(13), address(14));
    let _server = server(pod, "a").await;
    let ports = HostPorts::with_places(1);
    ports.open("p", "p-0", pod, &[port(PortProtocol::Tcp, node)]).await.unwrap();
    let mut first = TcpStream::connect((node, 8080)).await.unwrap();
    assert_eq!(read(&mut first, 1).await, "a");
    let mut second = TcpStream::connect((node, 8080)).await.unwrap();
    second.write_all(b"b").await.unwrap();
    drop(first);
    assert_eq!(read(&mut second, 2).await, "ab");
}

#[tokio::test]
async fn each_client_gets_the_answers_to_its_own_datagrams() {
    let (node, old, new) = (address(10), address(11), address(12));
    let servers =
        [UdpSocket::bind((old, 80)).await.unwrap(), UdpSocket::bind((new, 80)).await.unwrap()];
    for (server, name) in servers.into_iter().zip(["old", "new"]) {
        tokio::spawn(async move {
            let mut buffer = [0; 64];
            while let Ok((len, client)) = server.recv_from(&mut buffer).await {
                let question = String::from_utf8_lossy(&buffer[..len]);
                let answer = format!("{name} {question}");
                server.send_to(answer.as_bytes(), client).await.unwrap();
            }
        });
    }
    let ports = HostPorts::new();
    let wanted = [port(PortProtocol::Udp, node)];
    ports.open("p", "p-0", old, &wanted).await.unwrap();
    let mut clients = Vec::new();
    for _ in 0..2 {
        let client = UdpSocket::bind((node, 0)).await.unwrap();
        client.connect((node, 8080)).await.unwrap();
        clients.push(client);
    }
    let ask = async |client: &UdpSocket, question: &str| {
        client.send(question.as_bytes()).await.unwrap();
        let mut buffer = [0; 64];
        let len = client.recv(&mut buffer).await.unwrap();
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    };
    assert_eq!(ask(&clients[0], "a").await, "old a");
    assert_eq!(ask(&clients[1], "b").await, "old b");
    assert_eq!(ask(&clients[0], "c").await, "old c");
    ports.open("p", "p-1", new, &wanted).await.unwrap();
    assert_eq!(ask(&clients[0], "d").await, "new d");
    assert_eq!(ask(&clients[1], "e").await, "new e");
}
