//! Graceful node shutdown: which pods end now, which later, and until when.
//!
//! ```text
//!  pods by priority ─► round 1: end these ─► all over, or its period is ─► round 2 … ─► over: what is left ends as it can
//! ```
//! Source: KEP-2000 and KEP-2712 (`shutdownGracePeriodByPodPriority`). Nothing here knows a clock:
//! the manager of the pods asks [`Shutdown::step`] what to do whenever something ended or the time
//! has come.

use std::collections::VecDeque;

use rekindle_types::{PodUid, Tick, TickDuration};

/// Pods of this priority and above are critical (`SystemCriticalPriority`).
pub const CRITICAL_PRIORITY: i32 = 2_000_000_000;
/// `status.message` of a pod that a shutdown ended.
pub(crate) const MESSAGE: &str = "Pod was terminated in response to imminent node shutdown.";
/// What is said of a pod that comes when the node is shutting down.
pub(crate) const NOT_ADMITTED_MESSAGE: &str = "Pod was rejected as the node is shutting down.";
/// What the node's own event says.
pub(crate) const EVENT_MESSAGE: &str = "Shutdown manager detected shutdown event";

/// The time that pods get when the node is shut down. Without groups a node that stops is no node
/// that is shut down: its pods end, and come back with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShutdownPolicy {
    /// By priority, the lowest first; one group for a priority.
    groups: Vec<ShutdownGroup>,
}

/// Pods of this priority, and of those up to the next group's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownGroup {
    /// The lowest priority in it. What is lower than in every group belongs to the first one.
    pub priority: i32,
    /// The most that its pods get, seconds.
    pub shutdown_grace_period_seconds: u32,
}

impl ShutdownPolicy {
    /// `shutdownGracePeriod`, of which critical pods get the last part,
    /// `shutdownGracePeriodCriticalPods`.
    pub fn of_periods(total_seconds: u32, critical_seconds: u32) -> Self {
        if total_seconds == 0 {
            return Self::default();
        }
        let group = |priority, shutdown_grace_period_seconds| ShutdownGroup {
            priority,
            shutdown_grace_period_seconds,
        };
        Self::by_priority(vec![
            group(0, total_seconds.saturating_sub(critical_seconds)),
            group(CRITICAL_PRIORITY, critical_seconds),
        ])
    }

    /// `shutdownGracePeriodByPodPriority`.
    pub fn by_priority(mut groups: Vec<ShutdownGroup>) -> Self {
        groups.sort_by_key(|group| group.priority);
        groups.dedup_by_key(|group| group.priority);
        Self { groups }
    }

    /// Whether the end of the node is a shutdown.
    pub fn is_on(&self) -> bool {
        !self.groups.is_empty()
    }

    /// The place of a priority's group.
    fn group_of(&self, priority: i32) -> usize {
        self.groups.partition_point(|group| group.priority <= priority).saturating_sub(1)
    }
}

/// A pod that runs when the shutdown begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShutdownCandidate {
    pub(crate) uid: PodUid,
    pub(crate) priority: i32,
    /// Its own grace period.
    pub(crate) grace: TickDuration,
}

/// A pod that has to end, and the time it gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndingPod {
    pub(crate) uid: PodUid,
    pub(crate) grace: TickDuration,
}

/// Pods that end at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ShutdownRound {
    period: TickDuration,
    pods: Vec<EndingPod>,
}

/// A shutdown that is under way.
#[derive(Debug)]
pub(crate) struct Shutdown {
    rounds: VecDeque<ShutdownRound>,
    current: Option<CurrentRound>,
}

/// The round that is waited for.
#[derive(Debug)]
struct CurrentRound {
    pods: Vec<PodUid>,
    deadline: Tick,
}

/// What a shutdown wants next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ShutdownStep {
    /// These pods end now; ask again.
    End(Vec<EndingPod>),
    /// Nothing, until one of them is over or this time has come.
    Wait(Tick),
    /// All had their time.
    Over,
}

impl Shutdown {
    /// Sorts the pods into rounds. A group without pods takes no time.
    pub(crate) fn new(
        policy: &ShutdownPolicy,
        pods: impl IntoIterator<Item = ShutdownCandidate>,
    ) -> Self {
        let mut rounds: Vec<ShutdownRound> = policy
            .groups
            .iter()
            .map(|group| ShutdownRound {
                period: TickDuration::from_secs(group.shutdown_grace_period_seconds.into()),
                pods: Vec::new(),
            })
            .collect();
        for pod in pods {
            if let Some(round) = rounds.get_mut(policy.group_of(pod.priority)) {
                let grace = pod.grace.min(round.period);
                round.pods.push(EndingPod { uid: pod.uid, grace });
            }
        }
        rounds.retain(|round| !round.pods.is_empty());
        Self { rounds: rounds.into(), current: None }
    }

    /// What comes next, when `is_here` tells which pods are not over yet.
    pub(crate) fn step(&mut self, now: Tick, is_here: impl Fn(&PodUid) -> bool) -> ShutdownStep {
        if let Some(current) = &self.current
            && current.deadline > now
            && current.pods.iter().any(is_here)
        {
            return ShutdownStep::Wait(current.deadline);
        }
        self.current = None;
        let Some(round) = self.rounds.pop_front() else { return ShutdownStep::Over };
        self.current = Some(CurrentRound {
            pods: round.pods.iter().map(|pod| pod.uid.clone()).collect(),
            deadline: now + round.period,
        });
        ShutdownStep::End(round.pods)
    }
}

#[cfg(test)]
mod tests;
