//! What the fake runtime does for a pod, and what it says of itself.

use k8s_openapi::api::core::v1::Pod;
use rekindle_pod::{
    ActionError, ActionErrorKind, ActionId, ActionOutcome, ContainerSeen, ContainerSeenState,
    ContainerStartKey, HookKind, HookLimit, Made, SandboxSeen, SandboxSeenState, Snapshot,
};
use rekindle_types::{
    ContainerName, Exit, ExitStatus, SandboxAttempt, StopNotice, Tick, TickDuration,
};

use super::actions::FAILS_AFTER;
use super::conduct::{EndPlan, STOP};
use super::hooks::containers;
use super::{ContainerLife, SIGKILL, SIGTERM, SimulatedPod, TimedEffect, named};
use crate::behaviour::Behaviours;
use crate::faults::{Faults, injected};
use crate::known_bugs::KnownBug;

/// What a hook takes that neither hangs nor sleeps.
const HOOK: TickDuration = TickDuration::from_millis(300);

impl SimulatedPod {
    /// Prepares a container, and does not start it.
    pub(super) fn create(&mut self, key: &ContainerStartKey) {
        self.check_sandbox(key.sandbox);
        self.containers.entry(key.clone()).or_insert_with(|| {
            self.tally.containers += 1;
            ContainerLife::Created
        });
    }

    /// A start that fails: its command cannot be executed, or it is not prepared at all.
    pub(super) fn cannot_start(
        &mut self,
        id: ActionId,
        key: &ContainerStartKey,
        faults: &mut Faults,
    ) -> TimedEffect {
        let result = if faults.stops_halfway() {
            self.create(key);
            self.failed_starts.insert(key.clone());
            let start = Err(injected(ActionErrorKind::ContainerStart));
            Ok(ActionOutcome::ContainerMade { made: self.made(key), start })
        } else {
            Err(injected(ActionErrorKind::ContainerCreate))
        };
        TimedEffect::Answer(FAILS_AFTER, id, result)
    }

    pub(super) fn made(&self, key: &ContainerStartKey) -> Made {
        Made { container_id: container_id(key), image_id: self.image(&key.name), user: None }
    }

    pub(super) fn signal(
        &mut self,
        now: Tick,
        key: ContainerStartKey,
        run: &Behaviours,
        faults: &Faults,
    ) -> Option<TimedEffect> {
        let Some(ContainerLife::Running { behaviour, .. }) = self.containers.get(&key) else {
            return None;
        };
        let obeys = !run.hangs(*behaviour);
        if !self.signalled.contains(&key) {
            self.tally.signals += 1;
            let broken = self.hooks.check_signal(now, &self.pod, &key, self.graces.shortest());
            broken.into_iter().for_each(|broken| self.breaks(|| broken));
            self.signalled.insert(key.clone());
        }
        self.graces.signal(now, &key);
        match (obeys, faults.bug) {
            (true, _) => Some(TimedEffect::Ends(STOP, key, ExitStatus::Signal { signal: SIGTERM })),
            (false, Some(KnownBug::GraceCutShort)) => {
                Some(TimedEffect::Ends(STOP, key, ExitStatus::Signal { signal: SIGKILL }))
            }
            (false, _) => None,
        }
    }

    pub(super) fn start(
        &mut self,
        now: Tick,
        id: ActionId,
        key: &ContainerStartKey,
        (run, time, faults): (&Behaviours, TickDuration, &Faults),
    ) -> Vec<TimedEffect> {
        self.create(key);
        let (behaviour, exits) = self.decide(key, run, time);
        self.note_choice(&key.name, behaviour);
        let mut effects = Vec::new();
        if self.containers.get(key) == Some(&ContainerLife::Created) {
            let end = EndPlan::from_exits(exits.as_ref());
            self.containers
                .insert(key.clone(), ContainerLife::Running { started_at: now, behaviour, end });
            self.tally.starts += 1;
            if !self.starts.insert(key.clone()) {
                self.breaks(|| format!("P1: {} was started twice", named(key)));
            }
            self.note_start(now, key, faults);
            effects.extend(exits.map(|exits| {
                let after = exits.after + TickDuration::from_millis(1);
                TimedEffect::Ends(after, key.clone(), exits.status())
            }));
        }
        let millisecond = TickDuration::from_millis(1);
        let made = ActionOutcome::ContainerMade { made: self.made(key), start: Ok(now) };
        effects.insert(0, TimedEffect::Answer(millisecond, id, Ok(made)));
        effects
    }

    /// A start must have waited as long as its backoff says (P3), and none is made of a pod that
    /// ends (P1).
    fn note_start(&mut self, now: Tick, key: &ContainerStartKey, faults: &Faults) {
        let image = self.image(&key.name);
        let max = self.config.max_container_restart_period;
        let broken =
            self.pauses.started(now, (&self.pod, &image), key, (max, faults.is_fault_free()));
        broken.into_iter().for_each(|broken| self.breaks(|| broken));
        self.probed.started(&key.name);
        self.graces.started();
        if self.is_told_to_end {
            self.breaks(|| format!("P1: {} was started though its pod is to end", named(key)));
        }
    }

    /// A hook of a container that hangs never ends; the agent gives one up when its time is over,
    /// and the core has gone on by itself then.
    pub(super) fn run_hook(
        &mut self,
        now: Tick,
        id: ActionId,
        of: (ContainerStartKey, HookKind),
        limit: HookLimit,
        (run, faults): (&Behaviours, &Faults),
    ) -> Option<TimedEffect> {
        let (took, key) = (hook_takes(&self.pod, &of.0.name.0, of.1), of.0.clone());
        let behaviour = match self.containers.get(&key) {
            Some(ContainerLife::Running { behaviour, .. }) => *behaviour,
            Some(ContainerLife::Created | ContainerLife::Exited(_)) | None => None,
        };
        let broken = self.shown.check_hook(&of.0, of.1);
        broken.into_iter().for_each(|broken| self.breaks(|| broken));
        if faults.bug != Some(KnownBug::HookSkipped) {
            self.hook_begins(id, now, of, limit);
        }
        let (hangs, grace) = match limit {
            HookLimit::Grace(grace) => (run.hangs(behaviour), Some(grace)),
            HookLimit::None => (run.hangs(behaviour), None),
        };
        match (hangs, grace) {
            (true, None) => {
                self.hung.insert(id, key);
                None
            }
            (_, Some(grace)) if hangs || took > grace => {
                let kind = ActionErrorKind::Other;
                let gone = ActionError { kind, message: "the hook took too long".to_owned() };
                Some(TimedEffect::Answer(grace, id, Err(gone)))
            }
            (_, Some(_)) | (false, None) => {
                Some(TimedEffect::Answer(took, id, Ok(ActionOutcome::Done)))
            }
        }
    }

    /// A hook is run, or was to be: with preStop the grace period begins.
    pub(super) fn hook_begins(
        &mut self,
        id: ActionId,
        now: Tick,
        (key, hook): (ContainerStartKey, HookKind),
        limit: HookLimit,
    ) {
        if hook == HookKind::PreStop {
            self.graces.hook(now, &key);
        }
        self.hooks.begin(id, now, (key, hook), limit);
    }

    /// The newest start of a container.
    pub(super) fn newest_start(&self, name: &str) -> Option<&ContainerStartKey> {
        let of_it = self.starts.iter().filter(|key| key.name.0 == name);
        of_it.max_by_key(|key| (key.sandbox, key.attempt))
    }

    pub(super) fn image(&self, container: &ContainerName) -> String {
        let found = containers(&self.pod).find(|found| found.name == container.0);
        found.and_then(|found| found.image.clone()).unwrap_or_default()
    }

    /// What stands in the runtime.
    pub(super) fn snapshot(&self, faults: &Faults) -> Snapshot {
        let sandboxes = self.sandboxes.iter().map(|(attempt, sandbox)| {
            let containers = self.seen_in(*attempt, faults);
            let state = match faults.bug {
                Some(KnownBug::SandboxMadeAnew) if containers.is_empty() => {
                    SandboxSeenState::NotReady
                }
                Some(_) | None => sandbox.state,
            };
            SandboxSeen { attempt: *attempt, state, ips: vec![sandbox.ip], containers }
        });
        Snapshot { sandboxes: sandboxes.collect() }
    }

    fn seen_in(&self, sandbox: SandboxAttempt, faults: &Faults) -> Vec<ContainerSeen> {
        let inside = self.containers.iter().filter(|(key, _)| key.sandbox == sandbox);
        inside
            .map(|(key, life)| ContainerSeen {
                name: key.name.clone(),
                attempt: key.attempt,
                made: self.made(key),
                state: match life {
                    ContainerLife::Created => match faults.bug {
                        Some(KnownBug::CreatedTakenForDead) => {
                            ContainerSeenState::Exited { exit: lost() }
                        }
                        Some(KnownBug::CreatedTakenForRunning) => {
                            let (started_at, notice) = (Tick::ZERO, StopNotice::NotGiven);
                            ContainerSeenState::Running { started_at, notice }
                        }
                        Some(_) | None => ContainerSeenState::Created,
                    },
                    ContainerLife::Running { started_at, .. } => {
                        let notice = match self.signalled.contains(key) {
                            true => StopNotice::Given,
                            false => StopNotice::NotGiven,
                        };
                        ContainerSeenState::Running { started_at: *started_at, notice }
                    }
                    ContainerLife::Exited(exit)
                        if exit.status.is_success()
                            && faults.bug == Some(KnownBug::SuccessForgotten) =>
                    {
                        ContainerSeenState::Exited { exit: lost() }
                    }
                    ContainerLife::Exited(exit) => {
                        ContainerSeenState::Exited { exit: exit.clone() }
                    }
                },
            })
            .collect()
    }
}

/// The end of a container of which nothing else is known.
fn lost() -> Exit {
    Exit {
        status: ExitStatus::Signal { signal: SIGKILL },
        started_at: Tick::ZERO,
        finished_at: Tick::ZERO,
        message: String::new(),
    }
}

/// How long a hook of a container takes: one that sleeps says so itself.
fn hook_takes(pod: &Pod, container: &str, hook: HookKind) -> TickDuration {
    let found = containers(pod).find(|found| found.name == container);
    let lifecycle = found.and_then(|found| found.lifecycle.as_ref());
    let handler = lifecycle.and_then(|lifecycle| match hook {
        HookKind::PostStart => lifecycle.post_start.as_ref(),
        HookKind::PreStop => lifecycle.pre_stop.as_ref(),
    });
    let sleep = handler.and_then(|handler| handler.sleep.as_ref());
    sleep.map_or(HOOK, |sleep| TickDuration::of_field(sleep.seconds))
}

fn container_id(key: &ContainerStartKey) -> String {
    format!("rekindle://{:08x}{:08x}-{}", key.sandbox.0, key.attempt.0, key.name)
}
