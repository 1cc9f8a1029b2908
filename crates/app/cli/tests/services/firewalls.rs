//! Firewalls of the machine that drop what pods send.

use std::process::Command;

use rekindle_testkit::Engine;

/// A table that drops what goes from a bridge to itself, and nothing of others. It is gone when the
/// test ends, also when the test fails.
struct Firewall {
    table: String,
}

impl Firewall {
    fn start(bridge: &str) -> Self {
        let firewall = Self { table: format!("inet firewall-{bridge}") };
        let table = &firewall.table;
        let hook = "type filter hook forward priority 500; policy drop;";
        nft(&[
            &format!("add table {table}"),
            &format!("add chain {table} forward {{ {hook} }}"),
            &format!("add rule {table} forward oifname != {bridge} accept"),
            &format!("add rule {table} forward iifname != {bridge} accept"),
        ]);
        firewall
    }
}

impl Drop for Firewall {
    fn drop(&mut self) {
        nft(&[&format!("delete table {}", self.table)]);
    }
}

/// Makes these changes together.
fn nft(commands: &[&str]) {
    let changed = Command::new("nft").arg(commands.join("; ")).status().unwrap();
    assert!(changed.success(), "{commands:?}");
}

#[test]
fn one_that_starts_after_the_engine_is_named_in_an_event_of_the_node() {
    let engine = Engine::start();
    let nodes = engine.items("nodes");
    let node = nodes[0]["metadata"]["name"].as_str().unwrap();
    let bridge = engine.bridge();
    let _firewall = Firewall::start(bridge);
    let remedy = format!(
        "What helps: accept forwarded packets from {bridge} and forwarded packets to {bridge} in table inet firewall-{bridge}"
    );
    engine.wait_for_event(node, "FirewallDropsPackets", &remedy);
}
