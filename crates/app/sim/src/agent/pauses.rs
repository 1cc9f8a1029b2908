//! How long containers wait between an end and the next start (P3), reckoned from what the runtime
//! saw of them and what was asked of their pod. The core is not asked.
//!
//! The rules are the kubelet's: 0, 10, 20, 40 … s from the end on, up to the longest period of the
//! node; a run of more than ten minutes begins a new series; a pod that is made again begins with
//! nothing. Two numbers are kept of each container: how many restarts of its series are certain,
//! which give the shortest pause, and how many there may be at most, which give the longest. Where
//! something else may have let it start, nothing is certain: a restart that somebody asked for or a
//! rule brought about, another image, a new sandbox for what initializes a pod, an end that the
//! agent did not hear of from the runtime.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use rekindle_pod::{ContainerStartKey, RestartRequest, Series};
use rekindle_types::restart_rules::{self, RuleAction};
use rekindle_types::v1alpha1::Rung;
use rekindle_types::{ContainerName, ExitStatus, SandboxAttempt, Tick, TickDuration};

use super::hooks::containers;
use super::named;

/// The pause before the second restart.
const FIRST: TickDuration = TickDuration::from_secs(10);
/// A run that is longer begins a new series.
const RESET_AFTER: TickDuration = TickDuration::from_secs(600);
/// A status tells whole seconds, and an agent may have the end from there.
const EARLY_MAX: TickDuration = TickDuration::from_secs(1);
/// So much later a container is started where nothing holds it up.
const LATE_MAX: TickDuration = TickDuration::from_secs(5);

/// The pauses of a pod's containers.
#[derive(Debug, Default)]
pub(super) struct ContainerPauses {
    /// By themselves in memory: most pods have one, and a map keeps room for eleven.
    of: BTreeMap<ContainerName, Box<ContainerPause>>,
    /// A restart of this pod was asked for at some time, or the clock was set: how long a pause may
    /// be nobody can say any more.
    was_disturbed: bool,
}

/// What is known of one container.
#[derive(Debug, Default)]
struct ContainerPause {
    /// Restarts of this series that are certain, and the earliest that the last of them can have
    /// been decided.
    certain: u32,
    decided: Option<Tick>,
    /// Restarts of this series at most.
    possible: u32,
    started: Option<Tick>,
    image: String,
    /// The newest end, when the agent heard of it as the runtime saw it.
    ended: Option<(Tick, SandboxAttempt)>,
    /// Something else lets it start, and that start is the last such that follows an end from then
    /// on.
    let_go: Option<Tick>,
}

impl ContainerPauses {
    /// The agent's clock is another one: what was reckoned by the one before says nothing.
    pub(super) fn clock_was_set(&mut self) {
        self.of.clear();
        self.was_disturbed = true;
    }

    /// A restart is asked for.
    pub(super) fn asked(&mut self, now: Tick, pod: &Pod, request: &RestartRequest) {
        self.was_disturbed = true;
        let is_new_series = match (request.rung, request.series) {
            (Rung::Container, _) | (_, Series::GoesOn) => false,
            (_, Series::Anew) => true,
        };
        for container in containers(pod) {
            let pause = self.of.entry(ContainerName(container.name.clone())).or_default();
            pause.let_go = Some(now);
            if is_new_series {
                (pause.certain, pause.decided) = (0, None);
            }
        }
    }

    /// A process has ended, and the agent hears of it.
    pub(super) fn ended(
        &mut self,
        now: Tick,
        pod: &Pod,
        key: &ContainerStartKey,
        status: ExitStatus,
    ) {
        let pause = self.of.entry(key.name.clone()).or_default();
        pause.ended = Some((now, key.sandbox));
        if pause.decided.is_some_and(|decided| now.since(decided) > RESET_AFTER) {
            (pause.certain, pause.decided) = (0, None);
        }
        if pause.started.is_some_and(|started| now.since(started) > RESET_AFTER) {
            pause.possible = 0;
        }
        if restarts_all(pod, key, status) {
            // all others wait for the one that brought it about, and for nothing else
            for container in containers(pod).filter(|found| found.name != key.name.0) {
                let other = self.of.entry(ContainerName(container.name.clone())).or_default();
                other.let_go = Some(now);
            }
        }
    }

    /// It ended with its sandbox: the agent had given it up before.
    pub(super) fn ended_with_sandbox(&mut self, key: &ContainerStartKey) {
        self.of.entry(key.name.clone()).or_default().ended = None;
    }

    /// When it was started last.
    pub(super) fn started_at(&self, name: &ContainerName) -> Option<Tick> {
        self.of.get(name).and_then(|pause| pause.started)
    }

    /// A process was started. What is wrong with that.
    pub(super) fn started(
        &mut self,
        now: Tick,
        (pod, image): (&Pod, &str),
        key: &ContainerStartKey,
        (max, is_fault_free): (TickDuration, bool),
    ) -> Option<String> {
        let was_disturbed = self.was_disturbed;
        let pause = self.of.entry(key.name.clone()).or_default();
        let is_same_image = std::mem::replace(&mut pause.image, image.to_owned()) == image;
        let (before, possible) = (pause.ended.take(), pause.possible);
        pause.possible += u32::from(pause.started.replace(now).is_some());
        let is_let_go = pause.let_go.is_some();
        if pause.let_go.is_some_and(|at| before.is_none_or(|(ended, _)| ended >= at)) {
            pause.let_go = None;
        }
        let (ended, sandbox) = before?;
        let is_new_sandbox = sandbox != key.sandbox;
        if is_let_go || !is_same_image || (is_new_sandbox && initializes(pod, &key.name)) {
            return None;
        }
        let (least, waited) = (after(pause.certain, max), now.since(ended));
        pause.certain += 1;
        pause.decided = Some(ended + least);
        let most = after(possible, max);
        let waits_for_others = was_disturbed || is_new_sandbox || has_rules(pod);
        let shown = |duration: TickDuration| duration.as_micros() / 1_000;
        if waited + EARLY_MAX < least {
            Some(format!(
                "P3: {} was started {} ms after its end, and its backoff is {} ms",
                named(key),
                shown(waited),
                shown(least),
            ))
        } else if is_fault_free && !waits_for_others && waited > most + LATE_MAX {
            Some(format!(
                "P3: {} was started {} ms after its end, and its backoff is {} ms at most",
                named(key),
                shown(waited),
                shown(most),
            ))
        } else {
            None
        }
    }
}

/// The pause before the restart with this number of a series, from 0.
fn after(restarts: u32, max: TickDuration) -> TickDuration {
    match restarts.checked_sub(1) {
        None => TickDuration::ZERO,
        Some(doublings) => FIRST.min(max).saturating_mul(1 << doublings.min(16)).min(max),
    }
}

/// Whether it runs before the regular containers do: it is started at once in a new sandbox.
fn initializes(pod: &Pod, name: &ContainerName) -> bool {
    let init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    init.into_iter().any(|container| container.name == name.0)
}

/// Whether a rule of the container answers this end with a restart of all.
pub(super) fn restarts_all(pod: &Pod, key: &ContainerStartKey, status: ExitStatus) -> bool {
    let found = containers(pod).find(|found| found.name == key.name.0);
    let rules = found.map(restart_rules::rules_of).unwrap_or_default();
    restart_rules::first_match(&rules, status.code()) == Some(RuleAction::RestartAllContainers)
}

fn has_rules(pod: &Pod) -> bool {
    containers(pod).any(|container| container.restart_policy_rules.is_some())
}
