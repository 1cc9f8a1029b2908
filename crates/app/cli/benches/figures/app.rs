//! The app of the measured pods, run without any engine: what of a restart is its own.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};

/// Runs so many at once: how long until the last has written its first line, and from SIGTERM until
/// the last has ended.
pub fn start_and_stop(app: &Path, count: usize) -> anyhow::Result<(Duration, Duration)> {
    let begun = Instant::now();
    let mut apps = (0..count).map(|_| spawn(app)).collect::<anyhow::Result<Vec<Child>>>()?;
    for app in &mut apps {
        let output = app.stdout.as_mut().context("its output")?;
        BufReader::new(output).read_line(&mut String::new())?;
    }
    let started = begun.elapsed();
    let begun = Instant::now();
    for app in &apps {
        kill_process(Pid::from_child(app), Signal::TERM)?;
    }
    for app in &mut apps {
        app.wait()?;
    }
    Ok((started, begun.elapsed()))
}

fn spawn(app: &Path) -> anyhow::Result<Child> {
    Command::new(app)
        .arg("signal")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("start the app")
}
