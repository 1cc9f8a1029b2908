//! Sets of completion indexes as a status shows them: `1,3-5,7`.
//!
//! Source: API reference, `JobStatus.completedIndexes`: decimal numbers in order; three or more in a row are written as the
//! first and the last with a hyphen between.

use std::collections::BTreeSet;

/// The indexes in the text that are below `end`. What is no number is left out: only this controller writes the field.
pub(super) fn parse(text: &str, end: u32) -> BTreeSet<u32> {
    let mut indexes = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
            indexes.extend(first..last.saturating_add(1).min(end));
        }
    }
    indexes
}

/// The set as text.
pub(super) fn format(indexes: &BTreeSet<u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &index in indexes {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == index => *last = index,
            _ => runs.push((index, index)),
        }
    }
    let shown = runs.into_iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    });
    shown.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_written_as_upstream_writes_them_and_read_back() {
        let cases: &[(&[u32], &str)] = &[
            (&[], ""),
            (&[0], "0"),
            (&[0, 1], "0,1"),
            (&[0, 1, 2], "0-2"),
            (&[1, 3, 4, 5, 7], "1,3-5,7"),
            (&[8, 9, 20, 21, 22], "8,9,20-22"),
        ];
        for (set, text) in cases {
            let set: BTreeSet<u32> = set.iter().copied().collect();
            assert_eq!(format(&set), *text);
            assert_eq!(parse(text, 100), set);
        }
    }

    #[test]
    fn indexes_beyond_the_completions_do_not_count() {
        assert_eq!(format(&parse("0-4,7", 3)), "0-2");
        assert_eq!(format(&parse("x,-3,2", 9)), "2");
    }
}
