//! Services on an engine with a range of each IP family. Source: upstream's documentation of dual
//! stack, and its Service allocators.

use rekindle_kinds::service_range::ServiceRanges;
use serde_json::{Value, json};

use crate::harness::{Bench, Reply, START};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const RANGES: &str = "/apis/networking.k8s.io/v1/servicecidrs";
const FIRST: &str = "10.96.0.0/16";
const SECOND: &str = "fd00:96::/112";

fn bench() -> Bench {
    let mut bench = Bench::new();
    start(&mut bench, ServiceRanges::dual(FIRST.parse().unwrap(), SECOND.parse().unwrap()));
    bench
}

fn start(bench: &mut Bench, ranges: ServiceRanges) {
    bench.api.configure_service_ranges(ranges);
    let _pending = bench.api.bootstrap(START).unwrap();
    bench.committer.commit_pending().unwrap();
}

fn post(bench: &mut Bench, name: &str, spec: Value) -> Reply {
    let mut spec = spec;
    spec["ports"] = json!([{ "port": 80 }]);
    let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": name },
        "spec": spec });
    bench.call("POST", SERVICES, &service.to_string())
}

fn patch(bench: &mut Bench, name: &str, spec: Value) -> Reply {
    let patch = json!({ "spec": spec }).to_string();
    bench.call("PATCH", &format!("{SERVICES}/{name}"), &patch)
}

/// Policy, families and the families of its addresses, in short.
fn shown(service: &Value) -> String {
    let spec = &service["spec"];
    let list = |name: &str| -> Vec<String> {
        let all = spec[name].as_array().into_iter().flatten();
        all.map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let kinds: Vec<&str> = list("clusterIPs")
        .iter()
        .map(|address| match address {
            address if address.starts_with("10.96.") => "v4",
            address if address.starts_with("fd00:96::") => "v6",
            _ => "None",
        })
        .collect();
    assert_eq!(spec["clusterIP"], spec["clusterIPs"][0], "{service}");
    let policy = spec["ipFamilyPolicy"].as_str().unwrap();
    format!("{policy} {} at {}", list("ipFamilies").join("+"), kinds.join("+"))
}

/// The addresses that Services hold beside that of the API, which have a record each.
fn held(bench: &mut Bench) -> Vec<String> {
    let list = bench.get(ADDRESSES);
    let records = list["items"].as_array().unwrap().iter();
    let records = records.filter(|record| record["spec"]["parentRef"]["name"] != "kubernetes");
    let shown = |record: &Value| {
        let name = record["metadata"]["name"].as_str().unwrap();
        let family = &record["metadata"]["labels"]["ipaddress.kubernetes.io/ip-family"];
        assert_eq!(*family, if name.contains(':') { "IPv6" } else { "IPv4" });
        name.to_owned()
    };
    records.map(shown).collect()
}

#[test]
fn families_and_policy_follow_from_what_is_asked_for() {
    let web = json!({ "app": "web" });
    for (spec, expected) in [
        (json!({}), "SingleStack IPv4 at v4"),
        (json!({ "ipFamilyPolicy": "SingleStack" }), "SingleStack IPv4 at v4"),
        (json!({ "ipFamilyPolicy": "PreferDualStack" }), "PreferDualStack IPv4+IPv6 at v4+v6"),
        (json!({ "ipFamilyPolicy": "RequireDualStack" }), "RequireDualStack IPv4+IPv6 at v4+v6"),
        (json!({ "ipFamilies": ["IPv6"] }), "SingleStack IPv6 at v6"),
        (
            json!({ "ipFamilies": ["IPv6"], "ipFamilyPolicy": "PreferDualStack" }),
            "PreferDualStack IPv6+IPv4 at v6+v4",
        ),
        (
            json!({ "ipFamilies": ["IPv6", "IPv4"], "ipFamilyPolicy": "RequireDualStack" }),
            "RequireDualStack IPv6+IPv4 at v6+v4",
        ),
        (json!({ "clusterIP": "fd00:96::5" }), "SingleStack IPv6 at v6"),
        (
            json!({ "clusterIP": "fd00:96::5", "clusterIPs": ["fd00:96::5", "10.96.0.5"],
                "ipFamilyPolicy": "PreferDualStack" }),
            "PreferDualStack IPv6+IPv4 at v6+v4",
        ),
        (
            json!({ "clusterIP": "10.96.0.5", "ipFamilyPolicy": "RequireDualStack" }),
            "RequireDualStack IPv4+IPv6 at v4+v6",
        ),
        (json!({ "clusterIP": "None", "selector": web }), "SingleStack IPv4 at None"),
        (
            json!({ "clusterIP": "None", "selector": web, "ipFamilyPolicy": "PreferDualStack" }),
            "PreferDualStack IPv4+IPv6 at None",
        ),
        (json!({ "clusterIP": "None" }), "RequireDualStack IPv4+IPv6 at None"),
        (
            json!({ "type": "NodePort", "ipFamilyPolicy": "PreferDualStack" }),
            "PreferDualStack IPv4+IPv6 at v4+v6",
        ),
    ] {
        let mut bench = bench();
        let made = post(&mut bench, "web", spec.clone()).ok();
        assert_eq!(shown(&made), expected, "{spec}");
        let count = expected.rsplit(' ').next().unwrap().matches('v').count();
        assert_eq!(held(&mut bench).len(), count, "{spec}");
        bench.call("DELETE", &format!("{SERVICES}/web"), "").ok();
        assert_eq!(held(&mut bench), Vec::<String>::new(), "{spec}");
    }
}

#[test]
fn what_cannot_be_of_two_families_is_refused() {
    for (spec, expected) in [
        (
            json!({ "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "SingleStack" }),
            "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
        ),
        (
            json!({ "ipFamilies": ["IPv4", "IPv4"], "ipFamilyPolicy": "PreferDualStack" }),
            "spec.ipFamilies[1]: Duplicate value: \"IPv4\"",
        ),
        (
            json!({ "clusterIP": "10.96.0.5", "clusterIPs": ["10.96.0.5", "10.96.0.6"],
                "ipFamilyPolicy": "PreferDualStack" }),
            "spec.clusterIPs: Invalid value: [\"10.96.0.5\",\"10.96.0.6\"]: may specify no more than one IP for each IP family",
        ),
        (
            json!({ "clusterIP": "fd00:96::5", "ipFamilies": ["IPv4"] }),
            "spec.clusterIPs[0]: Invalid value: \"fd00:96::5\": expected an IPv4 value as indicated by `ipFamilies[0]`",
        ),
        (
            json!({ "clusterIP": "fd00:97::5" }),
            "spec.clusterIPs: Invalid value: [\"fd00:97::5\"]: failed to allocate IP fd00:97::5: the provided network does not match the current range",
        ),
    ] {
        let mut bench = bench();
        let refused = post(&mut bench, "web", spec.clone());
        let said = refused.text();
        assert!(said.contains(expected), "{spec}: {said}");
        assert_eq!(held(&mut bench), Vec::<String>::new(), "{spec}");
    }
}

#[test]
fn the_second_address_comes_and_goes_and_the_first_one_stays() {
    let mut bench = bench();
    let made = post(&mut bench, "web", json!({})).ok();
    let first = made["spec"]["clusterIP"].clone();
    let both = patch(&mut bench, "web", json!({ "ipFamilyPolicy": "PreferDualStack" })).ok();
    assert_eq!(shown(&both), "PreferDualStack IPv4+IPv6 at v4+v6");
    assert_eq!(both["spec"]["clusterIP"], first);
    assert_eq!(held(&mut bench).len(), 2);
    let reduced = json!({ "clusterIPs": [first] });
    let said = patch(&mut bench, "web", reduced).text();
    assert!(said.contains("must be 'SingleStack' to release the secondary cluster IP"), "{said}");
    let other = json!({ "clusterIP": "10.96.0.77", "clusterIPs": ["10.96.0.77"] });
    let said = patch(&mut bench, "web", other).text();
    assert!(!said.is_empty(), "the first one does not change");
    let single = patch(&mut bench, "web", json!({ "ipFamilyPolicy": "SingleStack" })).ok();
    assert_eq!(shown(&single), "SingleStack IPv4 at v4");
    assert_eq!(single["spec"]["clusterIP"], first);
    assert_eq!(held(&mut bench), [first.as_str().unwrap()]);
}

#[test]
fn the_range_object_has_both_ranges_and_the_api_has_one_address() {
    let mut bench = bench();
    let range = bench.get(&format!("{RANGES}/kubernetes"));
    assert_eq!(range["spec"]["cidrs"], json!([FIRST, SECOND]));
    let endpoint = "10.88.0.1:6443".parse().unwrap();
    let _pending = bench.api.publish_api_service(endpoint, START).unwrap();
    bench.committer.commit_pending().unwrap();
    let kubernetes = bench.get(&format!("{SERVICES}/kubernetes"));
    assert_eq!(shown(&kubernetes), "SingleStack IPv4 at v4");
}

#[test]
fn a_service_keeps_both_addresses_over_starts_with_and_without_the_second_range() {
    let mut bench = bench();
    let made = post(&mut bench, "web", json!({ "ipFamilyPolicy": "PreferDualStack" })).ok();
    let addresses = made["spec"]["clusterIPs"].clone();
    for ranges in [
        ServiceRanges::single(FIRST.parse().unwrap()),
        ServiceRanges::dual(FIRST.parse().unwrap(), SECOND.parse().unwrap()),
    ] {
        start(&mut bench, ranges);
        let found = bench.get(&format!("{SERVICES}/web"));
        assert_eq!(found["spec"]["clusterIPs"], addresses);
        assert_eq!(held(&mut bench).len(), 2);
        // a change of something else is no reason to lose one
        let labelled = json!({ "selector": { "app": "web" } });
        let changed = patch(&mut bench, "web", labelled).ok();
        assert_eq!(changed["spec"]["clusterIPs"], addresses);
    }
}
