//! Certificates from CertificateSigningRequests, with the real kubectl: approved, denied, refused.

use std::path::PathBuf;
use std::process::Output;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rekindle_testkit::{Engine, text};
use serde_json::json;

const CLIENT: &str = "kubernetes.io/kube-apiserver-client";

/// A user's key, and what becomes of it.
struct Applicant {
    name: &'static str,
    key: KeyPair,
    folder: tempfile::TempDir,
}

impl Applicant {
    fn new(name: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        std::fs::write(folder.path().join("key"), key.serialize_pem()).unwrap();
        Self { name, key, folder }
    }

    /// The manifest of a request of the user's.
    fn request(&self, organization: &str, usages: &[&str]) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, self.name);
        params.distinguished_name.push(DnType::OrganizationName, organization);
        let pem = params.serialize_request(&self.key).unwrap().pem().unwrap();
        json!({
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": self.name},
            "spec": {
                "request": STANDARD.encode(pem),
                "signerName": CLIENT,
                "usages": usages,
                "expirationSeconds": 3600,
            },
        })
        .to_string()
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// Waits for the certificate and keeps it.
    #[track_caller]
    fn take_certificate(&self, engine: &Engine) {
        let csr = format!("csr/{}", self.name);
        engine.kubectl(&["wait", &csr, "--for=jsonpath={.status.certificate}", "--timeout=60s"]);
        let certificate = engine.kubectl(&["get", &csr, "-o", "jsonpath={.status.certificate}"]);
        std::fs::write(self.path("certificate"), STANDARD.decode(certificate).unwrap()).unwrap();
    }

    /// Runs kubectl with nothing but the certificate and its key.
    fn kubectl(&self, engine: &Engine, arguments: &[&str]) -> Output {
        engine
            .kubectl_command(arguments)
            .env("KUBECONFIG", "/nowhere")
            .args(["--server", &engine.api])
            .arg("--certificate-authority")
            .arg(engine.data_dir().join("pki/ca.crt"))
            .arg("--client-certificate")
            .arg(self.path("certificate"))
            .arg("--client-key")
            .arg(self.path("key"))
            .output()
            .unwrap()
    }
}

#[test]
fn an_approved_request_gets_a_certificate_that_its_owner_acts_with() {
    let mut engine = Engine::start();
    let ann = Applicant::new("ann");
    engine.apply(&ann.request("dev", &["client auth"]));
    let shown = engine.kubectl(&["get", "csr", "ann"]);
    assert!(shown.contains("kubernetes-admin") && shown.contains("Pending"), "{shown}");
    engine.kubectl(&["certificate", "approve", "ann"]);
    ann.take_certificate(&engine);
    let shown = engine.kubectl(&["get", "csr", "ann"]);
    assert!(shown.contains("Approved,Issued"), "{shown}");

    let who = ann.kubectl(&engine, &["auth", "whoami", "-o", "jsonpath={.status.userInfo}"]);
    let who = (text(&who.stdout), text(&who.stderr));
    assert!(who.0.contains(r#""username":"ann""#), "{who:?}");
    assert!(who.0.contains(r#""groups":["dev","system:authenticated"]"#), "{who:?}");

    // ann may create requests and write decisions, but has no right over the signer
    let rules = ["--verb=create,get,update,patch", "--resource=certificatesigningrequests"];
    engine.kubectl(&[&["create", "clusterrole", "asks"], &rules[..]].concat());
    let rules = ["--verb=update,patch", "--resource=certificatesigningrequests/approval"];
    engine.kubectl(&[&["create", "clusterrole", "decides"], &rules[..]].concat());
    for role in ["asks", "decides"] {
        let role_flag = format!("--clusterrole={role}");
        engine.kubectl(&["create", "clusterrolebinding", role, &role_flag, "--group=dev"]);
    }
    let bob = Applicant::new("bob");
    engine.apply(&bob.request("dev", &["client auth"]));
    let refused = ann.kubectl(&engine, &["certificate", "approve", "bob"]);
    let why = text(&refused.stderr);
    assert!(!refused.status.success());
    assert!(why.contains("user not permitted to approve requests with signerName"), "{why}");
    engine.kubectl(&[
        "create",
        "clusterrolebinding",
        "approves",
        "--clusterrole=system:certificates.k8s.io:kube-apiserver-client-approver",
        "--user=ann",
    ]);
    let allowed = ann.kubectl(&engine, &["certificate", "approve", "bob"]);
    assert!(allowed.status.success(), "{}", text(&allowed.stderr));
    bob.take_certificate(&engine);

    // what was approved while the engine was gone is signed when it is back
    let eve = Applicant::new("eve");
    engine.apply(&eve.request("dev", &["client auth"]));
    engine.kubectl(&["certificate", "approve", "eve"]);
    engine.kill();
    engine.launch(&[]);
    eve.take_certificate(&engine);
}

#[test]
fn a_request_is_denied_fails_or_is_refused() {
    let engine = Engine::start();
    let ann = Applicant::new("ann");
    engine.apply(&ann.request("dev", &["client auth"]));
    engine.kubectl(&["certificate", "deny", "ann"]);
    let shown = engine.kubectl(&["get", "csr", "ann"]);
    assert!(shown.contains("Denied"), "{shown}");
    let why = engine.kubectl_fails(&["certificate", "approve", "ann"], "");
    assert!(why.contains("is already Denied"), "{why}");

    // the signer does not sign certificates of servers
    let bob = Applicant::new("bob");
    engine.apply(&bob.request("dev", &["client auth", "server auth"]));
    engine.kubectl(&["certificate", "approve", "bob"]);
    engine.kubectl(&["wait", "csr/bob", "--for=condition=Failed", "--timeout=60s"]);
    let failed = engine.get("csr/bob");
    assert_eq!(failed["status"]["certificate"], serde_json::Value::Null);
    assert_eq!(failed["status"]["conditions"][1]["reason"], "SignerValidationFailure");

    let why = engine.kubectl_fails(
        &["create", "-f", "-"],
        &Applicant::new("eve").request("system:masters", &["client auth"]),
    );
    assert!(why.contains("signer with system:masters group is not allowed"), "{why}");
}
