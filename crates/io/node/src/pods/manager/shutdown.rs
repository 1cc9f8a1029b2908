//! The manager's part of a node shutdown: tells the pods whose turn it is. What is decided is in
//! [`crate::shutdown`].

use k8s_openapi::api::core::v1::Pod;
use rekindle_pod_driver::spec_grace_seconds;
use rekindle_runtime::Runtime;
use rekindle_types::reasons::event::NODE_SHUTDOWN;
use rekindle_types::{EventSeverity, TickDuration};
use tokio::time::Instant;

use super::super::inbox::WorkerInput;
use super::{Manager, ManagerPhase};
use crate::network::PodNetwork;
use crate::shutdown::{EVENT_MESSAGE, Shutdown, ShutdownCandidate, ShutdownStep};

impl<R: Runtime, N: PodNetwork> Manager<R, N> {
    /// Ends the pods: by a shutdown, where there is time for one, else all at once, to come back
    /// with the node. What an earlier agent left and is not taken up yet is ended in the second
    /// way.
    pub(super) fn stop(&mut self) {
        match self.phase {
            ManagerPhase::Serving if self.rules.shutdown.is_on() => self.begin_shutdown(),
            ManagerPhase::ShuttingDown => {}
            ManagerPhase::Recovering
            | ManagerPhase::RecoveringToEnd
            | ManagerPhase::Serving
            | ManagerPhase::Stopping => {
                self.end_pods();
            }
        }
    }

    fn begin_shutdown(&mut self) {
        self.phase = ManagerPhase::ShuttingDown;
        let about = self.node.object_reference();
        self.node.recorder.record(
            about,
            EventSeverity::Normal,
            NODE_SHUTDOWN,
            EVENT_MESSAGE.to_owned(),
        );
        let pods = self.workers.iter().map(|(uid, worker)| {
            let pod = worker.updates.borrow();
            let grace = u64::try_from(spec_grace_seconds(&pod)).unwrap_or(0);
            ShutdownCandidate {
                uid: uid.clone(),
                priority: priority(&pod),
                grace: TickDuration::from_secs(grace),
            }
        });
        let mut pods: Vec<ShutdownCandidate> = pods.collect();
        pods.sort_by(|a, b| a.uid.cmp(&b.uid));
        self.shutdown = Some(Shutdown::new(&self.rules.shutdown, pods));
    }

    /// Takes a shutdown as far as it goes now; answers when it wants to go on though nothing
    /// happens.
    pub(super) fn drive_shutdown(&mut self) -> Option<Instant> {
        loop {
            let workers = &self.workers;
            let step = self
                .shutdown
                .as_mut()?
                .step(self.node.clock.now(), |uid| workers.contains_key(uid));
            match step {
                ShutdownStep::End(pods) => {
                    for pod in pods {
                        self.tell(&pod.uid, WorkerInput::NodeShutsDown { grace: pod.grace });
                    }
                }
                ShutdownStep::Wait(until) => return Some(self.node.clock.instant_of(until)),
                ShutdownStep::Over => {
                    self.shutdown = None;
                    self.end_pods();
                }
            }
        }
    }
}

fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default()
}
