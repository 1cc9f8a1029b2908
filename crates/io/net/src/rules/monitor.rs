//! Tells when another process changes our table: `nft flush ruleset`, a firewall that reloads.

use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use netlink_packet_core::NlasIterator;
use netlink_packet_netfilter::nftables::NfTablesMessageType;
use netlink_packet_netfilter::{NetfilterProtoFamily, NetfilterSubsystem};
use netlink_sys::protocols::NETLINK_NETFILTER;
use netlink_sys::{AsyncSocket, SocketAddr, TokioSocket};
use rustix::net::sockopt;
use tokio::sync::Notify;

use crate::rules::socket::{ANSWER_MAX, NETFILTER_HEADER_LENGTH, is_overrun, pieces, receive};

/// `NFNLGRP_NFTABLES`.
const GROUP_NFTABLES: u32 = 7;
/// For the notifications of many small changes at once.
const RECEIVE_BUFFER_BYTES: usize = 1 << 20;
/// The attribute with the table's name in messages about all kinds of objects.
const TABLE_NAME: u16 = 1;

/// See the module.
pub(super) struct TableMonitor {
    socket: TokioSocket,
    table: String,
    /// The number of the socket by which we change the table ourselves.
    own_port: u32,
    /// We replace the table: there may be more notifications of it than room.
    replacing: AtomicBool,
    /// Notifications were lost during a replacement.
    overrun: AtomicBool,
    /// A change by another process was seen while we replaced the table.
    seen: Notify,
}

impl TableMonitor {
    /// In the network namespace of the calling thread, inside a tokio runtime.
    pub(super) fn open(table: &str, own_port: u32) -> io::Result<Self> {
        let mut socket = TokioSocket::new(NETLINK_NETFILTER)?;
        socket.socket_mut().bind(&SocketAddr::new(0, 0))?;
        // else the default is what there is: an overrun counts as a change
        let _only_root_may =
            sockopt::set_socket_recv_buffer_size_force(socket.socket_ref(), RECEIVE_BUFFER_BYTES);
        socket.socket_ref().add_membership(GROUP_NFTABLES)?;
        Ok(Self {
            socket,
            table: table.to_owned(),
            own_port,
            replacing: AtomicBool::new(false),
            overrun: AtomicBool::new(false),
            seen: Notify::new(),
        })
    }

    /// Returns when another process has changed the table, or may have: notifications were lost.
    pub(super) async fn changed(&self) -> io::Result<()> {
        let mut buffer = Vec::new();
        loop {
            buffer.clear();
            buffer.reserve(ANSWER_MAX);
            let received = tokio::select! {
                () = self.seen.notified() => return Ok(()),
                received = poll_fn(|cx| self.socket.poll_recv(cx, &mut buffer)) => received,
            };
            match received {
                Ok(()) if self.is_about_change(&buffer)? => return Ok(()),
                Ok(()) => {}
                Err(error) if !is_overrun(&error) => return Err(error),
                Err(_) if self.replacing.load(Ordering::SeqCst) => {
                    self.overrun.store(true, Ordering::SeqCst);
                }
                Err(_) => return Ok(()),
            }
        }
    }

    /// Does a replacement of the table, which makes up for all changes by others until now. Its own
    /// notifications may be more than there is room for: then `is_intact` tells, from what it
    /// returned, whether the table is there.
    pub(super) fn during_replacement<C, T, E: From<io::Error>>(
        &self,
        context: &mut C,
        replace: impl FnOnce(&mut C) -> Result<T, E>,
        is_intact: impl FnOnce(&mut C) -> bool,
    ) -> Result<T, E> {
        self.replacing.store(true, Ordering::SeqCst);
        let replaced = self.drain().map_err(E::from).and_then(|_| replace(context));
        let drained = self.drain();
        self.replacing.store(false, Ordering::SeqCst);
        let overrun = self.overrun.swap(false, Ordering::SeqCst);
        let replaced = replaced?;
        let drained = drained?;
        if drained.changed || (drained.overrun || overrun) && !is_intact(context) {
            self.seen.notify_one();
        }
        Ok(replaced)
    }

    fn drain(&self) -> io::Result<DrainedNotifications> {
        let mut buffer = Vec::new();
        let mut drained = DrainedNotifications::default();
        loop {
            match receive(self.socket.socket_ref(), &mut buffer) {
                Ok(()) => drained.changed |= self.is_about_change(&buffer)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(drained),
                Err(error) if is_overrun(&error) => drained.overrun = true,
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether a notification is about our table and not of our own doing.
    fn is_about_change(&self, notifications: &[u8]) -> io::Result<bool> {
        for piece in pieces(notifications) {
            let piece = piece?;
            let [subsystem, kind] = piece.message_type().to_be_bytes();
            let is_generation = NfTablesMessageType::from(kind) == NfTablesMessageType::NewGen;
            let is_of_tables = NetfilterSubsystem::from(subsystem) == NetfilterSubsystem::NfTables;
            if piece.port_number() == self.own_port || !is_of_tables || is_generation {
                continue;
            }
            let Some((header, attributes)) =
                piece.payload().split_first_chunk::<NETFILTER_HEADER_LENGTH>()
            else {
                continue;
            };
            let is_inet = NetfilterProtoFamily::from(header[0]) == NetfilterProtoFamily::Inet;
            let names_table =
                NlasIterator::new(attributes).filter_map(Result::ok).any(|attribute| {
                    let is_name = attribute.kind() == TABLE_NAME;
                    is_name && attribute.value().strip_suffix(&[0]) == Some(self.table.as_bytes())
                });
            if is_inet && names_table {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[derive(Default)]
struct DrainedNotifications {
    changed: bool,
    overrun: bool,
}
