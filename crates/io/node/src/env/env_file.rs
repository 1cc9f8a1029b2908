//! Files of variables, which `fileKeyRef` takes one from (KEP-3721).
//!
//! The kubelet reads a small and strict part of the shell's syntax: `NAME='value'`, the value in
//! single quotes, taken as it stands and over as many lines as it has; blank lines, and comments on
//! lines of their own or after a value. A blank after the `=` makes an empty value, as in a shell.
//! The first entry of a name counts, and what follows it is not looked at.

/// Why a file is no file of variables. Lines are counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EnvFileError {
    /// Neither blank, nor a comment, nor an assignment.
    #[error("invalid environment variable format at line {0}: missing '='")]
    NoAssignment(usize),
    /// Nothing before the `=`.
    #[error("invalid environment variable format at line {0}: empty variable name")]
    NoName(usize),
    /// A blank before the `=`.
    #[error(
        "invalid environment variable format at line {0}: whitespace before '=' is not allowed"
    )]
    BlankBeforeEquals(usize),
    /// A value without quotes, or in double ones.
    #[error(
        "invalid environment variable format at line {0}: value must be enclosed in single quotes"
    )]
    NotQuoted(usize),
    /// Something other than a comment behind the value.
    #[error(
        "invalid environment variable format at line {0}: unexpected content after closing quote"
    )]
    AfterQuote(usize),
    /// The file ends inside a value that began at this line.
    #[error("invalid environment variable format starting at line {0}: unclosed single quote")]
    Unclosed(usize),
}

const BLANKS: [char; 2] = [' ', '\t'];

/// The value that the file gives a name; none if it does not name it.
pub(super) fn value_in(text: &str, name: &str) -> Result<Option<String>, EnvFileError> {
    let mut lines = (1..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        let line = line.trim_start_matches(BLANKS);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (found, value) = line.split_once('=').ok_or(EnvFileError::NoAssignment(number))?;
        if found.is_empty() {
            return Err(EnvFileError::NoName(number));
        }
        if found.ends_with(BLANKS) {
            return Err(EnvFileError::BlankBeforeEquals(number));
        }
        let value = if value.starts_with(BLANKS) {
            String::new()
        } else {
            quoted(number, value, &mut lines)?
        };
        if found == name {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// A value in single quotes that begins at the line with this number and may go on in those that
/// follow.
fn quoted<'a>(
    began: usize,
    value: &'a str,
    lines: &mut impl Iterator<Item = (usize, &'a str)>,
) -> Result<String, EnvFileError> {
    let mut rest = value.strip_prefix('\'').ok_or(EnvFileError::NotQuoted(began))?;
    let mut number = began;
    let mut value = String::new();
    loop {
        if let Some((last, after)) = rest.split_once('\'') {
            value.push_str(last);
            let after = after.trim_start_matches(BLANKS);
            return match after.is_empty() || after.starts_with('#') {
                true => Ok(value),
                false => Err(EnvFileError::AfterQuote(number)),
            };
        }
        value.push_str(rest);
        value.push('\n');
        (number, rest) = lines.next().ok_or(EnvFileError::Unclosed(began))?;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{EnvFileError, value_in};

    #[test]
    fn a_file_of_variables_is_read_as_the_kubelet_does() {
        let ok = |value: &str| Ok(Some(value.to_owned()));
        let cases = [
            ("A='one'", ok("one")),
            ("A='one'\r\nB='two'\r\n", ok("one")),
            ("\n  \t\n# A='no'\n\tA='yes' # of course\n", ok("yes")),
            ("A='first'\nA='second'\n", ok("first")),
            ("B='x'\nA='$HOME \\n \"q\" # k=v'", ok("$HOME \\n \"q\" # k=v")),
            ("A='one\n  two\n\n# three'\nB='x'", ok("one\n  two\n\n# three")),
            ("A=''", ok("")),
            ("A= 'one'", ok("")),
            ("AA='x'\na='y'", Ok(None)),
            ("", Ok(None)),
            // what follows is not looked at
            ("A='one'\nrubbish", ok("one")),
            ("rubbish\nA='one'", Err(EnvFileError::NoAssignment(1))),
            ("\n='one'", Err(EnvFileError::NoName(2))),
            ("A ='one'", Err(EnvFileError::BlankBeforeEquals(1))),
            ("A=one", Err(EnvFileError::NotQuoted(1))),
            ("A=", Err(EnvFileError::NotQuoted(1))),
            ("B=\"x\"\nA='one'", Err(EnvFileError::NotQuoted(1))),
            ("A='one'two", Err(EnvFileError::AfterQuote(1))),
            ("B='\n\n'x\nA='one'", Err(EnvFileError::AfterQuote(3))),
            ("\nA='one\n\n", Err(EnvFileError::Unclosed(2))),
        ];
        for (text, expected) in cases {
            assert_eq!(value_in(text, "A"), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_file_makes_it_panic(text in "([A'=# \t\n\\\\]|\\PC){0,200}", name in "A{0,2}") {
            let _ = value_in(&text, &name);
        }

        #[test]
        fn a_value_without_quotes_in_it_comes_back_as_it_is(value in "[^'\r]{0,60}") {
            prop_assert_eq!(value_in(&format!("A='{value}'\n"), "A"), Ok(Some(value)));
        }
    }
}
