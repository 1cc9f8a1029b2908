//! Static pods with the real engine: a file in a folder becomes containers and a mirror in the API.
use std::fs;

use rekindle_testkit::{Engine, TIMEOUT, text};
use serde_json::Value;

const POD: &str = "web-node-1";

const MANIFEST: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 5
  containers:
  - {name: app, image: localhost/host, command: [sh, -c, 'echo begun; trap \"exit 0\" TERM; sleep 100000 & wait']}
";

/// As an editor saves it: complete at once.
fn put(engine: &Engine, manifest: &str) {
    let folder = engine.data_dir().join("static-pods");
    fs::write(folder.join(".new"), manifest).unwrap();
    fs::rename(folder.join(".new"), folder.join("web.yaml")).unwrap();
}

fn container_id(engine: &Engine) -> Value {
    engine.get(&format!("pod/{POD}"))["status"]["containerStatuses"][0]["containerID"].clone()
}

fn wait_running(engine: &Engine) {
    engine.kubectl(&["wait", "--for=create", &format!("pod/{POD}"), TIMEOUT]);
    engine.wait_ready(POD);
}

#[test]
fn a_static_pod_lives_by_its_file() {
    let mut engine = Engine::start();
    put(&engine, MANIFEST);
    wait_running(&engine);
    let mirror = engine.get(&format!("pod/{POD}"));
    assert_eq!(mirror["metadata"]["ownerReferences"][0]["name"], "node-1");
    assert_eq!(mirror["metadata"]["annotations"]["kubernetes.io/config.source"], "file");
    assert_eq!(mirror["metadata"]["labels"]["app"], "web");
    let id = container_id(&engine);

    // what people do with a pod works through its mirror
    assert_eq!(engine.kubectl(&["exec", POD, "--", "hostname"]), format!("{POD}\n"));
    assert_eq!(engine.first_lines(&[POD], 1), ["begun"]);

    // deleting the mirror ends nothing: kubectl waits until nothing has its name, and another comes
    for way in ["--wait", "--now"] {
        engine.kubectl(&["delete", "pod", POD, way, TIMEOUT]);
        wait_running(&engine);
        assert_ne!(engine.get(&format!("pod/{POD}"))["metadata"]["uid"], mirror["metadata"]["uid"]);
        assert_eq!(container_id(&engine), id);
    }

    // nor does the end of the engine
    engine.kill();
    engine.launch(&[]);
    wait_running(&engine);
    assert_eq!(container_id(&engine), id);

    // it can be restarted in place
    let output = engine.rekindle(&["restart", &format!("pod/{POD}"), "--rung", "pod", "--wait"]);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    engine.wait_ready(POD);
    assert_ne!(container_id(&engine), id);
    let id = container_id(&engine);

    // a mistake is told of and changes nothing
    put(&engine, &MANIFEST.replace("image:", "imagine:"));
    engine.wait_for_event(
        "node-1",
        "InvalidStaticPod",
        "unknown field \"spec.containers[0].imagine\"",
    );
    assert_eq!(container_id(&engine), id);

    fs::remove_file(engine.data_dir().join("static-pods/web.yaml")).unwrap();
    engine.kubectl(&["wait", "--for=delete", &format!("pod/{POD}"), TIMEOUT]);
}
