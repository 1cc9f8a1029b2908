//! A container of a pod, with its status: what of it an account asks about.

use k8s_openapi::api::core::v1::{Container, ContainerStateTerminated, ContainerStatus, Pod};
use rekindle_diagnosis::{ContainerEnd, ContainerWait, RestartTerms, StartedBy};

/// A container with what its pod says of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContainerSubject<'a> {
    pub(crate) name: &'a str,
    pub(crate) spec: &'a Container,
    pub(crate) status: &'a ContainerStatus,
    /// The pod's `restartPolicy`.
    of_pod: Option<&'a str>,
    list: SpecList,
}

/// The list of its pod's spec that a container is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpecList {
    InitContainers,
    Containers,
}

/// The containers of a pod that have a status, init containers first.
pub(crate) fn subjects(pod: &Pod) -> Vec<ContainerSubject<'_>> {
    let (Some(spec), Some(status)) = (&pod.spec, &pod.status) else { return Vec::new() };
    let of_pod = spec.restart_policy.as_deref();
    let init = spec
        .init_containers
        .iter()
        .flatten()
        .map(|container| (container, SpecList::InitContainers));
    let regular = spec.containers.iter().map(|container| (container, SpecList::Containers));
    let statuses: Vec<&ContainerStatus> =
        status.init_container_statuses.iter().chain(&status.container_statuses).flatten().collect();
    init.chain(regular)
        .filter_map(|(spec, list)| {
            let status = statuses.iter().find(|status| status.name == spec.name)?;
            Some(ContainerSubject { name: &spec.name, spec, status, of_pod, list })
        })
        .collect()
}

impl<'a> ContainerSubject<'a> {
    pub(crate) fn waiting(&self) -> Option<ContainerWait<'a>> {
        self.status.state.as_ref()?.waiting.as_ref().map(ContainerWait::parse)
    }

    pub(crate) fn is_running(&self) -> bool {
        self.status.state.as_ref().is_some_and(|state| state.running.is_some())
    }

    /// How it ended last.
    pub(crate) fn last_end(&self) -> Option<&'a ContainerStateTerminated> {
        let now = self.status.state.as_ref().and_then(|state| state.terminated.as_ref());
        now.or_else(|| self.status.last_state.as_ref()?.terminated.as_ref())
    }

    /// The end that is worth telling: the last; of one that is done the one before, when that was a
    /// failure.
    pub(crate) fn told_end(&self) -> Option<&'a ContainerStateTerminated> {
        if !self.is_done() {
            return self.last_end();
        }
        let before = self.status.last_state.as_ref()?.terminated.as_ref();
        before.filter(|end| end.exit_code != 0)
    }

    /// How often it has ended up to the end that is told: each restart follows an end, and what
    /// does not run now has ended once more.
    pub(crate) fn ends(&self) -> u32 {
        let restarts = u32::try_from(self.status.restart_count).unwrap_or(0);
        match (self.told_end(), self.is_running() || self.is_done()) {
            (None, _) => restarts,
            (Some(_), true) => restarts.max(1),
            (Some(_), false) => restarts.saturating_add(1),
        }
    }

    /// What answers an end of it.
    pub(crate) fn started_by(&self, end: &ContainerEnd<'_>) -> StartedBy {
        let terms = match self.list {
            SpecList::InitContainers => RestartTerms::from_init(self.spec, self.of_pod),
            SpecList::Containers => RestartTerms::from_regular(self.spec, self.of_pod),
        };
        terms.started_by(end.exit_code)
    }

    /// It ended as it should.
    pub(crate) fn is_done(&self) -> bool {
        let now = self.status.state.as_ref().and_then(|state| state.terminated.as_ref());
        now.map(ContainerEnd::parse).is_some_and(|end| end.is_success(self.started_by(&end)))
    }
}
