//! The queues of one level: served by the seat time that they have used.
//!
//! Each queue has a tag, which grows by the seats of its requests while they run, and by a fee for
//! each that begins. The queue with the lowest tag is next. A queue that had nothing to do is set
//! to the level's virtual time: it gets no credit for its rest. This is start-time fair queueing
//! for several servers (Goyal, Vin, Chen 1996; Jin, Chase, Kaur 2004). Upstream guesses how long a
//! request will run, and corrects the guess when it ends. Here time counts as it passes.

use std::collections::{BTreeMap, VecDeque};

use rekindle_types::Tick;

use crate::control::WaitingId;
use crate::level::QueueShape;
use crate::shuffle_sharding::FlowHand;

/// What a request costs besides its time: seat-microseconds for each of its seats.
const FEE: i128 = 3_000;

/// The queues that hold something, or have used more than the level's virtual time.
#[derive(Clone, Debug, Default)]
pub(crate) struct FairQueues {
    queues: BTreeMap<u32, FairQueue>,
    /// The highest tag that a request has begun with, in seat-microseconds.
    virtual_time: i128,
    /// Requests that wait.
    waiting: usize,
    /// Which set of queues it is: seats of an older one are not charged.
    generation: u64,
}

/// One queue.
#[derive(Clone, Debug, Default)]
struct FairQueue {
    waiting: VecDeque<WaitingRequest>,
    /// Seats of its requests that run.
    running: i128,
    /// What running seats are charged, apart from `running * now`.
    charged: i128,
}

/// A request in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitingRequest {
    pub(crate) id: WaitingId,
    pub(crate) flow: u64,
    pub(crate) width: u32,
}

/// The queue that a running request is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChargedQueue {
    queue: u32,
    generation: u64,
}

impl FairQueue {
    fn tag(&self, now: Tick) -> i128 {
        self.charged + self.running * i128::from(now.as_micros())
    }

    fn begin(&mut self, now: Tick, width: u32) {
        let width = i128::from(width);
        self.charged += width * FEE - width * i128::from(now.as_micros());
        self.running += width;
    }

    fn end(&mut self, now: Tick, width: u32) {
        let width = i128::from(width);
        self.charged += width * i128::from(now.as_micros());
        self.running -= width;
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running == 0
    }
}

impl FairQueues {
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// The queue of the flow's hand that has the least to do.
    pub(crate) fn choose(&self, flow: u64, shape: QueueShape) -> u32 {
        let hand = FlowHand::deal(flow, shape.queues, shape.hand_size);
        let load = |queue: &u32| {
            self.queues.get(queue).map_or(0, |queue| {
                let waiting: i128 = queue.waiting.iter().map(|one| i128::from(one.width)).sum();
                queue.running + waiting
            })
        };
        let least = hand.queues().iter().copied().min_by_key(load);
        least.unwrap_or_default()
    }

    /// Requests that wait in a queue.
    pub(crate) fn length(&self, queue: u32) -> usize {
        self.queues.get(&queue).map_or(0, |queue| queue.waiting.len())
    }

    pub(crate) fn enqueue(&mut self, now: Tick, queue: u32, request: WaitingRequest) {
        self.enter(now, queue).waiting.push_back(request);
        self.waiting += 1;
    }

    /// Charges a request that begins without waiting.
    pub(crate) fn begin(&mut self, now: Tick, queue: u32, width: u32) -> ChargedQueue {
        let entered = self.enter(now, queue);
        let tag = entered.tag(now);
        entered.begin(now, width);
        self.virtual_time = self.virtual_time.max(tag);
        ChargedQueue { queue, generation: self.generation }
    }

    /// The request that is next, without taking it.
    pub(crate) fn next(&self, now: Tick) -> Option<WaitingRequest> {
        self.next_queue(now).map(|(_, request)| request)
    }

    /// Takes the request that is next, and charges its queue with so many seats.
    pub(crate) fn take_next(&mut self, now: Tick, width: u32) -> Option<ChargedQueue> {
        let (queue, _) = self.next_queue(now)?;
        self.queues.get_mut(&queue)?.waiting.pop_front();
        self.waiting -= 1;
        Some(self.begin(now, queue, width))
    }

    /// A request has ended.
    pub(crate) fn end(&mut self, now: Tick, charged: ChargedQueue, width: u32) {
        if charged.generation != self.generation {
            return;
        }
        if let Some(queue) = self.queues.get_mut(&charged.queue) {
            queue.end(now, width);
        }
        self.forget_idle(now, charged.queue);
    }

    /// Takes a request away that has waited for too long, or lost its client.
    pub(crate) fn remove(&mut self, now: Tick, id: WaitingId) {
        let found = self.queues.iter_mut().find_map(|(number, queue)| {
            let at = queue.waiting.iter().position(|request| request.id == id)?;
            queue.waiting.remove(at);
            Some(*number)
        });
        if let Some(number) = found {
            self.waiting -= 1;
            self.forget_idle(now, number);
        }
    }

    /// Puts all that waits into queues of another shape, in the order of its arrival. Nothing is
    /// refused for it.
    pub(crate) fn reshape(&mut self, now: Tick, shape: QueueShape) {
        let queues = std::mem::take(&mut self.queues);
        let mut waiting: Vec<WaitingRequest> =
            queues.into_values().flat_map(|queue| queue.waiting).collect();
        waiting.sort_by_key(|request| request.id);
        *self = Self { generation: self.generation + 1, ..Self::default() };
        for request in waiting {
            let queue = self.choose(request.flow, shape);
            self.enqueue(now, queue, request);
        }
    }

    /// The queue, at the virtual time at least if it had nothing to do.
    fn enter(&mut self, now: Tick, queue: u32) -> &mut FairQueue {
        let virtual_time = self.virtual_time;
        let queue = self.queues.entry(queue).or_default();
        if queue.waiting.is_empty() {
            let behind = virtual_time - queue.tag(now);
            queue.charged += behind.max(0);
        }
        queue
    }

    /// Of the queues where something waits the one with the lowest tag; of equals the one where the
    /// first has waited longest.
    fn next_queue(&self, now: Tick) -> Option<(u32, WaitingRequest)> {
        let heads = self
            .queues
            .iter()
            .filter_map(|(number, queue)| Some((queue.tag(now), *queue.waiting.front()?, *number)));
        let (_, request, number) = heads.min_by_key(|(tag, request, _)| (*tag, request.id))?;
        Some((number, request))
    }

    /// Forgets a queue that has nothing to do and is owed nothing. When nothing is left, all begins
    /// at zero again.
    fn forget_idle(&mut self, now: Tick, number: u32) {
        let virtual_time = self.virtual_time;
        let is_over = |queue: &FairQueue| queue.is_idle() && queue.tag(now) <= virtual_time;
        if self.queues.get(&number).is_some_and(is_over) {
            self.queues.remove(&number);
        }
        if self.queues.values().all(FairQueue::is_idle) {
            self.queues.clear();
            self.virtual_time = 0;
        }
    }
}
