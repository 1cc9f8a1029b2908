//! Names of types: a name says what a thing is without its path, so it occurs once.

use std::collections::BTreeMap;

use super::sources::{Text, product_part};

/// How many definitions share their name with another one.
pub(super) struct SharedNames {
    /// Of all definitions.
    pub(super) percent: f64,
    /// `Name: where, where, …`, the most frequent first.
    pub(super) shared: Vec<String>,
}

/// What a definition begins with.
const DEFINES: [&str; 4] = ["struct ", "enum ", "trait ", "union "];

/// The definitions outside of tests, by name.
pub(super) fn shared(sources: &[Text]) -> SharedNames {
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_of_product()) {
        for name in product_part(&source.text).lines().filter_map(defined) {
            places.entry(name).or_default().push(&source.path);
        }
    }
    let total: usize = places.values().map(Vec::len).sum();
    let mut shared: Vec<_> = places.into_iter().filter(|(_, at)| at.len() > 1).collect();
    shared.sort_by_key(|(_, at)| std::cmp::Reverse(at.len()));
    let count: usize = shared.iter().map(|(_, at)| at.len()).sum();
    #[allow(clippy::cast_precision_loss, reason = "some thousands")]
    let percent = if total == 0 { 0.0 } else { count as f64 * 100.0 / total as f64 };
    let shared =
        shared.into_iter().map(|(name, at)| format!("{name}: {}", at.join(", "))).collect();
    SharedNames { percent, shared }
}

/// The name of the type that a line defines.
fn defined(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1.trim_start(),
        Some(rest) => rest.trim_start(),
        None => line,
    };
    let rest = DEFINES.iter().find_map(|word| line.strip_prefix(word))?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    Some(&rest[..end]).filter(|name| name.starts_with(char::is_uppercase))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_found_whatever_stands_before_and_behind_them() {
        for (line, name) in [
            ("pub struct Queue<T> {", Some("Queue")),
            ("pub(crate) enum State {", Some("State")),
            ("    trait Clock: Send {", Some("Clock")),
            ("struct Unit;", Some("Unit")),
            ("// struct Comment", None),
            ("let structure = 1;", None),
        ] {
            assert_eq!(defined(line), name, "{line}");
        }
    }

    #[test]
    fn names_of_tests_count_for_nothing() {
        let text = |path: &str, text: &str| Text { path: path.to_owned(), text: text.to_owned() };
        let sources = [
            text(
                "crates/a/src/one.rs",
                "struct State;\nstruct Alone;\n#[cfg(test)]\nmod tests {\nstruct Alone;\n}",
            ),
            text("crates/b/src/two.rs", "enum State {}\nstruct Other;"),
            text("crates/b/src/tests.rs", "struct Other;"),
        ];
        let found = shared(&sources);
        assert_eq!(found.shared, ["State: crates/a/src/one.rs, crates/b/src/two.rs"]);
        assert!((found.percent - 50.0).abs() < 0.01, "{}", found.percent);
    }
}
