//! `/metrics/resource`: what metrics-server and autoscalers read. Names, labels and times as the kubelet's.

use rekindle_runtime::{CgroupUsage, RuntimeError};
use rekindle_types::Tick;
use rekindle_types::metrics::{Kind, Text};

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
            tracing::warn!(error = error.chain(), "the node's figures cannot be read");
            1.0
        }
    };
    text.single(
        "resource_scrape_error",
        Kind::Gauge,
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

fn node(text: &mut Text, usage: &NodeUsage) {
    let families: [(&'static str, Kind, &str, Figure); 2] = [
        (
            "node_cpu_usage_seconds_total",
            Kind::Counter,
            "Cumulative cpu time consumed by the node in core-seconds",
            cpu_seconds,
        ),
        (
            "node_memory_working_set_bytes",
            Kind::Gauge,
            "Current working set of the node in bytes",
            memory_bytes,
        ),
    ];
    for (name, kind, help, figure) in families {
        text.family(name, kind, help);
        if let Some(value) = figure(&usage.node.cgroup) {
            text.sample_at(&[], value, millis(usage.node.cgroup.taken_at));
        }
    }
}

fn containers(text: &mut Text, usage: &NodeUsage) {
    let families: [(&'static str, Kind, &str, Figure); 2] = [
        (
            "container_cpu_usage_seconds_total",
            Kind::Counter,
            "Cumulative cpu time consumed by the container in core-seconds",
            cpu_seconds,
        ),
        (
            "container_memory_working_set_bytes",
            Kind::Gauge,
            "Current working set of the container in bytes",
            memory_bytes,
        ),
    ];
    for (name, kind, help, figure) in families {
        text.family(name, kind, help);
        each_container(usage, |labels, found, _| {
            if let Some(value) = figure(found) {
                text.sample_at(labels, value, millis(found.taken_at));
            }
        });
    }
    text.family(
        "container_start_time_seconds",
        Kind::Gauge,
        "Start time of the container since unix epoch in seconds",
    );
    each_container(usage, |labels, _, started_at| {
        text.sample(labels, std::time::Duration::from_micros(started_at.as_micros()).as_secs_f64());
    });
}

/// Every running container.
fn each_container(usage: &NodeUsage, mut see: impl FnMut(&[(&str, &str)], &CgroupUsage, Tick)) {
    for pod in &usage.pods {
        for container in &pod.containers {
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
}

fn pods(text: &mut Text, usage: &NodeUsage) {
    let families: [(&'static str, Kind, &str, Figure); 2] = [
        (
            "pod_cpu_usage_seconds_total",
            Kind::Counter,
            "Cumulative cpu time consumed by the pod in core-seconds",
            cpu_seconds,
        ),
        (
            "pod_memory_working_set_bytes",
            Kind::Gauge,
            "Current working set of the pod in bytes",
            memory_bytes,
        ),
    ];
    for (name, kind, help, figure) in families {
        text.family(name, kind, help);
        for PodUsage { pod_ref, cgroup, .. } in &usage.pods {
            if let Some(found) = cgroup
                && let Some(value) = figure(found)
            {
                let labels =
                    [("namespace", pod_ref.namespace.as_str()), ("pod", pod_ref.name.as_str())];
                text.sample_at(&labels, value, millis(found.taken_at));
            }
        }
    }
}
