//! No container gets its stop signal before the rules that lead new connections to it are gone
//! (P15).
//!
//! ```text
//!                 what ends a container is asked for         withdrawn, or the bound is over
//!  any of these ───────────────────────────► Withdrawing ─────────────────────────► Withdrawn
//!                                     what ends containers waits                        │
//!  BySlices ──┬── the pod is Ready ──────► Admitted ◄────── the pod is Ready again ─────┘
//!             │                             │    ▲
//!             └── it is not ──► Excluded ◄──┘    └── from Excluded, too
//! ```
//! Slices come later than the node knows. So the node's word counts from the first status on: a
//! slice may still say that the pod is ready when its container has died, and the other way round.
//!
//! The bound keeps a node whose rules cannot be written from holding pods: their containers are
//! ended then, and an Event says so.

use std::collections::VecDeque;

use rekindle_pod::{ActionId, CoreAction, PodEvent};
use rekindle_types::reasons::event;
use rekindle_types::{EventSeverity, Tick, TickDuration};

use crate::effect::{NotReadyCause, PodEffect};

/// Whether new connections reach the pod, as far as the node has a say.
#[derive(Debug)]
pub(crate) struct RoutingGate {
    state: RoutingState,
    /// For so long the rules may take.
    timeout: TickDuration,
    /// What may be given out.
    due: VecDeque<PodEffect>,
}

#[derive(Debug)]
enum RoutingState {
    /// As the Services' slices say: the node has said nothing yet.
    BySlices,
    /// They do not, as the pod is not ready.
    Excluded(NotReadyCause),
    /// They are being kept away.
    Withdrawing {
        until: Tick,
        /// What ends containers.
        held: Vec<(ActionId, CoreAction)>,
    },
    /// They do not.
    Withdrawn,
    /// They do, whatever slices say.
    Admitted,
}

impl RoutingGate {
    pub(crate) const fn new(timeout: TickDuration) -> Self {
        Self { state: RoutingState::BySlices, timeout, due: VecDeque::new() }
    }

    /// An action that ends a container. It is given out in its time; what is to be done now
    /// is answered.
    pub(crate) fn pass(
        &mut self,
        now: Tick,
        id: ActionId,
        action: CoreAction,
    ) -> Option<PodEffect> {
        match &mut self.state {
            RoutingState::BySlices | RoutingState::Excluded(_) | RoutingState::Admitted => {
                let until = now + self.timeout;
                self.state = RoutingState::Withdrawing { until, held: vec![(id, action)] };
                Some(PodEffect::WithdrawEndpoints)
            }
            RoutingState::Withdrawing { held, .. } => {
                held.push((id, action));
                None
            }
            RoutingState::Withdrawn => Some(PodEffect::Perform(id, action)),
        }
    }

    /// No rule leads new connections to the pod.
    pub(crate) fn withdrawn(&mut self) {
        if let RoutingState::Withdrawing { held, .. } = &mut self.state {
            self.due.extend(held.drain(..).map(|(id, action)| PodEffect::Perform(id, action)));
            self.state = RoutingState::Withdrawn;
        }
    }

    /// The pod is ready: connections may come.
    pub(crate) fn ready(&mut self) {
        match self.state {
            RoutingState::BySlices | RoutingState::Excluded(_) | RoutingState::Withdrawn => {
                self.state = RoutingState::Admitted;
                self.due.push_back(PodEffect::AdmitEndpoints);
            }
            RoutingState::Withdrawing { .. } | RoutingState::Admitted => {}
        }
    }

    /// The pod is not ready: none are to come. A container that died while the pod was not ready is
    /// news; one that runs again before the pod is ready is none.
    pub(crate) fn not_ready(&mut self, cause: NotReadyCause) {
        let is_news = match self.state {
            RoutingState::BySlices | RoutingState::Admitted => true,
            RoutingState::Excluded(known) => {
                known == NotReadyCause::Unready && cause == NotReadyCause::ContainerDown
            }
            RoutingState::Withdrawing { .. } | RoutingState::Withdrawn => false,
        };
        if is_news {
            self.state = RoutingState::Excluded(cause);
            self.due.push_back(PodEffect::ExcludeEndpoints(cause));
        }
    }

    /// What may be given out by now.
    pub(crate) fn poll(&mut self, now: Tick) -> Option<PodEffect> {
        if let RoutingState::Withdrawing { until, .. } = self.state
            && until <= now
        {
            self.due.push_back(PodEffect::Record(PodEvent {
                severity: EventSeverity::Warning,
                reason: event::FAILED_WITHDRAW_ENDPOINTS,
                message: format!(
                    "The node's rules still lead new connections to this pod after {} ms; its containers are stopped all the same",
                    self.timeout.as_micros() / 1000
                ),
                field_path: None,
            }));
            self.withdrawn();
        }
        self.due.pop_front()
    }

    /// When [`poll`](Self::poll) has something without a further input.
    pub(crate) fn poll_timeout(&self) -> Option<Tick> {
        match self.state {
            RoutingState::Withdrawing { until, .. } => Some(until),
            RoutingState::BySlices
            | RoutingState::Excluded(_)
            | RoutingState::Withdrawn
            | RoutingState::Admitted => None,
        }
    }
}
