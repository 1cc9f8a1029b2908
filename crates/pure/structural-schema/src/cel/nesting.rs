//! Bounds how deep the tree of an expression can be, before the expression is parsed.
//!
//! The parser, what walks over its tree, and the end of the tree are recursive. The parser itself
//! bounds brackets only: a chain of operators, fields or conditionals makes its tree deeper, too.

use cel::parser::pratt_parser::{Lexer, TokenKind};

/// How deep a tree an expression can make at most; a macro counts as one level, and is up to five.
/// The tokens are the parser's own, so that comments and literals are what they are to it.
pub(super) fn depth_of(text: &str) -> usize {
    let mut lexer = Lexer::new(text);
    let mut outer: Vec<BracketNesting> = Vec::new();
    let mut inner = BracketNesting::default();
    let mut previous = TokenKind::TokError;
    loop {
        let token = lexer.lex().kind;
        match token {
            TokenKind::TokWhitespace | TokenKind::TokComment => continue,
            TokenKind::TokEnd => break,
            TokenKind::TokLeftParen | TokenKind::TokLeftBracket | TokenKind::TokLeftBrace => {
                inner.links += 1;
                outer.push(std::mem::take(&mut inner));
            }
            TokenKind::TokRightParen | TokenKind::TokRightBracket | TokenKind::TokRightBrace => {
                if let Some(around) = outer.pop() {
                    inner = around.with_closed(inner.depth());
                }
            }
            other => inner.token(other, previous),
        }
        previous = token;
    }
    // brackets that are never closed end here
    let whole =
        outer.into_iter().rev().fold(inner, |inner, around| around.with_closed(inner.depth()));
    whole.depth()
}

/// How deep the content of a bracket is so far.
#[derive(Default)]
struct BracketNesting {
    /// The deepest of the elements between commas that are complete.
    deepest_element: usize,
    /// The deepest of the complete operands of `&&`, `||` and `?:` in this element.
    deepest_operand: usize,
    conditionals: usize,
    /// Chains of these become balanced trees.
    ands: usize,
    ors: usize,
    /// Operators, fields and brackets in this operand. Each can be above all others.
    links: usize,
    /// The deepest bracket of this operand that was closed.
    deepest_bracket: usize,
}

impl BracketNesting {
    fn token(&mut self, token: TokenKind, previous: TokenKind) {
        match token {
            // marks an optional field or element: no conditional
            TokenKind::TokQuestion
                if matches!(
                    previous,
                    TokenKind::TokDot
                        | TokenKind::TokComma
                        | TokenKind::TokLeftBracket
                        | TokenKind::TokLeftBrace
                ) => {}
            TokenKind::TokQuestion => {
                self.conditionals += 1;
                self.end_operand();
            }
            TokenKind::TokColon => self.end_operand(),
            TokenKind::TokLogicalAnd => {
                self.ands += 1;
                self.end_operand();
            }
            TokenKind::TokLogicalOr => {
                self.ors += 1;
                self.end_operand();
            }
            TokenKind::TokComma => {
                let deepest_element = self.depth();
                *self = Self { deepest_element, ..Self::default() };
            }
            // these stand beside others, or replace one
            TokenKind::TokError
            | TokenKind::TokIdent
            | TokenKind::TokReservedWord
            | TokenKind::TokNull
            | TokenKind::TokTrue
            | TokenKind::TokFalse
            | TokenKind::TokInt
            | TokenKind::TokUint
            | TokenKind::TokFloat
            | TokenKind::TokString
            | TokenKind::TokBytes => {}
            _ => self.links += 1,
        }
    }

    fn end_operand(&mut self) {
        self.deepest_operand = self.deepest_operand.max(self.links + self.deepest_bracket);
        (self.links, self.deepest_bracket) = (0, 0);
    }

    fn with_closed(mut self, bracket: usize) -> Self {
        self.deepest_bracket = self.deepest_bracket.max(bracket);
        self
    }

    fn depth(&self) -> usize {
        let operand = self.deepest_operand.max(self.links + self.deepest_bracket);
        let levels = |operators: usize| (usize::BITS - operators.leading_zeros()) as usize;
        let element = operand + self.conditionals + levels(self.ands) + levels(self.ors);
        self.deepest_element.max(element)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_what_can_stand_above_another() {
        for (text, depth) in [
            ("a", 0),
            ("a.b.c", 2),
            ("a + b * c", 2),
            ("a && b && c && d", 2),
            ("a == b && c.d.e == f", 4),
            ("a ? b : c ? d : e", 2),
            ("f(a.b, c.d.e)", 3),
            ("[[1]]", 2),
            ("((x).a.a).b", 5),
            ("a.?b.?c", 2),
            ("[?a, ?b]", 1),
            ("{?'a': b}", 1),
            ("!!!!a", 4),
            ("'((((' + r\"\\\" + '(('", 2),
            ("rb'\\' + (a)", 2),
            ("bR'''\\''' + (a)", 2),
            ("a // ((((\n + b", 1),
            ("a // '\n + (b + 'c') // '", 3),
            ("a in\tb in\nc in(d)", 4),
            ("((((", 4),
            ("))))a + b", 1),
            ("'never closed ((((", 0),
        ] {
            assert_eq!(depth_of(text), depth, "{text}");
        }
    }
}
