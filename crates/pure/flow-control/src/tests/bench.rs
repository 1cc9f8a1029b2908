//! A server whose requests run for as long as a test says.

use std::collections::BTreeMap;

use k8s_openapi::api::flowcontrol::v1::{
    FlowSchema, LimitResponse, LimitedPriorityLevelConfiguration, PriorityLevelConfiguration,
    PriorityLevelConfigurationSpec, QueuingConfiguration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::{Tick, TickDuration};

use crate::{
    FlowAdmission, FlowArrival, FlowConfiguration, FlowControl, FlowDecision, FlowRefusal,
    FlowSeat, LevelFigures, WaitingId,
};

pub(super) fn metadata(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        uid: Some(format!("uid-{name}")),
        ..ObjectMeta::default()
    }
}

/// A level without queues.
pub(super) fn rejecting(name: &str, shares: i32) -> PriorityLevelConfiguration {
    level(name, shares, LimitResponse { type_: "Reject".to_owned(), queuing: None })
}

/// A level with so many queues, hands of this size, and queues of this length.
pub(super) fn queueing(
    name: &str,
    shares: i32,
    (queues, hand_size, length): (i32, i32, i32),
) -> PriorityLevelConfiguration {
    let queuing = QueuingConfiguration {
        queues: Some(queues),
        hand_size: Some(hand_size),
        queue_length_limit: Some(length),
    };
    level(name, shares, LimitResponse { type_: "Queue".to_owned(), queuing: Some(queuing) })
}

fn level(name: &str, shares: i32, limit_response: LimitResponse) -> PriorityLevelConfiguration {
    PriorityLevelConfiguration {
        metadata: metadata(name),
        spec: PriorityLevelConfigurationSpec {
            type_: "Limited".to_owned(),
            exempt: None,
            limited: Some(LimitedPriorityLevelConfiguration {
                nominal_concurrency_shares: Some(shares),
                lendable_percent: Some(0),
                // no level borrows unless a test says so
                borrowing_limit_percent: Some(0),
                limit_response,
            }),
        },
        status: None,
    }
}

/// The same level that lends and borrows these percentages of its seats.
pub(super) fn sharing(
    mut level: PriorityLevelConfiguration,
    lendable: i32,
    borrowing: Option<i32>,
) -> PriorityLevelConfiguration {
    if let Some(limited) = &mut level.spec.limited {
        limited.lendable_percent = Some(lendable);
        limited.borrowing_limit_percent = borrowing;
    }
    level
}

/// The mandatory level catch-all takes its five shares of a server, too.
pub(super) fn configuration(levels: &[PriorityLevelConfiguration]) -> FlowConfiguration {
    FlowConfiguration::new(&[] as &[FlowSchema], levels)
}

/// Levels at work.
pub(super) struct LevelBench {
    pub(super) control: FlowControl,
    pub(super) now: Tick,
    pub(super) running: Vec<RunningRequest>,
    pub(super) waiting: BTreeMap<WaitingId, WaitingSince>,
    pub(super) refused: Vec<(u64, FlowRefusal)>,
    /// The longest that a request has waited.
    pub(super) longest_wait: TickDuration,
}

pub(super) struct RunningRequest {
    pub(super) flow: u64,
    pub(super) begun: Tick,
    pub(super) seat: FlowSeat,
}

#[derive(Clone, Copy)]
pub(super) struct WaitingSince {
    pub(super) flow: u64,
    pub(super) since: Tick,
}

impl LevelBench {
    pub(super) fn new(seats: u32, levels: &[PriorityLevelConfiguration]) -> Self {
        Self {
            control: FlowControl::new(seats, &configuration(levels)),
            now: Tick::from_secs(1_800_000_000),
            running: Vec::new(),
            waiting: BTreeMap::new(),
            refused: Vec::new(),
            longest_wait: TickDuration::ZERO,
        }
    }

    pub(super) fn arrive(&mut self, level: &str, flow: u64, width: u32) {
        match self.control.arrive(self.now, FlowArrival { level, flow, width }) {
            FlowAdmission::Seated(seat) => self.run(flow, seat),
            FlowAdmission::Waits(id) => {
                self.waiting.insert(id, WaitingSince { flow, since: self.now });
            }
            FlowAdmission::Refused(why) => self.refused.push((flow, why)),
        }
        self.take_decisions();
    }

    /// Ends a request. Gives its flow, and its seats times how long it has run.
    pub(super) fn finish(&mut self, index: usize) -> (u64, u64) {
        let RunningRequest { flow, begun, seat } = self.running.remove(index);
        let used = u64::from(seat.seats()) * self.now.since(begun).as_micros();
        self.control.finished(self.now, seat);
        self.take_decisions();
        (flow, used)
    }

    /// Ends all that runs, until nothing waits.
    pub(super) fn drain(&mut self) {
        while !self.running.is_empty() {
            self.finish(0);
        }
        assert!(self.waiting.is_empty(), "nothing runs, and {} wait", self.waiting.len());
    }

    /// The client of a request that waits goes.
    pub(super) fn abandon(&mut self, id: WaitingId) {
        self.waiting.remove(&id);
        self.control.abandon(self.now, id);
        self.take_decisions();
    }

    pub(super) fn pass(&mut self, span: TickDuration) {
        let end = self.now + span;
        while let Some(due) = self.control.poll_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.control.handle_timeout(self.now);
            self.take_decisions();
        }
        self.now = end;
    }

    pub(super) fn configure(&mut self, levels: &[PriorityLevelConfiguration]) {
        self.control.configure(self.now, &configuration(levels));
        self.take_decisions();
    }

    pub(super) fn figures(&self, level: &str) -> LevelFigures {
        let figures = self.control.figures().into_iter().find(|figures| figures.name == level);
        figures.unwrap_or_else(|| panic!("no level {level}"))
    }

    fn run(&mut self, flow: u64, seat: FlowSeat) {
        self.running.push(RunningRequest { flow, begun: self.now, seat });
    }

    fn take_decisions(&mut self) {
        while let Some((id, decision)) = self.control.poll_decision() {
            let WaitingSince { flow, since } =
                self.waiting.remove(&id).expect("a decision about what waits, and only one");
            self.longest_wait = self.longest_wait.max(self.now.since(since));
            match decision {
                FlowDecision::Seated(seat) => self.run(flow, seat),
                FlowDecision::Refused(why) => self.refused.push((flow, why)),
            }
        }
    }
}
