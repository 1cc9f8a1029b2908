//! Records put together to lines. What a program writes to stdout and to stderr comes in pieces,
//! those of the one between those of the other; a line is of one of them only.
//!
//! The kubelet shows each piece where it stands, and need not do more: its container runtimes write
//! one when a line ends. The shim writes what comes, so that nothing is lost with it, and so a line
//! is waited for here.

use rekindle_runtime::OutputStream;

use super::format::{LineEnd, LogEntry, PerStream};

/// As much of a line is kept back until it ends; container runtimes cut lines at this length.
const KEPT_MAX: usize = 16 * 1024;

/// Takes records, and writes lines.
#[derive(Debug)]
pub(super) struct LineFormatter {
    has_timestamps: bool,
    kept: PerStream<Option<OpenLine>>,
    /// Whose line the text ends in the midst of.
    inside: Option<OutputStream>,
}

/// A line without its end, or what of it is not shown yet.
#[derive(Debug)]
struct OpenLine {
    /// The time of its first piece, as in the file.
    time: String,
    text: Vec<u8>,
}

impl LineFormatter {
    /// At the beginning of a text. Lines are written as they are.
    pub(super) fn plain() -> Self {
        Self::new(false)
    }

    /// At the beginning of a text, with or without the time before each line.
    pub(super) fn new(has_timestamps: bool) -> Self {
        Self { has_timestamps, kept: PerStream::default(), inside: None }
    }

    /// Takes the next record, and writes the line that it ends, if it does.
    pub(super) fn take(&mut self, entry: &LogEntry<'_>, text: &mut Vec<u8>) {
        let kept = self.kept.of(entry.stream);
        match entry.end {
            LineEnd::Full => {
                let begun = kept.take();
                let time = begun.as_ref().map_or(entry.time, |line| &line.time);
                self.turn_to(entry.stream, time, text);
                text.extend_from_slice(begun.as_ref().map_or(&[], |line| &line.text));
                text.extend_from_slice(entry.text);
                text.push(b'\n');
                self.inside = None;
            }
            LineEnd::Partial => {
                let line = kept.get_or_insert_with(|| OpenLine {
                    time: entry.time.to_owned(),
                    text: Vec::new(),
                });
                line.text.extend_from_slice(entry.text);
                if line.text.len() > KEPT_MAX {
                    self.show_open(entry.stream, text);
                }
            }
        }
    }

    /// Whether there is something that was not shown.
    pub(super) fn keeps_back(&self) -> bool {
        self.kept.stdout.is_some() || self.kept.stderr.is_some()
    }

    /// Writes what was kept back, the line that began first before the other.
    pub(super) fn show_kept(&mut self, text: &mut Vec<u8>) {
        let began = |line: &Option<OpenLine>| line.as_ref().map(|line| line.time.clone());
        let order = if began(&self.kept.stderr) < began(&self.kept.stdout) {
            [OutputStream::Stderr, OutputStream::Stdout]
        } else {
            [OutputStream::Stdout, OutputStream::Stderr]
        };
        for stream in order {
            self.show_open(stream, text);
        }
    }

    /// Records are missing here. What was begun goes on with nothing that comes.
    pub(super) fn cut(&mut self, text: &mut Vec<u8>) {
        self.show_kept(text);
        if self.inside.take().is_some() {
            text.push(b'\n');
        }
    }

    /// Writes a line of the reader's own between two lines of the log.
    pub(super) fn note(&mut self, time: &str, note: &str, text: &mut Vec<u8>) {
        if self.has_timestamps {
            text.extend_from_slice(time.as_bytes());
            text.push(b' ');
        }
        text.extend_from_slice(note.as_bytes());
        text.push(b'\n');
    }

    fn show_open(&mut self, stream: OutputStream, text: &mut Vec<u8>) {
        let Some(line) = self.kept.of(stream).take() else { return };
        self.turn_to(stream, &line.time, text);
        text.extend_from_slice(&line.text);
    }

    /// The text goes on with a line of this stream: the one that it is in the midst of, or another.
    fn turn_to(&mut self, stream: OutputStream, time: &str, text: &mut Vec<u8>) {
        match self.inside {
            Some(inside) if inside == stream => return,
            Some(_) => text.push(b'\n'),
            None => {}
        }
        if self.has_timestamps {
            text.extend_from_slice(time.as_bytes());
            text.push(b' ');
        }
        self.inside = Some(stream);
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::parse;
    use super::*;

    /// The text of these records; what is kept back is shown at each `-`, and at the end.
    fn shown(has_timestamps: bool, records: &[&str]) -> String {
        let mut lines = LineFormatter::new(has_timestamps);
        let mut text = Vec::new();
        for record in records {
            match parse(record.as_bytes()) {
                Some(entry) => lines.take(&entry, &mut text),
                None => lines.show_kept(&mut text),
            }
        }
        lines.show_kept(&mut text);
        assert!(!lines.keeps_back());
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_line_is_of_one_stream_and_has_the_time_of_its_beginning() {
        for (records, plain, stamped) in [
            (
                &["1 stdout P foo", "2 stderr F ERR", "3 stdout F bar"][..],
                "ERR\nfoobar\n",
                "2 ERR\n1 foobar\n",
            ),
            (&["1 stderr P a", "2 stdout P b"], "a\nb", "1 a\n2 b"),
            (&["1 stdout P b", "2 stderr P a"], "b\na", "1 b\n2 a"),
            // what was shown already goes on where it is, unless the other stream has come in
            // between
            (&["1 stdout P foo", "-", "2 stdout F bar"], "foobar\n", "1 foobar\n"),
            (
                &["1 stdout P foo", "-", "2 stderr F ERR", "3 stdout F bar"],
                "foo\nERR\nbar\n",
                "1 foo\n2 ERR\n3 bar\n",
            ),
            (&["1 stdout F ", "2 stdout F x"], "\nx\n", "1 \n2 x\n"),
        ] {
            assert_eq!(shown(false, records), plain, "{records:?}");
            assert_eq!(shown(true, records), stamped, "{records:?}");
        }
    }

    #[test]
    fn a_line_without_end_takes_no_more_memory_than_a_runtime_would() {
        let mut lines = LineFormatter::plain();
        let (mut text, piece) = (Vec::new(), "x".repeat(1000));
        for _ in 0..1000 {
            lines.take(&parse(format!("1 stdout P {piece}").as_bytes()).unwrap(), &mut text);
            let kept = lines.kept.stdout.as_ref().map_or(0, |line| line.text.len());
            assert!(kept <= KEPT_MAX);
        }
        lines.show_kept(&mut text);
        assert_eq!(text, "x".repeat(1_000_000).into_bytes());
    }
}
