//! How long it takes to plug a sandbox into the network. Run as root; the bridge is in a namespace
//! of its own. Prints medians [minimum to maximum] in milliseconds.
#![allow(clippy::disallowed_methods, reason = "a measurement needs a clock and processes")]

use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rekindle_net::{BridgeNetwork, NetworkConfig, SubnetChoice};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

const ROUNDS: usize = 60;

fn namespace() -> (Child, PathBuf) {
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", "echo made; exec cat"]);
    let mut holder = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("unshare (util-linux) and root");
    let mut line = String::new();
    let output = holder.stdout.as_mut().expect("it is a pipe");
    BufReader::new(output).read_line(&mut line).expect("the holder writes a line");
    let path = PathBuf::from(format!("/proc/{}/ns/net", holder.id()));
    (holder, path)
}

fn show(what: &str, mut millis: Vec<f64>) {
    millis.sort_by(f64::total_cmp);
    let (low, middle, high) = (millis[0], millis[millis.len() / 2], millis[millis.len() - 1]);
    println!("{what:32} {middle:6.2} [{low:.2} to {high:.2}] ms");
}

fn main() {
    let (mut host, path) = namespace();
    let namespace_file = std::fs::File::open(&path).expect("the holder lives");
    move_into_link_name_space(namespace_file.as_fd(), Some(LinkNameSpaceType::Network))
        .expect("root may enter");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(measure());
    drop(host.kill());
    drop(host.wait());
}

async fn measure() {
    let state_dir = std::env::temp_dir().join(format!("rekindle-attach-{}", std::process::id()));
    let config = NetworkConfig {
        bridge: "rkbench0".to_owned(),
        subnet: SubnetChoice::Auto,
        ipv6: None,
        share: rekindle_net::BridgeShare::Owner,
        state_dir: state_dir.clone(),
        mtu: 1500,
    };
    let begin = Instant::now();
    let network = BridgeNetwork::open(config).await.expect("open");
    show("open", vec![begin.elapsed().as_secs_f64() * 1e3]);
    let pods: Vec<(Child, PathBuf)> = (0..ROUNDS).map(|_| namespace()).collect();
    let (mut first, mut again) = (Vec::new(), Vec::new());
    for (round, (_, path)) in pods.iter().enumerate() {
        let id = format!("pod{round}/0");
        for times in [&mut first, &mut again] {
            let begin = Instant::now();
            network.attach(&id, path).await.expect("attach");
            times.push(begin.elapsed().as_secs_f64() * 1e3);
        }
    }
    show("attach", first);
    show("attach repeated", again);
    let begin = Instant::now();
    for round in 0..ROUNDS {
        network.detach(&format!("pod{round}/0"));
    }
    show("detach as its caller sees it", vec![begin.elapsed().as_secs_f64() * 1e3 / ROUNDS as f64]);
    let begin = Instant::now();
    network.settle().await;
    show(
        "deletion in the background, each",
        vec![begin.elapsed().as_secs_f64() * 1e3 / ROUNDS as f64],
    );
    network.close().await.expect("close");
    drop(std::fs::remove_dir_all(state_dir));
    for (mut holder, _) in pods {
        drop(holder.kill());
        drop(holder.wait());
    }
}
