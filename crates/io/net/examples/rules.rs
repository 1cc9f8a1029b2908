//! How long the kernel takes for the rules of Services. Run as root; it works in a network
//! namespace of its own. Arguments: Services and endpoints of each, 5000 and 5 otherwise.
#![allow(clippy::disallowed_methods, reason = "a measurement needs a clock and processes")]

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;
use std::time::Instant;

use rekindle_net::rules::{
    LoopbackNodePorts, PodEgress, RuleTable, RuleTableConfig, TableOwnership,
};
use rekindle_services::{
    EndpointPick, Frontend, RuleChanges, RuleElement, RuleElements, TransportProtocol,
};

const CHANGES: usize = 2000;

fn frontend(number: u32) -> Frontend {
    let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 96, 0, 1)) + number).into();
    Frontend { address, protocol: TransportProtocol::Tcp, port: 80 }
}

fn service(number: u32, endpoints: u16) -> RuleElements {
    let frontend = frontend(number);
    let endpoint = |index: u16| {
        let address =
            u32::from(Ipv4Addr::new(10, 88, 0, 2)) + (number * 5 + u32::from(index)) % 60_000;
        SocketAddr::from((Ipv4Addr::from(address), 8080))
    };
    let of_endpoint = |index| {
        let endpoint = endpoint(index);
        [
            RuleElement::Endpoint(frontend.into(), index, endpoint),
            RuleElement::Hairpin(endpoint.ip()),
        ]
    };
    let count = NonZeroU16::new(endpoints).expect("more than none");
    let pick =
        RuleElement::Pick(frontend.into(), EndpointPick { endpoints: count, sticky_s: None });
    (0..endpoints).flat_map(of_endpoint).chain([pick]).collect()
}

fn show(what: &str, mut millis: Vec<f64>) {
    millis.sort_by(f64::total_cmp);
    let at = |part: f64| millis[((millis.len() - 1) as f64 * part) as usize];
    println!("{what:44} median {:.3} p99 {:.3} max {:.3} ms", at(0.5), at(0.99), at(1.0));
}

fn slab_kib() -> i64 {
    let memory = std::fs::read_to_string("/proc/meminfo").expect("Linux has it");
    let line = memory.lines().find(|line| line.starts_with("Slab:")).expect("Linux has it");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

fn main() {
    let arguments: Vec<u32> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let services = arguments.first().copied().unwrap_or(5000);
    let endpoints = arguments.get(1).copied().and_then(|n| u16::try_from(n).ok()).unwrap_or(5);
    // this thread only, before there are others
    enter_new_namespace();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(measure(services, endpoints));
}

fn enter_new_namespace() {
    // by way of a process: to unshare in this one needs unsafe code
    let mut holder = std::process::Command::new("unshare")
        .args(["--net", "sh", "-c", "echo made; exec cat"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("unshare (util-linux) and root");
    let mut line = String::new();
    let output = holder.stdout.as_mut().expect("it is a pipe");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line)
        .expect("the holder writes a line");
    let namespace = std::fs::File::open(format!("/proc/{}/ns/net", holder.id()));
    rustix::thread::move_into_link_name_space(
        std::os::fd::AsFd::as_fd(&namespace.expect("the holder lives")),
        Some(rustix::thread::LinkNameSpaceType::Network),
    )
    .expect("root may enter");
    drop(holder.kill());
    drop(holder.wait());
}

async fn measure(services: u32, endpoints: u16) {
    let config = RuleTableConfig {
        bridge: "rkbench0".to_owned(),
        pods: "10.88.0.0/16".parse().expect("a subnet"),
        services: Some("10.96.0.0/14".parse().expect("a subnet")),
        ipv6: None,
        egress: PodEgress::Masquerade,
        loopback_node_ports: LoopbackNodePorts::Serve,
        ownership: TableOwnership::Exclusive,
    };
    let elements: RuleElements =
        (0..services).flat_map(|number| service(number, endpoints)).collect();
    println!("{services} Services of {endpoints} endpoints, {} elements", elements.len());
    let table = RuleTable::open(config).expect("open");
    let slab = slab_kib();
    let timed = async |what: &str, elements: &RuleElements| {
        let begin = Instant::now();
        table.replace(elements).await.expect("replace");
        show(what, vec![begin.elapsed().as_secs_f64() * 1e3]);
    };
    timed("full state, no table before", &elements).await;
    println!("{:44} {} KiB", "kernel memory of it (slab)", slab_kib() - slab);
    timed("full state, renewed in place", &elements).await;
    let begin = Instant::now();
    assert_eq!(table.read_back().await.expect("read back"), elements);
    show("read back", vec![begin.elapsed().as_secs_f64() * 1e3]);
    let (mut out, mut back) = (Vec::new(), Vec::new());
    for round in 0..CHANGES {
        let number = (round as u32 * 7) % services;
        let (all, fewer) = (service(number, endpoints), service(number, endpoints - 1));
        for (times, before, after) in [(&mut out, &all, &fewer), (&mut back, &fewer, &all)] {
            let changes = RuleChanges::between(before, after);
            let begin = Instant::now();
            table.apply(&changes).await.expect("apply");
            times.push(begin.elapsed().as_secs_f64() * 1e3);
        }
    }
    show("an endpoint goes", out);
    show("an endpoint comes", back);
    let begin = Instant::now();
    table.remove().await.expect("remove");
    show("removal", vec![begin.elapsed().as_secs_f64() * 1e3]);
}
