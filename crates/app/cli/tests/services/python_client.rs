//! The public Python client in a pod: it finds the API by its Service, as in any cluster.

use std::path::{Path, PathBuf};

use rekindle_testkit::Engine;

/// What the program of the pod may do.
const RIGHTS: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: program}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: program}
rules:
- {apiGroups: [''], resources: [configmaps], verbs: [create, get, list, watch, patch, delete]}
- {apiGroups: [''], resources: [pods], verbs: [get]}
- {apiGroups: [''], resources: [pods/exec], verbs: [get, create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: program}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: program}
subjects: [{kind: ServiceAccount, name: program}]
";

/// Goes by the name of the Service, then by the address in the variables of the environment.
const PROGRAM: &str = r#"
import os
from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException
from kubernetes.stream import stream

def program(host):
    config.load_incluster_config()
    settings = client.Configuration.get_default_copy()
    if host:
        settings.host = host
    maps = client.CoreV1Api(client.ApiClient(settings))
    name = "by-name" if host else "by-address"
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"by": name}))
    made = maps.create_namespaced_config_map("default", body)
    maps.patch_namespaced_config_map(name, "default", {"data": {"a": "1"}})
    maps.delete_namespaced_config_map(name, "default")
    seen = []
    changes = watch.Watch()
    # from its creation on, so nothing is missed
    for event in changes.stream(maps.list_namespaced_config_map, "default",
            label_selector="by=" + name, resource_version=made.metadata.resource_version):
        seen.append(event["type"])
        if event["type"] == "DELETED":
            assert event["object"].data == {"a": "1"}, event["object"]
            changes.stop()
    assert seen == ["MODIFIED", "DELETED"], seen
    try:
        maps.list_namespaced_secret("default")
        raise SystemExit("secrets could be listed")
    except ApiException as refused:
        assert refused.status == 403, refused
    said = stream(maps.connect_get_namespaced_pod_exec, os.environ["HOSTNAME"], "default",
        command=["echo", "by a websocket"], stdout=True, stdin=False, stderr=True, tty=False)
    assert said == "by a websocket\n", said

program("https://kubernetes.default.svc")
program(None)
print("all was as in a cluster")
"#;

/// Where `cargo xtask test` puts the client.
fn client() -> PathBuf {
    let given = std::env::var_os("REKINDLE_TEST_PYTHON_CLIENT").map(PathBuf::from);
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/tools/python-client");
    let folder = given.into_iter().chain([fetched]).find(|folder| folder.exists());
    let folder = folder.expect("no client for the tests: run them with `cargo xtask test`");
    folder.canonicalize().unwrap()
}

#[test]
fn the_python_client_in_a_pod_works_with_the_service_of_the_api() {
    let engine = Engine::start();
    engine.apply(RIGHTS);
    let pod = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "program"},
        "spec": {
            "serviceAccountName": "program", "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "volumes": [{"name": "client", "hostPath": {"path": client(), "type": "Directory"}}],
            "containers": [{
                "name": "program", "image": "localhost/host",
                "command": ["/usr/bin/python3", "-B", "-c", PROGRAM],
                "env": [{"name": "PYTHONPATH", "value": "/client"}],
                "volumeMounts": [{"name": "client", "mountPath": "/client", "readOnly": true}],
            }],
        },
    });
    engine.apply(&pod.to_string());
    let ended = engine.until_one("pod/program", |pod| {
        ["Succeeded", "Failed"].iter().any(|phase| pod["status"]["phase"] == *phase)
    });
    let said = engine.kubectl(&["logs", "program"]);
    assert_eq!(ended["status"]["phase"], "Succeeded", "{said}");
    assert_eq!(said, "all was as in a cluster\n");
}
