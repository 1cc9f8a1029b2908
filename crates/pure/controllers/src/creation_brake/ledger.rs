//! What is remembered of all series.

use std::collections::BTreeMap;

use rekindle_types::Tick;

use super::series::{CreationSeries, EarlyEnd};
use super::streak::{CreationPause, CreationStreak};
use crate::ResourceKind;

/// Series are looked through for old ones only when they have become so many more than were left
/// the last time.
const GROWTH: usize = 256;

/// The streaks of all series, by owner.
#[derive(Clone, Debug, Default)]
pub(crate) struct CreationLedger {
    by_owner: BTreeMap<String, BTreeMap<(ResourceKind, String), CreationStreak>>,
    count: usize,
    left_last_time: usize,
}

impl CreationLedger {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_owner.is_empty()
    }

    pub(crate) fn knows(&self, owner: &str) -> bool {
        self.by_owner.contains_key(owner)
    }

    /// An object of a series is there that was not before; `at` is when it was created. Only what
    /// is remembered already takes note.
    pub(crate) fn joined(
        &mut self,
        series: &CreationSeries,
        uid: &str,
        is_younger: impl Fn(Tick) -> bool,
    ) {
        if let Some(streak) =
            self.streak_mut(series).filter(|streak| is_younger(streak.last_second()))
        {
            streak.joined(uid);
        }
    }

    /// An object of a series ended early.
    pub(crate) fn ended(&mut self, series: CreationSeries, uid: &str, end: EarlyEnd, at: Tick) {
        self.entry(series, at).ended(uid, end, at);
    }

    /// The one object of a series was created.
    pub(crate) fn created(&mut self, series: CreationSeries, at: Tick) {
        self.entry(series, at).created(at);
    }

    /// The owner is gone, or asks for other objects than before: what it asks for now was never
    /// tried.
    pub(crate) fn forget(&mut self, owner: &str) {
        if let Some(series) = self.by_owner.remove(owner) {
            self.count -= series.len();
        }
    }

    pub(crate) fn pause(&self, series: &CreationSeries, now: Tick) -> Option<CreationPause> {
        let places = self.by_owner.get(&series.owner)?;
        places.get(&(series.kind, series.place.clone()))?.pause(now)
    }

    /// True when something that this owner should have is held back.
    pub(crate) fn is_any_paused(&self, owner: &str, now: Tick) -> bool {
        let streaks = self.by_owner.get(owner).into_iter().flat_map(BTreeMap::values);
        streaks.into_iter().any(|streak| streak.pause(now).is_some())
    }

    /// The user has been told of the present pause.
    pub(crate) fn told(&mut self, series: &CreationSeries) {
        if let Some(streak) = self.streak_mut(series) {
            streak.told();
        }
    }

    fn streak_mut(&mut self, series: &CreationSeries) -> Option<&mut CreationStreak> {
        self.by_owner.get_mut(&series.owner)?.get_mut(&(series.kind, series.place.clone()))
    }

    fn entry(&mut self, series: CreationSeries, now: Tick) -> &mut CreationStreak {
        if self.count >= self.left_last_time + GROWTH {
            self.prune(now);
        }
        let places = self.by_owner.entry(series.owner).or_default();
        let before = places.len();
        places.entry((series.kind, series.place.clone())).or_default();
        self.count += places.len() - before;
        places.get_mut(&(series.kind, series.place)).expect("it was put in just now")
    }

    fn prune(&mut self, now: Tick) {
        for places in self.by_owner.values_mut() {
            places.retain(|_, streak| !streak.is_forgotten(now));
        }
        self.by_owner.retain(|_, places| !places.is_empty());
        self.count = self.by_owner.values().map(BTreeMap::len).sum();
        self.left_last_time = self.count;
    }
}

#[cfg(test)]
mod tests {
    use rekindle_types::TickDuration;

    use super::super::series::SeriesMeasure;
    use super::*;

    #[test]
    fn what_is_old_is_forgotten() {
        let mut ledger = CreationLedger::default();
        let mut at = Tick::from_secs(1_000_000);
        for number in 0..20_000 {
            let place = format!("job-{number}");
            let (owner, counted_by) = ("o".to_owned(), SeriesMeasure::Creations);
            ledger
                .created(CreationSeries { owner, kind: ResourceKind::Job, place, counted_by }, at);
            at = at + TickDuration::from_secs(10);
        }
        assert!(ledger.count <= 180 + 1 + GROWTH, "half an hour of them: {}", ledger.count);
        ledger.forget("o");
        assert_eq!((ledger.count, ledger.is_empty()), (0, true));
    }
}
