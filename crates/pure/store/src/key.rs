//! What names an object and a moment: keys and revisions.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// A moment in the life of the store: 0 is the empty store, and each write raises it by one. A
/// client sees it as `resourceVersion`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// Before the first write.
    pub const ZERO: Self = Self(0);

    /// The one after this.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The one before this; zero stays zero.
    pub const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The key of an object, such as `/pods/default/web-0`, ordered bytewise. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(Arc<str>);

impl ObjectKey {
    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for ObjectKey {
    fn from(key: &str) -> Self {
        Self(key.into())
    }
}

impl From<String> for ObjectKey {
    fn from(key: String) -> Self {
        Self(key.into())
    }
}

impl AsRef<str> for ObjectKey {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

// `ObjectKey`'s order and equality are those of `str`, so a map of keys can be asked with a `&str`.
impl Borrow<str> for ObjectKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ObjectKey {
    /// The quoted text, as error messages show it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// The first segment of a key: `pods` of `/pods/default/web-0`. Watchers are woken by it.
pub(crate) fn segment_of_key(key: &str) -> &str {
    let rest = key.strip_prefix('/').unwrap_or(key);
    rest.split('/').next().unwrap_or(rest)
}

/// The one segment that all keys with this prefix have, or none when they may differ (`/`, `/po`).
pub(crate) fn segment_of_prefix(prefix: &str) -> Option<&str> {
    let rest = prefix.strip_prefix('/').unwrap_or(prefix);
    rest.split_once('/').map(|(segment, _)| segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_segment_of_a_prefix_is_the_segment_of_every_key_below_it() {
        for (prefix, segment) in [
            ("/pods/", Some("pods")),
            ("/pods/default/", Some("pods")),
            ("/pods/default/web-0", Some("pods")),
            ("pods/", Some("pods")),
            ("/pods", None),
            ("/", None),
            ("", None),
        ] {
            assert_eq!(segment_of_prefix(prefix), segment, "{prefix:?}");
        }
        for (key, segment) in
            [("/pods/default/web-0", "pods"), ("/version", "version"), ("a", "a"), ("", "")]
        {
            assert_eq!(segment_of_key(key), segment, "{key:?}");
        }
    }

    #[test]
    fn a_relative_and_an_absolute_key_share_their_segment_with_their_own_prefixes() {
        for key in ["/pods/a/b", "pods/a/b"] {
            for end in 0..=key.len() {
                if let Some(segment) = segment_of_prefix(&key[..end]) {
                    assert_eq!(segment, segment_of_key(key));
                }
            }
        }
    }
}
