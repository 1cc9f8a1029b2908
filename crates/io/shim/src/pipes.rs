//! Pipes and sockets between the shim and the processes that it forks, and descriptors that are
//! sent over them.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use rustix::pipe::PipeFlags;

use crate::problem::FailureContext;
use crate::protocol::ShimFailure;

/// A pipe: its reading and its writing end.
pub(crate) fn pipe() -> Result<(OwnedFd, OwnedFd), ShimFailure> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC).setup(|| "make a pipe".to_owned())
}

/// Two sockets that are connected and keep messages apart.
pub(crate) fn socket_pair() -> Result<(OwnedFd, OwnedFd), ShimFailure> {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None)
        .setup(|| "make a pair of sockets".to_owned())
}

/// Makes an end non-blocking. Only the shim's: the flag belongs to an end, and a container's own
/// writes must block as usual.
pub(crate) fn set_nonblocking(fd: &OwnedFd) -> Result<(), Errno> {
    let flags = rustix::fs::fcntl_getfl(fd)?;
    rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK)
}

/// Sends a descriptor over a socket.
pub(crate) fn send_file(socket: BorrowedFd<'_>, file: BorrowedFd<'_>) -> Result<(), ShimFailure> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file];
    let pushed = control.push(SendAncillaryMessage::ScmRights(&files));
    debug_assert!(pushed, "the buffer is made for one");
    let flags = SendFlags::NOSIGNAL;
    rustix::net::sendmsg(socket, &[IoSlice::new(b"t")], &mut control, flags)
        .map(drop)
        .setup(|| "hand over a descriptor".to_owned())
}
