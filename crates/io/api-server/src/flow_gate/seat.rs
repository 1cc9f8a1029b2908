//! The seat of a request, and the turn of one that waits for it. Both are given back when dropped.

use std::sync::Arc;

use rekindle_api::status::ApiError;
use rekindle_flow_control::{
    FlowDecision, FlowRefusal, FlowSeat, RequestClass, WAIT_MAX, WaitingId,
};
use rekindle_types::{Tick, TickDuration};
use tokio::sync::oneshot;

use super::figures::ClassFigures;
use super::{FlowGate, refusal};

/// How upstream's metrics call a request that is refused because its client has gone.
const CANCELLED: &str = "cancelled";

/// The seats of a request that runs. Dropping it gives them back.
pub(crate) struct HeldSeat {
    gate: FlowGate,
    counts: Arc<ClassFigures>,
    /// Taken when it is dropped.
    seat: Option<FlowSeat>,
}

/// A request that waits, as the gate knows it.
pub(super) struct QueuedRequest {
    pub(super) sender: oneshot::Sender<Result<HeldSeat, FlowRefusal>>,
    pub(super) counts: Arc<ClassFigures>,
    pub(super) since: Tick,
}

/// The turn of a request that waits. Dropping it takes the request out of its queue.
pub(super) struct WaitingTurn {
    pub(super) gate: FlowGate,
    pub(super) class: RequestClass,
    pub(super) id: WaitingId,
    pub(super) deadline: Tick,
    pub(super) verdict: oneshot::Receiver<Result<HeldSeat, FlowRefusal>>,
}

impl HeldSeat {
    /// The seats of a request that has waited for so long, or did not have to.
    pub(super) fn new(
        gate: FlowGate,
        counts: Arc<ClassFigures>,
        (seat, waited): (FlowSeat, Option<TickDuration>),
    ) -> Self {
        counts.begin_running(seat.seats(), waited.unwrap_or(TickDuration::ZERO));
        Self { gate, counts, seat: Some(seat) }
    }
}

impl Drop for HeldSeat {
    fn drop(&mut self) {
        let Some(seat) = self.seat.take() else { return };
        self.counts.end_running(seat.seats());
        let now = (self.gate.0.clock)();
        let mut state = self.gate.state();
        state.control.finished(now, seat);
        self.gate.deliver(state);
    }
}

impl QueuedRequest {
    /// Ends its wait. A request that has gone gives its seat back by that.
    pub(super) fn tell(self, gate: &FlowGate, decision: FlowDecision, now: Tick) {
        let Self { sender, counts, since } = self;
        counts.end_waiting();
        let waited = now.since(since);
        let answer = match decision {
            FlowDecision::Seated(seat) => {
                Ok(HeldSeat::new(gate.clone(), counts, (seat, Some(waited))))
            }
            FlowDecision::Refused(why) => {
                counts.refused_after(why.name(), waited);
                Err(why)
            }
        };
        drop(sender.send(answer));
    }
}

impl WaitingTurn {
    /// The seat, once it is there.
    ///
    /// # Errors
    /// 429 when there is none in time.
    pub(super) async fn wait(mut self) -> Result<HeldSeat, ApiError> {
        let verdict = tokio::select! {
            biased;
            verdict = &mut self.verdict => verdict,
            () = tokio::time::sleep(WAIT_MAX.to_std()) => {
                self.end_overdue();
                (&mut self.verdict).await
            }
        };
        // the gate drops no sender without a word
        verdict.unwrap_or(Err(FlowRefusal::TimeOut)).map_err(|why| refusal(&self.class, why))
    }

    /// The clock of the tasks may be ahead of the gate's: its time is over in both.
    fn end_overdue(&self) {
        let now = (self.gate.0.clock)().max(self.deadline);
        let mut state = self.gate.state();
        state.control.handle_timeout(now);
        self.gate.deliver(state);
    }
}

impl Drop for WaitingTurn {
    fn drop(&mut self) {
        let now = (self.gate.0.clock)();
        let mut state = self.gate.state();
        let Some(request) = state.queued.remove(&self.id) else { return };
        state.control.abandon(now, self.id);
        self.gate.deliver(state);
        request.counts.end_waiting();
        request.counts.refused_after(CANCELLED, now.since(request.since));
    }
}
