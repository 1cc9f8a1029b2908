//! What one look at an autoscaler comes to.

use std::cmp::Ordering;

use k8s_openapi::api::autoscaling::v2::{
    HPAScalingRules, HorizontalPodAutoscaler, HorizontalPodAutoscalerBehavior, MetricStatus,
};
use rekindle_types::autoscaling::counts_without_pods;
use rekindle_types::{EventSeverity, Quantity, Tick};

use super::COMPONENT;
use super::adapter_metrics::AdapterInputs;
use super::adapter_queries::TargetQueries;
use super::conditions::{ABLE_TO_SCALE, SCALING_ACTIVE, SCALING_LIMITED, ScalingConditions};
use super::history::ReplicaRecommendation;
use super::limits::{ReplicaRange, limit};
use super::metrics::{MetricInputs, judge};
use super::replica_count::MetricTolerance;
use super::samples::TargetSamples;
use super::selected_pods::pods_of;
use super::target::{self, ScaleTarget};
use crate::events::EventNote;
use crate::readings::NamespaceReading;
use crate::{ClusterView, ViewObject};

/// Why a workload gets more replicas whatever its metrics say.
const BELOW_MIN: &str = "Current number of replicas below Spec.MinReplicas";

/// What is done, and what is to be said.
#[derive(Clone, Debug)]
pub(super) struct ScalingDecision {
    pub(super) conditions: ScalingConditions,
    /// The replicas that the target should have so far; none without a target.
    pub(super) current: Option<i32>,
    /// The replicas that the target should have from now on.
    pub(super) desired: i32,
    /// The metrics as they are; none where they were not looked at.
    pub(super) metrics: Option<Vec<MetricStatus>>,
    pub(super) notes: Vec<AutoscalerWarning>,
    pub(super) recommendation: Option<ReplicaRecommendation>,
    pub(super) rescale: Option<Rescale>,
}

/// A new number of replicas.
#[derive(Clone, Debug)]
pub(super) struct Rescale {
    pub(super) target: ScaleTarget,
    pub(super) replicas: i32,
    /// How many more; negative for less.
    pub(super) change: i32,
    pub(super) reason: String,
}

/// Something that people should know about an autoscaler.
#[derive(Clone, Debug)]
pub(super) struct AutoscalerWarning {
    reason: &'static str,
    text: String,
}

impl AutoscalerWarning {
    /// The event about this autoscaler.
    pub(super) fn about(&self, autoscaler: &ViewObject) -> EventNote {
        let warning = EventSeverity::Warning;
        EventNote::new(autoscaler, warning, self.reason, self.text.clone(), COMPONENT)
    }
}

impl ScalingDecision {
    fn warn(&mut self, reason: &'static str, text: impl Into<String>) {
        self.notes.push(AutoscalerWarning { reason, text: text.into() });
    }

    fn rescale(&mut self, target: &ScaleTarget, replicas: i32, reason: String) {
        self.desired = replicas;
        let change = replicas.saturating_sub(target.scale.wanted);
        self.rescale = Some(Rescale { target: target.clone(), replicas, change, reason });
    }
}

/// What a look goes by.
#[derive(Clone, Copy)]
pub(super) struct ScalingInputs<'a> {
    pub(super) view: &'a ClusterView,
    pub(super) autoscaler: &'a HorizontalPodAutoscaler,
    /// What was read last for the autoscalers of the namespace.
    pub(super) reading: &'a NamespaceReading,
    pub(super) now: Tick,
}

/// Decides by the newest reading.
pub(super) fn decide(inputs: ScalingInputs<'_>) -> ScalingDecision {
    let spec = &inputs.autoscaler.spec;
    let before = inputs.autoscaler.status.clone().unwrap_or_default();
    let mut decision = ScalingDecision {
        conditions: ScalingConditions::new(before.conditions.as_ref(), inputs.now),
        current: None,
        desired: before.desired_replicas,
        metrics: before.current_metrics,
        notes: Vec::new(),
        recommendation: None,
        rescale: None,
    };
    let namespace = inputs.autoscaler.metadata.namespace.as_deref().unwrap_or_default();
    let target = match target::find(inputs.view, namespace, &spec.scale_target_ref) {
        Ok(target) => target,
        Err(why) => {
            decision.warn("FailedGetScale", why.to_string());
            let text =
                format!("the HPA controller was unable to get the target's current scale: {why}");
            decision.conditions.fail(ABLE_TO_SCALE, "FailedGetScale", text);
            return decision;
        }
    };
    let text = "the HPA controller was able to get the target's current scale";
    decision.conditions.hold(ABLE_TO_SCALE, "SucceededGetScale", text);
    decision.metrics = None;
    let current = target.scale.wanted;
    decision.current = Some(current);
    let range = ReplicaRange { min: spec.min_replicas.unwrap_or(1), max: spec.max_replicas };
    let wakes = current == 0
        && decision.conditions.is_scaled_to_zero()
        && (range.min != 0 || spec.metrics.iter().flatten().any(counts_without_pods));
    if current == 0 && !wakes {
        decision.desired = 0;
        let text = "scaling is disabled since the replica count of the target is zero";
        decision.conditions.fail(SCALING_ACTIVE, "ScalingDisabled", text);
    } else if current > range.max {
        let reason = "Current number of replicas above Spec.MaxReplicas".to_owned();
        decision.rescale(&target, range.max, reason);
    } else if current < range.min && !wakes {
        decision.rescale(&target, range.min, BELOW_MIN.to_owned());
    } else if let Some((proposed, name)) = propose(inputs, &target, &mut decision) {
        follow(inputs, (&target, range), (proposed, &name), &mut decision);
    }
    decision
}

/// How many replicas the metrics ask for, and which metric does; none when they cannot say.
fn propose(
    inputs: ScalingInputs<'_>,
    target: &ScaleTarget,
    decision: &mut ScalingDecision,
) -> Option<(i32, String)> {
    let ScalingInputs { view, autoscaler, reading, now } = inputs;
    let pods = match pods_of(view, autoscaler, target) {
        Ok(pods) => pods,
        Err(why) => {
            let (reason, text) = why.condition();
            decision.conditions.fail(SCALING_ACTIVE, reason, text);
            decision.warn(why.reason(), why.to_string());
            decision.warn("FailedComputeMetricsReplicas", why.to_string());
            return None;
        }
    };
    let samples = match &reading.usage {
        Ok(report) => Ok(TargetSamples::new(&pods.list, report, now)),
        Err(why) => Err(why.as_str()),
    };
    let namespace = autoscaler.metadata.namespace.as_deref().unwrap_or_default();
    let adapters = AdapterInputs {
        queries: TargetQueries { view, namespace, selector: pods.selector },
        reading,
        pods: &pods.list,
        current: target.scale.wanted,
        observed: target.scale.observed,
        tolerance: tolerance(autoscaler.spec.behavior.as_ref()),
    };
    let verdict = judge(autoscaler, &mut MetricInputs { samples, adapters });
    for failure in &verdict.failures {
        decision.warn(failure.reason, failure.message.clone());
    }
    let failed_text = verdict.failed_text();
    decision.metrics = Some(verdict.statuses);
    if let Some((_, name)) = &verdict.proposal {
        let text =
            format!("the HPA was able to successfully calculate a replica count from {name}");
        decision.conditions.hold(SCALING_ACTIVE, "ValidMetricFound", text);
    } else if let (Some(first), Some(text)) = (verdict.failures.first(), failed_text) {
        let said = format!("the HPA was unable to compute the replica count: {}", first.message);
        decision.conditions.fail(SCALING_ACTIVE, first.reason, said);
        decision.warn("FailedComputeMetricsReplicas", text);
    }
    verdict.proposal
}

/// Goes as far towards a proposal as windows, policies and the range let it.
fn follow(
    inputs: ScalingInputs<'_>,
    (target, range): (&ScaleTarget, ReplicaRange),
    (proposed, name): (i32, &str),
    decision: &mut ScalingDecision,
) {
    let ScalingInputs { view, autoscaler, now, .. } = inputs;
    let current = target.scale.wanted;
    let recommendation = ReplicaRecommendation {
        autoscaler: autoscaler.metadata.uid.clone().unwrap_or_default(),
        current,
        recommended: proposed,
        at: now,
    };
    let mut history = view.scaling_history(&recommendation.autoscaler);
    history.recommend(current, proposed, now);
    let behavior = autoscaler.spec.behavior.as_ref();
    let limited = limit(behavior, &history, (current, proposed), range, now);
    decision.recommendation = Some(recommendation);
    let (reason, text) = limited.stabilized;
    decision.conditions.hold(ABLE_TO_SCALE, reason, text);
    let (reason, text) = limited.limit;
    match limited.is_limited {
        true => decision.conditions.hold(SCALING_LIMITED, reason, text),
        false => decision.conditions.fail(SCALING_LIMITED, reason, text),
    }
    decision.desired = current;
    // one that was at zero when its range did not allow that any more
    let replicas = if current == 0 { limited.replicas.max(range.min) } else { limited.replicas };
    if replicas != current {
        let reason = match proposed.cmp(&current) {
            Ordering::Greater => format!("{name} above target"),
            Ordering::Less => "All metrics below target".to_owned(),
            Ordering::Equal if current < range.min => BELOW_MIN.to_owned(),
            Ordering::Equal => "a recent recommendation was another one".to_owned(),
        };
        decision.rescale(target, replicas, reason);
    }
}

fn tolerance(behavior: Option<&HorizontalPodAutoscalerBehavior>) -> MetricTolerance {
    let own = |rules: Option<&HPAScalingRules>| -> Option<Quantity> {
        rules?.tolerance.as_ref()?.0.parse().ok()
    };
    let up = behavior.and_then(|behavior| own(behavior.scale_up.as_ref()));
    let down = behavior.and_then(|behavior| own(behavior.scale_down.as_ref()));
    MetricTolerance::new(up, down)
}
