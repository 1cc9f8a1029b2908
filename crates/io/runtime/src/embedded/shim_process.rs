//! The shim's program, and starting it for a sandbox.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::fs::{MemfdFlags, OFlags, SealFlags};
use rustix::io::Errno;

use super::layout::{Layout, MOUNT_POINT, ROOTS};
use super::records::RecordFile;
use super::trash;

/// The program, built by build.rs: static, so that it needs nothing of any file system.
static PROGRAM: &[u8] = include_bytes!(env!("REKINDLE_SHIM"));

/// How long a shim may take to end its containers (by SIGKILL, so milliseconds) before it is ended
/// itself.
pub(crate) const SHUTDOWN_TIME: Duration = Duration::from_secs(3);

/// The program as a sealed file in memory. A container can make the kernel run it again by
/// `/proc/self/exe` and then find it there (CVE-2019-5736), but nobody can write to it any more.
#[derive(Debug)]
pub(crate) struct ShimProgram {
    file: OwnedFd,
}

impl ShimProgram {
    pub(crate) fn load() -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let name = "rekindle-shim";
        let file = match rustix::fs::memfd_create(name, flags | MemfdFlags::EXEC) {
            Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags)?, // before Linux 6.3
            result => result?,
        };
        let mut writer = File::from(file);
        io::Write::write_all(&mut writer, PROGRAM)?;
        let file = OwnedFd::from(writer);
        let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals)?;
        Ok(Self { file })
    }

    /// Starts a shim in a new folder. Connects before it runs: the socket listens already, so it
    /// finds its agent waiting.
    pub(crate) fn start(&self, layout: &Layout, id: &str) -> io::Result<StartedShim> {
        let path = layout.sandbox_dir(id);
        let dir = make_dirs(layout, &path)?;
        let records = RecordFile::open(&path)?;
        let socket = ShimSocket { run: layout.run(), name: id };
        let listener = socket.listen()?;
        let connection = socket.connect()?;
        let notes = path.join("shim.notes");
        let notes = OpenOptions::new().create(true).append(true).mode(0o600).open(notes)?;
        let child = self.spawn(listener, dir, notes)?;
        Ok(StartedShim { socket: connection, child, records })
    }

    /// Runs it, in a process group of its own so that Ctrl-C at the agent's terminal is not for it.
    ///
    /// No code of ours runs between fork and exec, so the standard library spawns without copying
    /// the agent's memory.
    fn spawn(&self, listener: UnixListener, dir: OwnedFd, notes: File) -> io::Result<Child> {
        Command::new(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
            .arg0("rekindle-shim")
            .stdin(Stdio::from(OwnedFd::from(listener)))
            .stdout(Stdio::from(dir))
            .stderr(Stdio::from(notes))
            .env_clear()
            .process_group(0)
            .spawn()
    }
}

/// A shim that runs, and has not been told anything yet.
pub(crate) struct StartedShim {
    pub(crate) socket: UnixStream,
    pub(crate) child: Child,
    /// Empty.
    pub(crate) records: RecordFile,
}

/// The sandbox's folder, and those in it that the shim and its containers need.
fn make_dirs(layout: &Layout, dir: &Path) -> io::Result<OwnedFd> {
    trash::take(layout, dir)?; // half of one from a life before
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder.create(dir)?;
    builder.create(dir.join(MOUNT_POINT))?;
    builder.create(dir.join(ROOTS))?;
    Ok(File::open(dir)?.into())
}

/// Where a shim listens: a name in the run folder, opened first, because a socket's path may have
/// 107 bytes only.
pub(crate) struct ShimSocket<'a> {
    /// The run folder.
    pub(crate) run: &'a Path,
    /// The socket's name in it.
    pub(crate) name: &'a str,
}

impl ShimSocket<'_> {
    fn with_short_path<T>(&self, f: impl FnOnce(String) -> io::Result<T>) -> io::Result<T> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(self.run, flags, rustix::fs::Mode::empty())?;
        f(format!("/proc/self/fd/{}/{}", dir.as_raw_fd(), self.name))
    }

    /// Makes the socket, in place of one that nobody listens to any more.
    pub(crate) fn listen(&self) -> io::Result<UnixListener> {
        self.remove()?;
        self.with_short_path(UnixListener::bind)
    }

    pub(crate) fn connect(&self) -> io::Result<UnixStream> {
        self.with_short_path(UnixStream::connect)
    }

    pub(crate) fn remove(&self) -> io::Result<()> {
        match std::fs::remove_file(self.run.join(self.name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}
