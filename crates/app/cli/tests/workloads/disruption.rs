//! Disruption budgets hold when a node is drained with the real kubectl, on real containers.
use std::process::Stdio;
use std::sync::mpsc::Receiver;

use rekindle_testkit::guarded_child::GuardedChild;
use rekindle_testkit::{Engine, TIMEOUT};
use serde_json::json;

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: web, image: localhost/demo, args: [server, --port, '8080']}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec:
  maxUnavailable: 1
  selector: {matchLabels: {app: web}}
";

/// The engine with three pods that are Ready, of which one may go.
fn three_pods_and_a_budget() -> Engine {
    let engine = Engine::start();
    engine.apply(WEB);
    engine.kubectl(&["rollout", "status", "deployment/web", TIMEOUT]);
    engine.wait_for("pdb/web", ".status.disruptionsAllowed", "1");
    engine
}

fn pods(engine: &Engine) -> Vec<String> {
    let names = engine.kubectl(&["get", "pods", "-l", "app=web", "-o", "name"]);
    names.lines().map(|name| name.trim_start_matches("pod/").to_owned()).collect()
}

/// Asks for the eviction of a pod as a program does; answers kubectl's standard error, empty when
/// it was granted.
fn evict(engine: &Engine, pod: &str) -> String {
    let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}});
    let path = format!("/api/v1/namespaces/default/pods/{pod}/eviction");
    let output = engine.try_kubectl(&["create", "--raw", &path, "-f", "-"], &body.to_string());
    let said = rekindle_testkit::text(&output.stderr);
    assert_eq!(output.status.success(), said.is_empty(), "{said}");
    said
}

/// A kubectl that runs beside the test; ends with it.
struct Beside {
    child: GuardedChild,
    lines: Receiver<String>,
}

impl Beside {
    fn start(engine: &Engine, arguments: &[&str]) -> Self {
        let mut child =
            GuardedChild::start(engine.kubectl_command(arguments).stderr(Stdio::piped()));
        let lines = child.all_lines();
        Self { child, lines }
    }

    /// Everything it says until a line contains the text.
    #[track_caller]
    fn until(&self, text: &str) -> Vec<String> {
        let mut said = Vec::new();
        for line in &self.lines {
            let found = line.contains(text);
            said.push(line);
            if found {
                return said;
            }
        }
        panic!("it ended without {text:?}: {said:?}");
    }

    /// The rest of what it says, once it has ended well.
    #[track_caller]
    fn end(mut self) -> Vec<String> {
        let said: Vec<String> = self.lines.iter().collect();
        assert!(self.child.0.wait().unwrap().success(), "{said:?}");
        said
    }
}

#[test]
fn a_drain_goes_pod_by_pod_as_replacements_become_ready() {
    let engine = three_pods_and_a_budget();
    let before = pods(&engine);
    let healthy = "jsonpath={.status.currentHealthy}{.metadata.annotations.seen}{'\\n'}";
    let watch = Beside::start(&engine, &["get", "pdb/web", "--watch", "-o", healthy]);
    watch.until("3");

    // The only node is cordoned, so that the first replacement finds no place and the others have
    // to wait.
    let drain = Beside::start(&engine, &["drain", "node-1", TIMEOUT]);
    drain.until("node/node-1 cordoned");
    let said = drain.until("Cannot evict pod as it would violate the pod's disruption budget.");
    assert!(said.iter().any(|line| line.contains("will retry after 5s")), "{said:?}");
    let nodes = engine.kubectl(&["get", "nodes"]);
    assert!(nodes.contains("Ready,SchedulingDisabled"), "{nodes}");
    engine.wait_for("pdb/web", ".status.currentHealthy", "2");

    engine.kubectl(&["uncordon", "node-1"]);
    let said = drain.end();
    let evicted = said.iter().filter(|line| line.ends_with(" evicted")).count();
    assert!(said.iter().any(|line| line.contains("node/node-1 drained")), "{said:?}");
    assert!(evicted >= 2, "one may have gone before: {said:?}");
    engine.kubectl(&["rollout", "status", "deployment/web", TIMEOUT]);
    engine.wait_for("pdb/web", ".status.currentHealthy", "3");
    let after = pods(&engine);
    assert!(after.iter().all(|pod| !before.contains(pod)), "{before:?} {after:?}");
    let budget = engine.get("pdb/web");
    assert_eq!(budget["status"]["disruptionsAllowed"], 1);

    engine.kubectl(&["annotate", "pdb/web", "seen=all"]);
    let seen = watch.until("all");
    assert!(
        seen.iter().all(|healthy| healthy.starts_with(['2', '3'])),
        "never two at once: {seen:?}"
    );
}

#[test]
fn an_eviction_beyond_the_budget_is_refused_and_the_pod_stays() {
    let engine = three_pods_and_a_budget();
    engine.kubectl(&["cordon", "node-1"]);
    let names = pods(&engine);
    assert_eq!(evict(&engine, &names[0]), "");
    assert_eq!(
        evict(&engine, &names[1]),
        "Error from server (TooManyRequests): Cannot evict pod as it would violate the pod's disruption budget. The disruption budget web \
         needs 2 healthy pods and has 2 currently\n"
    );
    let stays = engine.get(&format!("pod/{}", names[1]));
    assert_eq!(stays["metadata"].get("deletionTimestamp"), None);
    engine.wait_for("pdb/web", ".status.currentHealthy", "2");
    let table = engine.kubectl(&["get", "pdb"]);
    assert!(
        table.starts_with("NAME   MIN AVAILABLE   MAX UNAVAILABLE   ALLOWED DISRUPTIONS   AGE\nweb    N/A             1                 0"),
        "{table}"
    );
    engine.kubectl(&["uncordon", "node-1"]);
    engine.wait_for("pdb/web", ".status.disruptionsAllowed", "1");
    assert_eq!(evict(&engine, &names[1]), "", "the replacement gave the disruption back");
}

#[test]
fn what_a_budget_granted_is_not_forgotten_when_the_engine_is_killed() {
    let mut engine = three_pods_and_a_budget();
    engine.kubectl(&["cordon", "node-1"]);
    let names = pods(&engine);
    assert_eq!(evict(&engine, &names[0]), "");
    engine.kill();
    engine.launch(&[]);
    for pod in &names[1..] {
        assert!(evict(&engine, pod).contains("TooManyRequests"), "{pod}");
    }
    engine.kubectl(&["uncordon", "node-1"]);
    engine.wait_for("pdb/web", ".status.disruptionsAllowed", "1");
    assert_eq!(evict(&engine, &names[1]), "");
}

#[test]
fn a_drain_that_is_only_tried_changes_nothing() {
    let engine = three_pods_and_a_budget();
    let identity =
        "jsonpath={range .items[*]}{.metadata.uid} {.metadata.deletionTimestamp}{'\\n'}{end}";
    let before = engine.kubectl(&["get", "pods", "-o", identity]);
    let said = engine.kubectl(&["drain", "node-1", "--dry-run=server"]);
    assert!(said.contains("node/node-1 cordoned (server dry run)"), "{said}");
    assert!(said.contains("node/node-1 drained (server dry run)"), "{said}");
    assert_eq!(engine.kubectl(&["get", "pods", "-o", identity]), before);
    assert_eq!(engine.get("pdb/web")["status"]["disruptionsAllowed"], 1);
    assert_eq!(engine.get("node/node-1")["spec"].get("unschedulable"), None);
}

#[test]
fn a_drain_loses_naked_pods_and_local_data_only_when_it_is_told_to() {
    let engine = Engine::start();
    engine.apply(
        "{apiVersion: v1, kind: Pod, metadata: {name: naked}, spec: {terminationGracePeriodSeconds: 0,
         containers: [{name: a, image: localhost/demo, args: [signal]}]}}",
    );
    engine.apply(
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: keeper}, spec: {selector: {matchLabels: {app: keeper}},
         template: {metadata: {labels: {app: keeper}}, spec: {terminationGracePeriodSeconds: 0, volumes: [{name: data, emptyDir: {}}],
         containers: [{name: a, image: localhost/demo, args: [signal], volumeMounts: [{name: data, mountPath: /data}]}]}}}}",
    );
    engine.wait_ready("naked");
    engine.kubectl(&["rollout", "status", "deployment/keeper", TIMEOUT]);
    let all = "jsonpath={range .items[*]}{.metadata.uid} {.metadata.deletionTimestamp}{'\\n'}{end}";
    let before = engine.kubectl(&["get", "pods", "-o", all]);
    let keeper = engine.kubectl(&["get", "pods", "-l", "app=keeper", "-o", "name"]);
    let keeper = keeper.trim().trim_start_matches("pod/").to_owned();

    let naked =
        "cannot delete Pods that declare no controller (use --force to override): default/naked";
    let data = format!(
        "cannot delete Pods with local storage (use --delete-emptydir-data to override): default/{keeper}"
    );
    for (flags, refusals) in [
        (&[][..], vec![naked, &data]),
        (&["--force"][..], vec![&*data]),
        (&["--delete-emptydir-data"][..], vec![naked]),
    ] {
        let refused = engine.kubectl_fails(&[&["drain", "node-1"][..], flags].concat(), "");
        for refusal in [naked, &data] {
            assert_eq!(
                refused.contains(refusal),
                refusals.contains(&refusal),
                "{flags:?}: {refused}"
            );
        }
        assert_eq!(engine.kubectl(&["get", "pods", "-o", all]), before, "{flags:?}");
    }
    let nodes = engine.kubectl(&["get", "nodes"]);
    assert!(nodes.contains("Ready,SchedulingDisabled"), "cordoned all the same: {nodes}");

    let drained =
        engine.kubectl(&["drain", "node-1", "--force", "--delete-emptydir-data", TIMEOUT]);
    for line in ["pod/naked evicted", &format!("pod/{keeper} evicted"), "node/node-1 drained"] {
        assert!(drained.contains(line), "{line}: {drained}");
    }
    let gone = engine.kubectl_fails(&["get", "pod", "naked"], "");
    assert!(gone.contains("NotFound"), "{gone}");
    // its controller makes the one again, and nobody the other
    engine.kubectl(&["uncordon", "node-1"]);
    engine.wait_for("deployment/keeper", ".status.availableReplicas", "1");
    let left = engine.kubectl(&["get", "pods", "-o", "name"]);
    assert!(left.starts_with("pod/keeper-") && left.lines().count() == 1, "{left}");
    assert!(!left.contains(&keeper), "another one: {left}");
}

#[test]
fn a_budget_that_blocks_for_ever_is_named_when_it_is_made_and_when_it_refuses() {
    let engine = Engine::start();
    engine.apply(
        "{apiVersion: v1, kind: Pod, metadata: {name: alone, labels: {app: alone}}, spec: {terminationGracePeriodSeconds: 0,
         containers: [{name: a, image: localhost/demo, args: [server, --port, '8080']}]}}",
    );
    engine.wait_ready("alone");
    let made = engine
        .try_kubectl(&["create", "pdb", "tight", "--selector=app=alone", "--min-available=1"], "");
    let warning = "disruption budget \"tight\" lets no pod be evicted, so that the drain of a node waits for ever: \
                   it wants 1 healthy pods, and covers 1";
    let said = rekindle_testkit::text(&made.stderr);
    assert!(made.status.success() && said.contains(warning), "{said}");
    engine.wait_for("pdb/tight", ".status.expectedPods", "1");
    let said = evict(&engine, "alone");
    assert!(said.contains(warning) && said.contains("TooManyRequests"), "{said}");
    let described = engine.kubectl(&["describe", "pdb/tight"]);
    assert!(described.contains("Allowed disruptions:  0"), "{described}");
}
