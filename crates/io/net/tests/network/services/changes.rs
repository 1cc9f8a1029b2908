//! Endpoints that come and go while connections are made.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rekindle_net::rules::RuleTable;
use rekindle_services::{RuleChanges, RuleElements};

use crate::services::support::*;

const CONNECTIONS_MIN: usize = 4000;
const ROUNDS_MIN: usize = 200;
const ADDRESS: &str = "10.96.0.1:80";

/// Clients that connect one time after the other until told to stop or until a connection fails.
#[derive(Default)]
struct Load {
    stop: AtomicBool,
    made: AtomicUsize,
    failed: Mutex<Vec<String>>,
}

impl Load {
    fn connect_all_the_time(&self) {
        while !self.stop.load(Ordering::SeqCst) {
            match connect_here(ADDRESS) {
                Ok(_) => drop(self.made.fetch_add(1, Ordering::SeqCst)),
                Err(error) => {
                    let made = self.made.load(Ordering::SeqCst);
                    self.failed.lock().unwrap().push(format!("{error}, after {made} connections"));
                    self.stop.store(true, Ordering::SeqCst);
                }
            }
        }
    }

    fn goes_on(&self, rounds: usize) -> bool {
        let is_enough = rounds >= ROUNDS_MIN && self.made.load(Ordering::SeqCst) >= CONNECTIONS_MIN;
        !self.stop.load(Ordering::SeqCst) && !is_enough
    }
}

struct StopAtEnd<'a>(&'a Load);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::SeqCst);
    }
}

/// Changes the rules again and again while a pod and the host connect. `change` gets the table,
/// what it has and the number of the round, and returns what it has then.
fn under_load(
    before: RuleElements,
    change: impl AsyncFn(&RuleTable, &RuleElements, usize) -> RuleElements + Send + Sync,
) {
    let machine = Machine::new(5);
    machine.serve_tcp();
    let load = Load::default();
    let rounds = machine.host.block_on(|| async {
        let table = table_with(&before).await;
        let (mut elements, mut rounds) = (before, 0);
        std::thread::scope(|scope| {
            for from in [&machine.pods[0], &machine.host] {
                scope.spawn(|| from.inside(|| load.connect_all_the_time()));
            }
            let _stop = StopAtEnd(&load);
            let change_until_done = || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime = runtime.unwrap();
                while load.goes_on(rounds) {
                    elements = runtime.block_on(change(&table, &elements, rounds));
                    rounds += 1;
                }
            };
            machine.host.inside(change_until_done);
        });
        rounds
    });
    assert_eq!(load.failed.into_inner().unwrap(), Vec::<String>::new(), "in {rounds} rounds");
}

#[test]
fn no_connection_fails_while_endpoints_come_and_go() {
    let set_of = |round: usize| -> Vec<usize> {
        // 1 to 4 endpoints, another first one each time
        (0..=round % 4).map(|number| 1 + (round / 4 + number) % 4).collect()
    };
    under_load(service(tcp(ADDRESS), &set_of(0)), async |table, before, round| {
        let after = service(tcp(ADDRESS), &set_of(round + 1));
        table.apply(&RuleChanges::between(before, &after)).await.unwrap();
        after
    });
}

#[test]
fn no_connection_fails_while_the_whole_table_is_replaced() {
    under_load(service(tcp(ADDRESS), &[1, 2, 3]), async |table, before, _| {
        table.replace(before).await.unwrap();
        before.clone()
    });
}

#[test]
fn connections_outlive_the_endpoint_in_the_rules() {
    let machine = Machine::new(3);
    machine.serve_tcp();
    machine.host.block_on(|| async {
        let both = service(tcp(ADDRESS), &[1, 2]);
        let table = table_with(&both).await;
        let mut connections: Vec<Connection> =
            (0..20).map(|_| connect(&machine.pods[0], ADDRESS).unwrap()).collect();
        let one = service(tcp(ADDRESS), &[2]);
        table.apply(&RuleChanges::between(&both, &one)).await.unwrap();
        assert!(connections.iter_mut().all(Connection::echoes));
        assert!((0..20).all(|_| connect(&machine.pods[0], ADDRESS).unwrap().pod == 2));
        // nor does a new table end them
        table.replace(&one).await.unwrap();
        assert!(connections.iter().any(|connection| connection.pod == 1));
        assert!(connections.iter_mut().all(Connection::echoes));
    });
}

#[test]
fn a_udp_flow_moves_when_its_endpoint_is_gone() {
    let machine = Machine::new(3);
    machine.serve_udp();
    machine.host.block_on(|| async {
        let mut before = RuleElements::new();
        for address in ["10.96.0.1:53", "0.0.0.0:30053", "10.96.0.2:53"] {
            before.extend(service(udp(address), &[1]));
        }
        let table = table_with(&before).await;
        let clients = [
            udp_client(&machine.pods[0], "10.96.0.1:53"),
            udp_client(&machine.host, "10.96.0.1:53"),
            udp_client(&machine.outside, "192.0.2.1:30053"),
        ];
        let bystander = udp_client(&machine.pods[0], "10.96.0.2:53");
        assert!(clients.iter().chain([&bystander]).all(|client| ask(client).unwrap() == 1));
        let mut after = service(udp("10.96.0.1:53"), &[2]);
        after.extend(service(udp("0.0.0.0:30053"), &[2]));
        after.extend(service(udp("10.96.0.2:53"), &[1]));
        let changes = RuleChanges::between(&before, &after);
        table.apply(&changes).await.unwrap();
        assert!(clients.iter().all(|client| ask(client).unwrap() == 1), "a flow stays");
        let forgotten = table.forget_udp_flows(&changes.stale_flows()).await.unwrap();
        assert_eq!(forgotten, clients.len());
        assert!(clients.iter().all(|client| ask(client).unwrap() == 2));
        assert_eq!(ask(&bystander).unwrap(), 1);
        assert_eq!(table.forget_udp_flows(&changes.stale_flows()).await.unwrap(), 0);
    });
}

#[test]
fn a_udp_flow_moves_when_its_endpoint_is_gone_by_a_replacement() {
    let machine = Machine::new(3);
    machine.serve_udp();
    machine.host.block_on(|| async {
        let (before, after) =
            (service(udp("10.96.0.1:53"), &[1]), service(udp("10.96.0.1:53"), &[2]));
        let table = table_with(&before).await;
        let client = udp_client(&machine.pods[0], "10.96.0.1:53");
        assert_eq!(ask(&client).unwrap(), 1);
        let changes = table.replace(&after).await.unwrap();
        assert_eq!(changes, RuleChanges::between(&before, &after));
        assert_eq!(table.forget_udp_flows(&changes.stale_flows()).await.unwrap(), 1);
        assert_eq!(ask(&client).unwrap(), 2);
    });
}

/// The engine that changed the rules was killed before it had the kernel forget.
#[test]
fn a_udp_flow_that_an_engine_before_has_left_moves_and_others_stay() {
    let machine = Machine::new(3);
    machine.serve_udp();
    machine.host.block_on(|| async {
        let elements = |endpoint| {
            let mut elements = service(udp("10.96.0.1:53"), &[endpoint]);
            elements.extend(service(udp("0.0.0.0:30053"), &[endpoint]));
            elements.extend(service(udp("10.96.0.2:53"), &[1]));
            elements
        };
        let table = table_with(&elements(1)).await;
        let clients = [
            udp_client(&machine.pods[0], "10.96.0.1:53"),
            udp_client(&machine.outside, "192.0.2.1:30053"),
        ];
        let bystander = udp_client(&machine.pods[0], "10.96.0.2:53");
        assert!(clients.iter().chain([&bystander]).all(|client| ask(client).unwrap() == 1));
        table.replace(&elements(2)).await.unwrap();
        let changes = table.replace(&elements(2)).await.unwrap();
        assert!(changes.is_empty() && clients.iter().all(|client| ask(client).unwrap() == 1));
        let forgotten = table.forget_stray_udp_flows(elements(2)).await.unwrap();
        assert_eq!(forgotten, clients.len());
        assert!(clients.iter().all(|client| ask(client).unwrap() == 2));
        assert_eq!(ask(&bystander).unwrap(), 1);
        assert_eq!(table.forget_stray_udp_flows(elements(2)).await.unwrap(), 0);
    });
}
