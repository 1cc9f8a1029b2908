//! Where in an object a value lies. The text is built only when there is an error to report.

use std::fmt::Write;

/// A path that borrows the path of its parent.
#[derive(Clone, Copy)]
pub(crate) enum ValuePath<'a> {
    /// The value that is validated.
    Root,
    /// A field of the parent.
    Field(&'a ValuePath<'a>, &'a str),
    /// An item of the parent.
    Index(&'a ValuePath<'a>, usize),
    /// An entry of the parent, which is a map: some errors show it in brackets.
    Key(&'a ValuePath<'a>, &'a str),
    /// The same, where errors show it as a field. Upstream begins it with a dot at the root, too.
    Entry(&'a ValuePath<'a>, &'a str),
}

impl ValuePath<'_> {
    /// The path as text; empty at the root.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Root => {}
            Self::Field(parent, name) => {
                parent.write(out);
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
            Self::Entry(parent, name) => {
                parent.write(out);
                out.push('.');
                out.push_str(name);
            }
            Self::Index(parent, at) => {
                parent.write(out);
                write!(out, "[{at}]").expect("a String takes any text");
            }
            Self::Key(parent, name) => {
                parent.write(out);
                write!(out, "[{name}]").expect("a String takes any text");
            }
        }
    }
}

/// The field of an error: a path below a prefix. Upstream calls a path without parts `<nil>`.
pub(crate) fn field_below(prefix: &str, path: &str) -> String {
    match (prefix, path) {
        ("", "") => "<nil>".to_owned(),
        ("", path) => path.to_owned(),
        (prefix, "") => prefix.to_owned(),
        (prefix, path) if path.starts_with('.') => format!("{prefix}{path}"),
        (prefix, path) => format!("{prefix}.{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_as_upstream_writes_it() {
        let spec = ValuePath::Field(&ValuePath::Root, "spec");
        let list = ValuePath::Field(&spec, "list");
        let item = ValuePath::Index(&list, 2);
        let entry = ValuePath::Key(&item, "k");
        assert_eq!(ValuePath::Field(&entry, "a").text(), "spec.list[2][k].a");
        assert_eq!(field_below("", ""), "<nil>");
        assert_eq!(field_below("status", ""), "status");
        assert_eq!(field_below("status", "n"), "status.n");
    }
}
