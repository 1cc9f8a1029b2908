//! From the files of one start to the text that a user sees: over rotated files in order, from the
//! line asked for.
//!
//! The writer renames its files while they are read, so that a name says nothing later on: they are
//! opened together and kept open. A writer that fills all its files while one of them is read may
//! have removed others before they were opened. The text says so in a line of its own, and goes on
//! with a whole line.

use std::collections::VecDeque;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

use bytes::Bytes;
use jiff::Timestamp;
use rekindle_types::ContainerAttempt;

use super::files::{OpenLog, is_newest, open_all};
use super::format::{LineBegin, LineEnd, LogEntry, PerStream, parse};
use super::lines::LineFormatter;
use super::tail::{TailStart, start_of_tail};

/// Bytes read from a file at a time.
const READ_BYTES: usize = 64 * 1024;
/// A record longer than this is not one: it is cut, so that a damaged file cannot take memory.
const RECORD_MAX: usize = 1024 * 1024;

/// Stands where the file that was read last is gone, and files after it may be.
const MISSED: &str =
    "[rekindle: lines may be missing here: the log is rotated faster than it is read]";

/// Which part of the log is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogSelection {
    pub(super) timestamps: bool,
    pub(super) tail_lines: Option<u64>,
    pub(super) since: Option<Timestamp>,
    pub(super) limit_bytes: Option<u64>,
}

/// What a read brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LogChunk {
    /// Text to show.
    Data(Bytes),
    /// All that is written so far has been read.
    CaughtUp,
    /// As much as was asked for has been shown.
    LimitReached,
}

/// Reads one start's log.
#[derive(Debug)]
pub(super) struct LogReader {
    folder: PathBuf,
    attempt: ContainerAttempt,
    current: Option<OpenLog>,
    /// Bytes of it that were read, or passed by.
    offset: u64,
    /// Files to be read after the current one, oldest first, looked for at each turn of a file.
    /// While there are some, nothing more is written to the current one.
    later: VecDeque<OpenLog>,
    /// The beginning of a record that is not complete yet.
    rest: Vec<u8>,
    lines: LineFormatter,
    gap: RecordGap,
    /// What the records before say of the line of the next one.
    before: PerStream<LineBefore>,
    /// The next records that belong to lines before the tail.
    before_tail: PerStream<u64>,
    since: Option<Timestamp>,
    /// Bytes that may still be shown.
    left: Option<u64>,
}

/// Whether records are missing before the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordGap {
    None,
    /// Some are, and the reader was not told.
    Untold,
}

/// Whether the line of a stream's next record is shown, when that record goes on with one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LineBefore {
    /// No record of the stream was read yet.
    #[default]
    Unread,
    /// It is: its beginning was read, or the reader begins in its midst on purpose.
    Shown,
    /// It is not, for its beginning was missed.
    PassedBy,
}

impl LogReader {
    /// Stands before the first line asked for.
    pub(super) fn new(
        folder: PathBuf,
        attempt: ContainerAttempt,
        selection: LogSelection,
    ) -> io::Result<Self> {
        let files = open_all(&folder, attempt)?;
        let start = match selection.tail_lines {
            Some(lines) => start_of_tail(&files, lines)?,
            None => TailStart::default(),
        };
        let before = match selection.tail_lines {
            Some(_) => PerStream { stdout: LineBefore::Shown, stderr: LineBefore::Shown },
            None => PerStream::default(),
        };
        let mut later: VecDeque<OpenLog> = files.into_iter().skip(start.file).collect();
        let mut current = later.pop_front(); // none when the container has not begun to write
        if let Some(log) = &mut current {
            log.file.seek(SeekFrom::Start(start.offset))?;
        }
        Ok(Self {
            folder,
            attempt,
            current,
            offset: start.offset,
            later,
            rest: Vec::new(),
            lines: LineFormatter::new(selection.timestamps),
            gap: RecordGap::None,
            before,
            before_tail: start.before,
            since: selection.since,
            left: selection.limit_bytes,
        })
    }

    /// The next piece of text. Blocks on the disk, never on the writer.
    pub(super) fn next_chunk(&mut self) -> io::Result<LogChunk> {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            if self.left == Some(0) {
                return Ok(LogChunk::LimitReached);
            }
            let count = match &mut self.current {
                Some(log) => log.file.read(&mut buffer)?,
                None => 0,
            };
            self.offset += u64::try_from(count).unwrap_or(0);
            if count == 0 {
                if self.go_on()? {
                    continue;
                }
                return Ok(LogChunk::CaughtUp);
            }
            let text = self.take(&buffer[..count]);
            if !text.is_empty() {
                return Ok(LogChunk::Data(Bytes::from(text)));
            }
        }
    }

    /// Whether there are lines without their end that were not shown.
    pub(super) fn keeps_back(&self) -> bool {
        self.lines.keeps_back()
    }

    /// These lines, as far as they have come.
    pub(super) fn open_lines(&mut self) -> Option<Bytes> {
        let mut text = Vec::new();
        self.lines.show_kept(&mut text);
        self.limit(&mut text);
        (!text.is_empty()).then(|| Bytes::from(text))
    }

    /// After all of the current file was read: whether there is more to read now. A file that is
    /// found to follow shows that the current one is complete; what was written to it before it was
    /// rotated is read first.
    fn go_on(&mut self) -> io::Result<bool> {
        if let Some(next) = self.later.pop_front() {
            // what was cut by the end of a file is no record
            self.rest.clear();
            self.current = Some(next);
            self.offset = 0;
            self.look_ahead()?;
            return Ok(true);
        }
        let Some(current) = &mut self.current else {
            self.later = open_all(&self.folder, self.attempt)?.into();
            return Ok(!self.later.is_empty());
        };
        if is_newest(&self.folder, self.attempt, current) {
            // a writer that cannot rotate begins its file anew
            let is_shorter = current.file.metadata()?.len() < self.offset;
            if is_shorter {
                current.file.seek(SeekFrom::Start(0))?;
                self.offset = 0;
                self.miss();
            }
            return Ok(is_shorter);
        }
        let files = open_all(&self.folder, self.attempt)?;
        let is_current = |log: &OpenLog| log.identity == current.identity;
        match files.iter().position(is_current) {
            Some(at) => self.later = files.into_iter().skip(at + 1).collect(),
            // it was removed, and others after it may have been
            None if !files.is_empty() => {
                self.later = files.into();
                self.miss();
            }
            None => {}
        }
        Ok(!self.later.is_empty())
    }

    /// Opens what has been written since the last look, so that it cannot be removed before its
    /// turn.
    fn look_ahead(&mut self) -> io::Result<()> {
        let last = self.later.back().or(self.current.as_ref()).map(|log| log.identity);
        let files = open_all(&self.folder, self.attempt)?;
        if let Some(at) = files.iter().position(|log| Some(log.identity) == last) {
            self.later.extend(files.into_iter().skip(at + 1));
        }
        Ok(())
    }

    /// Records are missing after those that were read.
    fn miss(&mut self) {
        self.rest.clear();
        self.gap = RecordGap::Untold;
        self.before = PerStream::default();
        self.before_tail = PerStream::default();
    }

    /// Takes bytes of the file in and answers the text they show.
    fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut text = Vec::with_capacity(bytes.len());
        let mut from = 0;
        while let Some(end) = bytes[from..].iter().position(|byte| *byte == b'\n') {
            let piece = &bytes[from..from + end];
            from += end + 1;
            if self.rest.is_empty() {
                self.show(piece, &mut text);
            } else {
                let mut record = std::mem::take(&mut self.rest);
                record.extend_from_slice(piece);
                self.show(&record, &mut text);
            }
        }
        let room = RECORD_MAX.saturating_sub(self.rest.len());
        let tail = &bytes[from..];
        self.rest.extend_from_slice(&tail[..tail.len().min(room)]);
        self.limit(&mut text);
        text
    }

    fn limit(&mut self, text: &mut Vec<u8>) {
        let Some(left) = &mut self.left else { return };
        let room = usize::try_from(*left).unwrap_or(usize::MAX);
        text.truncate(room);
        *left -= u64::try_from(text.len()).unwrap_or(0);
    }

    fn show(&mut self, record: &[u8], text: &mut Vec<u8>) {
        let Some(entry) = parse(record) else { return };
        if self.gap == RecordGap::Untold {
            self.gap = RecordGap::None;
            self.lines.cut(text);
            self.lines.note(entry.time, MISSED, text);
        }
        if self.lacks_beginning(&entry) {
            return;
        }
        let before_tail = self.before_tail.of(entry.stream);
        if *before_tail > 0 {
            *before_tail -= 1;
        } else if !self.is_too_early(&entry) {
            self.lines.take(&entry, text);
        }
    }

    /// Whether it goes on with a line whose beginning was missed.
    fn lacks_beginning(&mut self, entry: &LogEntry<'_>) -> bool {
        let before = self.before.of(entry.stream);
        let lacks = match (*before, entry.begin) {
            (LineBefore::PassedBy, _) | (LineBefore::Unread, LineBegin::FileBefore) => true,
            (LineBefore::Unread, LineBegin::SameFile) | (LineBefore::Shown, _) => false,
        };
        *before = match entry.end {
            LineEnd::Partial if lacks => LineBefore::PassedBy,
            LineEnd::Partial | LineEnd::Full => LineBefore::Shown,
        };
        lacks
    }

    /// Times only rise, so that they are read until the first one that is late enough.
    fn is_too_early(&mut self, entry: &LogEntry<'_>) -> bool {
        let Some(since) = self.since else { return false };
        if entry.time.parse::<Timestamp>().is_ok_and(|time| time < since) {
            return true;
        }
        self.since = None;
        false
    }
}

#[cfg(test)]
mod tests;
