//! The `rekindle` binary: wiring and nothing else.
#![forbid(unsafe_code)]
#![warn(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "they panic where nobody reads any more: `output`"
)]
#![allow(
    clippy::disallowed_methods,
    unreachable_pub,
    reason = "the binary does the IO, and `pub` in it means: for the other modules"
)]

mod args;
mod background;
mod backup;
mod client;
mod cluster_guard;
mod commands;
mod engine;
mod exhausted_webhook;
mod footprint;
mod holder;
mod kubeconfig;
mod live;
mod manifests;
mod monitoring;
mod nodes;
mod output;
mod plugin;
mod process_limits;
mod target;
mod unix_socket;

use std::process::ExitCode;

use clap::Parser;
use rekindle_types::causes;

use args::{Cli, Command, ImageCommand, StoreCommand};

fn main() -> ExitCode {
    let cli = Cli::parse_from(plugin::arguments(std::env::args_os()));
    let result = match cli.command {
        Command::Up(up) => commands::up::run(*up),
        Command::Down(down) => commands::down::run(&down),
        Command::Status(status) => commands::status::run(&status),
        Command::Restart(restart) => commands::restart::run(&restart),
        Command::Why(why) => commands::why::run(&why),
        Command::Sim(sim) => commands::sim::run(&sim),
        Command::Crds => commands::crds::run(),
        Command::Image(ImageCommand::Load(load)) => commands::image::load(&load),
        Command::Image(ImageCommand::Pull(pull)) => commands::image_pull::run(&pull),
        Command::Image(ImageCommand::Rm(rm)) => commands::image::remove(&rm),
        Command::Image(ImageCommand::List(list)) => commands::image::list(&list),
        Command::Node(command) => commands::node::run(&command),
        Command::Backup(backup) => commands::backup::run(&backup),
        Command::Restore(restore) => commands::restore::run(&restore),
        Command::Kubeconfig(command) => commands::kubeconfig::run(&command),
        Command::TokenKey(command) => commands::token_key::run(&command),
        Command::Store(StoreCommand::Check(check)) => commands::store_check::run(&check),
        Command::Controllers(controllers) => commands::controllers::run(&controllers),
        Command::Operator(operator) => commands::operator::run(&operator),
        Command::Agent(agent) => commands::agent::run(&agent),
        Command::Report(report) => commands::report::run(&report),
        Command::NodeAgent(agent) => nodes::agent::run(&agent),
        Command::ClusterDns(process) => engine::cluster_dns::run(&process),
        Command::Demo(demo) => rekindle_demo::run(demo).map(ExitCode::from).map_err(Into::into),
    };
    result.unwrap_or_else(|error| {
        output::note(format!("rekindle: {}", causes(&*error)));
        ExitCode::FAILURE
    })
}
