//! How long one pod's change takes under many NetworkPolicies. Run as root; it makes a table for a
//! bridge that does not exist, and removes it. Argument: policies, 1000 otherwise.
#![allow(clippy::disallowed_methods, reason = "a measurement needs a clock")]

use std::net::Ipv4Addr;
use std::time::Instant;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use rekindle_net::rules::{PolicyTable, TableOwnership};
use rekindle_network_policy::{NetworkPolicies, PeerPod};
use rekindle_types::NamespacedName;
use serde_json::json;

const CHANGES: u32 = 1000;

fn policy(number: u32) -> NetworkPolicy {
    let next = format!("app-{}", number + 1);
    serde_json::from_value(json!({
        "metadata": { "namespace": "shop", "name": format!("p-{number}") },
        "spec": {
            "podSelector": { "matchLabels": { "app": format!("app-{number}") } },
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{ "from": [{ "podSelector": { "matchLabels": { "app": next } } }],
                "ports": [{ "port": 8080 }] }],
            "egress": [{ "to": [{ "ipBlock": { "cidr": "192.0.2.0/24" } }] }],
        },
    }))
    .expect("a policy")
}

fn pod(number: u32, app: u32) -> (NamespacedName, PeerPod) {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "labels": { "app": format!("app-{app}") } },
        "spec": { "containers": [] },
    }))
    .expect("a pod");
    let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 88, 0, 2)) + number);
    let name = NamespacedName::new("shop", format!("pod-{number}"));
    (name, PeerPod::at(&pod, [address.into()]).expect("it has a network of its own"))
}

fn main() {
    let policies = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(1000);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async move { measure(policies) });
}

fn measure(policies: u32) {
    let table =
        PolicyTable::open("rkbench1", rekindle_types::IpStack::Single, TableOwnership::Exclusive)
            .expect("open");
    let mut wanted = NetworkPolicies::default();
    let listed = (0..policies).map(policy);
    let named = |policy: NetworkPolicy| {
        let name = policy.metadata.name.clone().unwrap_or_default();
        (NamespacedName::new("shop", name), policy)
    };
    wanted.set_policies(&listed.map(named).collect());
    wanted.set_pods((0..policies).map(|number| pod(number, number)).collect());
    let begin = Instant::now();
    table.replace(&wanted.elements()).expect("replace");
    let elements = wanted.elements().len();
    println!("{policies} policies, {elements} elements: {:?}", begin.elapsed());
    for (what, first_of_its_class) in [("a pod of a known class", false), ("of a new one", true)] {
        let (mut decisions, mut times) = (Vec::new(), Vec::new());
        for round in 0..CHANGES {
            let app = round % policies;
            if first_of_its_class {
                let (name, _) = pod(app, app);
                table.apply(&wanted.set_pod(&name, None)).expect("apply");
            }
            let (name, new) = match first_of_its_class {
                true => pod(app, app),
                false => pod(policies + round, app),
            };
            let begin = Instant::now();
            let changes = wanted.set_pod(&name, Some(new));
            decisions.push(begin.elapsed().as_secs_f64() * 1e3);
            table.apply(&changes).expect("apply");
            times.push(begin.elapsed().as_secs_f64() * 1e3);
            if !first_of_its_class {
                table.apply(&wanted.set_pod(&name, None)).expect("apply");
            }
        }
        for (part, times) in [("decided", &mut decisions), ("in the kernel", &mut times)] {
            times.sort_by(f64::total_cmp);
            let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
            let (median, p99, max) = (at(0.5), at(0.99), at(1.0));
            println!("{what}, {part}: median {median:.3} p99 {p99:.3} max {max:.3} ms");
        }
    }
    table.remove().expect("remove");
}
