//! `rekindle operator` on a cluster with its own controllers, scheduler and kubelet: an
//! engine with --no-ladders plays it.
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Output, Stdio};
use std::sync::mpsc::Receiver;

use rekindle_testkit::guarded_child::GuardedChild;
use rekindle_testkit::prometheus::{Metrics, ask_endpoint};
use rekindle_testkit::{Engine, PATIENCE, rekindle, text};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::webhook::Hook;

/// A container that always fails; the node restarts it after a second at most.
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
";
const NAMESPACE: &str = "rekindle-system";

/// A cluster with the namespace `default` enabled.
fn cluster() -> Engine {
    let engine = Engine::start_with(&["--no-ladders", "--max-container-restart-period", "1s"]);
    engine.kubectl(&["create", "namespace", NAMESPACE]);
    engine.kubectl(&["label", "namespace", "default", "rekindle.dev/ladder=enabled"]);
    engine
}

/// The operator's process; killed when it is dropped.
struct OperatorProcess {
    child: GuardedChild,
    lines: Receiver<String>,
}

impl OperatorProcess {
    /// Started, and it leads.
    fn start(engine: &Engine, mode: &str) -> Self {
        let operator = Self::spawn(engine, &["--mode", mode]);
        operator.says("leads");
        operator
    }

    fn spawn(engine: &Engine, arguments: &[&str]) -> Self {
        let mut command = rekindle();
        command.args(["operator", "--on-engine"]).args(arguments);
        command.arg("--kubeconfig").arg(engine.kubeconfig());
        let mut child = GuardedChild::start(command.stderr(Stdio::piped()));
        let lines = child.all_lines();
        Self { child, lines }
    }

    /// The line that says so.
    #[track_caller]
    fn says(&self, what: &str) -> String {
        let mut said = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            if line.contains(what) {
                return line;
            }
            said.push(line);
        }
        panic!("nothing about {what:?} in {said:#?}")
    }

    /// It gives its lease back: the next one leads at once.
    fn stop(mut self) {
        kill_process(Pid::from_child(&self.child.0), Signal::TERM).unwrap();
        assert!(self.child.0.wait().unwrap().success());
    }
}

#[track_caller]
fn report(engine: &Engine, arguments: &[&str]) -> String {
    let mut command = rekindle();
    command.arg("report").args(arguments).arg("--kubeconfig").arg(engine.kubeconfig());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn it_observes_reports_and_when_it_acts_makes_a_new_pod() {
    let engine = cluster();
    let observing = OperatorProcess::start(&engine, "observe");
    engine.apply(SICK);
    let ledgers = engine.until(&["restartledgers"], |ledgers| {
        ledgers.values().any(|ledger| ledger["status"]["phase"] == "Exhausted")
    });
    let ledger = ledgers.values().next().unwrap();
    let noted: Vec<&str> = ledger["status"]["decisions"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|decision| decision["rung"].as_str())
        .filter(|rung| *rung != "Container")
        .collect();
    assert_eq!(noted, ["Recreate", "Reschedule", "Reschedule"], "{ledger}");
    let before = engine.items("pods");
    assert_eq!(before.len(), 1, "no pod was touched: {before:?}");
    assert!(before[0]["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap() >= 5);
    assert_eq!(engine.items("podrestarts"), Vec::<Value>::new());
    let is_of_ladder = |event: &Value| event["source"]["component"] == "restart-ladder";
    assert!(!engine.items("events").iter().any(is_of_ladder));

    let table = report(&engine, &[]);
    assert!(table.contains("deployment/sick") && table.contains("(proposed)"), "{table}");
    assert!(table.contains("Recreate 1, Reschedule 2"), "{table}");
    let json: Value = serde_json::from_str(&report(&engine, &["-o", "json"])).unwrap();
    assert_eq!(json["workloads"][0]["wouldHaveDone"]["Reschedule"], 2, "{json}");
    let ladders = report(&engine, &["-o", "yaml", "-n", "default"]);
    let applied = engine.apply(&ladders);
    assert!(applied.contains("restartladder.rekindle.dev/sick-deployment created"), "{applied}");

    observing.stop();
    let _acting = OperatorProcess::start(&engine, "act");
    let old = before[0]["metadata"]["uid"].clone();
    engine.until(&["pods"], |pods| {
        let mut uids = pods.values().map(|pod| &pod["metadata"]["uid"]);
        !pods.is_empty() && uids.all(|uid| *uid != old)
    });
    let asked = engine.items("podrestarts");
    assert!(asked.iter().any(|request| request["spec"]["rung"] == "Recreate"), "{asked:?}");
    engine.wait_for("restartladder/sick-deployment", ".status.conditions[0].reason", "Accepted");
    // what the node's agent would carry out on an engine is refused where there is none
    engine.apply(
        "
apiVersion: rekindle.dev/v1alpha1
kind: PodRestart
metadata: {name: in-place}
spec: {podName: nothing, rung: Pod}
",
    );
    let refused =
        engine.until_one("podrestart/in-place", |request| request["status"]["phase"] == "Refused");
    let message = refused["status"]["message"].as_str().unwrap();
    assert_eq!(message, "there is no pod nothing");
}

/// What a command says as it fails.
fn refusal(mut command: std::process::Command) -> String {
    let Output { status, stderr, .. } = command.output().unwrap();
    assert!(!status.success());
    text(&stderr)
}

#[test]
fn it_does_not_begin_where_it_does_not_belong() {
    let engine = Engine::start();
    let operator = |arguments: &[&str]| {
        let mut command = rekindle();
        command.arg("operator").args(arguments);
        command
    };
    let kubeconfig = engine.kubeconfig().display().to_string();
    let error = refusal(operator(&["--kubeconfig", &kubeconfig]));
    assert!(error.contains("which runs the ladders itself"), "{error}");
    let error = refusal(operator(&["--kubeconfig", &kubeconfig, "--on-engine"]));
    assert!(error.contains("kubectl create namespace rekindle-system"), "{error}");
    let mut nowhere = operator(&[]);
    nowhere.env_remove("KUBERNETES_SERVICE_HOST");
    let error = refusal(nowhere);
    assert!(error.contains("neither --kubeconfig nor KUBECONFIG names a cluster"), "{error}");
}

/// An API that says that it is a Kubernetes of this version, and serves nothing.
fn foreign_api() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut asked = String::new();
            let mut lines = BufReader::new(stream.try_clone().unwrap());
            lines.read_line(&mut asked).unwrap();
            let mut line = String::new();
            while lines.read_line(&mut line).unwrap() > 2 {
                line.clear();
            }
            let (status, body) = if asked.contains("/version") {
                let version = r#"{"major":"1","minor":"36","gitVersion":"v1.36.2","gitCommit":"","gitTreeState":"","buildDate":"","goVersion":"","compiler":"","platform":""}"#;
                ("200 OK", version)
            } else {
                let status = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"NotFound","message":"not found","code":404}"#;
                ("404 Not Found", status)
            };
            write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
            .unwrap();
        }
    });
    address
}

#[test]
fn controllers_do_not_begin_on_a_cluster_and_an_operator_asks_for_its_kinds() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let address = foreign_api();
    std::fs::write(
        &kubeconfig,
        format!(
            "{{apiVersion: v1, kind: Config, current-context: c, clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}], \
             users: [{{name: u, user: {{}}}}], contexts: [{{name: c, context: {{cluster: c, user: u}}}}]}}"
        ),
    )
    .unwrap();
    let command = |name: &str| {
        let mut command = rekindle();
        command.arg(name).arg("--kubeconfig").arg(&kubeconfig);
        command
    };
    let error = refusal(command("controllers"));
    assert!(error.contains("v1.36.2, which has controllers of its own"), "{error}");
    let error = refusal(command("operator"));
    assert!(error.contains("rekindle crds | kubectl apply --server-side -f -"), "{error}");
}

#[test]
fn it_is_monitored_and_reports_an_exhausted_ladder_to_the_webhook() {
    let engine = cluster();
    let hook = Hook::listen(&[]);
    let mut url = tempfile::NamedTempFile::new().unwrap();
    url.write_all(hook.url.as_bytes()).unwrap();
    let url = format!("--exhausted-webhook-file={}", url.path().display());
    let arguments = ["--mode=act", "--metrics-bind-address=127.0.0.1:0", &url];
    let operator = OperatorProcess::spawn(&engine, &arguments);
    let line = operator.says("metrics: http://");
    let address = line.strip_prefix("metrics: http://").unwrap().strip_suffix("/metrics").unwrap();
    operator.says("leads");
    assert_eq!(ask_endpoint(address, "GET", "/readyz"), ("200".to_owned(), "ok".to_owned()));
    assert_eq!(ask_endpoint(address, "GET", "/healthz").0, "200");
    assert_eq!(ask_endpoint(address, "POST", "/metrics").0, "405");
    assert_eq!(ask_endpoint(address, "GET", "/secrets").0, "404");
    engine.apply(SICK);
    engine.apply(
        "
apiVersion: rekindle.dev/v1alpha1
kind: RestartLadder
metadata: {name: sick}
spec: {selector: {matchLabels: {app: sick}}, rungs: [{rung: Container, attempts: 1}]}
",
    );
    let notice = hook.next();
    assert!(notice.to_string().contains("sick"), "{notice}");
    let metrics = Metrics::read(&ask_endpoint(address, "GET", "/metrics").1);
    let leads = metrics.value("leader_election_master_status", &[("name", "rekindle-operator")]);
    assert_eq!(leads, 1.0);
    assert_eq!(metrics.value("rekindle_ladder_exhausted_total", &[]), 1.0);
    assert!(metrics.value("process_resident_memory_bytes", &[]) > 0.0);

    let observing = OperatorProcess::spawn(&engine, &["--mode=observe", &url]);
    observing.says("mode observe: exhausted ladders are not reported");
    let taken = OperatorProcess::spawn(&engine, &["--metrics-bind-address", address]);
    taken.says("listen at --metrics-bind-address");
}

#[test]
fn an_operator_does_nothing_while_another_release_has_the_rights() {
    let engine = cluster();
    let bind = || {
        let bound = ["--clusterrole=view", "--serviceaccount=tools:rekindle-operator"];
        let create = ["create", "clusterrolebinding", "rekindle-operator"];
        engine.kubectl(&[&create[..], &bound[..]].concat());
    };
    bind();
    let operator = OperatorProcess::spawn(&engine, &["--mode", "act"]);
    operator.says("the operator of namespace tools acts in this cluster");
    let leases = || engine.kubectl(&["get", "leases", "--namespace", NAMESPACE, "-o", "name"]);
    assert_eq!(leases(), "", "it is no candidate");
    engine.kubectl(&["delete", "clusterrolebinding", "rekindle-operator"]);
    operator.says("leads");
    bind();
    operator.says("the operator of namespace tools acts in this cluster");
    engine.until(&["leases", "--namespace", NAMESPACE], |leases| {
        let mut holders = leases.values().map(|lease| &lease["spec"]["holderIdentity"]);
        holders.all(|holder| holder.as_str().unwrap_or_default().is_empty())
    });
    operator.stop();
}
