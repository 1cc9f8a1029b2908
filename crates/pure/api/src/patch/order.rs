//! The order in which the entries of a list stand after a strategic merge patch.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rekindle_kinds::registry::merge_keys::ListMerge;
use serde_json::Value;

use super::PatchError;
use super::budget::WorkBudget;
use super::value_key::ValueKey;

/// What the budget is told that lists cost steps for.
const MERGING: &str = "merging lists";

/// The order that a patch asks for.
#[derive(Clone, Copy, Debug)]
pub(super) enum PatchOrder<'a> {
    /// The order in which the patch names the entries.
    OfThePatch,
    /// `$setElementOrder`: all entries that the client knows, in its order.
    Given(&'a [Value]),
}

impl<'a> PatchOrder<'a> {
    /// The entries whose order counts: those of the patch where no other is given.
    pub(super) const fn or_of(self, patch: &'a [Value]) -> &'a [Value] {
        match self {
            Self::OfThePatch => patch,
            Self::Given(wanted) => wanted,
        }
    }
}

/// Where each entry of a list stands. Of several that are the same, the first counts.
pub(super) struct EntryPositions<'a> {
    by: Option<ListMerge>,
    by_key: BTreeMap<ValueKey<Cow<'a, Value>>, usize>,
}

impl<'a> EntryPositions<'a> {
    /// The places in a list whose entries merge in this way. Those without the merge key have none.
    pub(super) fn new(
        by: Option<ListMerge>,
        list: impl IntoIterator<Item = &'a Value>,
        budget: &mut WorkBudget,
    ) -> Result<Self, PatchError> {
        let mut by_key = BTreeMap::new();
        for (index, item) in list.into_iter().enumerate() {
            budget.spend(1, MERGING)?;
            let Some(key) = key_in(by, item) else { continue };
            budget.measure(key, MERGING)?;
            by_key.entry(ValueKey(Cow::Borrowed(key))).or_insert(index);
        }
        Ok(Self { by, by_key })
    }

    /// The same, apart from the list, which may change then.
    pub(super) fn into_owned(
        self,
        budget: &mut WorkBudget,
    ) -> Result<EntryPositions<'static>, PatchError> {
        let mut by_key = BTreeMap::new();
        for (ValueKey(key), index) in self.by_key {
            let extent = budget.measure(&key, MERGING)?;
            budget.spend_copy(extent, MERGING)?;
            by_key.insert(ValueKey(Cow::Owned(key.into_owned())), index);
        }
        Ok(EntryPositions { by: self.by, by_key })
    }

    /// The place of an entry, if the list has one that is the same.
    pub(super) fn place(&self, item: &Value) -> Option<usize> {
        let key = key_in(self.by, item)?;
        self.by_key.get(&ValueKey(Cow::Borrowed(key))).copied()
    }
}

/// What tells an entry from the others: its merge key, or all of it.
fn key_in(by: Option<ListMerge>, item: &Value) -> Option<&Value> {
    match by {
        Some(ListMerge::ByKey(key)) => item.get(key),
        Some(ListMerge::Set | ListMerge::Whole) | None => Some(item),
    }
}

/// Puts entries that the client knows into its order, and those that only the server knows between
/// them where they stood before: a server-only entry comes before the first known one that it used
/// to precede.
pub(super) fn in_order(
    merged: Vec<Value>,
    wanted: &EntryPositions<'_>,
    old: &EntryPositions<'_>,
) -> Vec<Value> {
    let mut known: Vec<(usize, Option<usize>, Value)> = Vec::new();
    let mut unknown: Vec<(Option<usize>, Value)> = Vec::new();
    for item in merged {
        let before = old.place(&item);
        match wanted.place(&item) {
            Some(place) => known.push((place, before, item)),
            None => unknown.push((before, item)),
        }
    }
    known.sort_by_key(|(place, _, _)| *place);
    unknown.sort_by_key(|(before, _)| *before);
    let mut result = Vec::with_capacity(known.len() + unknown.len());
    let mut unknown = unknown.into_iter().peekable();
    for (_, here, item) in known {
        let precedes = |(before, _): &(Option<usize>, Value)| matches!((before, here), (Some(before), Some(here)) if *before < here);
        while let Some((_, next)) = unknown.next_if(precedes) {
            result.push(next);
        }
        result.push(item);
    }
    result.extend(unknown.map(|(_, item)| item));
    result
}
