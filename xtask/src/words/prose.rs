//! Sentences of the documents: how long they are.

use super::sources::Text;

/// A sentence of more words has to be read twice.
const LONG: usize = 30;

/// What the documents' sentences are like.
pub(super) struct Prose {
    pub(super) words_per_sentence: f64,
    pub(super) long_percent: f64,
    /// `path: words: beginning` of each long sentence, the longest first.
    pub(super) long: Vec<String>,
}

/// Measures all of them together.
pub(super) fn measure(documents: &[Text]) -> Prose {
    let (mut sentences, mut words, mut long) = (0_u32, 0_u32, Vec::new());
    for Text { path, text } in documents {
        for paragraph in paragraphs(text) {
            for sentence in sentences_of(&paragraph) {
                let count = sentence.split_whitespace().filter(|word| is_word(word)).count();
                if count == 0 {
                    continue;
                }
                sentences += 1;
                words += u32::try_from(count).unwrap_or(u32::MAX);
                if count > LONG {
                    let beginning: String = sentence.trim().chars().take(70).collect();
                    long.push((count, format!("{path}: {count} words: {beginning}…")));
                }
            }
        }
    }
    long.sort_by(|one, other| other.cmp(one));
    let all = f64::from(sentences.max(1));
    #[allow(clippy::cast_precision_loss, reason = "some thousands")]
    let long_percent = long.len() as f64 * 100.0 / all;
    let long = long.into_iter().map(|(_, place)| place).collect();
    Prose { words_per_sentence: f64::from(words) / all, long_percent, long }
}

/// The paragraphs and list items of a document as one line each; without code, tables, headings and
/// pictures.
fn paragraphs(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut in_code = false;
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with("```") {
            in_code = !in_code;
            found.push(String::new());
            continue;
        }
        let is_no_prose = line.is_empty()
            || line.starts_with('|')
            || line.starts_with('#')
            || line.starts_with('<');
        if in_code || is_no_prose {
            found.push(String::new());
            continue;
        }
        let item =
            line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")).or_else(|| numbered(line));
        match item {
            Some(item) => found.push(item.to_owned()),
            None => {
                let last = found.last_mut().expect("there is always one");
                last.push(' ');
                last.push_str(line);
            }
        }
    }
    found.retain(|paragraph| !paragraph.trim().is_empty());
    found
}

/// The text of `12. text`.
fn numbered(line: &str) -> Option<&str> {
    let (number, text) = line.split_once(". ")?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
}

/// Splits behind `.`, `!` or `?` when white space follows. Not within code (`…`) and not within
/// parentheses, which are part of the sentence around them.
fn sentences_of(paragraph: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let (mut in_code, mut depth) = (false, 0_u32);
    let mut chars = paragraph.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '`' => in_code = !in_code,
            '(' if !in_code => depth += 1,
            ')' if !in_code => depth = depth.saturating_sub(1),
            _ => {}
        }
        found.last_mut().expect("there is always one").push(c);
        let ends = matches!(c, '.' | '!' | '?') && !in_code && depth == 0;
        if ends && chars.peek().is_none_or(|next| next.is_whitespace()) {
            found.push(String::new());
        }
    }
    found
}

fn is_word(word: &str) -> bool {
    word.chars().any(char::is_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_prose_is_measured() {
        let text = "# A heading of many words here\n\nOne two\nthree. Four `five. six` (seven. eight).\n\n- an item\n\
                    1. another one\n\n| a | table |\n\n```sh\nsome code\n```\n";
        let lines: Vec<String> = paragraphs(text).iter().flat_map(|p| sentences_of(p)).collect();
        let lines: Vec<&str> =
            lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect();
        assert_eq!(
            lines,
            ["One two three.", "Four `five. six` (seven. eight).", "an item", "another one"]
        );
    }

    #[test]
    fn long_sentences_are_counted_and_shown() {
        let text = format!("Short one. {}.\n", "word ".repeat(LONG + 1).trim_end());
        let found = measure(&[Text { path: "a.md".to_owned(), text }]);
        assert!((found.long_percent - 50.0).abs() < 0.01);
        assert_eq!(found.long.len(), 1);
        assert!(found.long[0].starts_with("a.md: 31 words: word word"));
    }
}
