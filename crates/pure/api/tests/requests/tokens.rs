//! Tokens of service accounts: issued, known, and void when what they were made for is gone.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use rekindle_api::auth::token::TokenKeys;
use rekindle_api::token_secrets::TokenSecretDecision;
use rekindle_kinds::identity::ClientIdentity;
use rekindle_types::TickDuration;
use serde_json::{Value, json};

use crate::harness::digest_key::DigestKey;
use crate::harness::{Bench, PODS, Reply, pod};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

fn ask(bench: &mut Bench, account: &str, spec: &Value) -> Reply {
    bench.call("POST", &format!("{ACCOUNTS}/{account}/token"), &json!({"spec": spec}).to_string())
}

fn token(bench: &mut Bench, account: &str, spec: &Value) -> String {
    ask(bench, account, spec).ok()["status"]["token"].as_str().unwrap().to_owned()
}

fn account(bench: &mut Bench, name: &str) {
    bench.create(ACCOUNTS, json!({"metadata": {"name": name}}));
}

fn is_good(bench: &Bench, token: &str) -> bool {
    bench.api.authenticate(token, bench.now).is_ok()
}

fn pod_of(bench: &mut Bench, name: &str, account: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["serviceAccountName"] = json!(account);
    pod["spec"]["nodeName"] = json!("one");
    bench.create(PODS, pod)
}

fn bound_to(name: &str) -> Value {
    json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": name}})
}

#[test]
fn a_token_makes_its_bearer_the_service_account() {
    let mut bench = Bench::new();
    account(&mut bench, "robot");
    let node = json!({"metadata": {"name": "one"}});
    let node = bench.create("/api/v1/nodes", node);
    let made = pod_of(&mut bench, "web", "robot");
    let text = token(&mut bench, "robot", &bound_to("web"));
    let ClientIdentity::User(user) = bench.api.authenticate(&text, bench.now).unwrap() else {
        panic!()
    };
    assert_eq!(user.name, "system:serviceaccount:default:robot");
    assert_eq!(
        user.groups,
        ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]
    );
    let extra = |field: &str| json!(user.extra[&format!("authentication.kubernetes.io/{field}")]);
    assert_eq!(extra("pod-name"), json!(["web"]));
    assert_eq!(extra("pod-uid"), json!([made["metadata"]["uid"]]));
    assert_eq!(extra("node-name"), json!(["one"]));
    assert_eq!(extra("node-uid"), json!([node["metadata"]["uid"]]));
    bench.as_user(user, |bench| {
        let me = bench.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({}));
        assert_eq!(me["status"]["userInfo"]["username"], "system:serviceaccount:default:robot");
        assert_eq!(bench.call("GET", PODS, "").code(), 403);
        // every account may read how to verify tokens
        let keys = bench.get("/openid/v1/jwks");
        assert_eq!(keys["keys"][0]["alg"], "ES256");
        assert_eq!(bench.get("/.well-known/openid-configuration")["issuer"], ISSUER);
    });
}

/// The Secret as the server fills it in.
fn filled(bench: &mut Bench, name: &str) -> Value {
    let secret = bench.get(&format!("{SECRETS}/{name}"));
    let read: Secret = serde_json::from_value(secret).unwrap();
    match bench.api.decide_token_secret(&read).unwrap() {
        TokenSecretDecision::Fill(filled) => serde_json::to_value(filled).unwrap(),
        decision => panic!("{decision:?}"),
    }
}

#[test]
fn the_token_of_a_secret_is_good_as_long_as_the_secret_holds_it_and_its_account_is_there() {
    let mut bench = Bench::new();
    account(&mut bench, "robot");
    let secret = |account: &str| {
        json!({
            "metadata": {
                "name": "robot-token",
                "annotations": {"kubernetes.io/service-account.name": account},
            },
            "type": "kubernetes.io/service-account-token",
        })
    };
    bench.create(SECRETS, secret("robot"));
    let held = filled(&mut bench, "robot-token");
    let token = held["data"]["token"].as_str().unwrap();
    let token = String::from_utf8(STANDARD.decode(token).unwrap()).unwrap();
    assert!(!is_good(&bench, &token), "it is not stored yet");
    let path = format!("{SECRETS}/robot-token");
    let stored = bench.call("PUT", &path, &held.to_string()).ok();
    let read: Secret = serde_json::from_value(stored.clone()).unwrap();
    assert_eq!(bench.api.decide_token_secret(&read).unwrap(), TokenSecretDecision::Leave);
    bench.now = bench.now + TickDuration::from_secs(10 * 365 * 24 * 3600);
    let ClientIdentity::User(user) = bench.api.authenticate(&token, bench.now).unwrap() else {
        panic!()
    };
    assert_eq!(user.name, "system:serviceaccount:default:robot");
    let uid = bench.get(&format!("{ACCOUNTS}/robot"))["metadata"]["uid"].clone();
    assert_eq!(json!(user.uid), uid);
    assert_eq!(stored["metadata"]["annotations"]["kubernetes.io/service-account.uid"], uid);
    let review = bench.create(REVIEWS, json!({"spec": {"token": token}}));
    assert_eq!(review["status"]["audiences"], json!([ISSUER]));
    let review = bench.create(REVIEWS, json!({"spec": {"token": token, "audiences": ["vault"]}}));
    assert_eq!(review["status"]["authenticated"], Value::Null);

    // another token takes its place
    let mut other = stored.clone();
    other["data"]["token"] = json!(STANDARD.encode("another"));
    bench.call("PUT", &path, &other.to_string()).ok();
    assert!(!is_good(&bench, &token));
    other = bench.get(&path);
    other["data"]["token"] = stored["data"]["token"].clone();
    bench.call("PUT", &path, &other.to_string()).ok();
    assert!(is_good(&bench, &token));

    // an account of the same name is another one
    bench.call("DELETE", &format!("{ACCOUNTS}/robot"), "").ok();
    assert!(!is_good(&bench, &token));
    account(&mut bench, "robot");
    assert!(!is_good(&bench, &token));
    let read: Secret = serde_json::from_value(bench.get(&path)).unwrap();
    assert_eq!(bench.api.decide_token_secret(&read).unwrap(), TokenSecretDecision::Remove);
    bench.call("DELETE", &path, "").ok();
    bench.create(SECRETS, secret("stranger"));
    let read: Secret = serde_json::from_value(bench.get(&path)).unwrap();
    assert_eq!(bench.api.decide_token_secret(&read).unwrap(), TokenSecretDecision::Remove);
}

#[test]
fn tokens_of_the_key_before_are_good_until_it_is_retired() {
    let keys = || TokenKeys::new(DigestKey("second"));
    let ids = |bench: &mut Bench| -> Vec<String> {
        let keys = bench.get("/openid/v1/jwks");
        let keys = keys["keys"].as_array().unwrap();
        keys.iter().map(|key| key["kid"].as_str().unwrap().to_owned()).collect()
    };
    let mut bench = Bench::new();
    let first = token(&mut bench, "default", &json!({}));
    bench.api.set_token_keys(keys().with_previous(DigestKey::default()));
    let second = token(&mut bench, "default", &json!({}));
    assert!(is_good(&bench, &first) && is_good(&bench, &second));
    assert_eq!(ids(&mut bench), ["second", "digest"], "who verifies tokens finds both");
    // the header says one key, the signature is of the other
    let (_, forged) = first.split_once('.').unwrap();
    let (header, _) = second.split_once('.').unwrap();
    assert!(!is_good(&bench, &format!("{header}.{forged}")));
    bench.api.set_token_keys(keys());
    assert!(!is_good(&bench, &first) && is_good(&bench, &second));
    assert_eq!(ids(&mut bench), ["second"]);
}

#[test]
fn a_token_ends_with_its_time_its_account_and_its_pod() {
    let mut bench = Bench::new();
    account(&mut bench, "robot");
    let an_hour = token(&mut bench, "robot", &json!({}));
    let short = token(&mut bench, "robot", &json!({"expirationSeconds": 600}));
    bench.pass(599);
    assert!(is_good(&bench, &short));
    bench.pass(1);
    assert!(!is_good(&bench, &short) && is_good(&bench, &an_hour));

    pod_of(&mut bench, "web", "robot");
    let of_pod = token(&mut bench, "robot", &bound_to("web"));
    assert!(is_good(&bench, &of_pod));
    bench.call("DELETE", &format!("{PODS}/web?gracePeriodSeconds=0"), "").ok();
    assert!(!is_good(&bench, &of_pod), "the pod is gone");
    pod_of(&mut bench, "web", "robot");
    assert!(!is_good(&bench, &of_pod), "another pod of that name is another pod");

    let again = token(&mut bench, "robot", &bound_to("web"));
    bench.call("DELETE", &format!("{PODS}/web?gracePeriodSeconds=30"), "").ok();
    bench.pass(89);
    assert!(is_good(&bench, &again), "while it ends, and a little longer");
    bench.pass(3);
    assert!(!is_good(&bench, &again), "a pod that should be gone");

    bench.call("DELETE", &format!("{ACCOUNTS}/robot"), "").ok();
    assert!(!is_good(&bench, &an_hour));
    account(&mut bench, "robot");
    assert!(!is_good(&bench, &an_hour), "another account of that name is another account");
}

#[test]
fn a_token_is_for_its_audience() {
    let mut bench = Bench::new();
    let vault = token(&mut bench, "default", &json!({"audiences": ["vault"]}));
    assert!(!is_good(&bench, &vault));
    let review = |bench: &mut Bench, audiences: Value| {
        bench.create(REVIEWS, json!({"spec": {"token": vault, "audiences": audiences}}))["status"]
            .clone()
    };
    let known = review(&mut bench, json!(["vault", "other"]));
    assert_eq!(known["authenticated"], json!(true));
    assert_eq!(known["audiences"], json!(["vault"]));
    assert_eq!(known["user"]["username"], "system:serviceaccount:default:default");
    let unknown = review(&mut bench, json!([]));
    assert_eq!(unknown["authenticated"], Value::Null, "{unknown}");
    assert!(unknown["error"].as_str().unwrap().contains("audiences"), "{unknown}");
    let nonsense = bench.create(REVIEWS, json!({"spec": {"token": "x.y.z"}}));
    assert_eq!(nonsense["status"]["error"], "invalid bearer token");
}

#[test]
fn what_makes_no_sense_is_refused_in_upstreams_words() {
    let mut bench = Bench::new();
    account(&mut bench, "robot");
    pod_of(&mut bench, "web", "default");
    let secret = json!({"metadata": {"name": "keys"}});
    bench.create("/api/v1/namespaces/default/secrets", secret);
    let of = |kind: &str, name: &str, uid: &str| json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid}});
    for (account, spec, refusal) in [
        (
            "robot",
            json!({"expirationSeconds": 10}),
            "422 Invalid: TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 10: may not specify a duration less than 10 minutes",
        ),
        ("nobody", json!({}), "404 NotFound: serviceaccounts \"nobody\" not found"),
        (
            "robot",
            of("Pod", "web", ""),
            "400 BadRequest: cannot bind token for serviceaccount \"robot\" to pod running with different serviceaccount name.",
        ),
        ("robot", of("Pod", "none", ""), "404 NotFound: pods \"none\" not found"),
        (
            "robot",
            of("Service", "x", ""),
            "400 BadRequest: cannot bind token to object of type /v1, Kind=Service",
        ),
        (
            "robot",
            of("Secret", "keys", "u-0"),
            "409 Conflict: Operation cannot be fulfilled on Secret \"keys\": the UID in the bound object reference (u-0) does not match the UID in record. The object might have been deleted and then recreated",
        ),
    ] {
        assert_eq!(ask(&mut bench, account, &spec).text(), refusal);
    }
    assert_eq!(ask(&mut bench, "robot", &of("Secret", "keys", "")).code(), 201);
}

fn identity_of(pod: &Value) -> Option<(Value, Value)> {
    let volumes = pod["spec"]["volumes"].as_array()?;
    let is_it =
        |v: &&Value| v["name"].as_str().is_some_and(|name| name.starts_with("kube-api-access-"));
    let volume = volumes.iter().find(is_it)?;
    Some((volume.clone(), pod["spec"]["containers"][0]["volumeMounts"].clone()))
}

#[test]
fn a_new_pod_gets_its_accounts_identity_unless_it_or_the_account_does_not_want_it() {
    let mut bench = Bench::new();
    let mut shy = json!({"metadata": {"name": "shy"}, "automountServiceAccountToken": false});
    bench.create(ACCOUNTS, shy.take());
    let (volume, mounts) = identity_of(&bench.create(PODS, pod("plain"))).unwrap();
    assert_eq!(
        volume["projected"],
        json!({"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
        ]})
    );
    assert_eq!(
        mounts,
        json!([{"name": volume["name"], "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true}])
    );
    // (account, the pod's own wish, whether it has it)
    for (number, (account, wish, has)) in
        [("default", json!(false), false), ("shy", Value::Null, false), ("shy", json!(true), true)]
            .into_iter()
            .enumerate()
    {
        let mut pod = pod(&format!("p{number}"));
        pod["spec"]["serviceAccountName"] = json!(account);
        pod["spec"]["automountServiceAccountToken"] = wish;
        assert_eq!(identity_of(&bench.create(PODS, pod)).is_some(), has, "case {number}");
    }
    let mut taken = pod("taken");
    taken["spec"]["volumes"] = json!([{"name": "own", "emptyDir": {}}]);
    let mount =
        json!([{"name": "own", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]);
    taken["spec"]["containers"][0]["volumeMounts"] = mount;
    assert!(identity_of(&bench.create(PODS, taken)).is_none(), "its own mount stays");
    let mut nobody = pod("nobody");
    nobody["spec"]["serviceAccountName"] = json!("absent");
    assert_eq!(
        bench.call("POST", PODS, &nobody.to_string()).text(),
        "403 Forbidden: pods \"nobody\" is forbidden: error looking up service account default/absent: serviceaccount \"absent\" not found"
    );
}

/// Upstream: `--service-account-max-token-expiration`. A stolen token must end some day.
#[test]
fn a_token_is_good_for_a_year_at_most_or_as_long_as_the_server_says() {
    let mut bench = Bench::new();
    account(&mut bench, "robot");
    let asked = json!({"expirationSeconds": 4_294_967_296_u64});
    let answer = ask(&mut bench, "robot", &asked);
    assert_eq!(
        answer.0.warnings,
        ["requested expiration of 4294967296 seconds shortened to 31536000 seconds"]
    );
    let made = answer.ok();
    assert_eq!(made["spec"]["expirationSeconds"], 31_536_000);
    assert_eq!(made["status"]["expirationTimestamp"], "2027-11-18T11:06:40Z");
    let text = made["status"]["token"].as_str().unwrap();
    bench.pass(31_535_999);
    assert!(is_good(&bench, text));
    bench.pass(1);
    assert!(!is_good(&bench, text));
    bench.api.set_token_seconds_max(3600);
    for (seconds, given, warnings) in [(600, 600, 0), (3600, 3600, 0), (3601, 3600, 1)] {
        let answer = ask(&mut bench, "robot", &json!({"expirationSeconds": seconds}));
        assert_eq!(answer.0.warnings.len(), warnings, "{seconds}");
        assert_eq!(answer.ok()["spec"]["expirationSeconds"], given);
    }
}
