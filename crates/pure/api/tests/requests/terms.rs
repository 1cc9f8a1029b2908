//! Writes that name the term of a leader: taken while the Lease is in that term, refused from the
//! write on that begins another.

use rekindle_api::RequestOutcome;
use serde_json::{Value, json};

use crate::harness::{Bench, PODS, pod};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

fn lease(bench: &mut Bench) -> String {
    let spec = json!({"holderIdentity": "one", "leaseDurationSeconds": 15, "leaseTransitions": 3});
    let made = bench.create(LEASES, json!({"metadata": {"name": "leader"}, "spec": spec}));
    made["metadata"]["uid"].as_str().unwrap().to_owned()
}

fn in_term(uid: &str, number: i32) -> String {
    format!("leaderTerm=kube-system/leader/{uid}/{number}")
}

fn code(bench: &mut Bench, method: &str, target: &str, body: &Value) -> u16 {
    bench.call(method, target, &body.to_string()).0.code.as_u16()
}

#[test]
fn a_write_of_an_old_term_is_refused_whatever_it_does_and_others_are_taken() {
    let mut bench = Bench::new();
    let uid = lease(&mut bench);
    let (third, fourth) = (in_term(&uid, 3), in_term(&uid, 4));
    assert_eq!(code(&mut bench, "POST", &format!("{PODS}?{third}"), &pod("a")), 201);
    assert_eq!(code(&mut bench, "POST", &format!("{PODS}?{fourth}"), &pod("b")), 409, "too early");
    let next = json!({"spec": {"holderIdentity": "two", "leaseTransitions": 4}});
    bench.call("PATCH", &format!("{LEASES}/leader"), &next.to_string()).ok();
    for (method, target, body) in [
        ("POST", format!("{PODS}?{third}"), pod("c")),
        ("PATCH", format!("{PODS}/a?{third}"), json!({"metadata": {"labels": {"x": "y"}}})),
        ("PATCH", format!("{PODS}/a/status?{third}"), json!({"status": {"message": "m"}})),
        ("DELETE", format!("{PODS}/a?{third}"), json!({})),
        ("DELETE", format!("{PODS}?{third}"), json!({})),
        ("DELETE", format!("{LEASES}/leader?{third}"), json!({})),
        (
            "POST",
            format!("{PODS}/a/eviction?{third}"),
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}),
        ),
        (
            "POST",
            format!("{}?{third}", PODS.replace("pods", "bindings")),
            json!({"metadata": {"name": "a"}, "target": {"name": "node-1"}}),
        ),
    ] {
        assert_eq!(code(&mut bench, method, &target, &body), 409, "{method} {target}");
    }
    assert_eq!(code(&mut bench, "GET", &format!("{PODS}/a?{third}"), &json!({})), 200, "reads");
    assert_eq!(code(&mut bench, "POST", &format!("{PODS}?{fourth}"), &pod("d")), 201);
    assert_eq!(code(&mut bench, "POST", PODS, &pod("e")), 201, "users have no term");
    assert!(bench.get(&format!("{PODS}/a"))["spec"]["nodeName"].is_null(), "it is not bound");
}

#[test]
fn a_term_ends_with_the_write_that_begins_the_next_one_not_with_its_commit() {
    let mut bench = Bench::new();
    let uid = lease(&mut bench);
    let next = json!({"spec": {"holderIdentity": "two", "leaseTransitions": 4}}).to_string();
    let next = bench.request("PATCH", &format!("{LEASES}/leader"), &next);
    let RequestOutcome::Write(mut acquisition) = bench.api.handle(&next) else {
        panic!("it is a write")
    };
    let body = pod("late").to_string();
    let late = bench.request("POST", &format!("{PODS}?{}", in_term(&uid, 3)), &body);
    let RequestOutcome::Answer(answer) = bench.api.handle(&late) else { panic!("it is taken") };
    assert_eq!(answer.code.as_u16(), 409);
    bench.committer.commit_pending().unwrap();
    assert!(acquisition.try_answer().is_some());
}

#[test]
fn a_lease_that_was_made_again_is_in_another_term() {
    let mut bench = Bench::new();
    let uid = lease(&mut bench);
    bench.call("DELETE", &format!("{LEASES}/leader"), "{}").ok();
    let old = format!("{PODS}?{}", in_term(&uid, 3));
    assert_eq!(code(&mut bench, "POST", &old, &pod("a")), 409, "it is gone");
    lease(&mut bench);
    assert_eq!(code(&mut bench, "POST", &old, &pod("a")), 409);
}

#[test]
fn what_is_no_term_is_a_bad_request_and_an_api_that_ends_takes_none() {
    let mut bench = Bench::new();
    let uid = lease(&mut bench);
    assert_eq!(code(&mut bench, "POST", &format!("{PODS}?leaderTerm=x"), &pod("a")), 400);
    bench.api.close_to_leaders();
    let target = format!("{PODS}?{}", in_term(&uid, 3));
    assert_eq!(code(&mut bench, "POST", &target, &pod("a")), 409);
    let lease = format!("{LEASES}/leader?{}", in_term(&uid, 3));
    assert_eq!(code(&mut bench, "DELETE", &lease, &json!({})), 409);
    assert_eq!(code(&mut bench, "POST", PODS, &pod("a")), 201);
}

#[test]
fn a_lease_can_be_given_back_with_an_empty_holder() {
    let mut bench = Bench::new();
    lease(&mut bench);
    let free = json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}});
    assert_eq!(code(&mut bench, "PATCH", &format!("{LEASES}/leader"), &free), 200);
}
