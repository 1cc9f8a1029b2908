//! The program of the built-in image `localhost/demo`: `rekindle demo` by itself, small and static,
//! so that it starts at once and needs nothing beside it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use rekindle_demo::Demo;

/// An app that misbehaves on demand
#[derive(Parser)]
#[command(name = "demo", version)]
struct Args {
    #[command(subcommand)]
    demo: Demo,
}

fn main() -> anyhow::Result<ExitCode> {
    Ok(rekindle_demo::run(Args::parse().demo)?.into())
}
