//! Frames: cutting a byte stream into them, and writing some.

use bytes::{Buf, Bytes, BytesMut};

use super::SpdyError;
use super::headers::{BlockPosition, HeaderReader, Headers, no_headers};

/// Bytes of one frame's content. client-go writes 32 KiB at a time.
const FRAME_BYTES_MAX: usize = 256 * 1024;

/// Bytes of a frame's head.
const HEAD_BYTES: usize = 8;

const VERSION: u16 = 3;
const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GO_AWAY: u16 = 7;
const HEADERS: u16 = 8;

const FLAG_FIN: u8 = 1;

/// What a client sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum SpdyFrame {
    /// A new stream. The client sends nothing on it if this frame is its last.
    SynStream { stream: u32, headers: Headers, is_last: bool },
    /// The end of a stream by force.
    Reset { stream: u32 },
    /// To be sent back.
    Ping { id: u32 },
    /// No more new streams.
    GoAway,
    /// Content. The client sends no more of it after the last frame.
    Data { stream: u32, bytes: Bytes, is_last: bool },
    /// Any other, which is of no use here.
    Other,
}

/// Cuts a byte stream.
pub(in super::super) struct SpdyDecoder {
    input: BytesMut,
    headers: HeaderReader,
}

impl SpdyDecoder {
    pub(in super::super) fn new() -> Self {
        Self { input: BytesMut::new(), headers: HeaderReader::new() }
    }

    /// Adds what has arrived. Call [`Self::take`] until it has nothing before the next.
    pub(in super::super) fn push(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// The next whole frame.
    pub(in super::super) fn take(&mut self) -> Result<Option<SpdyFrame>, SpdyError> {
        let Some(head) = self.input.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let [a, b, c, d, flags, length @ ..] = *head;
        let [x, y, z] = length;
        let length = u32::from_be_bytes([0, x, y, z]) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(SpdyError::FrameTooLong(length));
        }
        if self.input.len() < HEAD_BYTES + length {
            return Ok(None);
        }
        self.input.advance(HEAD_BYTES);
        let bytes = self.input.split_to(length).freeze();
        let is_last = flags & FLAG_FIN != 0;
        if a & 0x80 == 0 {
            return Ok(Some(SpdyFrame::Data {
                stream: u32::from_be_bytes([a, b, c, d]),
                bytes,
                is_last,
            }));
        }
        match u16::from_be_bytes([a & 0x7f, b]) {
            VERSION => self.control(u16::from_be_bytes([c, d]), &bytes, is_last).map(Some),
            other => Err(SpdyError::Version(other)),
        }
    }

    fn control(&mut self, kind: u16, bytes: &[u8], is_last: bool) -> Result<SpdyFrame, SpdyError> {
        let number = |at: usize| -> Result<u32, SpdyError> {
            let bytes = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
            let bytes = bytes.ok_or(SpdyError::CutOff(kind))?;
            Ok(u32::from_be_bytes(*bytes) & 0x7fff_ffff)
        };
        match kind {
            SYN_STREAM => {
                let stream = number(0)?;
                // Behind it: another stream's number, priority, slot.
                let block = bytes.get(10..).ok_or(SpdyError::CutOff(kind))?;
                Ok(SpdyFrame::SynStream { stream, headers: self.headers.read(block)?, is_last })
            }
            HEADERS | SYN_REPLY => {
                number(0)?;
                // Read all the same: what comes later refers to it.
                self.headers.read(&bytes[4..])?;
                Ok(SpdyFrame::Other)
            }
            RST_STREAM => Ok(SpdyFrame::Reset { stream: number(0)? }),
            // All 32 bits count here.
            PING => {
                let id = bytes.first_chunk::<4>().ok_or(SpdyError::CutOff(kind))?;
                Ok(SpdyFrame::Ping { id: u32::from_be_bytes(*id) })
            }
            GO_AWAY => Ok(SpdyFrame::GoAway),
            _ => Ok(SpdyFrame::Other), // settings and windows: neither is used here
        }
    }
}

fn control(kind: u16, flags: u8, content: &[u8]) -> Bytes {
    let length = u32::try_from(content.len()).expect("ours are short").to_be_bytes();
    let mut frame = Vec::with_capacity(HEAD_BYTES + content.len());
    frame.extend_from_slice(&(VERSION | 0x8000).to_be_bytes());
    frame.extend_from_slice(&kind.to_be_bytes());
    frame.push(flags);
    frame.extend_from_slice(&length[1..]);
    frame.extend_from_slice(content);
    frame.into()
}

/// Accepts a stream; the first answer of a connection also begins its headers.
pub(in super::super) fn syn_reply(stream: u32, position: BlockPosition) -> Bytes {
    let block = no_headers(position);
    control(SYN_REPLY, 0, &[&stream.to_be_bytes()[..], &block].concat())
}

/// Why a stream is ended by force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum ResetReason {
    /// It makes no sense.
    ProtocolError,
    /// There are too many.
    RefusedStream,
}

/// Ends a stream by force.
pub(in super::super) fn reset(stream: u32, reason: ResetReason) -> Bytes {
    let code: u32 = match reason {
        ResetReason::ProtocolError => 1,
        ResetReason::RefusedStream => 3,
    };
    control(RST_STREAM, 0, &[stream.to_be_bytes(), code.to_be_bytes()].concat())
}

/// Sends a ping back.
pub(in super::super) fn ping(id: u32) -> Bytes {
    control(PING, 0, &id.to_be_bytes())
}

/// Content; at most [`FRAME_BYTES_MAX`]. More may follow.
pub(in super::super) fn data(stream: u32, bytes: &[u8]) -> Bytes {
    data_frame(stream, bytes, 0)
}

/// Content, as [`data`]. Nothing follows on the stream.
pub(in super::super) fn last_data(stream: u32, bytes: &[u8]) -> Bytes {
    data_frame(stream, bytes, FLAG_FIN)
}

fn data_frame(stream: u32, bytes: &[u8], flags: u8) -> Bytes {
    let length = u32::try_from(bytes.len()).expect("pieces are short").to_be_bytes();
    let mut frame = Vec::with_capacity(HEAD_BYTES + bytes.len());
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.push(flags);
    frame.extend_from_slice(&length[1..]);
    frame.extend_from_slice(bytes);
    frame.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(decoder: &mut SpdyDecoder) -> Result<Vec<SpdyFrame>, SpdyError> {
        std::iter::from_fn(|| decoder.take().transpose()).collect()
    }

    proptest! {
        #[test]
        fn frames_survive_any_cutting_of_the_stream(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 1..6),
            step in 1usize..40,
        ) {
            let mut stream = Vec::new();
            let mut expected = Vec::new();
            for (number, piece) in (1u32..).zip(&pieces) {
                stream.extend(last_data(number, piece));
                let bytes = Bytes::from(piece.clone());
                expected.push(SpdyFrame::Data { stream: number, bytes, is_last: true });
                stream.extend(ping(number));
                expected.push(SpdyFrame::Ping { id: number });
            }
            let mut decoder = SpdyDecoder::new();
            let mut read = Vec::new();
            for piece in stream.chunks(step) {
                decoder.push(piece);
                read.extend(all(&mut decoder).unwrap());
            }
            prop_assert_eq!(read, expected);
        }

        #[test]
        fn no_bytes_crash_the_decoder(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut decoder = SpdyDecoder::new();
            decoder.push(&bytes);
            let _ = all(&mut decoder);
        }

        #[test]
        fn no_control_frame_crashes_the_decoder(
            kind in 0u16..12, content in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let mut decoder = SpdyDecoder::new();
            decoder.push(&control(kind, 0, &content));
            let _ = all(&mut decoder);
        }
    }

    #[test]
    fn what_is_out_of_bounds_is_refused_before_it_is_read() {
        let take = |bytes: &[u8]| {
            let mut decoder = SpdyDecoder::new();
            decoder.push(bytes);
            decoder.take()
        };
        let long = take(&[0, 0, 0, 1, 0, 0xff, 0xff, 0xff]);
        assert_eq!(long, Err(SpdyError::FrameTooLong(0xff_ffff)));
        assert_eq!(take(&[0x80, 2, 0, 1, 0, 0, 0, 0]), Err(SpdyError::Version(2)));
        assert_eq!(take(&control(RST_STREAM, 0, &[0, 0])), Err(SpdyError::CutOff(RST_STREAM)));
        assert_eq!(take(&control(SYN_STREAM, 0, &[0; 9])), Err(SpdyError::CutOff(SYN_STREAM)));
    }

    #[test]
    fn our_answers_are_frames() {
        let mut decoder = SpdyDecoder::new();
        decoder.push(&syn_reply(1, BlockPosition::First));
        decoder.push(&syn_reply(3, BlockPosition::Later));
        decoder.push(&reset(5, ResetReason::RefusedStream));
        let expected = [SpdyFrame::Other, SpdyFrame::Other, SpdyFrame::Reset { stream: 5 }];
        assert_eq!(all(&mut decoder).unwrap(), expected);
    }
}
