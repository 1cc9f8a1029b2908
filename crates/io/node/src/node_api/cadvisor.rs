//! `/metrics/cadvisor`: figures by container under cAdvisor's names, for dashboards that know no
//! others. The pod as a whole has an empty `container` label, as there.

use k8s_openapi::api::core::v1::Pod;
use rekindle_metrics::{MetricKind, Text};
use rekindle_runtime::{CgroupUsage, CpuUsage};

use crate::usage::{ContainerUsage, NodeUsage, PodUsage, TreeMeasurement};

type Figure = fn(&CgroupUsage) -> Option<u64>;

fn cpu(usage: &CgroupUsage, figure: fn(&CpuUsage) -> u64) -> Option<u64> {
    usage.cpu.as_ref().map(figure)
}

/// Name, kind, help, by how much to divide, where it is.
const FAMILIES: &[(&str, MetricKind, &str, f64, Figure)] = &[
    (
        "container_cpu_usage_seconds_total",
        MetricKind::Counter,
        "Cumulative cpu time consumed in seconds.",
        1e9,
        |usage| cpu(usage, |cpu| cpu.usage_ns),
    ),
    (
        "container_cpu_cfs_periods_total",
        MetricKind::Counter,
        "Number of elapsed enforcement period intervals.",
        1.0,
        |usage| cpu(usage, |cpu| cpu.periods),
    ),
    (
        "container_cpu_cfs_throttled_periods_total",
        MetricKind::Counter,
        "Number of throttled period intervals.",
        1.0,
        |usage| cpu(usage, |cpu| cpu.throttled_periods),
    ),
    (
        "container_cpu_cfs_throttled_seconds_total",
        MetricKind::Counter,
        "Total time duration the container has been throttled.",
        1e9,
        |usage| cpu(usage, |cpu| cpu.throttled_ns),
    ),
    (
        "container_memory_usage_bytes",
        MetricKind::Gauge,
        "Current memory usage in bytes, including all memory regardless of when it was accessed",
        1.0,
        |usage| Some(usage.memory.usage_bytes),
    ),
    (
        "container_memory_working_set_bytes",
        MetricKind::Gauge,
        "Current working set in bytes.",
        1.0,
        |usage| Some(usage.memory.working_set_bytes),
    ),
    ("container_memory_rss", MetricKind::Gauge, "Size of RSS in bytes.", 1.0, |usage| {
        Some(usage.memory.rss_bytes)
    }),
    (
        "container_oom_events_total",
        MetricKind::Counter,
        "Count of out of memory events observed for the container",
        1.0,
        |usage| Some(usage.memory.oom_kills),
    ),
    (
        "container_threads",
        MetricKind::Gauge,
        "Number of threads running inside the container",
        1.0,
        |usage| usage.pids,
    ),
];

pub(super) fn text(usage: &NodeUsage) -> Text {
    let mut text = Text::default();
    for (name, kind, help, divisor, figure) in FAMILIES {
        text.family(name, *kind, help);
        for pod in &usage.pods {
            let (uid, name) = (pod.pod_ref.uid.0.as_str(), pod.pod_ref.name.as_str());
            let of_pod = [
                ("container", ""),
                ("id", uid),
                ("image", ""),
                ("name", ""),
                ("namespace", &pod.pod_ref.namespace),
                ("pod", name),
            ];
            let mut sample = |labels: &[(&str, &str)], found: &CgroupUsage| {
                if let Some(value) = figure(found) {
                    let at = found.taken_at.as_micros() / 1000;
                    text.sample_at(labels, value as f64 / divisor, at);
                }
            };
            if let Some(found) = &pod.cgroup {
                sample(&of_pod, found);
            }
            for container in &pod.containers {
                if let Some(found) = &container.cgroup {
                    sample(&container_labels(pod, container), found);
                }
            }
        }
    }
    starts(&mut text, usage);
    files(&mut text, usage);
    network(&mut text, usage);
    text.single(
        "machine_memory_bytes",
        MetricKind::Gauge,
        "Amount of memory installed on the machine.",
        usage.node.memory_capacity_bytes as f64,
    );
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    text.single(
        "machine_cpu_cores",
        MetricKind::Gauge,
        "Number of logical CPU cores.",
        cores as f64,
    );
    text
}

/// `id` is a path to cAdvisor; what tells containers of one name apart is their id, here as there
/// in `name`.
fn container_labels<'a>(
    pod: &'a PodUsage,
    container: &'a ContainerUsage,
) -> [(&'static str, &'a str); 6] {
    [
        ("container", &container.name.0),
        ("id", &container.id),
        ("image", image_of(&pod.pod, &container.name.0)),
        ("name", &container.id),
        ("namespace", &pod.pod_ref.namespace),
        ("pod", &pod.pod_ref.name),
    ]
}

/// As the pod's spec says it.
fn image_of<'a>(pod: &'a Pod, container: &str) -> &'a str {
    let Some(spec) = &pod.spec else { return "" };
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let usual = containers.map(|found| (&found.name, &found.image));
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    let mut all = usual.chain(ephemeral.map(|found| (&found.name, &found.image)));
    let found = all.find(|(name, _)| *name == container);
    found.and_then(|(_, image)| image.as_deref()).unwrap_or_default()
}

fn starts(text: &mut Text, usage: &NodeUsage) {
    text.family(
        "container_start_time_seconds",
        MetricKind::Gauge,
        "Start time of the container since unix epoch in seconds.",
    );
    for (pod, container) in usage.containers() {
        if let Some(at) = container.started_at {
            let seconds = at.as_micros() as f64 / 1e6;
            text.sample(&container_labels(pod, container), seconds);
        }
    }
}

fn files(text: &mut Text, usage: &NodeUsage) {
    text.family(
        "container_fs_usage_bytes",
        MetricKind::Gauge,
        "Number of bytes that are consumed by the container on this filesystem.",
    );
    for (pod, container) in usage.containers() {
        let parts: Vec<TreeMeasurement> =
            [container.layer, container.logs].into_iter().flatten().collect();
        let Some(taken_at) = parts.iter().map(|part| part.taken_at).min() else { continue };
        let bytes: u64 = parts.iter().map(|part| part.usage.bytes).sum();
        let labels = container_labels(pod, container);
        text.sample_at(&labels, bytes as f64, taken_at.as_micros() / 1000);
    }
}

fn network(text: &mut Text, usage: &NodeUsage) {
    type Counter = fn(&rekindle_net::InterfaceCounters) -> u64;
    let families: [(&'static str, &str, Counter); 8] = [
        ("container_network_receive_bytes_total", "Cumulative count of bytes received", |found| {
            found.rx_bytes
        }),
        (
            "container_network_receive_errors_total",
            "Cumulative count of errors encountered while receiving",
            |found| found.rx_errors,
        ),
        (
            "container_network_receive_packets_dropped_total",
            "Cumulative count of packets dropped while receiving",
            |found| found.rx_dropped,
        ),
        (
            "container_network_receive_packets_total",
            "Cumulative count of packets received",
            |found| found.rx_packets,
        ),
        (
            "container_network_transmit_bytes_total",
            "Cumulative count of bytes transmitted",
            |found| found.tx_bytes,
        ),
        (
            "container_network_transmit_errors_total",
            "Cumulative count of errors encountered while transmitting",
            |found| found.tx_errors,
        ),
        (
            "container_network_transmit_packets_dropped_total",
            "Cumulative count of packets dropped while transmitting",
            |found| found.tx_dropped,
        ),
        (
            "container_network_transmit_packets_total",
            "Cumulative count of packets transmitted",
            |found| found.tx_packets,
        ),
    ];
    for (name, help, counter) in families {
        text.family(name, MetricKind::Counter, help);
        for pod in &usage.pods {
            for found in &pod.network {
                let labels = [
                    ("container", ""),
                    ("id", pod.pod_ref.uid.0.as_str()),
                    ("image", ""),
                    ("interface", found.name.as_str()),
                    ("name", ""),
                    ("namespace", pod.pod_ref.namespace.as_str()),
                    ("pod", pod.pod_ref.name.as_str()),
                ];
                text.sample(&labels, counter(found) as f64);
            }
        }
    }
}
