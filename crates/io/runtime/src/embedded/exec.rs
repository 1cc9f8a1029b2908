//! Further commands in running containers: for probes, for hooks, and for people.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rekindle_shim::protocol::{
    ExecFiles, ExecPlan, ExitCause, FailureKind, FileSource, ShimFailure,
};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use super::link::{CallError, CommandExecution, ShimLink};
use super::sandbox::EmbeddedSandbox;
use super::{SharedRuntime, layout};
use crate::error::{Cause, RuntimeError};
use crate::exec::{EXEC_OUTPUT_BYTES_MAX, ExecExit, ExecOutcome};
use crate::spec::ContainerKey;

const OPERATION: &str = "run a command in";

pub(crate) fn failed(key: &ContainerKey, source: impl Into<Cause>) -> RuntimeError {
    RuntimeError::Container { key: key.clone(), operation: OPERATION, source: source.into() }
}

pub(crate) fn refused(key: &ContainerKey, error: CallError) -> RuntimeError {
    match error {
        CallError::Refused(ShimFailure { kind, problem }) => match kind {
            FailureKind::Start => RuntimeError::Start { key: key.clone(), problem },
            FailureKind::Config => RuntimeError::Config { key: key.clone(), problem },
            FailureKind::State | FailureKind::Setup => failed(key, problem),
        },
        error @ (CallError::Gone | CallError::Silent(_)) => failed(key, error),
    }
}

/// The way to the shim of a container that is known here.
pub(crate) fn find(
    shared: &SharedRuntime,
    key: &ContainerKey,
) -> Result<(Arc<EmbeddedSandbox>, ShimLink, String), RuntimeError> {
    let slot = layout::slot(key);
    let sandbox = shared.find(&key.sandbox);
    let sandbox = sandbox.filter(|sandbox| sandbox.container(&slot, |_| ()).is_some());
    let sandbox = sandbox.ok_or_else(|| failed(key, "it does not exist"))?;
    let link = sandbox.link().ok_or_else(|| failed(key, "its sandbox is not ready"))?;
    Ok((sandbox, link, slot))
}

/// A pipe: the agent's end, and the descriptor for the command.
pub(crate) fn output_pipe(key: &ContainerKey) -> Result<(pipe::Receiver, OwnedFd), RuntimeError> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
        .map_err(std::io::Error::from)
        .and_then(|(read, write)| {
            Ok((pipe::Receiver::from_owned_fd(set_nonblocking(read)?)?, write))
        })
        .map_err(|error| failed(key, error))
}

/// Only this end: a command's own writes must block as usual.
pub(crate) fn set_nonblocking(fd: OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    rustix::fs::fcntl_setfl(&fd, flags | rustix::fs::OFlags::NONBLOCK)?;
    Ok(fd)
}

pub(crate) fn exit(cause: ExitCause) -> ExecExit {
    match cause {
        ExitCause::Code(code) => ExecExit::Code(code),
        ExitCause::Signal(signal) => ExecExit::Signal(signal),
        // Said of containers only, or of a process that somebody else reaped.
        ExitCause::OomKilled | ExitCause::StartError | ExitCause::Unknown => {
            ExecExit::Signal(libc::SIGKILL)
        }
    }
}

/// Runs a command to its end, or to its time limit.
pub(crate) async fn sync(
    shared: &Arc<SharedRuntime>,
    key: &ContainerKey,
    command: &[String],
    timeout: Duration,
) -> Result<ExecOutcome, RuntimeError> {
    let (_, link, slot) = find(shared, key)?;
    let (mut output, stdout) = output_pipe(key)?;
    let stderr = stdout.try_clone().map_err(|error| failed(key, error))?;
    let files = ExecFiles::Given {
        stdin: FileSource::Null,
        stdout: FileSource::Passed,
        stderr: FileSource::Passed,
    };
    let plan = ExecPlan { id: shared.next_exec_id(), slot, argv: command.to_vec(), files };
    let mut kept = Vec::new();
    let run = async {
        let mut execution =
            link.exec(plan, vec![stdout, stderr]).await.map_err(|error| refused(key, error))?;
        collect(&mut execution, &mut output, &mut kept).await.map_err(|error| refused(key, error))
    };
    let exit = match tokio::time::timeout(timeout, run).await {
        Ok(ended) => exit(ended?),
        // Dropping the execution has ended it.
        Err(_elapsed) => ExecExit::TimedOut,
    };
    Ok(ExecOutcome { exit, output: kept })
}

/// Reads while the command runs. What it left running may hold the pipe for ever, so its own end
/// counts.
async fn collect(
    execution: &mut CommandExecution,
    output: &mut pipe::Receiver,
    kept: &mut Vec<u8>,
) -> Result<ExitCause, CallError> {
    let mut buffer = [0u8; 4096];
    let mut keep = |bytes: &[u8]| {
        let room = EXEC_OUTPUT_BYTES_MAX - kept.len();
        kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
    };
    let mut open = true;
    let cause = loop {
        tokio::select! {
            ended = execution.ended() => break ended?,
            read = output.read(&mut buffer), if open => match read {
                Ok(0) | Err(_) => open = false,
                Ok(count) => keep(&buffer[..count]),
            },
        }
    };
    // What it wrote before its end is in the pipe; more than a pipe holds is somebody else's.
    let mut left = PIPE_BYTES;
    while left > 0
        && let Ok(count) = output.try_read(&mut buffer)
        && count > 0
    {
        keep(&buffer[..count]);
        left = left.saturating_sub(count);
    }
    Ok(cause)
}

/// Bytes of a pipe, by default.
const PIPE_BYTES: usize = 64 * 1024;
