//! Layers are plain, gzip or zstd, whatever their media type says: the first bytes decide, as
//! container engines do it.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// Formats that are told by name instead of as a broken tar.
const REFUSED: [(&[u8], &str); 3] = [
    (&[0xfd, b'7', b'z', b'X', b'Z'], "compressed with xz; only gzip and zstd are supported"),
    (b"BZh", "compressed with bzip2; only gzip and zstd are supported"),
    (b"PK\x03\x04", "a zip file, no image archive"),
];

/// How some bytes are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompressionFormat {
    Plain,
    Gzip,
    Zstd,
}

/// How `reader`'s bytes are packed; nothing is consumed.
pub(crate) fn packing(reader: &mut impl BufRead) -> io::Result<CompressionFormat> {
    let start = reader.fill_buf()?;
    if let Some((_, problem)) = REFUSED.iter().find(|(magic, _)| start.starts_with(magic)) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, *problem));
    }
    if start.starts_with(GZIP) {
        return Ok(CompressionFormat::Gzip);
    }
    // a skippable frame may come first
    let skippable = matches!(start, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]);
    Ok(if skippable || start.starts_with(ZSTD) {
        CompressionFormat::Zstd
    } else {
        CompressionFormat::Plain
    })
}

/// The unpacked bytes of `reader`.
pub(crate) fn decompress<'a>(reader: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut reader = BufReader::with_capacity(64 * 1024, reader);
    Ok(match packing(&mut reader)? {
        CompressionFormat::Plain => Box::new(reader),
        CompressionFormat::Gzip => Box::new(MultiGzDecoder::new(reader)),
        CompressionFormat::Zstd => Box::new(ZstdFrames::new(reader)),
    })
}

/// Zstd frames one after the other (parallel and seekable compressors write many), skippable ones
/// left out.
struct ZstdFrames<R> {
    reader: R,
    decoder: FrameDecoder,
    state: FramePosition,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FramePosition {
    Between,
    Inside,
}

impl<R: BufRead> ZstdFrames<R> {
    fn new(reader: R) -> Self {
        Self { reader, decoder: FrameDecoder::new(), state: FramePosition::Between }
    }

    /// Begins the next frame with content; `None` at the end.
    fn open_frame(&mut self) -> io::Result<Option<()>> {
        loop {
            if self.reader.fill_buf()?.is_empty() {
                return Ok(None);
            }
            match self.decoder.init(&mut self.reader) {
                Ok(()) => return Ok(Some(())),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    io::copy(&mut self.reader.by_ref().take(length.into()), &mut io::sink())?;
                }
                Err(error) => return Err(broken(error)),
            }
        }
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            match self.state {
                FramePosition::Between => match self.open_frame()? {
                    Some(()) => self.state = FramePosition::Inside,
                    None => return Ok(0),
                },
                FramePosition::Inside => {
                    while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                        let some = BlockDecodingStrategy::UptoBytes(buffer.len());
                        self.decoder.decode_blocks(&mut self.reader, some).map_err(broken)?;
                    }
                    if self.decoder.can_collect() > 0 {
                        return self.decoder.read(buffer);
                    }
                    self.state = FramePosition::Between;
                }
            }
        }
    }
}

fn broken(error: FrameDecoderError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn unpacked(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        decompress(bytes)?.read_to_end(&mut out)?;
        Ok(out)
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest)
    }

    #[test]
    fn plain_gzip_and_zstd_are_told_by_their_first_bytes() {
        let text = vec![b'x'; 300_000];
        assert_eq!(unpacked(&text).unwrap(), text);
        assert_eq!(unpacked(&gzip(&text)).unwrap(), text);
        assert_eq!(unpacked(&zstd(&text)).unwrap(), text);
        assert_eq!(unpacked(b"").unwrap(), b"");
    }

    #[test]
    fn several_members_and_skippable_frames_read_as_one_stream() {
        let twice = [gzip(b"one "), gzip(b"two")].concat();
        assert_eq!(unpacked(&twice).unwrap(), b"one two");
        let skippable = [&0x184d_2a50u32.to_le_bytes()[..], &3u32.to_le_bytes(), b"abc"].concat();
        let frames = [skippable.clone(), zstd(b"one "), skippable, zstd(b"two")].concat();
        assert_eq!(unpacked(&frames).unwrap(), b"one two");
    }

    #[test]
    fn a_stream_cut_short_is_an_error_not_an_end() {
        let text: Vec<u8> = (0u32..50_000).flat_map(u32::to_le_bytes).collect();
        for whole in [gzip(&text), zstd(&text)] {
            assert!(unpacked(&whole[..whole.len() / 2]).is_err());
        }
    }

    #[test]
    fn other_formats_are_named() {
        let error = unpacked(b"\xfd7zXZ\0rest").unwrap_err();
        assert_eq!(error.to_string(), "compressed with xz; only gzip and zstd are supported");
    }
}
