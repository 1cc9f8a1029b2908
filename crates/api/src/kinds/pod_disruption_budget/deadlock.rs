//! Budgets that never let a pod go. Kubernetes accepts them without a word, and the drain of a node then waits for ever.

use std::fmt;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use rekindle_types::int_or_percent::{Rounding, scaled};

use crate::validation::amounts;
use rekindle_types::owners::controller_of;

/// Why a budget never allows a disruption, however healthy its pods are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Deadlock {
    /// Neither `minAvailable` nor `maxUnavailable` is there.
    NoLimit,
    /// `maxUnavailable` is zero. Carries it as written.
    NoneUnavailable(String),
    /// `minAvailable` is all of them. Carries it as written.
    AllAvailable(String),
    /// It wants as many healthy pods as there are.
    AsManyAsThereAre {
        /// Pods that must be healthy.
        desired: i32,
        /// Pods that there are.
        expected: i32,
    },
    /// Its limit counts pods of controllers, and it covers none.
    Unmanaged,
}

impl Deadlock {
    /// What the spec alone says, whatever pods there are.
    pub(crate) fn of_spec(spec: &PodDisruptionBudgetSpec) -> Option<Self> {
        match (&spec.min_available, &spec.max_unavailable) {
            (None, None) => Some(Self::NoLimit),
            (_, Some(max)) if amounts::is_zero(max) => {
                Some(Self::NoneUnavailable(amounts::shown(max)))
            }
            (Some(min), None) if amounts::percent(min) == Some(100) => {
                Some(Self::AllAvailable(amounts::shown(min)))
            }
            (Some(_), _) | (None, Some(_)) => None,
        }
    }

    /// What the spec says when it covers so many pods; none of them is no deadlock, they may come.
    pub(crate) fn with_pods(spec: &PodDisruptionBudgetSpec, pods: i32) -> Option<Self> {
        Self::of_spec(spec).or_else(|| {
            let desired = scaled(spec.min_available.as_ref()?, pods, Rounding::Up);
            Self::of_counts(desired, pods)
        })
    }

    /// What the budget's status says, as its controller saw the pods last; `pod` is one that it covers.
    pub(crate) fn of_budget(budget: &PodDisruptionBudget, pod: &Pod) -> Option<Self> {
        let spec = budget.spec.as_ref()?;
        Self::of_spec(spec).or_else(|| {
            let status = budget.status.as_ref()?;
            let is_managed = controller_of(&pod.metadata).is_some();
            match status.expected_pods.unwrap_or(0) {
                0 if !is_managed => Some(Self::Unmanaged),
                expected => Self::of_counts(status.desired_healthy.unwrap_or(0), expected),
            }
        })
    }

    fn of_counts(desired: i32, expected: i32) -> Option<Self> {
        (expected > 0 && desired >= expected)
            .then_some(Self::AsManyAsThereAre { desired, expected })
    }

    /// For a Warning header: which budget, and what follows.
    pub(crate) fn warning(&self, budget: &str) -> String {
        format!(
            "disruption budget {budget:?} lets no pod be evicted, so that the drain of a node waits for ever: {self}"
        )
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLimit => f.write_str("neither spec.minAvailable nor spec.maxUnavailable is set"),
            Self::NoneUnavailable(max) => write!(f, "spec.maxUnavailable is {max}"),
            Self::AllAvailable(min) => write!(f, "spec.minAvailable is {min}"),
            Self::AsManyAsThereAre { desired, expected } => {
                write!(f, "it wants {desired} healthy pods, and covers {expected}")
            }
            Self::Unmanaged => f.write_str(
                "no controller manages the pods that it covers; only an integer spec.minAvailable counts such pods",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_budget_that_blocks_for_ever_is_told_from_one_that_waits() {
        for (spec, pods, shown) in [
            (json!({}), 3, "neither spec.minAvailable nor spec.maxUnavailable is set"),
            (json!({"maxUnavailable": 0}), 3, "spec.maxUnavailable is 0"),
            (json!({"maxUnavailable": "0%"}), 0, "spec.maxUnavailable is 0%"),
            (json!({"minAvailable": "100%"}), 3, "spec.minAvailable is 100%"),
            (json!({"minAvailable": 3}), 3, "it wants 3 healthy pods, and covers 3"),
            (json!({"minAvailable": "95%"}), 3, "it wants 3 healthy pods, and covers 3"),
            (json!({"minAvailable": 3}), 0, ""),
            (json!({"minAvailable": 2}), 3, ""),
            (json!({"minAvailable": "50%"}), 3, ""),
            (json!({"maxUnavailable": "1%"}), 3, ""),
        ] {
            let text = format!("{spec} {pods}");
            let spec = serde_json::from_value(spec).unwrap();
            let found = Deadlock::with_pods(&spec, pods).map(|found| found.to_string());
            assert_eq!(found.unwrap_or_default(), shown, "{text}");
        }
    }
}
