//! The status that was given out last. Whether it changed is found by comparing, once after each
//! event that was taken in.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PodStatus;

/// The status that was given out last.
#[derive(Debug)]
pub(crate) struct ShownStatus {
    status: Arc<PodStatus>,
    /// Whether the pod was not compared with the status since the last event. Building a status to
    /// compare costs more than the rest of a poll that finds nothing.
    is_check_due: bool,
}

impl ShownStatus {
    /// As the API had it.
    pub(crate) fn new(status: PodStatus) -> Self {
        Self { status: Arc::new(status), is_check_due: false }
    }

    pub(crate) fn get(&self) -> &Arc<PodStatus> {
        &self.status
    }

    /// An event was taken in, or time has passed.
    pub(crate) fn may_have_changed(&mut self) {
        self.is_check_due = true;
    }

    pub(crate) fn is_to_be_checked(&self) -> bool {
        self.is_check_due
    }

    /// The status as it is now. Given back if it is another one.
    pub(crate) fn checked(&mut self, status: PodStatus) -> Option<Arc<PodStatus>> {
        self.is_check_due = false;
        if status == *self.status {
            return None;
        }
        self.status = Arc::new(status);
        Some(self.status.clone())
    }
}
