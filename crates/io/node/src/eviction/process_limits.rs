//! Pods that have reached their limit of processes and threads: the kernel refuses their forks, and
//! only a counter of their cgroups tells.

use std::collections::BTreeMap;

use rekindle_pod::PodEvent;
use rekindle_runtime::CgroupUsage;
use rekindle_types::reasons::event;
use rekindle_types::{EventSeverity, PodRef, PodUid, SandboxAttempt};

use crate::usage::PodUsage;

/// What the counters said at the last look.
#[derive(Debug, Default)]
pub(crate) struct ForkRefusals {
    /// `None` before the first look: what was refused before it, an earlier agent has told of.
    known: Option<BTreeMap<(PodUid, Option<SandboxAttempt>), u64>>,
}

impl ForkRefusals {
    /// The pods in which forks were refused since the last look.
    pub(crate) fn look<'a>(&mut self, pods: &'a [PodUsage]) -> Vec<&'a PodRef> {
        let now: BTreeMap<_, _> = pods
            .iter()
            .map(|pod| ((pod.pod_ref.uid.clone(), pod.sandbox), forks_refused(pod)))
            .collect();
        let Some(before) = self.known.replace(now.clone()) else { return Vec::new() };
        let has_risen = |pod: &&PodUsage| {
            let key = (pod.pod_ref.uid.clone(), pod.sandbox);
            now.get(&key).copied() > Some(before.get(&key).copied().unwrap_or(0))
        };
        pods.iter().filter(has_risen).map(|pod| &pod.pod_ref).collect()
    }
}

/// Kernels count in different groups, so all that can count are taken together; only whether the
/// sum rises means something.
fn forks_refused(pod: &PodUsage) -> u64 {
    let of = |cgroup: Option<CgroupUsage>| cgroup.map_or(0, |cgroup| cgroup.forks_refused);
    let containers = pod.containers.iter().map(|container| of(container.cgroup));
    containers.fold(of(pod.cgroup), u64::saturating_add)
}

/// What a pod is told; always the same text, so that repeats are counted in one event.
pub(crate) fn limit_reached(limit: u64) -> PodEvent {
    PodEvent {
        severity: EventSeverity::Warning,
        reason: event::PROCESS_LIMIT_REACHED,
        message: format!(
            "the pod reached its limit of {limit} processes and threads (--pod-pids-limit): the kernel refused to start more"
        ),
        field_path: None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rekindle_runtime::{CpuUsage, MemoryUsage};
    use rekindle_types::Tick;

    use super::*;

    fn pod(name: &str, sandbox: u32, refused: u64) -> PodUsage {
        let pod_ref = PodRef {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            uid: PodUid(name.into()),
        };
        let cgroup = CgroupUsage {
            taken_at: Tick::ZERO,
            cpu: Some(CpuUsage::default()),
            memory: MemoryUsage::default(),
            pids: Some(1),
            forks_refused: refused,
        };
        PodUsage {
            pod_ref,
            pod: Arc::default(),
            sandbox: Some(SandboxAttempt(sandbox)),
            cgroup: Some(cgroup),
            network: Vec::new(),
            containers: Vec::new(),
            volumes: Vec::new(),
            ephemeral_storage: None,
        }
    }

    #[test]
    fn a_pod_is_told_when_its_counter_rises() {
        let mut refusals = ForkRefusals::default();
        let mut told = |pods: &[PodUsage]| -> Vec<String> {
            refusals.look(pods).into_iter().map(|pod| pod.name.clone()).collect()
        };
        assert!(told(&[pod("old", 0, 7)]).is_empty(), "the agent has just begun");
        assert_eq!(told(&[pod("new", 0, 1), pod("old", 0, 7)]), ["new"]);
        assert_eq!(told(&[pod("new", 0, 1), pod("old", 0, 8)]), ["old"]);
        assert!(told(&[pod("old", 1, 0)]).is_empty(), "in its next sandbox");
        assert_eq!(told(&[pod("old", 1, 1)]), ["old"]);
    }
}
