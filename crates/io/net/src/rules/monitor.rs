//! Tells when another process changes our table: `nft flush ruleset`, a firewall that reloads. It
//! also tells when one changes tables that are no engine's: a firewall that starts.

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

use crate::rules::owned_table::NAME_BEGIN;
use crate::rules::socket::{ANSWER_MAX, is_overrun, pieces, receive, split_header};

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
    /// Another process has changed tables that are no engine's.
    elsewhere: Notify,
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
            elsewhere: Notify::new(),
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
                Ok(()) if self.note_changes(&buffer)? => return Ok(()),
                Ok(()) => {}
                Err(error) if !is_overrun(&error) => return Err(error),
                Err(_) => {
                    self.elsewhere.notify_one();
                    if !self.replacing.load(Ordering::SeqCst) {
                        return Ok(());
                    }
                    self.overrun.store(true, Ordering::SeqCst);
                }
            }
        }
    }

    /// Returns when another process has changed tables that are no engine's, or may have. Many
    /// changes are told once. The notifications are read by [`changed`](Self::changed) only, so
    /// that one has to be waited for, too.
    pub(super) async fn changed_elsewhere(&self) {
        self.elsewhere.notified().await;
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
                Ok(()) => drained.changed |= self.note_changes(&buffer)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(drained),
                Err(error) if is_overrun(&error) => {
                    drained.overrun = true;
                    self.elsewhere.notify_one();
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether a notification is about our table and not of our own doing. Of tables that are no
    /// engine's it tells `changed_elsewhere`.
    fn note_changes(&self, notifications: &[u8]) -> io::Result<bool> {
        let mut is_own_changed = false;
        for piece in pieces(notifications) {
            let piece = piece?;
            let [subsystem, kind] = piece.message_type().to_be_bytes();
            let is_generation = NfTablesMessageType::from(kind) == NfTablesMessageType::NewGen;
            let is_of_tables = NetfilterSubsystem::from(subsystem) == NetfilterSubsystem::NfTables;
            if piece.port_number() == self.own_port || !is_of_tables || is_generation {
                continue;
            }
            let (family, attributes) = split_header(piece.payload());
            let mut attributes = NlasIterator::new(attributes).filter_map(Result::ok);
            let Some(name) = attributes.find(|attribute| attribute.kind() == TABLE_NAME) else {
                continue;
            };
            let name = name.value().strip_suffix(&[0]).unwrap_or(name.value());
            let is_inet = NetfilterProtoFamily::from(family) == NetfilterProtoFamily::Inet;
            if is_inet && name == self.table.as_bytes() {
                is_own_changed = true;
            } else if !is_inet || !name.starts_with(NAME_BEGIN.as_bytes()) {
                self.elsewhere.notify_one();
            }
        }
        Ok(is_own_changed)
    }
}

#[derive(Default)]
struct DrainedNotifications {
    changed: bool,
    overrun: bool,
}
