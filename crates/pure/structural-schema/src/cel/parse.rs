//! Parses expressions within limits. Grammar and macros are those of the library `cel`.

use cel::{
    common::ast::{IdedExpr, SourceInfo},
    parser::{ParseErrors, Parser, PrattParser},
};

/// How long an expression may be, in characters.
pub(crate) const EXPRESSION_CHARACTERS_MAX: usize = 16_384;
/// How deep an expression may nest.
const EXPRESSION_DEPTH_MAX: usize = 100;

/// How deep an expression may nest to be parsed once more for the places of its parts. The parser
/// that knows them needs ten times the stack.
const PLACED_DEPTH_MAX: usize = 8;

/// An expression, with the places of its parts where they are known.
pub(crate) struct ParsedExpression {
    pub(crate) root: IdedExpr,
    pub(crate) source: SourceInfo,
}

/// Parses an expression, or says what is wrong as cel-go does.
pub(crate) fn parse(text: &str) -> Result<ParsedExpression, String> {
    let length = text.chars().count();
    if length > EXPRESSION_CHARACTERS_MAX {
        return Err(format!(
            "ERROR: <input>:1:1: expression code point size exceeds limit: size: {length}, limit \
             {EXPRESSION_CHARACTERS_MAX}"
        ));
    }
    let depth = depth_of(text);
    if depth > EXPRESSION_DEPTH_MAX {
        return Err(format!(
            "ERROR: <input>:1:1: expression recursion limit exceeded: {EXPRESSION_DEPTH_MAX}"
        ));
    }
    let parser = PrattParser::new()
        .max_recursion_depth(EXPRESSION_DEPTH_MAX as u16)
        .enable_optional_syntax(true);
    let root = parser.parse(text).map_err(|errors| syntax_errors(text, &errors))?;
    let mut source = SourceInfo::default();
    source.source = text.to_owned();
    Ok(ParsedExpression { root, source })
}

/// Parses an expression that is wrong once more, to say where.
pub(crate) fn parse_with_places(text: &str) -> Option<ParsedExpression> {
    if depth_of(text) > PLACED_DEPTH_MAX {
        return None;
    }
    let parsed = Parser::new().enable_optional_syntax(true).parse_with_source_info(text).ok()?;
    Some(ParsedExpression { root: parsed.0, source: parsed.1 })
}

fn syntax_errors(text: &str, errors: &ParseErrors) -> String {
    let shown = errors.errors.iter().map(|error| {
        let line = usize::try_from(error.pos.0).unwrap_or(1).max(1);
        let column = usize::try_from(error.pos.1).unwrap_or(1).max(1);
        at_place(text, line, column, &error.msg)
    });
    shown.collect::<Vec<_>>().join("\n")
}

/// How deep the tree of an expression can be. The parser and what walks over its tree are
/// recursive, so this is found before it runs. Chains of `&&`, `||` and `,` make no depth.
fn depth_of(text: &str) -> usize {
    // for each open bracket: links of the chain so far, and conditionals so far
    let mut levels = vec![(0_usize, 0_usize)];
    let mut deepest = 0;
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(sign) = bytes.get(at) {
        let next = bytes.get(at + 1);
        let last = levels.len() - 1;
        let (chain, conditionals) = &mut levels[last];
        match sign {
            b'"' | b'\'' => at = end_of_literal(bytes, at),
            b'(' | b'[' | b'{' => {
                *chain += 1;
                levels.push((0, 0));
            }
            b')' | b']' | b'}' if last > 0 => {
                levels.pop();
            }
            b'?' | b':' => {
                *conditionals += 1;
                *chain = 0;
            }
            b',' => (*chain, *conditionals) = (0, 0),
            b'&' | b'|' if next == Some(sign) => *chain = 0,
            b'+' | b'-' | b'*' | b'/' | b'%' | b'.' | b'<' | b'>' | b'!' => *chain += 1,
            b'=' if next == Some(&b'=') => *chain += 1,
            b'i' if bytes[at..].starts_with(b"in ") => *chain += 1,
            _ => {}
        }
        let depth: usize = levels.iter().map(|(chain, conditionals)| chain + conditionals).sum();
        deepest = deepest.max(depth);
        if deepest > EXPRESSION_DEPTH_MAX {
            break;
        }
        at += 1;
    }
    deepest
}

/// Where a text literal ends that begins at `start`.
fn end_of_literal(bytes: &[u8], start: usize) -> usize {
    let quote = bytes[start];
    let is_long = bytes[start..].starts_with(&[quote; 3]);
    let close: &[u8] = if is_long { &[quote; 3] } else { &[quote] };
    let is_raw = start > 0 && matches!(bytes[start - 1], b'r' | b'R');
    let mut at = start + close.len();
    while at < bytes.len() && !bytes[at..].starts_with(close) {
        at += if bytes[at] == b'\\' && !is_raw { 2 } else { 1 };
    }
    at + close.len() - 1
}

/// A problem of a part of an expression, with the line it stands in and a mark below.
pub(crate) fn at_offset(source: &SourceInfo, id: u64, problem: &str) -> String {
    let text = source.source.as_str();
    let offset = source.offset_for(id).map_or(0, |(start, _)| start as usize);
    let (mut line, mut column) = (1, 1);
    for sign in text.chars().take(offset) {
        if sign == '\n' {
            (line, column) = (line + 1, 1);
        } else {
            column += 1;
        }
    }
    at_place(text, line, column, problem)
}

fn at_place(text: &str, line: usize, column: usize, problem: &str) -> String {
    let snippet = text.lines().nth(line - 1).unwrap_or_default().replace('\t', " ");
    let mark = ".".repeat(column - 1);
    format!("ERROR: <input>:{line}:{column}: {problem}\n | {snippet}\n | {mark}^")
}
