//! What was really done to pods, counted: the same campaign without faults must have done as much
//! (see `Campaign::check`).

use std::fmt;
use std::ops::AddAssign;

/// The counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentTally {
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
    /// Pulls of images that failed for want of a registry.
    pub failed_pulls: u64,
    /// Sandboxes that were made while the pull of an image had to wait.
    pub held_pulls: u64,
}

impl AddAssign for AgentTally {
    fn add_assign(&mut self, other: Self) {
        self.sandboxes += other.sandboxes;
        self.containers += other.containers;
        self.starts += other.starts;
        self.signals += other.signals;
        self.kills += other.kills;
        self.failed_pulls += other.failed_pulls;
        self.held_pulls += other.held_pulls;
    }
}

impl fmt::Display for AgentTally {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sandboxes, containers, starts, signals, kills, failed_pulls, held_pulls } = self;
        write!(
            to,
            "{sandboxes} sandboxes, {containers} containers, {starts} starts, {signals} signals, {kills} kills, {failed_pulls} failed pulls, {held_pulls} sandboxes during their backoff"
        )
    }
}
