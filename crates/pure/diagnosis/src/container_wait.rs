//! A container that waits, as its pod's status tells of it.

use k8s_openapi::api::core::v1::ContainerStateWaiting;
use rekindle_types::{Tick, span};

use crate::container_end::ContainerEnd;
use crate::waiting_reason::WaitingReason;

/// `state.waiting`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerWait<'a> {
    /// Why.
    pub reason: WaitingReason<'a>,
    /// What else is said of it.
    pub message: &'a str,
}

impl<'a> ContainerWait<'a> {
    /// What the status says.
    pub fn parse(waiting: &'a ContainerStateWaiting) -> Self {
        Self {
            reason: WaitingReason::parse(waiting.reason.as_deref().unwrap_or_default()),
            message: waiting.message.as_deref().unwrap_or_default(),
        }
    }

    /// When the back-off after this end is over. The kubelet's text names the delay, which counts
    /// from the end: `back-off 5m0s restarting failed container=…`.
    pub fn backoff_ends_at(&self, last_end: &ContainerEnd<'_>) -> Option<Tick> {
        if self.reason != WaitingReason::CrashLoopBackOff {
            return None;
        }
        let delay = self.message.strip_prefix("back-off ")?.split(' ').next()?;
        Some(last_end.finished_at? + span::parse(delay).ok()?)
    }
}
