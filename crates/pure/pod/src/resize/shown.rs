//! What earlier agents have told of a pod's resize, as its status shows it.

use k8s_openapi::api::core::v1::Pod;
use rekindle_types::resources::RESIZE_IN_PROGRESS;

/// The reason of a resize that cannot be put into force just now.
pub(super) const ERROR: &str = "Error";

/// What an earlier agent has told of the resize of this generation: it failed, which is not told
/// again.
pub(super) fn shown_error(pod: &Pod, generation: i64) -> Option<String> {
    let mut conditions = pod.status.as_ref()?.conditions.iter().flatten();
    let shown = conditions.find(|condition| {
        condition.type_ == RESIZE_IN_PROGRESS
            && condition.reason.as_deref() == Some(ERROR)
            && condition.observed_generation == Some(generation)
    });
    shown.map(|condition| condition.message.clone().unwrap_or_default())
}
