//! `rekindle up`: starts the engine, applies manifests, and shows what happens; or leaves the engine in the background.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::args::Up;
use crate::engine::data_dir::DataDir;
use crate::engine::{EndSignals, Ending, Engine, preflight};
use crate::{client, live, manifests};

/// Tells the re-executed process that its standard input is the line on which it reports to the one that started it.
const BACKGROUND: &str = "REKINDLE_BACKGROUND";
/// The report of an engine that is ready; anything else is the error that ended it.
const READY: &str = "ready";

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
    let runtime = event_loop()?;
    runtime.block_on(async {
        let mut signals = EndSignals::listen()?;
        let mut engine = Engine::start(args, DataDir::hold(&args.data_dir.data_dir)?).await?;
        engine.announce();
        let (client, clock) = (engine.client().clone(), engine.clock());
        let shown = async move {
            manifests::apply_all(&client, objects).await?;
            live::follow(client, clock).await;
            anyhow::Ok(())
        };
        let ended = tokio::select! {
            ended = engine.end_signal(&mut signals) => ended?,
            failed = shown => {
                // A bad manifest must not leave half an application running unseen: say so, and end.
                if let Err(error) = failed {
                    engine.stop(Ending::EndPods).await?;
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
    std::fs::create_dir_all(&args.data_dir.data_dir)
        .with_context(|| format!("create folder {}", args.data_dir.data_dir.display()))?;
    let log = open_log(&log_path)?;
    let (ours, theirs) = UnixStream::pair().context("make the report line")?;
    let mut child = Command::new(std::env::current_exe().context("find this program")?)
        .args(engine_arguments())
        .env(BACKGROUND, "1")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(log.try_clone().context("share the log")?)
        .stderr(log)
        .spawn()
        .context("start the engine")?;
    let mut report = String::new();
    BufReader::new(ours).read_line(&mut report).context("read the engine's report")?;
    match report.trim_end() {
        READY => {}
        "" => {
            let status = child.wait().context("wait for the engine")?;
            bail!("the engine ended ({status}) before it was ready; see {}", log_path.display());
        }
        error => {
            child.wait().context("wait for the engine")?;
            bail!("{error}");
        }
    }
    println!("engine {} runs in the background", child.id());
    client::block_on(async {
        let kubeconfig = args.data_dir.data_dir.join("kubeconfig");
        println!("export KUBECONFIG={}", kubeconfig.display());
        if let Some(links) = crate::plugin::hint() {
            println!("{links}");
        }
        let client = client::connect_with(&kubeconfig).await?;
        manifests::apply_all(&client, objects).await
    })?;
    Ok(ExitCode::SUCCESS)
}

/// This process's arguments without the manifests, which the foreground process applies, and without --detach.
fn engine_arguments() -> Vec<std::ffi::OsString> {
    let mut arguments = Vec::new();
    let mut given = std::env::args_os().skip(1);
    while let Some(argument) = given.next() {
        let text = argument.to_string_lossy();
        if text == "-f" || text == "--filename" {
            given.next();
        } else if text != "--detach" && !text.starts_with("--filename=") && !text.starts_with("-f")
        {
            arguments.push(argument);
        }
    }
    arguments
}

/// The background half of `--detach`: a session of its own, no terminal, reports once on standard input's socket.
fn run_in_background(args: &Up) -> anyhow::Result<ExitCode> {
    init_log("info");
    let mut report = UnixStream::from(
        std::io::stdin().as_fd().try_clone_to_owned().context("take the report line")?,
    );
    rustix::process::setsid().context("leave the terminal's session")?;
    let runtime = event_loop()?;
    runtime.block_on(async {
        let mut signals = EndSignals::listen()?;
        let started = async { Engine::start(args, DataDir::hold(&args.data_dir.data_dir)?).await };
        let mut engine = match started.await {
            Ok(engine) => engine,
            Err(error) => {
                writeln!(report, "{}", format!("{error:#}").replace('\n', " "))?;
                return Err(error);
            }
        };
        // The starter may have been killed meanwhile; the engine runs all the same.
        let _ = writeln!(report, "{READY}");
        drop(report);
        let ending = engine.end_signal(&mut signals).await?;
        engine.stop(ending).await?;
        Ok(ExitCode::SUCCESS)
    })
}

fn open_log(path: &Path) -> anyhow::Result<std::fs::File> {
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("open {}", path.display()))
}

fn event_loop() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(std::thread::available_parallelism().map_or(2, |cores| cores.get().min(4)))
        .enable_all()
        .build()
        .context("start the event loop")
}

fn init_log(default: &str) {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}
