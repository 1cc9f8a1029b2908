//! What one request costs: `cargo run --release -p rekindle-flow-control --example cost`.
#![allow(clippy::disallowed_methods, reason = "it measures the crate, which itself has no clock")]

use std::hint::black_box;
use std::time::Instant;

use rekindle_flow_control::{
    FlowAdmission, FlowArrival, FlowConfiguration, FlowControl, RequestDigest, RequestTarget,
    SERVER_SEATS, defaults,
};
use rekindle_types::Tick;

const REQUESTS: u64 = 1_000_000;

fn main() {
    let schemas = [defaults::mandatory_schemas(), defaults::suggested_schemas()].concat();
    let levels = [defaults::mandatory_levels(), defaults::suggested_levels()].concat();
    let configuration = FlowConfiguration::new(&schemas, &levels);
    let authenticated = "system:authenticated".to_owned();
    for (user, group) in [
        ("admin", "system:masters"),
        ("system:node:a", "system:nodes"),
        ("system:serviceaccount:shop:web", "system:serviceaccounts"),
        ("ann", "people"),
    ] {
        let groups = [group.to_owned(), authenticated.clone()];
        let mut control = FlowControl::new(SERVER_SEATS, &configuration);
        let nanos = |since: Instant| since.elapsed().as_nanos();
        let target = RequestTarget::Resource {
            verb: "get",
            group: "",
            resource: "pods",
            subresource: "",
            namespace: "shop",
        };
        let digest = RequestDigest { user, groups: &groups, target };
        let begun = Instant::now();
        for _ in 0..REQUESTS {
            black_box(configuration.classify(black_box(&digest)));
        }
        let classifying = nanos(begun);
        let class = configuration.classify(&digest);
        let begun = Instant::now();
        for number in 0..REQUESTS {
            let now = Tick::from_micros(number);
            let arrival = FlowArrival { level: class.level(), flow: class.flow(), width: 1 };
            let FlowAdmission::Seated(seat) = control.arrive(now, arrival) else {
                panic!("a server without load has seats")
            };
            control.finished(now, seat);
        }
        let seating = nanos(begun);
        println!(
            "{user}: {} ns to classify by {}, {} ns for a seat",
            classifying / u128::from(REQUESTS),
            class.schema(),
            seating / u128::from(REQUESTS),
        );
    }
}
