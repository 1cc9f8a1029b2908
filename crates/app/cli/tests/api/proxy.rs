//! Pods and Services asked through the API: `pods/proxy`, `services/proxy`, `kubectl proxy`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};

use rekindle_testkit::{Engine, text};

const WEB: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers:
  - name: server
    image: localhost/demo
    args: [server, --port, '8080']
    ports: [{name: http, containerPort: 8080}]
    readinessProbe: {httpGet: {port: http}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{name: front, port: 80, targetPort: http}]}
---
apiVersion: v1
kind: Service
metadata: {name: empty}
spec: {selector: {app: none}, ports: [{port: 80}]}
";

/// `kubectl proxy`, which ends with this.
struct KubectlProxy {
    child: Child,
    port: u16,
}

impl KubectlProxy {
    fn start(engine: &Engine) -> Self {
        let mut command = engine.kubectl_command(&["proxy", "--port=0"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let (_, port) = line.trim().rsplit_once(':').unwrap();
        Self { port: port.parse().unwrap(), child }
    }

    /// Sends this head, and reads until the other end closes.
    fn ask(&self, head: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(stream, "{head}\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for KubectlProxy {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn pods_and_services_are_asked_through_the_api() {
    let engine = Engine::start();
    engine.apply(WEB);
    engine.wait_ready("web");
    let pods = "/api/v1/namespaces/default/pods";
    let services = "/api/v1/namespaces/default/services";
    engine.until(&["endpointslices", "-l", "kubernetes.io/service-name=web"], |slices| {
        slices.values().any(|slice| slice["endpoints"][0]["conditions"]["ready"] == true)
    });
    for path in [
        format!("{pods}/web/proxy/"),
        format!("{pods}/web:8080/proxy/"),
        format!("{pods}/http:web:http/proxy/"),
        format!("{services}/web:80/proxy/"),
        format!("{services}/web:front/proxy/"),
    ] {
        let answer = engine.kubectl(&["get", "--raw", &path]);
        assert!(!answer.is_empty(), "{path}");
    }
    for (path, expected) in [
        (format!("{services}/empty:80/proxy/"), "no endpoints available for service"),
        (format!("{services}/web:81/proxy/"), "no service port 81 found"),
        (format!("{pods}/web:1/proxy/"), "error trying to reach service"),
        (format!("{pods}/none/proxy/"), "not found"),
        (format!("{pods}/ftp:web:80/proxy/"), "invalid pod request"),
    ] {
        let refused = engine.kubectl_fails(&["get", "--raw", &path], "");
        assert!(refused.contains(expected), "{path}: {refused}");
    }
    let forbidden =
        engine.kubectl_fails(&["get", "--raw", &format!("{pods}/web/proxy/"), "--as=ann"], "");
    assert!(forbidden.contains("cannot get resource \"pods/proxy\""), "{forbidden}");

    let proxy = KubectlProxy::start(&engine);
    let answer = proxy.ask(&format!("GET {services}/web:80/proxy/ HTTP/1.1"));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let answer = proxy.ask(&format!("GET {services}/web:80/proxy HTTP/1.1"));
    assert!(answer.starts_with("HTTP/1.1 301"), "{answer}");
    assert!(answer.contains("proxy/\r\n"), "{answer}");
}

/// A server that answers one connection: what it was sent, and then an echo.
fn serve_upgrade(listener: TcpListener) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let head = read_head(&mut stream);
        let answer =
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";
        stream.write_all(answer.as_bytes()).unwrap();
        let mut bytes = [0; 5];
        stream.read_exact(&mut bytes).unwrap();
        stream.write_all(&bytes).unwrap();
        head
    })
}

fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    text(&head).to_string()
}

#[test]
fn an_upgraded_connection_goes_through_the_proxy_both_ways() {
    let engine = Engine::start();
    let node = engine.get("nodes");
    let address = node["items"][0]["status"]["addresses"][0]["address"].as_str().unwrap();
    let listener = TcpListener::bind((address.parse::<IpAddr>().unwrap(), 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    engine.apply(&format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: echo}}
spec: {{ports: [{{port: 80}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: echo, labels: {{kubernetes.io/service-name: echo}}}}
addressType: IPv4
ports: [{{port: {port}}}]
endpoints: [{{addresses: [{address}]}}]
"
    ));
    let server = serve_upgrade(listener);
    let proxy = KubectlProxy::start(&engine);
    let mut stream = TcpStream::connect(("127.0.0.1", proxy.port)).unwrap();
    let path = "/api/v1/namespaces/default/services/echo:80/proxy/socket?x=1";
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
    )
    .unwrap();
    let head = read_head(&mut stream);
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    stream.write_all(b"hello").unwrap();
    let mut echo = [0; 5];
    stream.read_exact(&mut echo).unwrap();
    assert_eq!(&echo, b"hello");
    let seen = server.join().unwrap();
    assert!(seen.starts_with("GET /socket?x=1 HTTP/1.1\r\n"), "{seen}");
    assert!(!seen.to_ascii_lowercase().contains("authorization"), "{seen}");
}
