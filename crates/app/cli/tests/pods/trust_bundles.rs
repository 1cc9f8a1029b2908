//! ClusterTrustBundles in volumes: pods get the authorities that they may trust, and later ones.

use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rekindle_testkit::Engine;
use serde_json::json;

const SIGNER: &str = "example.com/mesh";

fn authority() -> String {
    let mut params = CertificateParams::new(["mesh.example.com".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem().replace('\r', "")
}

fn write(engine: &Engine, name: &str, stage: &str, pem: &str) {
    engine.apply(
        &json!({
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "ClusterTrustBundle",
            "metadata": {"name": format!("example.com:mesh:{name}"), "labels": {"stage": stage}},
            "spec": {"signerName": SIGNER, "trustBundle": pem},
        })
        .to_string(),
    );
}

fn pod(name: &str, sources: &serde_json::Value) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "one", "image": "localhost/host", "command": ["sleep", "1000000"],
                "volumeMounts": [{"name": "trust", "mountPath": "/trust"}],
            }],
            "volumes": [{"name": "trust", "projected": {"sources": sources}}],
        },
    })
    .to_string()
}

fn read(engine: &Engine, pod: &str, file: &str) -> String {
    engine.kubectl(&["exec", pod, "--", "cat", &format!("/trust/{file}")])
}

#[test]
fn a_pod_has_the_bundles_that_it_names_and_selects_and_their_changes() {
    let engine = Engine::start();
    let [first, second, next] = [(); 3].map(|()| authority());
    write(&engine, "first", "live", &format!("# of the mesh\n{first}"));
    write(&engine, "next", "next", &next);
    let live = json!({"matchLabels": {"stage": "live"}});
    let sources = json!([
        {"clusterTrustBundle": {"name": "example.com:mesh:first", "path": "named.pem"}},
        {"clusterTrustBundle": {"signerName": SIGNER, "labelSelector": live, "path": "live.pem"}},
        {"clusterTrustBundle": {"signerName": "example.com/none", "labelSelector": {},
                                "optional": true, "path": "none.pem"}},
    ]);
    engine.apply(&pod("web", &sources));
    engine.wait_ready("web");
    assert_eq!(read(&engine, "web", "named.pem"), first);
    assert_eq!(read(&engine, "web", "live.pem"), first);
    assert_eq!(read(&engine, "web", "none.pem"), "");

    // a second authority, as in a rotation
    write(&engine, "second", "live", &second);
    let begun = Instant::now();
    loop {
        let seen = read(&engine, "web", "live.pem");
        if seen.contains(&second) && seen.contains(&first) {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{seen}");
    }
    assert!(!read(&engine, "web", "live.pem").contains(&next));

    // one that is not there holds the pod back, until it is
    let sources = json!([{"clusterTrustBundle": {"name": "example.com:mesh:late", "path": "a"}}]);
    engine.apply(&pod("waits", &sources));
    let missing = "clustertrustbundle \"example.com:mesh:late\" not found";
    engine.wait_for_event("waits", "FailedMount", missing);
    write(&engine, "late", "live", &next);
    engine.wait_ready("waits");
    assert_eq!(read(&engine, "waits", "a"), next);
}
