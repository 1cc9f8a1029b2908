//! What a ledger says of a decision: the whole account for a reader with time, and one line for a
//! glance at a table. Both are made of the same phrases by the same functions (see `sentence.rs`).

use rekindle_diagnosis::one_line;
use rekindle_types::v1alpha1::RestartLedgerStatus;

use crate::ledger_reading::cut;
use crate::sentence::NOTHING_DONE;

pub(crate) use rekindle_diagnosis::Phrase;

/// Characters of a summary at most: a table's row stays one line of a terminal.
pub(crate) const SUMMARY_CHARS_MAX: usize = 60;
/// Characters of a cause that are kept in a summary, however long the rest is.
const CAUSE_CHARS_MIN: usize = 20;

/// A decision in words: first the cause, then the action, then what comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DecisionText {
    /// In full.
    pub(crate) message: String,
    /// In one line of at most [`SUMMARY_CHARS_MAX`] characters: `exit 1 ×3 in 11s; whole-pod
    /// restart 1 of 2`.
    pub(crate) summary: String,
    /// The summary's part before the action.
    cause: String,
    /// The summary's part after it.
    action: String,
}

impl DecisionText {
    /// The whole account, and in brief its cause and what follows. Where both are too long for a
    /// line, the cause is cut first.
    pub(crate) fn new(message: impl Into<String>, cause: &str, action: &str) -> Self {
        let (cause, action) = (one_line(cause), one_line(action));
        let separator = "; ";
        let room = SUMMARY_CHARS_MAX.saturating_sub(length(&action) + length(separator));
        let kept = shorten(&cause, room.max(CAUSE_CHARS_MIN));
        let summary = shorten(&format!("{kept}{separator}{action}"), SUMMARY_CHARS_MAX);
        Self { message: message.into(), summary, cause, action }
    }

    /// What has no cause beside itself.
    pub(crate) fn from_phrase(phrase: Phrase) -> Self {
        let Phrase { full: message, brief } = phrase;
        let cause = one_line(&brief);
        let summary = shorten(&cause, SUMMARY_CHARS_MAX);
        Self { message, summary, cause, action: String::new() }
    }

    /// The same cause, and in place of the action something that comes before it.
    pub(crate) fn delayed(&self, why: &Phrase) -> Self {
        let message = format!("{}; {}", self.message, why.full);
        Self::new(message, &self.cause, &why.brief)
    }

    /// The same, which nothing follows from: an operator observes.
    pub(crate) fn only_noted(&self) -> Self {
        let message = format!("{}; {NOTHING_DONE}", self.message);
        Self::new(message, &self.cause, &format!("would be: {}", self.action))
    }

    /// What the ledger says from now on.
    pub(crate) fn write_to(&self, ledger: &mut RestartLedgerStatus) {
        ledger.message = Some(cut(&self.message).to_owned());
        ledger.summary = Some(self.summary.clone());
    }
}

/// A summary that somebody else may have written.
pub(crate) fn summary_of(text: &str) -> String {
    shorten(&one_line(text), SUMMARY_CHARS_MAX)
}

/// At most so many characters, the first ones.
pub(crate) fn shorten(text: &str, chars_max: usize) -> String {
    if length(text) <= chars_max {
        return text.to_owned();
    }
    let kept: String = text.chars().take(chars_max.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// At most so many characters, the last ones: names differ at their ends.
pub(crate) fn shorten_front(text: &str, chars_max: usize) -> String {
    let surplus = length(text).saturating_sub(chars_max);
    if surplus == 0 {
        return text.to_owned();
    }
    text.chars()
        .skip(surplus + 1)
        .fold("…".to_owned(), |kept, next| kept + next.encode_utf8(&mut [0; 4]))
}

fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cause_is_cut_before_the_action() {
        for (cause, action, summary) in [
            ("exit 1", "whole-pod restart 1 of 2", "exit 1; whole-pod restart 1 of 2"),
            (
                "config error: secret \"of-a-long-name\" not found",
                "holding, a restart cannot help",
                "config error: secret \"of-a-…; holding, a restart cannot help",
            ),
            (
                "cannot start: no such file\n\tor \u{1b}[2J directory",
                "holding",
                "cannot start: no such file or [2J directory; holding",
            ),
            (
                "something with a long name was so",
                "new pod waits: the disruption budget web-of-the-shop allows none",
                "something with a lo…; new pod waits: the disruption budget…",
            ),
        ] {
            assert_eq!(DecisionText::new("", cause, action).summary, summary);
        }
    }

    #[test]
    fn a_name_is_cut_at_its_front() {
        assert_eq!(shorten_front("web-0", 5), "web-0");
        assert_eq!(shorten_front("orders-0", 5), "…rs-0");
    }

    proptest! {
        #[test]
        fn a_summary_is_one_short_line(cause in any::<String>(), action in any::<String>()) {
            let explanation = DecisionText::new("", &cause, &action);
            let delayed = explanation.delayed(&Phrase::new("", action.as_str()));
            let alone = DecisionText::from_phrase(Phrase::new("", cause.as_str()));
            for summary in [explanation.summary, delayed.summary, alone.summary, summary_of(&cause)] {
                prop_assert!(summary.chars().count() <= SUMMARY_CHARS_MAX, "{summary:?}");
                prop_assert!(!summary.contains(char::is_control), "{summary:?}");
            }
        }
    }
}
