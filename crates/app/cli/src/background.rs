//! Processes of ours that run on in the background: a detached engine, the agents of further nodes.
//! Whoever starts one waits for its report, which comes over the new process's standard input.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use rekindle_types::causes;

/// The report of a process that is ready; anything else is the error that ended it.
const READY: &str = "ready";

/// A process that was started and has not reported yet.
pub struct BackgroundProcess {
    child: Child,
    report: UnixStream,
    what: &'static str,
    log: std::path::PathBuf,
}

/// Starts this program anew with these arguments; what it writes goes to the end of `log`.
pub fn start(
    what: &'static str,
    mut command: Command,
    log: &Path,
) -> anyhow::Result<BackgroundProcess> {
    let file = open_log(log)?;
    let (ours, theirs) = UnixStream::pair().context("make the report line")?;
    let child = command
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(file.try_clone().context("share the log")?)
        .stderr(file)
        .spawn()
        .with_context(|| format!("start the {what}"))?;
    Ok(BackgroundProcess { child, report: ours, what, log: log.to_owned() })
}

/// This program.
pub fn this_program() -> anyhow::Result<Command> {
    Ok(Command::new(std::env::current_exe().context("find this program")?))
}

/// Tells this program from others and from its own later versions.
pub fn fingerprint() -> anyhow::Result<String> {
    let path = std::env::current_exe().context("find this program")?;
    // asked by the link of the kernel, which leads to the file also when another one took its place
    let file = std::fs::metadata("/proc/self/exe").context("look at this program")?;
    Ok(format!("{} {}:{} {}", path.display(), file.dev(), file.ino(), file.mtime()))
}

impl BackgroundProcess {
    /// Waits until it is ready.
    ///
    /// # Errors
    /// The one that ended it.
    pub fn wait(mut self) -> anyhow::Result<Child> {
        let mut report = String::new();
        BufReader::new(self.report)
            .read_line(&mut report)
            .with_context(|| format!("read the report of the {}", self.what))?;
        match report.trim_end() {
            READY => Ok(self.child),
            "" => {
                let status =
                    self.child.wait().with_context(|| format!("wait for the {}", self.what))?;
                bail!(
                    "the {} ended ({status}) before it was ready; see {}",
                    self.what,
                    self.log.display()
                );
            }
            error => {
                self.child.wait().with_context(|| format!("wait for the {}", self.what))?;
                bail!("{error}");
            }
        }
    }
}

/// Reaps the process in the background and logs its exit status.
pub fn reap(what: String, mut child: Child) -> anyhow::Result<()> {
    let wait = move || match child.wait() {
        Ok(status) => tracing::info!(process = what, %status, "background process exited"),
        Err(error) => tracing::warn!(process = what, %error, "failed to wait for a process"),
    };
    let thread = std::thread::Builder::new().name("reaper".to_owned()).spawn(wait);
    thread.map(drop).context("start the thread that waits for a process")
}

/// The line on which a process reports to whoever started it.
pub struct ParentReport(UnixStream);

impl ParentReport {
    /// Of this process, which leaves the session, and with it the terminal, of whoever started it.
    pub fn take() -> anyhow::Result<Self> {
        let line = std::io::stdin().as_fd().try_clone_to_owned().context("take the report line")?;
        rustix::process::setsid().context("leave the terminal's session")?;
        Ok(Self(line.into()))
    }

    /// Reports whether the start succeeded, and returns the result. A starter that was killed reads
    /// nothing; that is no error.
    pub fn send<T>(mut self, started: anyhow::Result<T>) -> anyhow::Result<T> {
        let line = match &started {
            Ok(_) => READY.to_owned(),
            Err(error) => causes(&**error).replace('\n', " "),
        };
        let _reader_is_gone = writeln!(self.0, "{line}");
        started
    }
}

fn open_log(path: &Path) -> anyhow::Result<std::fs::File> {
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("open {}", path.display()))
}

/// The event loop of a process that runs pods.
pub fn event_loop() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(worker_threads())
        .enable_all()
        .build()
        .context("start the event loop")
}

/// Threads of an event loop: as many as the machine has cores, and no more than four.
pub fn worker_threads() -> usize {
    std::thread::available_parallelism().map_or(2, |cores| cores.get().min(4))
}

/// What is logged goes to standard error.
pub fn init_log(default: &str) {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // told on standard error, which is what cannot be written to, and with a panic
        .log_internal_errors(false)
        .init();
}
