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

mod api;
mod app;
mod crowd;
mod engine;
mod handover;
mod idle;
mod large_cluster;
mod machine;
mod no_loss;
mod node_api;
mod peers;
mod probes;
mod rates;
mod restarts;
mod rollout;
mod sample;
mod services;
mod slice_writes;
mod startup;

use std::path::PathBuf;

use clap::Parser;
use engine::Engine;
use sample::Report;

#[derive(Parser)]
struct Arguments {
    /// Measure these parts alone
    #[arg(value_parser = PARTS)]
    parts: Vec<String>,
    /// Also write what was measured, for a comparison
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Cargo says so
    #[arg(long, hide = true)]
    bench: bool,
}

/// What can be measured by itself.
const PARTS: [&str; 12] = [
    "startup",
    "restarts",
    "idle",
    "rollout",
    "crowd",
    "services",
    "probes",
    "node-api",
    "handover",
    "api",
    "large-cluster",
    "peers",
];

fn main() -> anyhow::Result<()> {
    let Arguments { parts, save, bench: _ } = Arguments::parse();
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|name| name == part);
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
        if wanted("services") {
            services::measure(&mut report).await?;
            no_loss::measure(&mut report).await?;
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
        if wanted("api") {
            api::measure(&mut report).await?;
        }
        if wanted("large-cluster") {
            large_cluster::measure(&mut report).await?;
        }
        anyhow::Ok(())
    })?;
    if wanted("peers") {
        peers::measure(&mut report);
    }
    println!("{machine}");
    report.print();
    save.map_or(Ok(()), |file| report.save(&file, &machine))
}
