//! Where requests of clients wait for a seat: the driver of [`FlowControl`]. It has the clock, the
//! tasks that wait, and the stored objects.
//!
//! ```text
//!  classify -> a class; none for exec, logs, proxies and parts of this process
//!  admit -+-> a seat, held until the answer is there
//!         +-> waits for a seat, 15 s at most -> a seat, or 429
//!         +-> 429
//! ```
//!
//! Objects are looked at before each request, so that a change acts on the next one. The lock is
//! held for a look and for one step of the state machine, and for no classification.

mod figures;
mod keeper;
mod seat;
#[cfg(test)]
mod tests;

pub use keeper::keep_flow_control;
pub(super) use seat::HeldSeat;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderName, HeaderValue, Response};
use rekindle_api::request::RequestLine;
use rekindle_api::status::ApiError;
use rekindle_api::{Api, ClassifiedRequest, FlowControlFeed};
use rekindle_flow_control::{
    FlowAdmission, FlowArrival, FlowConfiguration, FlowControl, FlowDecision, FlowRefusal,
    RequestClass, SERVER_SEATS, WAIT_MAX, WaitingId,
};
use rekindle_kinds::identity::ClientIdentity;
use rekindle_metrics::{MetricsSource, Text};
use rekindle_types::Tick;
use tokio::sync::oneshot;

use super::body::FrontBody;
use super::clock::Clock;
use figures::FlowFigures;
use seat::{QueuedRequest, WaitingTurn};

/// Seconds after which a refused client tries again.
const RETRY_AFTER_SECONDS: u32 = 1;

const SCHEMA_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const LEVEL_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// The gate. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub(super) struct FlowGate(Arc<GateParts>);

struct GateParts {
    clock: Clock,
    figures: FlowFigures,
    state: Mutex<GateState>,
}

struct GateState {
    control: FlowControl,
    configuration: Arc<FlowConfiguration>,
    /// None before the first look, and after it fell behind.
    feed: Option<FlowControlFeed>,
    queued: BTreeMap<WaitingId, QueuedRequest>,
}

impl GateState {
    /// Takes over what is stored. Should that fail, the next look begins anew.
    fn reload(&mut self, api: &Api, now: Tick) {
        self.feed = None;
        // the feed first: it shows what changes from here on
        let feed = api.follow_flow_control().map_err(ApiError::from);
        let read = feed.and_then(|feed| Ok((feed, api.flow_configuration()?)));
        match read {
            Ok((feed, configuration)) => {
                self.control.configure(now, &configuration);
                self.configuration = Arc::new(configuration);
                self.feed = Some(feed);
            }
            Err(error) => tracing::warn!(%error, "failed to read FlowSchemas"),
        }
    }
}

impl FlowGate {
    /// A gate with the mandatory objects, until it looks at the stored ones.
    pub(super) fn new(clock: Clock) -> Self {
        Self::with_seats(SERVER_SEATS, clock)
    }

    fn with_seats(seats: u32, clock: Clock) -> Self {
        let configuration = FlowConfiguration::new(&[], &[]);
        let state = GateState {
            control: FlowControl::new(seats, &configuration),
            configuration: Arc::new(configuration),
            feed: None,
            queued: BTreeMap::new(),
        };
        Self(Arc::new(GateParts {
            clock,
            figures: FlowFigures::default(),
            state: Mutex::new(state),
        }))
    }

    /// Where a request belongs, by the objects as they are durable; none if it needs no seat.
    pub(super) fn classify(
        &self,
        api: &Api,
        who: &ClientIdentity,
        asked: &RequestLine<'_>,
    ) -> Option<ClassifiedRequest> {
        let configuration = self.newest(api);
        api.classify(&configuration, who, asked)
    }

    /// Looks at the objects now, for the sake of requests that wait already.
    pub(super) fn refresh(&self, api: &Api) {
        let _seen = self.newest(api);
    }

    /// Waits for the seat of a request. Dropped before, it waits no longer.
    ///
    /// # Errors
    /// 429 when its level has no seat and no room to wait, or none in time.
    pub(super) async fn admit(
        &self,
        request: Option<&ClassifiedRequest>,
    ) -> Result<Option<HeldSeat>, ApiError> {
        let Some(ClassifiedRequest { class, width }) = request else { return Ok(None) };
        match self.arrive(class, *width) {
            Ok(GateAdmission::Seated(seat)) => Ok(Some(seat)),
            Ok(GateAdmission::Waits(turn)) => turn.wait().await.map(Some),
            Err(why) => Err(refusal(class, why)),
        }
    }

    fn arrive(&self, class: &RequestClass, width: u32) -> Result<GateAdmission, FlowRefusal> {
        let now = (self.0.clock)();
        let mut state = self.state();
        let arrival = FlowArrival { level: class.level(), flow: class.flow(), width };
        let id = match state.control.arrive(now, arrival) {
            FlowAdmission::Seated(seat) => {
                drop(state);
                let counts = self.0.figures.of(class);
                return Ok(GateAdmission::Seated(HeldSeat::new(
                    self.clone(),
                    counts,
                    (seat, None),
                )));
            }
            FlowAdmission::Refused(why) => {
                drop(state);
                self.0.figures.refused(class, why.name());
                return Err(why);
            }
            FlowAdmission::Waits(id) => id,
        };
        let (sender, verdict) = oneshot::channel();
        let counts = self.0.figures.of(class);
        counts.begin_waiting();
        state.queued.insert(id, QueuedRequest { sender, counts, since: now });
        let deadline = now + WAIT_MAX;
        self.deliver(state);
        let turn = WaitingTurn { gate: self.clone(), class: class.clone(), id, deadline, verdict };
        Ok(GateAdmission::Waits(turn))
    }

    /// The objects as they are durable.
    fn newest(&self, api: &Api) -> Arc<FlowConfiguration> {
        let mut state = self.state();
        let is_current = match &mut state.feed {
            Some(feed) => feed.has_changed().is_ok_and(|has_changed| !has_changed),
            None => false,
        };
        if is_current {
            return Arc::clone(&state.configuration);
        }
        state.reload(api, (self.0.clock)());
        let configuration = Arc::clone(&state.configuration);
        self.deliver(state);
        configuration
    }

    /// Hands the decisions to those that wait for them, without the lock: a seat that is taken by
    /// none comes back here.
    fn deliver(&self, mut state: MutexGuard<'_, GateState>) {
        let now = (self.0.clock)();
        let mut decided: Vec<(QueuedRequest, FlowDecision)> = Vec::new();
        while let Some((id, decision)) = state.control.poll_decision() {
            match (state.queued.remove(&id), decision) {
                (Some(request), decision) => decided.push((request, decision)),
                (None, FlowDecision::Seated(seat)) => state.control.finished(now, seat),
                (None, FlowDecision::Refused(_)) => {}
            }
        }
        drop(state);
        for (request, decision) in decided {
            request.tell(self, decision, now);
        }
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum GateAdmission {
    Seated(HeldSeat),
    Waits(WaitingTurn),
}

impl MetricsSource for FlowGate {
    fn write(&self, text: &mut Text) {
        let levels = self.state().control.figures();
        self.0.figures.write(text, &levels);
    }
}

/// The error of a request that gets no seat.
fn refusal(class: &RequestClass, why: FlowRefusal) -> ApiError {
    let (level, schema, reason) = (class.level(), class.schema(), why.name());
    let problem = match why {
        FlowRefusal::QueueFull => "its queue is full".to_owned(),
        FlowRefusal::ConcurrencyLimit => "all its seats are taken".to_owned(),
        FlowRefusal::TimeOut => format!("no seat was free within {} seconds", WAIT_MAX.as_secs()),
    };
    let message = format!(
        "too many requests, please try again later ({reason}): priority level {level:?}, chosen by FlowSchema {schema:?}: {problem}"
    );
    ApiError::too_many_requests(message, RETRY_AFTER_SECONDS)
}

/// The answer with the UIDs of its schema and level.
pub(super) fn with_uids(
    mut response: Response<FrontBody>,
    request: Option<&ClassifiedRequest>,
) -> Response<FrontBody> {
    let Some(ClassifiedRequest { class, .. }) = request else { return response };
    for (name, uid) in [(SCHEMA_UID, class.schema_uid()), (LEVEL_UID, class.level_uid())] {
        if let Some(value) = HeaderValue::from_str(uid).ok().filter(|value| !value.is_empty()) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}
