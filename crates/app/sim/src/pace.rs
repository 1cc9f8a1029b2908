//! When the runtime answered. What an agent waited for when it died the next one asks for again,
//! and has it some milliseconds later; what came in one moment comes in several then, and whoever
//! looks at it may rightly do something else. So a run in which agents die is compared with one in
//! which none does, and the runtime takes as long as it took there.

use std::collections::BTreeMap;

use rekindle_pod::{ContainerStartKey, CoreAction, HookKind, ProbeKind};
use rekindle_types::{ContainerName, SandboxAttempt, Tick, TickDuration};

/// A death moves an answer by as much as it had been waited for, and no call takes longer than
/// this; what comes later than that has another cause, and is not followed.
const MOVED_MAX: TickDuration = TickDuration::from_millis(400);

/// How long the runtime takes for what it is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum RuntimePace {
    /// As long as it takes; nobody looks.
    #[default]
    Own,
    /// As long as it takes, and that is noted.
    Noted(RuntimeAnswerTimes),
    /// As long as it took in a run in which it was noted.
    Followed(RuntimeAnswerTimes),
}

/// When agents had each answer, by the UID of the pod and by what was asked, in the agents' time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuntimeAnswerTimes(BTreeMap<(String, RuntimeCallName), Tick>);

/// What is asked of the runtime, named alike in every run of a campaign, however often it is asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RuntimeCallName {
    /// For what comes after so many sandboxes.
    Volumes(u64),
    Sandbox(SandboxAttempt),
    SandboxGone(SandboxAttempt),
    /// For what comes after so many starts of the container.
    Image(ContainerName, u64),
    Start(ContainerStartKey),
    Signal(ContainerStartKey),
    Kill(ContainerStartKey),
    Removal(ContainerStartKey),
    Hook(ContainerStartKey, HookKind),
    /// The first one only: what it says holds on.
    Probe(ContainerStartKey, ProbeKind),
}

impl RuntimeCallName {
    /// What an action asks of a pod's runtime that made so many sandboxes and starts; none of what
    /// campaigns with nothing but deaths never do, or what nobody waits for.
    pub(crate) fn new(
        action: &CoreAction,
        sandboxes: u64,
        starts: impl FnOnce(&ContainerName) -> u64,
    ) -> Option<Self> {
        match action {
            CoreAction::MountVolumes | CoreAction::RefreshVolumes => Some(Self::Volumes(sandboxes)),
            CoreAction::SetUpSandbox { attempt, .. } => Some(Self::Sandbox(*attempt)),
            CoreAction::TearDownSandbox { attempt } => Some(Self::SandboxGone(*attempt)),
            CoreAction::FindImage { container, .. } => {
                Some(Self::Image(container.clone(), starts(container)))
            }
            CoreAction::StartContainer { key, .. } => Some(Self::Start(key.clone())),
            CoreAction::SignalContainer { key } => Some(Self::Signal(key.clone())),
            CoreAction::KillContainer { key } => Some(Self::Kill(key.clone())),
            CoreAction::RemoveContainer { key } => Some(Self::Removal(key.clone())),
            CoreAction::RunProbe { key, probe, .. } => Some(Self::Probe(key.clone(), *probe)),
            CoreAction::RunHook { key, hook, .. } => Some(Self::Hook(key.clone(), *hook)),
            CoreAction::PullImage { .. }
            | CoreAction::UpdateSandbox { .. }
            | CoreAction::UpdateContainer { .. } => None,
        }
    }
}

impl RuntimePace {
    /// Whether anybody looks.
    pub(crate) const fn is_looked_at(&self) -> bool {
        !matches!(self, Self::Own)
    }

    /// An agent has an answer, or the next one knows without it. What had to be asked for once more
    /// it has when it comes again.
    pub(crate) fn heard(&mut self, now: Tick, uid: &str, asked: RuntimeCallName) {
        let Self::Noted(RuntimeAnswerTimes(answers)) = self else { return };
        let is_first_only = matches!(asked, RuntimeCallName::Probe(..));
        let heard = answers.entry((uid.to_owned(), asked)).or_insert(now);
        if !is_first_only {
            *heard = now;
        }
    }

    /// A runtime that takes as long as it took.
    pub(crate) fn followed(self) -> Self {
        match self {
            Self::Noted(answers) | Self::Followed(answers) => Self::Followed(answers),
            Self::Own => Self::Own,
        }
    }

    /// How long an answer takes that is asked for now, and takes so long by itself.
    pub(crate) fn takes(
        &self,
        now: Tick,
        uid: &str,
        asked: &RuntimeCallName,
        by_itself: TickDuration,
    ) -> TickDuration {
        let Self::Followed(RuntimeAnswerTimes(answers)) = self else { return by_itself };
        let heard = answers.get(&(uid.to_owned(), asked.clone())).filter(|heard| **heard >= now);
        let took = heard.map(|heard| heard.since(now));
        let moved = |took: &TickDuration| took.as_micros().abs_diff(by_itself.as_micros());
        took.filter(|took| moved(took) <= MOVED_MAX.as_micros()).unwrap_or(by_itself)
    }
}

#[cfg(test)]
mod tests {
    use rekindle_types::ContainerAttempt;

    use super::*;

    const UID: &str = "a";
    const SANDBOX: RuntimeCallName = RuntimeCallName::Sandbox(SandboxAttempt(0));

    fn at(millis: u64) -> Tick {
        Tick::ZERO + TickDuration::from_millis(millis)
    }

    /// What is asked for 100 ms after the beginning and takes 40, in milliseconds.
    fn takes(pace: &RuntimePace, asked: &RuntimeCallName) -> u64 {
        let took = pace.takes(at(100), UID, asked, TickDuration::from_millis(40));
        took.as_micros() / 1_000
    }

    /// What was heard at these times, in milliseconds.
    fn heard(asked: &RuntimeCallName, times: &[u64]) -> RuntimePace {
        let mut pace = RuntimePace::Noted(RuntimeAnswerTimes::default());
        times.iter().for_each(|millis| pace.heard(at(*millis), UID, asked.clone()));
        pace.followed()
    }

    #[test]
    fn an_answer_comes_when_it_came_at_last() {
        assert_eq!(takes(&heard(&SANDBOX, &[163]), &SANDBOX), 63);
        assert_eq!(takes(&heard(&SANDBOX, &[150, 170]), &SANDBOX), 70, "it was asked for again");
        assert_eq!(takes(&heard(&SANDBOX, &[110]), &SANDBOX), 10, "the next agent saw it");
        let other = RuntimeCallName::SandboxGone(SandboxAttempt(0));
        assert_eq!(takes(&heard(&SANDBOX, &[163]), &other), 40);
    }

    #[test]
    fn what_no_death_explains_is_not_followed() {
        assert_eq!(takes(&heard(&SANDBOX, &[540]), &SANDBOX), 440);
        assert_eq!(takes(&heard(&SANDBOX, &[541]), &SANDBOX), 40);
        assert_eq!(takes(&heard(&SANDBOX, &[99]), &SANDBOX), 40, "before it was asked for");
        let mut own = RuntimePace::Own;
        own.heard(at(163), UID, SANDBOX);
        assert_eq!(takes(&own.followed(), &SANDBOX), 40);
    }

    #[test]
    fn of_a_probe_the_first_answer_counts() {
        let (sandbox, attempt) = (SandboxAttempt(0), ContainerAttempt(0));
        let key = ContainerStartKey { sandbox, name: ContainerName("app".to_owned()), attempt };
        let probe = RuntimeCallName::Probe(key, ProbeKind::Readiness);
        assert_eq!(takes(&heard(&probe, &[163, 170]), &probe), 63);
    }
}
