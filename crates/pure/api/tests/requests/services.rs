//! The addresses of Services: given in the write, refused, kept, given back.

use std::collections::BTreeSet;

use rekindle_api::RequestOutcome;
use rekindle_store::memory::DiskFault;
use serde_json::{Value, json};

use crate::harness::{Bench, Reply, START};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const RANGES: &str = "/apis/networking.k8s.io/v1/servicecidrs";

fn service(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    if spec.get("ports").is_none() && spec["type"] != "ExternalName" {
        spec["ports"] = json!([{"port": 80}]);
    }
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
}

fn post(bench: &mut Bench, name: &str, spec: Value) -> Reply {
    bench.call("POST", SERVICES, &service(name, spec).to_string())
}

fn of(name: &str) -> String {
    format!("{SERVICES}/{name}")
}

fn patch(bench: &mut Bench, name: &str, spec: Value) -> Reply {
    bench.call("PATCH", &of(name), &json!({ "spec": spec }).to_string())
}

/// The names of the records, each with the Service that holds the address.
fn records(bench: &mut Bench) -> Vec<String> {
    let list = bench.get(ADDRESSES);
    let shown = |record: &Value| {
        let parent = &record["spec"]["parentRef"];
        format!("{} {}", record["metadata"]["name"], parent["name"]).replace('"', "")
    };
    list["items"].as_array().unwrap().iter().map(shown).collect()
}

fn start_again(bench: &mut Bench) {
    bench.api.configure_service_ranges(Default::default());
    let _pending = bench.api.bootstrap(START).unwrap();
    bench.committer.commit_pending().unwrap();
}

#[test]
fn a_service_gets_an_address_with_a_record_and_gives_both_back() {
    let mut bench = Bench::new();
    let made = post(&mut bench, "web", json!({})).ok();
    let address = made["spec"]["clusterIP"].as_str().unwrap().to_owned();
    assert!(address.starts_with("10.96."), "{address}");
    assert_eq!(made["spec"]["clusterIPs"], json!([address]));
    assert_eq!(made["spec"]["ipFamilies"], json!(["IPv4"]));
    assert_eq!(made["spec"]["ipFamilyPolicy"], "SingleStack");
    assert_eq!(records(&mut bench), [format!("{address} web")]);
    let record = bench.get(&format!("{ADDRESSES}/{address}"));
    assert_eq!(record["spec"]["parentRef"]["resource"], "services");
    assert_eq!(record["metadata"]["labels"]["ipaddress.kubernetes.io/ip-family"], "IPv4");

    let taken = post(&mut bench, "second", json!({"clusterIP": address}));
    assert_eq!(
        taken.text(),
        format!(
            "422 Invalid: Service \"second\" is invalid: spec.clusterIPs: Invalid value: [\"{address}\"]: \
             failed to allocate IP {address}: provided IP is already allocated"
        )
    );
    bench.call("DELETE", &of("web"), "").ok();
    assert_eq!(records(&mut bench), [""; 0]);
    let again = post(&mut bench, "second", json!({"clusterIP": address})).ok();
    assert_eq!(again["spec"]["clusterIP"], address.as_str());
}

#[test]
fn what_cannot_be_had_is_refused_in_the_words_of_upstream() {
    let mut bench = Bench::new();
    let mine = json!({"type": "NodePort", "clusterIP": "10.96.0.9", "ports": [{"port": 1, "nodePort": 30001}]});
    post(&mut bench, "mine", mine).ok();
    let range = "provided port is not in the valid range. The range of valid ports is 30000-32767";
    let node_port =
        |port: i32| json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]});
    for (spec, expected) in [
        (
            json!({"clusterIP": "10.97.0.9"}),
            "spec.clusterIPs: Invalid value: [\"10.97.0.9\"]: failed to allocate IP 10.97.0.9: the provided network \
             does not match the current range"
                .to_owned(),
        ),
        (
            json!({"clusterIP": "10.96.0.1"}),
            "spec.clusterIPs: Invalid value: [\"10.96.0.1\"]: failed to allocate IP 10.96.0.1: provided IP is already \
             allocated"
                .to_owned(),
        ),
        (
            json!({"clusterIP": "fd00::1"}),
            "spec.clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on this cluster".to_owned(),
        ),
        (
            json!({"ipFamilies": ["IPv6"]}),
            "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster".to_owned(),
        ),
        (
            json!({"ipFamilyPolicy": "RequireDualStack"}),
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services"
                .to_owned(),
        ),
        (node_port(99), format!("spec.ports[0].nodePort: Invalid value: 99: {range}")),
        (
            node_port(30_001),
            "spec.ports[0].nodePort: Invalid value: 30001: provided port is already allocated".to_owned(),
        ),
    ] {
        let answer = post(&mut bench, "a", spec).text();
        assert_eq!(answer, format!("422 Invalid: Service \"a\" is invalid: {expected}"));
    }
    let health = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30001});
    assert_eq!(
        post(&mut bench, "a", health).text(),
        "500 InternalError: Internal error occurred: failed to allocate requested HealthCheck NodePort 30001: \
         provided port is already allocated"
    );
    // what was taken before the refusal is free
    let both = json!({"type": "NodePort", "clusterIP": "10.96.0.20", "ports": [{"port": 80, "nodePort": 99}]});
    assert_eq!(post(&mut bench, "a", both).code(), 422);
    post(&mut bench, "a", json!({"clusterIP": "10.96.0.20"})).ok();
}

#[test]
fn a_service_says_for_how_long_connections_wait_in_at_most_a_minute() {
    let mut bench = Bench::new();
    let mut annotated = |text: &str| {
        let mut service = service("web", json!({}));
        service["metadata"]["annotations"] = json!({"rekindle.dev/hold-connections": text});
        bench.call("POST", SERVICES, &service.to_string()).text()
    };
    let refused = "422 Invalid: Service \"web\" is invalid: metadata.annotations[rekindle.dev/hold-connections]: Invalid value: ";
    assert_eq!(
        annotated("soon"),
        format!("{refused}\"soon\": \"soon\" is not a duration such as 90s, 10m or 1h30m")
    );
    assert_eq!(annotated("5m"), format!("{refused}\"5m\": must be at most 1m"));
    assert!(annotated("30s").starts_with("201"));
}

#[test]
fn a_full_range_refuses() {
    let mut bench = Bench::new();
    let range = "10.96.0.0/29".parse().unwrap();
    bench.api.configure_service_ranges(rekindle_kinds::service_range::ServiceRanges::single(range));
    // the first is kept for the Service kubernetes
    let given: BTreeSet<String> = (0..5)
        .map(|at| {
            post(&mut bench, &format!("s{at}"), json!({})).ok()["spec"]["clusterIP"].to_string()
        })
        .collect();
    assert_eq!(given.len(), 5);
    assert_eq!(
        post(&mut bench, "one-more", json!({})).text(),
        "500 InternalError: Internal error occurred: failed to allocate a serviceIP: range is full"
    );
    bench.call("DELETE", &of("s3"), "").ok();
    post(&mut bench, "one-more", json!({})).ok();
}

#[test]
fn ports_of_one_number_share_a_port_of_the_nodes() {
    let mut bench = Bench::new();
    let ports = json!([
        {"name": "a", "port": 53, "protocol": "UDP"}, {"name": "b", "port": 53}, {"name": "c", "port": 80},
    ]);
    let made = post(&mut bench, "dns", json!({"type": "NodePort", "ports": ports})).ok();
    let port = |at: usize| made["spec"]["ports"][at]["nodePort"].as_i64().unwrap();
    assert_eq!(port(0), port(1));
    assert_ne!(port(0), port(2));
    assert!((30_086..=32_767).contains(&port(0)), "{}", port(0));
    let asked = json!([
        {"name": "a", "port": 53, "protocol": "UDP"}, {"name": "b", "port": 53, "nodePort": 30053},
    ]);
    let made = post(&mut bench, "other", json!({"type": "NodePort", "ports": asked})).ok();
    assert_eq!(made["spec"]["ports"][0]["nodePort"], 30053);
}

#[test]
fn a_dry_run_shows_addresses_and_takes_none() {
    let mut bench = Bench::new();
    let body = service("web", json!({"clusterIP": "10.96.0.50"})).to_string();
    let dry = format!("{SERVICES}?dryRun=All");
    assert_eq!(bench.call("POST", &dry, &body).code(), 201);
    let shown = bench.call("POST", &dry, &service("web", json!({})).to_string()).ok();
    assert!(shown["spec"]["clusterIP"].is_string());
    assert_eq!(records(&mut bench), [""; 0]);
    bench.call("POST", SERVICES, &body).ok();
    let dry = format!("{}?dryRun=All", of("web"));
    let external =
        json!({"spec": {"type": "ExternalName", "externalName": "a.example"}}).to_string();
    assert_eq!(bench.call("PATCH", &dry, &external).ok()["spec"]["clusterIP"], Value::Null);
    bench.call("DELETE", &dry, "").ok();
    assert_eq!(records(&mut bench), ["10.96.0.50 web"]);
    assert_eq!(post(&mut bench, "b", json!({"clusterIP": "10.96.0.50"})).code(), 422);
}

#[test]
fn a_manifest_without_addresses_keeps_them() {
    let mut bench = Bench::new();
    let spec = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"name": "a", "port": 80}]});
    let made = post(&mut bench, "web", spec.clone()).ok();
    assert!(made["spec"]["healthCheckNodePort"].is_i64());
    let again = bench.call("PUT", &of("web"), &service("web", spec).to_string()).ok();
    assert_eq!(again, made);
    // another port of the same name keeps it as well
    let moved = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [
        {"name": "b", "port": 81}, {"name": "a", "port": 82},
    ]});
    let moved = bench.call("PUT", &of("web"), &service("web", moved).to_string()).ok();
    assert_eq!(moved["spec"]["ports"][1]["nodePort"], made["spec"]["ports"][0]["nodePort"]);
    assert_ne!(moved["spec"]["ports"][0]["nodePort"], moved["spec"]["ports"][1]["nodePort"]);
    let health = patch(&mut bench, "web", json!({"healthCheckNodePort": 30009})).text();
    assert!(
        health.ends_with("spec.healthCheckNodePort: Invalid value: 30009: field is immutable"),
        "{health}"
    );
    let address = patch(&mut bench, "web", json!({"clusterIP": "10.96.0.77"})).text();
    assert!(
        address.ends_with(
            "spec.clusterIPs[0]: Invalid value: [\"10.96.0.77\"]: may not change once set"
        ),
        "{address}"
    );
    post(&mut bench, "b", json!({"clusterIP": "10.96.0.77"})).ok();
}

#[test]
fn a_change_of_type_takes_and_gives_back() {
    let mut bench = Bench::new();
    let spec = json!({"clusterIP": "10.96.0.9"});
    post(&mut bench, "web", spec).ok();
    let local = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "loadBalancerClass": "a/b"});
    let balanced = patch(&mut bench, "web", local).ok();
    let port = balanced["spec"]["ports"][0]["nodePort"].clone();
    let health = balanced["spec"]["healthCheckNodePort"].clone();
    assert_eq!(balanced["spec"]["clusterIP"], "10.96.0.9");
    assert!(port.is_i64() && health.is_i64());

    let on_nodes = patch(&mut bench, "web", json!({"type": "NodePort"})).ok();
    assert_eq!(on_nodes["spec"]["ports"][0]["nodePort"], port);
    for gone in ["healthCheckNodePort", "allocateLoadBalancerNodePorts", "loadBalancerClass"] {
        assert_eq!(on_nodes["spec"][gone], Value::Null, "{gone}");
    }
    let inside = patch(&mut bench, "web", json!({"type": "ClusterIP"})).ok();
    assert_eq!(inside["spec"]["ports"][0]["nodePort"], Value::Null);
    assert_eq!(inside["spec"]["externalTrafficPolicy"], Value::Null);
    let other = json!({"type": "NodePort", "ports": [{"name": "a", "port": 1, "nodePort": port}, {"name": "b", "port": 2, "nodePort": health}]});
    post(&mut bench, "other", other).ok();

    let outside = json!({"type": "ExternalName", "externalName": "a.example"});
    let outside = patch(&mut bench, "web", outside).ok();
    for gone in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]
    {
        assert_eq!(outside["spec"][gone], Value::Null, "{gone}");
    }
    post(&mut bench, "third", json!({"clusterIP": "10.96.0.9"})).ok();
    let back = patch(&mut bench, "web", json!({"type": "ClusterIP", "externalName": null})).ok();
    assert!(back["spec"]["clusterIP"].is_string());
    assert_eq!(records(&mut bench).len(), 3);
}

#[test]
fn a_headless_service_has_no_address_and_gets_none() {
    let mut bench = Bench::new();
    let made = post(&mut bench, "web", json!({"clusterIP": "None", "selector": {"a": "b"}})).ok();
    assert_eq!(made["spec"]["clusterIPs"], json!(["None"]));
    assert_eq!(records(&mut bench), [""; 0]);
    let changed =
        patch(&mut bench, "web", json!({"clusterIP": "10.96.0.9", "clusterIPs": null})).text();
    assert!(
        changed.ends_with(
            "spec.clusterIPs[0]: Invalid value: [\"10.96.0.9\"]: may not change once set"
        ),
        "{changed}"
    );
    let bare = post(&mut bench, "bare", json!({"clusterIP": "None"})).ok();
    assert_eq!(bare["spec"]["ipFamilyPolicy"], "RequireDualStack");
    assert_eq!(bare["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
}

/// A kubelet lists the Services that have an address so.
#[test]
fn services_are_selected_by_their_address_and_type() {
    let mut bench = Bench::new();
    post(&mut bench, "headless", json!({"clusterIP": "None"})).ok();
    post(&mut bench, "alias", json!({"type": "ExternalName", "externalName": "example.org"})).ok();
    let web = post(&mut bench, "web", json!({"type": "NodePort"})).ok();
    let address = web["spec"]["clusterIP"].as_str().unwrap();
    for (selector, selected) in [
        ("spec.clusterIP!=None,spec.clusterIP!=", vec!["web"]),
        ("spec.clusterIP=None", vec!["headless"]),
        (&format!("spec.clusterIP={address}"), vec!["web"]),
        ("spec.type=ExternalName", vec!["alias"]),
        ("spec.type!=ExternalName,metadata.name!=web", vec!["headless"]),
    ] {
        let selector = selector.replace('=', "%3D").replace('!', "%21");
        let list = bench.get(&format!("{SERVICES}?fieldSelector={selector}"));
        let items = list["items"].as_array().unwrap().iter();
        let names: Vec<_> = items.map(|item| item["metadata"]["name"].as_str().unwrap()).collect();
        assert_eq!(names, selected, "{selector}");
    }
}

#[test]
fn a_load_balancer_without_ports_of_the_nodes_gets_none() {
    let mut bench = Bench::new();
    let spec = json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false});
    let made = post(&mut bench, "web", spec).ok();
    assert_eq!(made["spec"]["ports"][0]["nodePort"], Value::Null);
    let asked = json!({"ports": [{"port": 80, "nodePort": 30002}]});
    assert_eq!(patch(&mut bench, "web", asked).ok()["spec"]["ports"][0]["nodePort"], 30002);
}

#[test]
fn a_failed_commit_gives_back_and_takes_back() {
    let mut bench = Bench::new();
    post(&mut bench, "old", json!({"type": "NodePort", "clusterIP": "10.96.0.9", "ports": [{"port": 80, "nodePort": 30009}]})).ok();
    // a removal and a creation that never become durable
    bench.disk.inject(DiskFault::Refused);
    let removal = bench.request("DELETE", &of("old"), "");
    let body = service("new", json!({"clusterIP": "10.96.0.10"})).to_string();
    let creation = bench.request("POST", SERVICES, &body);
    let mut writes = Vec::new();
    for request in [&removal, &creation] {
        let RequestOutcome::Write(write) = bench.api.handle(request) else { panic!("no write") };
        writes.push(write);
    }
    bench.committer.commit_pending().unwrap_err();
    for mut write in writes {
        assert_eq!(write.try_answer().unwrap().code.as_u16(), 500);
    }
    assert_eq!(records(&mut bench), ["10.96.0.9 old"]);
    let held = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30009}]});
    assert_eq!(post(&mut bench, "thief", held).code(), 422);
    assert_eq!(post(&mut bench, "thief", json!({"clusterIP": "10.96.0.9"})).code(), 422);
    post(&mut bench, "new", json!({"clusterIP": "10.96.0.10"})).ok();
}

#[test]
fn writes_that_wait_for_the_disk_count() {
    let mut bench = Bench::new();
    let mut given = BTreeSet::new();
    let mut writes = Vec::new();
    for name in ["a", "b", "c"] {
        let request = bench.request(
            "POST",
            SERVICES,
            &service(name, json!({"type": "NodePort"})).to_string(),
        );
        let RequestOutcome::Write(write) = bench.api.handle(&request) else { panic!("no write") };
        writes.push(write);
    }
    bench.committer.commit_pending().unwrap();
    for mut write in writes {
        let made = Reply(write.try_answer().unwrap()).ok();
        assert!(given.insert(made["spec"]["clusterIP"].to_string()));
        assert!(given.insert(made["spec"]["ports"][0]["nodePort"].to_string()));
    }
}

#[test]
fn after_a_start_what_is_stored_is_held() {
    let mut bench = Bench::new();
    let made = post(&mut bench, "web", json!({"type": "NodePort"})).ok();
    let record = format!("{ADDRESSES}/{}", made["spec"]["clusterIP"].as_str().unwrap());
    start_again(&mut bench);
    let port = &made["spec"]["ports"][0]["nodePort"];
    let same_port = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]});
    assert_eq!(post(&mut bench, "a", same_port).code(), 422);
    assert_eq!(post(&mut bench, "a", json!({"clusterIP": made["spec"]["clusterIP"]})).code(), 422);
    // a record that is removed by hand comes back with the removal
    bench.call("DELETE", &record, "").ok();
    assert_eq!(bench.get(&record)["spec"]["parentRef"]["name"], "web");
}

#[test]
fn an_address_with_a_record_of_the_users_own_is_taken() {
    let mut bench = Bench::new();
    let own = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": "10.96.0.9"},
        "spec": {"parentRef": {"resource": "gateways", "group": "x.example", "name": "g"}},
    });
    bench.create(ADDRESSES, own);
    assert_eq!(post(&mut bench, "a", json!({"clusterIP": "10.96.0.9"})).code(), 422);
    start_again(&mut bench);
    assert_eq!(records(&mut bench), ["10.96.0.9 g"]);
}

#[test]
fn the_range_is_an_object_that_stays() {
    let mut bench = Bench::new();
    let range = bench.get(&format!("{RANGES}/kubernetes"));
    assert_eq!(range["spec"]["cidrs"], json!(["10.96.0.0/16"]));
    assert_eq!(range["status"]["conditions"][0]["type"], "Ready");
    assert_eq!(range["status"]["conditions"][0]["status"], "True");
    assert_eq!(bench.call("DELETE", &format!("{RANGES}/kubernetes"), "").code(), 403);
}

#[test]
fn the_service_of_the_api_leads_to_it_and_comes_back() {
    let mut bench = Bench::new();
    let endpoint = "10.88.0.1:6443".parse().unwrap();
    let _pending = bench.api.publish_api_service(endpoint, START).unwrap();
    bench.committer.commit_pending().unwrap();
    let targets = [
        of("kubernetes"),
        "/api/v1/namespaces/default/endpoints/kubernetes".to_owned(),
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes".to_owned(),
    ];
    let made = targets.each_ref().map(|target| bench.get(target));
    assert_eq!(made[0]["spec"]["clusterIP"], "10.96.0.1");
    assert_eq!(
        made[0]["spec"]["ports"],
        json!([{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}])
    );
    assert_eq!(made[1]["subsets"][0]["addresses"][0]["ip"], "10.88.0.1");
    assert_eq!(made[1]["subsets"][0]["ports"][0]["port"], 6443);
    assert_eq!(made[2]["endpoints"][0]["addresses"], json!(["10.88.0.1"]));
    assert_eq!(records(&mut bench), ["10.96.0.1 kubernetes"]);
    for target in &targets {
        bench.call("DELETE", target, "").ok();
        assert!(bench.get(target).is_object(), "{target}");
    }
    assert_eq!(records(&mut bench), ["10.96.0.1 kubernetes"]);
    // and leads elsewhere after a start that listens elsewhere
    bench.call("PATCH", &targets[1], &json!({"subsets": []}).to_string()).ok();
    let _pending = bench.api.publish_api_service(endpoint, START).unwrap();
    bench.committer.commit_pending().unwrap();
    assert_eq!(bench.get(&targets[1])["subsets"], made[1]["subsets"]);
}

#[test]
fn what_is_deprecated_of_a_service_is_said() {
    let mut bench = Bench::new();
    let service = json!({
        "metadata": {"name": "shop"},
        "spec": {
            "ports": [{"port": 80}],
            "externalIPs": ["192.0.2.7"],
            "trafficDistribution": "PreferClose",
        },
    });
    let target = "/api/v1/namespaces/default/services?dryRun=All";
    let reply = bench.call("POST", target, &service.to_string());
    assert_eq!(
        reply.0.warnings,
        [
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
        ]
    );
}
