//! What agents with known bugs remember, hear and say, as the simulator's tests switch them on.
//! Without one everything is handed on as it is.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use rekindle_pod::journal::{CrashBackoff, Readiness, SidecarGate};
use rekindle_pod::{ContainerStartKey, Journal};
use rekindle_pod_driver::PodDriver;
use rekindle_types::pods::AnySpec;
use rekindle_types::{ExitStatus, Tick, TickDuration};

use super::pauses::restarts_all;
use super::{ContainerLife, SimulatedPod};
use crate::faults::Faults;
use crate::known_bugs::KnownBug;

/// What an agent with [`KnownBug::BackoffByWallTime`] takes for a long run.
const LONG_AGO: TickDuration = TickDuration::from_secs(600);

impl SimulatedPod {
    /// What an agent that starts again knows of object and journal.
    pub(super) fn remembered(
        &self,
        now: Tick,
        mut pod: Arc<Pod>,
        mut journal: Option<Journal>,
        bug: Option<KnownBug>,
    ) -> (Arc<Pod>, Option<Journal>) {
        let records = journal.iter_mut().flat_map(|journal| &mut journal.containers);
        for (name, record) in records {
            match bug {
                Some(KnownBug::BackoffInMemory) => record.crash = CrashBackoff::default(),
                Some(KnownBug::BackoffByWallTime) => {
                    let started = self.pauses.started_at(name);
                    if started.is_some_and(|at| now.since(at) > LONG_AGO) {
                        record.crash = CrashBackoff::default();
                    }
                }
                Some(KnownBug::ReadinessForgotten) => {
                    let health = record.health.as_mut();
                    health.into_iter().for_each(|health| health.readiness = Readiness::Unready);
                }
                Some(bug) if forgets_start(bug, &pod, &name.0) => {
                    record.health = None;
                    record.gate = SidecarGate::Closed;
                }
                Some(_) | None => {}
            }
        }
        if let Some(bug) = bug
            && let Some(status) = pod.status.clone()
        {
            let status = self.read(&pod, status, bug);
            Arc::make_mut(&mut pod).status = Some(status);
        }
        (pod, journal)
    }

    /// What it makes of a status that it finds.
    fn read(&self, pod: &Pod, mut status: PodStatus, bug: KnownBug) -> PodStatus {
        for container in all_of(&mut status) {
            if bug == KnownBug::ReadinessForgotten {
                container.ready = false;
            } else if forgets_start(bug, pod, &container.name) {
                (container.ready, container.started) = (false, Some(false));
            }
        }
        status
    }

    /// A process has ended, and its agent does not see that the pod is about to end: what a rule
    /// says of that exit code is done.
    pub(super) fn obeys_rule(
        &mut self,
        now: Tick,
        key: &ContainerStartKey,
        status: ExitStatus,
    ) -> bool {
        if self.deletion_grace.is_none() || !restarts_all(&self.pod, key, status) {
            return false;
        }
        let mut pod = self.pod.as_ref().clone();
        pod.metadata.deletion_timestamp = None;
        let journal = Journal { ending: None, ..self.driver.core().journal() };
        if self.ended(self.clock.shows(now), key, status).is_none() {
            return false;
        }
        let (shown, config) = (self.clock.shows(now), self.config.clone());
        let driver = PodDriver::new(shown, Arc::new(pod), Some(journal), config);
        self.taken_up_by(now, driver, &Faults::none());
        true
    }

    /// It finds the backoff of another pod under this one's name.
    pub(crate) fn inherit_backoff(&mut self, now: Tick, before: &Self) {
        let Some(journal) = &before.journal else { return };
        let mut own = self.driver.core().journal();
        for (name, record) in &mut own.containers {
            record.crash = journal.containers.get(name).map(|of| of.crash).unwrap_or_default();
        }
        let shown = self.clock.shows(now);
        let driver = PodDriver::new(shown, self.pod.clone(), Some(own), self.config.clone());
        self.taken_up_by(now, driver, &Faults::none());
    }

    /// What it says in place of a status.
    pub(super) fn said(&self, mut status: Arc<PodStatus>, bug: Option<KnownBug>) -> Arc<PodStatus> {
        if bug == Some(KnownBug::ProbeKillUncounted) {
            for container in all_of(Arc::make_mut(&mut status)) {
                let times = i32::try_from(self.probed.ended_times(&container.name)).unwrap_or(0);
                container.restart_count = container.restart_count.saturating_sub(times);
            }
        }
        let is_deleted = self.deletion_grace.is_some();
        if bug == Some(KnownBug::EndTakenForSuccess)
            && is_deleted
            && status.phase.as_deref() == Some("Failed")
        {
            Arc::make_mut(&mut status).phase = Some("Succeeded".to_owned());
        }
        status
    }

    /// Whether the end of this start does not reach it.
    pub(crate) fn misses_end(&self, key: &ContainerStartKey, bug: Option<KnownBug>) -> bool {
        match bug {
            Some(KnownBug::ExitNotTold) => true,
            Some(KnownBug::ProbeKillNotTold) => self.probed.has_ended(key),
            Some(_) | None => false,
        }
    }

    /// The start of a container that runs.
    pub(super) fn running_start(&self, name: &str) -> Option<ContainerStartKey> {
        let running = self.containers.iter().filter(|(key, _)| key.name.0 == name);
        let mut running = running.filter(|(_, life)| matches!(life, ContainerLife::Running { .. }));
        running.next().map(|(key, _)| key.clone())
    }
}

/// Whether it forgets that this container was started.
fn forgets_start(bug: KnownBug, pod: &Pod, name: &str) -> bool {
    let is_sidecar = pod.spec.as_ref().is_some_and(|spec| spec.has_sidecar(name));
    bug == KnownBug::StartForgotten || (bug == KnownBug::SidecarStartForgotten && is_sidecar)
}

fn all_of(status: &mut PodStatus) -> impl Iterator<Item = &mut ContainerStatus> {
    let PodStatus { container_statuses, init_container_statuses, .. } = status;
    container_statuses.iter_mut().chain(init_container_statuses).flatten()
}
