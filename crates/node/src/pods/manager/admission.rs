//! Which pods the node takes up.

use k8s_openapi::api::core::v1::Pod;
use rekindle_pod::{Eviction, EvictionCause};
use rekindle_runtime::Runtime;
use rekindle_types::{PodUid, TickDuration};

use super::super::placement;
use super::super::shown_by::Source;
use super::super::worker::Admission;
use super::{Manager, Phase};
use crate::eviction;
use crate::network::PodNetwork;
use crate::shutdown::{NOT_ADMITTED, NOT_ADMITTED_MESSAGE};

impl<R: Runtime, N: PodNetwork> Manager<R, N> {
    /// Whether a pod of the API that comes now is taken up.
    pub(super) fn admission(&self, pod: &Pod) -> Admission {
        match self.phase {
            Phase::ShuttingDown => Admission::Refused(Eviction {
                cause: EvictionCause::NotAdmitted { reason: NOT_ADMITTED },
                message: NOT_ADMITTED_MESSAGE.to_owned(),
                grace: TickDuration::ZERO,
            }),
            Phase::Serving => {
                let refusal = eviction::refusal(pod, &self.rules.pressures.borrow());
                self.admission_by_node(pod, refusal.or_else(|| self.rules.sysctls.refusal(pod)))
            }
            // what an earlier agent had taken up is not asked about again
            Phase::Recovering if self.is_taken_up(pod) => Admission::Granted,
            Phase::Recovering => self.admission_by_node(pod, self.rules.sysctls.refusal(pod)),
            Phase::RecoveringToEnd | Phase::Stopping => Admission::Granted,
        }
    }

    /// Whether a static pod that comes now is taken up.
    pub(super) fn static_admission(&self, pod: &Pod, source: &Source) -> Admission {
        if self.is_taken_up(pod) {
            return Admission::Granted;
        }
        self.placement(pod, source)
    }

    fn admission_by_node(&self, pod: &Pod, refusal: Option<Eviction>) -> Admission {
        match refusal {
            Some(refusal) => Admission::Refused(refusal),
            None => self.placement(pod, &Source::Api),
        }
    }

    fn placement(&self, pod: &Pod, source: &Source) -> Admission {
        let known = self.rules.node.borrow().clone();
        if placement::is_in_question(pod, known.as_deref(), source) {
            Admission::InQuestion { known }
        } else {
            Admission::Granted
        }
    }

    /// Whether an agent has begun with the pod: its status says so, or something of it stands.
    fn is_taken_up(&self, pod: &Pod) -> bool {
        let has_begun = pod.status.as_ref().is_some_and(|status| status.start_time.is_some());
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        has_begun || self.found.contains_key(&PodUid(uid))
    }
}
