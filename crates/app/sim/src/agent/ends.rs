//! How containers ended last (P2): a pod is said to have succeeded only when all that it is there
//! for did.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rekindle_types::{ContainerName, ExitStatus};

/// The newest ends of a pod's containers, as the runtime saw them.
#[derive(Debug, Default)]
pub(super) struct LastEnds {
    of: BTreeMap<ContainerName, ExitStatus>,
    /// The pod's object said already that it succeeded when its node took it up: one that is over,
    /// and that a finalizer keeps, is taken up again after everything of it is gone. That was
    /// looked at when it was written.
    was_said: bool,
}

impl LastEnds {
    /// Of a pod that is taken up.
    pub(super) fn from_pod(pod: &Pod) -> Self {
        let was_said = has_succeeded(pod.status.as_ref());
        Self { was_said, ..Self::default() }
    }

    pub(super) fn note(&mut self, name: &ContainerName, status: ExitStatus) {
        self.of.insert(name.clone(), status);
    }

    /// What is wrong with a status that is to be written.
    pub(super) fn check_status(&self, pod: &Pod, status: &PodStatus) -> Option<String> {
        if self.was_said || !has_succeeded(Some(status)) {
            return None;
        }
        let regular = pod.spec.iter().flat_map(|spec| &spec.containers);
        let ended_well = |name: &str| {
            let mut ends = self.of.iter().filter(|(of, _)| of.0 == name);
            ends.next().is_some_and(|(_, status)| status.is_success())
        };
        let other = regular.into_iter().find(|container| !ended_well(&container.name))?;
        Some(format!("P2: it is said to have succeeded, and container {} has not", other.name))
    }
}

fn has_succeeded(status: Option<&PodStatus>) -> bool {
    status.and_then(|status| status.phase.as_deref()) == Some("Succeeded")
}

#[cfg(test)]
mod tests {
    use rekindle_types::ContainerName;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_object_says_when_a_pod_is_taken_up_was_looked_at_before() {
        let of_phase = |phase: &str| -> Pod {
            let (spec, status) =
                (json!({"containers": [{"name": "work"}]}), json!({"phase": phase}));
            serde_json::from_value(json!({"spec": spec, "status": status})).unwrap()
        };
        let (over, runs) = (of_phase("Succeeded"), of_phase("Running"));
        let says = over.status.clone().unwrap();
        assert_eq!(LastEnds::from_pod(&over).check_status(&over, &says), None);
        let mut ends = LastEnds::from_pod(&runs);
        assert!(ends.check_status(&runs, &says).is_some());
        ends.note(&ContainerName("work".to_owned()), ExitStatus::Code { code: 0 });
        assert_eq!(ends.check_status(&runs, &says), None);
    }
}
