//! The project's daily commands: `cargo xtask test`, `cargo xtask ci`, `cargo xtask bench`, `cargo
//! xtask sim`, `cargo xtask fuzz`, `cargo xtask nightly`, `cargo xtask vm`, `cargo xtask words`,
//! `cargo xtask book`.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "a build tool is all IO")]

mod bench;
mod image;
mod krew;
mod tools;
mod vm;
mod words;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use clap::Parser;

/// The project's daily commands.
#[derive(Parser)]
enum Task {
    /// Fetch the test tools when missing, build, and run every test, or those that are named
    Test {
        /// Passed on to `cargo nextest run`: names, or such as -E 'package(rekindle-pod)'
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// What CI runs: format, lints, licences and bans, the book, then every test, 300 seeds of
    /// `sim`, and `vm` where qemu is installed
    Ci,
    /// Boot a small virtual machine that has cgroup version 2 only, and run the examples in it
    Vm {
        /// The program to run there [default: a release build]
        #[arg(long, value_name = "FILE")]
        binary: Option<PathBuf>,
    },
    /// Play the simulator's campaigns on all cores, and show the first that breaks a promise;
    /// docs/sim-campaigns.md
    Sim {
        /// From the first to the one before the last, such as 1..10000; from one on (1..); or one
        #[arg(long, value_name = "A..B", default_value = "1..1000")]
        seeds: String,
        /// No longer than this, such as 2h
        #[arg(long = "for", value_name = "TIME")]
        time: Option<String>,
    },
    /// Measure how plainly documents, names, comments and log lines speak; fails when one got worse
    Words {
        /// List every place that keeps a measure above its goal
        #[arg(long)]
        places: bool,
    },
    /// Render the documents as a book, into target/book
    Book,
    /// Print the table of figures, beside the peers that are installed
    Bench {
        /// Write what was measured into this file
        #[arg(long, value_name = "FILE", default_value = "target/figures.json")]
        save: PathBuf,
        /// Compare with what an earlier run has written; fails when a figure got worse
        #[arg(long, value_name = "FILE")]
        compare: Option<PathBuf>,
        /// Measure these parts alone
        parts: Vec<String>,
    },
    /// Build the container image of the operator and the agent, as an OCI archive
    Image(image::Options),
    /// Write the manifest by which krew installs the kubectl plugin, from archives of a release
    Krew(krew::Options),
    /// Look for an input that makes a target of crates/app/fuzz panic; docs/adr/0080
    Fuzz {
        /// The name of the target, such as requests
        target: String,
        /// How long to look, in seconds
        #[arg(long = "for", value_name = "SECONDS", default_value_t = 600)]
        seconds: u32,
    },
    /// What to run each night: properties with many cases, then campaigns of the simulator
    Nightly {
        /// How long the campaigns go on
        #[arg(long = "for", value_name = "TIME", default_value = "2h")]
        time: String,
    },
}

fn main() -> anyhow::Result<()> {
    match Task::parse() {
        Task::Test { args } => test(&args),
        Task::Ci => {
            cargo(["fmt", "--all", "--check"])?;
            words::check(false)?;
            cargo(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])?;
            run(tools::cargo_deny()?.arg("check").args(["bans", "licenses", "sources"]))?;
            book()?;
            test(&[])?;
            // it prints how many of them it plays in a minute
            sim("1..301", None)?;
            if tools::has_qemu() {
                // what the tests have just built: another build would take longer than everything
                // else
                vm::smoke(Some(tools::target_dir().join("debug/rekindle")))
            } else {
                eprintln!("cgroup version 2 is not tried: {} is not installed", tools::QEMU);
                Ok(())
            }
        }
        Task::Vm { binary } => vm::smoke(binary),
        Task::Sim { seeds, time } => sim(&seeds, time.as_deref()),
        Task::Book => book(),
        Task::Words { places } => words::check(places),
        Task::Image(options) => image::pack(&options),
        Task::Krew(options) => krew::write(&options),
        Task::Bench { save, compare, parts } => measure(&save, compare.as_deref(), &parts),
        Task::Fuzz { target, seconds } => fuzz(&target, seconds),
        Task::Nightly { time } => nightly(&time),
    }
}

/// Tests at the same time: most of those that drive containers wait.
const THREADS_PER_CORE: usize = 3;

/// The package of the simulator.
const SIMULATOR: &str = "rekindle-sim";
/// The profile that it is built with: Cargo.toml says why.
const CAMPAIGNS: &str = "campaigns";

/// Plays seeds with every assertion, and code that is optimised a little: in a debug build there
/// are not a tenth as many in a minute.
fn sim(seeds: &str, time: Option<&str>) -> anyhow::Result<()> {
    run(cargo_command()
        .args(["run", "--profile", CAMPAIGNS, "--quiet", "--locked"])
        .args(["--package", SIMULATOR, "--example", "seeds", "--", seeds])
        .args(time))
}

/// Writes what it measures into the file `save`, and compares it with the file `earlier`.
fn measure(save: &Path, earlier: Option<&Path>, parts: &[String]) -> anyhow::Result<()> {
    // read first: both may be the same file
    let earlier = earlier.map(bench::read).transpose()?;
    let save = std::path::absolute(save)?;
    run(cargo_command().args(["build", "--release", "--locked", "--package", "rekindle"]))?;
    run(cargo_command()
        .args(["bench", "--locked", "--package", "rekindle", "--bench", "figures", "--"])
        .arg("--save")
        .arg(&save)
        .args(parts))?;
    earlier.map_or(Ok(()), |earlier| bench::check(&earlier, &bench::read(&save)?))
}

/// New inputs are kept in `fuzz/corpus`, one that panics in `fuzz/artifacts`. Without a sanitizer:
/// the code that is fuzzed has no `unsafe`, and a stable compiler builds it so.
fn fuzz(target: &str, seconds: u32) -> anyhow::Result<()> {
    let kept = tools::root().join("crates/app/fuzz/corpus").join(target);
    if !kept.is_dir() {
        bail!("there is no target {target:?}: see {}", kept.with_file_name("").display());
    }
    let found = tools::root().join("fuzz/corpus").join(target);
    std::fs::create_dir_all(&found)?;
    run(tools::cargo_fuzz()?
        .args(["run", "--sanitizer", "none", target])
        .args([&found, &kept])
        .arg("--")
        .arg(format!("-max_total_time={seconds}"))
        .args(["-max_len=16384", "-timeout=30", "-rss_limit_mb=4096"])
        .current_dir(tools::root()))
}

/// Each night has seeds of its own.
fn nightly(time: &str) -> anyhow::Result<()> {
    run(cargo_command()
        .args(["test", "--profile", CAMPAIGNS, "--locked", "--no-fail-fast"])
        .args(["--package", "rekindle-pod", "--package", "rekindle-pod-driver"])
        .args(["--package", "rekindle-ladder", "--package", "rekindle-store"])
        .env("PROPTEST_CASES", "10000"))?;
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let night = since_1970.as_secs() / (24 * 3600);
    sim(&format!("{}..", night * 10_000), Some(time))
}

/// A page that the summary names and that is missing fails it.
fn book() -> anyhow::Result<()> {
    run(tools::mdbook()?.arg("build").arg(tools::root()))
}

fn test(args: &[String]) -> anyhow::Result<()> {
    let kubectl = tools::kubectl()?;
    let registry = tools::registry()?;
    let containerd = tools::containerd()?;
    tools::debian_packages()?;
    let python_client = tools::python_client()?;
    let threads = THREADS_PER_CORE * std::thread::available_parallelism()?.get();
    let mut nextest = tools::cargo_nextest()?;
    nextest
        .args(["nextest", "run", "--locked"])
        .env("NEXTEST_TEST_THREADS", threads.to_string())
        .env("REKINDLE_TEST_KUBECTL", kubectl)
        .env("REKINDLE_TEST_REGISTRY", registry)
        .env("REKINDLE_TEST_CONTAINERD", containerd)
        .env("REKINDLE_TEST_PYTHON_CLIENT", python_client);
    // It builds the binary that the black-box tests drive, too, and all of it before the first test
    // runs. To build that alone first would be to build half of the workspace twice: a few
    // dependencies have further features in tests. `.config/nextest.toml` has the rest.
    nextest.arg("--workspace");
    if !args.is_empty() {
        return run(nextest.args(args));
    }
    let mut build = at_lowest_priority(simulator_tests()?.args(["--no-run", "--cargo-quiet"]));
    let mut build = build.spawn().with_context(|| format!("run {}", describe(&build)))?;
    let others = run(nextest.args(["-E", &format!("not package({SIMULATOR})")]));
    // what it found wrong is said again by the run that needs it
    build.wait()?;
    others.and(run(&mut simulator_tests()?))
}

/// Unoptimised, the simulator's tests take as long as a third of all others.
fn simulator_tests() -> anyhow::Result<Command> {
    let mut nextest = tools::cargo_nextest()?;
    nextest
        .args(["nextest", "run", "--locked", "--cargo-profile", CAMPAIGNS])
        .args(["--package", SIMULATOR]);
    Ok(nextest)
}

/// The same command, on what others leave of the processor: tests on containers mostly wait.
fn at_lowest_priority(command: &Command) -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", "19"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nice.env(name, value),
            None => nice.env_remove(name),
        };
    }
    nice
}

fn cargo<const N: usize>(args: [&str; N]) -> anyhow::Result<()> {
    run(cargo_command().args(args))
}

/// Cargo, as a user would call it.
fn cargo_command() -> Command {
    as_user_would(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// A program that calls cargo, as a user would call it. The variables that cargo sets for this
/// program are taken away: build scripts look at some of them (ring's at `CARGO_PKG_NAME`), and
/// would run again, with all that depends on them, at each change between here and a shell.
fn as_user_would(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let is_of_package = ["CARGO_PKG_", "CARGO_MANIFEST_"]
            .iter()
            .any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes()));
        if is_of_package {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command and fails with its name when it fails.
fn run(command: &mut Command) -> anyhow::Result<()> {
    let text = describe(command);
    eprintln!("+ {text}");
    let status = command.status().with_context(|| format!("run {text}"))?;
    if !status.success() {
        bail!("{text}: {status}");
    }
    Ok(())
}

fn describe(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ")
}
