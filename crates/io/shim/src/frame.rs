//! Frames: cutting a byte stream into messages, and writing one.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::protocol::FRAME_BYTES_MAX;

/// Why a stream cannot be read any further.
#[derive(Debug)]
pub enum FrameError {
    /// Longer than [`FRAME_BYTES_MAX`].
    TooLong(usize),
    /// Not a message.
    Json(serde_json::Error),
}

impl std::error::Error for FrameError {}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FrameError::TooLong(length) => write!(f, "a frame of {length} bytes is too long"),
            FrameError::Json(error) => write!(f, "a frame is no message: {error}"),
        }
    }
}

/// Puts a message behind what stands in `out`.
pub fn write<T: Serialize>(message: &T, out: &mut Vec<u8>) -> Result<(), FrameError> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    if let Err(error) = serde_json::to_writer(&mut *out, message) {
        out.truncate(start);
        return Err(FrameError::Json(error));
    }
    let length = out.len() - start - 4;
    match u32::try_from(length) {
        Ok(prefix) if length <= FRAME_BYTES_MAX => {
            out[start..start + 4].copy_from_slice(&prefix.to_le_bytes());
            Ok(())
        }
        Ok(_) | Err(_) => {
            out.truncate(start);
            Err(FrameError::TooLong(length))
        }
    }
}

/// Takes the first whole message out of `input`; `None` when it is not all there yet.
pub fn take<T: DeserializeOwned>(input: &mut Vec<u8>) -> Result<Option<T>, FrameError> {
    let Some(prefix) = input.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*prefix) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(FrameError::TooLong(length));
    }
    let Some(body) = input.get(4..4 + length) else { return Ok(None) };
    let message = serde_json::from_slice(body).map_err(FrameError::Json)?;
    input.drain(..4 + length);
    Ok(Some(message))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::protocol::{ShimCall, ShimRequest};

    fn call(seq: u64, slot: String) -> ShimCall {
        ShimCall { seq, request: ShimRequest::Start { slot } }
    }

    proptest! {
        #[test]
        fn messages_survive_any_cutting_of_the_stream(
            slots in proptest::collection::vec(".{0,40}", 1..8),
            step in 1usize..50,
        ) {
            let sent: Vec<ShimCall> =
                slots.into_iter().enumerate().map(|(n, slot)| call(n as u64, slot)).collect();
            let mut stream = Vec::new();
            for call in &sent {
                write(call, &mut stream).unwrap();
            }
            let mut input = Vec::new();
            let mut received = Vec::new();
            for piece in stream.chunks(step) {
                input.extend_from_slice(piece);
                while let Some(call) = take::<ShimCall>(&mut input).unwrap() {
                    received.push(call);
                }
            }
            prop_assert_eq!(received, sent);
            prop_assert!(input.is_empty());
        }

        #[test]
        fn no_bytes_crash_the_reader(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            while let Ok(Some(_)) = take::<ShimCall>(&mut bytes) {}
        }
    }

    #[test]
    fn a_frame_beyond_the_limit_is_refused_before_it_is_read() {
        let mut input = u32::MAX.to_le_bytes().to_vec();
        assert!(matches!(take::<ShimCall>(&mut input), Err(FrameError::TooLong(_))));
    }
}
