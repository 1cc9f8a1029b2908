//! What is behind a Service, with real containers and the real kubectl.
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rekindle_testkit::{Engine, TIMEOUT, until_hung};

const APP: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, labels: {team: shop}}
spec:
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: http}]
---
apiVersion: v1
kind: Service
metadata: {name: elsewhere}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: ReplicationController
metadata: {name: web}
spec:
  replicas: 2
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: web
        image: localhost/demo
        args: [server, --port, '8080']
        ports: [{name: http, containerPort: 8080}]
        readinessProbe: {httpGet: {path: /readyz, port: http}, periodSeconds: 1}
";

/// Watches the EndpointSlices or the Endpoints of Service `web` until the ready addresses are as
/// wanted; these, sorted. Without `range`, of which kubectl's JSONPath does not recover when it was
/// empty.
fn until(engine: &Engine, what: &str, wanted: impl Fn(&[String]) -> bool) -> Vec<String> {
    let path = match what {
        "endpointslices" => "{.endpoints[*].addresses[0]};{.endpoints[*].conditions.ready}",
        _ => "{.subsets[*].addresses[*].ip};",
    };
    let mut watch = engine
        .kubectl_command(&["get", what, "--watch", &until_hung(), "-l", "team=shop"])
        .args(["-o", &format!("jsonpath={path}{{'\\n'}}")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut seen = Vec::new();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map_while(Result::ok);
    let found = lines.find_map(|line| {
        let (addresses, conditions) = line.split_once(';')?;
        let mut conditions = conditions.split_whitespace();
        let addresses = addresses.split_whitespace();
        let ready = addresses.filter(|_| conditions.next().is_none_or(|ready| ready == "true"));
        let mut ready: Vec<String> = ready.map(str::to_owned).collect();
        ready.sort();
        seen.push(line);
        wanted(&ready).then_some(ready)
    });
    let _ = watch.kill();
    let _ = watch.wait();
    found.unwrap_or_else(|| panic!("{what} of web showed only {seen:?}"))
}

/// Both, when they are as wanted.
fn both(engine: &Engine, wanted: impl Fn(&[String]) -> bool) -> Vec<String> {
    let slices = until(engine, "endpointslices", &wanted);
    assert_eq!(until(engine, "endpoints", &wanted), slices);
    slices
}

#[test]
fn a_service_leads_to_its_ready_pods_and_kubectl_shows_them() {
    let engine = Engine::start();
    engine.apply(APP);
    engine.wait_for("rc/web", ".status.readyReplicas", "2");
    let all = both(&engine, |addresses| addresses.len() == 2);
    for what in ["endpoints/web", "ep/web"] {
        let shown = engine.kubectl(&["get", what]);
        assert!(all.iter().all(|address| shown.contains(&format!("{address}:8080"))), "{shown}");
    }
    let shown = engine.kubectl(&["get", "endpointslices", "-l", "team=shop"]);
    assert!(shown.contains("IPv4") && shown.contains("8080"), "{shown}");
    assert!(all.iter().all(|address| shown.contains(address)), "{shown}");
    let described = engine.kubectl(&["describe", "svc", "web"]);
    assert!(all.iter().all(|a| described.contains(&format!("{a}:8080"))), "{described}");
    let node = "jsonpath={.items[0].endpoints[0].nodeName}";
    let of_web = ["get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o"];
    assert_eq!(engine.kubectl(&[&of_web[..], &[node]].concat()), "node-1");

    // The ReplicationController as kubectl knows it.
    let shown = engine.kubectl(&["get", "rc", "-o", "wide"]);
    assert!(shown.contains("app=web"), "{shown}");
    engine.kubectl(&["scale", "rc/web", "--replicas=1"]);
    let left = both(&engine, |addresses| addresses.len() == 1);
    assert!(all.contains(&left[0]), "{left:?} of {all:?}");

    // A pod that is not selected any more is left out, and another takes its place.
    // the one that was scaled away may still be there, as terminating
    let path = "jsonpath={.items[0].endpoints[?(@.conditions.ready==true)].targetRef.name}";
    let pod = engine.kubectl(&[&of_web[..], &[path]].concat());
    engine.kubectl(&["label", "pod", &pod, "app=other", "--overwrite"]);
    both(&engine, |addresses| addresses.len() == 1 && addresses != left);
    assert_eq!(engine.get(&format!("pod/{pod}"))["metadata"].get("ownerReferences"), None);

    // `elsewhere` has no selector: it is nobody's here.
    let said = engine.kubectl_fails(&["get", "ep", "elsewhere"], "");
    assert!(said.contains("not found"), "{said}");
    let slice = engine.kubectl(&[&of_web[..], &["name"]].concat());
    engine.kubectl(&["delete", "svc", "web"]);
    for gone in ["ep/web", slice.trim()] {
        engine.kubectl(&["wait", "--for=delete", gone, TIMEOUT]);
    }
    engine.kubectl(&["delete", "rc/web", "--cascade=foreground"]);
    let pods = engine.kubectl(&["get", "pods", "-l", "app=web", "-o", "name"]);
    assert_eq!(pods, "");
}
