//! Services: where their addresses lead, and that restarts lose no connection.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a black-box test drives processes and files"
)]

mod dual_stack;
mod firewalls;
mod further_ranges;
mod ipv6_ports;
mod load_balancers;
mod near_endpoints;
mod network_policies;
mod no_loss;
mod python_client;
mod routing;
mod three_tiers;

use rekindle_testkit::Engine;

/// A Deployment of servers without any preStop hook, and its Service, whose port is not theirs.
pub fn web(replicas: u8, grace_seconds: u8) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      terminationGracePeriodSeconds: {grace_seconds}
      containers:
      - name: server
        image: localhost/demo
        # a request whose connection is there already is read after the signal
        args: [server, --port, '8080', --drain, 500ms]
        ports: [{{name: http, containerPort: 8080}}]
        readinessProbe: {{httpGet: {{port: http}}, periodSeconds: 1}}
---
apiVersion: v1
kind: Service
metadata: {{name: web}}
spec:
  type: NodePort
  selector: {{app: web}}
  ports: [{{port: 80, targetPort: http}}]
"
    )
}

/// Waits until all replicas run, and answers the Service's address and its port of the node.
pub fn ready(engine: &Engine) -> (String, u16) {
    engine.kubectl(&["rollout", "status", "deployment/web", "--timeout=120s"]);
    let service = engine.get("service/web");
    let address = service["spec"]["clusterIP"].as_str().unwrap().to_owned();
    let node_port = service["spec"]["ports"][0]["nodePort"].as_u64().unwrap();
    (address, u16::try_from(node_port).unwrap())
}

/// The names of the replicas that are not being ended.
pub fn replicas(engine: &Engine) -> Vec<String> {
    let pods = engine.get("pods");
    let pods = pods["items"].as_array().unwrap().iter().map(|pod| &pod["metadata"]);
    let stay = pods.filter(|meta| meta["deletionTimestamp"].is_null());
    stay.map(|meta| meta["name"].as_str().unwrap().to_owned()).collect()
}
