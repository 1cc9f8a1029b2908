//! The chart `deploy/chart` with the real helm, on an engine that plays a cluster. Its operator
//! is a pod there, with the rights that the chart gives and no others.
use std::path::Path;

use rekindle_testkit::{Engine, TIMEOUT, rekindle_path, text};
use serde_json::Value;

use crate::identity::with_token;

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../deploy/chart");
const NAMESPACE: &str = "rekindle-system";
const ACCOUNT: &str = "--as=system:serviceaccount:rekindle-system:rekindle-operator";

const SICK: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: sick}
spec:
  selector: {matchLabels: {app: sick}}
  template:
    metadata: {labels: {app: sick}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - {name: app, image: localhost/demo, args: [crash, --after, 100ms]}
---
apiVersion: rekindle.dev/v1alpha1
kind: RestartLadder
metadata: {name: sick}
spec:
  selector: {matchLabels: {app: sick}}
  rungs: [{rung: Container, attempts: 1}, {rung: Recreate, attempts: 1}]
";

#[track_caller]
fn helm(engine: &Engine, arguments: &[&str]) -> String {
    let output = engine.helm_command(arguments).output().unwrap();
    let printed = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "helm {arguments:?}: {printed}");
    printed
}

/// Whether the operator's account may do this in namespace `default`.
fn may(engine: &Engine, what: &str) -> bool {
    account_may(engine, ACCOUNT, what)
}

fn account_may(engine: &Engine, account: &str, what: &str) -> bool {
    let words: Vec<&str> = what.split(' ').collect();
    let output = engine.try_kubectl(&[&["auth", "can-i", account], &words[..]].concat(), "");
    output.status.success()
}

/// The rights that are given of those that are asked for.
fn given<'a>(engine: &Engine, asked: &[&'a str]) -> Vec<&'a str> {
    asked.iter().copied().filter(|what| may(engine, what)).collect()
}

const ASKED: [&str; 20] = [
    "list pods",
    "update restartledgers.rekindle.dev --subresource=status",
    "create podrestarts.rekindle.dev",
    "create pods --subresource=eviction",
    "create events",
    "create pods",
    "delete pods",
    "patch pods --subresource=status",
    "update deployments.apps",
    "get secrets",
    "patch nodes",
    "create pods --subresource=exec",
    // what a controller would often have, and no write of the operator needs
    "update restartledgers.rekindle.dev",
    "patch restartledgers.rekindle.dev --subresource=status",
    "update podrestarts.rekindle.dev",
    "patch podrestarts.rekindle.dev --subresource=status",
    "patch restartladders.rekindle.dev --subresource=status",
    "patch deployments.apps",
    "patch replicasets.apps",
    "patch pods",
];

#[test]
fn the_operator_of_the_chart_observes_and_acts_with_the_rights_it_is_given() {
    let engine = Engine::start_with(&["--no-ladders", "--max-container-restart-period", "1s"]);
    engine.kubectl(&["label", "namespace", "default", "rekindle.dev/ladder=enabled"]);
    engine.kubectl(&["create", "namespace", NAMESPACE]);
    let binary = rekindle_path().display().to_string();
    let command = format!("image.command={{{binary}}}");
    let values = [
        "--set=image.repository=localhost/host,image.tag=latest",
        "--set",
        &command,
        "--set=extraArgs={--on-engine}",
    ];
    let release = ["rekindle", CHART, "--namespace", NAMESPACE, "--skip-crds"];
    helm(&engine, &[&["install"], &release[..], &values[..], &["--wait", TIMEOUT]].concat());
    assert_eq!(
        given(&engine, &ASKED),
        ["list pods", "update restartledgers.rekindle.dev --subresource=status"],
        "mode observe touches no pod"
    );
    engine.apply(SICK);
    let observed = engine.until(&["restartledgers"], |ledgers| {
        ledgers.values().any(|ledger| ledger["status"]["phase"] == "Exhausted")
    });
    let said = observed.values().next().unwrap()["status"]["message"].clone();
    assert!(said.as_str().unwrap().ends_with("mode observe: nothing was done"), "{said}");
    let before = engine.get("pods")["items"][0]["metadata"]["uid"].clone();

    let act = ["--reuse-values", "--set=mode=act", "--wait", TIMEOUT];
    helm(&engine, &[&["upgrade"], &release[..4], &act[..]].concat());
    assert_eq!(
        given(&engine, &ASKED),
        [
            "list pods",
            "update restartledgers.rekindle.dev --subresource=status",
            "create podrestarts.rekindle.dev",
            "create pods --subresource=eviction",
            "create events",
        ]
    );
    engine.until(&["pods"], |pods| {
        let mut uids = pods.values().map(|pod| &pod["metadata"]["uid"]);
        !pods.is_empty() && uids.all(|uid| *uid != before)
    });

    helm(&engine, &["rollback", "rekindle", "1", "--namespace", NAMESPACE, "--wait", TIMEOUT]);
    assert!(!may(&engine, "create pods --subresource=eviction"));
    helm(&engine, &["uninstall", "rekindle", "--namespace", NAMESPACE, "--wait", TIMEOUT]);
    let left = "clusterroles,clusterrolebindings,roles,rolebindings,deployments,poddisruptionbudgets,networkpolicies,serviceaccounts";
    let left = engine.kubectl(&[
        "get",
        left,
        "--namespace",
        NAMESPACE,
        "-l",
        "app.kubernetes.io/name=rekindle",
        "-o",
        "name",
    ]);
    assert_eq!(left, "");
    // nothing of ours holds up the deletion of what is the user's
    engine.kubectl(&["delete", "restartladder/sick", "deployment/sick", "--wait", TIMEOUT]);
    engine.kubectl(&["delete", "podrestarts", "--all", TIMEOUT]);
}

/// A rendered manifest of the chart with these values.
fn rendered(engine: &Engine, values: &[&str]) -> Result<String, String> {
    let image = ["--set=image.repository=registry.example/rekindle"];
    let arguments = [&["template", "rekindle", CHART], &image[..], values].concat();
    let output = engine.helm_command(&arguments).output().unwrap();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

#[test]
fn the_chart_is_sound_and_refuses_values_that_it_does_not_know() {
    let engine = Engine::start();
    let restricted = "pod-security.kubernetes.io/warn=restricted";
    engine.kubectl(&["label", "namespace", "default", restricted]);
    helm(&engine, &["lint", "--strict", CHART, "--set=image.repository=registry.example/rekindle"]);
    for values in [vec![], vec!["--set=mode=act,replicas=1,networkPolicy.enabled=false"]] {
        let manifest = rendered(&engine, &values).unwrap();
        let dry_run = ["apply", "--server-side", "--dry-run=server", "-f", "-"];
        let output = engine.try_kubectl(&dry_run, &manifest);
        let said = text(&output.stderr);
        assert!(output.status.success() && !said.contains("would violate"), "{said}");
    }
    for (value, named) in [
        ("mode=both", "mode"),
        ("agent.enabled=true", "--set mode=act,agent.enabled=true"),
        ("agent.maxRestarts=0", "maxRestarts"),
        ("agent.criSocket=containerd.sock", "criSocket"),
        ("replicas=0", "replicas"),
        ("rights.everything=true", "everything"),
        ("limits.clusterBurst=0", "clusterBurst"),
        (
            "limits.clusterBurst=61",
            "limits.clusterBurst 61 is more than limits.clusterPerMinute 60",
        ),
        (
            "limits.namespacePerMinute=9",
            "limits.namespaceBurst 10 is more than limits.namespacePerMinute 9",
        ),
    ] {
        let error = rendered(&engine, &[&format!("--set={value}")]).unwrap_err();
        assert!(error.contains(named), "{value}: {error}");
    }
    // as with --reuse-values of a release that knew no agent
    let without = rendered(&engine, &["--set=mode=act,agent=null"]).unwrap();
    assert!(!without.contains("DaemonSet"), "{without}");
    let unset = "agent.criSocket=null,agent.maxRestarts=null,agent.resources=null";
    let with = rendered(&engine, &["--set=mode=act,agent.enabled=true", "--set", unset]).unwrap();
    for argument in ["--cri-socket=unix:///run/cri/containerd.sock", "--max-restarts=1"] {
        assert!(with.contains(argument), "{argument}: {with}");
    }
    let old = ["--kube-version=1.29.4", "--set=mode=act,agent.enabled=true"];
    let error = rendered(&engine, &old).unwrap_err();
    assert!(error.contains("agent.enabled needs Kubernetes 1.30"), "{error}");
    let arguments = ["template", "rekindle", CHART];
    let output = engine.helm_command(&arguments).output().unwrap();
    let error = text(&output.stderr);
    assert!(!output.status.success() && error.contains("no image is published yet"), "{error}");
}

#[test]
fn the_chart_holds_an_agent_to_its_own_node() {
    let engine = Engine::start_with(&["--no-ladders"]);
    engine.kubectl(&["create", "namespace", NAMESPACE]);
    // no node has the label: the rights are tried, not the agent
    let values = [
        "--namespace",
        NAMESPACE,
        "--set=mode=act,agent.enabled=true",
        "--set-string=agent.nodeSelector.nowhere=true",
    ];
    let manifest = rendered(&engine, &values).unwrap();
    engine.kubectl_with(&["apply", "--namespace", NAMESPACE, "-f", "-"], &manifest);
    let account = "--as=system:serviceaccount:rekindle-system:rekindle-agent";
    let asked = [&ASKED[..], &["list podrestarts.rekindle.dev", "list nodes", "get leases"]];
    let given: Vec<&str> =
        asked.concat().into_iter().filter(|what| account_may(&engine, account, what)).collect();
    assert_eq!(
        given,
        [
            "list pods",
            "create events",
            "patch podrestarts.rekindle.dev --subresource=status",
            "list podrestarts.rekindle.dev",
        ]
    );
    // kubectl reads what it patches
    engine.apply(
        "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reads-restarts}
rules: [{apiGroups: [rekindle.dev], resources: [podrestarts, podrestarts/status], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reads-restarts}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reads-restarts}
subjects: [{kind: ServiceAccount, name: rekindle-agent, namespace: rekindle-system}]
---
apiVersion: v1
kind: Pod
metadata: {name: agent, namespace: rekindle-system}
spec:
  serviceAccountName: rekindle-agent
  containers: [{name: agent, image: localhost/demo, args: [signal]}]
---
apiVersion: rekindle.dev/v1alpha1
kind: PodRestart
metadata: {name: free}
spec: {podName: nothing}
---
apiVersion: rekindle.dev/v1alpha1
kind: PodRestart
metadata: {name: taken}
spec: {podName: nothing}
",
    );
    let patch = |name: &'static str, node: &str| {
        let status = serde_json::json!({"status": {"message": "mine", "nodeName": node}});
        ["patch", "podrestart", name, "--subresource=status", "--type=merge", "-p"]
            .map(str::to_owned)
            .into_iter()
            .chain([status.to_string()])
            .collect::<Vec<String>>()
    };
    let of_admin = patch("taken", "node-2");
    engine.kubectl(&of_admin.iter().map(String::as_str).collect::<Vec<&str>>());
    let bound = "--for=jsonpath={.spec.nodeName}=node-1";
    engine.kubectl(&["wait", "pod/agent", "--namespace=rekindle-system", bound, TIMEOUT]);
    let token = engine.kubectl(&[
        "create",
        "token",
        "rekindle-agent",
        "--namespace=rekindle-system",
        "--bound-object-kind=Pod",
        "--bound-object-name=agent",
    ]);
    let unbound =
        engine.kubectl(&["create", "token", "rekindle-agent", "--namespace=rekindle-system"]);
    for (token, name, node, expected) in [
        (&token, "free", "node-2", Some("for its own node only")),
        (&token, "free", "", Some("for its own node only")),
        (&token, "taken", "node-1", Some("the agent of another node answers")),
        (&unbound, "free", "node-1", Some("names no node")),
        (&token, "free", "node-1", None),
        (&token, "free", "node-2", Some("for its own node only")),
    ] {
        let arguments = patch(name, node);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = with_token(&engine, token.trim(), &arguments);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.success(), expected.is_none(), "{name} {node}: {said}");
        assert!(said.contains(expected.unwrap_or("patched")), "{name} {node}: {said}");
    }
}

#[test]
fn the_chart_gives_an_agent_no_more_of_its_node_than_its_values_say() {
    let engine = Engine::start();
    let of_node = |values: &str| {
        let manifest = rendered(&engine, &["--set", values]).unwrap();
        let words = ["hostPath: ", "capabilities: ", "mountPropagation: "];
        let agent = manifest.split("kind: DaemonSet").nth(1).unwrap();
        let agent = agent.split("\n---").next().unwrap().to_owned();
        let lines = agent.lines().map(str::trim).map(str::to_owned);
        lines.filter(|line| words.iter().any(|word| line.contains(word))).collect::<Vec<String>>()
    };
    let agent = "mode=act,agent.enabled=true";
    let socket = "hostPath: {path: /run/containerd, type: Directory}";
    assert_eq!(of_node(agent), ["capabilities: {drop: [ALL]}", socket]);
    assert_eq!(
        of_node(&format!("{agent},agent.keepLogs=true")),
        ["capabilities: {drop: [ALL]}", socket, "hostPath: {path: /var/log/pods, type: Directory}"]
    );
    let cgroups = "hostPath: {path: /sys/fs/cgroup, type: Directory}";
    assert_eq!(
        of_node(&format!("{agent},agent.freezePods=true")),
        ["capabilities: {drop: [ALL]}", socket, cgroups]
    );
    assert_eq!(
        of_node(&format!("{agent},agent.clearEmptyDirs=true,agent.kubeletDir=/data/kubelet")),
        [
            "capabilities: {drop: [ALL], add: [DAC_OVERRIDE, FOWNER]}",
            "- {name: pods, mountPath: /run/kubelet/pods, mountPropagation: HostToContainer}",
            socket,
            cgroups,
            "hostPath: {path: /data/kubelet/pods, type: Directory}",
        ]
    );
    let error = rendered(&engine, &["--set=agent.kubeletDir=kubelet"]).unwrap_err();
    assert!(error.contains("kubeletDir"), "{error}");
}

#[test]
fn a_second_release_is_refused() {
    let engine = Engine::start_with(&["--no-ladders"]);
    let install = |release: &str, namespace: &str| {
        let image = "--set=image.repository=registry.example/rekindle";
        let arguments = ["install", release, CHART, "--namespace", namespace, "--skip-crds", image];
        engine.helm_command(&[&arguments[..], &["--create-namespace"]].concat()).output().unwrap()
    };
    let first = install("rekindle", NAMESPACE);
    assert!(first.status.success(), "{}", text(&first.stderr));
    let second = install("other", "tools");
    let said = text(&second.stderr);
    assert!(!second.status.success() && said.contains("\"rekindle-operator\""), "{said}");
    let left = engine.kubectl(&["get", "deployments", "--namespace=tools", "-o", "name"]);
    assert_eq!(left, "");
}

#[test]
fn the_chart_has_what_monitoring_wants_and_only_when_it_is_asked_for() {
    let engine = Engine::start();
    let plain = rendered(&engine, &[]).unwrap();
    for kind in ["PodMonitor", "PrometheusRule", "dashboard", "ingress:", "webhook"] {
        assert!(!plain.contains(kind), "{kind}: {plain}");
    }
    let on = "monitoring.podMonitor.enabled=true,monitoring.prometheusRule.enabled=true,\
              monitoring.dashboard.enabled=true,exhaustedWebhook.secretName=hook,mode=act";
    let manifest = rendered(&engine, &["--set", on]).unwrap();
    let agents = rendered(&engine, &["--set", on, "--set=agent.enabled=true"]).unwrap();
    assert_eq!(agents.matches("kind: PodMonitor").count(), 2, "{agents}");
    for part in [
        "kind: PodMonitor",
        "kind: PrometheusRule",
        "port: metrics",
        "secretName: hook",
        "resources: [restartledgers/status]\n  verbs: [patch]",
    ] {
        assert!(manifest.contains(part), "{part}: {manifest}");
    }
    // as with --reuse-values of a release that knew neither
    let old = rendered(&engine, &["--set=monitoring=null,exhaustedWebhook=null"]).unwrap();
    assert_eq!(old, plain);
    let file = Path::new(CHART).join("files/dashboard.json");
    let dashboard: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let shown = dashboard["panels"].to_string();
    let counted = std::fs::read_to_string(Path::new(CHART).join("../../docs/metrics.md")).unwrap();
    for name in shown.split(|char: char| !(char.is_ascii_lowercase() || char == '_')) {
        if let Some(name) = name.strip_prefix("rekindle_ladder_") {
            let name = name.trim_end_matches("_bucket");
            assert!(counted.contains(&format!("`rekindle_ladder_{name}`")), "{name}");
        }
    }
}

#[test]
fn the_kustomize_bases_are_the_chart() {
    let engine = Engine::start();
    for (base, values) in [("base", vec![]), ("agents", vec!["--set=mode=act,agent.enabled=true"])]
    {
        let place = ["template", "rekindle", "deploy/chart", "--namespace", NAMESPACE];
        let fixed = ["--skip-crds", "--set=image.repository=rekindle"];
        let arguments = [&place[..], &fixed[..], &values[..]].concat();
        let root = Path::new(CHART).join("../..");
        let output = engine.helm_command(&arguments).current_dir(&root).output().unwrap();
        let file = format!("deploy/kustomize/{base}/rekindle.yaml");
        let kept = std::fs::read_to_string(root.join(&file)).unwrap();
        let command = format!("helm {} > {file}", arguments.join(" "));
        assert!(kept == text(&output.stdout), "{command}");
        let built = engine.kubectl(&["kustomize", &format!("{CHART}/../kustomize/{base}")]);
        assert!(built.contains("image: rekindle:") && !built.contains("namespace: default"));
    }
}

#[test]
fn the_chart_has_the_definitions_of_this_version() {
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    let chart = Path::new(CHART);
    assert!(
        read(&chart.join("crds/crds.yaml")) == read(&chart.join("../crds.yaml")),
        "cp deploy/crds.yaml deploy/chart/crds/crds.yaml"
    );
    let version = read(&chart.join("Chart.yaml"));
    assert!(version.contains(&format!("appVersion: {}", env!("CARGO_PKG_VERSION"))), "{version}");
    let schema: Value = serde_json::from_str(&read(&chart.join("values.schema.json"))).unwrap();
    assert_eq!(schema["additionalProperties"], false);
    let page = read(&chart.join("README.md"));
    let mut values = Vec::new();
    leaves(&schema, &schema, "", &mut values);
    assert!(values.iter().any(|value| value == "monitoring.dashboard.labels"), "{values:?}");
    for value in values.iter().filter(|value| *value != "global") {
        assert!(page.contains(&format!("\n| `{value}` |")), "README.md of the chart: {value}");
    }
}

/// The paths of the values that a schema knows one by one.
fn leaves(schema: &Value, part: &Value, path: &str, found: &mut Vec<String>) {
    let refers = part["$ref"].as_str().and_then(|name| name.strip_prefix("#/definitions/"));
    let part = refers.map_or(part, |name| &schema["definitions"][name]);
    match part["properties"].as_object() {
        Some(properties) => {
            for (name, inner) in properties {
                let dot = if path.is_empty() { "" } else { "." };
                leaves(schema, inner, &format!("{path}{dot}{name}"), found);
            }
        }
        None => found.push(path.to_owned()),
    }
}
