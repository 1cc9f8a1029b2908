//! One series whose objects ended early, one after the other.
//!
//! ```text
//!   500 pods created ─► the first ends early: a strike, a pause ─► the others of these 500 end: no further strike, held back too
//!                    ─► the pause is over: created again ─► one of the new ones ends early: a strike, twice the pause ─► …
//! ```
//! So the pause grows with the attempts, not with the number of objects: what a thousand pods
//! suffer at once is one strike.

use std::collections::BTreeSet;

use rekindle_types::{Tick, TickDuration};

use super::growing_pause::{AFTER_DAEMON_FAILURES, AFTER_LOSSES};
use super::series::EarlyEnd;

/// Longer than any series is remembered after its last strike.
pub(super) const REMEMBERED: TickDuration = AFTER_DAEMON_FAILURES.longest.saturating_mul(2);

/// The strikes of a series.
#[derive(Clone, Debug, Default)]
pub(super) struct CreationStreak {
    failures: u32,
    losses: u32,
    /// When the last strike was.
    last: Tick,
    /// No further object is created before.
    until: Tick,
    /// So many of the missing ones are held back until then.
    held: usize,
    /// UIDs of the objects that came since the last strike: the end of one of these is the next.
    young: BTreeSet<String>,
    /// The user has been told of the present pause.
    is_told: bool,
}

/// A pause that is not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CreationPause {
    /// Until then.
    pub(crate) until: Tick,
    /// So many objects are held back.
    pub(crate) held: usize,
    /// So many strikes brought it about.
    pub(crate) strikes: u32,
    /// The user has been told.
    pub(crate) is_told: bool,
}

impl CreationStreak {
    /// An object of the series is there for the first time.
    pub(super) fn joined(&mut self, uid: &str) {
        self.young.insert(uid.to_owned());
    }

    /// The second of the last strike: creation times are no finer.
    pub(super) fn last_second(&self) -> Tick {
        self.last.whole_second()
    }

    /// An object ended early.
    pub(super) fn ended(&mut self, uid: &str, end: EarlyEnd, at: Tick) {
        let pause = match end {
            EarlyEnd::Failed(pause) => pause,
            EarlyEnd::Lost => AFTER_LOSSES,
        };
        if at.since(self.last) > pause.forgotten_after() {
            *self = Self::default();
        }
        let is_first = self.failures + self.losses == 0;
        if !is_first && !self.young.remove(uid) {
            self.held = self.held.saturating_add(1);
            return;
        }
        let strikes = match end {
            EarlyEnd::Failed(_) => &mut self.failures,
            EarlyEnd::Lost => &mut self.losses,
        };
        *strikes = strikes.saturating_add(1);
        self.until = self.until.max(at + pause.after(*strikes));
        self.last = at;
        self.held = 1;
        self.young.clear();
        self.is_told = false;
    }

    /// The one object of the series was created: again, unless this is the first time.
    pub(super) fn created(&mut self, at: Tick) {
        if self.last == Tick::ZERO || at.since(self.last) > AFTER_LOSSES.forgotten_after() {
            *self = Self { last: at, ..Self::default() };
            return;
        }
        self.losses = self.losses.saturating_add(1);
        self.until = at + AFTER_LOSSES.after(self.losses);
        self.last = at;
        self.held = 1;
        self.is_told = false;
    }

    pub(super) fn pause(&self, now: Tick) -> Option<CreationPause> {
        let Self { failures, losses, until, held, is_told, .. } = *self;
        let strikes = failures.saturating_add(losses);
        (now < until).then_some(CreationPause { until, held, strikes, is_told })
    }

    pub(super) fn told(&mut self) {
        self.is_told = true;
    }

    pub(super) fn is_forgotten(&self, now: Tick) -> bool {
        now.since(self.last) > REMEMBERED
    }
}
