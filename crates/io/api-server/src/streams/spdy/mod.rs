//! As much of SPDY/3.1 as port forwarding speaks: streams with headers and data. It has no flow
//! control there, and nothing is ever pushed.

mod dictionary;
mod frames;
mod headers;

pub(super) use frames::{
    ResetReason, SpdyDecoder, SpdyFrame, data, last_data, ping, reset, syn_reply,
};
pub(super) use headers::{BlockPosition, Headers};

/// What a client did against the protocol. The connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SpdyError {
    /// A frame is longer than anybody needs.
    #[error("a frame of {0} bytes is too long")]
    FrameTooLong(usize),
    /// A control frame of another version.
    #[error("version {0} is not SPDY/3.1")]
    Version(u16),
    /// A control frame that is shorter than its type.
    #[error("a control frame of type {0} is cut off")]
    CutOff(u16),
    /// Headers that cannot be read.
    #[error("headers: {0}")]
    Headers(&'static str),
}
