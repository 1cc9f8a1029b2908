//! The CRI log format: `<RFC 3339 time> <stdout|stderr> <P|F> <text>`, one entry a line; `P` is a
//! part of a line that goes on in the next entry of the same stream. Behind a colon there may be
//! further tags: the shim's `C` says that the entry goes on with a line that began in the file
//! before.

use rekindle_runtime::OutputStream;

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogEntry<'a> {
    /// When it was written, as in the file.
    pub time: &'a str,
    /// Where the program wrote it.
    pub stream: OutputStream,
    /// Whether the line goes on.
    pub end: LineEnd,
    /// Where its line began.
    pub begin: LineBegin,
    /// The bytes, without the end of line.
    pub text: &'a [u8],
}

/// One of something for each stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PerStream<T> {
    pub(crate) stdout: T,
    pub(crate) stderr: T,
}

impl<T> PerStream<T> {
    pub(crate) fn of(&mut self, stream: OutputStream) -> &mut T {
        match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        }
    }
}

/// Whether an entry ends its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineEnd {
    /// `F`.
    Full,
    /// `P`.
    Partial,
}

/// Where the line of an entry began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineBegin {
    /// In the same file.
    SameFile,
    /// In the file before.
    FileBefore,
}

/// Reads one line of a log file, without its `\n`; `None` when it is not in the format (torn by a
/// crash, or not ours).
pub(crate) fn parse(line: &[u8]) -> Option<LogEntry<'_>> {
    let (time, rest) = split_space(line)?;
    let (stream, rest) = split_space(rest)?;
    let stream = match stream {
        b"stdout" => OutputStream::Stdout,
        b"stderr" => OutputStream::Stderr,
        _ => return None,
    };
    // an empty text may come without the space before it
    let (tags, text) = split_space(rest).unwrap_or((rest, &[]));
    let time = std::str::from_utf8(time).ok()?;
    let end = match tags.first()? {
        b'F' => LineEnd::Full,
        b'P' => LineEnd::Partial,
        _ => return None,
    };
    let mut further = tags.split(|byte| *byte == b':').skip(1);
    let goes_on = further.any(|tag| tag == b"C");
    let begin = if goes_on { LineBegin::FileBefore } else { LineBegin::SameFile };
    Some(LogEntry { time, stream, end, begin, text })
}

fn split_space(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|byte| *byte == b' ')?;
    Some((&bytes[..at], &bytes[at + 1..]))
}
