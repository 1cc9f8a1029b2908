//! The agent's end of the socket. Nothing here blocks: an agent that is stopped, or slow, must not
//! stop the shim.

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

use crate::frame;
use crate::protocol::{ShimCall, ShimMessage};

/// An agent that leaves this much unread is dropped; it connects again and asks for the state.
const UNSENT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Descriptors that come with one call.
const FILES_MAX: usize = 4;

/// Descriptors that wait for their calls; an agent that sends more is dropped.
const WAITING_FILES_MAX: usize = 64;

/// One connected agent.
pub(crate) struct AgentConnection {
    pub(crate) socket: OwnedFd,
    input: Vec<u8>,
    output: Vec<u8>,
    /// In the order of the calls that they are for.
    files: VecDeque<OwnedFd>,
}

/// Whether a connection can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    Up,
    Down,
}

impl AgentConnection {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { socket, input: Vec::new(), output: Vec::new(), files: VecDeque::new() }
    }

    /// Reads what is there.
    pub(crate) fn read(&mut self) -> ConnectionState {
        let mut buffer = [0u8; 8 * 1024];
        loop {
            match self.receive(&mut buffer) {
                Ok(0) => return ConnectionState::Down,
                Ok(_) if self.files.len() > WAITING_FILES_MAX => return ConnectionState::Down,
                Ok(count) => self.input.extend_from_slice(&buffer[..count]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return ConnectionState::Up,
                Err(_) => return ConnectionState::Down,
            }
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let slices = &mut [IoSliceMut::new(buffer)];
        let received = rustix::net::recvmsg(&self.socket, slices, &mut control, flags)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                self.files.extend(files);
            }
        }
        Ok(received.bytes)
    }

    /// The descriptors that came with the call just taken; `None` when there are too few.
    pub(crate) fn take_files(&mut self, count: usize) -> Option<Vec<OwnedFd>> {
        (self.files.len() >= count).then(|| self.files.drain(..count).collect())
    }

    /// The next whole call; an error text when what came is none.
    pub(crate) fn take(&mut self) -> Result<Option<ShimCall>, String> {
        let call = frame::take(&mut self.input).map_err(|error| error.to_string())?;
        if call.is_none() && self.input.is_empty() {
            self.input = Vec::new(); // a large plan's buffer is given back
        }
        Ok(call)
    }

    /// Queues a message and sends what the socket takes.
    pub(crate) fn send(&mut self, message: &ShimMessage) -> ConnectionState {
        if frame::write(message, &mut self.output).is_err() {
            return ConnectionState::Down;
        }
        self.flush()
    }

    /// Sends what the socket takes.
    pub(crate) fn flush(&mut self) -> ConnectionState {
        while !self.output.is_empty() {
            let flags = rustix::net::SendFlags::NOSIGNAL;
            match rustix::net::send(&self.socket, &self.output, flags) {
                Ok(count) => drop(self.output.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if self.output.len() <= UNSENT_BYTES_MAX => {
                    return ConnectionState::Up;
                }
                Err(_) => return ConnectionState::Down,
            }
        }
        self.output = Vec::new();
        ConnectionState::Up
    }

    /// Whether something waits for the socket to take it.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.output.is_empty()
    }
}
