//! Which packets NetworkPolicies let through: policies, namespaces and pods in, elements of the
//! node's rules out. No IO, no clock: a driver puts the elements into the kernel.
//!
//! ```text
//!  pod's address ──► class as the pod that is entered or left ┐
//!  peer's address ─► class as a peer ─────────────────────────┴─► allowed? at which ports?
//! ```
//! Pods that the same rules select are of one class, and so are peers that the same selectors
//! select. What is allowed is said of classes. So a pod that comes or goes is an element for each
//! class of its address, as long as other pods are of that class already (docs/adr/0061).
#![forbid(unsafe_code)]

mod class;
mod element;
mod peer_pod;
mod policies;
mod policy_rule;
mod range;

pub use class::ClassNumber;
pub use element::{PolicyChanges, PolicyElement, PolicyElements};
pub use peer_pod::PeerPod;
pub use policies::NetworkPolicies;
pub use range::{AddressRange, PortRange};
