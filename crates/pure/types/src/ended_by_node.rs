//! Why a node ended a container by itself: a probe or a hook of it failed. Known when it is ended,
//! carried to people as words in `state.terminated.message`, and read back from them by who tells
//! of it. The exit code does not say it: 137 is any SIGKILL.

use std::fmt;

/// How the words begin.
const BEGIN: &str = "Ended by its node: ";
/// Before a container's own words that begin so, too.
const ITS_OWN: &str = "Says: ";
/// Bytes of what a probe said that are kept.
const SAID_MAX: usize = 256;

/// What failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedByNode<'a> {
    /// Its liveness probe, which said this last.
    LivenessProbe {
        /// One line of it.
        said: &'a str,
    },
    /// Its startup probe, which said this last.
    StartupProbe {
        /// One line of it.
        said: &'a str,
    },
    /// Its postStart hook. What that said is nobody's business: it may hold secrets.
    PostStartHook,
}

/// `Ended by its node: liveness probe failed ("HTTP probe failed with statuscode: 503")`.
impl fmt::Display for EndedByNode<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{BEGIN}{} failed", self.what())?;
        // what it said ends at the one mark of its kind that is left
        let words = self.said().split(|c: char| c.is_whitespace() || c.is_control());
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        let said = words.join(" ").replace('"', "'");
        match &said[..said.floor_char_boundary(SAID_MAX)] {
            "" => Ok(()),
            said => write!(f, " (\"{said}\")"),
        }
    }
}

impl<'a> EndedByNode<'a> {
    /// `liveness probe`.
    pub fn what(&self) -> &'static str {
        match self {
            Self::LivenessProbe { .. } => "liveness probe",
            Self::StartupProbe { .. } => "startup probe",
            Self::PostStartHook => "postStart hook",
        }
    }

    /// What it said, in the container's words; empty when nothing is told of that.
    pub fn said(&self) -> &'a str {
        match self {
            Self::LivenessProbe { said } | Self::StartupProbe { said } => said,
            Self::PostStartHook => "",
        }
    }

    /// Takes the words apart that a message begins with; the rest of it is what the container said
    /// itself. None when it does not begin so.
    pub fn split(message: &'a str) -> Option<(Self, &'a str)> {
        let text = message.strip_prefix(BEGIN)?;
        let (what, rest) = text.split_once(" failed")?;
        let (said, rest) = match rest.strip_prefix(" (\"") {
            Some(quoted) => quoted.split_once("\")")?,
            None => ("", rest),
        };
        let ended = match what {
            "liveness probe" => Self::LivenessProbe { said },
            "startup probe" => Self::StartupProbe { said },
            "postStart hook" => Self::PostStartHook,
            _ => return None,
        };
        match rest.strip_prefix(": ") {
            Some(own) => Some((ended, own)),
            None => rest.is_empty().then_some((ended, "")),
        }
    }

    /// The message of a container that ended otherwise: it cannot say in the node's words that it
    /// was ended by it.
    pub fn disown(message: String) -> String {
        let is_in_our_words = message.starts_with(BEGIN) || NodeStopEnd::split(&message).is_some();
        if is_in_our_words { format!("{ITS_OWN}{message}") } else { message }
    }
}

/// How the words about the end of a container whose node was stopped begin, and how they go on
/// after its exit code.
const EXITED: (&str, &str) = ("The container exited with ", " when its node was stopped");

/// How a container ended when its node was stopped, told in the same place: an exit code that
/// answers SIGTERM says nothing of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeStopEnd {
    /// Its exit code.
    pub code: i32,
}

/// `The container exited with 0 when its node was stopped`.
impl fmt::Display for NodeStopEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (begin, end) = EXITED;
        write!(f, "{begin}{}{end}", self.code)
    }
}

impl NodeStopEnd {
    /// Takes the words apart that a message begins with, as [`EndedByNode::split`].
    pub fn split(message: &str) -> Option<(Self, &str)> {
        let (begin, end) = EXITED;
        let (code, rest) = message.strip_prefix(begin)?.split_once(end)?;
        let ended = Self { code: code.parse().ok()? };
        match rest.strip_prefix(": ") {
            Some(own) => Some((ended, own)),
            None => rest.is_empty().then_some((ended, "")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_with_what_the_container_said_after_it() {
        for ended in [
            EndedByNode::LivenessProbe { said: "HTTP probe failed with statuscode: 503" },
            EndedByNode::LivenessProbe { said: "" },
            EndedByNode::StartupProbe { said: "no: (such) 'file'" },
            EndedByNode::PostStartHook,
        ] {
            let words = ended.to_string();
            assert_eq!(EndedByNode::split(&words), Some((ended, "")), "{words}");
            let both = format!("{words}: cache: full (\"really\")");
            let own = "cache: full (\"really\")";
            assert_eq!(EndedByNode::split(&both), Some((ended, own)), "{both}");
        }
    }

    #[test]
    fn what_a_probe_said_becomes_one_line_of_few_bytes_and_stays_in_its_marks() {
        let said = format!("a \"lock\")\n  is\u{1b}stale {}", "é".repeat(SAID_MAX));
        let words = EndedByNode::LivenessProbe { said: &said }.to_string();
        let Some((EndedByNode::LivenessProbe { said }, "")) = EndedByNode::split(&words) else {
            panic!("{words}");
        };
        assert!(said.starts_with("a 'lock') is stale é"), "{said}");
        assert!(said.len() <= SAID_MAX);
    }

    #[test]
    fn other_messages_are_not_taken_for_it_and_no_container_can_write_one() {
        for message in [
            "",
            "Ended by its node: ",
            "Ended by its node: readiness probe failed",
            "Ended by its node: liveness probe failed (\"",
            "Ended by its node: liveness probe failed, they say",
        ] {
            assert_eq!(EndedByNode::split(message), None, "{message}");
        }
        let forged = EndedByNode::PostStartHook.to_string();
        assert_eq!(EndedByNode::split(&EndedByNode::disown(forged)), None);
        assert_eq!(EndedByNode::disown("done".to_owned()), "done");
        let forged = NodeStopEnd { code: 0 }.to_string();
        assert_eq!(NodeStopEnd::split(&EndedByNode::disown(forged)), None);
    }

    #[test]
    fn an_end_with_the_node_is_read_back() {
        for (code, own) in [(0, ""), (143, "flushed: all")] {
            let words = NodeStopEnd { code }.to_string();
            let message = if own.is_empty() { words } else { format!("{words}: {own}") };
            assert_eq!(NodeStopEnd::split(&message), Some((NodeStopEnd { code }, own)));
        }
        for other in
            ["The container exited with x when its node was stopped", "The container exited with 0"]
        {
            assert_eq!(NodeStopEnd::split(other), None, "{other}");
        }
    }
}
