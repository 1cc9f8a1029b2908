//! Regular expressions in the syntax of Go (RE2), which `pattern` and CEL have.
//!
//! The library for it is `regex`: it is linear in time, too. Its syntax differs in a few places,
//! such as `\d` and brackets inside a class. So an expression is checked and rewritten first.

use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

/// How large a compiled expression may be, in bytes.
const COMPILED_SIZE_MAX: usize = 4 << 20;
/// How deep groups may nest.
const NEST_MAX: u32 = 100;
/// The largest count of a repetition, as in Go.
const REPEAT_MAX: u32 = 1000;

/// Compiles an expression, or says what is wrong with it in Go's words.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    let rewritten = Rewriter::new(pattern).rewrite()?;
    RegexBuilder::new(&rewritten)
        .size_limit(COMPILED_SIZE_MAX)
        .nest_limit(NEST_MAX)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => refused("expression too large", pattern),
            _ => refused("invalid or unsupported Perl syntax", pattern),
        })
}

fn refused(problem: &str, part: &str) -> String {
    format!("error parsing regexp: {problem}: `{part}`")
}

/// An expression that is compiled when it is first used: most definitions are never violated.
#[derive(Debug)]
pub(crate) struct LazyRegex {
    pub(crate) pattern: Box<str>,
    compiled: OnceLock<Result<Regex, String>>,
}

impl LazyRegex {
    pub(crate) fn new(pattern: &str) -> Self {
        Self { pattern: pattern.into(), compiled: OnceLock::new() }
    }

    /// The compiled expression.
    pub(crate) fn get(&self) -> Result<&Regex, &str> {
        let compiled = self.compiled.get_or_init(|| compile(&self.pattern));
        compiled.as_ref().map_err(String::as_str)
    }
}

impl Clone for LazyRegex {
    fn clone(&self) -> Self {
        Self::new(&self.pattern)
    }
}

impl PartialEq for LazyRegex {
    fn eq(&self, other: &Self) -> bool {
        self.pattern == other.pattern
    }
}

/// What stands before a repetition.
#[derive(Clone, Copy, PartialEq)]
enum RepeatOperand {
    Nothing,
    Atom,
    /// A repetition that began at this byte; one more would nest.
    Repetition(usize),
}

struct Rewriter<'a> {
    pattern: &'a str,
    at: usize,
    out: String,
    /// Where groups that are still open began.
    open_groups: usize,
    before: RepeatOperand,
}

impl<'a> Rewriter<'a> {
    fn new(pattern: &'a str) -> Self {
        Self { pattern, at: 0, out: String::new(), open_groups: 0, before: RepeatOperand::Nothing }
    }

    fn rest(&self) -> &'a str {
        &self.pattern[self.at..]
    }

    fn next(&mut self) -> Option<char> {
        let sign = self.rest().chars().next()?;
        self.at += sign.len_utf8();
        Some(sign)
    }

    fn rewrite(mut self) -> Result<String, String> {
        loop {
            let start = self.at;
            let Some(sign) = self.next() else { break };
            match sign {
                '\\' => self.escape(start)?,
                '[' => self.class(start)?,
                '(' => self.group(start)?,
                ')' => {
                    self.open_groups = self
                        .open_groups
                        .checked_sub(1)
                        .ok_or_else(|| refused("unexpected )", self.pattern))?;
                    self.atom(")");
                }
                '*' | '+' | '?' => self.repetition(start)?,
                '{' => self.counted(start)?,
                '|' => {
                    self.out.push('|');
                    self.before = RepeatOperand::Nothing;
                }
                '}' | ']' | '&' | '~' | '#' | '-' => {
                    self.out.push('\\');
                    self.push_atom(sign);
                }
                _ => self.push_atom(sign),
            }
        }
        if self.open_groups > 0 {
            return Err(refused("missing closing )", self.pattern));
        }
        Ok(self.out)
    }

    fn atom(&mut self, text: &str) {
        self.out.push_str(text);
        self.before = RepeatOperand::Atom;
    }

    fn push_atom(&mut self, sign: char) {
        self.out.push(sign);
        self.before = RepeatOperand::Atom;
    }

    fn repetition(&mut self, start: usize) -> Result<(), String> {
        match self.before {
            RepeatOperand::Nothing => {
                let operator = &self.pattern[start..self.at];
                return Err(refused("missing argument to repetition operator", operator));
            }
            RepeatOperand::Repetition(first) => {
                let operators = &self.pattern[first..self.at];
                return Err(refused("invalid nested repetition operator", operators));
            }
            RepeatOperand::Atom => {}
        }
        if self.rest().starts_with('?') {
            self.at += 1;
        }
        self.out.push_str(&self.pattern[start..self.at]);
        self.before = RepeatOperand::Repetition(start);
        Ok(())
    }

    /// `{2}`, `{2,}`, `{2,3}`; any other brace stands for itself.
    fn counted(&mut self, start: usize) -> Result<(), String> {
        let Some(end) = self.rest().find('}') else {
            self.atom("\\{");
            return Ok(());
        };
        let inside = &self.rest()[..end];
        let (least, most) = inside.split_once(',').unwrap_or((inside, inside));
        let is_count = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !is_count(least) || !(most.is_empty() || is_count(most)) {
            self.atom("\\{");
            return Ok(());
        }
        self.at += end + 1;
        let count = |text: &str| text.parse::<u32>().ok().filter(|count| *count <= REPEAT_MAX);
        let fits = count(least)
            .is_some_and(|least| most.is_empty() || count(most).is_some_and(|most| least <= most));
        if !fits {
            return Err(refused("invalid repeat count", &self.pattern[start..self.at]));
        }
        self.repetition(start)
    }

    fn group(&mut self, start: usize) -> Result<(), String> {
        self.open_groups += 1;
        self.before = RepeatOperand::Nothing;
        if !self.rest().starts_with('?') {
            self.out.push('(');
            return Ok(());
        }
        let rest = &self.rest()[1..];
        for name_start in ["P<", "<"] {
            let Some(name) = rest.strip_prefix(name_start).filter(|n| !n.starts_with(['=', '!']))
            else {
                continue;
            };
            let end = name.find('>').filter(|end| {
                *end > 0 && name[..*end].bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric())
            });
            let Some(end) = end else {
                return Err(refused("invalid named capture", &self.pattern[start..]));
            };
            self.at += 1 + name_start.len() + end + 1;
            self.out.push_str(&self.pattern[start..self.at]);
            return Ok(());
        }
        let flags = rest.find([':', ')']).unwrap_or(rest.len());
        let are_flags = rest[..flags].bytes().all(|flag| b"imsU-".contains(&flag));
        if !are_flags || flags == rest.len() || rest.starts_with(')') {
            let shown = &self.rest()[..self.rest().chars().take(2).map(char::len_utf8).sum()];
            return Err(refused("invalid or unsupported Perl syntax", &format!("({shown}")));
        }
        self.at += 1 + flags + 1;
        self.out.push_str(&self.pattern[start..self.at]);
        if rest[flags..].starts_with(')') {
            self.open_groups -= 1;
        }
        Ok(())
    }

    fn escape(&mut self, start: usize) -> Result<(), String> {
        let Some(sign) = self.next() else {
            return Err(refused("trailing backslash at end of expression", ""));
        };
        match sign {
            'b' => self.atom("(?-u:\\b)"),
            'B' => self.atom("(?-u:\\B)"),
            'A' | 'z' => self.atom(&self.pattern[start..self.at]),
            'Q' => {
                let (literal, len) = match self.rest().find("\\E") {
                    Some(end) => (&self.rest()[..end], end + 2),
                    None => (self.rest(), self.rest().len()),
                };
                self.at += len;
                self.atom(&regex::escape(literal));
            }
            _ => {
                self.at = start + 1;
                let mut out = std::mem::take(&mut self.out);
                let escaped = self.escaped_set(start, &mut out);
                self.out = out;
                escaped?;
                self.before = RepeatOperand::Atom;
            }
        }
        Ok(())
    }

    /// An escape that stands for a set of signs, inside a class and outside.
    fn escaped_set(&mut self, start: usize, out: &mut String) -> Result<(), String> {
        let Some(sign) = self.next() else {
            return Err(refused("missing closing ]", &self.pattern[start..]));
        };
        match sign {
            'd' => out.push_str("[0-9]"),
            'D' => out.push_str("[^0-9]"),
            'w' => out.push_str("[0-9A-Za-z_]"),
            'W' => out.push_str("[^0-9A-Za-z_]"),
            's' => out.push_str("[\\t\\n\\x0c\\r\\x20]"),
            'S' => out.push_str("[^\\t\\n\\x0c\\r\\x20]"),
            'p' | 'P' => {
                let len = match self.rest().strip_prefix('{') {
                    Some(name) => name.find('}').map(|end| end + 2),
                    None => self.rest().chars().next().map(char::len_utf8),
                };
                let Some(len) = len else {
                    let class = &self.pattern[start..];
                    return Err(refused("invalid character class range", class));
                };
                self.at += len;
                out.push_str(&self.pattern[start..self.at]);
            }
            'x' => {
                let len = match self.rest().strip_prefix('{') {
                    Some(digits) => digits.find('}').map(|end| end + 2),
                    None => self.rest().get(..2).map(str::len),
                };
                let digits = len.and_then(|len| self.rest().get(..len));
                let is_code = digits.is_some_and(|digits| {
                    let bare = digits.trim_start_matches('{').trim_end_matches('}');
                    u32::from_str_radix(bare, 16).is_ok_and(|code| char::from_u32(code).is_some())
                });
                if !is_code {
                    return Err(refused("invalid escape sequence", &self.pattern[start..self.at]));
                }
                self.at += len.unwrap_or_default();
                out.push_str(&self.pattern[start..self.at]);
            }
            'a' | 'f' | 'n' | 'r' | 't' | 'v' => out.push_str(&self.pattern[start..self.at]),
            '<' => out.push_str("\\x3c"),
            '>' => out.push_str("\\x3e"),
            sign if sign.is_ascii_punctuation() => out.push_str(&self.pattern[start..self.at]),
            _ => return Err(refused("invalid escape sequence", &self.pattern[start..self.at])),
        }
        Ok(())
    }

    fn class(&mut self, start: usize) -> Result<(), String> {
        let unclosed = || refused("missing closing ]", &self.pattern[start..]);
        let mut out = String::from("[");
        if self.rest().starts_with('^') {
            self.at += 1;
            out.push('^');
        }
        let mut is_first = true;
        while is_first || !self.rest().starts_with(']') {
            is_first = false;
            let from = self.at;
            let sign = self.next().ok_or_else(unclosed)?;
            if sign == '['
                && self.rest().starts_with(':')
                && let Some(end) = self.rest().find(":]")
            {
                self.at += end + 2;
                out.push_str(&self.pattern[from..self.at]);
                continue;
            }
            self.at = from;
            let low = self.class_sign(&mut out)?;
            let has_range = self.rest().starts_with('-') && !self.rest()[1..].starts_with(']');
            if let (true, Some(low)) = (has_range && self.rest().len() > 1, low) {
                self.at += 1;
                out.push('-');
                let high = self.class_sign(&mut out)?;
                if high.is_none_or(|high| high < low) {
                    let range = &self.pattern[from..self.at];
                    return Err(refused("invalid character class range", range));
                }
            }
        }
        self.at += 1;
        out.push(']');
        self.atom(&out);
        Ok(())
    }

    /// One sign of a class. A set of signs, such as `\d`, cannot bound a range: it gives none.
    fn class_sign(&mut self, out: &mut String) -> Result<Option<char>, String> {
        let start = self.at;
        let Some(sign) = self.next() else {
            return Err(refused("missing closing ]", &self.pattern[start..]));
        };
        if sign != '\\' {
            if matches!(sign, '[' | ']' | '&' | '~' | '-' | '^') {
                out.push('\\');
            }
            out.push(sign);
            return Ok(Some(sign));
        }
        self.escaped_set(start, out)?;
        let escape = &self.pattern[start + 1..self.at];
        Ok(match escape.chars().next() {
            Some('d' | 'D' | 'w' | 'W' | 's' | 'S' | 'p' | 'P') | None => None,
            Some('a') => Some('\u{7}'),
            Some('f') => Some('\u{c}'),
            Some('n') => Some('\n'),
            Some('r') => Some('\r'),
            Some('t') => Some('\t'),
            Some('v') => Some('\u{b}'),
            Some('x') => {
                let digits = escape[1..].trim_start_matches('{').trim_end_matches('}');
                u32::from_str_radix(digits, 16).ok().and_then(char::from_u32)
            }
            Some(sign) => Some(sign),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_means_what_it_means_in_go() {
        for (pattern, matching, other) in [
            (r"^\d+$", "42", "٤٢"),
            (r"^[\w.-]+$", "a-b.c_1", "a b"),
            (r"^[a-c]{2,3}$", "abc", "a"),
            (r"^a{,2}$", "a{,2}", "aa"),
            (r"^[][]$", "[", "x"),
            (r"^[^]]$", "x", "]"),
            (r"^[a&&b]+$", "a&b", "c"),
            (r"^\Qa.b\E$", "a.b", "axb"),
            (r"^(?i:ab)$", "AB", "AC"),
            (r"^(?P<x>a)\z", "a", "b"),
            (r"^\p{L}$", "ä", "1"),
            (r"^[\p{L}\p{N} ]{1,63}$", "Grüße 1", "a!"),
            (r"^\x41$", "A", "B"),
            (r"^a]}$", "a]}", "a"),
            (r"^[[:alpha:]-]+$", "a-b", "1"),
            (r"\bfoo\b", "a foo b", "afoob"),
            (r"^\<a\>$", "<a>", "a"),
        ] {
            let compiled = compile(pattern).unwrap_or_else(|problem| panic!("{problem}"));
            assert!(compiled.is_match(matching), "{pattern} matches {matching}");
            assert!(!compiled.is_match(other), "{pattern} does not match {other}");
        }
    }

    #[test]
    fn an_expression_that_does_not_compile_is_refused_in_go_s_words() {
        for (pattern, problem) in [
            ("(", "missing closing ): `(`"),
            ("a)", "unexpected ): `a)`"),
            ("[a", "missing closing ]: `[a`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?<!a)", "invalid or unsupported Perl syntax: `(?<`"),
            (r"\8", r"invalid escape sequence: `\8`"),
            ("[z-a]", "invalid character class range: `z-a`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("a\\", "trailing backslash at end of expression: ``"),
        ] {
            let refused = compile(pattern).expect_err(pattern);
            assert_eq!(refused, format!("error parsing regexp: {problem}"));
        }
    }
}
