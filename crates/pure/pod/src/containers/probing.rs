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
//! nothing. An early look of a startup or readiness probe ([`Prober`](crate::probe::Prober)) that
//! is not good counts for nothing either, and there is no event of it.

use rekindle_types::{EndedByNode, Tick};

use super::container::{ContainerStop, PodContainer, ProcessState};
use crate::action::{CoreAction, ProbeKind};
use crate::blueprint::RoleInPod;
use crate::context::PodContext;
use crate::event::{ActionError, ActionOutcome, ProbeVerdict};
use crate::health::{ContainerHealth, Probing};
use crate::journal::{Readiness, SidecarGate};
use crate::key::{ActionId, ContainerStartKey};
use crate::outbox::{Outbox, PendingAnswer};
use crate::probe::{ProbeOccasion, ProbeRules, ProbeSign};
use crate::stop_reason::StopReason;
use crate::texts;

/// Which probes a running container is asked with this way to its end, or none.
fn probing(context: &PodContext<'_>, stop: Option<&ContainerStop>) -> Probing {
    if !context.sandboxes.is_ready() {
        return Probing::None;
    }
    match stop {
        None if context.lifecycle.is_active() && context.halt().is_none() => Probing::All,
        None | Some(_) => Probing::Readiness,
    }
}

impl PodContainer {
    /// Brings a running container nearer to `started` and asks for the probes that are due.
    pub(super) fn drive_health(&mut self, context: &PodContext<'_>, outbox: &mut Outbox) {
        if context.lifecycle.is_active() && context.halt().is_none() {
            self.drive_post_start(context, outbox);
        }
        self.drive_probes(context, outbox);
    }

    /// Which probes it is asked with now; none of one that does not run.
    fn probing(&self, context: &PodContext<'_>) -> Probing {
        match &self.state {
            ProcessState::Running { stop, .. } => probing(context, stop.as_ref()),
            ProcessState::Idle(_)
            | ProcessState::Pulling { .. }
            | ProcessState::Starting { .. } => Probing::None,
        }
    }

    /// When the next probe is due.
    pub(super) fn probe_deadline(&self, context: &PodContext<'_>) -> Option<Tick> {
        self.health()?.deadline(self.probing(context))
    }

    fn drive_probes(&mut self, context: &PodContext<'_>, outbox: &mut Outbox) {
        let probing = self.probing(context);
        let place = self.place;
        let ProcessState::Running { health, .. } = &mut self.state else { return };
        for &probe in health.wanted(probing) {
            let due = health.prober(probe).filter(|prober| prober.is_due(context.now));
            let (Some(prober), Some(rules)) = (due, self.definition.probes.get(probe)) else {
                continue;
            };
            let (name, attempt) = (self.definition.name.clone(), self.number);
            let key = ContainerStartKey { sandbox: context.sandboxes.attempt(), name, attempt };
            let action = CoreAction::RunProbe { key, probe, timeout: rules.timeout };
            prober.begin(outbox.act(action, PendingAnswer::Probe(place, probe)), context.now);
        }
    }

    pub(super) fn probe_answered(
        &mut self,
        probe: ProbeKind,
        id: ActionId,
        result: Result<ActionOutcome, ActionError>,
        context: &PodContext<'_>,
        outbox: &mut Outbox,
    ) {
        let probing = self.probing(context);
        let ProcessState::Running { health, .. } = &mut self.state else { return };
        let wanted = health.wanted(probing).contains(&probe);
        let (Some(prober), Some(rules)) = (health.prober(probe), self.definition.probes.get(probe))
        else {
            return;
        };
        let rules = *rules;
        let Some(occasion) = prober.end(id, context.now, &rules) else { return };
        if !wanted {
            return; // it has begun to end since
        }
        let verdict = match &result {
            Ok(ActionOutcome::Probed { verdict, .. }) => Some(*verdict),
            Ok(_) | Err(_) => None,
        };
        if verdict == Some(ProbeVerdict::NotListening) && looks_early(probe) {
            prober.look_early(context.now);
        }
        let sign = verdict.map(ProbeSign::of_verdict);
        if occasion == ProbeOccasion::EarlyLook && sign != Some(ProbeSign::Good) {
            return; // the ticks are what counts
        }
        let reached = sign.and_then(|sign| prober.count(sign, &rules));
        if reached == Some(ProbeSign::Bad) {
            self.failed = failed(probe, &result);
        }
        self.tell_of_probe(probe, result, outbox);
        if let Some(sign) = reached {
            self.probe_decided(probe, sign, &rules, context, outbox);
        }
    }

    /// The events that the kubelet records of an execution.
    fn tell_of_probe(
        &self,
        probe: ProbeKind,
        result: Result<ActionOutcome, ActionError>,
        outbox: &mut Outbox,
    ) {
        let definition = &self.definition;
        outbox.emit(match result {
            Ok(ActionOutcome::Probed { verdict: ProbeVerdict::Success, .. }) => return,
            Ok(ActionOutcome::Probed { verdict: ProbeVerdict::Warning, output }) => {
                texts::probe_warning(definition, probe, &output)
            }
            Ok(ActionOutcome::Probed {
                verdict: ProbeVerdict::Failure | ProbeVerdict::NotListening,
                output,
            }) => texts::unhealthy(definition, probe, &output),
            Ok(other) => {
                let message = format!("the runtime answered {other:?} to the probe");
                texts::probe_errored(definition, probe, &message)
            }
            Err(error) => texts::probe_errored(definition, probe, &error.message),
        });
    }

    /// A probe has said the same often enough.
    fn probe_decided(
        &mut self,
        probe: ProbeKind,
        sign: ProbeSign,
        rules: &ProbeRules,
        context: &PodContext<'_>,
        outbox: &mut Outbox,
    ) {
        let now = context.now;
        let ProcessState::Running { health, started_at, .. } = &mut self.state else { return };
        let stop = match (probe, sign) {
            (ProbeKind::Startup, ProbeSign::Good) => {
                health.complete(&self.definition, *started_at, now);
                return self.open_gate();
            }
            (ProbeKind::Readiness, ProbeSign::Good) => return health.readiness = Readiness::Ready,
            (ProbeKind::Readiness, ProbeSign::Bad) => return health.readiness = Readiness::Unready,
            (ProbeKind::Liveness, ProbeSign::Good) => return,
            (ProbeKind::Startup, ProbeSign::Bad) => StopReason::StartupFailed,
            (ProbeKind::Liveness, ProbeSign::Bad) => StopReason::LivenessFailed,
        };
        let kill_at = now + rules.grace.unwrap_or(context.desired.grace());
        self.begin_stop(kill_at, stop, context, outbox);
    }

    /// A sidecar that is started, for the first time in its round, lets the containers after it
    /// start.
    pub(super) fn open_gate(&mut self) {
        let started = self.health().is_some_and(ContainerHealth::is_started);
        if self.definition.role == RoleInPod::Sidecar && started {
            self.gate = SidecarGate::Open;
        }
    }
}

/// Whether a probe of this kind finds out that a container has begun to serve.
const fn looks_early(probe: ProbeKind) -> bool {
    match probe {
        ProbeKind::Startup | ProbeKind::Readiness => true,
        ProbeKind::Liveness => false,
    }
}

/// The words for what a probe's verdict ends a container for, and whether it does.
fn failed(probe: ProbeKind, result: &Result<ActionOutcome, ActionError>) -> Option<String> {
    let said = match result {
        Ok(ActionOutcome::Probed { output, .. }) => output.as_str(),
        Ok(_) | Err(_) => "",
    };
    match probe {
        ProbeKind::Liveness => Some(EndedByNode::LivenessProbe { said }.to_string()),
        ProbeKind::Startup => Some(EndedByNode::StartupProbe { said }.to_string()),
        ProbeKind::Readiness => None,
    }
}
