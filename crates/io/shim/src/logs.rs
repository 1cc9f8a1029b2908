//! The log files of a container, in the format of `log_records`.
//!
//! Files are rotated by size: `f` → `f.1` → `f.2` …; only the shim writes them. The last eighth of
//! a file is room for the end of a line: from there on a file is left as soon as both streams stand
//! between two lines. A file never grows beyond its limit.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::time::Timespec;

use crate::log_records::{LogRecords, OutputStream};
use crate::paths::{self, LinkPolicy};
use crate::problem::FailureContext;
use crate::protocol::{LogPlan, ShimFailure};
use crate::sandbox::ShimSandbox;
use crate::timestamp;

/// Bytes taken from a pipe at a time.
pub(crate) const READ_BYTES: usize = 8 * 1024;

/// Bytes that a record has beside its text, the tag of one that goes on with a line included.
const RECORD_OVERHEAD: usize = "2016-10-06T00:17:09.669794202Z stdout F:C \n".len();

/// Reads from one pipe before the other containers get their turn.
const READS_PER_TURN: u32 = 16;

/// Whether a pipe has more to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PipeState {
    Open,
    Ended,
}

/// One container's log.
pub(crate) struct ContainerLog {
    dir: OwnedFd,
    plan: LogPlan,
    file: OwnedFd,
    bytes: u64,
    records: LogRecords,
    lost_bytes: u64,
    /// Who else gets the output.
    pub(crate) copies: Vec<LogCopy>,
}

/// Somebody who gets a copy of one stream.
pub(crate) struct LogCopy {
    pub(crate) stream: OutputStream,
    /// Not blocking.
    pub(crate) to: OwnedFd,
}

impl ContainerLog {
    /// Opens the file for appending. A link, or anything that is not a regular file with one name,
    /// is refused: whoever put it there wants to write, or have read, another file.
    pub(crate) fn open(sandbox: &ShimSandbox, plan: &LogPlan) -> Result<Self, ShimFailure> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let path = Path::new(&plan.dir);
        let dir = paths::open(sandbox.host_root.as_fd(), path, flags, LinkPolicy::InRoot)
            .setup(|| format!("open the log folder {}", plan.dir))?;
        let (file, bytes) = open_file(&dir, &plan.file)
            .setup(|| format!("open the log file {}/{}", plan.dir, plan.file))?;
        let records = LogRecords::default();
        let (plan, copies) = (plan.clone(), Vec::new());
        Ok(Self { dir, plan, file, bytes, records, lost_bytes: 0, copies })
    }

    /// Takes what a pipe holds, within bounds.
    pub(crate) fn pump(&mut self, pipe: &OwnedFd, stream: OutputStream) -> PipeState {
        for _ in 0..READS_PER_TURN {
            if let Some(state) = self.pump_once(pipe, stream) {
                return state;
            }
        }
        PipeState::Open
    }

    /// Takes all that a pipe holds whose writers are gone.
    pub(crate) fn drain(&mut self, pipe: &OwnedFd, stream: OutputStream) {
        while self.pump_once(pipe, stream).is_none() {}
    }

    /// `None`: there may be more right now.
    fn pump_once(&mut self, pipe: &OwnedFd, stream: OutputStream) -> Option<PipeState> {
        let mut buffer = [0u8; READ_BYTES];
        match rustix::io::read(pipe, &mut buffer) {
            Ok(0) => Some(PipeState::Ended),
            Ok(count) => {
                self.append(stream, &buffer[..count]);
                self.copy(stream, &buffer[..count]);
                None
            }
            Err(Errno::INTR) => None,
            Err(Errno::AGAIN) => Some(PipeState::Open),
            Err(_) => Some(PipeState::Ended),
        }
    }

    /// Whoever does not read in time, or is gone, gets no more: a container does not wait for those
    /// who look at it.
    fn copy(&mut self, stream: OutputStream, piece: &[u8]) {
        self.copies.retain(|copy| {
            copy.stream != stream
                || matches!(rustix::io::write(&copy.to, piece), Ok(count) if count == piece.len())
        });
    }

    fn append(&mut self, stream: OutputStream, piece: &[u8]) {
        let time = timestamp::now();
        let mut piece = piece;
        if self.is_full_with(piece, self.plan.max_bytes - self.plan.max_bytes / 8) {
            let end = self.records.rest_of_line(stream, piece);
            if end < piece.len() && !self.is_full_with(&piece[..end], self.plan.max_bytes) {
                self.write(time, stream, &piece[..end]);
                piece = &piece[end..];
            }
            if self.records.are_whole() || self.is_full_with(piece, self.plan.max_bytes) {
                self.rotate();
            }
        }
        self.write(time, stream, piece);
    }

    /// True when this much output would make a file that is not empty larger than that.
    fn is_full_with(&self, piece: &[u8], max_bytes: u64) -> bool {
        let records = piece.split_inclusive(|byte| *byte == b'\n').count();
        let bytes = piece.len() + records * RECORD_OVERHEAD;
        self.bytes > 0 && self.bytes + bytes as u64 > max_bytes
    }

    /// A full disk loses output, not the container: its pipe is emptied all the same.
    fn write(&mut self, time: Timespec, stream: OutputStream, piece: &[u8]) {
        let before = self.records.clone();
        let mut out = Vec::with_capacity(piece.len() + 256);
        self.lost_bytes += self.records.write(time, stream, piece, &mut out) as u64;
        let mut rest = out.as_slice();
        while !rest.is_empty() {
            match rustix::io::write(&self.file, rest) {
                Ok(count) => rest = &rest[count..],
                Err(Errno::INTR) => {}
                Err(_) => {
                    // a torn record would have the next one at its end
                    let _ = rustix::fs::ftruncate(&self.file, self.bytes);
                    self.lost_bytes += out.len() as u64;
                    self.records = before;
                    self.records.lose(stream, piece);
                    return;
                }
            }
        }
        self.bytes += out.len() as u64;
    }

    /// On any failure it goes on with the file it has; but never beyond its limit: then it starts
    /// over.
    fn rotate(&mut self) {
        let name = |n: u32| match n {
            0 => self.plan.file.clone(),
            n => format!("{}.{n}", self.plan.file),
        };
        let last = self.plan.max_files.max(1) - 1;
        let mut moved = Ok(());
        for n in (0..last).rev() {
            match rustix::fs::renameat(&self.dir, name(n), &self.dir, name(n + 1)) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => moved = Err(errno),
            }
        }
        if last == 0 {
            moved = rustix::fs::unlinkat(&self.dir, name(0), AtFlags::empty());
        }
        match moved.and_then(|()| open_file(&self.dir, &self.plan.file)) {
            Ok((file, bytes)) => (self.file, self.bytes) = (file, bytes),
            Err(_) => match rustix::fs::ftruncate(&self.file, 0) {
                Ok(()) => self.bytes = 0,
                Err(_) => {
                    self.bytes = self.plan.max_bytes;
                    return;
                }
            },
        }
        self.records.begin_file();
    }

    /// Bytes that could not be written.
    pub(crate) fn lost_bytes(&self) -> u64 {
        self.lost_bytes
    }
}

fn open_file(dir: &OwnedFd, name: &str) -> Result<(OwnedFd, u64), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::NOFOLLOW;
    let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(0o640))?;
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_nlink != 1 {
        return Err(Errno::LOOP);
    }
    Ok((file, u64::try_from(stat.st_size).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn plan(dir: &Path, max_bytes: u64, max_files: u32) -> LogPlan {
        let dir = dir.canonicalize().unwrap().to_str().unwrap().to_owned();
        LogPlan { dir, file: "0.log".to_owned(), max_bytes, max_files }
    }

    /// The texts of the records, joined as `kubectl logs` joins them.
    fn joined(log: &str) -> String {
        log.lines()
            .map(|line| {
                let mut fields = line.splitn(4, ' ').skip(2);
                let tag = fields.next().unwrap();
                let text = fields.next().unwrap();
                if tag.starts_with('F') { format!("{text}\n") } else { text.to_owned() }
            })
            .collect()
    }

    #[test]
    fn files_are_rotated_and_the_oldest_goes() {
        let dir = tempfile::tempdir().unwrap();
        let mut log =
            ContainerLog::open(&ShimSandbox::of_no_pod(), &plan(dir.path(), 200, 3)).unwrap();
        for n in 0..40 {
            log.append(OutputStream::Stdout, format!("line {n}\n").as_bytes());
        }
        let mut names: Vec<String> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["0.log", "0.log.1", "0.log.2"]);
        let newest = fs::read_to_string(dir.path().join("0.log")).unwrap();
        let before = fs::read_to_string(dir.path().join("0.log.1")).unwrap();
        assert!(joined(&newest).ends_with("line 39\n"));
        assert!(newest.len() <= 200 && before.len() <= 200);
        let both = joined(&before) + &joined(&newest);
        let first: usize = both.lines().next().unwrap()[5..].parse().unwrap();
        let expected: String = (first..40).map(|n| format!("line {n}\n")).collect();
        assert_eq!(both, expected, "nothing is missing in between");
    }

    fn log_of(dir: &Path, max_bytes: u64) -> ContainerLog {
        ContainerLog::open(&ShimSandbox::of_no_pod(), &plan(dir, max_bytes, 5)).unwrap()
    }

    /// The records of each file without their times, oldest first.
    fn files(dir: &Path) -> Vec<Vec<String>> {
        let mut names: Vec<_> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        names.reverse();
        let records = names.iter().map(|name| {
            let text = fs::read_to_string(name).unwrap();
            text.lines().map(|line| line[31..].to_owned()).collect()
        });
        records.collect()
    }

    #[test]
    fn a_file_begins_with_a_whole_line_though_output_comes_in_halves() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = log_of(dir.path(), 2000);
        for n in 0..60 {
            log.append(
                OutputStream::Stdout,
                format!("end of {n}\nbegin of {}, ", n + 1).as_bytes(),
            );
        }
        let files = files(dir.path());
        assert_eq!(files.len(), 4);
        for file in &files[1..] {
            assert!(file[0].starts_with("stdout P begin of "), "{file:?}");
        }
        let sizes = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().metadata().unwrap().len());
        assert!(sizes.into_iter().all(|size| size <= 2000));
    }

    #[test]
    fn a_line_that_no_file_has_room_for_is_marked_where_it_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = log_of(dir.path(), 200);
        log.append(OutputStream::Stderr, b"? ");
        for _ in 0..3 {
            log.append(OutputStream::Stdout, "x".repeat(100).as_bytes());
        }
        log.append(OutputStream::Stdout, b"end\nnext\n");
        log.append(OutputStream::Stderr, b"yes\n");
        let x = "x".repeat(100);
        assert_eq!(
            files(dir.path()),
            [
                vec!["stderr P ? ".to_owned(), format!("stdout P {x}")],
                vec![format!("stdout P:C {x}")],
                vec![format!("stdout P:C {x}"), "stdout F end".to_owned()],
                vec!["stdout F next".to_owned(), "stderr F:C yes".to_owned()],
            ]
        );
    }

    #[test]
    fn a_link_in_place_of_the_log_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        fs::write(&target, "untouched").unwrap();
        symlink(&target, dir.path().join("0.log")).unwrap();
        let refused =
            ContainerLog::open(&ShimSandbox::of_no_pod(), &plan(dir.path(), 200, 2)).map(drop);
        assert!(refused.is_err());
        fs::remove_file(dir.path().join("0.log")).unwrap();
        fs::hard_link(&target, dir.path().join("0.log")).unwrap();
        assert!(ContainerLog::open(&ShimSandbox::of_no_pod(), &plan(dir.path(), 200, 2)).is_err());
        assert_eq!(fs::read_to_string(&target).unwrap(), "untouched");
    }

    #[test]
    fn a_log_of_a_single_file_starts_over_at_its_limit() {
        let dir = tempfile::tempdir().unwrap();
        let mut log =
            ContainerLog::open(&ShimSandbox::of_no_pod(), &plan(dir.path(), 200, 1)).unwrap();
        for n in 0..100 {
            log.append(OutputStream::Stderr, format!("line {n}\n").as_bytes());
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(fs::metadata(dir.path().join("0.log")).unwrap().len() <= 200);
    }
}
