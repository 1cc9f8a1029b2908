//! What is asked over the line, and how an answer begins.

use rekindle_api::node_query::{AttachQuery, ExecQuery, LogQuery, NodeGet, PodOnNode};
use rekindle_api::resource_metrics::NodeFigures;
use serde::{Deserialize, Serialize};

use crate::{LogError, StreamError};

/// One question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Question {
    Log(LogQuery),
    Exec(ExecQuery),
    Attach(AttachQuery),
    Connect { pod: PodOnNode, port: u16 },
    Get(NodeGet),
    Figures,
}

/// How the answer begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Head {
    /// A log follows.
    Log,
    /// A process with these files.
    Session(Open),
    /// Bytes follow, both ways.
    Connected,
    /// A body follows.
    Answer { code: u16, content_type: String },
    /// All of them.
    Figures(Vec<NodeFigures>),
    /// There is none.
    Refused(Refusal),
}

/// Which files of a process are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Open {
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    pub(super) terminal: bool,
}

/// Why there is no answer. The text is for the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Refusal {
    /// Of a log: it is not there.
    NotThere(String),
    /// The node does not know the pod, or starts.
    NoNode(String),
    /// It went wrong.
    Failed(String),
}

impl From<LogError> for Refusal {
    fn from(error: LogError) -> Self {
        match error {
            LogError::NotThere(text) => Self::NotThere(text),
            LogError::NoNode(text) => Self::NoNode(text),
            LogError::Failed(text) => Self::Failed(text),
        }
    }
}

impl From<Refusal> for LogError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotThere(text) => Self::NotThere(text),
            Refusal::NoNode(text) => Self::NoNode(text),
            Refusal::Failed(text) => Self::Failed(text),
        }
    }
}

impl From<StreamError> for Refusal {
    fn from(StreamError(text): StreamError) -> Self {
        Self::Failed(text)
    }
}

impl Refusal {
    pub(super) fn text(self) -> String {
        match self {
            Self::NotThere(text) | Self::NoNode(text) | Self::Failed(text) => text,
        }
    }
}
