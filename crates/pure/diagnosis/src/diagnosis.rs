//! A reading of an end or a wait.

use rekindle_types::v1alpha1::Rung;

use crate::cause::Cause;
use crate::phrase::Phrase;

/// What an end or a wait of a container says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// What is the matter, in one word.
    pub cause: Cause,
    /// The same as a sentence goes on after the container's name: `exited with 1`.
    pub what: Phrase,
    /// The same with all that is known of it, and without messages: these are shown beside it.
    pub account: String,
    /// What the container had to say of it, in one line: only for those who may read what
    /// containers write.
    pub said: Option<String>,
    /// Whether a restart may help.
    pub prognosis: Prognosis,
    /// What would help.
    pub remedy: String,
    /// What happens if a person does nothing.
    pub(crate) outlook: Option<&'static str>,
}

/// Whether a restart may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prognosis {
    /// It may, from this rung on.
    Helps {
        /// The mildest that may.
        from: Rung,
    },
    /// None that is carried out in place does, because …
    Futile {
        /// Why not.
        because: &'static str,
    },
    /// Its restartPolicy is Never: none of a container comes.
    StaysEnded,
    /// It is not known. It is left alone.
    Unknown,
}

/// Why no restart follows under restartPolicy Never.
const STAYS_ENDED: &str = "its restartPolicy is Never, so it stays as it ended";
/// What is added to a remedy where a restart would be in vain.
pub(crate) const NO_RESTART_HELPS: &str = "no restart helps";

impl Diagnosis {
    /// A reading with an account that knows no more than the sentence.
    pub(crate) fn new(
        cause: Cause,
        what: Phrase,
        prognosis: Prognosis,
        remedy: impl Into<String>,
    ) -> Self {
        let account = what.full.clone();
        Self { cause, what, account, said: None, prognosis, remedy: remedy.into(), outlook: None }
    }

    /// The same with an account that knows more.
    pub(crate) fn with_account(self, account: impl Into<String>) -> Self {
        Self { account: account.into(), ..self }
    }

    /// The same with what comes of it by itself.
    pub(crate) fn with_outlook(self, outlook: &'static str) -> Self {
        Self { outlook: Some(outlook), ..self }
    }

    /// What would help, and what comes of it without that.
    pub fn advice(&self) -> String {
        match self.outlook {
            Some(outlook) => format!("{}; {outlook}", self.remedy),
            None => self.remedy.clone(),
        }
    }

    /// Why no restart in place helps, and what would; none where one may.
    pub fn why_futile(&self) -> Option<String> {
        match self.prognosis {
            Prognosis::Futile { because } => Some(format!("{because}; {}", self.remedy)),
            Prognosis::StaysEnded => Some(STAYS_ENDED.to_owned()),
            Prognosis::Helps { .. } | Prognosis::Unknown => None,
        }
    }
}
