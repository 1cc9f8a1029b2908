//! What the ladder sees when it decides, and under which name it speaks.

use rekindle_controllers::View;
use rekindle_ladder::{Granted, Limits, Register};

/// Says the events of the ladder.
pub(crate) const COMPONENT: &str = "restart-ladder";

/// What there is to see when something is planned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around<'a> {
    /// Everything.
    pub(crate) view: &'a View,
    /// What ledgers and requests in it say.
    pub(crate) register: &'a Register,
    /// The limits over all ladders.
    pub(crate) limits: &'a Limits,
    /// Decisions to restart a pod that are being written.
    pub(crate) granted: &'a [Granted],
}
