//! A pod's status on its way to the API: what is written next, and on which version of the object.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rekindle_pod::StatusWrite;
use rekindle_types::Tick;

use crate::latest_write::{LatestWrite, Urgency, WriteOutcome};

/// A status to be written.
#[derive(Clone, Debug)]
pub struct StatusToWrite {
    /// The status.
    pub status: Arc<PodStatus>,
    /// The object that it is written on, as seen last.
    pub base: StatusWrite,
}

/// What became of the write of a status.
#[derive(Clone, Debug)]
pub enum StatusAnswer {
    /// It stands in the API. This is the object, if it was answered.
    Written(Option<Arc<Pod>>),
    /// It could not be written, for example because another writer changed the object. This is the
    /// object, if it could be read since.
    Retry(Option<Arc<Pod>>),
    /// The object is gone, or another pod has its name.
    Gone,
}

/// The statuses of one pod, newest first.
#[derive(Clone, Debug)]
pub struct StatusQueue {
    latest: LatestWrite<Arc<PodStatus>>,
    seen: StatusWrite,
}

impl StatusQueue {
    /// Of a pod that stands in the API as `pod`.
    pub fn new(pod: &Pod) -> Self {
        let status = Arc::new(pod.status.clone().unwrap_or_default());
        Self { latest: LatestWrite::new(status), seen: StatusWrite::on(pod) }
    }

    /// Takes a newer status.
    pub fn submit(&mut self, now: Tick, status: Arc<PodStatus>, urgency: Urgency) {
        self.latest.submit(now, status, urgency);
    }

    /// Nothing is expected to replace the newest status any more.
    pub fn release(&mut self) {
        self.latest.release();
    }

    /// The object was seen in the API. If its condition Ready differs from the node's, the node
    /// writes its status again: the node lifecycle controller makes the pods of an unreachable node
    /// not ready.
    pub fn observe(&mut self, now: Tick, pod: &Pod) {
        if !self.seen.see(pod) {
            return;
        }
        let own = ready(Some(self.latest.newest()));
        let differs = own.zip(ready(pod.status.as_ref())).is_some_and(|(own, shown)| own != shown);
        if differs {
            let status = self.latest.newest().clone();
            self.latest.submit(now, status, Urgency::Now);
        }
    }

    /// The status to be written now, if there is one. Answer with [`answered`](Self::answered).
    pub fn poll(&mut self, now: Tick) -> Option<StatusToWrite> {
        let status = self.latest.poll(now)?;
        Some(StatusToWrite { status, base: self.seen.clone() })
    }

    /// What became of the write in flight.
    pub fn answered(&mut self, now: Tick, answer: StatusAnswer) {
        let (pod, outcome) = match answer {
            StatusAnswer::Written(pod) => (pod, WriteOutcome::Written),
            StatusAnswer::Retry(pod) => (pod, WriteOutcome::Retry),
            StatusAnswer::Gone => (None, WriteOutcome::Gone),
        };
        if let Some(pod) = pod {
            self.seen = StatusWrite::on(&pod);
        }
        self.latest.settle(now, outcome);
    }

    /// The object is gone: nothing is written any more.
    pub fn close(&mut self) {
        self.latest.close();
    }

    /// Whether the newest status stands in the API, or the object is gone.
    pub fn is_settled(&self) -> bool {
        self.latest.is_settled()
    }

    /// When [`poll`](Self::poll) may have a status that it does not have now.
    pub fn poll_timeout(&self) -> Option<Tick> {
        self.latest.poll_timeout()
    }
}

/// What the condition Ready says.
pub(crate) fn ready(status: Option<&PodStatus>) -> Option<&str> {
    let mut conditions = status?.conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == "Ready").map(|ready| ready.status.as_str())
}
