//! The wall clock, and what each process makes of it. A process reads it when it starts and counts
//! by itself then, so that a clock that is set concerns those that start later. The world's own
//! time goes on evenly, whatever anybody sets.

use std::collections::BTreeMap;

use rekindle_types::Tick;

/// How far a clock is from the world's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Skew {
    micros: i64,
}

impl Skew {
    /// What such a clock shows.
    pub(crate) fn shows(self, time: Tick) -> Tick {
        Tick::from_micros(time.as_micros().saturating_add_signed(self.micros))
    }

    /// When such a clock shows this.
    pub(crate) fn when(self, shown: Tick) -> Tick {
        Tick::from_micros(shown.as_micros().saturating_add_signed(-self.micros))
    }

    fn set_by(self, seconds: i64) -> Self {
        Self { micros: self.micros.saturating_add(seconds.saturating_mul(1_000_000)) }
    }
}

/// The clocks of a world.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    wall: Skew,
    pub(crate) api: Skew,
    pub(crate) controllers: Skew,
    agents: BTreeMap<String, Skew>,
    was_set: bool,
}

impl Clocks {
    /// Somebody sets the wall clock.
    pub(crate) fn set_wall(&mut self, by_seconds: i64) {
        self.wall = self.wall.set_by(by_seconds);
        self.was_set = true;
    }

    /// Whether all of them have shown the world's time all along.
    pub(crate) const fn are_right(&self) -> bool {
        !self.was_set
    }

    /// The API starts again.
    pub(crate) fn api_starts(&mut self) {
        self.api = self.wall;
    }

    /// The controllers start again.
    pub(crate) fn controllers_start(&mut self) {
        self.controllers = self.wall;
    }

    /// The agent of a node starts again.
    pub(crate) fn agent_starts(&mut self, node: &str) -> Skew {
        self.agents.insert(node.to_owned(), self.wall);
        self.wall
    }

    /// What the agent of a node has read.
    pub(crate) fn of_agent(&self, node: &str) -> Skew {
        self.agents.get(node).copied().unwrap_or_default()
    }
}
