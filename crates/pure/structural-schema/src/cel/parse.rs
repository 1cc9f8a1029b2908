//! Parses expressions within limits. Grammar and macros are those of the library `cel`.

use cel::{
    common::ast::IdedExpr,
    parser::{ParseErrors, PrattParser},
};

use super::nesting::depth_of;

/// How long an expression may be, in characters.
pub(crate) const EXPRESSION_CHARACTERS_MAX: usize = 16_384;
/// How deep an expression may nest.
pub(super) const EXPRESSION_DEPTH_MAX: usize = 100;
/// How many problems of one expression are reported.
pub(super) const PROBLEMS_MAX: usize = 20;
/// How much an error shows of a line, and of what is wrong with it.
const SHOWN_CHARACTERS_MAX: usize = 300;
/// No expression goes on after this.
const EXTRA_BRACKET: &str = "\n)";

/// Parses an expression, or says what is wrong as cel-go does.
pub(crate) fn parse(text: &str) -> Result<IdedExpr, String> {
    let length = text.chars().count();
    if length > EXPRESSION_CHARACTERS_MAX {
        return Err(format!(
            "ERROR: <input>:1:1: expression code point size exceeds limit: size: {length}, limit \
             {EXPRESSION_CHARACTERS_MAX}"
        ));
    }
    if depth_of(text) > EXPRESSION_DEPTH_MAX {
        return Err(format!(
            "ERROR: <input>:1:1: expression recursion limit exceeded: {EXPRESSION_DEPTH_MAX}"
        ));
    }
    parse_tree(text).map_err(|errors| syntax_errors(text, &errors))
}

fn parse_tree(text: &str) -> Result<IdedExpr, ParseErrors> {
    let parser = PrattParser::new()
        .max_recursion_depth(EXPRESSION_DEPTH_MAX as u16)
        .enable_optional_syntax(true);
    parser.parse(text)
}

/// What is wrong with a part of an expression that could be parsed.
#[derive(Debug)]
pub(crate) struct ExpressionProblem {
    pub(super) part: u64,
    pub(super) problem: String,
}

/// Problems with the lines they stand in, as cel-go shows them. The parser says where the parts of
/// an expression stand only with errors, so one is made behind the expression.
pub(crate) fn placed(text: &str, problems: &[ExpressionProblem]) -> String {
    let errors = parse_tree(&[text, EXTRA_BRACKET].concat()).err();
    let source = errors.and_then(|errors| errors.errors.into_iter().find_map(|e| e.source_info));
    let shown = problems.iter().map(|ExpressionProblem { part, problem }| {
        let token = source.as_ref().and_then(|source| source.offset_for(*part));
        let before = &text[..token.map_or(0, |(start, end)| place_of(text, start, end))];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        at_place(text, line, column, problem)
    });
    shown.collect::<Vec<_>>().join("\n")
}

/// Where the part with this token stands. A function is called where its bracket opens.
fn place_of(text: &str, start: u32, end: u32) -> usize {
    let (start, end) = (start as usize, end as usize);
    let (Some(token), Some(after)) = (text.get(start..end), text.get(end..)) else { return 0 };
    let is_name = token.starts_with(|sign: char| sign == '_' || sign.is_ascii_alphabetic());
    let next = after.trim_start();
    if is_name && next.starts_with('(') { text.len() - next.len() } else { start }
}

fn syntax_errors(text: &str, errors: &ParseErrors) -> String {
    let shown = errors.errors.iter().take(PROBLEMS_MAX).map(|error| {
        let line = usize::try_from(error.pos.0).unwrap_or(1).max(1);
        let column = usize::try_from(error.pos.1).unwrap_or(1).max(1);
        at_place(text, line, column, &error.msg)
    });
    shown.collect::<Vec<_>>().join("\n")
}

fn at_place(text: &str, line: usize, column: usize, problem: &str) -> String {
    let short = |text: &str| text.chars().take(SHOWN_CHARACTERS_MAX).collect::<String>();
    let snippet = short(text.lines().nth(line - 1).unwrap_or_default()).replace('\t', " ");
    let mark = match column {
        ..=SHOWN_CHARACTERS_MAX => format!("\n | {}^", ".".repeat(column - 1)),
        _ => String::new(),
    };
    format!("ERROR: <input>:{line}:{column}: {}\n | {snippet}{mark}", short(problem))
}
