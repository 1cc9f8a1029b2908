//! The end of a container, as its pod's status tells of it.

use k8s_openapi::api::core::v1::ContainerStateTerminated;
use rekindle_types::{EndedByNode, NodeStopEnd, OomKill, Tick, TickDuration};

use crate::restart_terms::{ContainerRestartPolicy, StartedBy};
use crate::terminated_reason::TerminatedReason;

/// `state.terminated`, with what our own node writes into its message taken apart. Times are whole
/// seconds, as the API has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerEnd<'a> {
    /// Its exit code, 128 + N for signal N.
    pub exit_code: i32,
    /// The signal that ended it, where the runtime tells.
    pub signal: Option<i32>,
    /// What the kubelet or the runtime says of it.
    pub reason: TerminatedReason<'a>,
    /// The container's own words, or those of what could not start it.
    pub message: &'a str,
    /// Its node brought it about, for what of it failed.
    pub ended_by_node: Option<EndedByNode<'a>>,
    /// Its node was stopped: the exit code is its answer to that.
    pub node_stop: Option<NodeStopEnd>,
    /// What its cgroup said, when it was killed for lack of memory.
    pub oom: Option<OomKill>,
    /// When it began to run; absent of what never did.
    pub started_at: Option<Tick>,
    /// When it ended.
    pub finished_at: Option<Tick>,
}

impl<'a> ContainerEnd<'a> {
    /// What the status says.
    pub fn parse(terminated: &'a ContainerStateTerminated) -> Self {
        let reason = TerminatedReason::parse(terminated.reason.as_deref().unwrap_or_default());
        let message = terminated.message.as_deref().unwrap_or_default();
        let (ended_by_node, message) = split(EndedByNode::split(message), message);
        // after the words about a probe come the container's own, whatever they say
        let node_stop = NodeStopEnd::split(message).filter(|_| ended_by_node.is_none());
        let (node_stop, message) = split(node_stop, message);
        // any container may write such words; of another end they are its own
        let oom = OomKill::split(message).filter(|_| reason == TerminatedReason::OomKilled);
        let (oom, message) = split(oom, message);
        Self {
            exit_code: terminated.exit_code,
            signal: terminated.signal.filter(|signal| *signal > 0),
            reason,
            message,
            ended_by_node,
            node_stop,
            oom,
            started_at: terminated.started_at.as_ref().map(Tick::from),
            finished_at: terminated.finished_at.as_ref().map(Tick::from),
        }
    }

    /// How long it ran, to the second; absent of what never started.
    pub fn ran(&self) -> Option<TickDuration> {
        Some(self.finished_at?.since(self.started_at?))
    }

    /// Ended for a probe, it is started again whatever its exit code, unless it never is.
    pub fn is_for_probe(&self) -> bool {
        match self.ended_by_node {
            Some(EndedByNode::LivenessProbe { .. } | EndedByNode::StartupProbe { .. }) => true,
            Some(EndedByNode::PostStartHook) | None => false,
        }
    }

    /// An end that was not expected. Exit 0 under Always counts: the node restarts such a container
    /// with back-off as if it had crashed. So does what a restart rule answers. What a stop of the
    /// node ended did not fail.
    pub fn is_failure(&self, started_by: StartedBy) -> bool {
        if self.node_stop.is_some() {
            return false;
        }
        match started_by {
            StartedBy::Rule(_) | StartedBy::Policy(ContainerRestartPolicy::Always) => true,
            StartedBy::Policy(ContainerRestartPolicy::OnFailure) => {
                self.exit_code != 0 || self.is_for_probe()
            }
            StartedBy::Policy(ContainerRestartPolicy::Never) => self.exit_code != 0,
        }
    }

    /// It ended as it should and is not started again.
    pub fn is_success(&self, started_by: StartedBy) -> bool {
        let is_over = match started_by {
            StartedBy::Policy(
                ContainerRestartPolicy::OnFailure | ContainerRestartPolicy::Never,
            ) => true,
            StartedBy::Policy(ContainerRestartPolicy::Always) | StartedBy::Rule(_) => false,
        };
        is_over && self.exit_code == 0 && !self.is_for_probe()
    }

    /// It ended as what is told to stop does: by SIGTERM, or by SIGKILL after its grace period. A
    /// kubelet that did not see the end says 137 (`ContainerStatusUnknown`), also of what a restart
    /// of the sandbox ended.
    pub fn may_answer_stop(&self) -> bool {
        matches!(self.exit_code, 137 | 143) && self.reason != TerminatedReason::OomKilled
    }
}

/// What was split off, and the rest of the message.
fn split<'a, T>(found: Option<(T, &'a str)>, message: &'a str) -> (Option<T>, &'a str) {
    found.map_or((None, message), |(found, rest)| (Some(found), rest))
}
