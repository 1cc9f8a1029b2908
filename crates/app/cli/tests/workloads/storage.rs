//! Volumes of the class local-path, with real containers: what a pod wrote is there on every rung,
//! in the next pod of that claim and in the next engine; a claim in use stays; what is deleted
//! goes, and what is retained stays.
use std::path::PathBuf;

use rekindle_testkit::{Engine, TIMEOUT, text};

const CLAIM: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
";

fn pod(name: &str, claim: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  terminationGracePeriodSeconds: 5
  containers:
  - name: app
    image: localhost/host
    command: [sh, -c, 'trap \"exit 0\" TERM; sleep 100000 & wait']
    volumeMounts: [{{name: data, mountPath: /data}}, {{name: data, mountPath: /deep, subPath: a/b}}]
  volumes:
  - {{name: data, persistentVolumeClaim: {{claimName: {claim}}}}}
"
    )
}

fn exec(engine: &Engine, pod: &str, command: &str) -> String {
    engine.kubectl(&["exec", pod, "--", "sh", "-c", command])
}

fn restart(engine: &Engine, rung: &str) {
    let output = engine.rekindle(&["restart", "pod/web", "--rung", rung, "--wait"]);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    engine.wait_ready("web");
}

/// The name of the volume that a claim is bound to, and its folder.
fn volume_of(engine: &Engine, claim: &str) -> (String, PathBuf) {
    engine.wait_for(&format!("pvc/{claim}"), ".status.phase", "Bound");
    let claim = engine.get(&format!("pvc/{claim}"));
    let name = claim["spec"]["volumeName"].as_str().unwrap().to_owned();
    let volume = engine.get(&format!("pv/{name}"));
    (name, volume["spec"]["local"]["path"].as_str().unwrap().into())
}

#[test]
fn what_a_pod_wrote_is_there_on_every_rung_in_the_next_pod_and_in_the_next_engine() {
    let mut engine = Engine::start();
    engine.apply(CLAIM);
    engine.wait_for("pvc/data", ".spec.storageClassName", "local-path");
    engine.apply(&pod("web", "data"));
    engine.wait_ready("web");
    let (volume, folder) = volume_of(&engine, "data");
    engine.wait_for(&format!("pv/{volume}"), ".status.phase", "Bound");
    exec(&engine, "web", "echo kept > /data/file; echo deep > /deep/file");
    let all = "cat /data/file /data/a/b/file";
    for rung in ["container", "containers", "pod"] {
        restart(&engine, rung);
        assert_eq!(exec(&engine, "web", all), "kept\ndeep\n", "rung {rung}");
    }
    engine.kubectl(&["delete", "pod/web"]);
    assert_eq!(std::fs::read_to_string(folder.join("file")).unwrap(), "kept\n");
    engine.apply(&pod("web", "data"));
    engine.wait_ready("web");
    assert_eq!(exec(&engine, "web", all), "kept\ndeep\n");

    engine.kill();
    engine.launch(&[]);
    engine.wait_ready("web");
    restart(&engine, "pod");
    assert_eq!(exec(&engine, "web", all), "kept\ndeep\n");

    let output = engine.rekindle(&["down"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    engine.wait();
    engine.launch(&[]);
    engine.wait_ready("web");
    assert_eq!(exec(&engine, "web", all), "kept\ndeep\n", "after down and up");

    engine.kubectl(&["delete", "pvc/data", "--wait=false"]);
    engine.wait_for("pvc/data", ".metadata.deletionGracePeriodSeconds", "0");
    restart(&engine, "pod");
    assert_eq!(exec(&engine, "web", all), "kept\ndeep\n", "in use until the pod is gone");
    engine.kubectl(&["delete", "pod/web"]);
    engine.kubectl(&["wait", "--for=delete", "pvc/data", &format!("pv/{volume}"), TIMEOUT]);
    assert!(!folder.exists());
}

#[test]
fn a_retained_volume_stays_and_a_pod_waits_for_its_claim() {
    let engine = Engine::start();
    engine.apply(&pod("web", "kept"));
    engine.wait_for_event("web", "FailedScheduling", "persistentvolumeclaim \"kept\" not found");
    engine.apply(
        "
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: kept}
provisioner: rekindle.dev/local-path
reclaimPolicy: Retain
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: kept}
spec: {storageClassName: kept, accessModes: [ReadWriteOncePod], resources: {requests: {storage: 1Gi}}}
",
    );
    engine.wait_ready("web");
    exec(&engine, "web", "echo kept > /data/file");
    let (volume, folder) = volume_of(&engine, "kept");
    engine.apply(&pod("second", "kept"));
    engine.wait_for_event("second", "FailedScheduling", "ReadWriteOncePod");
    engine.kubectl(&["delete", "pod/second", "pod/web"]);
    engine.kubectl(&["delete", "pvc/kept"]);
    engine.wait_for(&format!("pv/{volume}"), ".status.phase", "Released");
    engine.kubectl(&["delete", &format!("pv/{volume}")]);
    assert_eq!(std::fs::read_to_string(folder.join("file")).unwrap(), "kept\n");
}

#[test]
fn a_static_volume_is_mounted_read_only_when_asked_and_an_ephemeral_one_goes_with_its_pod() {
    let engine = Engine::start();
    let disk = tempfile::tempdir().unwrap();
    let disk = disk.path();
    std::fs::write(disk.join("file"), "given").unwrap();
    engine.apply(&format!(
        "
apiVersion: v1
kind: PersistentVolume
metadata: {{name: disk-{pid}}}
spec:
  capacity: {{storage: 1Gi}}
  accessModes: [ReadWriteOnce]
  storageClassName: manual
  hostPath: {{path: {disk}, type: Directory}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: given}}
spec: {{storageClassName: manual, accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: web}}
spec:
  terminationGracePeriodSeconds: 5
  securityContext: {{fsGroup: 4711}}
  containers:
  - name: app
    image: localhost/host
    command: [sh, -c, 'trap \"exit 0\" TERM; sleep 100000 & wait']
    volumeMounts: [{{name: given, mountPath: /given}}, {{name: own, mountPath: /own}}]
  volumes:
  - {{name: given, persistentVolumeClaim: {{claimName: given, readOnly: true}}}}
  - name: own
    ephemeral: {{volumeClaimTemplate: {{spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}}}}}
",
        pid = std::process::id(),
        disk = disk.display(),
    ));
    engine.wait_ready("web");
    assert_eq!(exec(&engine, "web", "cat /given/file"), "given");
    let refused = "echo x > /given/file 2>/dev/null && echo written || echo refused";
    assert_eq!(exec(&engine, "web", refused), "refused\n");
    let (volume, folder) = volume_of(&engine, "web-own");
    exec(&engine, "web", "echo mine > /own/file");
    assert_eq!(exec(&engine, "web", "stat -c %g /own /own/file"), "4711\n4711\n");
    restart(&engine, "pod");
    assert_eq!(exec(&engine, "web", "cat /own/file"), "mine\n");
    engine.kubectl(&["delete", "pod/web"]);
    let gone = ["pvc/web-own", &format!("pv/{volume}")];
    engine.kubectl(&["wait", "--for=delete", gone[0], gone[1], TIMEOUT]);
    assert!(!folder.exists());
    assert_eq!(std::fs::read_to_string(disk.join("file")).unwrap(), "given");
}
