//! The table of figures: what a user feels, measured on the real binary through its API, beside the
//! peers that are installed.
//!
//! `cargo xtask bench` runs all of it, `cargo xtask bench restarts` only that part. It asserts
//! nothing: machines differ, and a slow run is not a wrong one.
#![allow(
    clippy::disallowed_methods,
    unreachable_pub,
    reason = "a benchmark measures time and drives processes"
)]

mod api_load;
mod app;
mod crowd;
mod engine;
mod handover;
mod idle;
mod machine;
mod node_api;
mod peers;
mod probes;
mod restarts;
mod rollout;
mod sample;
mod startup;

use engine::Engine;
use sample::Report;

/// What can be measured by itself.
const PARTS: [&str; 10] = [
    "startup", "restarts", "idle", "rollout", "crowd", "probes", "node-api", "handover", "load",
    "peers",
];

fn main() -> anyhow::Result<()> {
    let named: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if let Some(unknown) = named.iter().find(|name| !PARTS.contains(&name.as_str())) {
        anyhow::bail!("there is no part {unknown:?} to measure, only {}", PARTS.join(", "));
    }
    let wanted = |part: &str| named.is_empty() || named.iter().any(|name| name == part);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut report = Report::default();
    let machine = machine::describe();
    println!("{machine}");
    runtime.block_on(async {
        if wanted("startup") {
            startup::measure(&mut report).await?;
        }
        if wanted("restarts") || wanted("idle") {
            let engine = Engine::start().await?;
            if wanted("restarts") {
                restarts::measure(&engine, &mut report).await?;
            }
            if wanted("idle") {
                idle::measure(&engine, &mut report).await?;
            }
        }
        if wanted("rollout") {
            rollout::measure(&mut report).await?;
        }
        if wanted("crowd") {
            crowd::measure(&mut report).await?;
        }
        if wanted("probes") {
            probes::measure(&mut report).await?;
        }
        if wanted("node-api") {
            node_api::measure(&mut report).await?;
        }
        if wanted("handover") {
            handover::measure(&mut report).await?;
        }
        if wanted("load") {
            let engine = Engine::start().await?;
            api_load::measure(&engine, &mut report).await?;
        }
        anyhow::Ok(())
    })?;
    if wanted("peers") {
        peers::measure(&mut report);
    }
    println!("{machine}");
    report.print();
    Ok(())
}
