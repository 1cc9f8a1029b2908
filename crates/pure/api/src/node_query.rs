//! What only a node can answer: logs, streams, its own figures. The API checks the question, the
//! front carries it to the node.

use rekindle_types::log_options::LogOptions;
use rekindle_types::{PodUid, yes_or_no};
use serde::{Deserialize, Serialize};

use crate::selectors::LabelSelector;
use crate::status::ApiError;

/// Which part of which container's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogQuery {
    /// Where.
    pub pod: PodOnNode,
    /// Of which container.
    pub container: String,
    /// Which part.
    pub options: LogOptions,
}

/// What a node's own HTTP API is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeGet {
    /// Which node.
    pub node: String,
    /// The path, without a slash at either end: `stats/summary`.
    pub path: String,
    /// What follows the `?`; empty when there is none.
    pub query: String,
}

/// Which figures are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsQuery {
    pub(crate) kind: FigureOwner,
    pub(crate) namespace: String,
    /// Empty: all of them.
    pub(crate) name: String,
    pub(crate) selector: LabelSelector,
}

/// Whose figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FigureOwner {
    Node,
    Pod,
}

/// What a client wants to stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamQuery {
    /// A new command in a container.
    Exec(ExecQuery),
    /// A container's first process.
    Attach(AttachQuery),
    /// Connections to ports of a pod.
    PortForward(PortForwardQuery),
}

/// A pod that has a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodOnNode {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// Its UID.
    pub uid: PodUid,
    /// The node that runs it.
    pub node: String,
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecQuery {
    /// Where.
    pub pod: PodOnNode,
    /// In which container.
    pub container: String,
    /// What; never empty.
    pub command: Vec<String>,
    /// What the client sends and reads.
    pub files: StreamFiles,
}

/// A first process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachQuery {
    /// Where.
    pub pod: PodOnNode,
    /// Of which container.
    pub container: String,
    /// What the client sends and reads.
    pub files: StreamFiles,
}

/// Ports of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortForwardQuery {
    /// Where.
    pub pod: PodOnNode,
    /// Named beforehand, as plain websocket clients do; others name a port with each connection.
    pub ports: Vec<u16>,
}

impl PortForwardQuery {
    /// A port in a client's words.
    ///
    /// # Errors
    /// 400 when it is none from 1 to 65535.
    pub fn parse_port(text: &str) -> Result<u16, ApiError> {
        match text.parse() {
            Ok(port) if port > 0 => Ok(port),
            Ok(_) | Err(_) => {
                Err(ApiError::bad_request(format!("unable to parse {text:?} as a port")))
            }
        }
    }
}

/// Which files of a process the client sends or reads. At least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamFiles {
    /// Input.
    #[serde(with = "yes_or_no")]
    pub stdin: bool,
    /// Output.
    #[serde(with = "yes_or_no")]
    pub stdout: bool,
    /// Error output; never with a terminal, where it is part of the output.
    #[serde(with = "yes_or_no")]
    pub stderr: bool,
    /// Whether they are a terminal.
    #[serde(with = "yes_or_no")]
    pub terminal: bool,
}
