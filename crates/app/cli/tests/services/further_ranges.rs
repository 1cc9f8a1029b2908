//! Ranges of cluster IPs that users add (ServiceCIDRs): packets get there.

use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use rekindle_testkit::ports::answers;
use rekindle_testkit::{Engine, text};
use serde_json::Value;

use crate::routing::{SHELL, asked_in_shell};
use crate::{ready, web};

/// Routes have to follow within this time.
const PATIENCE: Duration = Duration::from_secs(30);

fn range(name: &str, cidr: &str) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: ServiceCIDR\nmetadata: {{name: {name}}}\nspec: {{cidrs: ['{cidr}']}}\n"
    )
}

fn condition(engine: &Engine, name: &str, wanted: &str) -> Value {
    let is_said = |object: &Value| object["status"]["conditions"][0]["status"] == wanted;
    let object = engine.until_one(&format!("servicecidrs/{name}"), is_said);
    object["status"]["conditions"][0].clone()
}

/// The deletion is stored, and the engine is killed before it has removed the route.
#[test]
fn the_route_that_a_killed_engine_left_goes_when_its_range_is_gone() {
    let mut engine = Engine::start();
    let third = std::process::id() % 256;
    let (gone, stays) = (format!("10.78.{third}.0/24"), format!("10.79.{third}.0/24"));
    for (name, cidr) in [("gone", &gone), ("stays", &stays)] {
        engine.apply(&range(name, cidr));
        condition(&engine, name, "True");
    }
    let own =
        engine.get("servicecidrs/kubernetes")["spec"]["cidrs"][0].as_str().unwrap().to_owned();
    let led = || [&own, &gone, &stays].map(|cidr| routes().contains(cidr.as_str()));
    assert_eq!(led(), [true; 3], "{}", routes());
    engine.kubectl(&["delete", "servicecidr", "gone", "--timeout=60s"]);
    engine.kill();
    let bridge = engine.bridge().to_owned();
    let left = ["route", "replace", &gone, "dev", &bridge, "scope", "link", "proto", "static"];
    assert!(Command::new("ip").args(left).status().unwrap().success());
    engine.launch(&[]);
    let begin = Instant::now();
    while led() != [true, false, true] {
        assert!(begin.elapsed() < PATIENCE, "{}", routes());
    }
}

fn routes() -> String {
    let listed = Command::new("ip").args(["-4", "route"]).output().unwrap();
    text(&listed.stdout)
}

#[test]
fn services_are_reached_at_addresses_of_a_range_that_a_user_adds() {
    let mut engine = Engine::start();
    engine.apply(&web(1, 1));
    ready(&engine);
    // of this process's own, and beside all ranges that engines choose
    let third = std::process::id() % 256;
    let cidr = format!("10.77.{third}.0/24");
    engine.apply(&range("more", &cidr));
    condition(&engine, "more", "True");
    assert!(routes().contains(&cidr), "{}", routes());
    let address = format!("10.77.{third}.10");
    engine.apply(&format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: there}}\nspec: {{clusterIP: {address}, selector: {{app: web}}, ports: [{{port: 80, targetPort: http}}]}}\n"
    ));
    engine.apply(SHELL);
    engine.wait_ready("shell");
    let reached = |engine: &Engine| {
        let begin = Instant::now();
        while !answers(&address, 80) {
            assert!(begin.elapsed() < PATIENCE, "{address} does not answer");
        }
        let answer = asked_in_shell(engine, &address, 80);
        assert!(answer.starts_with("HTTP/1.1 200"), "from a pod: {answer}");
        // an address that no Service has is turned away at once
        let vacant: SocketAddr = format!("10.77.{third}.99:80").parse().unwrap();
        let refused = TcpStream::connect_timeout(&vacant, Duration::from_secs(60)).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    };
    reached(&engine);
    engine.kill();
    assert!(answers(&address, 80), "rules lead there without an engine");
    engine.launch(&[]);
    reached(&engine);

    // the engine's own range once more takes nothing of it away
    let own =
        engine.get("servicecidrs/kubernetes")["spec"]["cidrs"][0].as_str().unwrap().to_owned();
    engine.apply(&range("same", &own));
    condition(&engine, "same", "True");
    engine.kubectl(&["delete", "servicecidr", "same", "--timeout=60s"]);

    let pods = engine.get("nodes")["items"][0]["spec"]["podCIDR"].as_str().unwrap().to_owned();
    engine.apply(&range("taken", &pods));
    let refused = condition(&engine, "taken", "False");
    assert_eq!(refused["reason"], "PodOverlap", "{refused}");

    engine.kubectl(&["delete", "servicecidr", "more", "--wait=false"]);
    let waits = condition(&engine, "more", "False");
    assert_eq!(waits["reason"], "Terminating", "{waits}");
    assert!(answers(&address, 80), "the Service keeps its address");
    engine.kubectl(&["delete", "service", "there"]);
    engine.kubectl(&["wait", "--for=delete", "servicecidr/more", "--timeout=60s"]);
    let begin = Instant::now();
    while routes().contains(&cidr) {
        assert!(begin.elapsed() < PATIENCE, "{}", routes());
    }
    assert!(routes().contains(&own), "{}", routes());
}
