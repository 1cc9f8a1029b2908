//! An autoscaler's conditions, with upstream's reasons and texts.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerCondition;
use rekindle_types::Tick;

/// Whether the target can be scaled at all.
pub(super) const ABLE_TO_SCALE: &str = "AbleToScale";
/// Whether the metrics say how many replicas there should be.
pub(super) const SCALING_ACTIVE: &str = "ScalingActive";
/// Whether a limit holds the number back.
pub(super) const SCALING_LIMITED: &str = "ScalingLimited";

/// Whether the autoscaler has scaled the target to zero, and not a person (KEP-2021).
const SCALED_TO_ZERO: &str = "ScaledToZero";

/// The conditions of one autoscaler while it is looked at.
#[derive(Clone, Debug)]
pub(super) struct ScalingConditions {
    all: Vec<HorizontalPodAutoscalerCondition>,
    now: Tick,
}

impl ScalingConditions {
    /// As they are.
    pub(super) fn new(before: Option<&Vec<HorizontalPodAutoscalerCondition>>, now: Tick) -> Self {
        Self { all: before.cloned().unwrap_or_default(), now }
    }

    /// Says that one holds.
    pub(super) fn hold(&mut self, type_: &str, reason: &str, message: impl Into<String>) {
        self.set(type_, "True", reason, message.into());
    }

    /// Says that one does not hold.
    pub(super) fn fail(&mut self, type_: &str, reason: &str, message: impl Into<String>) {
        self.set(type_, "False", reason, message.into());
    }

    /// Says whether the last rescale was one to zero.
    pub(super) fn note_rescale(&mut self, replicas: i32) {
        match replicas {
            0 => {
                let text = "the HPA controller scaled the workload to zero";
                self.hold(SCALED_TO_ZERO, SCALED_TO_ZERO, text);
            }
            _ => {
                let text = "the HPA controller did not scale the workload to zero";
                self.fail(SCALED_TO_ZERO, "NotScaledToZero", text);
            }
        }
    }

    /// Whether the last rescale was one to zero.
    pub(super) fn is_scaled_to_zero(&self) -> bool {
        let mut all = self.all.iter();
        all.any(|condition| condition.type_ == SCALED_TO_ZERO && condition.status == "True")
    }

    /// The time changes with the status alone.
    fn set(&mut self, type_: &str, status: &str, reason: &str, message: String) {
        let known = self.all.iter().position(|condition| condition.type_ == type_);
        let index = known.unwrap_or_else(|| {
            self.all.push(HorizontalPodAutoscalerCondition {
                type_: type_.to_owned(),
                ..HorizontalPodAutoscalerCondition::default()
            });
            self.all.len() - 1
        });
        let condition = &mut self.all[index];
        if condition.status != status {
            condition.last_transition_time = Some(self.now.to_time());
            condition.status = status.to_owned();
        }
        condition.reason = Some(reason.to_owned());
        condition.message = Some(message);
    }

    /// All that were said.
    pub(super) fn into_list(self) -> Vec<HorizontalPodAutoscalerCondition> {
        self.all
    }
}
