use serde_json::Value;

use super::*;
use crate::testing::{World, container, pod};

async fn ask(agent: &crate::NodeHandle, path: &str) -> String {
    let answer = agent.node_api().get(path, "").await;
    assert_eq!(answer.code, 200, "{path}: {answer:?}");
    String::from_utf8(answer.body.to_vec()).unwrap()
}

async fn running_world() -> (World, crate::NodeHandle) {
    let world = World::new();
    world.machine.usages().memory_bytes.insert("app".to_owned(), 64 << 20);
    world.machine.usages().cpu_ns.insert("app".to_owned(), 2_500_000_000);
    world.api.create("pods", &pod("web", vec![container("app")]));
    let agent = world.agent().await;
    world.until_running("web").await;
    (world, agent)
}

#[tokio::test(start_paused = true)]
async fn the_resource_metrics_are_the_kubelets() {
    let (_world, agent) = running_world().await;
    let text = ask(&agent, "metrics/resource").await;
    let labels = "{container=\"app\",namespace=\"default\",pod=\"web\"}";
    for line in [
        format!("container_cpu_usage_seconds_total{labels} 2.5 "),
        format!("container_memory_working_set_bytes{labels} {} ", 32 << 20),
        "pod_cpu_usage_seconds_total{namespace=\"default\",pod=\"web\"} 2.5 ".to_owned(),
        format!("container_start_time_seconds{labels} 1760000"),
        "resource_scrape_error 0".to_owned(),
    ] {
        assert!(text.lines().any(|found| found.starts_with(&line)), "{line}: {text}");
    }
}

/// Dashboards take what has an image for a container, and what has none for a pod.
#[tokio::test(start_paused = true)]
async fn the_metrics_by_container_have_the_labels_of_cadvisor() {
    let (_world, agent) = running_world().await;
    let text = ask(&agent, "metrics/cadvisor").await;
    let sample = |name: &str, container: &str| {
        let begin = format!("{name}{{container=\"{container}\",");
        let found = text.lines().find(|line| line.starts_with(&begin));
        found.unwrap_or_else(|| panic!("{begin}: {text}")).to_owned()
    };
    for name in [
        "container_cpu_usage_seconds_total",
        "container_memory_working_set_bytes",
        "container_start_time_seconds",
        "container_fs_usage_bytes",
    ] {
        let app = sample(name, "app");
        assert!(app.contains(",image=\"present\",name=\""), "{app}");
        assert!(!app.contains("name=\"\""), "{app}");
    }
    let pod = sample("container_memory_working_set_bytes", "");
    assert!(pod.contains(",image=\"\",name=\"\",namespace=\"default\",pod=\"web\"}"), "{pod}");
}

#[tokio::test(start_paused = true)]
async fn the_summary_has_the_fields_of_stats_v1alpha1() {
    let (_world, agent) = running_world().await;
    let summary: Value = serde_json::from_str(&ask(&agent, "stats/summary").await).unwrap();
    assert_eq!(summary["node"]["nodeName"], "node-a");
    let web = &summary["pods"][0];
    assert_eq!(web["podRef"]["name"], "web");
    let app = &web["containers"][0];
    assert_eq!(app["cpu"]["usageCoreNanoSeconds"], 2_500_000_000_u64);
    assert_eq!(app["memory"]["workingSetBytes"], 32 << 20);
    assert_eq!(app["rootfs"]["inodesUsed"], 1);
    assert!(web["ephemeral-storage"]["usedBytes"].is_u64());
    assert_eq!(web["process_stats"]["process_count"], 1);
    for field in ["cpu", "memory", "fs", "runtime", "rlimit"] {
        assert!(summary["node"][field].is_object(), "{field}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_done_is_counted() {
    let (_world, agent) = running_world().await;
    let text = ask(&agent, "metrics").await;
    for line in [
        "kubelet_node_name{node=\"node-a\"} 1",
        "kubelet_running_pods 1",
        "kubelet_running_containers{container_state=\"running\"} 1",
        "kubelet_started_pods_total 1",
        "kubelet_started_containers_total{container_type=\"container\"} 1",
        "kubelet_pod_start_duration_seconds_count 1",
        "kubelet_runtime_operations_total{operation_type=\"start_container\"} 1",
        "kubelet_runtime_operations_duration_seconds_count{operation_type=\"run_podsandbox\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_figures_come_after_a_second_and_are_rates() {
    let (world, agent) = running_world().await;
    let api = agent.node_api();
    let asked = tokio::spawn(async move { api.resource_figures().await.unwrap() });
    tokio::task::yield_now().await;
    tokio::time::advance(std::time::Duration::from_millis(500)).await;
    world.machine.usages().cpu_ns.insert("app".to_owned(), 3_000_000_000);
    let figures = asked.await.unwrap();
    assert!(figures.window >= TickDuration::from_secs(1), "{figures:?}");
    let (name, app) = &figures.pods[0].containers[0];
    assert_eq!((name.as_str(), app.memory_bytes), ("app", 32 << 20));
    assert!((400_000_000..=500_000_000).contains(&app.cpu_nanocores), "{figures:?}");
}

#[tokio::test(start_paused = true)]
async fn pods_are_told_as_the_node_and_as_the_runtime_know_them() {
    let (_world, agent) = running_world().await;
    let known: Value = serde_json::from_str(&ask(&agent, "pods").await).unwrap();
    assert_eq!(known["kind"], "PodList");
    assert_eq!(known["items"][0]["status"]["phase"], "Running");
    let running: Value = serde_json::from_str(&ask(&agent, "runningpods").await).unwrap();
    assert_eq!(running["items"][0]["spec"]["containers"][0]["name"], "app");
    assert_eq!(ask(&agent, "healthz").await, "ok");
    assert!(ask(&agent, "configz").await.contains("\"maxContainerRestartPeriod\":\"300s\""));
    assert_eq!(agent.node_api().get("secrets", "").await.code, 404);
}
