//! One of the engine's tables: its name, the socket that changes it, and its owner.

use std::io;

use netlink_packet_core::NlasIterator;
use netlink_packet_netfilter::nftables::{
    NfTablesMessage, TableAttribute, TableFlags, TableMessage,
};
use rustix::io::Errno;

use crate::links;
use crate::rules::batch::{RuleBatch, of_table};
use crate::rules::error::RuleError;
use crate::rules::socket::NetfilterSocket;
use crate::rules::{TableOwnership, failed};

/// How the names of all engines' tables begin. They are of the family `inet`.
pub(super) const NAME_BEGIN: &str = "rekindle-";

/// See the module.
pub(super) struct OwnedTable {
    pub(super) name: String,
    pub(super) socket: NetfilterSocket,
    pub(super) flags: TableFlags,
}

impl OwnedTable {
    /// The table that is called after the bridge, with this at the end of its name. Looks whether
    /// the kernel can do it, and changes nothing.
    pub(super) fn open(
        bridge: &str,
        suffix: &str,
        ownership: TableOwnership,
    ) -> Result<Self, RuleError> {
        if !links::is_name(bridge) {
            return Err(RuleError::BridgeName { bridge: bridge.to_owned() });
        }
        let socket = NetfilterSocket::open().map_err(unavailable)?;
        let flags = match ownership {
            TableOwnership::Exclusive => TableFlags::Owner | TableFlags::Persisent,
            TableOwnership::Shared => TableFlags::empty(),
        };
        let mut table = Self { name: format!("{NAME_BEGIN}{bridge}{suffix}"), socket, flags };
        ask(&mut table.socket, &table.name).map_err(unavailable)?;
        Ok(table)
    }

    /// Whether this table of an engine is in the kernel.
    pub(super) fn has_table(&mut self, name: &str) -> bool {
        matches!(ask(&mut self.socket, name), Ok(Some(_)))
    }

    /// The description of the table in the kernel, as its bytes.
    pub(super) fn look_up(&mut self) -> Result<Option<Vec<u8>>, RuleError> {
        let asked = ask(&mut self.socket, &self.name);
        asked.map_err(|source| failed("look for nftables table", source))
    }

    /// Whether the kernel refused the flags: an earlier one knows no owners that leave their table
    /// behind.
    pub(super) fn is_unknown_flag(&self, error: &io::Error) -> bool {
        let errno = Errno::from_io_error(error);
        !self.flags.is_empty() && matches!(errno, Some(Errno::OPNOTSUPP | Errno::INVAL))
    }

    /// Does without an owner from now on.
    pub(super) fn share(&mut self) {
        tracing::debug!(table = self.name, "this kernel has no owners of nftables tables");
        self.flags = TableFlags::empty();
    }

    /// Removes the table. Absent is success.
    pub(super) fn remove(&mut self) -> Result<(), RuleError> {
        if self.look_up()?.is_none() {
            return Ok(());
        }
        let mut batch = RuleBatch::new(&self.name);
        batch.delete_table();
        batch.commit(&mut self.socket)
    }
}

fn ask(socket: &mut NetfilterSocket, table: &str) -> io::Result<Option<Vec<u8>>> {
    const USER_DATA: u16 = 6;
    let attributes = vec![TableAttribute::Name(table.to_owned())];
    let get = of_table(NfTablesMessage::GetTable(TableMessage { attributes }));
    let answer = match socket.ask(get) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => return Ok(None),
        answer => answer?,
    };
    let mut attributes = NlasIterator::new(answer.as_slice()).filter_map(Result::ok);
    let description = attributes.find(|attribute| attribute.kind() == USER_DATA);
    Ok(Some(description.map(|found| found.value().to_vec()).unwrap_or_default()))
}

/// Why nftables cannot be used at all.
fn unavailable(source: io::Error) -> RuleError {
    match Errno::from_io_error(&source) {
        Some(Errno::PERM | Errno::ACCESS) => RuleError::NoPermission { source },
        // no netfilter, no netlink of it, no nf_tables
        Some(Errno::PROTONOSUPPORT | Errno::AFNOSUPPORT | Errno::INVAL | Errno::OPNOTSUPP) => {
            RuleError::Unsupported { source }
        }
        _ => failed("open netlink socket to nftables", source),
    }
}
