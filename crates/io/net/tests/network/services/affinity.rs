//! Clients that stay with their endpoint (`sessionAffinity: ClientIP`).

use std::collections::BTreeSet;

use rekindle_services::RuleChanges;

use crate::services::support::*;

const TIME_S: u32 = 600;

#[test]
fn a_client_stays_with_its_endpoint_and_moves_only_when_that_goes() {
    let machine = Machine::new(4);
    machine.serve_tcp();
    machine.host.block_on(|| async {
        for frontend in [tcp("10.96.0.1:80"), tcp("192.0.2.1:30080")] {
            let to = format!("{}:{}", frontend.address, frontend.port);
            // the second is a NodePort
            let any = frontend.port == 30080;
            let frontend = if any { tcp("0.0.0.0:30080") } else { frontend };
            let before = sticky_service(frontend, &[1, 2, 3], TIME_S);
            let table = table_with(&before).await;
            let reached = |times: usize| -> BTreeSet<usize> {
                (0..times).map(|_| connect(&machine.pods[0], &to).unwrap().pod).collect()
            };
            let first = reached(30);
            assert_eq!(first.len(), 1, "{to}");
            // others come and go, numbers change: nothing to the client
            let [mine] = first.iter().copied().collect::<Vec<_>>()[..] else { unreachable!() };
            let mut others: Vec<usize> = (1..4).filter(|pod| *pod != mine).collect();
            let one_less = sticky_service(frontend, &[others[0], mine], TIME_S);
            table.apply(&RuleChanges::between(&before, &one_less)).await.unwrap();
            assert_eq!(reached(30), first, "{to}");
            // not even a replacement of the whole table
            table.replace(&one_less).await.unwrap();
            assert_eq!(reached(30), first, "{to}");
            // its endpoint goes
            let without = sticky_service(frontend, &others, TIME_S);
            table.apply(&RuleChanges::between(&one_less, &without)).await.unwrap();
            let second = reached(30);
            assert!(second.len() == 1 && second != first, "{to}: {second:?}");
            // and comes back: the client stays where it is
            others.push(mine);
            let back = sticky_service(frontend, &others, TIME_S);
            table.apply(&RuleChanges::between(&without, &back)).await.unwrap();
            assert_eq!(reached(30), second, "{to}");
        }
    });
}

#[test]
fn the_host_is_a_client_as_others_and_each_client_may_have_its_own_endpoint() {
    let machine = Machine::new(12);
    machine.serve_tcp();
    machine.host.block_on(|| async {
        let _table = table_with(&sticky_service(tcp("10.96.0.1:80"), &[0, 1], TIME_S)).await;
        let endpoints_of = |from| -> BTreeSet<usize> {
            (0..10).map(|_| connect(from, "10.96.0.1:80").unwrap().pod).collect()
        };
        assert_eq!(endpoints_of(&machine.host).len(), 1);
        let mut all = BTreeSet::new();
        for pod in &machine.pods {
            let endpoints = endpoints_of(pod);
            assert_eq!(endpoints.len(), 1);
            all.extend(endpoints);
        }
        // the odds that all clients got the same one are 1 in 2,048
        assert_eq!(all.len(), 2);
    });
}

#[test]
fn after_its_time_a_client_goes_anywhere() {
    let machine = Machine::new(3);
    machine.serve_tcp();
    machine.host.block_on(|| async {
        let _table = table_with(&sticky_service(tcp("10.96.0.1:80"), &[1, 2], 1)).await;
        let client = &machine.pods[0];
        let first = connect(client, "10.96.0.1:80").unwrap().pod;
        // the kernel tells when it has forgotten
        let remembers = || machine.host.run("nft", "list map inet rekindle-rktest0 affinity");
        assert!(remembers().contains("expires"));
        let mut moved = false;
        for _ in 0..40 {
            while remembers().contains("expires") {}
            moved |= connect(client, "10.96.0.1:80").unwrap().pod != first;
            if moved {
                break;
            }
        }
        assert!(moved);
    });
}
