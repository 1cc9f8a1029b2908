//! Asking for probes, and what follows their verdicts.
//!
//! | probe | passed | failed too often |
//! |---|---|---|
//! | startup | the container is started, the two others begin | it is stopped, and started again unless its policy is Never |
//! | readiness | ready | not ready |
//! | liveness | | as startup |
//!
//! Startup and liveness end when the container or the pod begins to end, readiness goes on until
//! the process is gone. An execution that comes to no verdict is told in an event and counts for
//! nothing.

use crate::action::{Action, ProbeKind};
use crate::blueprint::Role;
use crate::container::{State, Stop, StopReason};
use crate::core::{Keep, PodCore};
use crate::event::{ActionError, Outcome, Verdict};
use crate::health::{Health, Probing};
use crate::journal::{Gate, Readiness};
use crate::key::ActionId;
use crate::outbox::Pending;
use crate::probe::{ProbeRules, Sign};
use crate::texts;
use rekindle_types::EndedByNode;

impl PodCore {
    /// Brings running containers nearer to `started` and asks for the probes that are due.
    pub(crate) fn drive_health(&mut self) {
        for place in 0..self.containers.len() {
            if self.is_active() && self.halt().is_none() {
                self.drive_post_start(place);
            }
            self.drive_probes(place);
        }
    }

    /// Which probes a running container is asked with this way to its end, or none.
    pub(crate) fn probing(&self, stop: Option<&Stop>) -> Probing {
        if !self.sandbox.is_ready() {
            return Probing::None;
        }
        match stop {
            None if self.is_active() && self.halt().is_none() => Probing::All,
            None | Some(_) => Probing::Readiness,
        }
    }

    /// Which probes a container is asked with now; none of one that does not run.
    fn probing_of(&self, place: usize) -> Probing {
        match &self.containers[place].state {
            State::Running { stop, .. } => self.probing(stop.as_ref()),
            State::Idle(_) | State::Pulling { .. } | State::Starting { .. } => Probing::None,
        }
    }

    fn drive_probes(&mut self, place: usize) {
        let now = self.now;
        let key = self.containers[place].key(self.sandbox.attempt);
        let probing = self.probing_of(place);
        let container = &mut self.containers[place];
        let State::Running { health, .. } = &mut container.state else { return };
        for &probe in health.wanted(probing) {
            let due = health.prober(probe).filter(|prober| prober.is_due(now));
            let (Some(prober), Some(rules)) = (due, container.definition.probes.get(probe)) else {
                continue;
            };
            let timeout = rules.timeout;
            let action = Action::RunProbe { key: key.clone(), probe, timeout };
            prober.begin(self.outbox.act(action, Pending::Probe(place, probe)));
        }
    }

    pub(crate) fn probe_answered(
        &mut self,
        place: usize,
        probe: ProbeKind,
        id: ActionId,
        result: Result<Outcome, ActionError>,
    ) {
        let now = self.now;
        let probing = self.probing_of(place);
        let container = &mut self.containers[place];
        let State::Running { health, .. } = &mut container.state else { return };
        let wanted = health.wanted(probing).contains(&probe);
        let prober = health.prober(probe).filter(|prober| prober.is(id));
        let (Some(prober), Some(rules)) = (prober, container.definition.probes.get(probe)) else {
            return;
        };
        let rules = *rules;
        prober.ended(now, &rules);
        self.moved = true;
        if !wanted {
            return; // it has begun to end meanwhile
        }
        let sign = match &result {
            Ok(Outcome::Probed { verdict: Verdict::Success | Verdict::Warning, .. }) => {
                Some(Sign::Good)
            }
            Ok(Outcome::Probed { verdict: Verdict::Failure, .. }) => Some(Sign::Bad),
            Ok(_) | Err(_) => None,
        };
        let reached = sign.and_then(|sign| prober.count(sign, &rules));
        if reached == Some(Sign::Bad) {
            container.failed = failed(probe, &result);
        }
        self.tell_of_probe(place, probe, result);
        if let Some(sign) = reached {
            self.probe_decided(place, probe, sign, &rules);
        }
    }

    /// The events that the kubelet records of an execution.
    fn tell_of_probe(
        &mut self,
        place: usize,
        probe: ProbeKind,
        result: Result<Outcome, ActionError>,
    ) {
        let definition = &self.containers[place].definition;
        let event = match result {
            Ok(Outcome::Probed { verdict: Verdict::Success, .. }) => return,
            Ok(Outcome::Probed { verdict: Verdict::Warning, output }) => {
                texts::probe_warning(definition, probe, &output)
            }
            Ok(Outcome::Probed { verdict: Verdict::Failure, output }) => {
                texts::unhealthy(definition, probe, &output)
            }
            Ok(other) => {
                let message = format!("the runtime answered {other:?} to the probe");
                texts::probe_errored(definition, probe, &message)
            }
            Err(error) => texts::probe_errored(definition, probe, &error.message),
        };
        self.emit(event);
    }

    /// A probe has said the same often enough.
    fn probe_decided(&mut self, place: usize, probe: ProbeKind, sign: Sign, rules: &ProbeRules) {
        let now = self.now;
        let container = &mut self.containers[place];
        let State::Running { health, started_at, .. } = &mut container.state else { return };
        let stop = match (probe, sign) {
            (ProbeKind::Startup, Sign::Good) => {
                health.complete(&container.definition, *started_at, now);
                self.launch_moved(place);
                return;
            }
            (ProbeKind::Readiness, sign) => {
                let readiness = match sign {
                    Sign::Good => Readiness::Ready,
                    Sign::Bad => Readiness::Unready,
                };
                if health.readiness != readiness {
                    health.readiness = readiness;
                    self.status_changed = true;
                    self.keep(Keep::WithNextAction);
                }
                return;
            }
            (ProbeKind::Liveness, Sign::Good) => return,
            (ProbeKind::Startup, Sign::Bad) => StopReason::StartupFailed,
            (ProbeKind::Liveness, Sign::Bad) => StopReason::LivenessFailed,
        };
        let kill_at = now + rules.grace.unwrap_or(self.blueprint.grace);
        self.begin_stop(place, kill_at, stop);
    }

    /// A sidecar that is started, for the first time in its round, lets the containers after it
    /// start.
    pub(crate) fn open_gate(&mut self, place: usize) {
        let container = &mut self.containers[place];
        let started = container.health().is_some_and(Health::is_started);
        let sidecar = container.definition.role == Role::Sidecar;
        if sidecar && started && container.gate == Gate::Closed {
            container.gate = Gate::Open;
            self.moved = true;
        }
    }
}

/// The words for what a probe's verdict ends a container for, and whether it does.
fn failed(probe: ProbeKind, result: &Result<Outcome, ActionError>) -> Option<String> {
    let said = match result {
        Ok(Outcome::Probed { output, .. }) => output.as_str(),
        Ok(_) | Err(_) => "",
    };
    match probe {
        ProbeKind::Liveness => Some(EndedByNode::LivenessProbe { said }.to_string()),
        ProbeKind::Startup => Some(EndedByNode::StartupProbe { said }.to_string()),
        ProbeKind::Readiness => None,
    }
}
