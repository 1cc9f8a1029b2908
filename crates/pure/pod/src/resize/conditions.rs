//! The conditions PodResizePending and PodResizeInProgress: there while they are True, with the
//! generation that they speak of.

use k8s_openapi::api::core::v1::{PodCondition, PodStatus};
use rekindle_types::resources::{RESIZE_IN_PROGRESS, RESIZE_PENDING};

use super::Refusal;
use super::shown::ERROR;
use crate::core::PodCore;

/// The node writes these.
pub(crate) const OWNED: [&str; 2] = [RESIZE_PENDING, RESIZE_IN_PROGRESS];

impl PodCore {
    /// Those that hold; `before` is the status as it was.
    pub(crate) fn resize_conditions(&self, before: &PodStatus) -> Vec<PodCondition> {
        if !self.is_active() {
            return Vec::new();
        }
        let pending = self.resize.refusal().map(|refusal| {
            let Refusal { reason, message, generation } = refusal;
            self.resize_condition(RESIZE_PENDING, *generation, Some((reason, message)), before)
        });
        let in_progress = (!self.resize.is_settled()).then(|| {
            let generation = self.resize.granted.generation;
            let error = self.resize.error().map(|message| (ERROR, message));
            self.resize_condition(RESIZE_IN_PROGRESS, generation, error, before)
        });
        pending.into_iter().chain(in_progress).collect()
    }

    fn resize_condition(
        &self,
        type_: &str,
        generation: i64,
        why: Option<(&str, &str)>,
        before: &PodStatus,
    ) -> PodCondition {
        let mut same = before.conditions.iter().flatten().filter(|c| c.type_ == type_);
        let since = same.next().and_then(|condition| condition.last_transition_time.clone());
        PodCondition {
            type_: type_.to_owned(),
            status: "True".to_owned(),
            reason: why.map(|(reason, _)| reason.to_owned()),
            message: why.map(|(_, message)| message.to_owned()),
            observed_generation: Some(generation),
            last_transition_time: since.or_else(|| Some(self.now.to_time())),
            last_probe_time: None,
        }
    }
}
