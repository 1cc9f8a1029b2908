//! What has failed in other writers of such rules. That UDP flows move when an endpoint is gone is
//! in `changes`, that a refused element leaves all others is in `table`.

use std::io::ErrorKind;
use std::net::TcpListener;

use rekindle_net::rules::{RuleTable, RuleTableConfig, TableOwnership};
use rekindle_services::{Refusal, RuleChanges, RuleElement, RuleElements};

use crate::services::support::*;
use crate::support::Namespace;

const TABLE: &str = "inet rekindle-rktest0";

fn refused(address: &str) -> RuleElement {
    RuleElement::Refused(tcp(address), Refusal::Reject)
}

/// kubernetes#139513: each change first listed the whole table.
#[test]
fn a_change_touches_its_own_elements_and_reads_no_others() {
    let host = Namespace::new();
    host.block_on(|| async {
        let config = RuleTableConfig { ownership: TableOwnership::Shared, ..config() };
        let before = service(tcp("10.96.0.1:80"), &[0, 1]);
        let table = RuleTable::open(config).unwrap();
        table.replace(&before).await.unwrap();
        // what a list would find, and could not even read
        host.run("nft", &format!("add element {TABLE} rejected {{ 10.96.0.9 . tcp . 80 }}"));
        host.run("nft", &format!("add element {TABLE} rejected {{ 10.96.0.8 . icmp . 0 }}"));
        let after = service(tcp("10.96.0.1:80"), &[1, 2]);
        table.apply(&RuleChanges::between(&before, &after)).await.unwrap();
        let listed = host.run("nft", &format!("list set {TABLE} rejected"));
        assert!(listed.contains("10.96.0.9") && listed.contains("10.96.0.8"), "{listed}");
        table.read_back().await.unwrap_err();
        table.replace(&after).await.unwrap();
        assert_eq!(table.read_back().await.unwrap(), after);
    });
}

/// kubernetes#112604 and #139515: what a failed transaction was to change was forgotten, or tried
/// again 30 s later.
#[test]
fn after_a_change_that_failed_all_rules_are_written_at_once() {
    let host = Namespace::new();
    host.block_on(|| async {
        let before = service(tcp("10.96.0.1:80"), &[0, 1]);
        let table = table_with(&before).await;
        let after: RuleElements = &service(tcp("10.96.0.2:80"), &[0]) | &before;
        let mut changes = RuleChanges::between(&before, &after);
        changes.removed.push(refused("10.96.0.7:80"));
        table.apply(&changes).await.unwrap_err();
        assert_eq!(table.read_back().await.unwrap(), before, "nothing of it is there");
        let made = table.replace(&after).await.unwrap();
        assert_eq!(made, RuleChanges::between(&before, &after), "only what lacked");
        assert_eq!(table.read_back().await.unwrap(), after);
    });
}

/// Rules that a process before has left must not win over those of now.
#[test]
fn rules_of_an_engine_before_lead_nowhere_once_the_next_one_has_written() {
    let machine = Machine::new(2);
    machine.serve_tcp();
    machine.host.block_on(|| async {
        let elsewhere = service(tcp("10.96.0.2:80"), &[1]);
        drop(table_with(&(&service(tcp("10.96.0.1:80"), &[0]) | &elsewhere)).await);
        assert_eq!(connect(&machine.host, "10.96.0.1:80").unwrap().pod, 0, "they go on");
        let now = service(tcp("10.96.0.1:80"), &[1]);
        let table = table_with(&now).await;
        assert_eq!(table.read_back().await.unwrap(), now);
        assert_eq!(connect(&machine.host, "10.96.0.1:80").unwrap().pod, 1);
        let vacant = connect(&machine.host, "10.96.0.2:80").map(drop).unwrap_err();
        assert_eq!(vacant.kind(), ErrorKind::ConnectionRefused);
    });
}

/// UDP without an endpoint was sent on to one that was gone, for as long as packets came.
#[test]
fn a_udp_client_is_refused_while_there_is_no_endpoint_and_answered_again_after_it() {
    let machine = Machine::new(3);
    machine.serve_udp();
    machine.host.block_on(|| async {
        let dns = udp("10.96.0.1:53");
        let (first, second) = (service(dns, &[1]), service(dns, &[2]));
        let none = RuleElements::from([RuleElement::Refused(dns, Refusal::Reject)]);
        let table = table_with(&first).await;
        let client = udp_client(&machine.pods[0], "10.96.0.1:53");
        assert_eq!(ask(&client).unwrap(), 1);
        for (before, after) in [(&first, &none), (&none, &second)] {
            let changes = RuleChanges::between(before, after);
            table.apply(&changes).await.unwrap();
            table.forget_udp_flows(&changes.stale_flows()).await.unwrap();
            match after == &none {
                true => {
                    let refused = ask(&client).unwrap_err();
                    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
                }
                false => assert_eq!(ask(&client).unwrap(), 2),
            }
        }
    });
}

/// kubernetes#134024: a rule with a wildcard for interfaces failed, and all others with it.
#[test]
fn an_interface_that_is_called_as_the_bridge_and_more_is_another_one() {
    let machine = Machine::new(1);
    let beyond = Namespace::new();
    let pid = beyond.path().iter().nth(2).unwrap().to_str().unwrap().to_owned();
    let longer = format!("{BRIDGE}1");
    machine.host.ip(&format!("link add {longer} type veth peer name eth0 netns {pid}"));
    machine.host.ip(&format!("addr add 198.51.100.1/24 dev {longer}"));
    machine.host.ip(&format!("link set {longer} up"));
    beyond.ip("addr add 198.51.100.2/24 dev eth0");
    beyond.ip("link set eth0 up");
    beyond.ip("route add default via 198.51.100.1");
    let server = beyond.inside(|| TcpListener::bind("198.51.100.2:80").unwrap());
    machine.host.block_on(|| async {
        let _table = table_with(&RuleElements::new()).await;
        let client = machine.pods[0].inside(|| std::net::TcpStream::connect("198.51.100.2:80"));
        let came_from = server.accept().unwrap().1.ip();
        assert_eq!(came_from.to_string(), "198.51.100.1", "it has left by another interface");
        drop(client.unwrap());
        let rules = machine.host.run("nft", "list ruleset");
        assert!(!rules.contains("*\""), "a wildcard: {rules}");
    });
}
