//! The status that was given out last. Whether it changed is found by comparing, once after each
//! event that was taken in.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PodStatus;

/// The status that was given out last.
#[derive(Debug)]
pub(crate) struct ShownStatus {
    status: Arc<PodStatus>,
    check: StatusCheck,
}

/// Whether the pod was compared with the status since the last event. Building a status to compare
/// costs more than the rest of a poll that finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StatusCheck {
    Due,
    Done,
}

impl ShownStatus {
    /// As the API had it.
    pub(crate) fn new(status: PodStatus) -> Self {
        Self { status: Arc::new(status), check: StatusCheck::Done }
    }

    pub(crate) fn get(&self) -> &Arc<PodStatus> {
        &self.status
    }

    /// An event was taken in, or time has passed.
    pub(crate) fn may_have_changed(&mut self) {
        self.check = StatusCheck::Due;
    }

    pub(crate) fn is_to_be_checked(&self) -> bool {
        self.check == StatusCheck::Due
    }

    /// The status as it is now. Given back if it is another one.
    pub(crate) fn checked(&mut self, status: PodStatus) -> Option<Arc<PodStatus>> {
        self.check = StatusCheck::Done;
        if status == *self.status {
            return None;
        }
        self.status = Arc::new(status);
        Some(self.status.clone())
    }
}
