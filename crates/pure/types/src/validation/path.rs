//! The path of a field inside an object, as errors show it: `spec.containers[0].image`.

use std::fmt;

/// A field path. Cheap to extend; made only where something may be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path(String);

impl Path {
    /// A path of one field.
    pub fn new(field: &str) -> Self {
        Self(field.to_owned())
    }

    /// The field of an object at this path. The name may itself hold dots.
    pub fn child(&self, field: &str) -> Self {
        Self([&self.0, ".", field].concat())
    }

    /// The entry of a list at this path.
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// The entry of a map at this path.
    pub fn key(&self, key: &str) -> Self {
        Self([&self.0, "[", key, "]"].concat())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Path> for String {
    fn from(path: Path) -> String {
        path.0
    }
}

impl From<&Path> for String {
    fn from(path: &Path) -> String {
        path.0.clone()
    }
}
