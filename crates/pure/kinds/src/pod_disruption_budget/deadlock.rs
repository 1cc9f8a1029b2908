//! Budgets that never let a pod go. Kubernetes accepts them without a word, and the drain of a node
//! then waits for ever.

use std::fmt;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rekindle_types::disruption::{DISRUPTION_ALLOWED, SYNC_FAILED, UncountablePods};
use rekindle_types::int_or_percent::{Rounding, scaled};
use rekindle_types::owners::controller_of;

use crate::validation::amounts;

/// Why a budget never allows a disruption, however healthy its pods are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BudgetDeadlock {
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
        /// Pods that there are, or will be when their controllers have made theirs.
        expected: i32,
    },
    /// Its limit counts pods of controllers, and it covers none.
    Unmanaged,
    /// Its limit counts what controllers want, and one of them has no such number. Carries why.
    SyncFailed(String),
}

/// The pods that a budget covers, as their controllers want them: not all of them need be there
/// yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoveredPods {
    /// Those that controllers with a number of replicas want, all together.
    pub wanted: i32,
    /// Those that no controller manages.
    pub unmanaged: i32,
    /// Those that are there of controllers without a number of replicas.
    pub uncounted: i32,
    /// Why the controllers of those cannot be asked for a number; none when they are only gone.
    pub uncountable: Option<UncountablePods>,
}

impl CoveredPods {
    const fn pods(&self) -> i32 {
        self.wanted.saturating_add(self.unmanaged).saturating_add(self.uncounted)
    }
}

impl BudgetDeadlock {
    /// What the spec alone says, whatever pods there are.
    pub fn of_spec(spec: &PodDisruptionBudgetSpec) -> Option<Self> {
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

    /// What the spec says when it covers these pods; none of them is no deadlock, they may come.
    pub fn with_pods(spec: &PodDisruptionBudgetSpec, covered: &CoveredPods) -> Option<Self> {
        if let Some(deadlock) = Self::of_spec(spec) {
            return Some(deadlock);
        }
        let min = spec.min_available.as_ref();
        if let Some(IntOrString::Int(min)) = min {
            return Self::of_counts(*min, covered.pods());
        }
        if let Some(why) = &covered.uncountable {
            return Some(Self::SyncFailed(why.to_string()));
        }
        match covered.wanted {
            0 => (covered.unmanaged > 0).then_some(Self::Unmanaged),
            wanted => Self::of_counts(scaled(min?, wanted, Rounding::Up), wanted),
        }
    }

    /// What the budget's status says, as its controller saw the pods last; `pod` is one that it
    /// covers. A controller counts for a plain `minAvailable` what is there, which may be less than
    /// there will be: `covered` is asked then.
    pub fn of_budget(
        budget: &PodDisruptionBudget,
        pod: &Pod,
        covered: impl FnOnce() -> Option<CoveredPods>,
    ) -> Option<Self> {
        let spec = budget.spec.as_ref()?;
        if let Some(deadlock) = Self::of_spec(spec) {
            return Some(deadlock);
        }
        if let Some(why) = sync_failure(budget) {
            return Some(Self::SyncFailed(why.to_owned()));
        }
        let status = budget.status.as_ref()?;
        let is_managed = controller_of(&pod.metadata).is_some();
        let deadlock = match status.expected_pods.unwrap_or(0) {
            0 if !is_managed => Self::Unmanaged,
            expected => Self::of_counts(status.desired_healthy.unwrap_or(0), expected)?,
        };
        match &spec.min_available {
            Some(IntOrString::Int(_)) => Self::with_pods(spec, &covered()?),
            Some(IntOrString::String(_)) | None => Some(deadlock),
        }
    }

    fn of_counts(desired: i32, expected: i32) -> Option<Self> {
        (expected > 0 && desired >= expected)
            .then_some(Self::AsManyAsThereAre { desired, expected })
    }

    /// For a Warning header: which budget, and what follows.
    pub fn warning(&self, budget: &str) -> String {
        format!(
            "disruption budget {budget:?} lets no pod be evicted, so that the drain of a node waits for ever: {self}"
        )
    }
}

/// Why the budget's controller could not say how many pods there should be, when it looked last. Of
/// what a plain `minAvailable` counts it always can: such a budget has been changed since.
pub fn sync_failure(budget: &PodDisruptionBudget) -> Option<&str> {
    let counts_what_is_there =
        |spec: &PodDisruptionBudgetSpec| matches!(spec.min_available, Some(IntOrString::Int(_)));
    if budget.spec.as_ref().is_some_and(counts_what_is_there) {
        return None;
    }
    let conditions = budget.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let failed = conditions
        .into_iter()
        .find(|c| c.type_ == DISRUPTION_ALLOWED && c.status == "False" && c.reason == SYNC_FAILED);
    failed.map(|condition| condition.message.as_str())
}

impl fmt::Display for BudgetDeadlock {
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
            Self::SyncFailed(why) => {
                write!(f, "it failed sync: {why}; only an integer spec.minAvailable counts such pods")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const fn wanted(wanted: i32) -> CoveredPods {
        CoveredPods { wanted, unmanaged: 0, uncounted: 0, uncountable: None }
    }

    fn naked(unmanaged: i32) -> CoveredPods {
        CoveredPods { unmanaged, ..wanted(0) }
    }

    fn of_job(wanted: i32) -> CoveredPods {
        let why = UncountablePods::NoScale { resource: "jobs.batch".to_owned() };
        CoveredPods { wanted, uncounted: 1, uncountable: Some(why), unmanaged: 0 }
    }

    #[test]
    fn a_budget_that_blocks_for_ever_is_told_from_one_that_waits() {
        let unmanaged = "no controller manages the pods that it covers; only an integer spec.minAvailable counts such pods";
        let job = "it failed sync: jobs.batch does not implement the scale subresource; only an integer spec.minAvailable \
                   counts such pods";
        for (spec, covered, shown) in [
            (json!({}), wanted(3), "neither spec.minAvailable nor spec.maxUnavailable is set"),
            (json!({"maxUnavailable": 0}), wanted(3), "spec.maxUnavailable is 0"),
            (json!({"maxUnavailable": 0}), of_job(0), "spec.maxUnavailable is 0"),
            (json!({"maxUnavailable": "0%"}), wanted(0), "spec.maxUnavailable is 0%"),
            (json!({"minAvailable": "100%"}), wanted(3), "spec.minAvailable is 100%"),
            (json!({"minAvailable": 3}), wanted(3), "it wants 3 healthy pods, and covers 3"),
            (json!({"minAvailable": 3}), naked(3), "it wants 3 healthy pods, and covers 3"),
            (
                json!({"minAvailable": 3}),
                CoveredPods { unmanaged: 1, ..wanted(2) },
                "it wants 3 healthy pods, and covers 3",
            ),
            (json!({"minAvailable": 1}), of_job(0), "it wants 1 healthy pods, and covers 1"),
            (json!({"minAvailable": 1}), of_job(1), ""),
            (json!({"minAvailable": "95%"}), wanted(3), "it wants 3 healthy pods, and covers 3"),
            (json!({"minAvailable": "50%"}), naked(1), unmanaged),
            (json!({"maxUnavailable": 1}), naked(2), unmanaged),
            (json!({"minAvailable": "50%"}), of_job(4), job),
            (json!({"maxUnavailable": 1}), of_job(0), job),
            (json!({"minAvailable": 3}), wanted(0), ""),
            (json!({"minAvailable": 2}), wanted(3), ""),
            (json!({"minAvailable": "50%"}), wanted(3), ""),
            (json!({"minAvailable": "50%"}), CoveredPods { unmanaged: 1, ..wanted(3) }, ""),
            (json!({"maxUnavailable": "1%"}), wanted(3), ""),
            (json!({"maxUnavailable": 1}), wanted(0), ""),
        ] {
            let text = format!("{spec} {covered:?}");
            let spec = serde_json::from_value(spec).unwrap();
            let found = BudgetDeadlock::with_pods(&spec, &covered).map(|found| found.to_string());
            assert_eq!(found.unwrap_or_default(), shown, "{text}");
        }
    }
}
