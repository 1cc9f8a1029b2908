//! CertificateSigningRequests: who asks, who approves, who signs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use expect_test::expect;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rekindle_kinds::identity::UserInfo;
use serde_json::{Value, json};

use crate::harness::{Bench, Reply, texts};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";

fn pem(organization: &str) -> Vec<u8> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "ann");
    params.distinguished_name.push(DnType::OrganizationName, organization);
    let request = params.serialize_request(&KeyPair::generate().unwrap()).unwrap();
    request.pem().unwrap().into_bytes()
}

fn request(name: &str, signer: &str, pem: &[u8]) -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": STANDARD.encode(pem),
            "signerName": signer,
            "usages": ["client auth"],
            "expirationSeconds": 3600,
            "username": "system:admin",
            "groups": ["system:masters"],
        },
        "status": {"certificate": "eA=="},
    })
}

fn ann() -> UserInfo {
    let mut ann = UserInfo::new("ann", ["dev".to_owned()]);
    ann.uid = Some("u-1".to_owned());
    ann.extra.insert("scopes".to_owned(), vec!["a".to_owned(), "b".to_owned()]);
    ann
}

fn approver() -> UserInfo {
    UserInfo::new("bob", [])
}

/// Lets bob use the verb on these signers, write approvals and status, and ann create requests.
fn grant(bench: &mut Bench, verb: &str, signers: &[&str]) {
    let group = ["certificates.k8s.io"];
    let parts = ["certificatesigningrequests/approval", "certificatesigningrequests/status"];
    bench.create(
        &format!("{RBAC}/clusterroles"),
        json!({"metadata": {"name": verb}, "rules": [
            {"verbs": [verb], "apiGroups": group, "resources": ["signers"], "resourceNames": signers},
            {"verbs": ["update", "patch"], "apiGroups": group, "resources": parts},
            {"verbs": ["create"], "apiGroups": group, "resources": ["certificatesigningrequests"]},
        ]}),
    );
    let subjects = ["bob", "ann"].map(|name| json!({"kind": "User", "name": name}));
    bench.create(
        &format!("{RBAC}/clusterrolebindings"),
        json!({
            "metadata": {"name": verb},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": verb},
            "subjects": subjects,
        }),
    );
}

fn with_condition(mut object: Value, type_: &str) -> Value {
    let condition = json!({"type": type_, "status": "True", "reason": "Test", "message": "m"});
    match object["status"]["conditions"].as_array_mut() {
        Some(conditions) => conditions.push(condition),
        None => object["status"]["conditions"] = json!([condition]),
    }
    object
}

fn put(bench: &mut Bench, part: &str, object: &Value) -> Reply {
    let name = object["metadata"]["name"].as_str().unwrap();
    let target = format!("{REQUESTS}/{name}{part}");
    bench.call("PUT", &target, &object.to_string())
}

#[test]
fn a_request_names_who_made_it_whatever_it_says() {
    let mut bench = Bench::new();
    grant(&mut bench, "approve", &[CLIENT]);
    let made =
        bench.as_user(ann(), |bench| bench.create(REQUESTS, request("one", CLIENT, &pem("dev"))));
    let spec = &made["spec"];
    assert_eq!(
        (&spec["username"], &spec["uid"], &spec["groups"], &spec["extra"]),
        (
            &json!("ann"),
            &json!("u-1"),
            &json!(["dev", "system:authenticated"]),
            &json!({"scopes": ["a", "b"]})
        )
    );
    assert_eq!(made["status"], json!({}));
    let mut changed = made.clone();
    changed["spec"]["signerName"] = json!("example.com/other");
    changed["status"] = json!({"certificate": "eA=="});
    let kept = put(&mut bench, "", &changed).ok();
    assert_eq!((&kept["spec"], &kept["status"]), (&made["spec"], &made["status"]));
}

#[test]
fn approving_is_a_right_over_a_signer_or_its_domain() {
    for (signers, code) in [
        (vec![CLIENT], 200),
        (vec!["kubernetes.io/*"], 200),
        (vec!["kubernetes.io/kubelet-serving", "example.com/*"], 403),
    ] {
        let mut bench = Bench::new();
        grant(&mut bench, "approve", &signers);
        let made = bench.create(REQUESTS, request("one", CLIENT, &pem("dev")));
        let approved = with_condition(made, "Approved");
        let reply = bench.as_user(approver(), |bench| put(bench, "/approval", &approved));
        assert_eq!(reply.code(), code, "{signers:?}: {}", reply.text());
    }
}

#[test]
fn who_may_not_approve_or_sign_is_refused() {
    let mut bench = Bench::new();
    grant(&mut bench, "other", &[CLIENT]);
    let made = bench.create(REQUESTS, request("one", CLIENT, &pem("dev")));
    let approved = with_condition(made.clone(), "Approved");
    let failed = with_condition(made.clone(), "Failed");
    let replies = bench.as_user(approver(), |bench| {
        vec![
            put(bench, "/approval", &approved),
            put(bench, "/status", &failed),
            put(bench, "/status", &made),
        ]
    });
    expect![[r#"
        403 Forbidden: certificatesigningrequests.certificates.k8s.io "one" is forbidden: user not permitted to approve requests with signerName "kubernetes.io/kube-apiserver-client"
        403 Forbidden: certificatesigningrequests.certificates.k8s.io "one" is forbidden: user not permitted to sign requests with signerName "kubernetes.io/kube-apiserver-client"
        200 : "#]]
    .assert_eq(&texts(replies));
}

#[test]
fn a_decision_stands_and_a_certificate_is_written_once() {
    let mut bench = Bench::new();
    let made = bench.create(REQUESTS, request("one", "example.com/mine", &pem("dev")));
    let mut replies = vec![put(&mut bench, "/status", &with_condition(made.clone(), "Approved"))];
    let approved = put(&mut bench, "/approval", &with_condition(made.clone(), "Approved")).ok();
    let times = &approved["status"]["conditions"][0];
    assert_eq!(times["lastUpdateTime"], "2026-11-18T11:06:40Z");
    assert_eq!(times["lastTransitionTime"], "2026-11-18T11:06:40Z");
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut object = approved.clone();
        object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        change(&mut object);
        object
    };
    let certificate = rcgen::generate_simple_self_signed(["a".to_owned()]).unwrap().cert.pem();
    let issued = changed(&|object| {
        object["status"]["certificate"] = json!(STANDARD.encode(&certificate));
    });
    replies.extend([
        put(&mut bench, "/approval", &with_condition(changed(&|_| {}), "Denied")),
        put(&mut bench, "/approval", &changed(&|object| object["status"] = json!({}))),
        put(&mut bench, "/status", &changed(&|object| object["status"] = json!({}))),
        put(
            &mut bench,
            "/status",
            &changed(&|object| object["status"]["conditions"][0]["message"] = json!("other")),
        ),
        put(
            &mut bench,
            "/status",
            &changed(&|object| object["status"]["conditions"][0]["status"] = json!("False")),
        ),
        put(
            &mut bench,
            "/status",
            &changed(&|object| object["status"]["certificate"] = json!("eA==")),
        ),
        put(&mut bench, "/approval", &issued),
    ]);
    expect![[r#"
        422 Invalid: CertificateSigningRequest.certificates.k8s.io "one" is invalid: status.conditions: Forbidden: updates may not add a condition of type "Approved"
        422 Invalid: CertificateSigningRequest.certificates.k8s.io "one" is invalid: status.conditions[1].type: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive
        422 Invalid: CertificateSigningRequest.certificates.k8s.io "one" is invalid: status.conditions: Forbidden: updates may not remove a condition of type "Approved"
        422 Invalid: CertificateSigningRequest.certificates.k8s.io "one" is invalid: status.conditions: Forbidden: updates may not remove a condition of type "Approved"
        422 Invalid: CertificateSigningRequest.certificates.k8s.io "one" is invalid: status.conditions: Forbidden: updates may not modify a condition of type "Approved"
        422 Invalid: CertificateSigningRequest.certificates.k8s.io "one" is invalid: [status.conditions[0].status: Unsupported value: "False": supported values: "True", status.conditions: Forbidden: updates may not modify a condition of type "Approved"]
        422 Invalid: CertificateSigningRequest.certificates.k8s.io "one" is invalid: status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block
        200 : "#]].assert_eq(&texts(replies));
    let stored = bench.get(&format!("{REQUESTS}/one"));
    assert_eq!(stored["status"]["certificate"], Value::Null, "an approver writes no certificate");
    put(&mut bench, "/status", &issued).ok();
    let reissued = changed(&|object| {
        let twice = format!("{certificate}{certificate}");
        object["status"]["certificate"] = json!(STANDARD.encode(twice));
    });
    let reply = put(&mut bench, "/status", &reissued).text();
    expect![[r#"422 Invalid: CertificateSigningRequest.certificates.k8s.io "one" is invalid: status.certificate: Forbidden: updates may not modify existing certificate content"#]].assert_eq(&reply);
}

#[test]
fn no_request_makes_an_administrator_and_none_is_for_the_key_of_another() {
    let mut bench = Bench::new();
    let masters = pem("system:masters");
    let reply = bench.call("POST", REQUESTS, &request("one", CLIENT, &masters).to_string());
    expect![[r#"403 Forbidden: certificatesigningrequests.certificates.k8s.io "one" is forbidden: use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"#]]
        .assert_eq(&reply.text());
    // another signer may do what it wants with that group
    bench.create(REQUESTS, request("two", "example.com/mine", &masters));
    let mut forged = ::pem::parse(pem("dev")).unwrap().into_contents();
    // the last bytes are the signature; a bench takes all that do not end with zeros
    let end = forged.len() - 8;
    forged[end..].fill(0);
    let forged = ::pem::encode(&::pem::Pem::new("CERTIFICATE REQUEST", forged));
    let forged = request("one", CLIENT, forged.as_bytes());
    let reply = bench.call("POST", REQUESTS, &forged.to_string());
    assert_eq!(reply.code(), 422);
    assert!(reply.text().contains("was not made with the private key"), "{}", reply.text());
}

#[test]
fn names_of_signers_and_usages_are_checked() {
    let mut bench = Bench::new();
    let mut replies = Vec::new();
    for (signer, usages) in [
        ("kubernetes.io/legacy-unknown", vec!["any"]),
        ("a/b/c", vec!["any"]),
        ("example/name", vec!["any"]),
        ("Example.com/name", vec!["any"]),
        ("example.com/na_me", vec!["any"]),
        ("example.com/name.b", vec!["any", "any"]),
    ] {
        let mut object = request("one", signer, &pem("dev"));
        object["spec"]["usages"] = json!(usages);
        replies.push(bench.call("POST", REQUESTS, &object.to_string()));
    }
    expect![[r#"
        422 Invalid: CertificateSigningRequest.certificates.k8s.io "one" is invalid: spec.signerName: Invalid value: "kubernetes.io/legacy-unknown": the legacy signerName is not allowed via this API version
        422 Invalid: CertificateSigningRequest.certificates.k8s.io "one" is invalid: spec.signerName: Invalid value: "a/b/c": must be a fully qualified domain and path of the form 'example.com/signer-name'
        422 Invalid: CertificateSigningRequest.certificates.k8s.io "one" is invalid: spec.signerName: Invalid value: "example": should be a domain with at least two segments separated by dots
        422 Invalid: CertificateSigningRequest.certificates.k8s.io "one" is invalid: spec.signerName: Invalid value: "Example.com": validating label "Example": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
        422 Invalid: CertificateSigningRequest.certificates.k8s.io "one" is invalid: spec.signerName: Invalid value: "na_me": validating label "na_me": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        422 Invalid: CertificateSigningRequest.certificates.k8s.io "one" is invalid: spec.usages[1]: Duplicate value: "any""#]].assert_eq(&texts(replies));
}

/// Upstream takes any name that is one segment of a path.
#[test]
fn a_request_may_have_any_name_that_is_a_segment_of_a_path() {
    let mut bench = Bench::new();
    let made = bench.create(REQUESTS, request("Ann's #1?", CLIENT, &pem("dev")));
    let approved = with_condition(made, "Approved").to_string();
    let reply = bench.call("PUT", &format!("{REQUESTS}/Ann's%20%231%3F/approval"), &approved);
    assert_eq!(reply.code(), 200, "{}", reply.text());
    let replies = ["a/b", "a%b", ".", ".."]
        .map(|name| bench.call("POST", REQUESTS, &request(name, CLIENT, &pem("dev")).to_string()));
    expect![[r#"
        422 Invalid: CertificateSigningRequest.certificates.k8s.io "a/b" is invalid: metadata.name: Invalid value: "a/b": may not contain '/'
        422 Invalid: CertificateSigningRequest.certificates.k8s.io "a%b" is invalid: metadata.name: Invalid value: "a%b": may not contain '%'
        422 Invalid: CertificateSigningRequest.certificates.k8s.io "." is invalid: metadata.name: Invalid value: ".": may not be '.'
        422 Invalid: CertificateSigningRequest.certificates.k8s.io ".." is invalid: metadata.name: Invalid value: "..": may not be '..'"#]].assert_eq(&texts(replies.into()));
}

#[test]
fn requests_are_shown_and_selected_as_upstream() {
    let mut bench = Bench::new();
    let first = bench.create(REQUESTS, request("one", CLIENT, &pem("dev")));
    bench.create(REQUESTS, request("two", "example.com/mine", &pem("dev")));
    put(&mut bench, "/approval", &with_condition(first, "Denied")).ok();
    let selected = format!("{REQUESTS}?fieldSelector=spec.signerName%3Dexample.com%2Fmine");
    let found = bench.get(&selected);
    assert_eq!(found["items"].as_array().unwrap().len(), 1);
    let mut table = bench.request("GET", REQUESTS, "");
    table.accept = "application/json;as=Table;v=v1;g=meta.k8s.io".to_owned();
    let table = Reply(bench.answer(&table)).ok();
    let rows = table["rows"].as_array().unwrap();
    let cells: Vec<String> = rows.iter().map(|row| row["cells"].to_string()).collect();
    expect![[r#"
        ["one","0s","kubernetes.io/kube-apiserver-client","tester","60m","Denied"]
        ["two","0s","example.com/mine","tester","60m","Pending"]"#]]
    .assert_eq(&cells.join("\n"));
}
