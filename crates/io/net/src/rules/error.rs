//! What can go wrong with the rules in the kernel.

use std::io;

use rekindle_services::{Refusal, RuleElement};
use rustix::io::Errno;

/// A failed operation on the rules. The kernel is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum RuleError {
    /// The kernel has no nftables.
    #[error("this kernel has no nf_tables; load the module nf_tables")]
    Unsupported {
        /// What it said.
        #[source]
        source: io::Error,
    },
    /// The process may not change the rules.
    #[error("no permission to change nftables rules: CAP_NET_ADMIN is needed")]
    NoPermission {
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// Another process owns the table.
    #[error("another process owns nftables table {table}; stop the other engine with this bridge")]
    TableBusy {
        /// The table.
        table: String,
    },
    /// The kernel refused a table, chain, set or rule.
    #[error("put {object} into nftables table {table}")]
    Refused {
        /// What was refused.
        object: String,
        /// Where.
        table: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The kernel refused an element.
    #[error("{operation} {} in nftables table {table}", describe(element))]
    ElementRefused {
        /// `add` or `remove`.
        operation: &'static str,
        /// The element.
        element: Box<RuleElement>,
        /// Where.
        table: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No packet has addresses of both families.
    #[error("{}: its addresses are of two IP families", describe(element))]
    MixedFamilies {
        /// The element.
        element: Box<RuleElement>,
    },
    /// The configuration cannot work.
    #[error(
        "rules for bridge {bridge:?}: the name of an interface has 1 to 15 characters without / and spaces"
    )]
    BridgeName {
        /// As given.
        bridge: String,
    },
    /// The kernel's notifications cannot be read.
    #[error("read notifications of nftables")]
    Monitor(#[from] io::Error),
    /// The socket to the kernel failed.
    #[error("{operation}")]
    Socket {
        /// `open netlink socket`, `read nftables set endpoints`, …
        operation: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The kernel has something in our table that is not ours.
    #[error("read nftables set {set}: {problem}")]
    Unreadable {
        /// The set.
        set: String,
        /// What is wrong.
        problem: String,
    },
}

impl RuleError {
    /// The element that keeps all others from being written. `None`: it is not because of one.
    pub fn refused_element(&self) -> Option<&RuleElement> {
        match self {
            // a table that has no room refuses whatever comes next
            Self::ElementRefused { source, .. } if is_lack_of_room(source) => None,
            Self::ElementRefused { operation: "add", element, .. }
            | Self::MixedFamilies { element } => Some(element),
            Self::ElementRefused { .. }
            | Self::Unsupported { .. }
            | Self::NoPermission { .. }
            | Self::TableBusy { .. }
            | Self::Refused { .. }
            | Self::BridgeName { .. }
            | Self::Monitor(_)
            | Self::Socket { .. }
            | Self::Unreadable { .. } => None,
        }
    }
}

fn is_lack_of_room(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    error.kind() == io::ErrorKind::OutOfMemory
        || matches!(errno, Some(Errno::NOBUFS | Errno::NFILE | Errno::NOSPC))
}

/// The element as an error names it.
pub(super) fn describe(element: &RuleElement) -> String {
    match element {
        RuleElement::Pick(view, pick) => {
            let sticky = pick.sticky_s.map(|time| format!(", sticky for {time} s"));
            format!("{view} (endpoints: {}{})", pick.endpoints, sticky.unwrap_or_default())
        }
        RuleElement::Endpoint(view, number, endpoint) => {
            format!("endpoint {endpoint}, number {number} of {view}")
        }
        RuleElement::Member(frontend, endpoint) => {
            format!("sticky endpoint {endpoint} of {frontend}")
        }
        RuleElement::Refused(frontend, Refusal::Reject) => format!("rejection of {frontend}"),
        RuleElement::Refused(frontend, Refusal::Drop) => format!("drop of {frontend}"),
        RuleElement::OnOtherNodes(frontend, clients) => format!("drop of {frontend} of {clients}"),
        RuleElement::Guarded(frontend) => format!("guard of {frontend}"),
        RuleElement::Source(frontend, range) => {
            format!("source {}/{} of {frontend}", range.network, range.prefix)
        }
        RuleElement::Held(view) => format!("wait at {view}"),
        RuleElement::HostPort(frontend) => format!("host port {frontend}"),
        RuleElement::Hairpin(address) => format!("hairpin of {address}"),
    }
}
