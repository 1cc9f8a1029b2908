//! Services in real network namespaces: rules in the kernel, and connections through them.

mod affinity;
mod changes;
mod firewall;
mod held;
mod host_ports;
mod ipv6;
mod known_failures;
mod routing;
mod sources;
mod support;
mod table;
