//! What starts a container again after an end: its rules, else its policy, else that of its pod.

use rekindle_types::pods::AnyContainer;
use rekindle_types::restart_rules::{self, RestartRule, RuleAction};

/// When the node starts a container again: its own restartPolicy, else the pod's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerRestartPolicy {
    /// Whatever it ended with.
    Always,
    /// Unless it exited with 0.
    OnFailure,
    /// Not at all.
    Never,
}

/// By what a container is started again after an end, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartedBy {
    /// Its restart policy, or the pod's.
    Policy(ContainerRestartPolicy),
    /// One of its restart rules.
    Rule(RuleAction),
}

/// On which terms a container is started again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartTerms {
    /// Its policy.
    pub policy: ContainerRestartPolicy,
    /// What comes before that policy, by exit codes.
    pub rules: Vec<RestartRule>,
    /// It runs to its end before the others: a success is not answered by any rule.
    is_init: bool,
}

impl RestartTerms {
    /// Those of a container that is among the pod's regular ones.
    pub fn from_regular(container: &impl AnyContainer, of_pod: Option<&str>) -> Self {
        Self::new(container, of_pod, false)
    }

    /// Those of a container that is among the pod's init containers: an init container, which is
    /// started again only when it failed, or a sidecar.
    pub fn from_init(container: &impl AnyContainer, of_pod: Option<&str>) -> Self {
        Self::new(container, of_pod, !container.is_sidecar())
    }

    fn new(container: &impl AnyContainer, of_pod: Option<&str>, is_init: bool) -> Self {
        let policy = match container.restart_policy().or(of_pod) {
            Some("Never") => ContainerRestartPolicy::Never,
            Some("OnFailure") => ContainerRestartPolicy::OnFailure,
            Some(_) | None if is_init => ContainerRestartPolicy::OnFailure,
            Some(_) | None => ContainerRestartPolicy::Always,
        };
        Self { policy, rules: restart_rules::rules_of(container), is_init }
    }

    /// The rule that an exit code is answered by, before the policy.
    pub fn rule_for(&self, exit_code: i32) -> Option<RuleAction> {
        let has_succeeded = self.is_init && exit_code == 0;
        restart_rules::first_match(&self.rules, exit_code).filter(|_| !has_succeeded)
    }

    /// What answers an exit code.
    pub fn started_by(&self, exit_code: i32) -> StartedBy {
        self.rule_for(exit_code).map_or(StartedBy::Policy(self.policy), StartedBy::Rule)
    }
}
