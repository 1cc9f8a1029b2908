//! What every namespace has: the certificate of the API's authority and the default ServiceAccount.
//! Upstream: the root CA publisher and the service accounts controller.

use serde_json::{Value, json};

use crate::harness::{Bench, CONFIG_MAPS, START};

const BUNDLE: &str = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt";
const ACCOUNT: &str = "/api/v1/namespaces/default/serviceaccounts/default";

fn content(bundle: &Value) -> (Value, bool) {
    let description = &bundle["metadata"]["annotations"]["kubernetes.io/description"];
    (bundle["data"].clone(), description.as_str().is_some_and(|text| !text.is_empty()))
}

/// Pods trust the bundle: a forged one would let its writer read their tokens.
#[test]
fn a_bundle_that_is_changed_by_hand_is_restored() {
    let mut bench = Bench::new();
    let right = (json!({"ca.crt": "CA\n"}), true);
    for patch in [
        json!({"data": {"ca.crt": "forged"}}),
        json!({"data": {"ca.crt": null}}),
        json!({"data": null}),
        json!({"data": {"more": "x"}}),
        json!({"metadata": {"annotations": {"kubernetes.io/description": null}}}),
        json!({"metadata": {"annotations": {"kubernetes.io/description": ""}}}),
        json!({"immutable": true, "data": {"ca.crt": "forged"}}),
    ] {
        let answer = bench.call("PATCH", BUNDLE, &patch.to_string()).ok();
        assert_eq!(content(&answer), right, "{patch}");
        assert_eq!(content(&bench.get(BUNDLE)), right, "{patch}");
    }
    // other ConfigMaps are their writers'
    let own = json!({"metadata": {"name": "kube-root-ca.crt.mine"}, "data": {"ca.crt": "mine"}});
    assert_eq!(bench.create(CONFIG_MAPS, own)["data"]["ca.crt"], "mine");
}

#[test]
fn what_is_deleted_is_made_again_however_it_goes() {
    let mut bench = Bench::new();
    for target in [BUNDLE, ACCOUNT] {
        let uid = |bench: &mut Bench| bench.get(target)["metadata"]["uid"].clone();
        let first = uid(&mut bench);
        bench.call("DELETE", target, "").ok();
        let second = uid(&mut bench);
        assert_ne!(first, second, "{target}");
        // a finalizer holds it until it is taken away
        bench
            .call(
                "PATCH",
                target,
                &json!({"metadata": {"finalizers": ["example.com/x"]}}).to_string(),
            )
            .ok();
        bench.call("DELETE", target, "").ok();
        assert_eq!(uid(&mut bench), second, "{target}");
        bench.call("PATCH", target, &json!({"metadata": {"finalizers": null}}).to_string()).ok();
        let third = uid(&mut bench);
        assert_ne!(second, third, "{target}");
        let collection = target.rsplit_once('/').unwrap().0;
        bench.call("DELETE", collection, "").ok();
        assert_ne!(uid(&mut bench), third, "{target}");
    }
    assert_eq!(content(&bench.get(BUNDLE)), (json!({"ca.crt": "CA\n"}), true));
}

/// The engine may end between a removal and what follows it.
#[test]
fn what_is_missing_is_made_at_the_next_start() {
    let mut bench = Bench::new();
    bench.create("/api/v1/namespaces", json!({"metadata": {"name": "shop"}}));
    let target = "/api/v1/namespaces/shop/configmaps/kube-root-ca.crt";
    let key = "/configmaps/shop/kube-root-ca.crt";
    let stored = bench.api.store().get(key).unwrap();
    let expect = rekindle_store::WritePrecondition::Revision(stored.revision);
    let removal = bench.api.store().write(key, expect, rekindle_store::Mutation::Delete).unwrap();
    bench.committer.commit_pending().unwrap();
    assert!(removal.try_get().unwrap().is_ok());
    assert_eq!(bench.call("GET", target, "").code(), 404);
    bench.api.bootstrap(START).unwrap();
    bench.committer.commit_pending().unwrap();
    assert_eq!(content(&bench.get(target)), (json!({"ca.crt": "CA\n"}), true));
}

/// Aggregated servers read there which proxy to trust.
#[test]
fn what_other_servers_trust_comes_back_when_it_is_changed_or_deleted() {
    let mut bench = Bench::new();
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let whole = bench.get(path)["data"].clone();
    assert_eq!(whole["client-ca-file"], "CA\n");
    assert_eq!(whole["requestheader-allowed-names"], "[\"front-proxy-client\"]");
    assert_eq!(whole["requestheader-client-ca-file"], "FRONT PROXY CA\n");
    assert_eq!(whole["requestheader-extra-headers-prefix"], "[\"X-Remote-Extra-\"]");
    assert_eq!(whole["requestheader-group-headers"], "[\"X-Remote-Group\"]");
    assert_eq!(whole["requestheader-uid-headers"], "[\"X-Remote-Uid\"]");
    assert_eq!(whole["requestheader-username-headers"], "[\"X-Remote-User\"]");
    bench.call("PATCH", path, r#"{"data": {"client-ca-file": "forged"}}"#).ok();
    assert_eq!(bench.get(path)["data"], whole);
    bench.call("DELETE", path, "").ok();
    assert_eq!(bench.get(path)["data"], whole);
    let reader = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles/extension-apiserver-authentication-reader";
    assert_eq!(
        bench.get(reader)["rules"],
        json!([{
            "apiGroups": [""], "resources": ["configmaps"],
            "resourceNames": ["extension-apiserver-authentication"],
            "verbs": ["get", "list", "watch"],
        }])
    );
}
