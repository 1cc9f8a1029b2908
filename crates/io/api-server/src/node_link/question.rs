//! What is asked over the line, and how an answer begins.

use rekindle_api::node_query::{AttachQuery, ExecQuery, LogQuery, NodeGet, PodOnNode};
use rekindle_api::resource_metrics::NodeFigures;
use serde::{Deserialize, Serialize};

use crate::{LogRequestError, NodeStreamError};

/// One question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum LinkQuestion {
    Log(LogQuery),
    Exec(ExecQuery),
    Attach(AttachQuery),
    Connect { pod: PodOnNode, port: u16 },
    Get(NodeGet),
    Figures,
}

/// How the answer begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum AnswerHead {
    /// A log follows.
    Log,
    /// A process with these files.
    Session(OpenFiles),
    /// Bytes follow, both ways.
    Connected,
    /// A body follows.
    Answer { code: u16, content_type: String },
    /// All of them.
    Figures(Vec<NodeFigures>),
    /// There is none.
    Refused(LinkRefusal),
}

/// Which files of a process are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OpenFiles {
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    pub(super) terminal: bool,
}

/// Why there is no answer. The text is for the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum LinkRefusal {
    /// Of a log: it is not there.
    NotThere(String),
    /// The node does not know the pod, or starts.
    NoNode(String),
    /// It went wrong.
    Failed(String),
}

impl From<LogRequestError> for LinkRefusal {
    fn from(error: LogRequestError) -> Self {
        match error {
            LogRequestError::NotThere(text) => Self::NotThere(text),
            LogRequestError::NoNode(text) => Self::NoNode(text),
            LogRequestError::Failed(text) => Self::Failed(text),
        }
    }
}

impl From<LinkRefusal> for LogRequestError {
    fn from(refusal: LinkRefusal) -> Self {
        match refusal {
            LinkRefusal::NotThere(text) => Self::NotThere(text),
            LinkRefusal::NoNode(text) => Self::NoNode(text),
            LinkRefusal::Failed(text) => Self::Failed(text),
        }
    }
}

impl From<NodeStreamError> for LinkRefusal {
    fn from(NodeStreamError(text): NodeStreamError) -> Self {
        Self::Failed(text)
    }
}

impl LinkRefusal {
    pub(super) fn text(self) -> String {
        match self {
            Self::NotThere(text) | Self::NoNode(text) | Self::Failed(text) => text,
        }
    }
}
