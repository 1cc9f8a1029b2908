//! A reader beside a writer that rotates its files as the shim does: `f` → `f.1` → `f.2`, the
//! oldest goes.

use std::fs;
use std::io::Write;

use super::*;
use crate::testing::TestFolder;

struct Writer {
    folder: TestFolder,
}

impl Writer {
    fn new() -> Self {
        Self { folder: TestFolder::new() }
    }

    fn write(&self, line: &str) {
        self.write_record("F", line);
    }

    fn write_record(&self, tags: &str, text: &str) {
        let path = self.folder.join("0.log");
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        writeln!(file, "2025-10-09T08:53:20.000000000Z stdout {tags} {text}").unwrap();
    }

    /// Keeps three files.
    fn rotate(&self) {
        for (from, to) in [("0.log.1", "0.log.2"), ("0.log", "0.log.1")] {
            let _absent = fs::rename(self.folder.join(from), self.folder.join(to));
        }
        fs::write(self.folder.join("0.log"), "").unwrap();
    }

    fn reader(&self, tail_lines: Option<u64>) -> LogReader {
        let selection =
            LogSelection { timestamps: false, tail_lines, since: None, limit_bytes: None };
        LogReader::new(self.folder.join(""), ContainerAttempt(0), selection).unwrap()
    }
}

/// The next text, which is one file's here; empty when all is read.
fn next(reader: &mut LogReader) -> String {
    match reader.next_chunk().unwrap() {
        LogChunk::Data(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        LogChunk::CaughtUp | LogChunk::LimitReached => String::new(),
    }
}

fn rest(reader: &mut LogReader) -> String {
    let texts = std::iter::repeat_with(|| next(reader));
    texts.take_while(|text| !text.is_empty()).collect()
}

/// Three files with a line each.
fn backlog() -> Writer {
    let writer = Writer::new();
    writer.write("a");
    writer.rotate();
    writer.write("b");
    writer.rotate();
    writer.write("c");
    writer
}

#[test]
fn a_rotation_in_the_midst_of_a_backlog_leaves_nothing_out() {
    let writer = backlog();
    let mut reader = writer.reader(None);
    assert_eq!(next(&mut reader), "a\n");
    writer.rotate();
    writer.write("d");
    assert_eq!(rest(&mut reader), "b\nc\nd\n");
}

#[test]
fn files_that_are_gone_before_their_turn_are_read_all_the_same() {
    let writer = backlog();
    let mut reader = writer.reader(None);
    for line in ["d", "e"] {
        writer.rotate();
        writer.write(line);
    }
    assert_eq!(rest(&mut reader), "a\nb\nc\nd\ne\n");
}

#[test]
fn a_reader_that_is_slow_loses_nothing_while_it_keeps_as_many_files_behind_as_there_are() {
    let writer = backlog();
    let mut reader = writer.reader(None);
    assert_eq!(next(&mut reader), "a\n");
    for line in ["d", "e"] {
        writer.rotate();
        writer.write(line);
    }
    // the turn of the next file shows what came since
    assert_eq!(next(&mut reader), "b\n");
    for line in ["f", "g"] {
        writer.rotate();
        writer.write(line);
    }
    assert_eq!(rest(&mut reader), "c\nd\ne\nf\ng\n");
}

#[test]
fn what_was_written_between_the_last_read_and_the_rotation_is_read() {
    let writer = backlog();
    let mut reader = writer.reader(None);
    assert_eq!(rest(&mut reader), "a\nb\nc\n");
    // a read has brought nothing, and now the writer goes on
    writer.write("late");
    writer.rotate();
    writer.write("d");
    assert!(reader.go_on().unwrap());
    assert_eq!(rest(&mut reader), "late\nd\n");
    assert!(!reader.go_on().unwrap());
}

#[test]
fn the_tail_begins_in_the_file_that_it_was_looked_for_in() {
    let writer = backlog();
    let mut reader = writer.reader(Some(2));
    writer.rotate();
    writer.write("d");
    assert_eq!(rest(&mut reader), "b\nc\nd\n");
}

#[test]
fn a_log_that_does_not_exist_yet_is_read_when_it_comes() {
    let writer = Writer::new();
    let mut reader = writer.reader(None);
    assert_eq!(rest(&mut reader), "");
    writer.write("a");
    assert_eq!(rest(&mut reader), "a\n");
}

#[test]
fn who_reads_the_newest_file_looks_at_no_other() {
    let writer = Writer::new();
    writer.write("a");
    let mut reader = writer.reader(None);
    assert_eq!(rest(&mut reader), "a\n");
    std::os::unix::fs::symlink("0.log", writer.folder.join("0.log.1")).unwrap();
    assert!(!reader.go_on().unwrap(), "the link would be refused");
}

const NOTE: &str =
    "[rekindle: lines may be missing here: the log is rotated faster than it is read]\n";

/// Lets the writer go on until nothing is left of what the reader has read.
fn outrun(writer: &Writer) {
    for _ in 0..3 {
        writer.rotate();
        writer.write("unread");
    }
    writer.rotate();
}

#[test]
fn who_is_outrun_says_so_and_goes_on_with_a_whole_line() {
    let writer = Writer::new();
    writer.write("a");
    writer.write_record("P", "begin of b");
    let mut reader = writer.reader(None);
    assert_eq!(next(&mut reader), "a\n");
    writer.rotate();
    writer.rotate();
    writer.rotate();
    writer.write_record("P:C", "midst of another, ");
    writer.write_record("P", "more of it, ");
    writer.write_record("F", "its end");
    writer.write("z");
    assert_eq!(rest(&mut reader), format!("begin of b\n{NOTE}z\n"));
}

#[test]
fn who_was_shown_half_a_line_before_the_gap_sees_it_end_there() {
    let writer = Writer::new();
    writer.write_record("P", "half");
    let mut reader = writer.reader(None);
    assert_eq!(rest(&mut reader), "");
    assert_eq!(reader.open_lines().unwrap(), "half");
    outrun(&writer);
    writer.write("z");
    assert_eq!(rest(&mut reader), format!("\n{NOTE}unread\nunread\nz\n"));
}

#[test]
fn a_line_over_two_files_is_one_when_both_are_read() {
    let writer = Writer::new();
    writer.write_record("P", "one ");
    writer.rotate();
    writer.write_record("P:C", "li");
    writer.write_record("F", "ne");
    assert_eq!(rest(&mut writer.reader(None)), "one line\n");
    assert_eq!(rest(&mut writer.reader(Some(1))), "one line\n");
    fs::remove_file(writer.folder.join("0.log.1")).unwrap();
    writer.write("next");
    assert_eq!(rest(&mut writer.reader(None)), "next\n", "its beginning was rotated away");
}

#[test]
fn a_file_that_its_writer_began_anew_is_read_from_its_beginning() {
    let writer = Writer::new();
    writer.write("a line that is long");
    let mut reader = writer.reader(None);
    assert_eq!(rest(&mut reader), "a line that is long\n");
    fs::write(writer.folder.join("0.log"), "").unwrap();
    writer.write("b");
    assert_eq!(rest(&mut reader), format!("{NOTE}b\n"));
}
