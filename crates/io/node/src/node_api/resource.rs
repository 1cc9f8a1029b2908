//! `/metrics/resource`: what metrics-server and autoscalers read. Names, labels and times as the
//! kubelet's.

use rekindle_metrics::{MetricKind, Text};
use rekindle_runtime::{CgroupUsage, RuntimeError};
use rekindle_types::Tick;

use crate::usage::{NodeUsage, PodUsage};

pub(super) fn text(usage: Result<NodeUsage, RuntimeError>) -> Text {
    let mut text = Text::default();
    let error = match usage {
        Ok(usage) => {
            node(&mut text, &usage);
            containers(&mut text, &usage);
            pods(&mut text, &usage);
            0.0
        }
        Err(error) => {
            tracing::warn!(error = error.chain(), "failed to read the node's usage");
            1.0
        }
    };
    text.single(
        "resource_scrape_error",
        MetricKind::Gauge,
        "1 if there was an error while getting container metrics, 0 otherwise",
        error,
    );
    text
}

fn cpu_seconds(usage: &CgroupUsage) -> Option<f64> {
    Some(usage.cpu?.usage_ns as f64 / 1e9)
}

fn memory_bytes(usage: &CgroupUsage) -> Option<f64> {
    Some(usage.memory.working_set_bytes as f64)
}

fn millis(at: Tick) -> u64 {
    at.as_micros() / 1000
}

type Figure = fn(&CgroupUsage) -> Option<f64>;

/// The families that a node, its containers and its pods all have.
macro_rules! cpu_and_memory {
    ($subject:literal) => {{
        let families: [(&'static str, MetricKind, &str, Figure); 2] = [
            (
                concat!($subject, "_cpu_usage_seconds_total"),
                MetricKind::Counter,
                concat!("Cumulative cpu time consumed by the ", $subject, " in core-seconds"),
                cpu_seconds,
            ),
            (
                concat!($subject, "_memory_working_set_bytes"),
                MetricKind::Gauge,
                concat!("Current working set of the ", $subject, " in bytes"),
                memory_bytes,
            ),
        ];
        families
    }};
}

fn sample(text: &mut Text, labels: &[(&str, &str)], of: &CgroupUsage, figure: Figure) {
    if let Some(value) = figure(of) {
        text.sample_at(labels, value, millis(of.taken_at));
    }
}

fn node(text: &mut Text, usage: &NodeUsage) {
    for (name, kind, help, figure) in cpu_and_memory!("node") {
        text.family(name, kind, help);
        sample(text, &[], &usage.node.cgroup, figure);
    }
}

fn containers(text: &mut Text, usage: &NodeUsage) {
    for (name, kind, help, figure) in cpu_and_memory!("container") {
        text.family(name, kind, help);
        each_container(usage, |labels, found, _| sample(text, labels, found, figure));
    }
    text.family(
        "container_start_time_seconds",
        MetricKind::Gauge,
        "Start time of the container since unix epoch in seconds",
    );
    each_container(usage, |labels, _, started_at| {
        text.sample(labels, std::time::Duration::from_micros(started_at.as_micros()).as_secs_f64());
    });
}

/// Every running container.
fn each_container(usage: &NodeUsage, mut see: impl FnMut(&[(&str, &str)], &CgroupUsage, Tick)) {
    for (pod, container) in usage.containers() {
        if let (Some(found), Some(started_at)) = (&container.cgroup, container.started_at) {
            let labels = [
                ("container", container.name.0.as_str()),
                ("namespace", pod.pod_ref.namespace.as_str()),
                ("pod", pod.pod_ref.name.as_str()),
            ];
            see(&labels, found, started_at);
        }
    }
}

fn pods(text: &mut Text, usage: &NodeUsage) {
    for (name, kind, help, figure) in cpu_and_memory!("pod") {
        text.family(name, kind, help);
        for PodUsage { pod_ref, cgroup, .. } in &usage.pods {
            let labels =
                [("namespace", pod_ref.namespace.as_str()), ("pod", pod_ref.name.as_str())];
            if let Some(found) = cgroup {
                sample(text, &labels, found, figure);
            }
        }
    }
}
