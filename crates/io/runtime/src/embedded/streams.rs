//! Commands whose files are in the caller's hands: pipes, or a terminal whose other side comes back
//! from the container.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rekindle_shim::protocol::{
    AttachPlan, ExecFiles, ExecPlan, FileSource, ShimRequest, TerminalSize,
};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};
use rustix::pipe::PipeFlags;
use tokio::net::unix::pipe::{Receiver, Sender};

use super::SharedRuntime;
use super::exec::{exit, failed, find, output_pipe, refused, set_nonblocking};
use super::link::{CommandExecution, ShimLink};
use crate::error::RuntimeError;
use crate::exec::{ExecExit, ExecStreams, ExecTerminal, RunningExec, StreamRequest};
use crate::spec::ContainerKey;

/// Starts a command.
pub(crate) async fn exec(
    shared: &SharedRuntime,
    key: &ContainerKey,
    command: &[String],
    request: StreamRequest,
) -> Result<ExecStreams, RuntimeError> {
    let (_, link, slot) = find(shared, key)?;
    let call = ExecCall { key, link, slot, id: shared.next_exec_id(), argv: command.to_vec() };
    if request.terminal { call.on_terminal(request).await } else { call.on_pipes(request).await }
}

struct ExecCall<'a> {
    key: &'a ContainerKey,
    link: ShimLink,
    slot: String,
    id: u64,
    argv: Vec<String>,
}

impl ExecCall<'_> {
    async fn on_pipes(self, request: StreamRequest) -> Result<ExecStreams, RuntimeError> {
        let key = self.key;
        let mut passed = Vec::with_capacity(3);
        let mut stdin = None;
        if request.stdin {
            let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
                .map_err(|errno| failed(key, io::Error::from(errno)))?;
            stdin = Some(sender(write).map_err(|error| failed(key, error))?);
            passed.push(read);
        }
        let mut output = |is_wanted: bool| {
            if !is_wanted {
                return Ok(None);
            }
            output_pipe(key).map(|(read, write)| {
                passed.push(write);
                Some(read)
            })
        };
        let (stdout, stderr) = (output(request.stdout)?, output(request.stderr)?);
        let files = ExecFiles::Given {
            stdin: source(request.stdin),
            stdout: source(request.stdout),
            stderr: source(request.stderr),
        };
        let execution = self.start(files, passed).await?;
        Ok(ExecStreams { stdin, stdout, stderr, terminal: None, running: running(execution, key) })
    }

    async fn on_terminal(self, request: StreamRequest) -> Result<ExecStreams, RuntimeError> {
        let key = self.key;
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (ours, containers) = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None)
            .map_err(|errno| failed(key, io::Error::from(errno)))?;
        let files = ExecFiles::Terminal(TerminalSize::default());
        let execution = self.start(files, vec![containers]).await?;
        let opened = receive(&ours).and_then(|master| TerminalEnds::new(master, request));
        let TerminalEnds { stdin, stdout, terminal } =
            opened.map_err(|error| failed(key, error))?;
        let running = running(execution, key);
        Ok(ExecStreams { stdin, stdout, stderr: None, terminal: Some(terminal), running })
    }

    async fn start(
        self,
        files: ExecFiles,
        passed: Vec<OwnedFd>,
    ) -> Result<CommandExecution, RuntimeError> {
        let plan = ExecPlan { id: self.id, slot: self.slot, argv: self.argv, files };
        self.link.exec(plan, passed).await.map_err(|error| refused(self.key, error))
    }
}

fn running(mut execution: CommandExecution, key: &ContainerKey) -> RunningExec {
    let key = key.clone();
    RunningExec::new(async move {
        execution.ended().await.map(exit).map_err(|error| refused(&key, error))
    })
}

fn source(is_wanted: bool) -> FileSource {
    if is_wanted { FileSource::Passed } else { FileSource::Null }
}

fn sender(fd: OwnedFd) -> io::Result<Sender> {
    Sender::from_owned_fd_unchecked(set_nonblocking(fd)?)
}

/// What the caller gets of a terminal: the same file under one descriptor for each use.
struct TerminalEnds {
    stdin: Option<Sender>,
    stdout: Option<Receiver>,
    terminal: ExecTerminal,
}

impl TerminalEnds {
    fn new(master: OwnedFd, request: StreamRequest) -> io::Result<Self> {
        let master = set_nonblocking(master)?;
        let stdin = if request.stdin { Some(sender(master.try_clone()?)?) } else { None };
        let stdout = if request.stdout {
            Some(Receiver::from_owned_fd_unchecked(master.try_clone()?)?)
        } else {
            None
        };
        Ok(Self { stdin, stdout, terminal: ExecTerminal::new(master) })
    }
}

/// Bytes that a client may be behind a container that it looks at.
const BEHIND_BYTES_MAX: usize = 1024 * 1024;

/// Joins a container's first process.
pub(crate) async fn attach(
    shared: &SharedRuntime,
    key: &ContainerKey,
    request: StreamRequest,
) -> Result<ExecStreams, RuntimeError> {
    let (_, link, slot) = find(shared, key)?;
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    let (ours, shims) = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None)
        .map_err(|errno| failed(key, io::Error::from(errno)))?;
    let mut passed = vec![shims];
    let mut output = |is_wanted: bool| {
        if !is_wanted {
            return Ok(None);
        }
        output_pipe(key).map(|(read, write)| {
            // The usual size will do where it may not be larger.
            let _ = rustix::pipe::fcntl_setpipe_size(&write, BEHIND_BYTES_MAX);
            passed.push(write);
            Some(read)
        })
    };
    let (stdout, stderr) = (output(request.stdout)?, output(request.stderr)?);
    let plan = AttachPlan {
        slot,
        stdin: source(request.stdin),
        stdout: source(request.stdout),
        stderr: source(request.stderr),
    };
    let joined = link.call_with(ShimRequest::Attach(plan), passed).await;
    joined.map_err(|error| refused(key, error))?;
    let input = match receive(&ours) {
        Ok(input) => Some(input),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None, // it has none
        Err(error) => return Err(failed(key, error)),
    };
    let ends = input.map(input_ends).transpose().map_err(|error| failed(key, error))?;
    let (stdin, terminal) = ends.map_or((None, None), |(stdin, terminal)| (Some(stdin), terminal));
    let closed = set_nonblocking(ours)
        .map_err(io::Error::from)
        .and_then(Receiver::from_owned_fd_unchecked)
        .map_err(|error| failed(key, error))?;
    let running = RunningExec::new(async move {
        let mut closed = closed;
        // Nothing is said over it: it closes with the container, or with its shim.
        let _ = tokio::io::AsyncReadExt::read(&mut closed, &mut [0u8; 1]).await;
        Ok(ExecExit::Code(0))
    });
    Ok(ExecStreams { stdin, stdout, stderr, terminal, running })
}

/// The input of a first process is a pipe, or the other side of its terminal.
fn input_ends(input: OwnedFd) -> io::Result<(Sender, Option<ExecTerminal>)> {
    let terminal = if rustix::termios::isatty(&input) {
        Some(ExecTerminal::new(input.try_clone()?))
    } else {
        None
    };
    Ok((sender(input)?, terminal))
}

/// Takes the descriptor that was sent before the call was answered.
fn receive(socket: &OwnedFd) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0u8; 1];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
    let mut files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let file = files.next().and_then(|mut files| files.next());
    file.ok_or_else(|| io::Error::other("the terminal did not come back from the container"))
}
