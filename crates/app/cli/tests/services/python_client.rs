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
- {apiGroups: [''], resources: [pods, pods/log], verbs: [get]}
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
import base64, os, websocket
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

def socket(path, protocol):
    account = "/var/run/secrets/kubernetes.io/serviceaccount/"
    token = open(account + "token").read()
    pod = "wss://kubernetes.default.svc/api/v1/namespaces/default/pods/" + os.environ["HOSTNAME"]
    return websocket.create_connection(pod + path, subprotocols=[protocol],
        header=["Authorization: Bearer " + token], sslopt={"ca_certs": account + "ca.crt"})

# the older protocols, for clients that can only send text
cat = socket("/exec?command=cat&stdin=true&stdout=true", "base64.channel.k8s.io")
cat.send("0" + base64.b64encode(b"in base64\n").decode())
said = b""
while b"\n" not in said:
    message = cat.recv()
    assert isinstance(message, str), message
    if message[0] == "1":
        said += base64.b64decode(message[1:])
assert said == b"in base64\n", said
cat.close()
print("begun", flush=True)
for protocol in ["binary.k8s.io", "base64.binary.k8s.io"]:
    log = socket("/log?follow=true", protocol)
    said = b""
    while b"begun\n" not in said:
        message = log.recv()
        said += base64.b64decode(message) if isinstance(message, str) else message
    assert isinstance(message, str) == protocol.startswith("base64"), message
    log.close()

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
    assert_eq!(said, "begun\nall was as in a cluster\n");
}
