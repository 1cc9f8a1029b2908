//! Health check ports of Services (`spec.healthCheckNodePort`): a load balancer outside asks each
//! node there whether it has endpoints.
//!
//! Source of behaviour: kube-proxy's answers (`pkg/proxy/healthcheck`): 200 with ready endpoints on
//! this node, 503 without, their number in the body and in a header (KEP-3836).

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Response, StatusCode, header};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rekindle_services::{Frontend, HealthCheck, ServiceIdentity, ServiceRouter};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use super::open_ports::PortTaken;
use super::port_hold::listen_at;

/// Connections to one port at the same time; more wait.
const CONNECTIONS_MAX: usize = 64;
/// A client has so long for its request.
const REQUEST_WITHIN: Duration = Duration::from_secs(5);
const ENDPOINTS_HEADER: &str = "x-load-balancing-endpoint-weight";

/// The ports that are served.
#[derive(Debug, Default)]
pub(super) struct HealthChecks {
    served: BTreeMap<Frontend, HealthServer>,
    /// Those that another process has, by who wants them. Each is reported once.
    taken: BTreeMap<Frontend, ServiceIdentity>,
}

#[derive(Debug)]
struct HealthServer {
    answer: watch::Sender<HealthCheck>,
    task: JoinHandle<()>,
}

impl Drop for HealthServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl HealthChecks {
    /// Whether a port waits for another process to free it.
    pub(super) fn waits(&self) -> bool {
        !self.taken.is_empty()
    }

    /// Says at the ports that are served what is true now.
    pub(super) fn tell(&self, router: &ServiceRouter) {
        if self.served.is_empty() {
            return;
        }
        for check in router.health_checks() {
            if let Some(server) = self.served.get(&check.at) {
                server.tell(check);
            }
        }
    }

    /// Serves the ports that Services want, and says what is true now. Answers what cannot be
    /// opened for the first time.
    pub(super) fn follow(&mut self, router: &ServiceRouter) -> Vec<PortTaken> {
        let wanted: BTreeMap<Frontend, HealthCheck> =
            router.health_checks().map(|check| (check.at, check)).collect();
        self.served.retain(|port, _| wanted.contains_key(port));
        self.taken.retain(|port, _| wanted.contains_key(port));
        let mut taken = Vec::new();
        for (port, check) in wanted {
            if let Some(server) = self.served.get(&port) {
                server.tell(check);
                continue;
            }
            let service = check.service.clone();
            match HealthServer::start(check) {
                Ok(server) => {
                    self.taken.remove(&port);
                    self.served.insert(port, server);
                }
                Err(error) => {
                    if self.taken.insert(port, service.clone()).as_ref() != Some(&service) {
                        taken.push(PortTaken { port, service, error });
                    }
                }
            }
        }
        taken
    }
}

impl HealthServer {
    fn start(check: HealthCheck) -> io::Result<Self> {
        let listener = listen_at(SocketAddr::new(check.at.address, check.at.port))?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let (answer, checks) = watch::channel(check);
        Ok(Self { answer, task: tokio::spawn(serve(listener, checks)) })
    }

    fn tell(&self, check: HealthCheck) {
        self.answer.send_replace(check);
    }
}

async fn serve(listener: TcpListener, checks: watch::Receiver<HealthCheck>) {
    let seats = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let seat = Arc::clone(&seats).acquire_owned().await.expect("the semaphore is not closed");
        match listener.accept().await {
            Ok((stream, _)) => {
                let checks = checks.clone();
                tokio::spawn(async move {
                    answer(stream, checks).await;
                    drop(seat);
                });
            }
            Err(error) => {
                tracing::debug!(%error, "failed to accept a health check");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// One request of one connection.
async fn answer(stream: TcpStream, checks: watch::Receiver<HealthCheck>) {
    let service = service_fn(|_request| {
        let answer = response(&checks.borrow());
        async move { Ok::<_, Infallible>(answer) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_WITHIN)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a health check ended early");
    }
}

fn response(check: &HealthCheck) -> Response<String> {
    let HealthCheck { service, local_endpoints, .. } = check;
    let body = json!({
        "service": { "namespace": service.name.namespace, "name": service.name.name },
        "localEndpoints": local_endpoints,
        "serviceProxyHealthy": true,
    });
    let code = match local_endpoints {
        0 => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::OK,
    };
    Response::builder()
        .status(code)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
        .header(ENDPOINTS_HEADER, *local_endpoints)
        .body(body.to_string())
        .expect("the headers are names and numbers")
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use k8s_openapi::api::core::v1::Service;
    use k8s_openapi::api::discovery::v1::EndpointSlice;
    use rekindle_testkit::free_port;
    use rekindle_types::{IpStack, NamespacedName};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn slice(ready: bool) -> EndpointSlice {
        serde_json::from_value(json!({
            "metadata": { "namespace": "shop", "name": "web-a",
                "labels": { "kubernetes.io/service-name": "web" } },
            "addressType": "IPv4",
            "ports": [{ "port": 8080, "name": "", "protocol": "TCP" }],
            "endpoints": [{ "addresses": ["10.88.0.2"], "conditions": { "ready": ready },
                "nodeName": "n" }],
        }))
        .unwrap()
    }

    async fn ask(port: u16) -> String {
        ask_at(Ipv4Addr::LOCALHOST.into(), port).await
    }

    async fn ask_at(address: IpAddr, port: u16) -> String {
        let mut stream = TcpStream::connect((address, port)).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: node\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn a_health_check_port_says_whether_there_are_endpoints() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        let service: Service = serde_json::from_value(json!({
            "metadata": { "namespace": "shop", "name": "web", "uid": "u1" },
            "spec": { "type": "LoadBalancer", "clusterIP": "10.96.0.10", "externalTrafficPolicy": "Local",
                "healthCheckNodePort": port, "ports": [{ "port": 80, "nodePort": 30080 }] },
        }))
        .unwrap();
        let (web, name) =
            (NamespacedName::new("shop", "web"), NamespacedName::new("shop", "web-a"));
        let mut router = ServiceRouter::default();
        router.set_service(web.clone(), Some(&service));
        let mut checks = HealthChecks::default();
        let taken = checks.follow(&router);
        assert_eq!((taken.len(), taken[0].port.port), (1, port));
        assert!(checks.follow(&router).is_empty() && checks.waits(), "it is reported once");
        drop(free);

        assert!(checks.follow(&router).is_empty() && !checks.waits());
        let answer = ask(port).await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        router.set_slice(name.clone(), Some(&slice(true)));
        checks.follow(&router);
        let answer = ask(port).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(answer.contains("x-load-balancing-endpoint-weight: 1\r\n"), "{answer}");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["service"], json!({ "namespace": "shop", "name": "web" }));
        assert_eq!(body["localEndpoints"], 1);
        router.set_slice(name, Some(&slice(false)));
        checks.follow(&router);
        assert!(ask(port).await.starts_with("HTTP/1.1 503 "));

        router.set_service(web, None);
        checks.follow(&router);
        assert!(checks.served.is_empty());
    }

    #[tokio::test]
    async fn a_health_check_port_answers_in_each_family_of_its_service() {
        let port = free_port();
        let mut router = ServiceRouter::new(IpStack::Dual);
        let mut checks = HealthChecks::default();
        for (addresses, count) in [(&["10.96.0.10"][..], 1), (&["10.96.0.10", "fd00:96::a"], 2)] {
            let service: Service = serde_json::from_value(json!({
                "metadata": { "namespace": "shop", "name": "web", "uid": "u1" },
                "spec": { "type": "LoadBalancer", "externalTrafficPolicy": "Local",
                    "clusterIP": addresses[0], "clusterIPs": addresses,
                    "healthCheckNodePort": port, "ports": [{ "port": 80, "nodePort": 30080 }] },
            }))
            .unwrap();
            router.set_service(NamespacedName::new("shop", "web"), Some(&service));
            router.set_slice(NamespacedName::new("shop", "web-a"), Some(&slice(true)));
            assert!(checks.follow(&router).is_empty());
            assert_eq!(checks.served.len(), count);
            assert!(ask(port).await.starts_with("HTTP/1.1 200 "));
        }
        let answer = ask_at(Ipv6Addr::LOCALHOST.into(), port).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(answer.contains("x-load-balancing-endpoint-weight: 1\r\n"), "{answer}");
    }
}
