//! The order in which the entries of a list stand after a strategic merge patch.

use serde_json::Value;

use super::merge_keys::ListMerge;

/// The order that a patch asks for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order<'a> {
    /// The order in which the patch names the entries.
    OfThePatch,
    /// `$setElementOrder`: all entries that the client knows, in its order.
    Given(&'a [Value]),
}

/// The entries in the order asked for, which is that of the patch where it names none.
pub(super) fn sorted(
    merged: Vec<Value>,
    by: Option<ListMerge>,
    patch: &[Value],
    order: Order<'_>,
    old: &[Value],
) -> Vec<Value> {
    let order = match order {
        Order::OfThePatch => Order::Given(patch),
        given @ Order::Given(_) => given,
    };
    in_order(merged, by, order, old)
}

/// Puts entries that the client knows into its order, and those that only the server knows between them where they stood
/// before: a server-only entry comes before the first known one that it used to precede.
pub(super) fn in_order(
    merged: Vec<Value>,
    by: Option<ListMerge>,
    order: Order<'_>,
    old: &[Value],
) -> Vec<Value> {
    let Order::Given(wanted) = order else { return merged };
    let place =
        |list: &[Value], item: &Value| list.iter().position(|other| is_same(by, other, item));
    let (mut known, mut unknown): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| place(wanted, item).is_some());
    known.sort_by_key(|item| place(wanted, item));
    unknown.sort_by_key(|item| place(old, item));
    let mut result = Vec::with_capacity(known.len() + unknown.len());
    let mut unknown = unknown.into_iter().peekable();
    for item in known {
        let here = place(old, &item);
        while let Some(next) = unknown.peek() {
            match (place(old, next), here) {
                (Some(next_place), Some(here)) if next_place < here => {
                    result.extend(unknown.next())
                }
                _ => break,
            }
        }
        result.push(item);
    }
    result.extend(unknown);
    result
}

fn is_same(by: Option<ListMerge>, one: &Value, other: &Value) -> bool {
    match key_of(by) {
        Some(key) => one.get(key).is_some() && one.get(key) == other.get(key),
        None => one == other,
    }
}

/// Whether entries of a list merge by a key.
fn key_of(by: Option<ListMerge>) -> Option<&'static str> {
    match by {
        Some(ListMerge::ByKey(key)) => Some(key),
        Some(ListMerge::Set | ListMerge::Whole) | None => None,
    }
}
