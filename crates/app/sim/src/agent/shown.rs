//! What the API shows of running containers (P12): one that is started or ready stays so as long as
//! it runs, whoever looks after it, until a readiness probe fails.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};
use rekindle_pod::{ContainerStartKey, HookKind, ProbeKind, ProbeVerdict};
use rekindle_types::ContainerName;

use super::named;

/// What was shown last of the containers of a pod.
#[derive(Debug, Default)]
pub(super) struct LastHealth {
    of: BTreeMap<ContainerName, StartHealth>,
}

/// Of one start, as long as it runs.
#[derive(Debug)]
struct StartHealth {
    key: ContainerStartKey,
    is_started: bool,
    is_ready: bool,
    probe: ProbeHistory,
}

/// How a start's readiness probe went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbeHistory {
    /// It has not failed since the container was shown as ready.
    Well,
    /// It failed: its status may say so at any time, and others may be written before that.
    Failed,
    /// It failed, and has succeeded since. What it failed for may not be told yet.
    Mended,
}

impl LastHealth {
    /// An agent that starts again reads this. `runs` is the start of a container that runs.
    pub(super) fn found(
        &mut self,
        status: Option<&PodStatus>,
        runs: impl Fn(&str) -> Option<ContainerStartKey>,
    ) {
        let mut before = std::mem::take(&mut self.of);
        for container in status.into_iter().flat_map(all) {
            let key = runs(&container.name)
                .filter(|key| i64::from(key.attempt.0) == i64::from(container.restart_count));
            if let Some(key) = key.filter(|_| is_running(container)) {
                self.of.extend(before.remove_entry(&key.name));
                self.note(key, container);
            }
        }
    }

    fn note(&mut self, key: ContainerStartKey, container: &ContainerStatus) {
        let (is_started, is_ready) = (container.started == Some(true), container.ready);
        let before = self.of.get(&key.name).filter(|health| health.key == key);
        let probe = match before.map(|before| before.probe) {
            Some(ProbeHistory::Mended) if is_ready => ProbeHistory::Well,
            Some(probe) => probe,
            None => ProbeHistory::Well,
        };
        let health = StartHealth { key: key.clone(), is_started, is_ready, probe };
        self.of.insert(key.name, health);
    }

    /// A probe of this start is asked, and this is what it says.
    pub(super) fn probed(
        &mut self,
        key: &ContainerStartKey,
        probe: ProbeKind,
        verdict: ProbeVerdict,
    ) {
        let of_it = self.of.get_mut(&key.name).filter(|health| health.key == *key);
        let (Some(health), ProbeKind::Readiness) = (of_it, probe) else { return };
        health.probe = match (verdict, health.probe) {
            (ProbeVerdict::Failure | ProbeVerdict::NotListening, _) => ProbeHistory::Failed,
            (ProbeVerdict::Success | ProbeVerdict::Warning, ProbeHistory::Well) => {
                ProbeHistory::Well
            }
            (
                ProbeVerdict::Success | ProbeVerdict::Warning,
                ProbeHistory::Failed | ProbeHistory::Mended,
            ) => ProbeHistory::Mended,
        };
    }

    /// What is wrong with a status that is to be written.
    pub(super) fn check_status(
        &mut self,
        status: &PodStatus,
        runs: impl Fn(&str) -> Option<ContainerStartKey>,
    ) -> Option<String> {
        let mut broken = None;
        for container in all(status).filter(|container| is_running(container)) {
            let Some(key) = runs(&container.name) else { continue };
            let before = self.of.get(&key.name).filter(|health| health.key == key);
            if let Some(before) = before {
                let is_lost = before.is_started && container.started != Some(true);
                let has_failed = before.probe != ProbeHistory::Well;
                let is_unready = before.is_ready && !has_failed && !container.ready;
                let what = match (is_lost, is_unready) {
                    (true, _) => Some("started"),
                    (false, true) => Some("ready"),
                    (false, false) => None,
                };
                broken = broken.or_else(|| {
                    what.map(|what| {
                        format!(
                            "P12: {} was {what}, and is not any more, though it runs and no probe failed",
                            named(&key),
                        )
                    })
                });
            }
            self.note(key, container);
        }
        broken
    }

    /// What is wrong with a startup probe that is asked now.
    pub(super) fn check_probe(&self, key: &ContainerStartKey, probe: ProbeKind) -> Option<String> {
        match probe {
            ProbeKind::Startup => self.begins_anew(key),
            ProbeKind::Readiness | ProbeKind::Liveness => None,
        }
    }

    /// What is wrong with a hook that is run now.
    pub(super) fn check_hook(&self, key: &ContainerStartKey, hook: HookKind) -> Option<String> {
        match hook {
            HookKind::PostStart => self.begins_anew(key),
            HookKind::PreStop => None,
        }
    }

    fn begins_anew(&self, key: &ContainerStartKey) -> Option<String> {
        let health = self.of.get(&key.name).filter(|health| health.key == *key)?;
        health
            .is_started
            .then(|| format!("P12: {} was started, and its start begins anew", named(key)))
    }
}

fn all(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    status.container_statuses.iter().chain(&status.init_container_statuses).flatten()
}

fn is_running(container: &ContainerStatus) -> bool {
    container.state.as_ref().is_some_and(|state| state.running.is_some())
}

#[cfg(test)]
mod tests {
    use rekindle_types::{ContainerAttempt, SandboxAttempt};
    use serde_json::json;

    use super::*;

    fn key() -> ContainerStartKey {
        ContainerStartKey {
            sandbox: SandboxAttempt(0),
            name: ContainerName("app".to_owned()),
            attempt: ContainerAttempt(0),
        }
    }

    /// What is wrong with a status that says so, after all of these.
    fn says(shown: &mut LastHealth, is_ready: bool) -> Option<String> {
        let container = json!({
            "name": "app", "ready": is_ready, "started": true, "restartCount": 0, "image": "app:1",
            "imageID": "", "state": {"running": {}},
        });
        let status = serde_json::from_value(json!({"containerStatuses": [container]})).unwrap();
        shown.check_status(&status, |_| Some(key()))
    }

    #[test]
    fn a_readiness_probe_that_failed_is_remembered_until_it_has_succeeded() {
        let probed =
            |shown: &mut LastHealth, verdict| shown.probed(&key(), ProbeKind::Readiness, verdict);
        let mut shown = LastHealth::default();
        assert_eq!(says(&mut shown, true), None);
        probed(&mut shown, ProbeVerdict::Failure);
        // another container has something to say before the probe is answered
        assert_eq!(says(&mut shown, true), None);
        assert_eq!(says(&mut shown, false), None);
        probed(&mut shown, ProbeVerdict::Success);
        assert_eq!((says(&mut shown, false), says(&mut shown, true)), (None, None));
        let broken = says(&mut shown, false).unwrap();
        assert!(broken.contains("container app (start 1) was ready"), "{broken}");
    }
}
