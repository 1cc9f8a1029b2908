//! How far a rolling update may go above and below the wanted number of pods.
//!
//! Source: the API reference of RollingUpdateDeployment: maxSurge rounds up, maxUnavailable rounds
//! down, and if both come out as 0, maxUnavailable is 1 so that the rollout can go on.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rekindle_types::int_or_percent::{Rounding, scaled};

/// Which way a Deployment changes its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RolloutStrategy {
    /// New ones come as old ones go.
    RollingUpdate,
    /// New ones come after all old ones are gone.
    Recreate,
}

/// The Deployment's strategy; RollingUpdate unless it says otherwise.
pub(super) fn strategy(deployment: &Deployment) -> RolloutStrategy {
    let strategy = deployment.spec.strategy.as_ref();
    match strategy.and_then(|strategy| strategy.type_.as_deref()) {
        Some("Recreate") => RolloutStrategy::Recreate,
        _ => RolloutStrategy::RollingUpdate,
    }
}

/// `spec.replicas` with its default.
pub(super) fn wanted(deployment: &Deployment) -> i32 {
    deployment.spec.replicas.unwrap_or(1)
}

/// Pods allowed above the wanted number.
pub(super) fn max_surge(deployment: &Deployment) -> i32 {
    match strategy(deployment) {
        RolloutStrategy::Recreate => 0,
        RolloutStrategy::RollingUpdate => resolve(deployment).0,
    }
}

/// Pods allowed to be unavailable.
pub(super) fn max_unavailable(deployment: &Deployment) -> i32 {
    match strategy(deployment) {
        RolloutStrategy::Recreate => 0,
        RolloutStrategy::RollingUpdate => resolve(deployment).1.min(wanted(deployment)),
    }
}

fn resolve(deployment: &Deployment) -> (i32, i32) {
    let strategy = deployment.spec.strategy.as_ref();
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let quarter = || IntOrString::String("25%".to_owned());
    let surge = rolling.and_then(|r| r.max_surge.clone()).unwrap_or_else(quarter);
    let unavailable = rolling.and_then(|r| r.max_unavailable.clone()).unwrap_or_else(quarter);
    let wanted = wanted(deployment);
    let surge = scaled(&surge, wanted, Rounding::Up);
    let unavailable = scaled(&unavailable, wanted, Rounding::Down);
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::{DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment};

    use super::*;

    fn deployment(replicas: i32, surge: &str, unavailable: &str) -> Deployment {
        let value = |text: &str| match text.parse() {
            Ok(number) => IntOrString::Int(number),
            Err(_) => IntOrString::String(text.to_owned()),
        };
        Deployment {
            spec: DeploymentSpec {
                replicas: Some(replicas),
                strategy: Some(DeploymentStrategy {
                    type_: Some("RollingUpdate".to_owned()),
                    rolling_update: Some(RollingUpdateDeployment {
                        max_surge: Some(value(surge)),
                        max_unavailable: Some(value(unavailable)),
                    }),
                }),
                ..Default::default()
            },
            ..Default::default()
        }
    }

    #[test]
    fn surge_rounds_up_unavailable_rounds_down_and_not_both_are_zero() {
        for (replicas, surge, unavailable, expected) in [
            (3, "25%", "25%", (1, 0)),
            (4, "25%", "25%", (1, 1)),
            (10, "25%", "25%", (3, 2)),
            (1, "25%", "25%", (1, 0)),
            (10, "0", "0", (0, 1)),
            (10, "0%", "5%", (0, 1)),
            (2, "1", "5", (1, 2)),
            (0, "25%", "25%", (0, 0)),
        ] {
            let deployment = deployment(replicas, surge, unavailable);
            let got = (max_surge(&deployment), max_unavailable(&deployment));
            assert_eq!(
                got, expected,
                "{replicas} replicas, {surge} surge, {unavailable} unavailable"
            );
        }
    }
}
