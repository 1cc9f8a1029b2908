//! What came of a scenario, under all policies that it was played under: for programs and as a
//! table.

use std::fmt::Write as _;

use rekindle_types::TickDuration;
use serde_json::{Value, json};

use crate::outcome::PolicyOutcome;
use crate::scenario::Scenario;

const HEADS: [&str; 9] = [
    "POLICY",
    "RESTARTS",
    "STARTS",
    "RUNGS",
    "READY",
    "UNAVAILABLE",
    "RECOVERY",
    "WRITES/MIN",
    "EVENTS/MIN",
];

/// What came of a scenario.
#[derive(Clone, Debug)]
pub struct ScenarioReport {
    seed: u64,
    duration: TickDuration,
    /// What the scenario does, and when.
    marks: Vec<(TickDuration, String)>,
    /// What in the scenario has no effect.
    without_effect: Vec<String>,
    /// By policy, in the order they were played.
    pub outcomes: Vec<PolicyOutcome>,
}

impl ScenarioReport {
    /// A report without outcomes.
    pub const fn new(seed: u64, duration: TickDuration) -> Self {
        Self { seed, duration, marks: Vec::new(), without_effect: Vec::new(), outcomes: Vec::new() }
    }

    /// The same with what the scenario does and when, for the plots.
    pub fn from_scenario(seed: u64, scenario: &Scenario) -> Self {
        let (marks, without_effect) = (scenario.marks(), scenario.without_effect());
        Self { marks, without_effect, ..Self::new(seed, scenario.duration()) }
    }

    pub(crate) fn marks(&self) -> &[(TickDuration, String)] {
        &self.marks
    }

    /// What somebody who wrote the scenario may want to know: parts of it had no effect.
    pub fn notes(&self) -> Vec<String> {
        let never = self.in_all(|outcome| &outcome.unused_behaviours);
        let never =
            never.map(|index| format!("spec.behaviours[{index}] chose no start of a container"));
        let unseen = self.in_all(|outcome| &outcome.unseen_readiness);
        let unseen = unseen.map(|index| {
            format!("spec.behaviours[{index}] says when containers are ready, and none that it chose has a readiness probe")
        });
        let mut notes: Vec<String> =
            self.without_effect.iter().cloned().chain(never).chain(unseen).collect();
        for outcome in &self.outcomes {
            let idle = outcome.idle_ladders.iter();
            let idle = idle.map(|ladder| match self.outcomes.len() {
                1 => format!("RestartLadder {ladder} selected no pod"),
                _ => format!("{}: RestartLadder {ladder} selected no pod", outcome.policy),
            });
            let warnings =
                outcome.warnings.iter().map(|warning| format!("the API warns of {warning}"));
            for note in idle.chain(warnings) {
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
        notes
    }

    /// The numbers that all outcomes have in this list.
    fn in_all(&self, list: fn(&PolicyOutcome) -> &[usize]) -> impl Iterator<Item = usize> {
        let first = self.outcomes.first().map(list).into_iter().flatten().copied();
        first.filter(move |index| self.outcomes.iter().all(|of| list(of).contains(index)))
    }

    /// For programs. `restarts` is that of the first policy.
    pub fn to_json(&self) -> Value {
        json!({
            "seed": self.seed,
            "seconds": self.duration.as_micros() / 1_000_000,
            "restarts": self.outcomes.first().map(|first| first.restarts),
            "notes": self.notes(),
            "policies": self.outcomes.iter().map(PolicyOutcome::to_json).collect::<Vec<_>>(),
        })
    }

    /// For people.
    pub fn table(&self) -> String {
        let rows = self.rows();
        let width = |column: usize| {
            rows.iter().map(|row: &Vec<String>| row[column].chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
        let mut text = String::new();
        for row in &rows {
            let cells = row.iter().zip(&widths).enumerate();
            let cells = cells.map(|(column, (cell, width))| match column {
                0 => format!("{cell:width$}"),
                _ => format!("{cell:>width$}"),
            });
            let line = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
            line.expect("a string takes everything");
        }
        for outcome in &self.outcomes {
            if let Some(most) = outcome.most_restarted() {
                let line = writeln!(text, "{}: restarts by pod: {most}", outcome.policy);
                line.expect("a string takes everything");
            }
        }
        for outcome in &self.outcomes {
            if let Some(broken) = &outcome.broken_promise {
                let line = writeln!(text, "{}: a promise was broken: {broken}", outcome.policy);
                line.expect("a string takes everything");
            }
        }
        for note in self.notes() {
            writeln!(text, "note: {note}").expect("a string takes everything");
        }
        text
    }

    pub(crate) const fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) const fn duration(&self) -> TickDuration {
        self.duration
    }

    /// The table: its heads, then a row for each policy.
    pub(crate) fn rows(&self) -> Vec<Vec<String>> {
        let heads = HEADS.map(str::to_owned).to_vec();
        std::iter::once(heads).chain(self.outcomes.iter().map(PolicyOutcome::row)).collect()
    }
}
