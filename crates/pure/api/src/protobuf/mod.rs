//! Kubernetes' protobuf: how typed Go clients (kubectl create, Helm, controllers) send and get the
//! built-in kinds.
//!
//! A body is `k8s\0` and an envelope that names apiVersion and kind. What is [`read`] becomes the
//! same tree as JSON would, by a table of field numbers; everything after that is one path for all
//! formats. What is written ([`write`]) is made of an answer in JSON by the same table. A field
//! that the table does not have is refused. Those few that it names without a number, because
//! upstream has published none yet, are left out of answers.

mod fields;
mod read;
mod wire;
mod write;

pub(crate) use fields::{FieldOccurrence, MessageField, by_name, message_of};
pub(crate) use read::read;
pub(crate) use wire::WireWriter;
pub(crate) use write::{around_items, list_item, object, watch_event};

use wire::WireError;

use crate::decode::DEPTH_MAX;

/// The media type of a body.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// The media type of a watch.
pub(crate) const WATCH_MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// How every body begins.
const MAGIC: &[u8; 4] = b"k8s\0";

/// Why a body cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtobufError {
    /// It is no Kubernetes protobuf.
    #[error("the body does not begin as Kubernetes protobuf does")]
    Magic,
    /// It is cut off or otherwise broken.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// It nests deeper than a body in JSON may.
    #[error("exceeded max depth of {DEPTH_MAX}")]
    TooDeep,
    /// The kind is not known in this format.
    #[error("{kind} in {api_version:?} is not known in protobuf: send it as JSON")]
    Kind {
        /// The apiVersion in the envelope.
        api_version: String,
        /// The kind in the envelope.
        kind: String,
    },
    /// A field is not known.
    #[error("field number {number} of {message} is not known in protobuf: send it as JSON")]
    Field {
        /// The message.
        message: &'static str,
        /// The number.
        number: u64,
    },
    /// A field has a value that it cannot have.
    #[error("field {field} of {message} has an impossible value")]
    Value {
        /// The message.
        message: &'static str,
        /// The field.
        field: &'static str,
    },
}

#[cfg(test)]
mod tests;
