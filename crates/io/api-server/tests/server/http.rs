//! The front: in process as kube clients use it, and over TLS on a real socket.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use rekindle_api::node_query::LogQuery;
use rekindle_api::{Api, ApiParts};
use rekindle_api_server::pki::{CERTIFICATE_LIFETIME, CertificateAuthority, RevokedCertificates};
use rekindle_api_server::{
    ApiServer, Front, FrontBody, InProcessService, LogRequestError, LogStream, NodeLogs,
    ServerLimits, SystemClock, TlsListener,
};
use rekindle_kinds::identity::{ClientIdentity, UserInfo};
use rekindle_store::backup::{BackupDecoder, BackupPart};
use rekindle_types::log_options::{ContainerRun, LogSince};
use rekindle_types::{Tick, TickDuration};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tower::ServiceExt;

use crate::memory_front;
use crate::objects::{CONFIG_MAPS, PODS, config_map, pod};

/// Answers with the query, or as the container's name says.
struct FakeLogs;

impl NodeLogs for FakeLogs {
    fn read(&self, query: LogQuery) -> BoxFuture<'static, Result<LogStream, LogRequestError>> {
        async move {
            match query.container.as_str() {
                "new" => Err(LogRequestError::NotThere(
                    "container \"new\" in pod \"p\" is waiting to start: ContainerCreating"
                        .to_owned(),
                )),
                _ => {
                    let text = format!(
                        "{:?} {:?} {:?} {:?}\n",
                        query.options.run,
                        query.options.follow,
                        query.options.tail_lines,
                        query.options.since
                    );
                    let lines = [Ok(Bytes::from(text)), Ok(Bytes::from_static(b"second\n"))];
                    Ok(futures::stream::iter(lines).boxed())
                }
            }
        }
        .boxed()
    }
}

/// A front with logs, and its CA.
fn front() -> (Front, Arc<CertificateAuthority>) {
    let clock = SystemClock::start();
    let pki = Arc::new(CertificateAuthority::ephemeral(clock.now()).unwrap());
    let parts = ApiParts { ca_bundle: pki.ca_pem().to_owned(), ..memory_front::api_parts() };
    (memory_front::front_with_logs(Api::new(parts), &clock, Arc::new(FakeLogs)), pki)
}

fn admin(front: &Front) -> InProcessService {
    front.in_process_service(UserInfo::internal("admin"))
}

async fn send(
    service: &InProcessService,
    method: &str,
    target: &str,
    body: impl Into<Bytes>,
) -> Response<FrontBody> {
    let request = Request::builder()
        .method(method)
        .uri(target)
        .header("content-type", "application/json")
        .body(Full::new(body.into()))
        .unwrap();
    service.clone().oneshot(request).await.unwrap()
}

async fn json_of(response: Response<FrontBody>) -> Value {
    serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap()
}

#[tokio::test]
async fn requests_are_served_in_process_with_warnings_and_codes() {
    let (front, _) = front();
    let service = admin(&front);
    let mut body = config_map("a");
    body["x"] = json!(1);
    let made = send(&service, "POST", CONFIG_MAPS, body.to_string()).await;
    assert_eq!(made.status(), StatusCode::CREATED);
    assert_eq!(made.headers()["warning"], r#"299 - "unknown field \"x\"""#);
    assert_eq!(made.headers()["content-type"], "application/json");
    assert_eq!(json_of(made).await["metadata"]["name"], "a");
    let head = send(&service, "HEAD", &format!("{CONFIG_MAPS}/a"), "").await;
    assert_eq!(head.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert!(head.into_body().collect().await.unwrap().to_bytes().is_empty());
    let missing = send(&service, "GET", &format!("{CONFIG_MAPS}/b"), "").await;
    assert_eq!(missing.status(), StatusCode::NOT_FOUND);
    assert_eq!(json_of(missing).await["kind"], "Status");
    let nowhere = send(&service, "GET", "/nowhere", "").await;
    assert_eq!(nowhere.status(), StatusCode::NOT_FOUND);
}

/// What a backup keeps alive is bounded by how many are read.
#[tokio::test]
async fn two_backups_are_read_at_a_time_and_writers_go_on() {
    let (front, _) = front();
    let service = admin(&front);
    let revision = front.api().store().revision();
    let first = send(&service, "GET", "/backup", "").await;
    let second = send(&service, "GET", "/backup", "").await;
    assert_eq!((first.status(), second.status()), (StatusCode::OK, StatusCode::OK));
    let third = send(&service, "GET", "/backup", "").await;
    assert_eq!(third.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(third.headers().contains_key("retry-after"));
    let head = send(&service, "HEAD", "/backup", "").await;
    assert_eq!(head.status(), StatusCode::OK, "the head takes no turn");

    drop(first);
    // its task sees that the client is gone
    tokio::task::yield_now().await;
    let made = send(&service, "POST", CONFIG_MAPS, config_map("later").to_string()).await;
    assert_eq!(made.status(), StatusCode::CREATED);
    let third = send(&service, "GET", "/backup", "").await;
    assert_eq!(third.status(), StatusCode::OK, "the first holds nothing any more");
    let bytes = second.into_body().collect().await.unwrap().to_bytes();
    let mut decoder = BackupDecoder::default();
    decoder.push(&bytes);
    let Some(BackupPart::Header(header)) = decoder.next_part().unwrap() else {
        panic!("no header");
    };
    assert_eq!(header.revision, revision, "the moment at which it was asked for");
    while decoder.next_part().unwrap().is_some() {}
    decoder.finish().unwrap();
}

/// What it holds is free then, and the client cannot take it for a whole one.
#[tokio::test(start_paused = true)]
async fn a_backup_that_its_client_does_not_take_ends_after_a_minute() {
    let (front, _) = front();
    let service = admin(&front);
    let first = send(&service, "GET", "/backup", "").await;
    let second = send(&service, "GET", "/backup", "").await;
    // the tasks that send them begin to wait for their clients
    tokio::task::yield_now().await;
    tokio::time::advance(Duration::from_secs(59)).await;
    let refused = send(&service, "GET", "/backup", "").await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    tokio::time::advance(Duration::from_secs(2)).await;
    // they see that the minute is over
    tokio::task::yield_now().await;
    let third = send(&service, "GET", "/backup", "").await;
    assert_eq!(third.status(), StatusCode::OK);
    for stalled in [first, second] {
        let error = stalled.into_body().collect().await.unwrap_err();
        assert_eq!(error.to_string(), "the backup ended early");
    }
    let bytes = third.into_body().collect().await.unwrap().to_bytes();
    assert!(bytes.starts_with(b"rekindle-backup\n"));
}

#[tokio::test]
async fn a_backup_ends_with_the_front() {
    let (front, _) = front();
    let backup = send(&admin(&front), "GET", "/backup", "").await;
    front.end_watches();
    let error = backup.into_body().collect().await.unwrap_err();
    assert_eq!(error.to_string(), "the backup ended early");
}

#[tokio::test]
async fn a_watch_streams_each_change_at_once_and_ends_with_the_front() {
    let (front, _) = front();
    let service = admin(&front);
    let revision = front.api().store().revision();
    let target = format!("{CONFIG_MAPS}?watch=1&resourceVersion={revision}");
    let mut watch = send(&service, "GET", &target, "").await.into_body();
    assert!(watch.frame().now_or_never().is_none(), "nothing yet");
    for name in ["a", "b"] {
        send(&service, "POST", CONFIG_MAPS, config_map(name).to_string()).await;
        let frame = watch.frame().await.unwrap().unwrap().into_data().unwrap();
        let event: Value = serde_json::from_slice(&frame).unwrap();
        assert_eq!(
            (&event["type"], &event["object"]["metadata"]["name"]),
            (&json!("ADDED"), &json!(name))
        );
    }
    send(&service, "POST", CONFIG_MAPS, config_map("last").to_string()).await;
    front.end_watches();
    let last = watch.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(String::from_utf8_lossy(&last).contains("\"last\""), "what is there is sent first");
    assert!(watch.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_at_its_timeout_without_losing_the_last_event() {
    let (front, _) = front();
    let service = admin(&front);
    let revision = front.api().store().revision();
    let target = format!(
        "{CONFIG_MAPS}?watch=1&timeoutSeconds=90&allowWatchBookmarks=true&resourceVersion={revision}"
    );
    let mut watch = send(&service, "GET", &target, "").await.into_body();
    send(&service, "POST", PODS, pod("elsewhere").to_string()).await;
    // virtual time: the minute passes as soon as nothing else is to do
    let frame = watch.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(frame.starts_with(b"{\"type\":\"BOOKMARK\""), "{frame:?}");
    tokio::time::advance(Duration::from_secs(100)).await;
    send(&service, "POST", CONFIG_MAPS, config_map("late").to_string()).await;
    let rest = watch.collect().await.unwrap().to_bytes();
    let lines: Vec<Value> = rest
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 1);
    assert_eq!(
        (&lines[0]["type"], &lines[0]["object"]["metadata"]["name"]),
        (&json!("ADDED"), &json!("late"))
    );
}

#[tokio::test]
async fn a_huge_body_is_refused_before_it_is_read() {
    let (front, _) = front();
    let service = admin(&front);
    let announced = Request::builder()
        .method("POST")
        .uri(CONFIG_MAPS)
        .header("content-length", 100 << 20)
        .body(StreamBody::new(futures::stream::pending::<
            Result<http_body::Frame<Bytes>, std::io::Error>,
        >()))
        .unwrap();
    let refused = service.clone().oneshot(announced).await.unwrap();
    assert_eq!(
        (refused.status(), &refused.headers()["connection"]),
        (StatusCode::PAYLOAD_TOO_LARGE, &"close".parse().unwrap())
    );
    assert_eq!(json_of(refused).await["reason"], "RequestEntityTooLarge");
    // one that does not say how long it is: read no further than the limit
    let endless = futures::stream::repeat_with(|| {
        Ok::<_, std::io::Error>(http_body::Frame::data(Bytes::from(vec![b' '; 64 << 10])))
    });
    let request =
        Request::builder().method("POST").uri(CONFIG_MAPS).body(StreamBody::new(endless)).unwrap();
    assert_eq!(
        service.clone().oneshot(request).await.unwrap().status(),
        StatusCode::PAYLOAD_TOO_LARGE
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_given_up() {
    let (front, _) = front();
    let request = Request::builder()
        .method("POST")
        .uri(CONFIG_MAPS)
        .body(StreamBody::new(futures::stream::pending::<
            Result<http_body::Frame<Bytes>, std::io::Error>,
        >()))
        .unwrap();
    let refused = admin(&front).oneshot(request).await.unwrap();
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn logs_come_from_the_node() {
    let (front, _) = front();
    let service = admin(&front);
    let mut on_node = pod("p");
    on_node["spec"]["nodeName"] = "n1".into();
    on_node["spec"]["containers"] = json!([{"name": "c", "image": "localhost/demo"}, {"name": "new", "image": "localhost/demo"}]);
    send(&service, "POST", PODS, on_node.to_string()).await;
    send(&service, "POST", PODS, pod("pending").to_string()).await;
    let query = "container=c&previous=true&tailLines=5&sinceSeconds=60&follow=false";
    let log = send(&service, "GET", &format!("{PODS}/p/log?{query}"), "").await;
    assert_eq!(log.headers()["content-type"], "text/plain");
    let text = log.into_body().collect().await.unwrap().to_bytes();
    let expected = format!(
        "{:?} {:?} {:?} {:?}\nsecond\n",
        ContainerRun::Previous,
        false,
        Some(5),
        Some(LogSince::Seconds(60))
    );
    assert_eq!(String::from_utf8_lossy(&text), expected);
    let mut refusals = Vec::new();
    for (pod, query) in [
        ("p", ""),
        ("p", "container=x"),
        ("p", "container=new"),
        ("p", "container=c&tailLines=-1"),
        ("p", "limitBytes=0&sinceSeconds=0"),
        ("p", "container=c&sinceTime=x"),
        ("p", "container=c&sinceTime=2026-01-01T00:00:00Z&sinceSeconds=1"),
        ("pending", ""),
        ("nosuch", ""),
    ] {
        let refused = send(&service, "GET", &format!("{PODS}/{pod}/log?{query}"), "").await;
        let code = refused.status().as_u16();
        refusals.push(format!("{code} {}", json_of(refused).await["message"].as_str().unwrap()));
    }
    expect_test::expect![[r#"
        400 a container name must be specified for pod p, choose one of: [c new]
        400 container x is not valid for pod p
        400 container "new" in pod "p" is waiting to start: ContainerCreating
        422 PodLogOptions "p" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0
        422 PodLogOptions "p" is invalid: [limitBytes: Invalid value: 0: must be greater than 0, sinceSeconds: Invalid value: 0: must be greater than 0]
        400 sinceTime: "x" is not an RFC 3339 time
        422 PodLogOptions "p" is invalid: : Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified
        400 container "c" in pod "pending" is waiting to start: the pod is not scheduled to a node yet
        404 pods "nosuch" not found"#]].assert_eq(&refusals.join("\n"));
}

#[tokio::test]
async fn nobody_and_strangers_are_kept_out() {
    let (front, _) = front();
    for (identity, target, code) in [
        (ClientIdentity::Anonymous, "/readyz", 200),
        (ClientIdentity::Anonymous, "/version", 200),
        (ClientIdentity::Anonymous, "/api", 401),
        (ClientIdentity::Anonymous, PODS, 401),
        (ClientIdentity::User(UserInfo::new("bob", [])), "/api", 200),
        (ClientIdentity::User(UserInfo::new("bob", [])), PODS, 403),
    ] {
        let service = InProcessService::new(front.clone(), identity.clone());
        assert_eq!(
            send(&service, "GET", target, "").await.status().as_u16(),
            code,
            "{identity:?} {target}"
        );
    }
    let bob = front.in_process_service(UserInfo::new("bob", []));
    let review =
        json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}}).to_string();
    let answer =
        send(&bob, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review).await;
    assert_eq!(json_of(answer).await["status"]["allowed"], false);
}

#[tokio::test]
async fn discovery_tells_the_same_in_both_forms() {
    let (front, _) = front();
    let service = admin(&front);
    let mut classic = Vec::new();
    let not_stored = [
        ("authentication.k8s.io", "v1"),
        ("authorization.k8s.io", "v1"),
        ("metrics.k8s.io", "v1beta1"),
    ];
    for (group, version) in rekindle_kinds::all().group_versions().into_iter().chain(not_stored) {
        let path = match group {
            "" => format!("/api/{version}"),
            group => format!("/apis/{group}/{version}"),
        };
        let list = json_of(send(&service, "GET", &path, "").await).await;
        for resource in list["resources"].as_array().unwrap() {
            classic.push(format!(
                "{} {} {}",
                list["groupVersion"].as_str().unwrap(),
                resource["name"].as_str().unwrap(),
                resource["verbs"]
            ));
        }
    }
    let mut aggregated = Vec::new();
    for path in ["/api", "/apis"] {
        let request = Request::builder()
            .uri(path)
            .header("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json")
            .body(Full::new(Bytes::new()))
            .unwrap();
        let response = service.clone().oneshot(request).await.unwrap();
        assert_eq!(
            response.headers()["content-type"],
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        );
        for group in json_of(response).await["items"].as_array().unwrap() {
            let name = group["metadata"]["name"].as_str().unwrap_or_default();
            for version in group["versions"].as_array().unwrap() {
                let version_name = version["version"].as_str().unwrap();
                let gv = if name.is_empty() {
                    version_name.to_owned()
                } else {
                    format!("{name}/{version_name}")
                };
                for resource in version["resources"].as_array().unwrap() {
                    let resource_name = resource["resource"].as_str().unwrap();
                    aggregated.push(format!("{gv} {resource_name} {}", resource["verbs"]));
                    for sub in resource["subresources"].as_array().into_iter().flatten() {
                        aggregated.push(format!(
                            "{gv} {resource_name}/{} {}",
                            sub["subresource"].as_str().unwrap(),
                            sub["verbs"]
                        ));
                    }
                }
            }
        }
    }
    classic.sort();
    aggregated.sort();
    assert_eq!(classic, aggregated);
    assert!(classic.iter().any(|line| line == r#"v1 pods/binding ["create"]"#));
}

#[tokio::test]
async fn openapi_documents_are_found_by_their_hash() {
    let (front, _) = front();
    let service = admin(&front);
    let index = json_of(send(&service, "GET", "/openapi/v3", "").await).await;
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap();
    let document = send(&service, "GET", url, "").await;
    assert!(document.headers()["cache-control"].to_str().unwrap().contains("immutable"));
    assert!(
        json_of(document).await["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"]
            .is_object()
    );
    let plain = send(&service, "GET", "/openapi/v3/apis/apps/v1", "").await;
    assert_eq!(plain.headers()["cache-control"], "no-cache, private");
    let older = json_of(send(&service, "GET", "/openapi/v2", "").await).await;
    assert_eq!(older["swagger"], "2.0");
    assert!(older["definitions"]["io.k8s.api.apps.v1.Deployment"].is_object());
    let missing = send(&service, "GET", "/openapi/v3/apis/nosuch/v1", "").await;
    assert_eq!(missing.status(), StatusCode::NOT_FOUND);
}

/// A TLS connection to the server, with a client certificate or without.
async fn connect(
    address: std::net::SocketAddr,
    pki: &CertificateAuthority,
    user: Option<&UserInfo>,
) -> tokio_rustls::client::TlsStream<TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pki.ca_pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match user {
        None => builder.with_no_client_auth(),
        Some(user) => {
            let issued =
                pki.client(user, CERTIFICATE_LIFETIME, SystemClock::start().now()).unwrap();
            let chain =
                vec![CertificateDer::from_pem_slice(issued.certificate_pem.as_bytes()).unwrap()];
            builder
                .with_client_auth_cert(
                    chain,
                    PrivateKeyDer::from_pem_slice(issued.key_pem.as_bytes()).unwrap(),
                )
                .unwrap()
        }
    };
    let stream = TcpStream::connect(address).await.unwrap();
    let name = rustls::pki_types::ServerName::try_from("127.0.0.1").unwrap();
    tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

fn listener_tls(front: &Front, pki: &Arc<CertificateAuthority>) -> TlsListener {
    let clock = front.clone();
    TlsListener::new(Arc::clone(pki), &[], Arc::new(move || clock.now())).unwrap()
}

/// A server at a port of its own that nothing stops but the end of its task.
async fn serve(
    front: &Front,
    pki: &Arc<CertificateAuthority>,
) -> (SocketAddr, JoinHandle<std::io::Result<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = ApiServer::new(front.clone(), listener_tls(front, pki), ServerLimits::default());
    (address, tokio::spawn(server.serve(listener, futures::future::pending())))
}

async fn get_over_tls(
    address: std::net::SocketAddr,
    pki: &CertificateAuthority,
    user: Option<&UserInfo>,
    path: &str,
) -> String {
    let mut stream = connect(address, pki, user).await;
    stream
        .write_all(
            format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes(),
        )
        .await
        .unwrap();
    let mut text = Vec::new();
    stream.read_to_end(&mut text).await.unwrap();
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn over_tls_the_certificate_says_who_asks_and_the_server_stops_gracefully() {
    let (front, pki) = front();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tls = listener_tls(&front, &pki);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = ApiServer::new(front.clone(), tls, ServerLimits::default());
    let serving = tokio::spawn(server.serve(listener, async { drop(stopped.await) }));

    let masters = UserInfo::new("root", ["system:masters".to_owned()]);
    let admin = get_over_tls(address, &pki, Some(&masters), "/api/v1/namespaces/default").await;
    assert!(admin.starts_with("HTTP/1.1 200 OK"), "{admin}");
    let bob =
        get_over_tls(address, &pki, Some(&UserInfo::new("bob", ["dev".to_owned()])), PODS).await;
    assert!(bob.starts_with("HTTP/1.1 403"), "{bob}");
    let nobody = get_over_tls(address, &pki, None, PODS).await;
    assert!(nobody.starts_with("HTTP/1.1 401"), "{nobody}");
    let health = get_over_tls(address, &pki, None, "/readyz").await;
    assert!(health.ends_with("ok"), "{health}");

    // somebody with a certificate of another CA is not let in at all
    let foreign = CertificateAuthority::ephemeral(front.now()).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pki.ca_pem().as_bytes()).unwrap()).unwrap();
    let issued = foreign.client(&masters, CERTIFICATE_LIFETIME, front.now()).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .unwrap()
    .with_root_certificates(roots)
    .with_client_auth_cert(
        vec![CertificateDer::from_pem_slice(issued.certificate_pem.as_bytes()).unwrap()],
        PrivateKeyDer::from_pem_slice(issued.key_pem.as_bytes()).unwrap(),
    )
    .unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let answer = async {
        let mut stream =
            tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        stream.write_all(b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await?;
        let mut text = Vec::new();
        stream.read_to_end(&mut text).await?;
        Ok::<_, std::io::Error>(text)
    };
    assert!(answer.await.is_err(), "the handshake fails");

    // an open watch does not hold the server up, and is ended properly
    let mut watch = connect(address, &pki, Some(&masters)).await;
    watch
        .write_all(format!("GET {CONFIG_MAPS}?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let mut first = [0; 64];
    watch.read_exact(&mut first).await.unwrap();
    stop.send(()).unwrap();
    let mut rest = Vec::new();
    watch.read_to_end(&mut rest).await.unwrap();
    assert!(rest.ends_with(b"0\r\n\r\n"), "the last chunk is sent");
    serving.await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_revoked_certificate_is_no_identity_and_ends_what_runs_under_it() {
    let (front, pki) = front();
    let (address, serving) = serve(&front, &pki).await;
    let jane = UserInfo::new("jane", ["system:masters".to_owned()]);
    let bob = UserInfo::new("bob", ["system:masters".to_owned()]);
    let watch = format!("GET {CONFIG_MAPS}?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut first = [0; 64];
    let mut janes = connect(address, &pki, Some(&jane)).await;
    janes.write_all(watch.as_bytes()).await.unwrap();
    janes.read_exact(&mut first).await.unwrap();
    assert!(first.starts_with(b"HTTP/1.1 200"));
    let mut bobs = connect(address, &pki, Some(&bob)).await;
    bobs.write_all(watch.as_bytes()).await.unwrap();
    bobs.read_exact(&mut first).await.unwrap();

    let mut revoked = RevokedCertificates::default();
    revoked.revoke("jane", front.now() + TickDuration::from_secs(60));
    assert_eq!(front.revoke_certificates(revoked), 1);
    let mut rest = Vec::new();
    // without a last chunk: it did not end by itself
    let _ = janes.read_to_end(&mut rest).await;
    assert!(!rest.ends_with(b"0\r\n\r\n"), "{}", String::from_utf8_lossy(&rest));
    let again = get_over_tls(address, &pki, Some(&jane), PODS).await;
    assert!(again.starts_with("HTTP/1.1 401"), "{again}");
    let other = get_over_tls(address, &pki, Some(&bob), PODS).await;
    assert!(other.starts_with("HTTP/1.1 200"), "{other}");

    // a certificate that was issued later is good
    assert_eq!(front.revoke_certificates(RevokedCertificates::default()), 0);
    let mut revoked = RevokedCertificates::default();
    revoked.revoke("jane", Tick::from_secs(1));
    front.revoke_certificates(revoked);
    let again = get_over_tls(address, &pki, Some(&jane), PODS).await;
    assert!(again.starts_with("HTTP/1.1 200"), "{again}");
    serving.abort();
}

#[tokio::test]
async fn a_100_mb_body_over_tls_gets_its_answer() {
    let (front, pki) = front();
    let (address, serving) = serve(&front, &pki).await;
    let masters = UserInfo::new("root", ["system:masters".to_owned()]);
    let mut stream = connect(address, &pki, Some(&masters)).await;
    let head = format!(
        "POST {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        100 << 20
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b' '; 1 << 16]).await.unwrap();
    let mut answer = vec![0; 13];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 413 ");
    serving.abort();
}
