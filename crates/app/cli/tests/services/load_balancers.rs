//! Services of type LoadBalancer: their ports are open on the machine.

use std::net::TcpListener;

use rekindle_testkit::Engine;
use rekindle_testkit::load::Load;
use serde_json::Value;

use crate::{ready, web};

/// A port that no process of the machine has now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn balancer(port: u16, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: front}}\nspec: {{type: LoadBalancer, selector: {{app: web}}, ports: [{{port: {port}, targetPort: 8080}}]{more}}}\n"
    )
}

fn ingress(service: &Value) -> &Value {
    &service["status"]["loadBalancer"]["ingress"][0]
}

#[test]
fn a_load_balancer_opens_its_port_and_takes_no_port_of_another_process() {
    let engine = Engine::start();
    engine.apply(&web(1, 1));
    ready(&engine);
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    engine.apply(&balancer(port, ""));
    engine.wait_for_event("front", "FailedOpenPort", "cannot be opened");

    let port = free_port();
    engine.apply(&balancer(port, ""));
    let load = Load::start("127.0.0.1", port);
    load.until_answered(20);
    drop(load.stop());
    let front = engine.until_one("service/front", |service| !ingress(service).is_null());
    let address = ingress(&front)["ip"].as_str().unwrap();
    let load = Load::start(address, port);
    load.until_answered(20);
    drop(load.stop());
    drop(other);
}
