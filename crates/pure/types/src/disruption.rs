//! What a PodDisruptionBudget says of itself, for who calculates it, who evicts by it and who warns
//! of it.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;

/// The condition that says whether a pod may be evicted.
pub const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";

/// Its reason while pods can be spared.
pub const SUFFICIENT_PODS: &str = "SufficientPods";

/// Its reason while none can.
pub const INSUFFICIENT_PODS: &str = "InsufficientPods";

/// Its reason when nobody can say how many pods there should be.
pub const SYNC_FAILED: &str = "SyncFailed";

/// Why it cannot be said how many pods there should be; in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UncountablePods {
    /// The controller of a pod is gone, or is another one of that name.
    #[error("found no controllers for pod {pod:?}")]
    NoController {
        /// The pod.
        pod: String,
    },
    /// The controller has no number of replicas.
    #[error("{resource} does not implement the scale subresource")]
    NoScale {
        /// `jobs.batch`.
        resource: String,
    },
    /// Nobody knows such a controller here.
    #[error("no matches for kind {kind:?} in version {api_version:?}")]
    UnknownKind {
        /// Its kind.
        kind: String,
        /// Its apiVersion.
        api_version: String,
    },
}

/// `spec.unhealthyPodEvictionPolicy` of a budget that lets every pod go that is not ready.
pub const ALWAYS_ALLOW: &str = "AlwaysAllow";

/// Whether a budget lets a pod go that is not ready, and does not count it: by its policy, or
/// because it has all the pods that it wants.
pub fn lets_unready_go(budget: &PodDisruptionBudget) -> bool {
    let policy = budget.spec.as_ref().and_then(|s| s.unhealthy_pod_eviction_policy.as_deref());
    let status = budget.status.as_ref();
    let current = status.and_then(|status| status.current_healthy).unwrap_or(0);
    let desired = status.and_then(|status| status.desired_healthy).unwrap_or(0);
    policy == Some(ALWAYS_ALLOW) || (current >= desired && desired > 0)
}
