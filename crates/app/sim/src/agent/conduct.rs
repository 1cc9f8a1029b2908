//! How the containers of a pod conduct themselves: what the scenario says of a start, and of what
//! runs already.

use rekindle_pod::{ActionId, ActionOutcome, ContainerStartKey, ProbeKind, ProbeVerdict};
use rekindle_types::{ContainerAttempt, ContainerName, ExitStatus, Tick, TickDuration};

use super::hooks::containers;
use super::{ContainerLife, SIGTERM, SimulatedPod, TimedEffect};
use crate::behaviour::{BehaviourChange, Behaviours, ContainerStart, ExitRule, StartOrder};
use crate::known_bugs::KnownBug;

/// What a well-behaved process takes to end after its stop signal.
pub(super) const STOP: TickDuration = TickDuration::from_millis(10);

/// How a container ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndPlan {
    Open,
    /// It was decided when it started, or when the time of a behaviour began.
    Decided,
}

impl EndPlan {
    pub(super) const fn from_exits(exits: Option<&ExitRule>) -> Self {
        match exits {
            Some(_) => Self::Decided,
            None => Self::Open,
        }
    }
}

impl SimulatedPod {
    /// The behaviour that chooses a start at this time of the run, and how the container ends by
    /// itself.
    pub(super) fn decide(
        &self,
        key: &ContainerStartKey,
        run: &Behaviours,
        time: TickDuration,
    ) -> (Option<usize>, Option<ExitRule>) {
        let image = self.image(&key.name);
        let start = ContainerStart {
            pod: &self.pod,
            node: &self.node,
            container: &key.name.0,
            image: &image,
            sandbox: key.sandbox,
            order: self.order_of(key),
            origin: self.origin,
            time,
        };
        let chosen = run.choose(&start);
        (chosen, run.exits(chosen, &start))
    }

    /// Attempts are counted over all sandboxes of a pod.
    fn order_of(&self, key: &ContainerStartKey) -> StartOrder {
        let first = ContainerStartKey { attempt: ContainerAttempt(0), ..key.clone() };
        match self.starts.range(&first..key).next() {
            None => StartOrder::First,
            Some(_) => StartOrder::Later,
        }
    }

    /// The time of a behaviour begins or is over: what runs may do something else from now on.
    pub(crate) fn decide_anew(&mut self, run: &Behaviours, time: TickDuration) -> Vec<TimedEffect> {
        let running = self.containers.iter().filter_map(|(key, life)| match life {
            ContainerLife::Running { behaviour, end, .. } => Some((key.clone(), *behaviour, *end)),
            ContainerLife::Created | ContainerLife::Exited(_) => None,
        });
        let running: Vec<_> = running.collect();
        let mut effects = Vec::new();
        for (key, before, end) in running {
            let (chosen, exits) = self.decide(&key, run, time);
            if run.turn(before, chosen) == BehaviourChange::None {
                continue;
            }
            self.note_choice(&key.name, chosen);
            let exits = exits.filter(|_| end == EndPlan::Open);
            if let Some(ContainerLife::Running { behaviour, end, .. }) =
                self.containers.get_mut(&key)
            {
                *behaviour = chosen;
                if exits.is_some() {
                    *end = EndPlan::Decided;
                }
            }
            if run.hangs(before) && !run.hangs(chosen) {
                effects.extend(self.wakes(&key));
            }
            effects.extend(exits.map(|exits| TimedEffect::Ends(exits.after, key, exits.status())));
        }
        effects
    }

    /// A behaviour has chosen a container, or none has.
    pub(super) fn note_choice(&mut self, name: &ContainerName, chosen: Option<usize>) {
        self.behaviours_used.extend(chosen);
        let mut of_name = containers(&self.pod).filter(|container| container.name == name.0);
        if of_name.next().is_some_and(|container| container.readiness_probe.is_some()) {
            self.behaviours_probed.extend(chosen);
        }
    }

    /// A container that hung obeys the signal that it got meanwhile, and its hooks end.
    fn wakes(&mut self, key: &ContainerStartKey) -> Vec<TimedEffect> {
        let hung = self.hung.extract_if(.., |_, of| of == key);
        let answered = hung
            .map(|(id, _)| TimedEffect::Answer(TickDuration::ZERO, id, Ok(ActionOutcome::Done)));
        let mut effects: Vec<TimedEffect> = answered.collect();
        if self.signalled.contains(key) {
            let ended = ExitStatus::Signal { signal: SIGTERM };
            effects.push(TimedEffect::Ends(STOP, key.clone(), ended));
        }
        effects
    }

    pub(super) fn probe(
        &mut self,
        now: Tick,
        id: ActionId,
        (key, probe): (&ContainerStartKey, ProbeKind),
        timeout: TickDuration,
        (run, bug): (&Behaviours, Option<KnownBug>),
    ) -> TimedEffect {
        let (behaviour, runs) = match self.containers.get(key) {
            Some(ContainerLife::Running { behaviour, started_at, .. }) => {
                (*behaviour, now.since(*started_at))
            }
            Some(ContainerLife::Created | ContainerLife::Exited(_)) | None => {
                (None, TickDuration::ZERO)
            }
        };
        let soon = TickDuration::from_millis(1);
        let is_ready = match probe {
            ProbeKind::Readiness => run.is_ready(behaviour, runs),
            ProbeKind::Liveness | ProbeKind::Startup => true,
        };
        let (verdict, took) = match (run.hangs(behaviour), is_ready) {
            (true, _) => (ProbeVerdict::Failure, timeout),
            (false, false) => (ProbeVerdict::Failure, soon),
            (false, true) => (ProbeVerdict::Success, soon),
        };
        self.note_probe(now, id, (key, probe), verdict);
        let is_stale = bug == Some(KnownBug::VerdictOfEarlier) && self.probed.has_ended_before(key);
        let verdict = if is_stale { ProbeVerdict::Failure } else { verdict };
        TimedEffect::Answer(took, id, Ok(ActionOutcome::Probed { verdict, output: String::new() }))
    }

    /// What is asked, and what the answer is in truth.
    fn note_probe(
        &mut self,
        now: Tick,
        id: ActionId,
        (key, probe): (&ContainerStartKey, ProbeKind),
        verdict: ProbeVerdict,
    ) {
        let mut broken = self.shown.check_probe(key, probe);
        for _ in 0..=self.probed.leaked(key, probe) {
            broken = broken.or(self.probed.ask(now, &self.pod, (key, probe)));
        }
        self.probed.begin(id, key, probe);
        self.shown.probed(key, probe, verdict);
        if verdict == ProbeVerdict::Failure {
            self.probed.fail(key, probe);
        }
        broken.into_iter().for_each(|broken| self.breaks(|| broken));
    }
}
