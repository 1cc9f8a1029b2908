//! Reports when another process changes our table: `nft flush ruleset`, a firewall that reloads. It
//! also reports when one changes tables that are no engine's: a firewall that starts.
//!
//! The kernel makes a message of 8 KiB of each new element for those who follow: of 5,000 Services
//! half a gigabyte for a moment, and where the machine has to find that memory a second. So while
//! one of the process's tables is replaced, none of its monitors follows. What others do in that
//! time is not seen; whether each table is there is looked up afterwards.

use std::future::poll_fn;
use std::io;
use std::os::linux::fs::MetadataExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

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

/// All monitors of this process. Who holds the lock replaces a table.
static MONITORS: Mutex<Vec<Weak<TableMonitor>>> = Mutex::new(Vec::new());

/// See the module.
pub(super) struct TableMonitor {
    socket: TokioSocket,
    table: String,
    /// The number of the socket by which we change the table ourselves.
    own_port: u32,
    /// The network namespace, by its inode.
    namespace: u64,
    /// The table was gone after a replacement of it or another one.
    seen: Notify,
    /// Another process has changed tables that are no engine's.
    elsewhere: Notify,
}

impl TableMonitor {
    /// In the network namespace of the calling thread, inside a tokio runtime.
    pub(super) fn open(table: &str, own_port: u32) -> io::Result<Arc<Self>> {
        let mut socket = TokioSocket::new(NETLINK_NETFILTER)?;
        socket.socket_mut().bind(&SocketAddr::new(0, 0))?;
        // else the default is what there is: an overrun counts as a change
        let _only_root_may =
            sockopt::set_socket_recv_buffer_size_force(socket.socket_ref(), RECEIVE_BUFFER_BYTES);
        socket.socket_ref().add_membership(GROUP_NFTABLES)?;
        let monitor = Arc::new(Self {
            socket,
            table: table.to_owned(),
            own_port,
            namespace: std::fs::metadata("/proc/thread-self/ns/net")?.st_ino(),
            seen: Notify::new(),
            elsewhere: Notify::new(),
        });
        let mut monitors = all();
        monitors.retain(|known| known.strong_count() > 0);
        monitors.push(Arc::downgrade(&monitor));
        Ok(monitor)
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
                    return Ok(());
                }
            }
        }
    }

    /// Returns when another process has changed tables that are no engine's, or may have. Many
    /// changes count as one. The notifications are read by [`changed`](Self::changed) only, so
    /// that one has to be waited for, too.
    pub(super) async fn changed_elsewhere(&self) {
        self.elsewhere.notified().await;
    }

    /// Does a replacement of the table, which makes up for all changes by others until now. No
    /// monitor of this process follows in that time. `is_there` answers whether a table is there,
    /// from what was replaced.
    pub(super) fn during_replacement<C, T, E: From<io::Error>>(
        &self,
        context: &mut C,
        replace: impl FnOnce(&mut C) -> Result<T, E>,
        is_there: impl Fn(&mut C, &str) -> bool,
    ) -> Result<T, E> {
        // until the end: the monitors may not follow again while another table is replaced
        let monitors = all();
        let in_namespace =
            monitors.iter().filter_map(Weak::upgrade).filter(|it| it.namespace == self.namespace);
        let in_namespace: Vec<Arc<Self>> = in_namespace.collect();
        self.drain()?;
        let stopped = in_namespace
            .iter()
            .try_for_each(|monitor| monitor.socket.socket_ref().drop_membership(GROUP_NFTABLES));
        let replaced = stopped.map_err(E::from).and_then(|()| replace(context));
        // all of them, also when one fails
        let follows = in_namespace
            .iter()
            .map(|monitor| monitor.socket.socket_ref().add_membership(GROUP_NFTABLES));
        follows.collect::<Vec<_>>().into_iter().collect::<io::Result<()>>()?;
        let replaced = replaced?;
        for monitor in in_namespace {
            monitor.elsewhere.notify_one();
            if !is_there(context, &monitor.table) {
                monitor.seen.notify_one();
            }
        }
        Ok(replaced)
    }

    /// What others have done until now is made up for.
    fn drain(&self) -> io::Result<()> {
        let mut buffer = Vec::new();
        loop {
            match receive(self.socket.socket_ref(), &mut buffer) {
                Ok(()) => {
                    self.note_changes(&buffer)?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if is_overrun(&error) => self.elsewhere.notify_one(),
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether a notification is about our table and not of our own doing. Of tables that are no
    /// engine's `changed_elsewhere` hears.
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

fn all() -> MutexGuard<'static, Vec<Weak<TableMonitor>>> {
    MONITORS.lock().unwrap_or_else(PoisonError::into_inner)
}
