//! Operator and agent together: a ladder that restarts a pod of a cluster in place.
use serde_json::json;

use crate::cluster_node::{ClusterNode, NODE};

const LADDER: &str = "
apiVersion: rekindle.dev/v1alpha1
kind: RestartLadder
metadata: {name: sick}
spec:
  selector: {matchLabels: {app: sick}}
  rungs: [{rung: Container, attempts: 1}, {rung: Pod, attempts: 1}, {rung: Recreate, attempts: 1}]
";

/// The first start breaks what the containers of a sandbox share, and no start in it succeeds.
const SICK: &str = "[ -e /out/once ] || touch /dev/shm/broken /out/once; \
     [ ! -e /dev/shm/broken ] || exit 1; \
     trap 'exit 3' TERM; while :; do sleep 1000 & wait; done";

#[test]
fn a_ladder_restarts_a_pod_in_place_where_its_node_has_an_agent() {
    let mut node = ClusterNode::new();
    node.start_agent();
    let operator = node.start_operator();
    node.engine.apply(LADDER);

    let folder = tempfile::tempdir().unwrap();
    let spec = json!({
        "containers": [{"name": "app", "image": "localhost/busybox:test",
            "command": ["/bin/sh", "-c", SICK], "volumeMounts": [{"name": "out", "mountPath": "/out"}]}],
        "volumes": [{"name": "out", "hostPath": {"path": folder.path().display().to_string()}}],
    });
    let before = node.labelled_pod("sick", json!({"app": "sick"}), spec);
    let asked = node.engine.until(&["podrestarts"], |restarts| {
        restarts.values().any(|restart| restart["status"]["phase"] == "Succeeded")
    });
    let said: Vec<String> = operator.lines.try_iter().collect();
    assert_eq!(asked.len(), 1, "{asked:#?} {said:#?}");
    let restart = asked.values().next().unwrap();
    assert_eq!(restart["spec"]["rung"], "Pod");
    assert_eq!(restart["spec"]["ladderName"], "sick");
    assert_eq!(restart["status"]["nodeName"], NODE);
    let end = &restart["status"]["runtime"]["containers"][0]["lastEnd"];
    assert_eq!(end["exitCode"], 1, "{restart:#}");
    assert_eq!(node.engine.get("pod/sick")["metadata"]["uid"], before["metadata"]["uid"]);
}
