//! What a new pod takes over from its ServiceAccount.

use serde_json::{Value, json};

use crate::harness::{Bench, PODS, pod};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

fn account(name: &str, secret: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name },
            "imagePullSecrets": [{ "name": secret }] })
}

fn secrets_of(pod: &Value) -> Vec<&str> {
    let secrets = pod["spec"]["imagePullSecrets"].as_array().map_or(&[][..], Vec::as_slice);
    secrets.iter().map(|secret| secret["name"].as_str().unwrap()).collect()
}

#[test]
fn a_pod_without_pull_secrets_gets_those_of_its_service_account() {
    let mut bench = Bench::new();
    bench.create(ACCOUNTS, account("builder", "builder-logins"));
    let patch = r#"{"imagePullSecrets":[{"name":"default-logins"}]}"#;
    bench.patch("merge-patch+json", &format!("{ACCOUNTS}/default"), patch).ok();
    // (serviceAccountName, own secrets, what the pod has in the end)
    let cases: [(Value, Value, &[&str]); 4] = [
        (Value::Null, Value::Null, &["default-logins"]),
        (json!("builder"), Value::Null, &["builder-logins"]),
        (json!("builder"), json!([{ "name": "own" }]), &["own"]),
        (json!("builder"), json!([]), &["builder-logins"]),
    ];
    for (number, (account, own, expected)) in cases.into_iter().enumerate() {
        let mut pod = pod(&format!("p{number}"));
        pod["spec"]["serviceAccountName"] = account;
        pod["spec"]["imagePullSecrets"] = own;
        let created = bench.create(PODS, pod);
        assert_eq!(secrets_of(&created), expected, "case {number}");
        assert_eq!(secrets_of(&bench.get(&format!("{PODS}/p{number}"))), expected);
    }
}
