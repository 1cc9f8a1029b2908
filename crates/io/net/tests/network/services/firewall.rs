//! Firewalls of others that drop what pods send.

use std::io::Write;

use rekindle_net::rules::dropping_firewalls;

use super::support::{BRIDGE, table_with};
use crate::support::Namespace;

/// Loads rules and answers what is found then: each firewall with its remedy.
fn found_with(rules: &str) -> Vec<String> {
    let host = Namespace::new();
    host.inside(|| {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        // nft wants its braces on lines of their own
        let lines = rules.replace('{', "{\n").replace('}', "\n}\n");
        file.write_all(lines.as_bytes()).unwrap();
        let loaded = std::process::Command::new("nft").arg("-f").arg(file.path()).status();
        assert!(loaded.unwrap().success(), "{rules}");
        let found = dropping_firewalls(BRIDGE).unwrap();
        found.iter().map(|found| format!("{found}: {}", found.remedy())).collect()
    })
}

#[test]
fn a_firewall_that_drops_packets_of_pods_is_named_with_what_helps() {
    let drops_input = "type filter hook input priority 0; policy drop;";
    let drops = "type filter hook forward priority 0; policy drop;";
    for (rules, expected) in [
        (
            format!("table ip filter {{ chain DOCKER-USER {{ }} chain FORWARD {{ {drops} jump DOCKER-USER; }} }}"),
            "Docker's firewall: iptables -I DOCKER-USER -i rktest0 -j ACCEPT && iptables -I DOCKER-USER -o rktest0 -j ACCEPT",
        ),
        (
            format!("table ip filter {{ chain ufw-before-forward {{ }} chain FORWARD {{ {drops} }} }}"),
            "ufw: ufw allow in on rktest0 && ufw route allow in on rktest0 && ufw route allow out on rktest0",
        ),
        (
            "table inet firewalld { chain filter_FORWARD { type filter hook forward priority 10; reject; } }".to_owned(),
            "firewalld: firewall-cmd --permanent --zone=trusted --add-interface=rktest0 && firewall-cmd --reload",
        ),
        (
            format!("table ip filter {{ chain DOCKER-USER {{ }} chain FORWARD {{ {drops} }} chain INPUT {{ {drops_input} }} }}"),
            "Docker's firewall: iptables -I DOCKER-USER -i rktest0 -j ACCEPT && iptables -I DOCKER-USER -o rktest0 -j ACCEPT \
             && iptables -I INPUT -i rktest0 -j ACCEPT",
        ),
        (
            format!("table inet mine {{ chain i {{ {drops_input} }} }}"),
            "a firewall: accept packets from rktest0 in table mine",
        ),
        (
            format!("table inet mine {{ chain i {{ {drops_input} }} chain f {{ {drops} }} }}"),
            "a firewall: accept packets from and to rktest0 in table mine",
        ),
        (
            format!("table inet mine {{ chain f {{ {drops} }} }}"),
            "a firewall: accept forwarded packets from and to rktest0 in table mine",
        ),
    ] {
        assert_eq!(found_with(&rules), [expected], "{rules}");
    }
}

#[test]
fn one_that_knows_the_bridge_or_lets_packets_pass_is_not() {
    let chain = |policy: &str, rules: &str| {
        format!(
            "table ip filter {{ chain FORWARD {{ type filter hook forward priority 0; policy {policy}; {rules} }} }}"
        )
    };
    for rules in [
        chain("accept", ""),
        chain("drop", "iifname \"rktest0\" accept; oifname \"rktest0\" accept;"),
        "table ip filter { chain OUTPUT { type filter hook output priority 0; policy drop; } }"
            .to_owned(),
    ] {
        assert_eq!(found_with(&rules), [""; 0], "{rules}");
    }
    // the bridge has a longer name
    let other = chain("drop", "iifname \"rktest01\" accept;");
    assert_eq!(found_with(&other).len(), 1);
    Namespace::new().block_on(|| async {
        let _table = table_with(&Default::default()).await;
        assert_eq!(dropping_firewalls(BRIDGE).unwrap(), [], "our own table");
    });
}
