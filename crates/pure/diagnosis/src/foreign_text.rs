//! Text that others wrote: it may have lines, and what moves a terminal's cursor.

/// Bytes of a foreign message that a sentence quotes.
const QUOTE_BYTES_MAX: usize = 200;
/// Letters of a foreign message that is shown by itself.
const MESSAGE_LETTERS_MAX: usize = 400;

/// The text as one line without control characters.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if !word.is_empty() && !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

/// One line, cut to a length that leaves room for our own words.
pub(crate) fn quote(text: &str) -> String {
    let line = one_line(text);
    match line.char_indices().find(|(index, _)| *index >= QUOTE_BYTES_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// One line, cut to a length that does not fill a screen.
pub fn message_line(text: &str) -> String {
    let line = one_line(text);
    match line.char_indices().nth(MESSAGE_LETTERS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_message_is_one_line_and_cut_at_a_letter() {
        assert_eq!(quote(" a\n\tb "), "a b");
        assert_eq!(quote("a\u{1b}[2J\r\nb"), "a [2J b");
        let long = quote(&"é".repeat(500));
        assert!(long.len() <= QUOTE_BYTES_MAX + 4 && long.ends_with("é…"), "{long}");
    }

    #[test]
    fn a_foreign_message_cannot_move_the_cursor_or_fill_the_screen() {
        assert_eq!(message_line("a\u{1b}[2J\n\tb\r"), "a [2J b");
        assert_eq!(message_line(&"é".repeat(1000)).chars().count(), MESSAGE_LETTERS_MAX + 1);
    }
}
