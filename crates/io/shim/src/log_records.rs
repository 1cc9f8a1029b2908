//! Output as CRI records: `<time> <stdout|stderr> <tags> <text>`. Pure: bytes in, bytes out.
//!
//! The first tag is P for a piece of a line that goes on, F for its end. Output is written as it
//! comes: a piece without a newline becomes a P record at once, so that nothing is held back and no
//! line, however long, takes memory.
//!
//! A file begins with a whole line wherever that is possible. Where it is not, because a line is
//! longer than there is room for, the first record of the new file has the further tag
//! [`CONTINUED`]: who has not read the file before it knows that it holds the rest of a line. The
//! format allows further tags behind a colon (`pkg/kubelet/kuberuntime/logs`: `LogTagDelimiter`).

use rustix::time::Timespec;

use crate::timestamp;

/// Where a piece of output came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// Output.
    Stdout,
    /// Error output.
    Stderr,
}

/// The tag of a record that goes on with a line of the file before.
const CONTINUED: &[u8] = b":C";

/// How the last line of each stream stands in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogRecords {
    stdout: StreamRecords,
    stderr: StreamRecords,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct StreamRecords {
    last_line: LastLine,
    loss: OutputLoss,
}

/// What of a stream's last line is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LastLine {
    /// All of it.
    #[default]
    Whole,
    /// Its beginning, in this file.
    Open,
    /// Its beginning, in a file before.
    OpenBefore,
}

/// What of a stream's output could not be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum OutputLoss {
    #[default]
    Nothing,
    /// All up to the end of a line.
    WholeLines,
    /// All up to the midst of a line, whose rest is of no use.
    PartOfLine,
}

impl LogRecords {
    /// True when both streams stand between two lines.
    pub(crate) fn are_whole(&self) -> bool {
        let whole = LastLine::Whole;
        self.stdout.last_line == whole && self.stderr.last_line == whole
    }

    /// How much of a piece of output ends the line that its stream is in; nothing when it is in
    /// none, all when the piece does not end it.
    pub(crate) fn rest_of_line(&self, stream: OutputStream, piece: &[u8]) -> usize {
        let records = match stream {
            OutputStream::Stdout => &self.stdout,
            OutputStream::Stderr => &self.stderr,
        };
        match records.last_line {
            LastLine::Whole => 0,
            LastLine::Open | LastLine::OpenBefore => line_length(piece),
        }
    }

    /// Another file is written from now on.
    pub(crate) fn begin_file(&mut self) {
        for records in [&mut self.stdout, &mut self.stderr] {
            if records.last_line == LastLine::Open {
                records.last_line = LastLine::OpenBefore;
            }
        }
    }

    /// The file does not hold the records of this piece: it is lost.
    pub(crate) fn lose(&mut self, stream: OutputStream, piece: &[u8]) {
        let records = self.of(stream);
        if !piece.is_empty() {
            records.loss = match piece.ends_with(b"\n") {
                true => OutputLoss::WholeLines,
                false => OutputLoss::PartOfLine,
            };
        }
    }

    /// Appends the records of a piece of output to `out`. Answers how many bytes of it are dropped,
    /// because they end a line whose beginning was lost.
    pub(crate) fn write(
        &mut self,
        time: Timespec,
        stream: OutputStream,
        piece: &[u8],
        out: &mut Vec<u8>,
    ) -> usize {
        let records = self.of(stream);
        let dropped = match records.loss {
            OutputLoss::Nothing | OutputLoss::WholeLines => 0,
            OutputLoss::PartOfLine => line_length(piece),
        };
        let (rest, mut piece) = piece.split_at(dropped);
        if records.loss == OutputLoss::PartOfLine && !rest.ends_with(b"\n") {
            return dropped;
        }
        if records.loss != OutputLoss::Nothing && records.last_line != LastLine::Whole {
            records.write_one(time, stream, b"\n", out);
        }
        records.loss = OutputLoss::Nothing;
        while !piece.is_empty() {
            let (record, rest) = piece.split_at(line_length(piece));
            records.write_one(time, stream, record, out);
            piece = rest;
        }
        dropped
    }

    fn of(&mut self, stream: OutputStream) -> &mut StreamRecords {
        match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        }
    }
}

impl StreamRecords {
    /// One record, with the newline of the line that it ends, if it does.
    fn write_one(
        &mut self,
        time: Timespec,
        stream: OutputStream,
        record: &[u8],
        out: &mut Vec<u8>,
    ) {
        timestamp::write_rfc3339(time, out);
        out.extend_from_slice(match stream {
            OutputStream::Stdout => b" stdout ",
            OutputStream::Stderr => b" stderr ",
        });
        let text = record.strip_suffix(b"\n");
        out.push(if text.is_some() { b'F' } else { b'P' });
        if self.last_line == LastLine::OpenBefore {
            out.extend_from_slice(CONTINUED);
        }
        out.push(b' ');
        out.extend_from_slice(text.unwrap_or(record));
        out.push(b'\n');
        self.last_line = if text.is_some() { LastLine::Whole } else { LastLine::Open };
    }
}

/// Up to the first newline, which counts; all where there is none.
fn line_length(piece: &[u8]) -> usize {
    piece.iter().position(|byte| *byte == b'\n').map_or(piece.len(), |end| end + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The tags and texts of the records of stdout that these pieces become: `|` begins another
    /// file, `!` before a piece has it lost.
    fn records(pieces: &[&str]) -> Vec<String> {
        let mut records = LogRecords::default();
        let mut out = Vec::new();
        for piece in pieces {
            match piece.strip_prefix('!') {
                Some(lost) => records.lose(OutputStream::Stdout, lost.as_bytes()),
                None if *piece == "|" => records.begin_file(),
                None => {
                    records.write(
                        timestamp::now(),
                        OutputStream::Stdout,
                        piece.as_bytes(),
                        &mut out,
                    );
                }
            }
        }
        let log = String::from_utf8(out).unwrap();
        log.lines().map(|line| line.splitn(3, ' ').nth(2).unwrap().to_owned()).collect()
    }

    #[test]
    fn what_cannot_be_written_leaves_no_halves_that_look_like_one_line() {
        for (pieces, expected) in [
            (&["ab", "c\nd\n"][..], &["P ab", "F c", "F d"][..]),
            (&["ab", "|", "c", "d\n", "e\n"], &["P ab", "P:C c", "F d", "F e"][..]),
            (&["a\n", "|", "b\n"], &["F a", "F b"]),
            (&["ab", "!cd\n", "ef\n"], &["P ab", "F ", "F ef"]),
            (&["ab", "!cd", "ef", "g\nhi\n"], &["P ab", "F ", "F hi"]),
            (&["!cd", "ef\ngh\n"], &["F gh"]),
            (&["ab", "|", "!cd\n", "e\n"], &["P ab", "F:C ", "F e"]),
        ] {
            assert_eq!(records(pieces), expected, "{pieces:?}");
        }
    }

    proptest! {
        #[test]
        fn the_output_can_be_put_together_again(
            pieces in proptest::collection::vec("[a-z \n]{1,30}", 0..20),
        ) {
            let texts = records(&pieces.iter().map(String::as_str).collect::<Vec<_>>());
            let joined: String = texts.iter().map(|record| {
                let (tag, text) = record.split_once(' ').unwrap();
                if tag == "F" { format!("{text}\n") } else { text.to_owned() }
            }).collect();
            prop_assert_eq!(joined, pieces.concat());
        }
    }
}
