//! `/metrics`: what the agent counts, what runs now, and its process.

use std::collections::BTreeMap;
use std::fs;

use rekindle_metrics::{MetricKind, ProcessFiles, Text};
use rekindle_runtime::{RuntimeContainerState, SandboxReadiness, SandboxSnapshot};

use crate::config::NodeConfig;
use crate::counters::AgentCounters;

/// Reads about this process. Blocks, shortly.
pub(super) fn process() -> ProcessFiles {
    let open_files = fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
    ProcessFiles {
        stat: fs::read_to_string("/proc/self/stat").unwrap_or_default(),
        machine_stat: fs::read_to_string("/proc/stat").unwrap_or_default(),
        open_files: open_files.and_then(|count| u64::try_from(count).ok()),
    }
}

pub(super) fn text(
    config: &NodeConfig,
    counters: &AgentCounters,
    snapshot: &[SandboxSnapshot],
    process: &ProcessFiles,
) -> Text {
    let mut text = Text::default();
    text.family("kubelet_node_name", MetricKind::Gauge, "The node's name. The count is always 1.");
    text.sample(&[("node", &config.name)], 1.0);
    text.family("kubernetes_build_info", MetricKind::Gauge, "The version of this node. Always 1.");
    text.sample(&[("git_version", &config.version)], 1.0);
    let ready = snapshot.iter().filter(|sandbox| sandbox.state == SandboxReadiness::Ready).count();
    text.single(
        "kubelet_running_pods",
        MetricKind::Gauge,
        "Number of pods that have a running pod sandbox",
        ready as f64,
    );
    let mut states = BTreeMap::from([("created", 0_u32), ("exited", 0), ("running", 0)]);
    for container in snapshot.iter().flat_map(|sandbox| &sandbox.containers) {
        let state = match container.state {
            RuntimeContainerState::Created => "created",
            RuntimeContainerState::Running { .. } => "running",
            RuntimeContainerState::Exited { .. } => "exited",
        };
        *states.entry(state).or_default() += 1;
    }
    text.family(
        "kubelet_running_containers",
        MetricKind::Gauge,
        "Number of containers currently running",
    );
    for (state, count) in states {
        text.sample(&[("container_state", state)], f64::from(count));
    }
    counters.write(&mut text);
    process.write(&mut text);
    text
}
