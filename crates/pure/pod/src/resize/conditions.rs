//! The conditions PodResizePending and PodResizeInProgress: there while they are True, with the
//! generation that they speak of.

use k8s_openapi::api::core::v1::{PodCondition, PodStatus};
use rekindle_types::Tick;
use rekindle_types::resources::{RESIZE_IN_PROGRESS, RESIZE_PENDING};

use super::shown::ERROR;
use super::{Resize, ResizeRefusal};

/// The node writes these.
pub(crate) const OWNED: [&str; 2] = [RESIZE_PENDING, RESIZE_IN_PROGRESS];

/// Those that hold; `before` is the status as it was.
pub(crate) fn conditions(resize: &Resize, before: &PodStatus, now: Tick) -> Vec<PodCondition> {
    let pending = resize.refusal().map(|refusal| {
        let ResizeRefusal { reason, message, generation } = refusal;
        condition(RESIZE_PENDING, *generation, Some((reason, message)), before, now)
    });
    let in_progress = (!resize.is_settled()).then(|| {
        let error = resize.error().map(|message| (ERROR, message));
        condition(RESIZE_IN_PROGRESS, resize.granted().generation, error, before, now)
    });
    pending.into_iter().chain(in_progress).collect()
}

fn condition(
    type_: &str,
    generation: i64,
    why: Option<(&str, &str)>,
    before: &PodStatus,
    now: Tick,
) -> PodCondition {
    let mut same = before.conditions.iter().flatten().filter(|c| c.type_ == type_);
    let since = same.next().and_then(|condition| condition.last_transition_time.clone());
    PodCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        reason: why.map(|(reason, _)| reason.to_owned()),
        message: why.map(|(_, message)| message.to_owned()),
        observed_generation: Some(generation),
        last_transition_time: since.or_else(|| Some(now.to_time())),
        last_probe_time: None,
    }
}
