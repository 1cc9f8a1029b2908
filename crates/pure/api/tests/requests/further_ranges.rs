//! Ranges of cluster IPs that users add. Source: KEP-1880.

use rekindle_kinds::service_range::ServiceRanges;
use serde_json::{Value, json};

use crate::harness::{Bench, Reply, START};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const RANGES: &str = "/apis/networking.k8s.io/v1/servicecidrs";
const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
const WAITS: &str = "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR";

/// An API with a range of its own that has one address for Services beside five that are given.
fn full() -> Bench {
    let mut bench = Bench::new();
    bench.api.configure_service_ranges(ServiceRanges::single("10.96.0.0/29".parse().unwrap()));
    for number in 0..5 {
        post(&mut bench, &format!("s{number}"), json!({})).ok();
    }
    assert_eq!(post(&mut bench, "late", json!({})).code(), 500, "it is full");
    bench
}

fn post(bench: &mut Bench, name: &str, mut spec: Value) -> Reply {
    spec["ports"] = json!([{"port": 80}]);
    let service =
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
    bench.call("POST", SERVICES, &service.to_string())
}

fn address(bench: &mut Bench, name: &str) -> String {
    let made = post(bench, name, json!({})).ok();
    made["spec"]["clusterIP"].as_str().unwrap().to_owned()
}

fn range(name: &str) -> String {
    format!("{RANGES}/{name}")
}

/// A range of a user, of which the node has said nothing yet.
fn add(bench: &mut Bench, name: &str, cidr: &str) {
    bench.create(
        RANGES,
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
            "metadata": {"name": name}, "spec": {"cidrs": [cidr]},
        }),
    );
}

/// What the node says of it.
fn say(bench: &mut Bench, name: &str, status: &str) {
    let ready = json!({"type": "Ready", "status": status, "reason": "", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let patch = json!({"status": {"conditions": [ready]}}).to_string();
    bench.call("PATCH", &format!("{}/status", range(name)), &patch).ok();
}

fn delete(bench: &mut Bench, path: &str) {
    bench.call("DELETE", path, "").ok();
}

fn is_there(bench: &mut Bench, name: &str) -> bool {
    bench.call("GET", &range(name), "").code() == 200
}

#[test]
fn addresses_come_from_a_further_range_once_it_is_ready() {
    let mut bench = full();
    add(&mut bench, "more", "10.112.0.0/24");
    assert_eq!(bench.get(&range("more"))["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(post(&mut bench, "early", json!({})).code(), 500, "no node leads there yet");
    let wanted = json!({"clusterIP": "10.112.0.7"});
    assert_eq!(post(&mut bench, "early", wanted.clone()).code(), 422);
    say(&mut bench, "more", "False");
    assert_eq!(post(&mut bench, "early", json!({})).code(), 500);
    say(&mut bench, "more", "True");
    assert!(address(&mut bench, "late").starts_with("10.112.0."));
    let made = post(&mut bench, "chosen", wanted.clone()).ok();
    assert_eq!(made["spec"]["clusterIP"], "10.112.0.7");
    assert_eq!(post(&mut bench, "again", wanted).code(), 422, "it is held");
    // the engine's own range comes first
    delete(&mut bench, &format!("{SERVICES}/s2"));
    assert!(address(&mut bench, "next").starts_with("10.96.0."));
}

#[test]
fn a_range_with_addresses_goes_with_the_last_of_them() {
    let mut bench = full();
    add(&mut bench, "more", "10.112.0.0/24");
    say(&mut bench, "more", "True");
    for name in ["a", "b"] {
        assert!(address(&mut bench, name).starts_with("10.112."));
    }
    delete(&mut bench, &range("more"));
    let kept = bench.get(&range("more"));
    let condition = &kept["status"]["conditions"][0];
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &json!("Terminating"))
    );
    assert_eq!(condition["message"], WAITS);
    assert_eq!(post(&mut bench, "c", json!({})).code(), 500, "it gives no address any more");
    delete(&mut bench, &format!("{SERVICES}/a"));
    assert!(is_there(&mut bench, "more"));
    // a Service that gives its address up without going
    let other = json!({"spec": {"type": "ExternalName", "externalName": "x.example", "clusterIP": "", "clusterIPs": null}});
    bench.call("PATCH", &format!("{SERVICES}/b"), &other.to_string()).ok();
    assert!(!is_there(&mut bench, "more"));
}

#[test]
fn a_range_without_addresses_goes_at_once() {
    let mut bench = full();
    for status in ["True", "False"] {
        add(&mut bench, "more", "10.112.0.0/24");
        say(&mut bench, "more", status);
        delete(&mut bench, &range("more"));
        assert!(!is_there(&mut bench, "more"), "{status}");
    }
}

#[test]
fn a_range_goes_when_another_one_has_its_addresses() {
    let mut bench = full();
    add(&mut bench, "more", "10.112.0.0/24");
    say(&mut bench, "more", "True");
    let held = address(&mut bench, "a");
    delete(&mut bench, &range("more"));
    add(&mut bench, "wide", "10.112.0.0/16");
    assert!(is_there(&mut bench, "more"), "no node leads to the other one yet");
    say(&mut bench, "wide", "True");
    assert!(!is_there(&mut bench, "more"));
    delete(&mut bench, &range("wide"));
    assert!(is_there(&mut bench, "wide"), "{held} is of it");
}

#[test]
fn a_finalizer_of_another_keeps_a_range_and_a_start_looks_again() {
    let mut bench = full();
    add(&mut bench, "more", "10.112.0.0/24");
    say(&mut bench, "more", "True");
    let both = json!({"metadata": {"finalizers": ["x.example/mine", FINALIZER]}}).to_string();
    bench.call("PATCH", &range("more"), &both).ok();
    delete(&mut bench, &range("more"));
    assert_eq!(bench.get(&range("more"))["metadata"]["finalizers"], json!(["x.example/mine"]));
    let _pending = bench.api.bootstrap(START).unwrap();
    bench.committer.commit_pending().unwrap();
    assert!(is_there(&mut bench, "more"), "it is the other's to let it go");
    let none = json!({"metadata": {"finalizers": []}}).to_string();
    bench.call("PATCH", &range("more"), &none).ok();
    assert!(!is_there(&mut bench, "more"));
}

#[test]
fn a_finalizer_that_a_user_takes_away_comes_back_with_the_write() {
    let mut bench = full();
    add(&mut bench, "more", "10.112.0.0/24");
    let none = json!({"metadata": {"finalizers": []}}).to_string();
    let kept = bench.call("PATCH", &range("more"), &none).ok();
    assert_eq!(kept["metadata"]["finalizers"], json!([FINALIZER]));
}

#[test]
fn a_range_of_too_many_or_too_few_addresses_is_refused() {
    let mut bench = Bench::new();
    for (cidr, said) in [
        ("10.112.0.0/30", "the prefix must be /8 to /29"),
        ("fd00::/48", "the prefix must be /64 to /125"),
        ("10.112.0.1/24", "the range is 10.112.0.0/24: give it so"),
    ] {
        let object = json!({"metadata": {"name": "more"}, "spec": {"cidrs": [cidr]}}).to_string();
        let refused = bench.call("POST", RANGES, &object).text();
        assert!(refused.starts_with("422") && refused.contains(said), "{refused}");
    }
}
