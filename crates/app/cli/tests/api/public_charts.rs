//! Twenty charts in the manner of well-known ones, each through its whole life with the real helm:
//! applications, agents of nodes, operators with their kinds, webhooks, hooks and claims.
//!
//! What a chart brings is in `public_charts/NAME`: templates and definitions. All is written for
//! this test, from the API's reference.

use std::path::{Path, PathBuf};

use rekindle_testkit::{Engine, TIMEOUT, text};

fn charts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api/public_charts")
}

/// Puts a chart together as helm wants it.
fn write_chart(name: &str, folder: &Path) {
    let source = charts().join(name);
    std::fs::create_dir_all(folder.join("templates")).unwrap();
    let about = format!("{{apiVersion: v2, name: {name}, version: 0.1.0}}");
    std::fs::write(folder.join("Chart.yaml"), about).unwrap();
    std::fs::write(folder.join("values.yaml"), "change: one").unwrap();
    std::fs::copy(charts().join("common.tpl"), folder.join("templates/_common.tpl")).unwrap();
    std::fs::copy(source.join("templates.yaml"), folder.join("templates/all.yaml")).unwrap();
    let definitions = source.join("crds.yaml");
    if definitions.exists() {
        std::fs::create_dir(folder.join("crds")).unwrap();
        std::fs::copy(definitions, folder.join("crds/all.yaml")).unwrap();
    }
}

struct Release<'e> {
    engine: &'e Engine,
    name: &'e str,
    chart: PathBuf,
}

impl Release<'_> {
    #[track_caller]
    fn helm(&self, verb: &str, more: &[&str]) -> String {
        let mut command = self.engine.helm_command(&[verb, self.name]);
        let output = command.args(more).args(["--namespace", self.name]).output().unwrap();
        let printed = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success(), "helm {verb} {} {more:?}: {printed}", self.name);
        printed
    }

    /// What helm has applied.
    #[track_caller]
    fn manifest(&self) -> String {
        let mut command = self.engine.helm_command(&["get", "manifest", self.name]);
        let output = command.args(["--namespace", self.name]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    }

    /// What is there of a manifest.
    #[track_caller]
    fn found(&self, manifest: &str, form: &str) -> String {
        // the namespace of the context: with -n objects of other namespaces would be refused
        let config = self.chart.join("kubeconfig");
        let get = ["get", "--kubeconfig", config.to_str().unwrap(), "-f", "-"];
        let get = [&get[..], &["--ignore-not-found", "-o", form]].concat();
        self.engine.kubectl_with(&get, manifest)
    }

    fn live(&self) {
        const GENERATIONS: &str = "jsonpath={range .items[*]}{.kind} {.metadata.name} \
            {.metadata.generation}{\"\\n\"}{end}";
        let chart = self.chart.to_str().unwrap();
        let wait = ["--wait", TIMEOUT];
        self.helm("install", &[&[chart, "--create-namespace"], &wait[..]].concat());
        let installed = self.found(&self.manifest(), "name");
        assert!(!installed.is_empty(), "{}", self.name);

        let upgrade = [&[chart, "--set", "change=two"], &wait[..]].concat();
        self.helm("upgrade", &upgrade);
        let upgraded = self.found(&self.manifest(), GENERATIONS);
        self.helm("upgrade", &upgrade);
        let again = self.found(&self.manifest(), GENERATIONS);
        assert_eq!(again, upgraded, "{}: the same upgrade changes nothing", self.name);

        self.helm("rollback", &[&["1"], &wait[..]].concat());
        let manifest = self.manifest();
        assert_eq!(self.found(&manifest, "name"), installed, "{}", self.name);

        self.helm("uninstall", &wait);
        assert_eq!(self.found(&manifest, "name"), "", "{}: something is left", self.name);
    }
}

fn live(names: &[&str]) {
    let engine = Engine::start();
    for name in names {
        let folder = tempfile::tempdir().unwrap();
        write_chart(name, folder.path());
        let config = folder.path().join("kubeconfig");
        std::fs::copy(engine.kubeconfig(), &config).unwrap();
        let namespace =
            ["--current", "--namespace", name, "--kubeconfig", config.to_str().unwrap()];
        engine.kubectl(&[&["config", "set-context"], &namespace[..]].concat());
        Release { engine: &engine, name, chart: folder.path().to_owned() }.live();
    }
}

const APPLICATIONS: [&str; 8] =
    ["web-server", "cache", "database", "queue", "dashboard", "identity", "object-store", "backup"];
const CLUSTER_PARTS: [&str; 6] =
    ["log-agent", "node-metrics", "metrics-api", "ingress-controller", "platform", "dns-sync"];
const OPERATORS: [&str; 6] =
    ["certificates", "monitoring", "postgres-operator", "sealed", "gitops", "policy-engine"];

#[test]
fn applications_live_as_helm_wants_them() {
    live(&APPLICATIONS);
}

#[test]
fn parts_of_a_cluster_live_as_helm_wants_them() {
    live(&CLUSTER_PARTS);
}

#[test]
fn operators_live_as_helm_wants_them() {
    live(&OPERATORS);
}

/// A chart that no test names is not tested.
#[test]
fn every_chart_is_tested() {
    let mut tested = [&APPLICATIONS[..], &CLUSTER_PARTS[..], &OPERATORS[..]].concat();
    tested.sort_unstable();
    let entries = std::fs::read_dir(charts()).unwrap().map(|entry| entry.unwrap());
    let folders = entries.filter(|entry| entry.file_type().unwrap().is_dir());
    let mut found: Vec<String> =
        folders.map(|entry| entry.file_name().into_string().unwrap()).collect();
    found.sort_unstable();
    assert_eq!(found, tested);
}
