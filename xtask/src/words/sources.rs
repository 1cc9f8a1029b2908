//! The texts that are measured, and what their lines and names alone say.

use std::path::Path;

use anyhow::Context;

use crate::tools;

/// A source file or document by its path below the workspace's folder.
pub(super) struct Text {
    pub(super) path: String,
    pub(super) text: String,
}

impl Text {
    /// False for tests, benchmarks and examples, whose names and words no user meets.
    pub(super) fn is_of_product(&self) -> bool {
        let is_test = |part: &str| {
            matches!(
                part,
                "tests" | "tests.rs" | "testing" | "testkit" | "benches" | "examples" | "xtask"
            )
        };
        !self.path.split('/').any(is_test)
    }
}

/// What stands before the unit tests, which are at the end of a file. A line that names a file of
/// tests ends nothing.
pub(super) fn product_part(text: &str) -> &str {
    let begin = "\n#[cfg(test)]\nmod ";
    let has_body = |rest: &str| rest.lines().next().is_some_and(|line| line.ends_with('{'));
    text.match_indices(begin)
        .find(|(at, _)| has_body(&text[at + begin.len()..]))
        .map_or(text, |(at, _)| &text[..at])
}

/// Comments are as wide as rustfmt's code.
const COMMENT_COLUMNS_MAX: usize = 100;

/// Moods and adverbs that files were named after; a file is called after the noun it holds.
const NO_NOUNS: [&str; 11] = [
    "around", "asked", "deeds", "desk", "further", "lately", "latest", "more", "seen", "told",
    "going_on",
];

/// All Rust files of the crates and of this program.
pub(super) fn read() -> anyhow::Result<Vec<Text>> {
    let mut found = Vec::new();
    for folder in ["crates", "xtask"] {
        collect(&tools::root().join(folder), "rs", &mut found)?;
    }
    Ok(found)
}

/// What a person reads: the documents, without the changelog, whose lines are no sentences.
pub(super) fn documents() -> anyhow::Result<Vec<Text>> {
    let mut found = Vec::new();
    collect(&tools::root().join("docs"), "md", &mut found)?;
    for name in ["README.md", "ARCHITECTURE.md", "SPECIFICATION.md", "SECURITY.md", "GLOSSARY.md"] {
        let path = tools::root().join(name);
        if path.exists() {
            found.push(read_one(&path)?);
        }
    }
    Ok(found)
}

fn collect(folder: &Path, extension: &str, found: &mut Vec<Text>) -> anyhow::Result<()> {
    let reading = || format!("list {}", folder.display());
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .with_context(reading)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .with_context(reading)?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(&path, extension, found)?;
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(read_one(&path)?);
        }
    }
    Ok(())
}

fn read_one(path: &Path) -> anyhow::Result<Text> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let path = path.strip_prefix(tools::root()).unwrap_or(path);
    Ok(Text { path: path.display().to_string(), text })
}

/// Comment lines that are wider than the code. Diagrams and tables may be: a picture that is folded
/// is none.
pub(super) fn wide_comments(sources: &[Text]) -> Vec<String> {
    let mut found = Vec::new();
    for Text { path, text } in sources {
        let mut in_diagram = false;
        for (number, line) in text.lines().enumerate() {
            let Some(comment) = line.trim_start().strip_prefix("//") else {
                in_diagram = false;
                continue;
            };
            let comment = comment.trim_start_matches(['/', '!']).trim_start();
            if comment.starts_with("```") {
                in_diagram = !in_diagram;
            }
            let columns = line.chars().count();
            let is_prose = !in_diagram && !comment.starts_with('|');
            if is_prose && columns > COMMENT_COLUMNS_MAX {
                found.push(format!("{path}:{}: {columns} columns", number + 1));
            }
        }
    }
    found
}

/// Files that are named after a mood or an adverb.
pub(super) fn files_without_a_noun(sources: &[Text]) -> Vec<String> {
    let is_one = |path: &&str| {
        Path::new(path).file_stem().is_some_and(|stem| NO_NOUNS.iter().any(|name| *name == stem))
    };
    sources.iter().map(|source| source.path.as_str()).filter(is_one).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str, text: &str) -> Text {
        Text { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn comments_are_measured_and_code_is_not() {
        let wide = "x".repeat(COMMENT_COLUMNS_MAX);
        let diagram = format!("//! ```text\n//! {wide}\n//! ```\n//! | {wide} |\n");
        let code = format!("let a = {wide};\n    // {wide}\n// short\n");
        let source = text("a.rs", &(diagram + &code));
        assert_eq!(wide_comments(&[source]), ["a.rs:6: 107 columns"]);
    }

    #[test]
    fn the_product_ends_where_a_module_of_tests_begins() {
        let product = "mod a;\n#[cfg(test)]\nmod tests;\nstruct Queue;";
        assert_eq!(product_part(product), product);
        let file = format!("{product}\n#[cfg(test)]\nmod tests {{\nstruct Fake;\n}}");
        assert_eq!(product_part(&file), product);
    }

    #[test]
    fn a_file_is_called_after_a_noun() {
        let sources = [text("crates/a/src/told.rs", ""), text("crates/a/src/queue.rs", "")];
        assert_eq!(files_without_a_noun(&sources), ["crates/a/src/told.rs"]);
    }
}
