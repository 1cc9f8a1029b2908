//! Finding the end of a log without reading all of it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::files::{OpenLog, open};
use super::format::{LineEnd, LogEntry, PerStream, parse};
use super::lines::LineFormatter;

/// How much of the file is looked at for each byte of text: a line may come in many parts.
const OVERHEAD: usize = 8;
/// Bytes of time, stream and tag before each line's text.
const HEADER: usize = 64;
/// Bytes read at a time while looking backwards.
const BLOCK: u64 = 256 * 1024;
/// How far before the last lines the beginning of one of them is looked for, in bytes.
const BEGINNING_MAX: usize = 256 * 1024;

/// The last `lines` lines of text, at most `bytes` bytes; empty when there is no such log.
pub fn last_lines(log: &Path, lines: usize, bytes: usize) -> String {
    last_text(log, lines, bytes).unwrap_or_default()
}

fn last_text(log: &Path, lines: usize, bytes: usize) -> io::Result<String> {
    let file = open(log)?.file;
    let len = file.metadata()?.len();
    let window = bytes.saturating_mul(OVERHEAD).saturating_add(lines.saturating_mul(HEADER));
    let window = u64::try_from(window).unwrap_or(u64::MAX).min(len);
    let raw = read_at(&file, len - window, len)?;
    Ok(text_of(&raw, lines, bytes))
}

fn text_of(raw: &[u8], lines: usize, bytes: usize) -> String {
    let (mut text, mut shown) = (Vec::new(), LineFormatter::plain());
    for entry in raw.split(|byte| *byte == b'\n').filter_map(parse) {
        shown.take(&entry, &mut text);
    }
    shown.show_kept(&mut text);
    let from_lines = nth_last_line(&text, lines);
    let from_bytes = text.len().saturating_sub(bytes);
    String::from_utf8_lossy(&text[from_lines.max(from_bytes)..]).into_owned()
}

/// Where the last `lines` lines begin.
fn nth_last_line(text: &[u8], lines: usize) -> usize {
    let without_end = text.strip_suffix(b"\n").unwrap_or(text);
    let mut ends = without_end.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    ends.nth(lines.saturating_sub(1)).map_or(0, |(at, _)| at + 1)
}

/// Where the last lines begin in files of which the oldest is the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TailStart {
    /// The index of the file.
    pub(super) file: usize,
    /// Where in it.
    pub(super) offset: u64,
    /// How many records from there on belong to lines before these: of one stream, when a line of
    /// the other began among them.
    pub(super) before: PerStream<u64>,
}

/// Where in `files` (oldest first) the last `lines` lines begin.
pub(super) fn start_of_tail(files: &[OpenLog], lines: u64) -> io::Result<TailStart> {
    if lines == 0 {
        return end_of(files);
    }
    let mut scan = TailScan::new(lines);
    for (index, log) in files.iter().enumerate().rev() {
        if scan_back(&log.file, index, &mut scan)? == TailSearch::Over {
            break;
        }
    }
    Ok(scan.start)
}

/// Behind everything that is written.
fn end_of(files: &[OpenLog]) -> io::Result<TailStart> {
    match files.last() {
        Some(newest) => Ok(TailStart {
            file: files.len() - 1,
            offset: newest.file.metadata()?.len(),
            before: PerStream::default(),
        }),
        None => Ok(TailStart::default()),
    }
}

/// What is known of a stream while going backwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum StreamTail {
    /// No record of it.
    #[default]
    Nothing,
    /// The last was of a wanted line, which may have begun before.
    Wanted,
    /// The last was of a line before the wanted ones.
    Before,
}

/// Whether there is more to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TailSearch {
    GoesOn,
    Over,
}

/// The wanted lines, as far as they were found while going backwards.
struct TailScan {
    wanted: u64,
    found: u64,
    streams: PerStream<StreamTail>,
    /// Of the earliest record of a wanted line.
    start: TailStart,
    /// Records of lines before the wanted ones.
    before: PerStream<u64>,
    /// Bytes looked at since all wanted lines were found.
    beyond: usize,
}

impl TailScan {
    fn new(wanted: u64) -> Self {
        Self {
            wanted,
            found: 0,
            streams: PerStream::default(),
            start: TailStart::default(),
            before: PerStream::default(),
            beyond: 0,
        }
    }

    /// Takes the record before those seen, which stands there.
    fn take(&mut self, record: &[u8], file: usize, offset: u64) -> TailSearch {
        if let Some(entry) = parse(record) {
            self.take_entry(&entry, file, offset);
        }
        if self.found < self.wanted {
            return TailSearch::GoesOn;
        }
        self.beyond += record.len();
        let PerStream { stdout, stderr } = self.streams;
        let may_begin_before = stdout == StreamTail::Wanted || stderr == StreamTail::Wanted;
        if may_begin_before && self.beyond <= BEGINNING_MAX {
            TailSearch::GoesOn
        } else {
            TailSearch::Over
        }
    }

    fn take_entry(&mut self, entry: &LogEntry<'_>, file: usize, offset: u64) {
        let seen = self.streams.of(entry.stream);
        // a last line without its end counts as one
        let ends_line = entry.end == LineEnd::Full || *seen == StreamTail::Nothing;
        if ends_line {
            *seen = if self.found < self.wanted { StreamTail::Wanted } else { StreamTail::Before };
        }
        if *seen == StreamTail::Wanted {
            self.found += u64::from(ends_line);
            self.start = TailStart { file, offset, before: self.before };
        } else {
            *self.before.of(entry.stream) += 1;
        }
    }
}

/// Goes backwards through one file, the one of this index.
fn scan_back(file: &File, index: usize, scan: &mut TailScan) -> io::Result<TailSearch> {
    let mut end = file.metadata()?.len();
    // the beginning of a record whose start is in the block before
    let mut carry: Vec<u8> = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        let mut block = read_at(file, start, end)?;
        block.append(&mut carry);
        let mut until = block.len();
        // a record ends with its newline: look for the one before it
        loop {
            let body = &block[..until.saturating_sub(1)];
            let Some(newline) = body.iter().rposition(|byte| *byte == b'\n') else { break };
            let record =
                block[newline + 1..until].strip_suffix(b"\n").unwrap_or(&block[newline + 1..until]);
            let offset = start + u64::try_from(newline + 1).unwrap_or(0);
            if scan.take(record, index, offset) == TailSearch::Over {
                return Ok(TailSearch::Over);
            }
            until = newline + 1;
        }
        carry = block[..until].to_vec();
        end = start;
    }
    let first = carry.strip_suffix(b"\n").unwrap_or(&carry);
    Ok(scan.take(first, index, 0))
}

fn read_at(file: &File, start: u64, end: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(end - start).unwrap_or(0)];
    file.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}
