//! `rekindle sim FILE`: plays a scenario in virtual time and prints what came of it.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use rekindle_sim::{Scenario, ScenarioPolicy, ScenarioReport};
use rekindle_types::TickDuration;

use crate::args::{Sim, SimOutput};
use crate::manifests::read_all;
use crate::output;

/// So often the bar shows how long it has taken, whether or not virtual time goes on.
const TICK: Duration = Duration::from_millis(200);
const TEMPLATE: &str = "{msg} [{wide_bar}] {percent}% ({elapsed})";

/// Carries the command out. Exit code 1 when a promise was broken.
pub fn run(args: &Sim) -> anyhow::Result<ExitCode> {
    let documents = read_all(std::slice::from_ref(&args.scenario))?;
    let mut scenario = Scenario::from_documents(documents)
        .with_context(|| format!("scenario {}", args.scenario.display()))?;
    if let Some(duration) = args.duration {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        scenario.set_duration("--for", TickDuration::from_micros(micros))?;
    }
    if let Some(nodes) = args.nodes {
        scenario.set_nodes("--nodes", nodes)?;
    }
    let mut policies = match args.ladder.is_empty() {
        true => vec![ScenarioPolicy::AsWritten],
        false => vec![ScenarioPolicy::NoLadder],
    };
    for file in &args.ladder {
        let ladders = read_all(std::slice::from_ref(file))?;
        let policy = ScenarioPolicy::ladders(&file.display().to_string(), ladders);
        policies.push(policy.with_context(|| format!("ladder {}", file.display()))?);
    }
    let mut report = ScenarioReport::from_scenario(args.seed, &scenario);
    for policy in &policies {
        let progress = progress(&scenario, policy);
        let mut told = |gone: TickDuration| progress.set_position(gone.as_secs());
        let outcome = scenario.play_told(args.seed, policy, &mut told);
        progress.finish_and_clear();
        match outcome {
            Ok(outcome) => report.outcomes.push(outcome),
            Err(error) => {
                // what was played took its time: it is not lost for that
                if !report.outcomes.is_empty() {
                    show(&report, &args.output)?;
                }
                let (file, policy) = (args.scenario.display(), policy.name());
                return Err(error).with_context(|| format!("scenario {file}, {policy}"));
            }
        }
    }
    show(&report, &args.output)?;
    let kept = report.outcomes.iter().all(|outcome| outcome.broken_promise.is_none());
    Ok(if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(report: &ScenarioReport, output: &SimOutput) -> anyhow::Result<()> {
    let text = match output {
        SimOutput::Table => report.table(),
        SimOutput::Html => report.html(),
        SimOutput::Json => format!("{}\n", serde_json::to_string_pretty(&report.to_json())?),
    };
    output::print(&text).context("write the report")
}

/// How much virtual time has gone by; nothing where nobody looks on.
fn progress(scenario: &Scenario, policy: &ScenarioPolicy) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(TEMPLATE)
        .expect("the template is a constant that a test reads");
    let bar = ProgressBar::new(scenario.duration().as_secs())
        .with_style(style)
        .with_message(policy.name().to_owned());
    // many pods may take long at the very beginning
    bar.tick();
    bar.enable_steady_tick(TICK);
    bar
}

#[cfg(test)]
mod tests {
    use indicatif::ProgressStyle;

    #[test]
    fn the_bar_s_template_is_one() {
        assert!(ProgressStyle::with_template(super::TEMPLATE).is_ok());
    }
}
