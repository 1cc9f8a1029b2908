//! How bytes are in the messages of a websocket: as they are, or in base64 for clients that can
//! only send text. Most protocols have channels: each message begins with the number of one.
//!
//! Source: the names of the protocols in client libraries; `channel.k8s.io` begins with a byte,
//! `base64.channel.k8s.io` with a digit.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use tokio_tungstenite::tungstenite::Message;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageCoding {
    /// Binary messages.
    Binary,
    /// Text.
    Base64,
}

/// A channel, and what goes over it.
pub(super) type ChannelContent<'m> = (u8, Cow<'m, [u8]>);

/// What a client sends is not in the coding that was agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// The digit of channel 0.
const FIRST_DIGIT: u8 = b'0';
/// The last channel that has one: those after `9` are the next characters of ASCII.
pub(super) const LAST_DIGIT: u8 = b'\x7f' - FIRST_DIGIT;

impl MessageCoding {
    /// What goes over a channel.
    pub(crate) fn on_channel(self, channel: u8, bytes: &[u8]) -> Message {
        match self {
            Self::Binary => {
                let mut framed = Vec::with_capacity(bytes.len() + 1);
                framed.push(channel);
                framed.extend_from_slice(bytes);
                Message::Binary(Bytes::from(framed))
            }
            Self::Base64 => {
                let mut text = char::from(FIRST_DIGIT.saturating_add(channel)).to_string();
                STANDARD.encode_string(bytes, &mut text);
                Message::Text(text.into())
            }
        }
    }

    /// What goes over a websocket without channels.
    pub(super) fn plain(self, bytes: Bytes) -> Message {
        match self {
            Self::Binary => Message::Binary(bytes),
            Self::Base64 => Message::Text(STANDARD.encode(bytes).into()),
        }
    }

    /// The channel that a client writes to, and what; `None` for a message without a channel.
    pub(super) fn read(self, message: &[u8]) -> Result<Option<ChannelContent<'_>>, Malformed> {
        let Some((channel, bytes)) = message.split_first() else { return Ok(None) };
        match self {
            Self::Binary => Ok(Some((*channel, Cow::Borrowed(bytes)))),
            Self::Base64 => {
                let channel = channel.checked_sub(FIRST_DIGIT).ok_or(Malformed)?;
                let bytes = STANDARD.decode(bytes).map_err(|_| Malformed)?;
                Ok(Some((channel, Cow::Owned(bytes))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of upstream's package wsstream.
    #[test]
    fn base64_begins_with_the_channels_digit() {
        let stdin = b"0Zm9vCg==";
        let read = MessageCoding::Base64.read(stdin).unwrap().unwrap();
        assert_eq!((read.0, &*read.1), (0, &b"foo\n"[..]));
        let answer = MessageCoding::Base64.on_channel(1, b"\n");
        assert_eq!(answer, Message::Text("1Cg==".into()));
        assert_eq!(MessageCoding::Base64.on_channel(10, b""), Message::Text(":".into()));
        assert_eq!(MessageCoding::Base64.plain("\n".into()), Message::Text("Cg==".into()));
    }

    #[test]
    fn what_is_no_base64_is_malformed() {
        for message in [&b"0Zm9v!"[..], b"\x01Zm9v", b"0Z"] {
            assert_eq!(MessageCoding::Base64.read(message), Err(Malformed), "{message:?}");
        }
        for coding in [MessageCoding::Binary, MessageCoding::Base64] {
            assert_eq!(coding.read(b""), Ok(None));
        }
    }

    #[test]
    fn what_is_written_is_read_by_either_coding() {
        for coding in [MessageCoding::Binary, MessageCoding::Base64] {
            for channel in [0, 4, 9, LAST_DIGIT] {
                let bytes = [0, 255, channel];
                let message = coding.on_channel(channel, &bytes).into_data();
                let (read, content) = coding.read(&message).unwrap().unwrap();
                assert_eq!((read, &*content), (channel, &bytes[..]), "{coding:?}");
            }
        }
    }
}
