//! Semantic versions (semver.org 2.0.0).

use std::{cmp::Ordering, fmt};

/// Whether a text is a version with all its parts.
pub fn is_semantic_version(text: &str) -> bool {
    CelSemver::parse(text, false).is_some()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CelSemver {
    pub(super) major: u64,
    pub(super) minor: u64,
    pub(super) patch: u64,
    before: Vec<String>,
    build: String,
    bytes: usize,
}

impl CelSemver {
    /// Reads a version. `is_lenient` adds missing parts, and drops a `v` and leading zeros.
    pub(super) fn parse(text: &str, is_lenient: bool) -> Option<Self> {
        let text = if is_lenient { text.strip_prefix('v').unwrap_or(text) } else { text };
        let (rest, build) = match text.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (text, None),
        };
        let (core, before) = match rest.split_once('-') {
            Some((core, before)) => (core, Some(before)),
            None => (rest, None),
        };
        let parts: Vec<&str> = core.split('.').collect();
        let is_complete = parts.len() == 3 || is_lenient && parts.len() < 3;
        if !is_complete {
            return None;
        }
        let number = |at: usize| {
            let Some(part) = parts.get(at) else { return Some(0) };
            let is_plain = is_lenient || *part == "0" || !part.starts_with('0');
            let is_number = part.bytes().all(|sign| sign.is_ascii_digit());
            (is_plain && is_number).then(|| part.parse().ok()).flatten()
        };
        let are_parts = |text: &str, allows_zeros: bool| {
            text.split('.').all(|part| {
                let is_number = part.bytes().all(|sign| sign.is_ascii_digit());
                let is_plain =
                    part.bytes().all(|sign| sign.is_ascii_alphanumeric() || sign == b'-');
                let has_zero = is_number && part.len() > 1 && part.starts_with('0');
                !part.is_empty() && is_plain && (allows_zeros || !has_zero)
            })
        };
        if before.is_some_and(|before| !are_parts(before, false))
            || build.is_some_and(|build| !are_parts(build, true))
        {
            return None;
        }
        let before = before.map(|before| before.split('.').map(str::to_owned).collect());
        Some(Self {
            major: number(0)?,
            minor: number(1)?,
            patch: number(2)?,
            before: before.unwrap_or_default(),
            build: build.unwrap_or_default().to_owned(),
            bytes: text.len(),
        })
    }

    /// How much work it is to compare it with another version, each part of which may be a number.
    pub(super) fn work(&self) -> usize {
        self.bytes / 4
    }

    /// The precedence of two versions. What they were built from does not count.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let core = |version: &Self| (version.major, version.minor, version.patch);
        core(self).cmp(&core(other)).then_with(|| {
            match (self.before.is_empty(), other.before.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => {
                    let mut pairs = self.before.iter().zip(&other.before);
                    let order = pairs.find_map(|(a, b)| {
                        let order = compare_part(a, b);
                        (order != Ordering::Equal).then_some(order)
                    });
                    order.unwrap_or_else(|| self.before.len().cmp(&other.before.len()))
                }
            }
        })
    }
}

fn compare_part(a: &str, b: &str) -> Ordering {
    match (a.parse::<u64>(), b.parse::<u64>()) {
        (Ok(a), Ok(b)) => a.cmp(&b),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    }
}

impl fmt::Display for CelSemver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.before.is_empty() {
            write!(f, "-{}", self.before.join("."))?;
        }
        if self.build.is_empty() { Ok(()) } else { write!(f, "+{}", self.build) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_the_precedence_of_semver() {
        let order =
            ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0", "1.10.0"];
        for pair in order.windows(2) {
            let [a, b] = [pair[0], pair[1]].map(|text| CelSemver::parse(text, false).unwrap());
            assert_eq!(a.compare(&b), Ordering::Less, "{pair:?}");
        }
        assert!(CelSemver::parse("v1.2", false).is_none());
        assert_eq!(CelSemver::parse("v1.02", true).unwrap().to_string(), "1.2.0");
    }
}
