//! A run of the benchmark beside an earlier one. Machines differ from day to day, so each figure is
//! judged at the pace of the peers that both runs measured.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, bail};
use serde::Deserialize;

/// A figure that is worse by less than this is noise.
const NOISE: f64 = 0.10;

/// What `--save` wrote.
#[derive(Deserialize)]
pub(crate) struct Run {
    machine: String,
    figures: Vec<Figure>,
}

/// One line of the benchmark's table.
#[derive(Clone, Deserialize)]
struct Figure {
    what: String,
    value: f64,
    /// The middle half of the samples lies between them. Both are the value when it is the only
    /// sample.
    quartiles: [f64; 2],
    better: Better,
    /// It measures another program, not ours.
    peer: bool,
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
enum Better {
    Less,
    More,
}

/// What the comparison of two runs says.
pub(crate) struct Comparison {
    /// A table for people.
    pub(crate) text: String,
    /// The figures that got worse.
    pub(crate) worse: Vec<String>,
}

/// Reads a file that `cargo xtask bench --save FILE` wrote.
pub(crate) fn read(file: &Path) -> anyhow::Result<Run> {
    let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} is no run that `bench --save` wrote", file.display()))
}

/// Fails when a figure got worse by more than noise.
pub(crate) fn check(before: &Run, now: &Run) -> anyhow::Result<()> {
    let Comparison { text, worse } = compare(before, now);
    println!("{text}");
    if !worse.is_empty() {
        bail!("worse than before: {}", worse.join("; "));
    }
    Ok(())
}

fn compare(before: &Run, now: &Run) -> Comparison {
    let pace = pace(before, now);
    let mut text = format!("before: {}\nnow:    {}\n", before.machine, now.machine);
    let _ = match pace {
        Some(pace) => writeln!(text, "The peers take {pace:.2} × the time they took before."),
        None => writeln!(text, "No peer was measured in both runs: the machine's pace is unknown."),
    };
    let mut worse = Vec::new();
    for figure in now.figures.iter().filter(|figure| !figure.peer) {
        let Some(earlier) = find(before, &figure.what) else {
            let _ = writeln!(text, "{}: {:.2}, not measured before", figure.what, figure.value);
            continue;
        };
        let is_worse = figure.is_worse_than(&earlier.at_pace(pace.unwrap_or(1.0)));
        let mark = if is_worse { "  WORSE" } else { "" };
        let (old, new) = (earlier.value, figure.value);
        let _ = writeln!(text, "{}: {old:.2} -> {new:.2}{mark}", figure.what);
        if is_worse {
            worse.push(figure.what.clone());
        }
    }
    for gone in before.figures.iter().filter(|figure| find(now, &figure.what).is_none()) {
        let _ = writeln!(text, "{}: {:.2}, not measured now", gone.what, gone.value);
    }
    Comparison { text, worse }
}

fn find<'a>(run: &'a Run, what: &str) -> Option<&'a Figure> {
    run.figures.iter().find(|figure| figure.what == what)
}

/// How much longer the peers take than before: the median of them.
fn pace(before: &Run, now: &Run) -> Option<f64> {
    let peers = now.figures.iter().filter(|figure| figure.peer);
    let mut ratios: Vec<f64> =
        peers.filter_map(|peer| Some(peer.value / find(before, &peer.what)?.value)).collect();
    ratios.sort_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied()
}

impl Figure {
    /// As it would have been on a machine on which all takes `pace` times as long. Memory does not
    /// depend on it; to take it into account all the same only widens what counts as noise.
    fn at_pace(&self, pace: f64) -> Self {
        let factor = match self.better {
            Better::Less => pace,
            Better::More => 1.0 / pace,
        };
        let quartiles = self.quartiles.map(|value| value * factor);
        Self { value: self.value * factor, quartiles, ..self.clone() }
    }

    /// Beyond noise: the medians are apart, and the middle halves of both do not overlap.
    fn is_worse_than(&self, before: &Self) -> bool {
        match self.better {
            Better::Less => {
                self.value > before.value * (1.0 + NOISE) && self.quartiles[0] > before.quartiles[1]
            }
            Better::More => {
                self.value < before.value * (1.0 - NOISE) && self.quartiles[1] < before.quartiles[0]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(figures: &[(&str, f64, f64, Better, bool)]) -> Run {
        let figure =
            |&(what, value, spread, better, peer): &(&str, f64, f64, Better, bool)| Figure {
                what: what.to_owned(),
                value,
                quartiles: [value - spread, value + spread],
                better,
                peer,
            };
        Run { machine: "a machine".to_owned(), figures: figures.iter().map(figure).collect() }
    }

    fn worse(before: &Run, now: &Run) -> Vec<String> {
        compare(before, now).worse
    }

    #[test]
    fn a_figure_beyond_noise_is_worse_in_its_own_direction() {
        let before = run(&[
            ("kill", 4.0, 0.2, Better::Less, false),
            ("creates", 1000.0, 0.0, Better::More, false),
        ]);
        let slower = run(&[
            ("kill", 5.0, 0.2, Better::Less, false),
            ("creates", 800.0, 0.0, Better::More, false),
        ]);
        assert_eq!(worse(&before, &slower), ["kill", "creates"]);
        assert_eq!(worse(&slower, &before), Vec::<String>::new());
    }

    #[test]
    fn overlapping_samples_and_small_changes_are_noise() {
        let before = run(&[("kill", 4.0, 1.0, Better::Less, false)]);
        assert!(worse(&before, &run(&[("kill", 5.0, 1.0, Better::Less, false)])).is_empty());
        let before = run(&[("rss", 34.0, 0.0, Better::Less, false)]);
        assert!(worse(&before, &run(&[("rss", 37.0, 0.0, Better::Less, false)])).is_empty());
    }

    #[test]
    fn a_slower_machine_is_told_by_its_peers() {
        let before = run(&[
            ("kill", 4.0, 0.2, Better::Less, false),
            ("runc", 23.0, 1.0, Better::Less, true),
        ]);
        let now = run(&[
            ("kill", 5.2, 0.2, Better::Less, false),
            ("runc", 31.0, 1.0, Better::Less, true),
        ]);
        let found = compare(&before, &now);
        assert!(found.worse.is_empty(), "{}", found.text);
        assert!(found.text.contains("1.35 ×"), "{}", found.text);
    }

    #[test]
    fn what_only_one_run_measured_is_named_and_not_judged() {
        let before = run(&[("gone", 1.0, 0.0, Better::Less, false)]);
        let found = compare(&before, &run(&[("new", 9.0, 0.0, Better::Less, false)]));
        assert!(found.worse.is_empty());
        assert!(found.text.contains("gone: 1.00, not measured now"), "{}", found.text);
        assert!(found.text.contains("new: 9.00, not measured before"), "{}", found.text);
    }
}
