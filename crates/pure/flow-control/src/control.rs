//! The requests of all levels: who runs, who waits, and who is refused.
//!
//! ```text
//!            +------------> seat -- finished -> gone
//!  arrive ---+-> waits -----+ |
//!            |     |          a decision comes out of `poll_decision`
//!            |     +- waited too long -> refused
//!            |     +- abandoned -------> gone
//!            +-> refused
//! ```
//!
//! Free seats go to levels that use less than their own seats first. A level that borrows gets none
//! while such a level waits. So what a level has lent comes back as fast as requests end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rekindle_types::Tick;

use crate::WAIT_MAX;
use crate::configuration::FlowConfiguration;
use crate::defaults;
use crate::fair_queues::{ChargedQueue, WaitingRequest};
use crate::level::{LevelSettings, PriorityLevel};
use crate::seat_limits;

/// All levels. A state machine without a clock: each call has the time, which does not run back.
#[derive(Debug)]
pub struct FlowControl {
    server_seats: u32,
    levels: BTreeMap<LevelId, PriorityLevel>,
    names: BTreeMap<String, LevelId>,
    next_level: u64,
    next_waiting: u64,
    /// In the order of arrival, and so of their deadlines.
    waiting: BTreeMap<WaitingId, WaitingPlace>,
    decisions: VecDeque<(WaitingId, FlowDecision)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LevelId(u64);

/// A request that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitingId(u64);

#[derive(Clone, Copy, Debug)]
struct WaitingPlace {
    level: LevelId,
    deadline: Tick,
}

/// A request that comes.
#[derive(Clone, Copy, Debug)]
pub struct FlowArrival<'a> {
    /// The name of its priority level.
    pub level: &'a str,
    /// Its flow.
    pub flow: u64,
    /// Seats that it needs.
    pub width: u32,
}

/// What becomes of a request that comes.
#[derive(Debug)]
pub enum FlowAdmission {
    /// It runs now.
    Seated(FlowSeat),
    /// [`FlowControl::poll_decision`] will say.
    Waits(WaitingId),
    /// It does not run.
    Refused(FlowRefusal),
}

/// What becomes of a request that has waited.
#[derive(Debug)]
pub enum FlowDecision {
    /// It runs now.
    Seated(FlowSeat),
    /// It does not run.
    Refused(FlowRefusal),
}

/// Why a request does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowRefusal {
    /// Its queue is full.
    QueueFull,
    /// Its level has no free seat, and no queues.
    ConcurrencyLimit,
    /// It has waited for [`WAIT_MAX`].
    TimeOut,
}

impl FlowRefusal {
    /// As upstream's metrics call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue-full",
            Self::ConcurrencyLimit => "concurrency-limit",
            Self::TimeOut => "time-out",
        }
    }
}

/// The seats of a request that runs. Given back by [`FlowControl::finished`], once.
#[derive(Debug)]
#[must_use = "seats are taken until they are given back"]
pub struct FlowSeat {
    level: LevelId,
    seats: u32,
    charged: Option<ChargedQueue>,
}

impl FlowSeat {
    /// How many it holds.
    pub fn seats(&self) -> u32 {
        self.seats
    }
}

/// The figures of one level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelFigures {
    /// Its name.
    pub name: String,
    /// Its own seats.
    pub nominal_seats: u32,
    /// Those of its own that it never lends.
    pub lower_seats: u32,
    /// Those that it may use at most.
    pub upper_seats: u32,
    /// Seats in use.
    pub used_seats: u32,
    /// Requests that run.
    pub running: u32,
    /// Requests that wait.
    pub waiting: usize,
    /// Whether its requests need no seats.
    pub is_exempt: bool,
}

impl FlowControl {
    /// So many seats, shared by these levels.
    pub fn new(server_seats: u32, configuration: &FlowConfiguration) -> Self {
        let mut control = Self {
            server_seats,
            levels: BTreeMap::new(),
            names: BTreeMap::new(),
            next_level: 0,
            next_waiting: 0,
            waiting: BTreeMap::new(),
            decisions: VecDeque::new(),
        };
        control.configure(Tick::ZERO, configuration);
        control
    }

    /// Other levels, or other limits, from now on. What waits goes on waiting, unless it can run.
    pub fn configure(&mut self, now: Tick, configuration: &FlowConfiguration) {
        let named: BTreeSet<&str> =
            configuration.levels.iter().map(|level| level.name.as_str()).collect();
        for (name, id) in &self.names {
            if let Some(level) = self.levels.get_mut(id) {
                level.is_retiring = !named.contains(name.as_str());
            }
        }
        for settings in &configuration.levels {
            self.settle_level(now, settings);
        }
        self.drop_retired();
        self.share_seats();
        self.dispatch(now);
    }

    /// A request comes.
    pub fn arrive(&mut self, now: Tick, arrival: FlowArrival<'_>) -> FlowAdmission {
        let id = self.level_named(arrival.level);
        let Some(level) = self.levels.get(&id) else {
            return FlowAdmission::Refused(FlowRefusal::ConcurrencyLimit);
        };
        let queue = level.settings.queues().map(|shape| {
            let queue = level.queues.choose(arrival.flow, shape);
            (queue, level.queues.length(queue) >= shape.length_max)
        });
        let seats = level.seats_for(arrival.width);
        if level.is_exempt() || level.queues.waiting() == 0 && self.may_sit(now, id, seats) {
            return FlowAdmission::Seated(self.sit(now, id, seats, queue.map(|(queue, _)| queue)));
        }
        match queue {
            None => FlowAdmission::Refused(FlowRefusal::ConcurrencyLimit),
            Some((_, true)) => FlowAdmission::Refused(FlowRefusal::QueueFull),
            Some((queue, false)) => {
                let waiting = WaitingId(self.next_waiting);
                self.next_waiting += 1;
                let FlowArrival { flow, width, .. } = arrival;
                if let Some(level) = self.levels.get_mut(&id) {
                    level.queues.enqueue(now, queue, WaitingRequest { id: waiting, flow, width });
                }
                let deadline = now + WAIT_MAX;
                self.waiting.insert(waiting, WaitingPlace { level: id, deadline });
                // it may be narrower than what was next, and come before it
                self.dispatch(now);
                FlowAdmission::Waits(waiting)
            }
        }
    }

    /// A request has ended, and gives its seats back.
    pub fn finished(&mut self, now: Tick, seat: FlowSeat) {
        let FlowSeat { level: id, seats, charged } = seat;
        let Some(level) = self.levels.get_mut(&id) else { return };
        level.used -= seats;
        level.running -= 1;
        if let Some(charged) = charged {
            level.queues.end(now, charged, seats);
        }
        if level.is_over() {
            self.drop_retired();
            self.share_seats();
        }
        self.dispatch(now);
    }

    /// A request no longer waits: its client has gone. Its decision may have been taken, and is
    /// the caller's to give back.
    pub fn abandon(&mut self, now: Tick, id: WaitingId) {
        self.leave(now, id);
        self.dispatch(now);
    }

    /// Refuses what has waited for too long.
    pub fn handle_timeout(&mut self, now: Tick) {
        while let Some((id, place)) = self.waiting.first_key_value() {
            if place.deadline > now {
                break;
            }
            let id = *id;
            self.leave(now, id);
            self.decisions.push_back((id, FlowDecision::Refused(FlowRefusal::TimeOut)));
        }
        // those behind may be narrow enough
        self.dispatch(now);
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do; none when nothing waits.
    pub fn poll_timeout(&self) -> Option<Tick> {
        self.waiting.first_key_value().map(|(_, place)| place.deadline)
    }

    /// The next decision about a request that waited.
    pub fn poll_decision(&mut self) -> Option<(WaitingId, FlowDecision)> {
        self.decisions.pop_front()
    }

    /// The figures of each level, by name.
    pub fn figures(&self) -> Vec<LevelFigures> {
        let levels = self.names.values().filter_map(|id| self.levels.get(id));
        levels
            .map(|level| LevelFigures {
                name: level.settings.name.clone(),
                nominal_seats: level.limits.nominal,
                lower_seats: level.limits.kept,
                upper_seats: level.limits.most,
                used_seats: level.used,
                running: level.running,
                waiting: level.queues.waiting(),
                is_exempt: level.is_exempt(),
            })
            .collect()
    }

    /// The level of this name. A request may have been classified by objects that have just
    /// changed: its level may be gone.
    fn level_named(&self, name: &str) -> LevelId {
        let found = self.names.get(name).or_else(|| self.names.get(defaults::CATCH_ALL));
        *found.expect("a configuration has the level catch-all")
    }

    /// Makes or changes a level.
    fn settle_level(&mut self, now: Tick, settings: &LevelSettings) {
        let Some(id) = self.names.get(&settings.name) else {
            let id = LevelId(self.next_level);
            self.next_level += 1;
            self.names.insert(settings.name.clone(), id);
            self.levels.insert(id, PriorityLevel::new(settings.clone()));
            return;
        };
        let Some(level) = self.levels.get_mut(id) else { return };
        let old = level.settings.queues();
        level.settings = settings.clone();
        // without queues nothing new waits; what does keeps its place
        if let Some(shape) = settings.queues().filter(|shape| {
            old.is_none_or(|old| (old.queues, old.hand_size) != (shape.queues, shape.hand_size))
        }) {
            level.queues.reshape(now, shape);
        }
    }

    fn drop_retired(&mut self) {
        let levels = &mut self.levels;
        levels.retain(|_, level| !level.is_over());
        self.names.retain(|_, id| levels.contains_key(id));
    }

    fn share_seats(&mut self) {
        let settings: Vec<&LevelSettings> =
            self.levels.values().map(|level| &level.settings).collect();
        let limits = seat_limits::of_levels(&settings, self.server_seats);
        for (level, limits) in self.levels.values_mut().zip(limits) {
            level.limits = limits;
        }
    }

    /// Lets run what can run.
    fn dispatch(&mut self, now: Tick) {
        while !self.waiting.is_empty() {
            let Some((id, request)) = self.next_request(now) else { return };
            self.waiting.remove(&request.id);
            let Some(level) = self.levels.get_mut(&id) else { return };
            let seats = level.seats_for(request.width);
            let charged = level.queues.take_next(now, seats);
            let seat = self.seat(id, seats, charged);
            self.decisions.push_back((request.id, FlowDecision::Seated(seat)));
        }
    }

    /// The request that is next, of all levels: of those that use less than their own first, then
    /// of the one that has borrowed the smallest part of its own.
    fn next_request(&self, now: Tick) -> Option<(LevelId, WaitingRequest)> {
        let mut borrowers = Vec::new();
        let mut is_owner_waiting = false;
        for (id, level) in &self.levels {
            let Some(request) = level.queues.next(now) else { continue };
            let seats = level.seats_for(request.width);
            if level.is_exempt() {
                return Some((*id, request));
            }
            let is_owner = level.used + seats <= level.limits.nominal;
            match (self.fits(level, seats), is_owner) {
                (true, true) => return Some((*id, request)),
                (true, false) => borrowers.push((*id, request, level)),
                (false, true) => is_owner_waiting = true,
                (false, false) => {}
            }
        }
        if is_owner_waiting {
            return None;
        }
        let borrowed = |level: &PriorityLevel| {
            u64::from(level.used) * 1_000_000 / u64::from(level.limits.nominal.max(1))
        };
        let next = borrowers.into_iter().min_by_key(|(_, _, level)| borrowed(level));
        next.map(|(id, request, _)| (id, request))
    }

    /// Whether a request that has just come may take so many seats.
    fn may_sit(&self, now: Tick, id: LevelId, seats: u32) -> bool {
        let Some(level) = self.levels.get(&id) else { return false };
        let is_owner = level.used + seats <= level.limits.nominal;
        self.fits(level, seats) && (is_owner || !self.is_owner_waiting(now))
    }

    /// Whether a level that uses less than its own seats waits for some of them.
    fn is_owner_waiting(&self, now: Tick) -> bool {
        !self.waiting.is_empty()
            && self.levels.values().any(|level| {
                let next = level.queues.next(now).map(|request| level.seats_for(request.width));
                next.is_some_and(|seats| level.used + seats <= level.limits.nominal)
            })
    }

    /// Whether the level may use so many seats more, and the pool has them.
    fn fits(&self, level: &PriorityLevel, seats: u32) -> bool {
        let used = level.used + seats;
        if used > level.limits.most {
            return false;
        }
        let more = level.limits.pool_part(used) - level.limits.pool_part(level.used);
        if more == 0 {
            return true;
        }
        let (taken, pool) = self.levels.values().fold((0, 0), |(taken, pool), level| {
            (taken + level.pool_seats(), pool + level.limits.lendable())
        });
        taken + more <= pool
    }

    fn sit(&mut self, now: Tick, id: LevelId, seats: u32, queue: Option<u32>) -> FlowSeat {
        let charged = queue.and_then(|queue| {
            let level = self.levels.get_mut(&id)?;
            Some(level.queues.begin(now, queue, seats))
        });
        self.seat(id, seats, charged)
    }

    fn seat(&mut self, level: LevelId, seats: u32, charged: Option<ChargedQueue>) -> FlowSeat {
        if let Some(level) = self.levels.get_mut(&level) {
            level.used += seats;
            level.running += 1;
        }
        FlowSeat { level, seats, charged }
    }

    fn leave(&mut self, now: Tick, id: WaitingId) {
        let Some(place) = self.waiting.remove(&id) else { return };
        if let Some(level) = self.levels.get_mut(&place.level) {
            level.queues.remove(now, id);
        }
        if self.levels.get(&place.level).is_some_and(PriorityLevel::is_over) {
            self.drop_retired();
            self.share_seats();
        }
    }
}
