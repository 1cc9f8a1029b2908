//! What was tried already, as a ledger has it.

use rekindle_types::Tick;
use rekindle_types::v1alpha1::{RequestEffect, RestartLedgerStatus, Rung, RungAttempts};

/// The rung of the last restart that was asked for, when that was over before anything was done to
/// the pod. It counts as an attempt, and has shown nothing.
pub(crate) fn last_untried(ledger: &RestartLedgerStatus) -> Option<Rung> {
    let asked = ledger.asked().next_back()?;
    match asked.outcome.as_ref()?.effect() {
        RequestEffect::Nothing(_) => asked.rung,
        RequestEffect::Done | RequestEffect::TakenBack => None,
    }
}

/// When the last restart was decided that ended what ran, and left the pod where it was.
pub(crate) fn last_in_place(ledger: &RestartLedgerStatus) -> Option<Tick> {
    let attempts = LedgerAttempts::from_ledger(ledger);
    let in_place = [Rung::Containers, Rung::Pod];
    let last = in_place.into_iter().filter_map(|rung| attempts.last(rung)).max();
    last.filter(|_| last_untried(ledger).is_none_or(|untried| !in_place.contains(&untried)))
}

/// The attempts in a ledger. It must be pruned to the window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LedgerAttempts<'a>(pub(crate) &'a [RungAttempts]);

impl<'a> LedgerAttempts<'a> {
    pub(crate) fn from_ledger(ledger: &'a RestartLedgerStatus) -> Self {
        Self(ledger.attempts.as_deref().unwrap_or_default())
    }

    /// The highest rung with an attempt.
    pub(crate) fn highest(self) -> Option<Rung> {
        self.0.iter().filter(|entry| !entry.at.is_empty()).map(|entry| entry.rung).max()
    }

    /// How many attempts of a rung there are.
    pub(crate) fn count(self, rung: Rung) -> u32 {
        u32::try_from(self.times(rung).count()).unwrap_or(u32::MAX)
    }

    /// When the first attempt of a rung was.
    pub(crate) fn first(self, rung: Rung) -> Option<Tick> {
        self.times(rung).min()
    }

    /// When the last attempt of a rung was.
    pub(crate) fn last(self, rung: Rung) -> Option<Tick> {
        self.times(rung).max()
    }

    /// When the newest attempts of a rung were, so many of them.
    pub(crate) fn newest(self, rung: Rung, count: u32) -> impl Iterator<Item = Tick> {
        let mut times: Vec<Tick> = self.times(rung).collect();
        times.sort_unstable();
        let surplus = times.len().saturating_sub(usize::try_from(count).unwrap_or(usize::MAX));
        times.into_iter().skip(surplus)
    }

    /// When the last attempt of all rungs was; the earliest tick when there is none.
    pub(crate) fn latest(self) -> Tick {
        self.0.iter().flat_map(|entry| &entry.at).map(Tick::from).max().unwrap_or(Tick::ZERO)
    }

    fn times(self, rung: Rung) -> impl Iterator<Item = Tick> + 'a {
        let of_rung = self.0.iter().filter(move |entry| entry.rung == rung);
        of_rung.flat_map(|entry| entry.at.iter().map(Tick::from))
    }
}
