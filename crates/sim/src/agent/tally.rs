//! What was really done to pods, counted: the same campaign without faults must have done as much (see `Campaign::check`).

use std::fmt;
use std::ops::AddAssign;

/// The counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Sandboxes that were made.
    pub sandboxes: u64,
    /// Containers that were made.
    pub containers: u64,
    /// Processes that were started.
    pub starts: u64,
    /// Running processes that were asked to end.
    pub signals: u64,
    /// Running processes that were killed.
    pub kills: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.sandboxes += other.sandboxes;
        self.containers += other.containers;
        self.starts += other.starts;
        self.signals += other.signals;
        self.kills += other.kills;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sandboxes, containers, starts, signals, kills } = self;
        write!(
            to,
            "{sandboxes} sandboxes, {containers} containers, {starts} starts, {signals} signals, {kills} kills"
        )
    }
}
