//! Words in two lengths.

use std::fmt;

/// The same words in full and in brief.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phrase {
    /// As a sentence has them.
    pub full: String,
    /// As a table's cell has them.
    pub brief: String,
}

impl Phrase {
    /// The words in full, and in brief.
    pub fn new(full: impl Into<String>, brief: impl Into<String>) -> Self {
        Self { full: full.into(), brief: brief.into() }
    }
}

/// In full.
impl fmt::Display for Phrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full)
    }
}
