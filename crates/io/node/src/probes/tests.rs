//! Probes against real servers on loopback. Timeouts are waited for in virtual time, by servers
//! that never answer.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use k8s_openapi::api::core::v1::{
    ContainerPort, EnvVar, ExecAction, GRPCAction, HTTPGetAction, HTTPHeader, Probe,
    TCPSocketAction,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rekindle_runtime::SandboxKey;
use rekindle_types::{ContainerAttempt, ContainerName, PodRef, PodUid, SandboxAttempt, Tick};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};

use super::*;
use crate::clock::Clock;
use crate::testing::{CommandEnds, Machine, container};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const LONG: Duration = Duration::from_secs(30);

fn key() -> ContainerKey {
    let pod = PodRef {
        namespace: "default".to_owned(),
        name: "web".to_owned(),
        uid: PodUid("u1".to_owned()),
    };
    ContainerKey {
        sandbox: SandboxKey { pod, attempt: SandboxAttempt(0) },
        name: ContainerName("app".to_owned()),
        attempt: ContainerAttempt(0),
    }
}

/// Runs a readiness probe of a container with a port named `http`.
async fn probe(probe: Probe, port: u16, timeout: Duration) -> Result<ProbeFinding, ProbeError> {
    probe_with_env(Vec::new(), probe, port, timeout).await
}

/// The same of a container with these variables.
async fn probe_with_env(
    env: Vec<EnvVar>,
    probe: Probe,
    port: u16,
    timeout: Duration,
) -> Result<ProbeFinding, ProbeError> {
    let machine = Machine::new(Clock::of_timers(Tick::from_secs(1)));
    machine.command("true", CommandEnds::With(0));
    machine.command("false", CommandEnds::With(1));
    machine.command("sleep 60", CommandEnds::Never);
    machine.command("is second  $(UNKNOWN) $(MODE)", CommandEnds::With(2));
    let port = ContainerPort {
        name: Some("http".to_owned()),
        container_port: i32::from(port),
        ..ContainerPort::default()
    };
    let mut container = container("app");
    container.ports = Some(vec![port]);
    container.env = Some(env);
    container.readiness_probe = Some(probe);
    let asked = ProbeTarget { container: &container, key: &key(), ip: Some(LOOPBACK) };
    run(&machine.connect(), asked, ProbeKind::Readiness, timeout).await
}

fn http_get(path: &str) -> HTTPGetAction {
    HTTPGetAction {
        path: Some(path.to_owned()),
        port: IntOrString::String("http".to_owned()),
        ..HTTPGetAction::default()
    }
}

fn http(action: HTTPGetAction) -> Probe {
    Probe { http_get: Some(action), ..Probe::default() }
}

async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind((LOOPBACK, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// Reads a request's head.
async fn head<S: AsyncRead + Unpin>(stream: &mut S) -> String {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        text.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(text).unwrap()
}

async fn answer<S: AsyncWrite + Unpin>(stream: &mut S, text: &str) {
    stream.write_all(text.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
}

/// A server that answers each path as the table says, and records what it was asked.
async fn serve(
    answers: &'static [(&'static str, &'static str)],
) -> (u16, Arc<std::sync::Mutex<Vec<String>>>) {
    let (listener, port) = listen().await;
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let record = seen.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let head = head(&mut stream).await;
            let path = head.split(' ').nth(1).unwrap().to_owned();
            record.lock().unwrap().push(head);
            let text = answers.iter().find(|(p, _)| *p == path).map_or(NOT_FOUND, |(_, text)| text);
            let text = text.replace("PORT", &port.to_string());
            answer(&mut stream, &text).await;
        }
    });
    (port, seen)
}

const NOT_FOUND: &str = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";

#[tokio::test]
async fn a_status_from_200_to_399_is_well_and_one_from_300_is_warned_of() {
    let (port, _) = serve(&[
        ("/ok", "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine"),
        ("/not-modified", "HTTP/1.1 304 Not Modified\r\n\r\n"),
        (
            "/choice",
            "HTTP/1.1 300 Multiple Choices\r\nlocation: /ok\r\ncontent-length: 4\r\n\r\npick",
        ),
        ("/nowhere", "HTTP/1.1 302 Found\r\ncontent-length: 4\r\n\r\nlost"),
        ("/bad", "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"),
        ("/ill", "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\n\r\nno"),
    ])
    .await;
    let failed =
        |status| ProbeFinding::failure(format!("HTTP probe failed with statuscode: {status}"));
    let warned = |body: &str| ProbeFinding {
        verdict: ProbeVerdict::Warning,
        output: format!("Probe terminated redirects, Response body: {body}"),
    };
    for (path, expected) in [
        ("/ok", ProbeFinding::success("fine")),
        ("/not-modified", warned("")),
        ("/choice", warned("pick")),
        ("/nowhere", warned("lost")),
        ("/bad", failed(400)),
        ("/ill", failed(503)),
        ("/other", failed(404)),
        ("other", failed(404)),
    ] {
        let found = probe(http(http_get(path)), port, LONG).await.unwrap();
        assert_eq!(found, expected, "{path}");
    }
}

#[tokio::test]
async fn the_request_is_the_kubelets_with_the_headers_of_the_spec() {
    let (port, seen) =
        serve(&[("/a%20b?c=d", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")]).await;
    let header =
        |name: &str, value: &str| HTTPHeader { name: name.to_owned(), value: value.to_owned() };
    let headers = vec![header("X-One", "1"), header("x-one", "2"), header("Host", "shop.test")];
    let action = HTTPGetAction { http_headers: Some(headers), ..http_get("/a b?c=d") };
    assert_eq!(probe(http(action), port, LONG).await.unwrap().verdict, ProbeVerdict::Success);
    let head = seen.lock().unwrap().pop().unwrap();
    let mut lines: Vec<&str> = head.trim_end().lines().collect();
    lines.sort_unstable();
    let expected = [
        "GET /a%20b?c=d HTTP/1.1",
        "accept: */*",
        "connection: close",
        "host: shop.test",
        "user-agent: kube-probe/1.37",
        "x-one: 1",
        "x-one: 2",
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn redirects_are_followed_to_the_same_host_only_and_not_for_ever() {
    let (port, _) = serve(&[
        ("/there", "HTTP/1.1 302 Found\r\nlocation: /folder/a\r\ncontent-length: 0\r\n\r\n"),
        ("/folder/a", "HTTP/1.1 301 Moved\r\nlocation: b\r\ncontent-length: 0\r\n\r\n"),
        ("/folder/b", "HTTP/1.1 307 Moved\r\nlocation: http://127.0.0.1:PORT/c\r\n\r\n"),
        ("/c", "HTTP/1.1 308 Moved\r\nlocation: //127.0.0.1:PORT/end\r\n\r\n"),
        ("/query", "HTTP/1.1 302 Found\r\nlocation: ?again\r\ncontent-length: 0\r\n\r\n"),
        ("/query?again", "HTTP/1.1 302 Found\r\nlocation: x/../end\r\ncontent-length: 0\r\n\r\n"),
        ("/odd", "HTTP/1.1 302 Found\r\nlocation: /%zz\r\ncontent-length: 0\r\n\r\n"),
        ("/ftp", "HTTP/1.1 302 Found\r\nlocation: ftp://127.0.0.1/\r\ncontent-length: 0\r\n\r\n"),
        ("/mail", "HTTP/1.1 302 Found\r\nlocation: mailto:a@b\r\ncontent-length: 0\r\n\r\n"),
        ("/end", "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nend"),
        (
            "/away",
            "HTTP/1.1 302 Found\r\nlocation: http://192.0.2.1/x\r\ncontent-length: 4\r\n\r\naway",
        ),
        ("/round", "HTTP/1.1 302 Found\r\nlocation: /round\r\ncontent-length: 0\r\n\r\n"),
    ])
    .await;
    for path in ["/there", "/query"] {
        let found = probe(http(http_get(path)), port, LONG).await.unwrap();
        assert_eq!(found, ProbeFinding::success("end"), "{path}");
    }
    let found = probe(http(http_get("/mail")), port, LONG).await.unwrap();
    assert_eq!(found.verdict, ProbeVerdict::Warning);
    for (path, reason) in [
        (
            "/odd",
            "failed to parse Location header \"/%zz\": parse \"/%zz\": invalid URL escape \"%zz\"",
        ),
        ("/ftp", "unsupported protocol scheme \"ftp\""),
    ] {
        let found = probe(http(http_get(path)), port, LONG).await.unwrap();
        let url = format!("http://127.0.0.1:{port}{path}");
        assert_eq!(found, ProbeFinding::failure(format!("Get \"{url}\": {reason}")));
    }
    let found = probe(http(http_get("/away")), port, LONG).await.unwrap();
    assert_eq!(found.verdict, ProbeVerdict::Warning);
    assert_eq!(found.output, "Probe terminated redirects, Response body: away");
    let found = probe(http(http_get("/round")), port, LONG).await.unwrap();
    assert_eq!(found.verdict, ProbeVerdict::Failure);
    assert!(found.output.ends_with("stopped after 10 redirects"), "{}", found.output);
}

#[tokio::test]
async fn of_a_body_without_end_a_little_is_read() {
    let (listener, port) = listen().await;
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
    });
    let found = probe(http(http_get("/")), port, LONG).await.unwrap();
    assert_eq!(found.verdict, ProbeVerdict::Success);
    assert_eq!(found.output.len(), OUTPUT_BYTES_MAX);
}

#[tokio::test]
async fn who_does_not_listen_or_talks_nonsense_is_ill() {
    // a port that is held, so that no other test gets it, and at which nobody listens
    let held = TcpSocket::new_v4().unwrap();
    held.bind((LOOPBACK, 0).into()).unwrap();
    let port = held.local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}/");
    let refused = format!("dial tcp 127.0.0.1:{port}: connect: connection refused");
    let not_listening = |output| ProbeFinding { verdict: ProbeVerdict::NotListening, output };
    let found = probe(http(http_get("")), port, LONG).await.unwrap();
    assert_eq!(found, not_listening(format!("Get \"{url}\": {refused}")));
    let action = TCPSocketAction { port: IntOrString::Int(i32::from(port)), host: None };
    let tcp = Probe { tcp_socket: Some(action), ..Probe::default() };
    assert_eq!(probe(tcp, port, LONG).await.unwrap(), not_listening(refused));
    let (port, _) = serve(&[("/", "SSH-2.0-x\r\n")]).await;
    let found = probe(http(http_get("/")), port, LONG).await.unwrap();
    assert_eq!(found.verdict, ProbeVerdict::Failure);
}

#[tokio::test]
async fn tcp_asks_for_a_connection_and_no_more() {
    let (_listener, port) = listen().await;
    let action = TCPSocketAction { port: IntOrString::Int(i32::from(port)), host: None };
    let tcp = Probe { tcp_socket: Some(action), ..Probe::default() };
    assert_eq!(probe(tcp, port, LONG).await.unwrap(), ProbeFinding::success(""));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_fails_when_the_time_is_over() {
    // Connections are taken by the kernel, and nobody reads them.
    let (_listener, port) = listen().await;
    let found = probe(http(http_get("/")), port, Duration::from_secs(1)).await.unwrap();
    assert_eq!(found.verdict, ProbeVerdict::Failure);
    assert!(found.output.contains("context deadline exceeded"), "{}", found.output);
    let action = GRPCAction { port: i32::from(port), ..GRPCAction::default() };
    let grpc = Probe { grpc: Some(action), ..Probe::default() };
    let found = probe(grpc, port, Duration::from_secs(1)).await.unwrap();
    let no_server = format!(
        "timeout: failed to connect service \"127.0.0.1:{port}\" within 1s: context deadline exceeded"
    );
    assert_eq!(found, ProbeFinding::failure(no_server));
}

/// A server's side of TLS, with a certificate for somebody else.
fn acceptor(alpn: &[u8]) -> tokio_rustls::TlsAcceptor {
    let made = rcgen::generate_simple_self_signed(vec!["elsewhere.test".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![alpn.to_vec()];
    tokio_rustls::TlsAcceptor::from(Arc::new(config))
}

#[tokio::test]
async fn https_is_spoken_without_a_look_at_the_certificate() {
    let (listener, port) = listen().await;
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = acceptor(b"http/1.1").accept(stream).await.unwrap();
        head(&mut stream).await;
        answer(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nsafe").await;
    });
    let action = HTTPGetAction { scheme: Some("HTTPS".to_owned()), ..http_get("/") };
    assert_eq!(probe(http(action), port, LONG).await.unwrap(), ProbeFinding::success("safe"));
}

/// KEP-4939.
#[tokio::test]
async fn grpc_speaks_tls_when_the_spec_says_so() {
    let (listener, port) = listen().await;
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        health_service(acceptor(b"h2").accept(stream).await.unwrap()).await;
    });
    let mode = Some("TLS".to_owned());
    let action = GRPCAction { port: i32::from(port), mode, service: None };
    let grpc = Probe { grpc: Some(action), ..Probe::default() };
    let found = probe(grpc, port, LONG).await.unwrap();
    assert_eq!(found, ProbeFinding::success("service healthy"));
}

#[tokio::test(start_paused = true)]
async fn a_command_says_it_with_its_exit_code() {
    let exec = |command: &str| Probe {
        exec: Some(ExecAction { command: Some(command.split(' ').map(str::to_owned).collect()) }),
        ..Probe::default()
    };
    let second = Duration::from_secs(1);
    assert_eq!(probe(exec("true"), 1, second).await.unwrap(), ProbeFinding::success("said so"));
    assert_eq!(probe(exec("false"), 1, second).await.unwrap(), ProbeFinding::failure("said so"));
    let found = probe(exec("sleep 60"), 1, second).await.unwrap();
    let expected = "command timed out: \"sleep 60\" timed out after 1s";
    assert_eq!(found, ProbeFinding::failure(expected));
    let found = probe(exec("sleep 60"), 1, Duration::from_secs(90)).await.unwrap();
    assert!(found.output.ends_with(" timed out after 1m30s"), "{}", found.output);
}

/// The last of a name counts, and what does not stand in the spec is empty.
#[tokio::test]
async fn a_command_knows_the_values_in_the_containers_spec() {
    let env = serde_json::json!([
        { "name": "MODE", "value": "first" },
        { "name": "MODE", "value": "second" },
        { "name": "KEY", "valueFrom": { "secretKeyRef": { "name": "keys", "key": "a" } } },
    ]);
    let words = ["is", "$(MODE)", "$(KEY)", "$(UNKNOWN)", "$$(MODE)"];
    let command = Some(words.map(str::to_owned).to_vec());
    let exec = Probe { exec: Some(ExecAction { command }), ..Probe::default() };
    let found = probe_with_env(serde_json::from_value(env).unwrap(), exec, 1, LONG).await.unwrap();
    assert_eq!(found.verdict, ProbeVerdict::Failure, "only the command as it should be says no");
}

/// A server that speaks HTTP/2 only: well at `/healthz`, which `/` sends to.
async fn http2_server(listener: TcpListener) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            let mut connection = h2::server::handshake(stream).await.unwrap();
            while let Some(Ok((request, mut respond))) = connection.accept().await {
                assert_eq!(request.uri().authority().unwrap().as_str(), "web.example");
                assert_eq!(request.headers()["x-probe"], "yes");
                assert!(!request.headers().contains_key("connection"));
                let (status, location) = match request.uri().path() {
                    "/healthz" => (200, ""),
                    "/" => (302, "/healthz"),
                    _ => (503, ""),
                };
                let response =
                    http::Response::builder().status(status).header("location", location);
                let mut send = respond.send_response(response.body(()).unwrap(), false).unwrap();
                send.send_data(Bytes::from_static(b"well"), true).unwrap();
            }
        });
    }
}

#[tokio::test]
async fn http_get_speaks_http2_where_it_is_told_to() {
    let (listener, port) = listen().await;
    let _server = tokio::spawn(http2_server(listener));
    let header =
        |name: &str, value: &str| HTTPHeader { name: name.to_owned(), value: value.to_owned() };
    let action = |path: &str, scheme: &str| HTTPGetAction {
        protocol: Some("HTTP2".to_owned()),
        scheme: Some(scheme.to_owned()),
        http_headers: Some(vec![header("Host", "web.example"), header("X-Probe", "yes")]),
        ..http_get(path)
    };
    for path in ["/healthz", "/"] {
        let found = probe(http(action(path, "HTTP")), port, LONG).await.unwrap();
        assert_eq!(found, ProbeFinding::success("well"), "{path}");
    }
    let found = probe(http(action("/gone", "HTTP")), port, LONG).await.unwrap();
    assert_eq!(found, ProbeFinding::failure("HTTP probe failed with statuscode: 503"));
    let error = probe(http(action("/", "HTTPS")), port, LONG).await.unwrap_err();
    assert!(error.to_string().contains("unsupported protocol \"HTTP2\" over https"), "{error}");
}

#[tokio::test]
async fn what_cannot_be_asked_is_an_error_and_no_verdict() {
    let named = |name: &str| HTTPGetAction {
        port: IntOrString::String(name.to_owned()),
        ..HTTPGetAction::default()
    };
    let error = probe(http(named("grpc")), 1, LONG).await.unwrap_err();
    assert_eq!(error.to_string(), "container \"app\" has no port named \"grpc\"");
    let error = probe(Probe::default(), 1, LONG).await.unwrap_err();
    assert_eq!(error.to_string(), "container \"app\" has no Readiness probe to be run");
}

/// A health service: it knows the services "" and "shop".
async fn health_service<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) {
    let mut connection = h2::server::handshake(&mut stream).await.unwrap();
    while let Some(request) = connection.accept().await {
        let (request, mut respond) = request.unwrap();
        assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
        let mut body = request.into_body();
        let asked = body.data().await.unwrap().unwrap();
        let service = String::from_utf8_lossy(asked.get(7..).unwrap_or_default()).into_owned();
        let (status, state): (&str, Option<&'static [u8]>) = match service.as_str() {
            "" => ("0", Some(&[0, 0, 0, 0, 2, 8, 1])),
            "shop" => ("0", Some(&[0, 0, 0, 0, 2, 8, 2])),
            "old" => ("12", None),
            _ => ("5", None),
        };
        let response = http::Response::builder().header("content-type", "application/grpc");
        let mut trailers = http::HeaderMap::new();
        trailers.insert("grpc-status", status.parse().unwrap());
        trailers.insert("grpc-message", "no such service:%0A100%25".parse().unwrap());
        let mut send = respond.send_response(response.body(()).unwrap(), false).unwrap();
        if let Some(state) = state {
            send.send_data(Bytes::from_static(state), false).unwrap();
        }
        send.send_trailers(trailers).unwrap();
    }
}

/// [kubelet: `grpc.WithBlock`]
#[tokio::test]
async fn grpc_waits_for_a_server_for_as_long_as_the_probe_may_take() {
    let (listener, port) = listen().await;
    tokio::spawn(async move {
        // what listens there first is another server, on its way out
        let (mut other, _) = listener.accept().await.unwrap();
        other.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        drop(other);
        let (stream, _) = listener.accept().await.unwrap();
        health_service(stream).await;
    });
    let action = GRPCAction { port: i32::from(port), ..GRPCAction::default() };
    let grpc = Probe { grpc: Some(action), ..Probe::default() };
    assert_eq!(probe(grpc, port, LONG).await.unwrap(), ProbeFinding::success("service healthy"));
}

#[tokio::test(start_paused = true)]
async fn grpc_that_nobody_speaks_has_failed_to_connect() {
    let (port, _) = serve(&[("/", "HTTP/1.1 400 Bad Request\r\n\r\n")]).await;
    let action = GRPCAction { port: i32::from(port), ..GRPCAction::default() };
    let grpc = Probe { grpc: Some(action), ..Probe::default() };
    let found = probe(grpc, port, Duration::from_secs(90)).await.unwrap();
    let expected = format!(
        "timeout: failed to connect service \"127.0.0.1:{port}\" within 1m30s: context deadline exceeded"
    );
    assert_eq!(found, ProbeFinding::failure(expected));
}

#[tokio::test]
async fn grpc_asks_the_standard_health_service() {
    let (listener, port) = listen().await;
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(health_service(stream));
        }
    });
    for (service, expected) in [
        (None, ProbeFinding::success("service healthy")),
        (Some("shop"), ProbeFinding::failure("service unhealthy (responded with \"NOT_SERVING\")")),
        (
            Some("unknown"),
            ProbeFinding::failure(
                "error: health rpc probe failed: rpc error: code = NotFound desc = no such service:\n100%",
            ),
        ),
        (
            Some("old"),
            ProbeFinding::failure(
                "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): no such service:\n100%",
            ),
        ),
    ] {
        let service = service.map(str::to_owned);
        let action = GRPCAction { port: i32::from(port), service, mode: None };
        let grpc = Probe { grpc: Some(action), ..Probe::default() };
        assert_eq!(probe(grpc, port, LONG).await.unwrap(), expected);
    }
}
