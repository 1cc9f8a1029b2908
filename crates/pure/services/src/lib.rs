//! Where the packets of Services go: Services and EndpointSlices in, elements of the node's rules
//! out. No IO, no clock: a driver puts the elements into the kernel and tells when that is done.
#![forbid(unsafe_code)]

mod frontend;
mod routed;
mod router;
mod rules;
mod service_ranges;
mod source_range;

pub use frontend::{ClientView, Clients, Frontend, HostPort, TransportProtocol};
pub use router::{
    ContestedPort, HealthCheck, ServiceIdentity, ServiceRouter, WithdrawalCause, host_ports_in,
};
pub use rules::{EndpointPick, Refusal, RuleChanges, RuleElement, RuleElements, StaleFlow};
pub use service_ranges::{MachineNetworks, RangeVerdict};
pub use source_range::SourceRange;
