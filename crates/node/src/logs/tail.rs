//! Finding the end of a log without reading all of it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::files::{OpenLog, open};
use super::format::{LineEnd, parse};

/// How much of the file is looked at for each byte of text: a line may come in many parts.
const OVERHEAD: usize = 8;
/// Bytes of time, stream and tag before each line's text.
const HEADER: usize = 64;
/// Bytes read at a time while looking backwards.
const BLOCK: u64 = 256 * 1024;

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
    let mut text = Vec::new();
    for entry in raw.split(|byte| *byte == b'\n').filter_map(parse) {
        text.extend_from_slice(entry.text);
        if entry.end == LineEnd::Full {
            text.push(b'\n');
        }
    }
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

/// Where in `files` (oldest first) the last `lines` lines begin: index of the file, and offset in it.
pub(super) fn start_of_tail(files: &[OpenLog], lines: u64) -> io::Result<(usize, u64)> {
    if lines == 0 {
        return end_of(files);
    }
    let mut count = LineCount { wanted: lines, seen: 0, newest: true };
    for (index, log) in files.iter().enumerate().rev() {
        if let Some(offset) = scan_back(&log.file, &mut count)? {
            return Ok((index, offset));
        }
    }
    Ok((0, 0))
}

/// Behind everything that is written.
fn end_of(files: &[OpenLog]) -> io::Result<(usize, u64)> {
    match files.last() {
        Some(newest) => Ok((files.len() - 1, newest.file.metadata()?.len())),
        None => Ok((0, 0)),
    }
}

/// Ends of lines seen while going backwards.
struct LineCount {
    wanted: u64,
    seen: u64,
    /// Nothing was seen yet: a last line without its end counts as one.
    newest: bool,
}

impl LineCount {
    /// Takes the record before the ones seen; true when it belongs to the line before the wanted ones.
    fn is_enough(&mut self, record: &[u8]) -> bool {
        let Some(entry) = parse(record) else { return false };
        match entry.end {
            LineEnd::Full => self.seen += 1,
            LineEnd::Partial if self.newest => self.seen += 1,
            LineEnd::Partial => {}
        }
        self.newest = false;
        entry.end == LineEnd::Full && self.seen > self.wanted
    }
}

/// Goes backwards through one file; answers the offset behind the first record that is too much.
fn scan_back(file: &File, count: &mut LineCount) -> io::Result<Option<u64>> {
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
            if count.is_enough(record) {
                return Ok(Some(start + u64::try_from(until).unwrap_or(0)));
            }
            until = newline + 1;
        }
        carry = block[..until].to_vec();
        end = start;
    }
    let first = carry.strip_suffix(b"\n").unwrap_or(&carry);
    if count.is_enough(first) {
        return Ok(Some(u64::try_from(carry.len()).unwrap_or(0)));
    }
    Ok(None)
}

fn read_at(file: &File, start: u64, end: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(end - start).unwrap_or(0)];
    file.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}
