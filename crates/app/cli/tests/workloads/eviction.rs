//! What a node does when it runs out of something and when it is shut down, with the real kubectl
//! on real containers.
//!
//! Nothing is really exhausted: a threshold above what there is makes the pressure.
use std::path::PathBuf;

use rekindle_testkit::{Engine, TIMEOUT};
use serde_json::Value;

/// Settings in a file of their own, which goes with the folder.
struct Settings(tempfile::TempDir);

impl Settings {
    fn new(text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("node.yaml"), text).unwrap();
        Self(dir)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("node.yaml")
    }

    fn engine(&self) -> Engine {
        Engine::start_with(&["--node-config", &self.path().display().to_string()])
    }
}

fn condition(object: &Value, kind: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

#[test]
fn a_pod_that_overfills_its_volume_is_evicted_and_says_so() {
    let settings = Settings::new("evictionHard: {}\nevictionMonitoringPeriod: 200ms\n");
    let engine = settings.engine();
    engine.apply(
        "
apiVersion: v1
kind: Pod
metadata: {name: full}
spec:
  terminationGracePeriodSeconds: 60
  containers:
  - name: app
    image: localhost/host
    command: [sh, -c, 'head -c 3000000 /dev/zero > /scratch/file; sleep 3600']
    volumeMounts: [{name: scratch, mountPath: /scratch}]
  volumes:
  - {name: scratch, emptyDir: {sizeLimit: 1Mi}}
---
apiVersion: v1
kind: Pod
metadata: {name: writer}
spec:
  containers:
  - name: app
    image: localhost/host
    command: [sh, -c, 'i=0; while [ $i -lt 40000 ]; do echo a line of the log that is no short one, of which there are many; i=$((i+1)); done; sleep 3600']
    resources: {limits: {ephemeral-storage: 1Mi}}
---
apiVersion: v1
kind: Pod
metadata: {name: fine}
spec:
  containers:
  - name: app
    image: localhost/host
    command: [sleep, '3600']
    volumeMounts: [{name: scratch, mountPath: /scratch}]
  volumes:
  - {name: scratch, emptyDir: {sizeLimit: 1Mi}}
",
    );
    engine.wait_for("pod/full", ".status.phase", "Failed");
    engine.wait_for("pod/writer", ".status.phase", "Failed");
    let full = engine.get("pod/full");
    assert_eq!(full["status"]["reason"], "Evicted");
    let message = "Usage of EmptyDir volume \"scratch\" exceeds the limit \"1Mi\". ";
    assert_eq!(full["status"]["message"], message);
    engine.wait_for_event("full", "Evicted", message);
    let writer = engine.get("pod/writer");
    let message = writer["status"]["message"].as_str().unwrap();
    assert_eq!(
        message,
        "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. "
    );
    engine.wait_ready("fine");
    assert_eq!(engine.get("pod/fine")["status"]["phase"], "Running");
    engine.kubectl(&["delete", "pod/full", "pod/writer", TIMEOUT]);
}

/// A critical pod, two that ask for something, one that does not, and one that no scheduler keeps
/// away.
fn pods_of_all_kinds() -> String {
    let burstable = "
  containers:
  - name: app
    image: localhost/host
    command: [sleep, '3600']
    resources: {requests: {cpu: 1m}}";
    format!(
        "
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {{name: important}}
value: 1000
---
apiVersion: v1
kind: Pod
metadata: {{name: system}}
spec:
  priorityClassName: system-node-critical{burstable}
---
apiVersion: v1
kind: Pod
metadata: {{name: high}}
spec:
  priorityClassName: important{burstable}
---
apiVersion: v1
kind: Pod
metadata: {{name: low}}
spec:{burstable}
---
apiVersion: v1
kind: Pod
metadata: {{name: weak}}
spec:
  containers: [{{name: app, image: localhost/host, command: [sleep, '3600']}}]
---
apiVersion: v1
kind: Pod
metadata: {{name: forced}}
spec:
  nodeName: node-1
  containers: [{{name: app, image: localhost/host, command: [sleep, '3600']}}]
"
    )
}

#[test]
fn under_memory_pressure_pods_go_by_priority_and_critical_ones_stay() {
    let settings =
        Settings::new("evictionHard: {memory.available: 900Ti}\nevictionMonitoringPeriod: 200ms\n");
    let engine = settings.engine();
    engine.kubectl(&["wait", "--for=condition=MemoryPressure", "node/node-1", TIMEOUT]);
    let taint = "{.spec.taints[0].key}";
    engine.kubectl(&[
        "wait",
        "node/node-1",
        &format!("--for=jsonpath={taint}=node.kubernetes.io/memory-pressure"),
        TIMEOUT,
    ]);
    engine.apply(&pods_of_all_kinds());
    for pod in ["low", "high"] {
        engine.wait_for(&format!("pod/{pod}"), ".status.phase", "Failed");
        let pod = engine.get(&format!("pod/{pod}"));
        assert_eq!(pod["status"]["reason"], "Evicted");
        let message = pod["status"]["message"].as_str().unwrap();
        let start = "The node was low on resource: memory. Threshold quantity: 900Ti, available: ";
        assert!(message.starts_with(start), "{message}");
        let disruption = condition(&pod, "DisruptionTarget");
        assert_eq!(disruption["reason"], "TerminationByKubelet");
    }
    engine.wait_for("pod/forced", ".status.phase", "Failed");
    let forced = engine.get("pod/forced");
    assert_eq!(forced["status"]["reason"], "Evicted");
    assert_eq!(
        forced["status"]["message"],
        "Pod was rejected: The node had condition: [MemoryPressure]. "
    );
    engine.wait_for_event("weak", "FailedScheduling", "1 node(s) had untolerated taint(s)");
    engine.wait_ready("system");
    engine.wait_for_event("node-1", "EvictionThresholdMet", "Attempting to reclaim memory");
}

/// A pod that writes down when it is asked to end; it is not Ready before it listens.
fn diarist(name: &str, class: &str, diary: &str) -> String {
    let class =
        if class.is_empty() { String::new() } else { format!("priorityClassName: {class}") };
    format!(
        "
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  {class}
  terminationGracePeriodSeconds: 20
  containers:
  - name: app
    image: localhost/host
    command: [sh, -c, 'trap \"echo {name} >> /diary/entries; exit 0\" TERM; touch /up; while :; do sleep 0.05; done']
    lifecycle: {{postStart: {{exec: {{command: [sh, -c, 'until test -e /up; do sleep 0.05; done']}}}}}}
    volumeMounts: [{{name: diary, mountPath: /diary}}]
  volumes:
  - {{name: diary, hostPath: {{path: {diary}, type: Directory}}}}
"
    )
}

#[test]
fn a_shutdown_ends_pods_by_priority_and_they_stay_ended() {
    let settings = Settings::new(
        "
evictionHard: {}
shutdownGracePeriodByPodPriority:
- {priority: 0, shutdownGracePeriodSeconds: 30}
- {priority: 1000, shutdownGracePeriodSeconds: 30}
- {priority: 2000000000, shutdownGracePeriodSeconds: 30}
",
    );
    let mut engine = settings.engine();
    let diary = tempfile::tempdir().unwrap();
    let folder = diary.path().display().to_string();
    let mut manifest = "
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: important}
value: 1000
"
    .to_owned();
    let pods = [("dns", "system-cluster-critical"), ("db", "important"), ("web", "")];
    for (name, class) in pods {
        manifest += &diarist(name, class, &folder);
    }
    engine.apply(&manifest);
    for (name, _) in pods {
        engine.wait_ready(name);
    }
    assert!(engine.rekindle(&["down"]).status.success());
    engine.wait();
    let entries = std::fs::read_to_string(diary.path().join("entries")).unwrap();
    assert_eq!(entries, "web\ndb\ndns\n");

    engine.launch(&[]);
    for (name, _) in pods {
        let pod = engine.get(&format!("pod/{name}"));
        let status = &pod["status"];
        assert_eq!(status["phase"], "Failed", "{name}");
        assert_eq!(status["reason"], "Terminated");
        assert_eq!(status["message"], "Pod was terminated in response to imminent node shutdown.");
        assert_eq!(condition(&pod, "DisruptionTarget")["reason"], "TerminationByKubelet");
    }
    let entries = std::fs::read_to_string(diary.path().join("entries")).unwrap();
    assert_eq!(entries.lines().count(), 3, "none of them was started again");
}

#[test]
fn settings_that_the_node_does_not_know_are_refused_before_anything_starts() {
    let settings = Settings::new("podsPerCore: 5\n");
    let engine = Engine::prepare();
    let path = settings.path().display().to_string();
    let output = engine.up_command(&["--node-config", &path]).output().unwrap();
    assert!(!output.status.success());
    let error = rekindle_testkit::text(&output.stderr);
    assert!(
        error.contains("node.yaml") && error.contains("unknown field `podsPerCore`"),
        "{error}"
    );
}
