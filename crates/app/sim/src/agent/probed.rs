//! How often containers are probed, and which of them failed their probes in truth (P12).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, Probe};
use rekindle_pod::{ActionId, ContainerStartKey, PodEvent, ProbeKind};
use rekindle_types::reasons::event;
use rekindle_types::{ContainerName, Tick};

use super::hooks::containers;
use super::named;

/// The first may come late, then what was missed is made up for once, and the next comes in time.
const MORE_MAX: u64 = 3;
/// The API's default.
const FAILURE_THRESHOLD: i32 = 3;
/// The API's default, seconds.
const PERIOD: i32 = 10;

/// Probes of a pod's containers.
#[derive(Debug, Default)]
pub(super) struct ProbeAccount {
    /// Since when the agent's process asks, and how often it did.
    asked: BTreeMap<(ContainerStartKey, ProbeKind), (Tick, u64)>,
    failures: BTreeMap<(ContainerStartKey, ProbeKind), u64>,
    /// Those that were not answered.
    in_flight: BTreeMap<ActionId, (ContainerName, ProbeKind)>,
    /// Starts that were ended for a probe, and the last of each container.
    ended_by: BTreeMap<ContainerName, (ContainerStartKey, u32)>,
    /// Loops that nobody ended; only the bug `ProbeLoopLeaked` has any.
    leaked: BTreeMap<(ContainerName, ProbeKind), u64>,
}

impl ProbeAccount {
    /// The agent's process is gone, and its loops with it.
    pub(super) fn agent_crashed(&mut self) {
        self.asked.clear();
        self.in_flight.clear();
        self.leaked.clear();
    }

    /// A process was started: nobody asks of an earlier one any more.
    pub(super) fn started(&mut self, name: &ContainerName) {
        self.asked.retain(|(key, _), _| key.name != *name);
        self.failures.retain(|(key, _), _| key.name != *name);
    }

    /// The probe is executed once. What is wrong with that.
    pub(super) fn ask(
        &mut self,
        now: Tick,
        pod: &Pod,
        (key, probe): (&ContainerStartKey, ProbeKind),
    ) -> Option<String> {
        let period = probe_of(pod, key, probe).and_then(|probe| probe.period_seconds);
        let period = u64::from(period.unwrap_or(PERIOD).max(1).unsigned_abs());
        let (since, times) = self.asked.entry((key.clone(), probe)).or_insert((now, 0));
        *times += 1;
        let passed = now.since(*since).as_secs();
        (*times > passed / period + MORE_MAX).then(|| {
            format!(
                "P12: {} was asked by its {} probe {times} times in {passed} s, and the period is {period} s",
                named(key),
                word(probe),
            )
        })
    }

    pub(super) fn begin(&mut self, id: ActionId, key: &ContainerStartKey, probe: ProbeKind) {
        self.in_flight.insert(id, (key.name.clone(), probe));
    }

    pub(super) fn answered(&mut self, id: ActionId) {
        self.in_flight.remove(&id);
    }

    /// It failed in truth, whatever the agent hears.
    pub(super) fn fail(&mut self, key: &ContainerStartKey, probe: ProbeKind) {
        *self.failures.entry((key.clone(), probe)).or_default() += 1;
    }

    /// What is wrong with what the agent says: a container that is ended for a probe must have
    /// failed it as often as it may. `runs` is the start of a container that runs.
    pub(super) fn check_event(
        &mut self,
        pod: &Pod,
        said: &PodEvent,
        runs: impl Fn(&str) -> Option<ContainerStartKey>,
    ) -> Option<String> {
        let probe = if said.message.contains("failed liveness probe") {
            ProbeKind::Liveness
        } else if said.message.contains("failed startup probe") {
            ProbeKind::Startup
        } else {
            return None;
        };
        let container = said.field_path.as_deref().filter(|_| said.reason == event::KILLING)?;
        let container = container.split(['{', '}']).nth(1)?;
        let key = runs(container)?;
        let (_, times) = self.ended_by.get(&key.name).cloned().unwrap_or_else(|| (key.clone(), 0));
        self.ended_by.insert(key.name.clone(), (key.clone(), times + 1));
        let threshold = probe_of(pod, &key, probe).and_then(|probe| probe.failure_threshold);
        let threshold = u64::from(threshold.unwrap_or(FAILURE_THRESHOLD).unsigned_abs());
        let failed = self.failures.get(&(key.clone(), probe)).copied().unwrap_or_default();
        (failed < threshold).then(|| {
            format!(
                "P12: {} is ended for its {} probe, which failed {failed} times of {threshold}",
                named(&key),
                word(probe),
            )
        })
    }

    /// Whether this start was ended for a probe.
    pub(super) fn has_ended(&self, key: &ContainerStartKey) -> bool {
        self.ended_by.get(&key.name).is_some_and(|(ended, _)| ended == key)
    }

    /// Whether an earlier start of the same container was.
    pub(super) fn has_ended_before(&self, key: &ContainerStartKey) -> bool {
        self.ended_by.get(&key.name).is_some_and(|(ended, _)| ended != key)
    }

    /// How many starts of a container were.
    pub(super) fn ended_times(&self, name: &str) -> u32 {
        let of_it = self.ended_by.iter().find(|(of, _)| of.0 == name);
        of_it.map_or(0, |(_, (_, times))| *times)
    }

    /// The loops of what is under way go on when the container has ended.
    pub(super) fn leak(&mut self, name: &ContainerName) {
        for under_way in self.in_flight.values().filter(|(of, _)| of == name) {
            *self.leaked.entry(under_way.clone()).or_default() += 1;
        }
    }

    /// How many of them ask beside the one that should.
    pub(super) fn leaked(&self, key: &ContainerStartKey, probe: ProbeKind) -> u64 {
        self.leaked.get(&(key.name.clone(), probe)).copied().unwrap_or_default()
    }
}

/// Which probe, for people.
const fn word(probe: ProbeKind) -> &'static str {
    match probe {
        ProbeKind::Startup => "startup",
        ProbeKind::Readiness => "readiness",
        ProbeKind::Liveness => "liveness",
    }
}

/// A probe of a container.
fn probe_of<'a>(pod: &'a Pod, key: &ContainerStartKey, probe: ProbeKind) -> Option<&'a Probe> {
    let container = containers(pod).find(|found| found.name == key.name.0)?;
    let Container { startup_probe, readiness_probe, liveness_probe, .. } = container;
    match probe {
        ProbeKind::Startup => startup_probe.as_ref(),
        ProbeKind::Readiness => readiness_probe.as_ref(),
        ProbeKind::Liveness => liveness_probe.as_ref(),
    }
}
