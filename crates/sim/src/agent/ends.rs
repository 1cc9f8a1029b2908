//! How containers ended last (P2): a pod is said to have succeeded only when all that it is there for did.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rekindle_types::{ContainerName, ExitStatus};

/// The newest ends of a pod's containers, as the runtime saw them.
#[derive(Debug, Default)]
pub(super) struct LastEnds {
    of: BTreeMap<ContainerName, ExitStatus>,
}

impl LastEnds {
    pub(super) fn note(&mut self, name: &ContainerName, status: ExitStatus) {
        self.of.insert(name.clone(), status);
    }

    /// What is wrong with a status that is to be written.
    pub(super) fn check_status(&self, pod: &Pod, status: &PodStatus) -> Option<String> {
        let regular = pod.spec.iter().flat_map(|spec| &spec.containers);
        let has_succeeded = |name: &str| {
            let mut ends = self.of.iter().filter(|(of, _)| of.0 == name);
            ends.next().is_some_and(|(_, status)| status.is_success())
        };
        let other = regular.into_iter().find(|container| !has_succeeded(&container.name))?;
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        (status.phase.as_deref() == Some("Succeeded")).then(|| {
            format!(
                "P2: Pod {name} is said to have succeeded, and container {} has not",
                other.name
            )
        })
    }
}
