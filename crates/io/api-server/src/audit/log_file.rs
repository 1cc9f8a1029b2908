//! The log's file: it is renamed to `name-TIME.ext` when it is full, and old ones are removed.
//!
//! Source: upstream's rotation, which is that of the library lumberjack.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::RotationLimits;
use crate::pki::folder_of;

/// The time of a rotation in a file's name, in UTC.
const NAME_TIME: &str = "%Y-%m-%dT%H-%M-%S%.3f";

/// The file that is written.
pub(super) struct LogFile {
    path: PathBuf,
    limits: RotationLimits,
    /// None after a failure: the next write opens it again.
    open: Option<File>,
    /// Whether it could not be renamed when it was full: that is said once.
    is_growing: bool,
}

impl LogFile {
    /// Opens the file, and makes it and its folder if they are not there. Others cannot read them.
    pub(super) fn open(path: PathBuf, limits: RotationLimits, now: Timestamp) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder_of(&path))?;
        let open = Some(open_to_append(&path)?);
        let log = Self { path, limits, open, is_growing: false };
        log.remove_old(now);
        Ok(log)
    }

    /// Writes one line, whole or not at all.
    ///
    /// # Errors
    /// When it cannot be written. A later one may be.
    pub(super) fn write(&mut self, line: &[u8], now: Timestamp) -> io::Result<()> {
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        let mut file = match self.open.take() {
            Some(file) => file,
            None => open_to_append(&self.path)?,
        };
        // asked each time: another program may have cut it
        let mut bytes = file.metadata()?.len();
        if bytes > 0 && bytes.saturating_add(length) > self.limits.file_bytes_max {
            file = self.next_file(file, now)?;
            bytes = file.metadata()?.len();
        }
        if let Err(error) = file.write_all(line) {
            // half a line would spoil the next one, too
            self.open = file.set_len(bytes).is_ok().then_some(file);
            return Err(error);
        }
        self.open = Some(file);
        Ok(())
    }

    /// Renames the full file, and opens a new one. A file that cannot be renamed, such as one that
    /// is mounted by itself, grows on: no event is lost for that.
    fn next_file(&mut self, full: File, now: Timestamp) -> io::Result<File> {
        match self.free_name(now).and_then(|name| fs::rename(&self.path, name)) {
            Ok(()) => {}
            // another program has moved it
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                if !self.is_growing {
                    self.is_growing = true;
                    let path = self.path.display();
                    tracing::warn!(%path, %error, "failed to rename the full audit log file; it grows on");
                }
                return Ok(full);
            }
        }
        self.is_growing = false;
        let next = open_to_append(&self.path)?;
        self.remove_old(now);
        Ok(next)
    }

    /// A name for the full file. Of two rotations in one millisecond the second gets the next one.
    fn free_name(&self, now: Timestamp) -> io::Result<PathBuf> {
        let mut time = now;
        loop {
            let (stem, extension) = self.name_parts();
            let shown = time.to_zoned(TimeZone::UTC).strftime(NAME_TIME);
            let path = self.path.with_file_name(format!("{stem}{shown}{extension}"));
            if !fs::exists(&path)? {
                return Ok(path);
            }
            time = time.checked_add(SignedDuration::from_millis(1)).map_err(io::Error::other)?;
        }
    }

    /// What stands before the time in the name of an earlier file, and what behind it.
    fn name_parts(&self) -> (String, String) {
        let text = |part: Option<&std::ffi::OsStr>| {
            part.map(|part| part.to_string_lossy().into_owned()).unwrap_or_default()
        };
        let extension = text(self.path.extension());
        let extension = if extension.is_empty() { extension } else { format!(".{extension}") };
        (format!("{}-", text(self.path.file_stem())), extension)
    }

    fn remove_old(&self, now: Timestamp) {
        match self.old_files(now) {
            Ok(old) => remove_each(&old),
            Err(error) => {
                let path = self.path.display();
                tracing::warn!(%path, %error, "failed to list old audit log files");
            }
        }
    }

    /// Earlier files that are not kept any longer.
    fn old_files(&self, now: Timestamp) -> io::Result<Vec<PathBuf>> {
        let RotationLimits { files_max, days_max, .. } = self.limits;
        if files_max.is_none() && days_max.is_none() {
            return Ok(Vec::new());
        }
        let oldest = days_max.and_then(|days| {
            now.checked_sub(SignedDuration::from_hours(24 * i64::from(days))).ok()
        });
        let earlier = self.earlier_files()?.into_iter().enumerate();
        let old = earlier.filter(|(index, (time, _))| {
            files_max.is_some_and(|max| *index >= max)
                || oldest.is_some_and(|oldest| *time < oldest)
        });
        Ok(old.map(|(_, (_, path))| path).collect())
    }

    /// The files before this one, the newest first.
    fn earlier_files(&self) -> io::Result<Vec<(Timestamp, PathBuf)>> {
        let (stem, extension) = self.name_parts();
        let mut files = Vec::new();
        for entry in fs::read_dir(folder_of(&self.path))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                continue;
            }
            let name = entry.file_name();
            let time = name.to_str().and_then(|name| {
                let time = name.strip_prefix(&stem)?.strip_suffix(&extension)?;
                let time = DateTime::strptime(NAME_TIME, time).ok()?;
                time.to_zoned(TimeZone::UTC).ok()
            });
            files.extend(time.map(|time| (time.timestamp(), entry.path())));
        }
        files.sort_by(|one, other| other.cmp(one));
        Ok(files)
    }
}

/// One file that cannot be removed does not keep the others.
fn remove_each(paths: &[PathBuf]) {
    for path in paths {
        if let Err(error) = fs::remove_file(path) {
            let path = path.display();
            tracing::warn!(%path, %error, "failed to remove an old audit log file");
        }
    }
}

/// Opens the file, and makes it if it is not there. What is written to it begins a new line.
fn open_to_append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).read(true).mode(0o600);
    let mut file = options.open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Ok(file);
    }
    // one that was there may be open to others, and may end in the middle of a line
    file.set_permissions(Permissions::from_mode(0o600))?;
    let mut last = [b'\n'];
    if found.len() > 0 {
        file.read_exact_at(&mut last, found.len() - 1)?;
    }
    if last != *b"\n" {
        file.write_all(b"\n")?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::UNIX_EPOCH;

    fn after(milliseconds: i64) -> Timestamp {
        START + SignedDuration::from_millis(milliseconds)
    }

    fn limits(file_bytes_max: u64) -> RotationLimits {
        RotationLimits { file_bytes_max, files_max: None, days_max: None }
    }

    /// The names in the folder, in order, with what the files hold.
    fn files(folder: &Path) -> Vec<(String, String)> {
        let mut files: Vec<(String, String)> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                (name, fs::read_to_string(entry.path()).unwrap())
            })
            .collect();
        files.sort();
        files
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    /// A new log, and the folder of its own that it lies in.
    fn new_log(file_bytes_max: u64) -> (LogFile, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        (LogFile::open(path, limits(file_bytes_max), START).unwrap(), dir)
    }

    #[test]
    fn a_full_file_is_renamed_and_no_line_is_split() {
        let (mut log, dir) = new_log(8);
        for (line, time) in
            [("one\n", 0), ("two\n", 1), ("three\n", 2), ("much longer\n", 2), ("x\n", 2)]
        {
            log.write(line.as_bytes(), after(time)).unwrap();
        }
        assert_eq!(
            files(dir.path()),
            pairs(&[
                ("audit-1970-01-01T00-00-00.002.log", "one\ntwo\n"),
                ("audit-1970-01-01T00-00-00.003.log", "three\n"),
                ("audit-1970-01-01T00-00-00.004.log", "much longer\n"),
                ("audit.log", "x\n"),
            ])
        );
    }

    #[test]
    fn a_restart_goes_on_with_the_file_that_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/audit");
        for line in ["one\n", "two\n", "six\n"] {
            let mut log = LogFile::open(path.clone(), limits(8), START).unwrap();
            log.write(line.as_bytes(), START).unwrap();
        }
        let folder = path.parent().unwrap();
        let expected = [("audit", "six\n"), ("audit-1970-01-01T00-00-00.000", "one\ntwo\n")];
        assert_eq!(files(folder), pairs(&expected));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(folder), mode(&path)), (0o700, 0o600), "others cannot read it");
    }

    #[test]
    fn old_files_go_by_number_and_by_age_and_others_stay() {
        const DAY: i64 = 24 * 3600 * 1000;
        for (files_max, days_max, left) in [
            (None, None, vec![0, 1, 2, 3]),
            (Some(2), None, vec![2, 3]),
            (None, Some(1), vec![2, 3]),
            (Some(1), Some(9), vec![3]),
        ] {
            let dir = tempfile::tempdir().unwrap();
            for other in ["audit-x.log", "audit-1970-01-01T00-00-00.000.txt", "other.log"] {
                fs::write(dir.path().join(other), "").unwrap();
            }
            let limits = RotationLimits { files_max, days_max, ..limits(1) };
            let mut log = LogFile::open(dir.path().join("audit.log"), limits, START).unwrap();
            for day in 0..5 {
                // the file of a day is renamed when the line of the next one comes
                log.write(format!("{}\n", day).as_bytes(), after((day - 1).max(0) * DAY)).unwrap();
            }
            let found = files(dir.path());
            assert_eq!(found.len(), left.len() + 4, "{found:?}");
            let logs = found.iter().filter(|(name, _)| name.starts_with("audit-19"));
            let lines: Vec<i64> = logs.filter_map(|(_, text)| text.trim().parse().ok()).collect();
            assert_eq!(lines, left, "{files_max:?} {days_max:?}");
        }
    }

    #[test]
    fn what_cannot_be_removed_keeps_no_other_file() {
        let dir = tempfile::tempdir().unwrap();
        let earlier =
            |time: i64| dir.path().join(format!("audit-1970-01-01T00-00-00.00{time}.log"));
        // a folder with such a name is none of the log's
        fs::create_dir(earlier(3)).unwrap();
        fs::create_dir(earlier(1)).unwrap();
        fs::write(earlier(2), "").unwrap();
        fs::write(earlier(0), "").unwrap();
        let limits = RotationLimits { files_max: Some(1), ..limits(8) };
        LogFile::open(dir.path().join("audit.log"), limits, START).unwrap();
        let left = [3, 2, 1, 0].map(|time| earlier(time).exists());
        assert_eq!(left, [true, true, true, false]);
        remove_each(&[earlier(3), earlier(2)]);
        assert_eq!([3, 2].map(|time| earlier(time).exists()), [true, false]);
    }

    #[test]
    fn a_file_that_another_program_cuts_is_full_when_it_has_grown_again() {
        let (mut log, dir) = new_log(8);
        log.write(b"one\n", START).unwrap();
        log.write(b"two\n", START).unwrap();
        // as logrotate does by `copytruncate`
        OpenOptions::new().write(true).open(&log.path).unwrap().set_len(0).unwrap();
        log.write(b"six\n", START).unwrap();
        log.write(b"ten\n", START).unwrap();
        assert_eq!(files(dir.path()), pairs(&[("audit.log", "six\nten\n")]));
        log.write(b"end\n", START).unwrap();
        let expected =
            [("audit-1970-01-01T00-00-00.000.log", "six\nten\n"), ("audit.log", "end\n")];
        assert_eq!(files(dir.path()), pairs(&expected));
    }

    #[test]
    fn a_line_that_finds_no_space_is_an_error() {
        // every write to it fails so
        let mut log = LogFile {
            path: PathBuf::from("/dev/full"),
            limits: limits(8),
            is_growing: false,
            open: Some(OpenOptions::new().write(true).open("/dev/full").unwrap()),
        };
        let error = log.write(b"one\n", START).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn a_file_that_is_there_is_closed_to_others_and_begins_a_new_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        fs::write(&path, "half a li").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let mut log = LogFile::open(path.clone(), limits(64), START).unwrap();
        log.write(b"one\n", START).unwrap();
        // another program cuts it
        OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
        log.write(b"two\n", START).unwrap();
        assert_eq!(files(dir.path()), pairs(&[("audit.log", "two\n")]));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "half a li").unwrap();
        let mut log = LogFile::open(path, limits(64), START).unwrap();
        log.write(b"six\n", START).unwrap();
        assert_eq!(files(dir.path()), pairs(&[("audit.log", "half a li\nsix\n")]));
    }

    #[test]
    fn a_full_file_that_cannot_be_renamed_grows_on() {
        let (mut log, dir) = new_log(4);
        log.write(b"one\n", START).unwrap();
        // a name that is longer than a name may be
        log.path = dir.path().join(format!("{}.log", "x".repeat(240)));
        fs::write(&log.path, "one\n").unwrap();
        log.open = Some(open_to_append(&log.path).unwrap());
        log.write(b"two\n", START).unwrap();
        assert_eq!(fs::read_to_string(&log.path).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_opened_again() {
        let (mut log, dir) = new_log(4);
        log.write(b"one\n", START).unwrap();
        fs::remove_dir_all(dir.path()).unwrap();
        assert!(log.write(b"two\n", START).is_err(), "the folder is gone");
        fs::create_dir(dir.path()).unwrap();
        log.write(b"six\n", START).unwrap();
        assert_eq!(files(dir.path()), pairs(&[("audit.log", "six\n")]));
    }
}
