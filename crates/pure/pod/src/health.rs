//! How a running container does: on its way to `started`, ready or not, and its probes.
//!
//! ```text
//!  PostStart ── hook done ──► Startup ── startup probe passed ──► Complete: `started`, liveness and readiness are probed
//! ```
//! A step that the spec does not have is passed at once. All of it belongs to one start: with the
//! next one it begins anew, and a verdict about an earlier one is not waited for any more.

use rekindle_types::{ContainerAttempt, Tick};

use crate::action::ProbeKind;
use crate::blueprint::{Definition, HookPresence};
use crate::journal::{HealthRecord, Launched, Readiness};
use crate::key::ActionId;
use crate::probe::{ProbeRules, Prober};

/// How a running container does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ContainerHealth {
    pub(crate) launch: Launch,
    /// What the readiness probe said last; without one, whether it is started.
    pub(crate) readiness: Readiness,
    startup: Option<Prober>,
    readiness_probe: Option<Prober>,
    liveness: Option<Prober>,
}

/// How far a running container is on its way to `started`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Launch {
    /// Its postStart hook has to end well.
    PostStart(HookRun),
    /// Its startup probe has to pass.
    Startup,
    /// It is started.
    Complete,
}

/// A hook that has to be run once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HookRun {
    Due,
    InFlight(ActionId),
}

/// Which probes are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probing {
    /// All.
    All,
    /// It is on its way to its end: readiness only.
    Readiness,
    /// There is no process to be asked.
    None,
}

impl ContainerHealth {
    /// Of a container whose process was just started.
    pub(crate) fn fresh(definition: &Definition, started_at: Tick, now: Tick) -> Self {
        let launch = match (definition.post_start, &definition.probes.startup) {
            (HookPresence::Given, _) => Launch::PostStart(HookRun::Due),
            (HookPresence::Absent, Some(_)) => Launch::Startup,
            (HookPresence::Absent, None) => Launch::Complete,
        };
        let mut health = Self {
            launch,
            readiness: Readiness::Unready,
            startup: None,
            readiness_probe: None,
            liveness: None,
        };
        match launch {
            Launch::PostStart(_) => {}
            Launch::Startup => health.await_startup(definition, started_at, now),
            Launch::Complete => health.complete(definition, started_at, now),
        }
        health
    }

    /// Of a container that an earlier agent started, as far as it told.
    pub(crate) fn remembered(
        definition: &Definition,
        started_at: Tick,
        now: Tick,
        record: HealthRecord,
    ) -> Self {
        let mut health = Self::fresh(definition, started_at, now);
        match record.launched {
            Launched::Fresh => {}
            Launched::HookDone => health.hook_done(definition, started_at, now),
            Launched::Started => health.complete(definition, started_at, now),
        }
        let resumed = |rules: &ProbeRules| {
            Prober::resuming(started_at + rules.initial_delay, rules.period, now)
        };
        let probes = &definition.probes;
        match health.launch {
            Launch::PostStart(_) => {}
            Launch::Startup => health.startup = probes.startup.as_ref().map(resumed),
            Launch::Complete => {
                health.liveness = probes.liveness.as_ref().map(resumed);
                health.readiness_probe = probes.readiness.as_ref().map(resumed);
                if probes.readiness.is_some() {
                    health.readiness = record.readiness;
                }
            }
        }
        health
    }

    /// What an agent that comes later has to know; nothing when a running process says it all.
    pub(crate) fn record(
        &self,
        number: ContainerAttempt,
        definition: &Definition,
    ) -> Option<HealthRecord> {
        let probes = &definition.probes;
        match (definition.post_start, &probes.startup, &probes.readiness) {
            (HookPresence::Absent, None, None) => None,
            (HookPresence::Given | HookPresence::Absent, _, _) => {
                Some(self.record_of_start(number, definition))
            }
        }
    }

    /// The same, also where there is nothing to tell but that it was started.
    pub(crate) fn record_of_start(
        &self,
        number: ContainerAttempt,
        definition: &Definition,
    ) -> HealthRecord {
        let launched = match (self.launch, definition.post_start) {
            (Launch::Complete, _) => Launched::Started,
            (Launch::Startup, HookPresence::Given) => Launched::HookDone,
            (Launch::Startup, HookPresence::Absent) | (Launch::PostStart(_), _) => Launched::Fresh,
        };
        HealthRecord { number, launched, readiness: self.readiness }
    }

    /// Its postStart hook ended well.
    pub(crate) fn hook_done(&mut self, definition: &Definition, started_at: Tick, now: Tick) {
        match definition.probes.startup {
            Some(_) => {
                self.launch = Launch::Startup;
                self.await_startup(definition, started_at, now);
            }
            None => self.complete(definition, started_at, now),
        }
    }

    fn await_startup(&mut self, definition: &Definition, started_at: Tick, now: Tick) {
        self.startup = first(definition.probes.startup.as_ref(), started_at, now);
    }

    /// It is started: from now on it is probed for liveness and readiness.
    pub(crate) fn complete(&mut self, definition: &Definition, started_at: Tick, now: Tick) {
        self.launch = Launch::Complete;
        self.startup = None;
        self.liveness = first(definition.probes.liveness.as_ref(), started_at, now);
        self.readiness_probe = first(definition.probes.readiness.as_ref(), started_at, now);
        self.readiness = match definition.probes.readiness {
            Some(_) => Readiness::Unready,
            None => Readiness::Ready,
        };
    }

    /// `started` of the status.
    pub(crate) fn is_started(&self) -> bool {
        match self.launch {
            Launch::Complete => true,
            Launch::PostStart(_) | Launch::Startup => false,
        }
    }

    /// `ready` of the status.
    pub(crate) fn is_ready(&self) -> bool {
        match self.readiness {
            Readiness::Ready => self.is_started(),
            Readiness::Unready => false,
        }
    }

    /// Its postStart hook has not ended.
    pub(crate) fn is_in_post_start(&self) -> bool {
        match self.launch {
            Launch::PostStart(_) => true,
            Launch::Startup | Launch::Complete => false,
        }
    }

    pub(crate) fn prober(&mut self, kind: ProbeKind) -> Option<&mut Prober> {
        match kind {
            ProbeKind::Startup => self.startup.as_mut(),
            ProbeKind::Readiness => self.readiness_probe.as_mut(),
            ProbeKind::Liveness => self.liveness.as_mut(),
        }
    }

    /// The probes that are to be run.
    pub(crate) fn wanted(&self, probing: Probing) -> &'static [ProbeKind] {
        match (self.launch, probing) {
            (_, Probing::None) | (Launch::PostStart(_), _) => &[],
            (Launch::Startup, Probing::All) => &[ProbeKind::Startup],
            (Launch::Startup, Probing::Readiness) => &[],
            (Launch::Complete, Probing::All) => &[ProbeKind::Readiness, ProbeKind::Liveness],
            (Launch::Complete, Probing::Readiness) => &[ProbeKind::Readiness],
        }
    }

    /// When the next probe is due.
    pub(crate) fn deadline(&self, probing: Probing) -> Option<Tick> {
        let wanted = self.wanted(probing).iter();
        let probers = wanted.filter_map(|kind| match kind {
            ProbeKind::Startup => self.startup.as_ref(),
            ProbeKind::Readiness => self.readiness_probe.as_ref(),
            ProbeKind::Liveness => self.liveness.as_ref(),
        });
        probers.filter_map(Prober::deadline).min()
    }
}

/// A probe that begins: at once, unless its initial delay is not over.
fn first(rules: Option<&ProbeRules>, started_at: Tick, now: Tick) -> Option<Prober> {
    rules.map(|rules| Prober::starting_at(now.max(started_at + rules.initial_delay)))
}
