//! What pods use, as kubectl top, Prometheus and the users of a kubelet's API see it, on real
//! containers.
use std::process::Stdio;
use std::time::Instant;

use rekindle_testkit::prometheus::Metrics;
use rekindle_testkit::{Engine, PATIENCE, text};
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// One container burns a tenth of a core, the other has written 40 MiB into memory and 24 MiB onto
/// the disk.
const BUSY: &str = "
apiVersion: v1
kind: Pod
metadata: {name: busy, labels: {app: busy}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: burner
    image: localhost/host
    command: [sh, -c, 'while :; do :; done']
    resources: {limits: {cpu: 100m}}
  - name: holder
    image: localhost/host
    command:
    - sh
    - -c
    - 'head -c 41943040 /dev/zero > /memory/file; head -c 25165824 /dev/zero > /disk/file; echo written; touch /disk/done; exec sleep infinity'
    readinessProbe: {exec: {command: [test, -e, /disk/done]}, periodSeconds: 1, timeoutSeconds: 60}
    resources: {requests: {cpu: 200m}} # without, a busy machine has next to no time for it
    volumeMounts:
    - {name: memory, mountPath: /memory}
    - {name: disk, mountPath: /disk}
  volumes:
  - {name: memory, emptyDir: {medium: Memory}}
  - {name: disk, emptyDir: {}}
";

fn busy_engine() -> Engine {
    let engine = Engine::start();
    engine.apply(BUSY);
    engine.wait_ready("busy");
    engine
}

fn node(engine: &Engine, path: &str) -> String {
    engine.kubectl(&["get", "--raw", &format!("/api/v1/nodes/node-1/proxy/{path}")])
}

fn metrics(engine: &Engine, path: &str) -> Metrics {
    Metrics::read(&node(engine, path))
}

/// Looks again and again until a counter is above what it was.
#[track_caller]
fn wait_for_more(engine: &Engine, path: &str, name: &str, labels: &[(&str, &str)], before: f64) {
    let deadline = Instant::now() + PATIENCE;
    while metrics(engine, path).value(name, labels) <= before {
        assert!(Instant::now() < deadline, "{name}: {before} and no more");
    }
}

/// The numbers of a line of `kubectl top`, its units taken off.
fn numbers(line: &str) -> Vec<u64> {
    let digits = |word: &str| word.trim_end_matches(char::is_alphabetic).parse().ok();
    line.split_whitespace().filter_map(digits).collect()
}

#[test]
fn kubectl_top_shows_what_burns_and_what_holds() {
    let engine = busy_engine();
    let table = engine.kubectl(&["top", "pods", "--containers", "--no-headers"]);
    let line = |name: &str| table.lines().find(|line| line.contains(name)).map(numbers).unwrap();
    let (burner, holder) = (line("burner"), line("holder"));
    // at least what a second of the burner is beside the other's probe; at most its limit, and as
    // much again for the clock
    assert!((holder[0] + 1..=200).contains(&burner[0]), "millicores of both: {table}");
    assert!((40..=120).contains(&holder[1]), "MiB of the holder: {table}");
    let selected = engine.kubectl(&["top", "pods", "-l", "app=busy", "--no-headers"]);
    assert_eq!(selected.lines().count(), 1, "{selected}");
    let nodes = engine.kubectl(&["top", "nodes", "--no-headers"]);
    assert!(nodes.starts_with("node-1 ") && nodes.contains('%'), "{nodes}");
}

#[test]
fn the_metrics_are_told_under_the_kubelets_names_in_a_form_that_every_scraper_reads() {
    let engine = busy_engine();
    let labels = [("namespace", "default"), ("pod", "busy")];
    let of = |container| [labels[0], labels[1], ("container", container)];
    let first = metrics(&engine, "metrics/resource");
    let cpu = "container_cpu_usage_seconds_total";
    let burnt = first.value(cpu, &of("burner"));
    assert!(burnt > 0.0);
    // It is held still for 90 ms of every 100, so two looks may see the same.
    wait_for_more(&engine, "metrics/resource", cpu, &of("burner"), burnt);
    let memory = first.value("container_memory_working_set_bytes", &of("holder"));
    assert!(memory >= (40 * MIB) as f64, "{memory}");
    assert!(first.value("pod_memory_working_set_bytes", &labels) >= memory);
    assert!(first.value("container_start_time_seconds", &of("holder")) > 1.7e9);
    assert!(first.value("node_memory_working_set_bytes", &[]) > memory);
    assert!(first.value("resource_scrape_error", &[]) == 0.0);

    let own = metrics(&engine, "metrics");
    assert!(own.value("kubelet_running_pods", &[]) == 1.0);
    assert!(own.value("kubelet_running_containers", &[("container_state", "running")]) == 2.0);
    assert!(own.value("kubelet_pod_start_duration_seconds_count", &[]) == 1.0);
    let started = [("container_type", "container")];
    assert!(own.value("kubelet_started_containers_total", &started) == 2.0);
    let created = [("operation_type", "create_container")];
    assert!(own.value("kubelet_runtime_operations_total", &created) == 2.0);
    assert!(own.value("process_resident_memory_bytes", &[]) > MIB as f64);

    let probes = metrics(&engine, "metrics/probes");
    let successful = [("result", "successful"), ("probe_type", "Readiness"), ("pod", "busy")];
    assert!(probes.value("prober_probe_total", &successful) >= 1.0);
    let throttled = "container_cpu_cfs_throttled_periods_total";
    wait_for_more(&engine, "metrics/cadvisor", throttled, &of("burner"), 0.0);
}

#[test]
fn the_summary_counts_processes_memory_network_volumes_and_logs() {
    let engine = busy_engine();
    let summary: Value = serde_json::from_str(&node(&engine, "stats/summary")).unwrap();
    assert_eq!(summary["node"]["nodeName"], "node-1");
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{summary:#}"));
    assert!(number(&summary["node"]["memory"]["availableBytes"]) > 0);
    assert!(number(&summary["node"]["fs"]["capacityBytes"]) > 0);
    assert!(number(&summary["node"]["rlimit"]["curproc"]) > 1);
    let busy = &summary["pods"][0];
    assert_eq!(busy["podRef"]["name"], "busy");
    let container = |name: &str| {
        let all = busy["containers"].as_array().unwrap();
        all.iter().find(|found| found["name"] == name).unwrap().clone()
    };
    let holder = container("holder");
    assert!(number(&holder["memory"]["workingSetBytes"]) >= 40 * MIB);
    assert!(number(&holder["logs"]["usedBytes"]) > 0);
    assert!(number(&container("burner")["cpu"]["usageCoreNanoSeconds"]) > 0);
    let volume = |name: &str| {
        let all = busy["volume"].as_array().unwrap();
        all.iter().find(|found| found["name"] == name).unwrap().clone()
    };
    assert!((24 * MIB..25 * MIB).contains(&number(&volume("disk")["usedBytes"])));
    assert_eq!(number(&volume("disk")["inodesUsed"]), 3);
    assert!(number(&volume("memory")["usedBytes"]) >= 40 * MIB);
    let storage = number(&busy["ephemeral-storage"]["usedBytes"]);
    assert!((24 * MIB..30 * MIB).contains(&storage), "the memory volume does not count: {storage}");
    assert_eq!(busy["network"]["name"], "eth0");
    assert!(number(&busy["process_stats"]["process_count"]) >= 2);
}

#[test]
fn the_api_server_tells_of_its_requests_its_objects_and_its_health() {
    let engine = busy_engine();
    let own = Metrics::read(&engine.kubectl(&["get", "--raw", "/metrics"]));
    let created = [("verb", "POST"), ("resource", "pods"), ("subresource", ""), ("code", "201")];
    assert!(own.value("apiserver_request_total", &created) >= 1.0);
    let time = [("verb", "POST"), ("resource", "pods"), ("subresource", "")];
    assert!(own.value("apiserver_request_duration_seconds_count", &time) >= 1.0);
    assert!(
        own.value("apiserver_longrunning_requests", &[("resource", "nodes"), ("verb", "WATCH")])
            >= 1.0
    );
    assert!(own.value("apiserver_resource_objects", &[("resource", "pods")]) == 1.0);
    let told = engine.kubectl(&["get", "--raw", "/livez?verbose"]);
    assert_eq!(told, "[+]ping ok\n[+]etcd ok\nlivez check passed\n");
    assert_eq!(engine.kubectl(&["get", "--raw", "/readyz/etcd"]), "ok");
    let pods: Value = serde_json::from_str(&node(&engine, "pods")).unwrap();
    assert_eq!(pods["items"][0]["status"]["phase"], "Running");
    assert_eq!(node(&engine, "healthz"), "ok");
    assert!(node(&engine, "configz").contains("maxContainerRestartPeriod"));
    assert!(node(&engine, "runningpods/").contains("busy"));
}

#[test]
fn whoever_may_not_look_sees_nothing() {
    let engine = Engine::start();
    let paths = [
        "/metrics",
        "/api/v1/nodes/node-1/proxy/metrics/resource",
        "/api/v1/nodes/node-1/proxy/stats/summary",
        "/apis/metrics.k8s.io/v1beta1/nodes",
        "/apis/metrics.k8s.io/v1beta1/pods",
    ];
    for path in paths {
        let refused = engine.kubectl_fails(&["get", "--raw", path, "--as=bob"], "");
        assert!(refused.contains("Forbidden") && refused.contains("bob"), "{path}: {refused}");
        let nobody = engine
            .kubectl_command(&["get", "--raw", path, "--insecure-skip-tls-verify", "--token=none"])
            .args(["--server", &engine.api])
            .env("KUBECONFIG", "/dev/null")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let told = text(&nobody.stderr);
        assert!(!nobody.status.success() && told.contains("Unauthorized"), "{path}: {told}");
    }
    let absent = engine.kubectl_fails(&["get", "--raw", "/api/v1/nodes/no/proxy/metrics"], "");
    assert!(absent.contains("nodes \"no\" not found"), "{absent}");
    let posted = ["create", "--raw", "/api/v1/nodes/node-1/proxy/run/default/a/b", "-f", "-"];
    let refused = engine.kubectl_fails(&posted, "{}");
    assert!(refused.contains("does not allow this method"), "{refused}");
}
