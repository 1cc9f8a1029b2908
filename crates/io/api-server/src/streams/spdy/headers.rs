//! Header blocks: names and values, compressed as one zlib stream per direction over the whole
//! connection.
//!
//! What we send is stored, not compressed: our answers have no headers worth it.

use std::collections::BTreeMap;

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_HAS_MORE_INPUT;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use super::{SpdyError, dictionary};

/// Names in lower case, with their values.
pub(in super::super) type Headers = BTreeMap<String, String>;

/// Bytes of one block, uncompressed; ours are of some hundred.
const BLOCK_BYTES_MAX: usize = 16 * 1024;

/// How far back a deflate stream may refer.
const WINDOW_BYTES: usize = 32 * 1024;

/// zlib's flag for a preset dictionary.
const FDICT: u8 = 0x20;

/// Reads the blocks of a connection in their order.
pub(super) struct HeaderReader {
    inflater: Box<DecompressorOxide>,
    /// A ring of what was read last.
    window: Vec<u8>,
    position: usize,
    /// Whether the head of the zlib stream was read.
    has_read_head: bool,
}

impl HeaderReader {
    pub(super) fn new() -> Self {
        Self {
            inflater: Box::default(),
            window: vec![0; WINDOW_BYTES],
            position: 0,
            has_read_head: false,
        }
    }

    /// Reads one block.
    pub(super) fn read(&mut self, block: &[u8]) -> Result<Headers, SpdyError> {
        let block = if self.has_read_head {
            block
        } else {
            self.has_read_head = true;
            self.read_begin(block)?
        };
        parse(&self.inflate(block)?)
    }

    fn read_begin<'b>(&mut self, block: &'b [u8]) -> Result<&'b [u8], SpdyError> {
        let invalid = SpdyError::Headers("they are no zlib stream");
        let ([method, flags], rest) = block.split_first_chunk::<2>().ok_or(invalid)?;
        if method & 0x0f != 8 || u16::from_be_bytes([*method, *flags]) % 31 != 0 {
            return Err(invalid);
        }
        if flags & FDICT == 0 {
            return Ok(rest);
        }
        let (id, rest) = rest.split_first_chunk::<4>().ok_or(invalid)?;
        if u32::from_be_bytes(*id) != dictionary::ID {
            return Err(SpdyError::Headers("they want another dictionary"));
        }
        self.window[..dictionary::BYTES].copy_from_slice(&dictionary::bytes());
        self.position = dictionary::BYTES;
        Ok(rest)
    }

    fn inflate(&mut self, mut input: &[u8]) -> Result<Vec<u8>, SpdyError> {
        let mut block = Vec::new();
        loop {
            let from = self.position;
            let (status, read, written) = decompress(
                &mut self.inflater,
                input,
                &mut self.window,
                from,
                TINFL_FLAG_HAS_MORE_INPUT,
            );
            input = &input[read..];
            block.extend_from_slice(&self.window[from..from + written]);
            self.position = (from + written) % WINDOW_BYTES;
            if block.len() > BLOCK_BYTES_MAX {
                return Err(SpdyError::Headers("they are too long"));
            }
            match status {
                TINFLStatus::NeedsMoreInput => return Ok(block),
                TINFLStatus::HasMoreOutput => {}
                TINFLStatus::Done => return Err(SpdyError::Headers("the zlib stream has ended")),
                _ => return Err(SpdyError::Headers("the zlib stream is damaged")),
            }
        }
    }
}

/// A count, then a length and its bytes for each name and each value.
fn parse(mut block: &[u8]) -> Result<Headers, SpdyError> {
    let count = take_number(&mut block)?;
    let mut headers = Headers::new();
    for _ in 0..count {
        let name = take_text(&mut block)?;
        let value = take_text(&mut block)?;
        headers.insert(name.to_ascii_lowercase(), value);
    }
    if block.is_empty() {
        Ok(headers)
    } else {
        Err(SpdyError::Headers("there is something behind them"))
    }
}

fn take_number(block: &mut &[u8]) -> Result<usize, SpdyError> {
    let (number, rest) = block.split_first_chunk::<4>().ok_or(CUT_OFF)?;
    *block = rest;
    usize::try_from(u32::from_be_bytes(*number)).map_err(|_| CUT_OFF)
}

fn take_text(block: &mut &[u8]) -> Result<String, SpdyError> {
    let length = take_number(block)?;
    let (text, rest) = block.split_at_checked(length).ok_or(CUT_OFF)?;
    *block = rest;
    String::from_utf8(text.to_vec()).map_err(|_| SpdyError::Headers("they are not UTF-8"))
}

const CUT_OFF: SpdyError = SpdyError::Headers("they are cut off");

/// Writes blocks without any headers.
pub(super) fn no_headers(position: BlockPosition) -> Vec<u8> {
    // Deflate without compression, then an empty block, at which the other side looks at what it
    // has.
    const STORED: [u8; 14] = [0, 4, 0, 0xfb, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
    const ZLIB: [u8; 2] = [0x78, 0x01];
    match position {
        BlockPosition::First => [&ZLIB[..], &STORED].concat(),
        BlockPosition::Later => STORED.to_vec(),
    }
}

/// Where a block is in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum BlockPosition {
    First,
    Later,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Blocks as zlib writes them: deflated with the dictionary, each flushed.
    const BLOCKS: [&str; 2] =
        [include_str!("testdata/syn_error.hex"), include_str!("testdata/syn_data.hex")];

    fn unhex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte =
            |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    #[test]
    fn blocks_deflated_with_the_dictionary_are_read() {
        let mut reader = HeaderReader::new();
        for (block, kind) in BLOCKS.iter().zip(["error", "data"]) {
            let headers = reader.read(&unhex(block)).unwrap();
            assert_eq!(headers["streamtype"], kind);
            assert_eq!(headers["port"], "8080");
            assert_eq!(headers["requestid"], "0");
        }
    }

    #[test]
    fn our_own_blocks_can_be_read() {
        let mut reader = HeaderReader::new();
        for position in [BlockPosition::First, BlockPosition::Later, BlockPosition::Later] {
            assert_eq!(reader.read(&no_headers(position)), Ok(Headers::new()));
        }
    }

    #[test]
    fn a_bomb_is_refused_before_it_goes_off() {
        let zeroes = vec![0u8; 10_000_000];
        let bomb = miniz_oxide::deflate::compress_to_vec_zlib(&zeroes, 9);
        let error = HeaderReader::new().read(&bomb).unwrap_err();
        assert_eq!(error, SpdyError::Headers("they are too long"));
    }

    proptest! {
        #[test]
        fn no_bytes_crash_the_reader(blocks in proptest::collection::vec(
            proptest::collection::vec(any::<u8>(), 0..200), 1..4,
        )) {
            let mut reader = HeaderReader::new();
            for block in blocks {
                let mut named = vec![0x78, 0xbb, 0xe3, 0xc6, 0xa7, 0xc2];
                named.extend(&block);
                let _ = reader.read(&named);
                let _ = reader.read(&block);
            }
        }
    }
}
