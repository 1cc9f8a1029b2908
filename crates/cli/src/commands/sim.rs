//! `rekindle sim FILE`: plays a scenario in virtual time and prints what came of it.

use std::process::ExitCode;

use anyhow::Context;
use rekindle_sim::{Policy, Report, Scenario};
use rekindle_types::TickDuration;

use crate::args::{Sim, SimOutput};
use crate::manifests::read_all;

/// Carries the command out. Exit code 1 when a promise was broken.
pub fn run(args: &Sim) -> anyhow::Result<ExitCode> {
    let documents = read_all(std::slice::from_ref(&args.scenario))?;
    let mut scenario = Scenario::from_documents(documents)
        .with_context(|| format!("scenario {}", args.scenario.display()))?;
    if let Some(duration) = args.duration {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        scenario.set_duration(TickDuration::from_micros(micros)).context("--for")?;
    }
    let mut policies = match args.ladder.is_empty() {
        true => vec![Policy::AsWritten],
        false => vec![Policy::NoLadder],
    };
    for file in &args.ladder {
        let ladders = read_all(std::slice::from_ref(file))?;
        let policy = Policy::ladders(&file.display().to_string(), ladders);
        policies.push(policy.with_context(|| format!("ladder {}", file.display()))?);
    }
    let mut report = Report::new(args.seed, scenario.duration());
    for policy in &policies {
        report.outcomes.push(scenario.play(args.seed, policy)?);
    }
    match args.output {
        SimOutput::Table => print!("{}", report.table()),
        SimOutput::Json => println!("{}", serde_json::to_string_pretty(&report.to_json())?),
    }
    let kept = report.outcomes.iter().all(|outcome| outcome.broken_promise.is_none());
    Ok(if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
