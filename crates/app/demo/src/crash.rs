//! `demo crash`: ends with an error after a while, on a schedule over several starts, or when a
//! file is there.

use std::path::PathBuf;
use std::time::Duration;

use crate::{DemoError, Termination, duration};

/// Crash after a while, on a schedule, or when a file is there.
#[derive(Clone, Debug, clap::Args)]
pub struct Crash {
    /// How long it runs before it crashes
    #[arg(long, value_parser = duration, default_value = "100ms")]
    after: Duration,
    /// The exit code of the crash
    #[arg(long, default_value_t = 1)]
    exit_code: u8,
    /// Crash only when this file is there; otherwise go on running
    #[arg(long)]
    if_file: Option<PathBuf>,
    /// Run this long on the first start, this long on the second, …; after the last one go on
    /// running. Needs --counter
    #[arg(long, value_delimiter = ',', value_parser = duration, requires = "counter", conflicts_with = "if_file")]
    schedule: Vec<Duration>,
    /// The file that counts the starts of --schedule; put it on a volume
    #[arg(long, requires = "schedule")]
    counter: Option<PathBuf>,
}

impl Crash {
    pub(crate) async fn run(self) -> Result<u8, DemoError> {
        let mut termination = Termination::listen()?;
        let crash_after = self.crash_after()?;
        let reason = match &self.if_file {
            Some(file) => format!("{} is there", file.display()),
            None => "asked to".to_owned(),
        };
        match crash_after {
            Some(after) => tokio::select! {
                () = tokio::time::sleep(after) => {
                    eprintln!("crash: {reason}");
                    Ok(self.exit_code)
                }
                name = termination.next() => {
                    println!("got {name}, ended");
                    Ok(0)
                }
            },
            None => {
                println!("running: nothing to crash for");
                let name = termination.next().await;
                println!("got {name}, ended");
                Ok(0)
            }
        }
    }

    /// When to crash; `None` is never.
    fn crash_after(&self) -> Result<Option<Duration>, DemoError> {
        if let Some(counter) = &self.counter {
            let start = count_start(counter)?;
            return Ok(self.schedule.get(start).copied());
        }
        match &self.if_file {
            Some(file) if !file.exists() => Ok(None),
            Some(_) | None => Ok(Some(self.after)),
        }
    }
}

/// How many starts there were before this one; counts this one.
fn count_start(counter: &PathBuf) -> Result<usize, DemoError> {
    let before = std::fs::read_to_string(counter)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0);
    std::fs::write(counter, format!("{}\n", before + 1))
        .map_err(|source| DemoError::Write { path: counter.display().to_string(), source })?;
    Ok(before)
}
