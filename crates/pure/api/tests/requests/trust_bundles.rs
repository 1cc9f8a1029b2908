//! ClusterTrustBundles: what they may say, who may write them, and that of the server itself.

use expect_test::expect;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rekindle_kinds::identity::UserInfo;
use serde_json::{Value, json};

use crate::harness::{Bench, Reply, texts};

const BUNDLES: &str = "/apis/certificates.k8s.io/v1/clustertrustbundles";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const SIGNER: &str = "example.com/server-tls";
const SERVING: &str = "kubernetes.io/kube-apiserver-serving";

fn certificate(is_ca: IsCa) -> String {
    let mut params = CertificateParams::new(["example.com".to_owned()]).unwrap();
    params.is_ca = is_ca;
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
}

fn authority() -> String {
    certificate(IsCa::Ca(BasicConstraints::Unconstrained))
}

fn bundle(name: &str, signer: Option<&str>, pem: &str) -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "ClusterTrustBundle",
        "metadata": {"name": name},
        "spec": {"signerName": signer, "trustBundle": pem},
    })
}

fn create(bench: &mut Bench, object: &Value) -> Reply {
    bench.call("POST", BUNDLES, &object.to_string())
}

fn published(bench: &mut Bench) -> Value {
    let of_signer = format!("{BUNDLES}?fieldSelector=spec.signerName%3D{SERVING}");
    let list = bench.get(&of_signer);
    let [only] = list["items"].as_array().unwrap().as_slice() else { panic!("{list}") };
    only.clone()
}

#[test]
fn mistakes_are_named_as_upstream_names_them() {
    let mut bench = Bench::new();
    let (one, leaf) = (authority(), certificate(IsCa::NoCa));
    let key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let headed = one.replacen("-----\n", "-----\nOwner: me\n\n", 1);
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let replies = [
        bundle("example.com:server-tls:a", None, &one),
        bundle("a", Some(SIGNER), &one),
        bundle("example.com:server-tls:A", Some(SIGNER), &one),
        bundle("no-signer:a", Some("no-signer"), &one),
        bundle("a", None, ""),
        bundle("a", None, "no block at all"),
        bundle("a", None, &format!("{one}{key}{leaf}{headed}{broken}")),
        bundle("a", None, &format!("{one}in between\n{one}")),
        bundle("a", None, &"x".repeat(1024 * 1024 + 1)),
    ]
    .map(|object| create(&mut bench, &object));
    expect![[r#"
        422 Invalid: ClusterTrustBundle.certificates.k8s.io "example.com:server-tls:a" is invalid: metadata.name: Invalid value: "example.com:server-tls:a": ClusterTrustBundle without signer name must not have ":" in its name
        422 Invalid: ClusterTrustBundle.certificates.k8s.io "a" is invalid: metadata.name: Invalid value: "a": ClusterTrustBundle for signerName example.com/server-tls must be named with prefix example.com:server-tls:
        422 Invalid: ClusterTrustBundle.certificates.k8s.io "example.com:server-tls:A" is invalid: metadata.name: Invalid value: "example.com:server-tls:A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        422 Invalid: ClusterTrustBundle.certificates.k8s.io "no-signer:a" is invalid: spec.signerName: Invalid value: "no-signer": must be a fully qualified domain and path of the form 'example.com/signer-name'
        422 Invalid: ClusterTrustBundle.certificates.k8s.io "a" is invalid: spec.trustBundle: Invalid value: "<value omitted>": at least one trust anchor must be provided
        422 Invalid: ClusterTrustBundle.certificates.k8s.io "a" is invalid: spec.trustBundle: Invalid value: "<value omitted>": at least one trust anchor must be provided
        422 Invalid: ClusterTrustBundle.certificates.k8s.io "a" is invalid: [spec.trustBundle: Invalid value: "<value omitted>": entry 1 has bad block type: PRIVATE KEY, spec.trustBundle: Invalid value: "<value omitted>": entry 2 does not have the CA bit set, spec.trustBundle: Invalid value: "<value omitted>": entry 3 has PEM block headers, spec.trustBundle: Invalid value: "<value omitted>": entry 4 does not parse as X.509]
        422 Invalid: ClusterTrustBundle.certificates.k8s.io "a" is invalid: spec.trustBundle: Invalid value: "<value omitted>": duplicate trust anchor (indices [0 1])
        422 Invalid: ClusterTrustBundle.certificates.k8s.io "a" is invalid: spec.trustBundle: Too long: may not be more than 1048576 bytes"#]]
    .assert_eq(&texts(replies.into()));
    let right = format!("a comment\n{one}{}", authority());
    create(&mut bench, &bundle("a", None, &right)).ok();
}

#[test]
fn a_change_is_compared_with_what_was_there() {
    let mut bench = Bench::new();
    let name = "example.com:server-tls:a";
    let made = create(&mut bench, &bundle(name, Some(SIGNER), &authority())).ok();
    let target = format!("{BUNDLES}/{name}");
    let put = |bench: &mut Bench, change: &dyn Fn(&mut Value)| {
        let mut changed = made.clone();
        change(&mut changed);
        bench.call("PUT", &target, &changed.to_string())
    };
    let replies = vec![
        put(&mut bench, &|object| object["spec"]["signerName"] = json!("example.com/other")),
        put(&mut bench, &|object| object["spec"]["trustBundle"] = json!("nothing")),
        put(&mut bench, &|object| object["metadata"]["resourceVersion"] = Value::Null),
    ];
    expect![[r#"
        422 Invalid: ClusterTrustBundle.certificates.k8s.io "example.com:server-tls:a" is invalid: [metadata.name: Invalid value: "example.com:server-tls:a": ClusterTrustBundle for signerName example.com/other must be named with prefix example.com:other:, spec.signerName: Invalid value: "example.com/other": field is immutable]
        422 Invalid: ClusterTrustBundle.certificates.k8s.io "example.com:server-tls:a" is invalid: spec.trustBundle: Invalid value: "<value omitted>": at least one trust anchor must be provided
        422 Invalid: clustertrustbundles.certificates.k8s.io "example.com:server-tls:a" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"#]].assert_eq(&texts(replies));
    put(&mut bench, &|object| object["spec"]["trustBundle"] = json!(authority())).ok();
}

#[test]
fn who_writes_for_a_signer_needs_the_right_to_attest() {
    let mut bench = Bench::new();
    let group = ["certificates.k8s.io"];
    bench.create(
        &format!("{RBAC}/clusterroles"),
        json!({"metadata": {"name": "writer"}, "rules": [
            {"verbs": ["create", "update", "patch"], "apiGroups": group, "resources": ["clustertrustbundles"]},
            {"verbs": ["attest"], "apiGroups": group, "resources": ["signers"], "resourceNames": ["example.com/*"]},
        ]}),
    );
    bench.create(
        &format!("{RBAC}/clusterrolebindings"),
        json!({
            "metadata": {"name": "writer"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "writer"},
            "subjects": [{"kind": "User", "name": "ann"}],
        }),
    );
    let other = "other.org:ca:a";
    create(&mut bench, &bundle(other, Some("other.org/ca"), &authority())).ok();
    let ann = UserInfo::new("ann", []);
    let replies = bench.as_user(ann, |bench| {
        create(bench, &bundle("mine", None, &authority())).ok();
        create(bench, &bundle("example.com:server-tls:a", Some(SIGNER), &authority())).ok();
        // what ends an object, and nothing else, is written by garbage collectors
        let target = format!("{BUNDLES}/{other}");
        let owned = r#"{"metadata":{"finalizers":["example.com/x"]}}"#;
        bench.patch("merge-patch+json", &target, owned).ok();
        let labelled = r#"{"metadata":{"labels":{"a":"b"}}}"#;
        let changed = json!({"spec": {"trustBundle": authority()}}).to_string();
        vec![
            create(bench, &bundle("other.org:ca:b", Some("other.org/ca"), &authority())),
            bench.patch("merge-patch+json", &target, labelled),
            bench.patch("merge-patch+json", &target, &changed),
        ]
    });
    expect![[r#"
        403 Forbidden: clustertrustbundles.certificates.k8s.io "other.org:ca:b" is forbidden: user not permitted to attest for signerName "other.org/ca"
        403 Forbidden: clustertrustbundles.certificates.k8s.io "other.org:ca:a" is forbidden: user not permitted to attest for signerName "other.org/ca"
        403 Forbidden: clustertrustbundles.certificates.k8s.io "other.org:ca:a" is forbidden: user not permitted to attest for signerName "other.org/ca""#]].assert_eq(&texts(replies));
}

#[test]
fn the_server_publishes_its_authority() {
    let mut bench = Bench::new();
    let first = published(&mut bench);
    assert_eq!(first["spec"], json!({"signerName": SERVING, "trustBundle": "CA\n"}));
    let name = first["metadata"]["name"].as_str().unwrap().to_owned();
    // the SHA-256 of "CA\n" begins so
    assert_eq!(name, "kubernetes.io:kube-apiserver-serving:7599e4a47f7516347597e455");
    let target = format!("{BUNDLES}/{name}");

    let forged = json!({"spec": {"trustBundle": authority()}}).to_string();
    let answer = bench.patch("merge-patch+json", &target, &forged).ok();
    assert_eq!(answer["spec"], first["spec"]);

    bench.call("DELETE", &target, "").ok();
    let second = published(&mut bench);
    assert_eq!(second["spec"], first["spec"]);
    assert_ne!(second["metadata"]["uid"], first["metadata"]["uid"]);

    let another = bundle(&format!("{}:x", SERVING.replace('/', ":")), Some(SERVING), &authority());
    let refused = create(&mut bench, &another);
    expect![[r#"403 Forbidden: clustertrustbundles.certificates.k8s.io "kubernetes.io:kube-apiserver-serving:x" is forbidden: bundles of kubernetes.io/kube-apiserver-serving are published by the API server alone"#]].assert_eq(&texts(vec![refused]));

    // one that an earlier CA left goes with the next start
    drop(bench.api.bootstrap(crate::harness::START).unwrap());
    assert_eq!(published(&mut bench)["metadata"]["uid"], second["metadata"]["uid"]);
}

/// Pods read them by their service accounts, as upstream.
#[test]
fn service_accounts_may_read_them() {
    let mut bench = Bench::new();
    let account =
        UserInfo::new("system:serviceaccount:default:x", ["system:serviceaccounts".to_owned()]);
    bench.as_user(account, |bench| {
        assert_eq!(bench.call("GET", BUNDLES, "").code(), 200);
        assert_eq!(create(bench, &bundle("a", None, &authority())).code(), 403);
    });
    let source = |source: Value| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
            "containers": [{"name": "c", "image": "localhost/demo"}],
            "volumes": [{"name": "v", "projected": {"sources": [{"clusterTrustBundle": source}]}}],
        }})
    };
    let pods = "/api/v1/namespaces/default/pods?dryRun=All";
    let replies = [
        json!({"path": "ca.pem"}),
        json!({"path": "ca.pem", "name": "a", "signerName": SIGNER}),
        json!({"path": "ca.pem", "name": ""}),
        json!({"path": "ca.pem", "name": "example.com:server-tls:A"}),
        json!({"path": "ca.pem", "name": "a", "labelSelector": {}}),
        json!({"path": "ca.pem", "signerName": "x"}),
        json!({"path": "../ca.pem", "name": "a"}),
        json!({"path": "", "name": "a"}),
        json!({"path": "ca.pem", "signerName": SIGNER, "labelSelector": {"matchExpressions": [
            {"key": "a", "operator": "Is"}]}}),
    ]
    .map(|given| bench.call("POST", pods, &source(given).to_string()));
    expect![[r#"
        422 Invalid: Pod "p" is invalid: spec.volumes[0].projected.sources[0].clusterTrustBundlePEM: Required value: either name or signerName must be specified
        422 Invalid: Pod "p" is invalid: spec.volumes[0].projected.sources[0].clusterTrustBundlePEM: Invalid value: {"name":"a","path":"ca.pem","signerName":"example.com/server-tls"}: only one of name and signerName may be used
        422 Invalid: Pod "p" is invalid: [spec.volumes[0].projected.sources[0].clusterTrustBundlePEM.name: Required value: must be a valid object name, spec.volumes[0].projected.sources[0].clusterTrustBundlePEM.name: Invalid value: "": not a valid clustertrustbundlename: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')]
        422 Invalid: Pod "p" is invalid: spec.volumes[0].projected.sources[0].clusterTrustBundlePEM.name: Invalid value: "example.com:server-tls:A": not a valid clustertrustbundlename: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        422 Invalid: Pod "p" is invalid: spec.volumes[0].projected.sources[0].clusterTrustBundlePEM.labelSelector: Invalid value: {}: labelSelector must be unset if name is specified
        422 Invalid: Pod "p" is invalid: spec.volumes[0].projected.sources[0].clusterTrustBundlePEM.signerName: Invalid value: "x": must be a fully qualified domain and path of the form 'example.com/signer-name'
        422 Invalid: Pod "p" is invalid: spec.volumes[0].projected.sources[0].clusterTrustBundlePEM.path: Invalid value: "../ca.pem": must not contain '..'
        422 Invalid: Pod "p" is invalid: spec.volumes[0].projected.sources[0].clusterTrustBundlePEM.path: Required value
        422 Invalid: Pod "p" is invalid: spec.volumes[0].projected.sources[0].clusterTrustBundlePEM.labelSelector.matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator"#]].assert_eq(&texts(replies.into()));
    for right in [
        json!({"path": "ca.pem", "name": "example.com:server-tls:a"}),
        json!({"path": "ca.pem", "signerName": SIGNER, "labelSelector": {}, "optional": true}),
    ] {
        bench.call("POST", pods, &source(right).to_string()).ok();
    }
}
