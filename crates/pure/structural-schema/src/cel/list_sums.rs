//! Sums of lists. Sets hold each item once; in a map, a later item replaces one with its keys.

use super::{
    eval::{EvalError, Evaluation},
    value::{CelList, CelValue},
};
use crate::ListIdentity;

/// Adds two lists, as the kind of the first wants.
pub(super) fn add<'a>(
    evaluation: &mut Evaluation<'a>,
    first: &CelList<'a>,
    second: &CelList<'a>,
) -> Result<CelValue<'a>, EvalError> {
    evaluation.charge_new_values(first.len() + second.len())?;
    let mut items: Vec<CelValue<'a>> = first.iter().collect();
    match first.identity() {
        ListIdentity::Atomic => items.extend(second.iter()),
        ListIdentity::Set => {
            for item in second.iter() {
                let each = evaluation.charge_elements(&item)?;
                evaluation.charge_work(items.len().saturating_mul(each))?;
                if !items.iter().any(|known| known.equals(&item)) {
                    items.push(item);
                }
            }
        }
        ListIdentity::Map(keys) => {
            for item in second.iter() {
                let each = evaluation.charge_elements(&item)?;
                evaluation.charge_work(items.len().saturating_mul(each))?;
                let place = items.iter_mut().find(|known| have_same_keys(keys, known, &item));
                match place {
                    Some(place) => *place = item,
                    None => items.push(item),
                }
            }
        }
    }
    Ok(CelValue::List(CelList::made(items)))
}

fn have_same_keys(keys: &[Box<str>], a: &CelValue<'_>, b: &CelValue<'_>) -> bool {
    let (CelValue::Map(a), CelValue::Map(b)) = (a, b) else { return false };
    keys.iter().all(|key| match (a.field(key), b.field(key)) {
        (Some(a), Some(b)) => a.equals(&b),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    })
}
