//! Functions of lists and sets.

use std::cmp::Ordering;

use super::super::{
    eval::{EvalError, EvalResult, Evaluation},
    operations::operator,
    value::{CelList, CelValue},
};

/// How long a list may be that an expression makes.
const RANGE_MAX: i64 = 1_000_000;
/// How deep `flatten` goes.
const FLATTEN_MAX: i64 = 64;

pub(super) fn call_global<'a>(
    evaluation: &mut Evaluation<'a>,
    name: &str,
    arguments: &[CelValue<'a>],
) -> Option<EvalResult<'a>> {
    match (name, arguments) {
        ("lists.range", [CelValue::Int(count)]) => Some(range(evaluation, *count)),
        (
            "sets.contains" | "sets.equivalent" | "sets.intersects",
            [CelValue::List(a), CelValue::List(b)],
        ) => Some(sets(evaluation, name, a, b)),
        _ => None,
    }
}

fn range<'a>(evaluation: &mut Evaluation<'a>, count: i64) -> EvalResult<'a> {
    if !(0..=RANGE_MAX).contains(&count) {
        let problem = format!("lists.range: the length must be between 0 and {RANGE_MAX}");
        return Err(EvalError::new(problem));
    }
    evaluation.charge(count.unsigned_abs())?;
    evaluation.charge_new_values(count.unsigned_abs() as usize)?;
    Ok(CelValue::List(CelList::made((0..count).map(CelValue::Int).collect())))
}

fn sets<'a>(
    evaluation: &mut Evaluation<'a>,
    name: &str,
    a: &CelList<'a>,
    b: &CelList<'a>,
) -> EvalResult<'a> {
    let pairs = a.len().saturating_mul(b.len());
    let both = if name == "sets.equivalent" { 2 } else { 1 };
    evaluation.charge((pairs as u64).saturating_mul(both).saturating_add(1))?;
    for (list, other) in [(a, b), (b, a)] {
        let elements = evaluation.charge_elements(&CelValue::List(list.clone()))?;
        evaluation.charge_work(elements.saturating_mul(other.len()))?;
    }
    let (a, b): (Vec<_>, Vec<_>) = (a.iter().collect(), b.iter().collect());
    let holds = |list: &[CelValue<'a>], item: &CelValue<'a>| list.iter().any(|i| i.equals(item));
    Ok(CelValue::Bool(match name {
        "sets.contains" => b.iter().all(|item| holds(&a, item)),
        "sets.intersects" => b.iter().any(|item| holds(&a, item)),
        _ => b.iter().all(|item| holds(&a, item)) && a.iter().all(|item| holds(&b, item)),
    }))
}

pub(super) fn call<'a>(
    evaluation: &mut Evaluation<'a>,
    name: &str,
    arguments: &[CelValue<'a>],
) -> Option<EvalResult<'a>> {
    let (CelValue::List(list), rest) = arguments.split_first()? else { return None };
    if name == "size" {
        return None;
    }
    let charged = evaluation.charge(list.len() as u64 + 1);
    let whole = match charged.and_then(|()| evaluation.charge_elements(&arguments[0])) {
        Ok(elements) => elements,
        Err(error) => return Some(Err(error)),
    };
    let made = |items: Vec<CelValue<'a>>| Ok(CelValue::List(CelList::made(items)));
    Some(match (name, rest) {
        ("isSorted", []) => {
            let items: Vec<_> = list.iter().collect();
            let is_sorted =
                items.windows(2).all(|pair| pair[0].order(&pair[1]) != Some(Ordering::Greater));
            Ok(CelValue::Bool(is_sorted))
        }
        ("sum", []) => sum(evaluation, list),
        ("min", []) => extreme(list, Ordering::Less, "min"),
        ("max", []) => extreme(list, Ordering::Greater, "max"),
        ("indexOf", [item]) => {
            let at = list.iter().position(|found| found.equals(item));
            Ok(CelValue::Int(at.map_or(-1, |at| at as i64)))
        }
        ("lastIndexOf", [item]) => {
            let at = (0..list.len()).rev().find(|at| list.get(*at).is_some_and(|f| f.equals(item)));
            Ok(CelValue::Int(at.map_or(-1, |at| at as i64)))
        }
        ("includes", [item]) => Ok(CelValue::Bool(list.iter().any(|found| found.equals(item)))),
        ("reverse", []) => made(list.iter().rev().collect()),
        ("distinct", []) => distinct(evaluation, list, whole),
        ("sort", []) => sorted(evaluation, list, whole),
        ("slice", [CelValue::Int(from), CelValue::Int(to)]) => slice(list, *from, *to),
        ("flatten", []) => flatten(evaluation, list, 1).and_then(made),
        ("flatten", [CelValue::Int(depth)]) => {
            flatten(evaluation, list, (*depth).min(FLATTEN_MAX)).and_then(made)
        }
        ("join", []) => join(evaluation, list, ""),
        ("join", [CelValue::Text(separator)]) => join(evaluation, list, separator),
        _ => return None,
    })
}

fn sum<'a>(evaluation: &mut Evaluation<'a>, list: &CelList<'a>) -> EvalResult<'a> {
    let mut items = list.iter();
    let Some(mut sum) = items.next() else { return Ok(CelValue::Int(0)) };
    for item in items {
        sum = operator(evaluation, "_+_", &[sum, item])
            .unwrap_or_else(|| Err(EvalError::no_overload()))?;
    }
    Ok(sum)
}

fn extreme<'a>(list: &CelList<'a>, wanted: Ordering, name: &str) -> EvalResult<'a> {
    let mut best: Option<CelValue<'a>> = None;
    for item in list.iter() {
        let is_better = match &best {
            None => true,
            Some(best) => item.order(best).ok_or_else(EvalError::no_overload)? == wanted,
        };
        if is_better {
            best = Some(item);
        }
    }
    best.ok_or_else(|| EvalError::new(format!("{name} called on empty list")))
}

fn distinct<'a>(
    evaluation: &mut Evaluation<'a>,
    list: &CelList<'a>,
    whole: usize,
) -> EvalResult<'a> {
    let mut kept: Vec<CelValue<'a>> = Vec::new();
    for item in list.iter() {
        let each = whole / list.len().max(1) + 1;
        evaluation.charge_work(kept.len().saturating_mul(each))?;
        if !kept.iter().any(|known| known.equals(&item)) {
            kept.push(item);
        }
    }
    Ok(CelValue::List(CelList::made(kept)))
}

fn sorted<'a>(evaluation: &mut Evaluation<'a>, list: &CelList<'a>, whole: usize) -> EvalResult<'a> {
    let steps = (usize::BITS - list.len().leading_zeros()) as usize;
    evaluation.charge_work(whole.saturating_mul(steps))?;
    let mut items: Vec<_> = list.iter().collect();
    if items.windows(2).any(|pair| pair[0].order(&pair[1]).is_none()) {
        return Err(EvalError::new("list elements must have the same type"));
    }
    items.sort_by(|a, b| a.order(b).unwrap_or(Ordering::Equal));
    Ok(CelValue::List(CelList::made(items)))
}

fn slice<'a>(list: &CelList<'a>, from: i64, to: i64) -> EvalResult<'a> {
    if from < 0 || to < 0 {
        let problem = format!("cannot slice({from}, {to}), negative indexes not supported");
        return Err(EvalError::new(problem));
    }
    if from > to {
        let problem = format!(
            "cannot slice({from}, {to}), start index must be less than or equal to end index"
        );
        return Err(EvalError::new(problem));
    }
    if to > list.len() as i64 {
        let problem = format!("cannot slice({from}, {to}), list is length {}", list.len());
        return Err(EvalError::new(problem));
    }
    let (from, to) = (from.unsigned_abs() as usize, to.unsigned_abs() as usize);
    Ok(CelValue::List(CelList::made((from..to).filter_map(|at| list.get(at)).collect())))
}

fn flatten<'a>(
    evaluation: &mut Evaluation<'a>,
    list: &CelList<'a>,
    depth: i64,
) -> Result<Vec<CelValue<'a>>, EvalError> {
    if depth < 0 {
        return Err(EvalError::new("level must be non-negative"));
    }
    let mut items = Vec::new();
    evaluation.charge_new_values(list.len())?;
    for item in list.iter() {
        match item {
            CelValue::List(inner) if depth > 0 => {
                items.extend(flatten(evaluation, &inner, depth - 1)?);
            }
            other => items.push(other),
        }
    }
    Ok(items)
}

fn join<'a>(
    evaluation: &mut Evaluation<'a>,
    list: &CelList<'a>,
    separator: &str,
) -> EvalResult<'a> {
    let mut out = String::new();
    for (at, item) in list.iter().enumerate() {
        let CelValue::Text(item) = item else { return Err(EvalError::no_overload()) };
        if at > 0 {
            out.push_str(separator);
        }
        out.push_str(&item);
        evaluation.charge_text_made(item.len() + separator.len())?;
    }
    evaluation.charge((out.len() as u64).div_ceil(5))?;
    Ok(CelValue::text(out))
}
