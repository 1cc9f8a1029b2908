//! The table as the kernel and `nft` have it.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rekindle_net::rules::{PolicyTable, RuleError, RuleTable, TableOwnership};
use rekindle_services::{
    ClientView, Frontend, Refusal, RuleChanges, RuleElement, RuleElements, TransportProtocol,
};

use crate::services::support::*;
use crate::support::Namespace;

#[test]
fn nft_lists_the_table() {
    let machine = Machine::new(1);
    machine.host.block_on(|| async {
        let mut elements = service(tcp("10.96.0.1:80"), &[0, 1, 2]);
        elements.extend(sticky_service(udp("10.96.0.2:53"), &[0, 1], 10_800));
        elements.extend(sticky_service(tcp("0.0.0.0:30080"), &[0], 60));
        elements.insert(RuleElement::Refused(tcp("10.96.0.3:80"), Refusal::Reject));
        elements.insert(RuleElement::Refused(tcp("0.0.0.0:30081"), Refusal::Drop));
        elements.insert(RuleElement::Held(tcp("10.96.0.3:80").into()));
        let range = rekindle_services::SourceRange::parse("192.0.2.0/24").unwrap();
        elements.insert(RuleElement::Guarded(tcp("10.96.0.3:80")));
        elements.insert(RuleElement::Source(tcp("10.96.0.3:80"), range));
        elements.insert(RuleElement::HostPort(tcp("127.0.0.1:8000")));
        let web = tcp("10.96.0.1:80");
        elements.extend(by_client(web, "10.88.0.0/17", &[endpoint(1), endpoint(2)]));
        elements.extend(by_client(web, "10.88.128.0/24", &[]));
        let _table = table_with(&elements).await;
        let listed = machine.host.run("nft", "list ruleset");
        for expected in [
            "10.96.0.2 . udp . 53 : 0x00002a30 . 0x00000002 . 0x00000001",
            "10.96.0.1 . tcp . 80 . 0x00000001 : 10.88.0.3 . 8080",
            "0.0.0.0 . tcp . 30080 . 10.88.0.2 . 8080",
            "0x00000003 . 0x00000000 : goto pick-3",
            "dnat ip to ip daddr . meta l4proto . th dport . numgen random mod 3 map @endpoints",
            "ct state new ip daddr . meta l4proto . th dport @rejected goto turn-away",
            // nft shows the target, a queue, only where the extensions of x_tables are installed
            "ct state new ip daddr . meta l4proto . th dport @held",
            "iifname \"rktest0\" ip daddr 127.0.0.0/8 drop",
            "iifname != \"lo\" ip daddr 127.0.0.0/8 ip daddr . meta l4proto . th dport @host-ports drop",
            "ct status dnat ip saddr . ip daddr @hairpins masquerade",
            "10.96.0.1 . tcp . 80 . 10.88.0.0 . 0x00110001 : 10.88.0.4 . 8080",
            "10.96.0.1 . tcp . 80 . 10.88.0.0 : 0x00000000 . 0x00000002 . 0x00000022",
            "0x00000002 . 0x00000022 : goto pick-2-by-client-17",
            "10.96.0.1 . tcp . 80 . 10.88.128.0 . 255.255.255.0",
            "numgen random mod 2 offset 1114112 map @endpoints-by-client",
        ] {
            assert!(listed.contains(expected), "{expected} in\n{listed}");
        }
    });
}

#[test]
fn removal_leaves_the_ruleset_as_it_was() {
    let machine = Machine::new(1);
    let theirs = "table inet theirs {
        set s { type ipv4_addr; elements = { 10.0.0.1 }; }
        chain c { type filter hook input priority 0; ip saddr @s drop; }
    }";
    machine.host.inside(|| {
        let path = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(path.path(), theirs).unwrap();
        machine.host.run("nft", &format!("-f {}", path.path().display()));
    });
    machine.host.block_on(|| async {
        let before = machine.host.run("nft", "list ruleset");
        let table = table_with(&service(tcp("10.96.0.1:80"), &[0])).await;
        assert_ne!(machine.host.run("nft", "list ruleset"), before);
        let route_localnet =
            || std::fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{BRIDGE}/route_localnet"));
        assert_eq!(machine.host.inside(|| route_localnet().unwrap()), "1\n");
        table.remove().await.unwrap();
        assert_eq!(machine.host.run("nft", "list ruleset"), before);
        assert_eq!(machine.host.inside(|| route_localnet().unwrap()), "0\n");
        table.remove().await.unwrap();
    });
}

fn shared() -> rekindle_net::rules::RuleTableConfig {
    rekindle_net::rules::RuleTableConfig { ownership: TableOwnership::Shared, ..config() }
}

#[test]
fn removal_leaves_no_flow_of_a_pod() {
    let machine = Machine::new(2);
    machine.serve_tcp();
    let flows = || {
        let count = std::fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_count");
        count.unwrap().trim().parse::<usize>().unwrap()
    };
    // what follows connections when the table is gone, as Docker's rules do
    machine.host.run("nft", "add table inet theirs");
    machine.host.run("nft", "add chain inet theirs c { type filter hook input priority 0; }");
    machine.host.run("nft", "add rule inet theirs c ct state established accept");
    // a packet that comes late, such as the last one of a connection, makes no flow
    machine.host.inside(|| {
        std::fs::write("/proc/sys/net/netfilter/nf_conntrack_tcp_loose", "0").unwrap();
    });
    machine.host.block_on(|| async {
        let table = table_with(&service(tcp("10.96.0.1:80"), &[0])).await;
        machine.host.inside(|| connect_here("10.96.0.1:80")).unwrap();
        machine.pods[1].inside(|| connect_here("10.96.0.1:80")).unwrap();
        assert!(machine.host.inside(flows) > 0);
        table.remove().await.unwrap();
        assert_eq!(machine.host.inside(flows), 0);
    });
}

#[test]
fn a_flush_by_others_is_noticed_and_replaced() {
    let host = Namespace::new();
    host.block_on(|| async {
        let elements = service(tcp("10.96.0.1:80"), &[0, 1]);
        let table = RuleTable::open(shared()).unwrap();
        table.replace(&elements).await.unwrap();
        for command in [
            "flush ruleset",
            "delete table inet rekindle-rktest0",
            "flush map inet rekindle-rktest0 endpoints",
            "flush chain inet rekindle-rktest0 route",
            "add element inet rekindle-rktest0 rejected { 10.96.0.1 . tcp . 80 }",
        ] {
            let changed = table.changed_by_others();
            tokio::pin!(changed);
            // what we do ourselves and what others do elsewhere is none of its business
            table.apply(&RuleChanges::between(&elements, &RuleElements::new())).await.unwrap();
            table.apply(&RuleChanges::between(&RuleElements::new(), &elements)).await.unwrap();
            table.replace(&elements).await.unwrap();
            host.run("nft", "add table inet theirs");
            host.run("nft", "delete table inet theirs");
            assert!(futures::poll!(&mut changed).is_pending(), "{command}");
            host.run("nft", command);
            changed.await.unwrap();
            table.replace(&elements).await.unwrap();
            assert_eq!(table.read_back().await.unwrap(), elements, "{command}");
        }
    });
}

/// While one table is replaced, the monitor of another sees nothing.
#[test]
fn a_table_that_is_gone_when_another_has_been_replaced_is_reported() {
    let host = Namespace::new();
    host.block_on(|| async {
        let services = RuleTable::open(shared()).unwrap();
        let stack = rekindle_types::IpStack::Single;
        let policies = PolicyTable::open(BRIDGE, stack, TableOwnership::Shared).unwrap();
        policies.replace(&Default::default()).unwrap();
        services.replace(&RuleElements::new()).await.unwrap();
        let of_policies = policies.changed_by_others();
        tokio::pin!(of_policies);
        assert!(futures::poll!(&mut of_policies).is_pending());
        services.changed_by_others().await.expect("there was no table of Services before");
        let of_services = services.changed_by_others();
        tokio::pin!(of_services);
        policies.replace(&Default::default()).unwrap();
        assert!(futures::poll!(&mut of_services).is_pending());
        services.remove().await.unwrap();
        policies.replace(&Default::default()).unwrap();
        of_services.await.unwrap();
    });
}

#[test]
fn a_table_that_is_owned_outlives_a_flush_and_is_refused_to_a_second_engine() {
    let host = Namespace::new();
    host.block_on(|| async {
        let elements = service(tcp("10.96.0.1:80"), &[0, 1]);
        let table = table_with(&elements).await;
        host.run("nft", "flush ruleset");
        assert_eq!(table.read_back().await.unwrap(), elements);
        let second = RuleTable::open(config()).unwrap();
        let refused = second.replace(&RuleElements::new()).await.unwrap_err();
        assert!(matches!(refused, RuleError::TableBusy { .. }), "{refused}");
        let other = RuleTable::open(rekindle_net::rules::RuleTableConfig {
            bridge: "rktest1".to_owned(),
            ..config()
        });
        let other = other.unwrap();
        let others = service(tcp("10.97.0.1:80"), &[0]);
        other.replace(&others).await.unwrap();
        other.remove().await.unwrap();
        assert_eq!(table.read_back().await.unwrap(), elements);
        // as after a kill -9: the rules stay, and the next engine takes them over
        drop(table);
        assert_eq!(second.read_back().await.unwrap(), elements);
        second.replace(&others).await.unwrap();
        assert_eq!(second.read_back().await.unwrap(), others);
    });
}

#[test]
fn an_error_names_the_element_and_changes_nothing() {
    let host = Namespace::new();
    host.block_on(|| async {
        let elements = service(tcp("10.96.0.1:80"), &[0, 1]);
        let table = table_with(&elements).await;
        let absent = RuleElement::Endpoint(tcp("10.96.0.1:80").into(), 7, endpoint(7));
        let mut removed: Vec<RuleElement> = elements.iter().copied().collect();
        removed.insert(3, absent);
        let added = service(tcp("10.96.0.2:80"), &[0]).into_iter().collect();
        let error = table.apply(&RuleChanges { removed, added }).await.unwrap_err();
        let said = error.to_string();
        assert_eq!(
            said,
            "remove endpoint 10.88.0.9:8080, number 7 of 10.96.0.1:80/TCP in nftables table \
             rekindle-rktest0"
        );
        assert_eq!(table.read_back().await.unwrap(), elements);
        let [frontend, second] = ["10.96.0.1:80", "[fd00::1]:80"];
        let mixed = RuleElement::Endpoint(tcp(frontend).into(), 0, second.parse().unwrap());
        let error = table.replace(&RuleElements::from([mixed])).await.unwrap_err();
        let said = "endpoint [fd00::1]:80, number 0 of 10.96.0.1:80/TCP: its addresses are of two \
                    IP families";
        assert_eq!(error.to_string(), said);
        assert_eq!(table.read_back().await.unwrap(), elements);
    });
}

#[test]
fn an_element_that_the_kernel_refuses_is_named_and_the_others_are_written_without_it() {
    let host = Namespace::new();
    host.block_on(|| async {
        let frontend = tcp("10.96.0.1:80");
        let mut elements = service(frontend, &[0, 1]);
        elements.extend(service(tcp("10.96.0.2:80"), &[0]));
        let (table, before) = (table_with(&elements).await, elements.clone());
        // one key of a map leads to one number of endpoints only
        let twice = RuleElement::Pick(frontend.into(), pick(7, None));
        elements.insert(twice);
        let error = table.replace(&elements).await.unwrap_err();
        let RuleError::ElementRefused { source, .. } = &error else { panic!("{error}") };
        assert_eq!(source.raw_os_error(), Some(17), "EEXIST: {source}");
        assert_eq!(error.refused_element(), Some(&twice));
        assert_eq!(table.read_back().await.unwrap(), before);
        let refused = error.refused_element().unwrap().frontend();
        elements.retain(|element| element.frontend() != refused);
        table.replace(&elements).await.unwrap();
        assert_eq!(table.read_back().await.unwrap(), elements);
    });
}

fn frontends() -> impl Strategy<Value = Frontend> {
    let protocol = prop::sample::select(TransportProtocol::ALL.to_vec());
    let address = prop_oneof![Just(Ipv4Addr::UNSPECIFIED), any::<u32>().prop_map(Ipv4Addr::from)];
    (address, protocol, any::<u16>()).prop_map(|(address, protocol, port)| Frontend {
        address: address.into(),
        protocol,
        port,
    })
}

/// What the rules say of one frontend.
fn entries() -> impl Strategy<Value = Vec<RuleElement>> {
    let endpoint = (any::<u32>(), any::<u16>())
        .prop_map(|(address, port)| SocketAddr::from((Ipv4Addr::from(address), port)));
    let endpoints = prop::collection::btree_set(endpoint, 0..6);
    let sticky = prop_oneof![Just(None), prop::sample::select(vec![Some(60), Some(10_800)])];
    let clients = (any::<u32>(), 1_u8..=32, 0_usize..6);
    (frontends(), endpoints, sticky, any::<bool>(), clients).prop_map(
        |(frontend, endpoints, sticky, drop, (client, prefix, near))| {
            let refusal = if drop { Refusal::Drop } else { Refusal::Reject };
            if endpoints.is_empty() {
                return vec![RuleElement::Refused(frontend, refusal)];
            }
            let mut elements =
                vec![RuleElement::Pick(frontend.into(), pick(endpoints.len(), sticky))];
            for (number, endpoint) in (0..).zip(&endpoints) {
                elements.push(RuleElement::Endpoint(frontend.into(), number, *endpoint));
                elements.push(RuleElement::Hairpin(endpoint.ip()));
                elements.extend(sticky.map(|_| RuleElement::Member(frontend, *endpoint)));
            }
            let clients = format!("{}/{prefix}", Ipv4Addr::from(client));
            let near: Vec<SocketAddr> = endpoints.into_iter().take(near).collect();
            elements.extend(by_client(frontend, &clients, &near));
            elements
        },
    )
}

#[test]
fn what_is_read_back_is_what_was_applied() {
    let host = Namespace::new();
    host.block_on(|| async {
        let table = table_with(&RuleElements::new()).await;
        let states = prop::collection::vec(prop::collection::vec(entries(), 0..12), 2..6);
        let mut runner = TestRunner::new(Config { cases: 48, ..Config::default() });
        // a runtime inside the runtime of this thread: on a thread of its own, in the namespace
        let run = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.unwrap();
            runner.run(&states, |states| {
                runtime.block_on(table.replace(&RuleElements::new())).unwrap();
                let mut before = RuleElements::new();
                for entries in states {
                    let mut seen = BTreeSet::new();
                    let after: RuleElements = entries
                        .into_iter()
                        .filter(|entry| match entry[0] {
                            RuleElement::Pick(ClientView { frontend, .. }, _)
                            | RuleElement::Refused(frontend, _) => seen.insert(frontend),
                            _ => false,
                        })
                        .flatten()
                        .collect();
                    runtime
                        .block_on(table.apply(&RuleChanges::between(&before, &after)))
                        .map_err(|error| TestCaseError::fail(error.to_string()))?;
                    prop_assert_eq!(&runtime.block_on(table.read_back()).unwrap(), &after);
                    before = after;
                }
                Ok(())
            })
        };
        host.inside(run).unwrap();
    });
}

#[test]
fn five_thousand_services_are_one_transaction() {
    let host = Namespace::new();
    host.block_on(|| async {
        let elements: RuleElements = (0..5000u32)
            .flat_map(|number| {
                let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 96, 0, 1)) + number);
                service(tcp(&format!("{address}:80")), &[0, 1, 2, 3, 4])
            })
            .collect();
        let table = table_with(&elements).await;
        assert_eq!(table.read_back().await.unwrap(), elements);
        let changed = table.changed_by_others();
        tokio::pin!(changed);
        assert!(futures::poll!(&mut changed).is_pending());
        table.replace(&elements).await.unwrap();
        assert!(futures::poll!(&mut changed).is_pending(), "our own notifications");
    });
}

#[test]
fn ranges_that_are_added_reject_vacant_addresses_and_renew_the_table_in_place() {
    let machine = Machine::new(1);
    machine.serve_tcp();
    machine.host.ip(&format!("route add 10.112.0.0/24 dev {BRIDGE}"));
    machine.host.block_on(|| async {
        let elements = service(tcp("10.112.0.1:80"), &[0]);
        let table = table_with(&elements).await;
        let header = || {
            let listed = machine.host.run("nft", "-a list table inet rekindle-rktest0");
            listed.lines().next().unwrap().to_owned()
        };
        let before = header();
        assert!(before.contains("# handle"), "{before}");
        table.serve_ranges(vec!["10.112.0.0/24".parse().unwrap()]);
        assert_eq!(table.replace(&elements).await.unwrap(), RuleChanges::default());
        assert_eq!(header(), before);
        assert_eq!(connect(&machine.host, "10.112.0.1:80").unwrap().pod, 0);
        for from in [&machine.host, &machine.pods[0]] {
            let vacant = connect(from, "10.112.0.9:80").map(drop).unwrap_err();
            assert_eq!(vacant.kind(), std::io::ErrorKind::ConnectionRefused);
        }
        // the engine's own range stays as it is
        let vacant = connect(&machine.host, "10.96.0.9:80").map(drop).unwrap_err();
        assert_eq!(vacant.kind(), std::io::ErrorKind::ConnectionRefused);
        table.serve_ranges(Vec::new());
        table.replace(&elements).await.unwrap();
        assert_eq!(table.read_back().await.unwrap(), elements);
        let rules = machine.host.run("nft", "list ruleset");
        assert!(!rules.contains("10.112.0.0/24"), "{rules}");
    });
}
