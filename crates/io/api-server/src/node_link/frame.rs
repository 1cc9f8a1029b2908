//! Frames: a kind, a length of four bytes (the highest first), and so many bytes.

use std::io;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Bytes of one piece of data.
pub(super) const PIECE_BYTES: usize = 32 * 1024;
/// Bytes of a frame at most: what a node tells of all its pods is one frame.
const FRAME_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// The question, as JSON.
    Question,
    /// How it is answered, as JSON.
    Head,
    /// A piece of a log or of an answer.
    Data,
    /// There is no more.
    End,
    /// There is no more, because it went wrong: why.
    Failed,
}

const KINDS: [FrameKind; 5] =
    [FrameKind::Question, FrameKind::Head, FrameKind::Data, FrameKind::End, FrameKind::Failed];

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LinkFrame {
    pub(super) kind: FrameKind,
    pub(super) bytes: Bytes,
}

impl LinkFrame {
    pub(super) fn new(kind: FrameKind, bytes: impl Into<Bytes>) -> Self {
        Self { kind, bytes: bytes.into() }
    }

    /// A frame that holds a value as JSON.
    pub(super) fn json(kind: FrameKind, value: &impl Serialize) -> io::Result<Self> {
        Ok(Self::new(kind, serde_json::to_vec(value)?))
    }

    /// The value that it holds.
    pub(super) fn value<T: DeserializeOwned>(&self) -> io::Result<T> {
        Ok(serde_json::from_slice(&self.bytes)?)
    }
}

/// Writes a frame.
pub(super) async fn write(to: &mut (impl AsyncWrite + Unpin), frame: &LinkFrame) -> io::Result<()> {
    let length = u32::try_from(frame.bytes.len()).map_err(io::Error::other)?;
    let number = KINDS.iter().position(|kind| *kind == frame.kind);
    let number = number.and_then(|at| u8::try_from(at).ok()).expect("every kind is in the list");
    let mut head = [0; 5];
    head[0] = number;
    head[1..].copy_from_slice(&length.to_be_bytes());
    to.write_all(&head).await?;
    to.write_all(&frame.bytes).await
}

/// Reads a frame; `None` when the other side has closed between two.
pub(super) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<LinkFrame>> {
    let mut head = [0; 5];
    if from.read(&mut head[..1]).await? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut head[1..]).await?;
    let [number, length @ ..] = head;
    let kind = KINDS.get(usize::from(number)).copied();
    let kind = kind.ok_or_else(|| broken(format!("a frame of kind {number}")))?;
    let length = usize::try_from(u32::from_be_bytes(length)).map_err(io::Error::other)?;
    if length > FRAME_BYTES_MAX {
        return Err(broken(format!("a frame of {length} bytes")));
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes).await?;
    Ok(Some(LinkFrame::new(kind, bytes)))
}

/// What does not belong there.
pub(super) fn broken(what: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("unexpected: {what}"))
}
