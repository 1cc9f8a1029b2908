//! Which pods the node takes up.

use k8s_openapi::api::core::v1::Pod;
use rekindle_pod::{EvictionCause, PodEviction};
use rekindle_runtime::Runtime;
use rekindle_types::pods::is_final;
use rekindle_types::reasons::pod::AdmissionRefusal;
use rekindle_types::{PodUid, TickDuration};

use super::super::placement;
use super::super::shown_by::PodSource;
use super::super::worker::PodAdmission;
use super::{Manager, ManagerPhase, ObjectPresence, WorkerHandle};
use crate::eviction;
use crate::host_ports;
use crate::network::PodNetwork;
use crate::shutdown::NOT_ADMITTED_MESSAGE;

impl<R: Runtime, N: PodNetwork> Manager<R, N> {
    /// Whether a pod of the API that comes now is taken up.
    pub(super) fn admission(&self, pod: &Pod) -> PodAdmission {
        match self.phase {
            ManagerPhase::ShuttingDown => PodAdmission::Refused(PodEviction {
                cause: EvictionCause::NotAdmitted { refusal: AdmissionRefusal::NodeShutdown },
                message: NOT_ADMITTED_MESSAGE.to_owned(),
                grace: TickDuration::ZERO,
            }),
            ManagerPhase::Serving => {
                let refusal = eviction::refusal(pod, &self.rules.pressures.borrow());
                let refusal = refusal.or_else(|| self.unfit(pod));
                self.admission_by_node(pod, refusal.or_else(|| self.port_refusal(pod)))
            }
            // what an earlier agent had taken up is not asked about again
            ManagerPhase::Recovering if self.is_taken_up(pod) => PodAdmission::Granted,
            ManagerPhase::Recovering => self.admission_by_node(pod, self.unfit(pod)),
            ManagerPhase::RecoveringToEnd | ManagerPhase::Stopping => PodAdmission::Granted,
        }
    }

    /// Whether a static pod that comes now is taken up.
    pub(super) fn static_admission(&self, pod: &Pod, source: &PodSource) -> PodAdmission {
        if self.is_taken_up(pod) {
            return PodAdmission::Granted;
        }
        match self.port_refusal(pod).or_else(|| refusal_of_system(pod)) {
            Some(refusal) => PodAdmission::Refused(refusal),
            None => self.placement(pod, source),
        }
    }

    /// Whether a new pod asks for ports while it is not known yet which of them others have.
    pub(super) fn has_to_wait_for_ports(&self, pod: &Pod) -> bool {
        self.phase == ManagerPhase::Recovering
            && !self.is_taken_up(pod)
            && !host_ports::claimed_ports(pod).is_empty()
    }

    /// Now it is known. The oldest comes first, as with the kubelet.
    pub(super) fn take_up_those_awaiting_ports(&mut self) {
        let mut pods: Vec<Pod> = std::mem::take(&mut self.awaiting_ports).into_values().collect();
        pods.sort_by(|a, b| a.metadata.creation_timestamp.cmp(&b.metadata.creation_timestamp));
        for pod in pods {
            self.pod_seen(pod);
        }
    }

    /// Why no node like this one takes the pod up, if that is so.
    fn unfit(&self, pod: &Pod) -> Option<PodEviction> {
        refusal_of_system(pod).or_else(|| self.rules.sysctls.refusal(pod))
    }

    /// Why the pod is not taken up for its ports, if it is not. One that is over has given them
    /// back, and one that is gone from the API does so in a moment.
    fn port_refusal(&self, pod: &Pod) -> Option<PodEviction> {
        let wanted = host_ports::claimed_ports(pod);
        if wanted.is_empty() {
            return None;
        }
        let is_over =
            |worker: &WorkerHandle| worker.status.borrow().phase.as_deref().is_some_and(is_final);
        let holders = self.workers.values().filter(|worker| {
            !worker.ports.is_empty() && worker.object == ObjectPresence::There && !is_over(worker)
        });
        host_ports::refusal(&wanted, holders.flat_map(|worker| &worker.ports))
    }

    fn admission_by_node(&self, pod: &Pod, refusal: Option<PodEviction>) -> PodAdmission {
        match refusal {
            Some(refusal) => PodAdmission::Refused(refusal),
            None => self.placement(pod, &PodSource::Api),
        }
    }

    fn placement(&self, pod: &Pod, source: &PodSource) -> PodAdmission {
        let known = self.rules.node.borrow().clone();
        if placement::is_in_question(pod, known.as_deref(), source) {
            PodAdmission::InQuestion { known }
        } else {
            PodAdmission::Granted
        }
    }

    /// Whether an agent has begun with the pod: its status says so, or something of it stands.
    fn is_taken_up(&self, pod: &Pod) -> bool {
        let has_begun = pod.status.as_ref().is_some_and(|status| status.start_time.is_some());
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        has_begun || self.found.contains_key(&PodUid(uid))
    }
}

/// Why a pod for another operating system is not taken up. Source: kubelet,
/// `pkg/kubelet/lifecycle/handlers.go`.
fn refusal_of_system(pod: &Pod) -> Option<PodEviction> {
    let system = pod.spec.as_ref()?.os.as_ref()?;
    (system.name != "linux").then(|| PodEviction {
        cause: EvictionCause::NotAdmitted { refusal: AdmissionRefusal::PodOsNotSupported },
        message: "Failed to admit pod as the OS field doesn't match node OS".to_owned(),
        grace: TickDuration::ZERO,
    })
}
