//! What a pod's containers find in /etc and call themselves: hostname, hosts, resolv.conf.
use rekindle_testkit::Engine;

const PODS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: custom}
spec:
  restartPolicy: Never
  hostname: db
  subdomain: data
  setHostnameAsFQDN: true
  hostAliases: [{ip: 192.0.2.7, hostnames: [billing, billing.example.org]}]
  dnsPolicy: None
  dnsConfig: {nameservers: [192.0.2.53], searches: [example.org], options: [{name: ndots, value: '2'}, {name: edns0}]}
  containers:
  - name: show
    image: localhost/host
    command: [sh, -c, 'hostname; grep -v ^# /etc/hosts | tail -n 4; cat /etc/resolv.conf']
---
apiVersion: v1
kind: Pod
metadata: {name: renamed}
spec:
  restartPolicy: Never
  hostnameOverride: ledger.example.org
  containers: [{name: show, image: localhost/host, command: [hostname]}]
---
apiVersion: v1
kind: Pod
metadata: {name: too-long}
spec:
  hostname: a-name-that-is-so-long-that-with-its-domain-it-does-not-fit
  subdomain: data
  setHostnameAsFQDN: true
  containers: [{name: show, image: localhost/host, command: [hostname]}]
";

#[test]
fn names_and_resolver_are_what_the_spec_says() {
    let engine = Engine::start();
    let applied = engine.kubectl_with(&["apply", "-f", "-"], PODS);
    assert!(!applied.contains("Warning"), "{applied}");
    engine.wait_for("pod/custom", ".status.phase", "Succeeded");
    let ip = engine.get("pod/custom")["status"]["podIP"].as_str().unwrap().to_owned();
    let expected = format!(
        "{ip}\tdb.data.default.svc.cluster.local\tdb\n\
         \n\
         192.0.2.7\tbilling\tbilling.example.org\n\
         search example.org\n\
         nameserver 192.0.2.53\n\
         options ndots:2 edns0\n"
    );
    let log = engine.kubectl(&["logs", "custom"]);
    assert!(log.ends_with(&expected), "{log}\n{expected}");
    assert!(log.starts_with("db.data.default.svc.cluster.local\n"), "{log}");
    engine.wait_for("pod/renamed", ".status.phase", "Succeeded");
    assert_eq!(engine.kubectl(&["logs", "renamed"]), "ledger.example.org\n");
    let reason = "FailedCreatePodSandBox";
    engine.wait_for_event("too-long", reason, "is longer than the 64 characters");
    assert_eq!(engine.get("pod/too-long")["status"]["phase"], "Pending");
}
