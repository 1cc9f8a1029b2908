//! What time containers have between the first attempt to ask them to end and SIGKILL (P5). The
//! core is not asked.
//!
//! A regular container has the shortest grace period that anybody gave, counted from its own hook
//! or signal. Sidecars are asked when all that came later has ended, and get what is left of the
//! grace then, or two seconds if that is more: theirs is counted from the first container that was
//! asked. A rule that restarts all containers gives them two seconds (KEP-5532), also those that
//! were asked before, for a probe.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use rekindle_pod::ContainerStartKey;
use rekindle_types::pods::AnySpec;
use rekindle_types::{Tick, TickDuration};

use super::hooks::containers;

/// What follows a hook, or a wait of a sidecar for its turn, that used the grace up; and what a
/// rule gives.
const LEAST: TickDuration = TickDuration::from_secs(2);

/// The grace periods of a pod's containers.
#[derive(Debug)]
pub(super) struct GracePeriods {
    /// The shortest that anybody gave.
    shortest: TickDuration,
    asked: BTreeMap<ContainerStartKey, EndRequest>,
    /// When the first was asked of those that end together: until one is started and none is asked.
    begun: Option<Tick>,
    /// When a rule had all containers ended, until one is started.
    by_rule: Option<Tick>,
}

/// Of a container that is to end.
#[derive(Debug)]
struct EndRequest {
    /// The first attempt of its hook or its signal: a hook takes part of the grace period.
    since: Tick,
    /// The first attempt to send its signal.
    signal: Option<Tick>,
}

/// A kill that came too early.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EarlyKill {
    pub(super) had: TickDuration,
    pub(super) grace: TickDuration,
}

impl GracePeriods {
    pub(super) fn from_pod(pod: &Pod) -> Self {
        Self {
            shortest: TickDuration::of_field(shortest_in_spec(pod)),
            asked: BTreeMap::new(),
            begun: None,
            by_rule: None,
        }
    }

    /// The shortest that anybody gave.
    pub(super) const fn shortest(&self) -> TickDuration {
        self.shortest
    }

    /// Somebody gives this.
    pub(super) fn given(&mut self, grace: TickDuration) {
        self.shortest = self.shortest.min(grace);
    }

    /// Its hook is run, or was to be.
    pub(super) fn hook(&mut self, now: Tick, key: &ContainerStartKey) {
        self.begun.get_or_insert(now);
        self.asked.entry(key.clone()).or_insert(EndRequest { since: now, signal: None });
    }

    /// Its signal is sent, or was to be: SIGKILL does not wait for one that goes wrong.
    pub(super) fn signal(&mut self, now: Tick, key: &ContainerStartKey) {
        self.begun.get_or_insert(now);
        let asked =
            self.asked.entry(key.clone()).or_insert(EndRequest { since: now, signal: None });
        asked.signal.get_or_insert(now);
    }

    /// A rule has all containers ended.
    pub(super) fn ruled(&mut self, now: Tick) {
        self.by_rule = Some(now);
    }

    /// A container is started.
    pub(super) fn started(&mut self) {
        self.by_rule = None;
        if self.asked.is_empty() {
            self.begun = None;
        }
    }

    /// It ended with its sandbox.
    pub(super) fn forget(&mut self, key: &ContainerStartKey) {
        self.asked.remove(key);
    }

    /// How long something has waited nobody can say any more: who was asked keeps a deadline that
    /// the clock shows no more. Those that end together are taken to begin now: who was not asked
    /// yet has what is left from here on.
    pub(super) fn clock_was_set(&mut self, now: Tick) {
        self.asked.clear();
        self.by_rule = None;
        self.begun = self.begun.map(|_| now);
    }

    /// Nothing runs any more.
    pub(super) fn forget_all(&mut self) {
        self.asked.clear();
        (self.begun, self.by_rule) = (None, None);
    }

    /// It has ended, or was killed. What is wrong with that.
    pub(super) fn ended(
        &mut self,
        now: Tick,
        pod: &Pod,
        key: &ContainerStartKey,
        was_killed: bool,
    ) -> Option<EarlyKill> {
        let asked = self.asked.remove(key).filter(|_| was_killed)?;
        let (least, grace) = (self.shortest.min(LEAST), self.shortest);
        let had = now.since(asked.since);
        let of_signal = now.since(asked.signal.unwrap_or(asked.since));
        let is_sidecar = pod.spec.as_ref().is_some_and(|spec| spec.has_sidecar(&key.name.0));
        let has_had_turn = is_sidecar
            && of_signal >= least
            && self.begun.is_some_and(|begun| now.since(begun) >= grace);
        let was_ruled = self.by_rule.is_some_and(|rule| now.since(asked.since.max(rule)) >= least);
        (had < grace && !has_had_turn && !was_ruled).then_some(EarlyKill { had, grace })
    }
}

/// The shortest that its spec gives a container on any occasion, in seconds.
fn shortest_in_spec(pod: &Pod) -> i64 {
    let of_probes = containers(pod)
        .flat_map(|container| [&container.liveness_probe, &container.startup_probe])
        .filter_map(|probe| probe.as_ref()?.termination_grace_period_seconds);
    of_probes.fold(grace_of_spec(pod), i64::min)
}

/// That of the pod, in seconds.
fn grace_of_spec(pod: &Pod) -> i64 {
    let spec = pod.spec.as_ref();
    spec.and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30)
}

#[cfg(test)]
mod tests {
    use rekindle_types::{ContainerAttempt, ContainerName, SandboxAttempt};
    use serde_json::json;

    use super::*;

    const fn at(millis: u64) -> Tick {
        Tick::from_micros(millis * 1_000)
    }

    fn pod() -> Pod {
        let sidecar = json!({"name": "proxy", "restartPolicy": "Always"});
        let spec = json!({"initContainers": [sidecar], "containers": [{"name": "app"}]});
        serde_json::from_value(json!({"spec": spec})).unwrap()
    }

    fn key(name: &str) -> ContainerStartKey {
        ContainerStartKey {
            sandbox: SandboxAttempt(0),
            name: ContainerName(name.to_owned()),
            attempt: ContainerAttempt(0),
        }
    }

    /// The sidecar hangs, and the app ends after so long; how long the sidecar may have had when it
    /// is killed then.
    fn sidecar_killed(app_ends: u64, killed: u64) -> Option<EarlyKill> {
        let (pod, mut graces) = (pod(), GracePeriods::from_pod(&pod()));
        graces.signal(at(0), &key("app"));
        assert_eq!(graces.ended(at(app_ends), &pod, &key("app"), app_ends >= 30_000), None);
        graces.signal(at(app_ends), &key("proxy"));
        graces.ended(at(killed), &pod, &key("proxy"), true)
    }

    #[test]
    fn a_sidecar_has_what_the_others_left_of_the_grace_and_two_seconds_at_least() {
        assert_eq!(sidecar_killed(10, 30_000), None);
        assert_eq!(sidecar_killed(29_000, 31_000), None);
        assert_eq!(sidecar_killed(30_000, 32_000), None);
        for (app_ends, killed) in [(10, 29_999), (29_000, 30_999), (30_000, 31_999)] {
            assert!(sidecar_killed(app_ends, killed).is_some(), "{app_ends}, {killed}");
        }
    }

    #[test]
    fn what_ended_before_a_container_was_started_again_is_no_part_of_a_later_grace() {
        let (pod, mut graces) = (pod(), GracePeriods::from_pod(&pod()));
        graces.signal(at(0), &key("app"));
        assert_eq!(graces.ended(at(10), &pod, &key("app"), false), None);
        graces.started();
        graces.signal(at(60_000), &key("proxy"));
        let early = graces.ended(at(63_000), &pod, &key("proxy"), true);
        let (had, grace) = (TickDuration::from_secs(3), TickDuration::from_secs(30));
        assert_eq!(early, Some(EarlyKill { had, grace }));
    }

    #[test]
    fn after_the_clock_was_set_a_sidecar_has_what_is_left_from_then_on() {
        for (killed, is_early) in [(50_999, true), (51_000, false)] {
            let (pod, mut graces) = (pod(), GracePeriods::from_pod(&pod()));
            graces.signal(at(80_000), &key("app"));
            graces.clock_was_set(at(21_000));
            assert_eq!(graces.ended(at(21_008), &pod, &key("app"), false), None);
            graces.signal(at(21_008), &key("proxy"));
            let early = graces.ended(at(killed), &pod, &key("proxy"), true);
            assert_eq!(early.is_some(), is_early, "{killed}");
        }
    }

    #[test]
    fn a_rule_gives_two_seconds_to_all_until_they_are_started_again() {
        let (pod, mut graces) = (pod(), GracePeriods::from_pod(&pod()));
        graces.signal(at(0), &key("proxy"));
        graces.ruled(at(2_000));
        graces.signal(at(2_000), &key("app"));
        assert_eq!(graces.ended(at(4_000), &pod, &key("app"), true), None);
        assert_eq!(graces.ended(at(4_000), &pod, &key("proxy"), true), None);
        graces.started();
        graces.signal(at(9_000), &key("app"));
        assert!(graces.ended(at(12_000), &pod, &key("app"), true).is_some());
        graces.ruled(at(20_000));
        graces.signal(at(20_000), &key("app"));
        assert!(graces.ended(at(21_999), &pod, &key("app"), true).is_some());
    }
}
