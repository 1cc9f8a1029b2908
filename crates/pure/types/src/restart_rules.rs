//! `restartPolicy` and `restartPolicyRules` of a container: what follows an exit code (KEP-5307,
//! KEP-5532).
//!
//! The first rule that matches decides; where none does, the policy of the container, else that of
//! the pod.

use k8s_openapi::api::core::v1::ContainerRestartRule;

use crate::pods::AnyContainer;

/// One of a container's restart rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartRule {
    codes: ExitCodes,
    /// What it does.
    pub action: RuleAction,
}

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleAction {
    /// This container is started again.
    Restart,
    /// All containers of the pod are, init containers included.
    RestartAllContainers,
}

/// Which exit codes a rule is for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ExitCodes {
    In(Vec<i32>),
    NotIn(Vec<i32>),
}

/// All rules of a container. One that says something unknown to us matches nothing: validation lets
/// none in.
pub fn rules_of(container: &impl AnyContainer) -> Vec<RestartRule> {
    container.restart_policy_rules().iter().filter_map(RestartRule::from_rule).collect()
}

/// What the first rule that matches the exit code does.
pub fn first_match(rules: &[RestartRule], code: i32) -> Option<RuleAction> {
    rules.iter().find(|rule| rule.codes.match_code(code)).map(|rule| rule.action)
}

/// Whether a container that ended with this code stays as it is: no rule answers that, and its
/// policy, or else that of its pod, does not start it again.
pub fn stays_ended(container: &impl AnyContainer, of_pod: Option<&str>, code: i32) -> bool {
    let is_answered = first_match(&rules_of(container), code).is_some();
    !is_answered
        && match container.restart_policy().or(of_pod) {
            Some("Never") => true,
            Some("OnFailure") => code == 0,
            Some(_) | None => false,
        }
}

impl RestartRule {
    fn from_rule(rule: &ContainerRestartRule) -> Option<Self> {
        let action = match rule.action.as_str() {
            "Restart" => RuleAction::Restart,
            "RestartAllContainers" => RuleAction::RestartAllContainers,
            _ => return None,
        };
        let given = rule.exit_codes.as_ref()?;
        let values = given.values.clone().unwrap_or_default();
        let codes = match given.operator.as_str() {
            "In" => ExitCodes::In(values),
            "NotIn" => ExitCodes::NotIn(values),
            _ => return None,
        };
        Some(Self { codes, action })
    }
}

impl ExitCodes {
    fn match_code(&self, code: i32) -> bool {
        match self {
            Self::In(values) => values.contains(&code),
            Self::NotIn(values) => !values.contains(&code),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Container, ContainerRestartRuleOnExitCodes};

    use super::*;

    fn rule(action: &str, operator: &str, values: &[i32]) -> ContainerRestartRule {
        ContainerRestartRule {
            action: action.to_owned(),
            exit_codes: Some(ContainerRestartRuleOnExitCodes {
                operator: operator.to_owned(),
                values: Some(values.to_vec()),
            }),
        }
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let container = Container {
            restart_policy_rules: Some(vec![
                rule("Restart", "In", &[42, 43]),
                rule("RestartAllContainers", "In", &[43, 88]),
                rule("Restart", "NotIn", &[0, 1]),
            ]),
            ..Container::default()
        };
        let rules = rules_of(&container);
        for (code, action) in [
            (42, Some(RuleAction::Restart)),
            (43, Some(RuleAction::Restart)),
            (88, Some(RuleAction::RestartAllContainers)),
            (2, Some(RuleAction::Restart)),
            (0, None),
            (1, None),
        ] {
            assert_eq!(first_match(&rules, code), action, "exit code {code}");
        }
    }
}
