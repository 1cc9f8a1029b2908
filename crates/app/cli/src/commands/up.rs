//! `rekindle up`: starts the engine, applies manifests, and shows what happens; or leaves the
//! engine in the background.

use std::ffi::OsString;
use std::process::ExitCode;

use rekindle_node::AgentStopMode;
use serde_json::Value;

use crate::args::{EXHAUSTED_WEBHOOK, Up};
use crate::background::{self, ParentReport, event_loop, init_log};
use crate::engine::data_dir::DataDir;
use crate::engine::{EndSignals, Engine, preflight};
use crate::{client, footprint, live, manifests, output, process_limits};

/// Tells the re-executed process that its standard input is the line on which it reports to the one
/// that started it.
const BACKGROUND: &str = "REKINDLE_BACKGROUND";

/// Carries the command out.
pub fn run(args: Up) -> anyhow::Result<ExitCode> {
    if std::env::var_os(BACKGROUND).is_some() {
        return run_in_background(&args);
    }
    preflight::check()?;
    let objects = manifests::read_all(&args.filename)?;
    if args.detach { detach(&args, objects) } else { run_here(&args, objects) }
}

/// Engine, manifests and table in this process, until Ctrl-C.
fn run_here(args: &Up, objects: Vec<Value>) -> anyhow::Result<ExitCode> {
    init_log("warn");
    process_limits::take();
    let runtime = event_loop()?;
    runtime.block_on(async {
        let mut signals = EndSignals::listen()?;
        let mut engine = Engine::start(args, DataDir::hold(&args.data_dir.data_dir)?).await?;
        engine.announce();
        footprint::shrink_after_start();
        let (client, clock) = (engine.client().clone(), engine.clock());
        let shown = async move {
            manifests::apply_all(&client, objects).await?;
            live::follow(client, clock).await;
            anyhow::Ok(())
        };
        let ended = tokio::select! {
            ended = engine.end_signal(&mut signals) => ended?,
            failed = shown => {
                // A bad manifest must not leave half an application running unseen: say so, and
                // end.
                if let Err(error) = failed {
                    engine.stop(AgentStopMode::EndPods).await?;
                    return Err(error);
                }
                engine.end_signal(&mut signals).await?
            }
        };
        engine.stop(ended).await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Starts the engine in a process of its own, waits for its report, applies the manifests to it.
fn detach(args: &Up, objects: Vec<Value>) -> anyhow::Result<ExitCode> {
    let log_path = args.data_dir.data_dir.join("engine.log");
    DataDir::prepare(&args.data_dir.data_dir)?;
    let mut command = background::this_program()?;
    command.args(engine_arguments(std::env::args_os().skip(1))).env(BACKGROUND, "1");
    if let Some(url) = &args.exhausted.exhausted_webhook {
        command.env(EXHAUSTED_WEBHOOK, url);
    }
    let child = background::start("engine", command, &log_path)?.wait()?;
    output::tell(format!("engine {} runs in the background", child.id()));
    client::block_on(async {
        let kubeconfig = std::path::absolute(args.data_dir.data_dir.join("kubeconfig"))?;
        output::tell(format!("export KUBECONFIG={}", kubeconfig.display()));
        if let Some(hint) = crate::plugin::hint() {
            output::tell(hint);
        }
        let client = client::connect_with(&kubeconfig).await?;
        manifests::apply_all(&client, objects).await
    })?;
    Ok(ExitCode::SUCCESS)
}

/// This process's arguments for the engine in the background: without --detach and the manifests,
/// which the foreground process applies, and without the webhook's URL, which may hold a secret.
/// Every user of the machine can read the engine's arguments for as long as it runs.
fn engine_arguments(mut given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    const WITH_VALUE: [&str; 3] = ["-f", "--filename", "--exhausted-webhook"];
    const LEFT_OUT: [&str; 3] = ["-f", "--filename=", "--exhausted-webhook="];
    let mut arguments = Vec::new();
    while let Some(argument) = given.next() {
        let text = argument.to_string_lossy();
        if WITH_VALUE.contains(&&*text) {
            given.next();
        } else if text != "--detach" && !LEFT_OUT.iter().any(|start| text.starts_with(start)) {
            arguments.push(argument);
        }
    }
    arguments
}

/// The background half of `--detach`: a session of its own, no terminal, reports once.
fn run_in_background(args: &Up) -> anyhow::Result<ExitCode> {
    init_log("info");
    let report = ParentReport::take()?;
    process_limits::take();
    let runtime = event_loop()?;
    runtime.block_on(async {
        let mut signals = EndSignals::listen()?;
        let started = async { Engine::start(args, DataDir::hold(&args.data_dir.data_dir)?).await };
        let mut engine = report.send(started.await)?;
        footprint::shrink_after_start();
        let ending = engine.end_signal(&mut signals).await?;
        engine.stop(ending).await?;
        Ok(ExitCode::SUCCESS)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_in_the_background_has_neither_manifests_nor_the_webhooks_url_among_its_arguments()
    {
        let given = [
            "up",
            "--detach",
            "-f",
            "app.yaml",
            "-fother.yaml",
            "--filename=third.yaml",
            "--exhausted-webhook",
            "https://hooks.example/secret",
            "--exhausted-webhook=https://hooks.example/secret",
            "--exhausted-webhook-ca",
            "ca.pem",
            "--data-dir=/srv",
        ];
        let left = engine_arguments(given.into_iter().map(OsString::from));
        assert_eq!(left, ["up", "--exhausted-webhook-ca", "ca.pem", "--data-dir=/srv"]);
    }
}
