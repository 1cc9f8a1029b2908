//! How much a layer may unpack to: bombs end at a limit, not at a full disk.

use std::io::{self, Read};

/// What unpacking stops at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnpackLimits {
    /// Bytes of the unpacked archive.
    pub(crate) bytes_max: u64,
    /// Bytes that any archive may have, however small it is packed.
    pub(crate) bytes_always: u64,
    /// Unpacked bytes for each packed one, above `bytes_always`. Layers of programs and text have 2
    /// to 20.
    pub(crate) ratio_max: u64,
    /// Entries.
    pub(crate) entries_max: u64,
}

impl Default for UnpackLimits {
    fn default() -> Self {
        Self {
            bytes_max: 64 << 30,
            bytes_always: 512 << 20,
            ratio_max: 100,
            entries_max: 2_000_000,
        }
    }
}

impl UnpackLimits {
    /// Bytes that an archive of `packed_bytes` may unpack to where `free_bytes` are left on the
    /// disk: a tenth of the free space stays free for everybody else.
    pub(crate) fn unpacked_bytes(&self, packed_bytes: u64, free_bytes: u64) -> u64 {
        let by_ratio = packed_bytes.saturating_mul(self.ratio_max).max(self.bytes_always);
        by_ratio.min(self.bytes_max).min(free_bytes / 10 * 9)
    }
}

/// Fails, instead of ending, when more than `left` bytes come.
pub(crate) struct LimitedReader<R> {
    inner: R,
    left: u64,
    limit: u64,
}

impl<R: Read> LimitedReader<R> {
    pub(crate) fn new(inner: R, limit: u64) -> Self {
        Self { inner, left: limit, limit }
    }
}

impl<R: Read> Read for LimitedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        match self.left.checked_sub(read as u64) {
            Some(left) => {
                self.left = left;
                Ok(read)
            }
            None => Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!(
                    "it unpacks to more than {} bytes, the limit for its size and this disk",
                    self.limit
                ),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_archives_may_unpack_to_much_and_big_ones_by_their_ratio() {
        let limits =
            UnpackLimits { bytes_max: 10_000, bytes_always: 500, ratio_max: 10, entries_max: 1 };
        let cases = [(1, 500), (50, 500), (51, 510), (5_000, 10_000), (u64::MAX, 10_000)];
        for (packed, unpacked) in cases {
            assert_eq!(limits.unpacked_bytes(packed, u64::MAX), unpacked, "{packed}");
        }
        assert_eq!(limits.unpacked_bytes(5_000, 1_000), 900, "the disk's free space counts");
    }

    #[test]
    fn the_limit_is_an_error_and_never_a_silent_end() {
        let read = |limit| {
            let mut out = Vec::new();
            LimitedReader::new(&[1u8; 100][..], limit).read_to_end(&mut out).map(|_| out.len())
        };
        assert_eq!(read(100).unwrap(), 100);
        assert!(read(99).unwrap_err().to_string().contains("more than 99 bytes"));
    }
}
