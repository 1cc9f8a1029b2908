//! What the API shows of running containers (P12): one that is started or ready stays so as long as it runs, whoever looks after it,
//! until a readiness probe fails.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};
use rekindle_pod::{ContainerKey, HookKind, ProbeKind};
use rekindle_types::ContainerName;

/// What was shown last of the containers of a pod.
#[derive(Debug, Default)]
pub(super) struct Shown {
    of: BTreeMap<ContainerName, Health>,
}

/// Of one start, as long as it runs.
#[derive(Debug)]
struct Health {
    key: ContainerKey,
    is_started: bool,
    is_ready: bool,
    /// A readiness probe has failed since that was shown.
    has_failed: bool,
}

impl Shown {
    /// An agent that starts again reads this. `runs` is the start of a container that runs.
    pub(super) fn found(
        &mut self,
        status: Option<&PodStatus>,
        runs: impl Fn(&str) -> Option<ContainerKey>,
    ) {
        self.of.clear();
        for container in status.into_iter().flat_map(all) {
            let key = runs(&container.name)
                .filter(|key| i64::from(key.attempt.0) == i64::from(container.restart_count));
            if let Some(key) = key.filter(|_| is_running(container)) {
                self.note(key, container);
            }
        }
    }

    fn note(&mut self, key: ContainerKey, container: &ContainerStatus) {
        let (is_started, is_ready) = (container.started == Some(true), container.ready);
        let health = Health { key: key.clone(), is_started, is_ready, has_failed: false };
        self.of.insert(key.name, health);
    }

    /// A probe of this start fails.
    pub(super) fn failed(&mut self, key: &ContainerKey, probe: ProbeKind) {
        let of_it = self.of.get_mut(&key.name).filter(|health| health.key == *key);
        if let (Some(health), ProbeKind::Readiness) = (of_it, probe) {
            health.has_failed = true;
        }
    }

    /// What is wrong with a status that is to be written.
    pub(super) fn check_status(
        &mut self,
        status: &PodStatus,
        runs: impl Fn(&str) -> Option<ContainerKey>,
    ) -> Option<String> {
        let mut broken = None;
        for container in all(status).filter(|container| is_running(container)) {
            let Some(key) = runs(&container.name) else { continue };
            let before = self.of.get(&key.name).filter(|health| health.key == key);
            if let Some(before) = before {
                let is_lost = before.is_started && container.started != Some(true);
                let is_unready = before.is_ready && !before.has_failed && !container.ready;
                let what = match (is_lost, is_unready) {
                    (true, _) => Some("started"),
                    (false, true) => Some("ready"),
                    (false, false) => None,
                };
                broken = broken.or_else(|| {
                    what.map(|what| {
                        format!("P12: {key:?} was {what}, and is not any more, though it runs and no probe failed")
                    })
                });
            }
            self.note(key, container);
        }
        broken
    }

    /// What is wrong with a startup probe that is asked now.
    pub(super) fn check_probe(&self, key: &ContainerKey, probe: ProbeKind) -> Option<String> {
        match probe {
            ProbeKind::Startup => self.begins_anew(key),
            ProbeKind::Readiness | ProbeKind::Liveness => None,
        }
    }

    /// What is wrong with a hook that is run now.
    pub(super) fn check_hook(&self, key: &ContainerKey, hook: HookKind) -> Option<String> {
        match hook {
            HookKind::PostStart => self.begins_anew(key),
            HookKind::PreStop => None,
        }
    }

    fn begins_anew(&self, key: &ContainerKey) -> Option<String> {
        let health = self.of.get(&key.name).filter(|health| health.key == *key)?;
        health.is_started.then(|| format!("P12: {key:?} was started, and its start begins anew"))
    }
}

fn all(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    status.container_statuses.iter().chain(&status.init_container_statuses).flatten()
}

fn is_running(container: &ContainerStatus) -> bool {
    container.state.as_ref().is_some_and(|state| state.running.is_some())
}
