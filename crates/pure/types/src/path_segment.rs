//! Names in the paths of requests.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};

/// What is escaped in a segment of a path. RFC 3986 lets the others stand there as they are.
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':').remove(b'@');

/// A name as it stands in the path of a request. One that
/// [`path_segment`](crate::validation::names::path_segment) allows may hold blanks and question
/// marks.
pub fn escape(name: &str) -> PercentEncode<'_> {
    utf8_percent_encode(name, ESCAPED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_paths_are_escaped_where_they_must_be() {
        for (name, path) in [
            ("web-1.example_org~x", "web-1.example_org~x"),
            ("system:masters@a", "system:masters@a"),
            ("a b?c#d", "a%20b%3Fc%23d"),
            ("é", "%C3%A9"),
        ] {
            assert_eq!(escape(name).to_string(), path);
        }
    }
}
