//! Hooks against real servers on loopback.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use k8s_openapi::api::core::v1::Container;
use rekindle_pod::HookKind;
use rekindle_runtime::{ContainerKey, SandboxKey};
use rekindle_types::{ContainerAttempt, ContainerName, PodRef, PodUid, SandboxAttempt, Tick};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{HookOutcome, run};
use crate::clock::Clock;
use crate::probes::ProbeTarget;
use crate::testing::Machine;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Runs a preStop hook that asks this port over HTTPS, with credentials.
async fn hook(port: u16) -> Result<HookOutcome, String> {
    let machine = Machine::new(Clock::of_timers(Tick::from_secs(1)));
    let pod = PodRef {
        namespace: "default".to_owned(),
        name: "web".to_owned(),
        uid: PodUid("u1".to_owned()),
    };
    let key = ContainerKey {
        sandbox: SandboxKey { pod, attempt: SandboxAttempt(0) },
        name: ContainerName("app".to_owned()),
        attempt: ContainerAttempt(0),
    };
    let get = json!({
        "port": port, "scheme": "HTTPS", "path": "/bye",
        "httpHeaders": [{ "name": "Authorization", "value": "secret" }],
    });
    let container: Container = serde_json::from_value(json!({
        "name": "app", "lifecycle": { "preStop": { "httpGet": get } },
    }))
    .unwrap();
    let asked = ProbeTarget { container: &container, key: &key, ip: Some(LOOPBACK) };
    let limit = Some(Duration::from_secs(30));
    let done = run(&machine.connect(), asked, HookKind::PreStop, limit).await;
    done.map_err(|error| error.to_string())
}

/// Answers each connection with this, whatever it says; answers what the last one said.
async fn serve(listener: TcpListener, answer: &'static str, connections: usize) -> String {
    let mut said = Vec::new();
    for _ in 0..connections {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = vec![0; 16_384];
        let len = stream.read(&mut buffer).await.unwrap();
        said = buffer[..len].to_vec();
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        // what is unread would take the answer back
        let _ = stream.read_to_end(&mut Vec::new()).await;
    }
    String::from_utf8_lossy(&said).into_owned()
}

#[tokio::test]
async fn a_hook_that_meets_no_tls_is_asked_again_without_it_and_without_credentials() {
    let listener = TcpListener::bind((LOOPBACK, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = "HTTP/1.0 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    let server = tokio::spawn(serve(listener, answer, 2));
    let host = format!("127.0.0.1:{port}");
    assert_eq!(hook(port).await, Ok(HookOutcome::WithoutTls { host }));
    let said = server.await.unwrap();
    assert!(said.starts_with("GET /bye HTTP/1.1\r\n"), "{said}");
    assert!(!said.to_lowercase().contains("authorization"), "{said}");
}

#[tokio::test]
async fn what_fails_otherwise_is_not_asked_without_tls() {
    let listener = TcpListener::bind((LOOPBACK, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(serve(listener, "", 1));
    let error = hook(port).await.unwrap_err();
    assert!(error.starts_with(&format!("Get \"https://127.0.0.1:{port}/bye\": tls: ")), "{error}");
    server.await.unwrap();
}
