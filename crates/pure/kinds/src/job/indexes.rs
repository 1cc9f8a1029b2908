//! Lists of completion indexes as a status has them: `1,3-5,7`. Kept as runs, never one by one:
//! twelve letters can name two thousand million.

use std::ops::RangeInclusive;

/// The runs of a list, in order.
pub(super) type Runs = Vec<RangeInclusive<i32>>;

/// Reads a list of a Job that has so many indexes, or says why it is none.
pub(super) fn parse(list: &str, completions: i32) -> Result<Runs, String> {
    let mut runs: Runs = Vec::new();
    if list.is_empty() {
        return Ok(runs);
    }
    for part in list.split(',') {
        let run = parse_run(part, completions)?;
        if let Some(last) = runs.last().filter(|last| last.end() >= run.start()) {
            return Err(not_increasing(*last.end(), *run.start()));
        }
        runs.push(run);
    }
    Ok(runs)
}

fn parse_run(part: &str, completions: i32) -> Result<RangeInclusive<i32>, String> {
    let number = |text: &str| -> Result<i32, String> {
        let number: i32 = text
            .parse()
            .map_err(|_| format!("cannot convert string to integer for index: {text:?}"))?;
        if number >= completions {
            return Err(format!("too large index: {text:?}"));
        }
        Ok(number)
    };
    match part.split('-').collect::<Vec<&str>>()[..] {
        [one] => number(one).map(|index| index..=index),
        [first, last] => {
            let (first, last) = (number(first)?, number(last)?);
            if first >= last { Err(not_increasing(first, last)) } else { Ok(first..=last) }
        }
        _ => Err(format!(
            "the fragment {part:?} violates the requirement that an index interval can have at most two parts separated by '-'"
        )),
    }
}

fn not_increasing(before: i32, index: i32) -> String {
    format!("non-increasing order, previous: {before}, current: {index}")
}

/// The first index that is in both.
pub(super) fn common(one: &Runs, other: &Runs) -> Option<i32> {
    let (mut left, mut right) = (one.iter().peekable(), other.iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        if a.start() <= b.end() && b.start() <= a.end() {
            return Some(*a.start().max(b.start()));
        }
        if a.start() <= b.start() {
            left.next();
        } else {
            right.next();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_in_order_and_below_the_number_of_completions() {
        for (list, expected) in [
            ("", Ok(vec![])),
            ("0,2-4,9", Ok(vec![0..=0, 2..=4, 9..=9])),
            ("1,a", Err("cannot convert string to integer for index: \"a\"")),
            ("10", Err("too large index: \"10\"")),
            ("2-10", Err("too large index: \"10\"")),
            ("3-3", Err("non-increasing order, previous: 3, current: 3")),
            ("2-4,4", Err("non-increasing order, previous: 4, current: 4")),
            ("1-2-3", Err("the fragment \"1-2-3\" violates")),
        ] {
            match (parse(list, 10), expected) {
                (Ok(found), Ok(runs)) => assert_eq!(found, runs, "{list}"),
                (Err(found), Err(why)) => assert!(found.starts_with(why), "{list}: {found}"),
                (found, _) => panic!("{list}: {found:?}"),
            }
        }
    }

    #[test]
    fn what_two_lists_share_is_found() {
        for (one, other, expected) in [
            ("1,3-5", "0,2,6", None),
            ("1,3-5", "4-8", Some(4)),
            ("0-9", "9", Some(9)),
            ("", "1", None),
        ] {
            let read = |list| parse(list, 10).unwrap();
            assert_eq!(common(&read(one), &read(other)), expected, "{one} {other}");
        }
    }
}
